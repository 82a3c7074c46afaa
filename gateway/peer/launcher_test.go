package peer

import (
	"strings"
	"testing"
)

func TestLaunches(t *testing.T) {
	for _, tc := range []struct {
		exe, args string // args by |
		want      bool
	}{
		{"/bin/sh", "sh|-c|sp mcp", true},
		{"/usr/bin/bash", "bash|-lc|sp mcp", true},
		{"/usr/bin/bash", "bash|--norc|-o|pipefail|-c|sp mcp", true},
		{"/usr/bin/bash", "bash|--rcfile|-c|script", false},
		{"/usr/bin/bash", "-bash", false},
		{"/usr/bin/bash", "bash|-i", false},
		{"/usr/bin/bash", "bash|script.sh|-c", false},
		{"/usr/bin/bash", "bash|--|-c", false},
		{"/usr/bin/zsh", "zsh|-o|extendedglob|script|-c", false},
		{"/usr/bin/fish", "fish|--command=sp mcp", true},
		{"/usr/bin/dash (deleted)", "sh|-ec|sp", true},
		{"/usr/bin/bash", "", false},
		{"/bin/busybox", "sh|-c|sp", true},
		{"/bin/busybox", "busybox|sh|-c|sp", true},
		{"/bin/busybox", "-sh", false},
		{"/bin/busybox", "env|sp", true},
		{"/usr/bin/env", "env|sp", true},
		{"/home/u/.local/bin/uvx", "uvx|server", true},
		{"/home/u/.local/bin/uv", "uv|run|server", true},
		{"/usr/bin/node", "npm exec @scope/server", true},
		{"/usr/bin/node", "node|/usr/bin/npx|-y|server", true},
		{"/usr/bin/node", "node|--no-warnings|/usr/lib/node_modules/npm/bin/npx-cli.js|server", true},
		{"/usr/bin/node", "node|/opt/pnpm.cjs|dlx|server", true},
		{"/usr/bin/node", "node|/opt/client/cli.js|npx", false},
		{"/usr/bin/node", "claude", false},
		{"/usr/bin/node", "npmish exec", false},
		{"/usr/bin/bun", "bun|x|server", true},
		{"/usr/bin/python3.12", "python3|/usr/bin/pipx|run|server", true},
		{"/usr/bin/python3.12", "python3|agent.py", false},
		{"/opt/agent", "agent|-c", false},
		{"", "sh|-c|sp", false},
	} {
		var args []string
		if tc.args != "" {
			args = strings.Split(tc.args, "|")
		}
		if got := launches(tc.exe, args); got != tc.want {
			t.Errorf("%s %q: %v", tc.exe, args, got)
		}
	}
}
