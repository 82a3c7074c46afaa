// Package demo is `spd demo`: the whole story on embedded defaults, in a temporary folder, on loopback alone.
//
// Nothing in it is played. The gateway is the one that spd serves, with both its doors; the HTTPS service and the SSH
// host are servers that check what they are sent; the agent is a process of its own with an MCP client that somebody
// else wrote, over the shim that every client gets. The demo's own process is the operator, and never a run.
//
// The story gathers evidence, step by step; the table in judge.go says what must be true of it. Run ends with 0 only if
// every check held. Evidence that was never gathered fails its checks: zero means no.
package demo
