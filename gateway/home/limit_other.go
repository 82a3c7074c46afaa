//go:build !linux

package home

// socketPathMax is sun_path of the BSDs and macOS without its NUL.
const socketPathMax = 103
