// Package event is what the audit log means: the typed events, their one canonical form, and the two folds, Sessions and
// Activity. It is pure: no I/O, no clock, no key.
package event
