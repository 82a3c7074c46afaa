// Package stamp holds what the linker writes into a release. It imports nothing, so that whatever runs first can read it.
package stamp

// Version is a release's (-X sallyport/cmd/internal/release/stamp.Version=1.2.3); "" in a build that nobody numbered.
var Version string

// Unreleased is what such a build calls itself.
const Unreleased = "dev"
