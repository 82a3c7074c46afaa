package main_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// agentCrash is a client whose shim outlives it: the shim's stdin is a FIFO, of which nothing tells who writes into it, and
// a helper holds it open. It calls TOOL with ARGS over raw MCP, says `tell called`, and waits to be killed. The shim's
// answers go to the file answers.
func agentCrash(tool, args string) error {
	if err := syscall.Mkfifo("input", 0o600); err != nil {
		return err
	}
	r, err := os.OpenFile("input", os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	w, err := os.OpenFile("input", os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	out, err := os.Create("answers")
	if err != nil {
		return err
	}
	shim := exec.Command("sp", "mcp")
	shim.Stdin, shim.Stdout, shim.Stderr = r, out, os.Stderr
	helper := exec.Command("agent", "survive", tool, args)
	helper.ExtraFiles = []*os.File{w}
	if err := shim.Start(); err != nil {
		return err
	}
	if err := helper.Start(); err != nil {
		return err
	}
	r.Close()
	fmt.Fprintln(w, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"a","version":"1"}}}`)
	fmt.Fprintln(w, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":%q,"arguments":%s}}`+"\n", tool, args)
	if err := answered(2); err != nil {
		return err
	}
	if err := meet("tell", "called"); err != nil {
		return err
	}
	time.Sleep(patience)
	return fmt.Errorf("nobody killed the client")
}

// agentSurvive is the helper: after `hear revive` it sends one more call through the shim, whose client is gone by then.
func agentSurvive(tool, args string) error {
	w := os.NewFile(3, "stdin of the shim")
	if err := meet("hear", "revive"); err != nil {
		return err
	}
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":%q,"arguments":%s}}`+"\n", tool, args)
	if err := answered(3); err != nil {
		return err
	}
	if err := meet("tell", "called"); err != nil {
		return err
	}
	return meet("hear", "end")
}

// answered waits until the shim has written the answer to a request.
func answered(id int) error {
	end := time.Now().Add(patience)
	for time.Now().Before(end) {
		b, err := os.ReadFile("answers")
		if err != nil {
			return err
		}
		if bytes.Contains(b, fmt.Appendf(nil, `"id":%d,`, id)) {
			return nil
		}
		time.Sleep(5 * time.Millisecond)
	}
	return fmt.Errorf("request %d was not answered", id)
}
