// Package authz decides, from values alone, whether a call may go on. It does no I/O, has no clock and no context.
package authz
