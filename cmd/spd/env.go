package main

import "strings"

// allowedEnv keeps the variables that say where the user's folders are and how to write to a terminal. Everything else
// could change what this program does.
func allowedEnv(env []string) []string {
	allowed := map[string]bool{"HOME": true, "USER": true, "LOGNAME": true, "LANG": true, "TERM": true, "TMPDIR": true,
		"NO_COLOR": true, "SALLYPORT_HOME": true, "XDG_DATA_HOME": true, "XDG_CONFIG_HOME": true, "XDG_RUNTIME_DIR": true,
		"SALLYPORT_NARROWED": true, "DBUS_SESSION_BUS_ADDRESS": true} // of which vault/keychain takes a socket's path alone
	var out []string
	for _, kv := range env {
		if name, _, _ := strings.Cut(kv, "="); allowed[name] {
			out = append(out, kv)
		}
	}
	return out
}
