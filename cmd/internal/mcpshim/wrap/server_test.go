package wrap

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/goleak"
)

// roleEnv makes a server of this test's own program; its value is a list of habits.
const roleEnv = "WRAP_TEST_ROLE"

func TestMain(m *testing.M) {
	if role, ok := os.LookupEnv(roleEnv); ok {
		os.Exit(serve(role))
	}
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("sallyport/cmd/internal/mcpshim/wrap.newStarter.func1"),
		goleak.IgnoreAnyFunction("os/signal.loop"))
}

// serve is an MCP server with bad habits. It writes each line it is given to $LOG.
func serve(role string) int {
	is := func(habit string) bool { return strings.Contains(role, habit) }
	log, err := os.OpenFile(os.Getenv("LOG"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 9
	}
	fmt.Fprintf(os.Stderr, "server up %d\n", os.Getpid())
	if is("stubborn") {
		signal.Ignore(syscall.SIGTERM)
	}
	if is("sleeper") {
		select {}
	}
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	extra := is("grown")
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			if is("stubborn") {
				select {}
			}
			return 0
		}
		log.WriteString(line)
		var m struct {
			ID     jsontext.Value `json:"id"`
			Method string         `json:"method"`
			Params struct {
				Name      string         `json:"name"`
				Cursor    string         `json:"cursor"`
				Arguments jsontext.Value `json:"arguments"`
			} `json:"params"`
		}
		if json.Unmarshal([]byte(line), &m) != nil {
			return 8
		}
		switch m.Method {
		case "initialize":
			caps := `{"tools":{ },"logging":{}}`
			if b, err := os.ReadFile(os.Getenv("CAPS")); err == nil {
				caps = string(b)
			}
			fmt.Printf(`{"jsonrpc":"2.0", "result":{"serverInfo":{"name":"s","version":"1"},"zz":1.50,"capabilities":%s,"protocolVersion":"2025-06-18"}, "id":%s}`+"\n", caps, m.ID)
		case "server/discover":
			if is("legacy") {
				return 1
			}
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":false}},"serverInfo":{"name":"s","version":"1"}}}`+"\n", m.ID)
		case "tools/list":
			if is("restless") { // its tools change each time that it is asked, and it takes its time
				fmt.Println(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
				time.Sleep(2 * debounce)
			}
			if is("shy") || is("slow") {
				for _, err := os.Stat(os.Getenv("GROWN")); err != nil; _, err = os.Stat(os.Getenv("GROWN")) {
					time.Sleep(time.Millisecond)
				}
				if is("shy") {
					return 4
				}
			}
			tools := `{"name":"echo","inputSchema":{"type":"object"}}`
			if _, err := os.Stat(os.Getenv("GROWN")); err == nil || extra {
				tools += `,{"name":"more","inputSchema":{"type":"object"}}`
			}
			if m.Params.Cursor == "" {
				fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"tools":[%s],"nextCursor":"2"}}`+"\n", m.ID, tools)
			} else {
				fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"die","inputSchema":{"type":"object"}}]}}`+"\n", m.ID)
			}
		case "tools/call":
			switch m.Params.Name {
			case "die":
				return 3
			case "hang":
			case "grow":
				os.WriteFile(os.Getenv("GROWN"), nil, 0o600)
				for range 3 {
					fmt.Println(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
				}
				fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`+"\n", m.ID)
			case "noise":
				fmt.Print("listening on port 80\n[1,2]\n{\"log\":true}\n\n\xff\xfe\n")
				for range 2000 {
					fmt.Fprintln(os.Stderr, strings.Repeat("x", 1000))
				}
				fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`+"\n", m.ID)
			case "ask":
				fmt.Println(`{"jsonrpc":"2.0","id":9007199254740993,"method":"roots/list"}`)
			case "orphan":
				pid, err := orphan()
				if err != nil {
					return 7
				}
				fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[],"pid":%d}}`+"\n", m.ID, pid)
			case "env":
				names := []string{}
				for _, kv := range os.Environ() {
					names = append(names, strconv.Quote(kv))
				}
				fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[],"env":[%s]}}`+"\n", m.ID, strings.Join(names, ","))
			default:
				fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[ ],"big":9007199254740993,"x":"\u00e9"},"later":[1 ,2]}`+"\n", m.ID)
			}
		case "ping":
			fmt.Printf(`{"id":%s,"jsonrpc":"2.0","result":{}}`+"\n", m.ID)
		}
	}
}

// orphan starts a child in a session of its own, that ends only by a signal which can't be ignored.
func orphan() (int, error) {
	exe, err := os.Executable()
	if err != nil {
		return 0, err
	}
	c := exec.Command(exe)
	c.Env = []string{roleEnv + "=sleeper stubborn", "LOG=/dev/null"}
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.Start(); err != nil {
		return 0, err
	}
	return c.Process.Pid, nil
}
