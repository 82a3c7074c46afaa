//go:build !linux

package main_test

import "os"

// programs are what scripts start besides sp and spd.
func programs() map[string]func() {
	return map[string]func(){"agent": func() { os.Exit(agentMain(os.Args[1:])) }}
}

// manage has no stage to manage here.
func manage([]string) int { return 1 }
