// Package wrap is `sp mcp -- CMD`: a supervised MCP server between its host and the gateway.
//
// The wrapper launches the server and passes lines; the gateway measures what was launched, makes the epoch and decides on
// every tools/call. Lines go through as the bytes that came, in both directions. Only two things are changed: the answer to
// initialize or server/discover says `listChanged: true` of its tools, because the wrapper tells of catalog changes itself,
// and subscriptions/listen is served here. What the wrapper itself asks of the server carries ids that begin with
// "sallyport-", and is never seen by the host.
//
// One goroutine, the loop in wrapper.go, owns all state. Readers, waiters and requests to the gateway are goroutines that
// hand their news to it. Nothing that was given to a server is ever given to another one: a call whose server died is
// answered with what is known, and only the handshake is repeated.
package wrap
