// Package auditlog keeps the audit log: frames, chain, commits. It knows bytes, not events.
package auditlog
