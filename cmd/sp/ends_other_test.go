//go:build !linux

package main

import "testing"

// endsOnce is of what is read before main, which is nothing here.
func endsOnce(*testing.T, string) {}
