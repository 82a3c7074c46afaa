// Package before has `sp mcp` begin before the program's other packages are initialised. cmd/sp alone imports it: spd links
// the shim too, as `spd sp mcp`, and must not answer to `spd mcp`.
package before

import "sallyport/cmd/internal/mcpshim/first"

func init() { first.Begin() }
