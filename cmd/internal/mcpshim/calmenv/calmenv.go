// Package calmenv makes MCPGODEBUG and GODEBUG have no effect on a program that imports it.
//
// The MCP SDK reads MCPGODEBUG while its packages are initialised and panics on a malformed value: main is too late, and
// any environment could stop the shim, or turn mended behaviour back. Go initialises packages in the order of their import
// paths, each as soon as its imports are ready. This package therefore imports syscall alone: it is ready before "os" and
// "strings", which the SDK's reader of the variable imports. A test of mcpshim holds the order.
//
// Removing GODEBUG also tells the runtime, which goes back to the settings that the program was built with.
package calmenv

import "syscall"

func init() {
	for _, key := range [...]string{"MCPGODEBUG", "GODEBUG"} {
		if err := syscall.Unsetenv(key); err != nil {
			panic("remove " + key + ": " + err.Error())
		}
	}
}
