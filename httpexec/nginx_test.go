package httpexec

import (
	"encoding/pem"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// program finds a real part, or skips; with SALLYPORT_REAL=require its absence fails.
func program(t testing.TB, name, why string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		for _, dir := range []string{"/usr/sbin", "/usr/local/sbin"} {
			if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
				return filepath.Join(dir, name)
			}
		}
		if os.Getenv("SALLYPORT_REAL") == "require" {
			t.Fatalf("%s: %s", name, why)
		}
		t.Skipf("%s: %s", name, why)
	}
	return path
}

// freePort is one that was free a moment ago, below those that the kernel gives away by itself: a connection or a listener
// of another test would get one of these until the server takes it.
func freePort(t testing.TB) string {
	t.Helper()
	for range 1000 {
		port := strconv.Itoa(10_000 + rand.IntN(20_000))
		if l, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			l.Close()
			return port
		}
	}
	t.Fatal("no port is free")
	return ""
}

// start runs a server until the test ends, and waits until its port answers.
func start(t testing.TB, port string, cmd *exec.Cmd) {
	t.Helper()
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if t.Failed() {
			t.Logf("%s said: %s", cmd.Path, said.String())
		}
	})
	waitFor(t, func() bool {
		c, err := net.Dial("tcp", "127.0.0.1:"+port)
		return err == nil && c.Close() == nil
	})
}

// nginx: TLS, client certificates, keep-alive that it closes by count and by time, compression that nobody asked for,
// bodies refused by size, redirects.
func TestNginx(t *testing.T) {
	bin := program(t, "nginx", "an HTTP server that nobody here wrote (nginx-light)")
	dir := t.TempDir()
	ca, caText := certificate(t, "test ca", time.Now().Add(time.Hour), nil)
	_, serverText := serverCertificate(t, "localhost", &ca)
	_, client1 := certificate(t, "agent 1", time.Now().Add(time.Hour), &ca)
	for name, text := range map[string]string{"server.pem": serverText, "ca.pem": caText} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	port, mport := freePort(t), freePort(t)
	// A worker must be able to read its folders, whoever runs the test.
	user := ""
	if os.Geteuid() == 0 {
		user = "user root;"
	}
	conf := fmt.Sprintf(`%[1]s
daemon off; master_process off; worker_processes 1; pid %[2]s/pid; error_log %[2]s/error.log;
events { worker_connections 64; }
http {
  access_log %[2]s/access.log;
  client_body_temp_path %[2]s/b; proxy_temp_path %[2]s/p; fastcgi_temp_path %[2]s/f; uwsgi_temp_path %[2]s/u; scgi_temp_path %[2]s/s;
  ssl_certificate %[2]s/server.pem; ssl_certificate_key %[2]s/server.pem;
  keepalive_requests 3; keepalive_timeout 1s; client_max_body_size 1k;
  server {
    listen 127.0.0.1:%[3]s ssl; server_name localhost;
    location /echo { default_type text/plain; return 200 "$request_method $request_uri $http_authorization"; }
    location /moved { return 302 https://elsewhere.example/$http_authorization; }
  }
  server {
    listen 127.0.0.1:%[4]s ssl; server_name localhost; ssl_client_certificate %[2]s/ca.pem; ssl_verify_client on;
    location / { default_type text/plain; return 200 "hello $ssl_client_s_dn"; }
  }
}`, user, dir, port, mport)
	path := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(path, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	start(t, port, exec.Command(bin, "-p", dir, "-c", path, "-e", filepath.Join(dir, "error.log")))

	trust := Trust{CA: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Certificate[0]}))}
	s, c, url := Spec{Kind: "bearer", Trust: trust}, NewClient(ClientOptions{UserAgent: "test"}), "https://localhost:"+port
	t.Cleanup(c.Close)
	for i := range 10 { // over the limit of three requests a connection
		in := Input{URL: fmt.Sprintf("%s/echo/%d/a%%20b?x=%d", url, i, i), Method: []string{"GET", "POST"}[i%2]}
		r, body := sendAs(t, c, s, secret, in, nil)
		if want := fmt.Sprintf("%s /echo/%d/a%%20b?x=%d Bearer [redacted]", in.Method, i, i); r.Outcome != Confirmed || body != want || r.Hits != 1 {
			t.Fatalf("%d: %+v %q", i, r, body)
		}
	}
	// nginx closes an idle connection after a second. A read right then goes out once, on whatever connection lives.
	for i := range 6 {
		time.Sleep(time.Duration(970+10*i) * time.Millisecond / time.Duration(1+3*(i%2)))
		if r, body := sendAs(t, c, s, secret, Input{URL: url + "/echo/idle"}, nil); r.Outcome != Confirmed || !strings.Contains(body, "/echo/idle") {
			t.Errorf("after an idle second: %+v", r)
		}
	}
	if r, _ := sendAs(t, c, s, secret, Input{URL: url + "/moved"}, nil); r.Outcome != RedirectNotFollowed || strings.Contains(r.Headers["Location"], secret) || r.Hits == 0 {
		t.Errorf("redirect: %+v", r)
	}
	// 413 comes while the body is still being written.
	if r, _ := sendAs(t, c, s, secret, Input{URL: url + "/echo", Method: "POST", Body: make([]byte, 8<<20)}, nil); r.Outcome != Confirmed || r.Code != 413 {
		t.Errorf("too long a body: %+v", r)
	}
	log, err := os.ReadFile(filepath.Join(dir, "access.log"))
	if err != nil || strings.Count(string(log), "/echo/idle") != 6 || strings.Count(string(log), "/echo/3/") != 1 {
		t.Errorf("nginx saw %s (%v)", log, err)
	}

	m := Spec{Kind: "mtls", Trust: trust}
	if r, body := sendAs(t, c, m, client1, Input{URL: "https://localhost:" + mport + "/"}, nil); r.Code != 200 || body != "hello CN=agent 1" {
		t.Errorf("mtls: %+v %q", r, body)
	}
	other := client(t) // a pooled connection belongs to one credential; here two have the same name
	if r, _ := sendAs(t, other, s, secret, Input{URL: "https://localhost:" + mport + "/"}, nil); r.Code != 400 {
		t.Errorf("without a certificate: %+v", r)
	}
	// A CA of its own means that no other is trusted.
	if r, _ := sendAs(t, client(t), Spec{Kind: "bearer"}, secret, Input{URL: url + "/echo"}, nil); r.Outcome != NotSent || !strings.HasPrefix(r.Detail, "tls:") {
		t.Errorf("system roots: %+v", r)
	}
}
