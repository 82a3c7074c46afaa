package sshexec

import "strings"

// quote wraps s in single quotes for a POSIX shell: nothing inside is special
// but the quote itself (POSIX.1-2024 XCU 2.2.2). Everything is quoted, also a
// plain word, so that no alias, keyword or assignment is ever recognised.
func quote(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// quoteAll is the line for an argv.
func quoteAll(argv []string) string {
	var b strings.Builder
	for i, a := range argv {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(quote(a))
	}
	return b.String()
}

// sameInEveryShell reports whether quote(s) means s in fish and csh too: fish
// takes a backslash as an escape inside single quotes, csh expands "!" there and
// refuses a newline.
func sameInEveryShell(s string) bool {
	for _, r := range s {
		if r < 0x20 || r == 0x7f || r == '\\' || r == '!' {
			return false
		}
	}
	return true
}
