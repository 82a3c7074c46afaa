//go:build !linux

package home

// socketPathMax is sun_path of the BSDs and macOS without its NUL.
const socketPathMax = 103

// systemRuntime is where a gateway under its own uid listens: on macOS /var/run is no folder of root's alone.
const systemRuntime = "/Library/Application Support/Sallyport/run"
