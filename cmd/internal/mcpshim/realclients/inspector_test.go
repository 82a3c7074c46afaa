package realclients_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// inspectorEnv makes this test binary a driver of MCP Inspector. It has two faces without a browser: mcpdo, whose daemon
// holds a connection on which each further mcpdo makes one call, and mcp-inspector --cli, which starts a server for each.
// The driver speaks the lines of testdata/sdk.mjs. Neither face asks for progress or has a limit for a call that could be
// set, and the daemon goes on with a call whose mcpdo is interrupted; docs/mcp-clients.md says so.
const inspectorEnv = "SALLYPORT_TEST_INSPECTOR"

// toolFailed is the exit code of a call whose result is an error.
const toolFailed = 5

type inspector struct {
	server []string
	dir    string // of the daemon: its socket, its files, its HOME

	mu     sync.Mutex
	flying map[int]*exec.Cmd
}

// inspectorDriver serves wishes until stdin ends.
func inspectorDriver(server []string) error {
	dir, err := os.MkdirTemp(os.Getenv("SALLYPORT_HOME"), "mi") // which the test removes
	if err != nil {
		return err
	}
	i := &inspector{server: server, dir: dir, flying: map[int]*exec.Cmd{}}
	hail, err := i.connect()
	if err != nil {
		return err
	}
	say(hail)
	for in := bufio.NewReader(os.Stdin); ; {
		line, err := in.ReadBytes('\n')
		if err != nil {
			_, err := i.mcpdo("daemon", "stop")
			return err
		}
		var w wish
		if err := json.Unmarshal(line, &w); err != nil {
			return err
		}
		if w.Op == "abort" {
			if err := i.interrupt(w.Call); err != nil {
				return err
			}
			continue
		}
		go func() {
			if result, err := i.serve(w); err != nil {
				say(map[string]any{"id": w.ID, "ok": false, "error": err.Error()})
			} else {
				say(map[string]any{"id": w.ID, "ok": true, "result": jsontext.Value(result)})
			}
		}()
	}
}

// connect opens the connection and says what the test wants to know of it.
func (i *inspector) connect() (map[string]any, error) {
	for end := time.Now().Add(patience); ; { // it gives its daemon ten seconds to come up
		_, err := i.mcpdo("--config", i.config(), "connect", "--era", "auto", "--connect-timeout", "0", "sp")
		if err == nil {
			break
		}
		if time.Now().After(end) {
			return nil, err
		}
	}
	var shown struct {
		Era          string `json:"protocolEra"`
		Capabilities struct {
			Tools struct {
				ListChanged bool `json:"listChanged"`
			} `json:"tools"`
		} `json:"capabilities"`
	}
	b, err := i.mcpdo("@sp", "connections/show")
	if err == nil {
		err = json.Unmarshal(b, &shown)
	}
	if err != nil {
		return nil, err
	}
	var status struct {
		PID int `json:"pid"`
	}
	if b, err = i.mcpdo("daemon", "status"); err == nil {
		err = json.Unmarshal(b, &status)
	}
	if err != nil {
		return nil, err
	}
	shim, err := childNamed(status.PID, "sp")
	return map[string]any{"connected": true, "pid": shim, "host": status.PID, "era": shown.Era, "listChangedDeclared": shown.Capabilities.Tools.ListChanged}, err
}

// serve makes one call, in a process of its own.
func (i *inspector) serve(w wish) ([]byte, error) {
	call := []string{"--tool-name", w.Name, "--tool-args-json", string(w.Args)}
	switch {
	case w.Op == "list":
		return i.mcpdo("@sp", "tools/list")
	case w.Once:
		return i.run(w.ID, "mcp-inspector", append([]string{"--cli", "--config", i.config(), "--server", "sp", "--format", "json", "--method", "tools/call"}, call...)...)
	}
	return i.mcpdo(append([]string{"@sp", "tools/call"}, call...)...)
}

func (i *inspector) mcpdo(args ...string) ([]byte, error) {
	return i.run(0, "mcpdo", append([]string{"--format", "json"}, args...)...)
}

// run is one of the Inspector's programs, in a group of its own. What it says on stdout is returned, of a tool's error too.
// With an id it can be interrupted.
func (i *inspector) run(id int, program string, args ...string) ([]byte, error) {
	cmd := exec.Command(program, args...)
	cmd.Env = []string{"HOME=" + i.dir, "PATH=" + os.Getenv("PATH"), "MCP_INSPECTOR_DAEMON_DIR=" + i.dir, "MCP_STORAGE_DIR=" + i.dir, "MCP_INSPECTOR_SECRET_STORE=file",
		"NODE_OPTIONS=--import=" + slowTimers("ms<1000?ms:ms*30")} // it gives its daemon two seconds to answer
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	i.mu.Lock()
	err := cmd.Start()
	i.flying[id] = cmd
	i.mu.Unlock()
	if err == nil {
		err = cmd.Wait()
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == toolFailed && out.Len() > 0 {
		err = nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s %v: %w: %s", program, args, err, said.Bytes())
	}
	return out.Bytes(), nil
}

// interrupt is Ctrl-C: the whole group gets it.
func (i *inspector) interrupt(id int) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if c := i.flying[id]; c != nil && c.Process != nil {
		return syscall.Kill(-c.Process.Pid, syscall.SIGINT)
	}
	return fmt.Errorf("no call %d", id)
}

// config names the file that has the server's entry; it is written anew each time.
func (i *inspector) config() string {
	path := filepath.Join(i.dir, "config.json")
	b, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"sp": map[string]any{"command": i.server[0], "args": i.server[1:],
		"env": map[string]string{"SALLYPORT_HOME": os.Getenv("SALLYPORT_HOME")}}}})
	if err == nil {
		err = os.WriteFile(path, b, 0o600)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "write the Inspector's configuration:", err)
	}
	return path
}

// childNamed finds a child of a process by its program's name.
func childNamed(parent int, name string) (int, error) {
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range all {
		b, err := os.ReadFile(file)
		if err != nil {
			continue // it has gone meanwhile
		}
		pid, rest, _ := strings.Cut(string(b), " (")
		comm, after, _ := strings.Cut(rest, ") ")
		if f := strings.Fields(after); comm == name && len(f) > 1 && f[1] == strconv.Itoa(parent) {
			return strconv.Atoi(pid)
		}
	}
	return 0, errors.Join(fmt.Errorf("no child %s of %d", name, parent), err)
}

// said keeps the lines of a driver apart.
var said sync.Mutex

// say writes one line of a driver's.
func say(v any) {
	b, err := json.Marshal(v)
	if err != nil {
		b = []byte(`{"ok":false,"error":"the answer can't be written"}`)
	}
	said.Lock()
	defer said.Unlock()
	os.Stdout.Write(append(b, '\n'))
}
