package launch

import (
	"bytes"
	"io"
	"path/filepath"
	"strings"
)

const versionMax = 16 // bytes of a version

// runtime names the runtime and, where a file tells, its version.
func (m *Measurer) runtime(c *command) string {
	if c.kind == "" || c.exe == "" {
		return ""
	}
	f, s, err := open(c.exe)
	if err != nil {
		return string(c.kind)
	}
	defer f.Close()
	v := m.versions.get(s)
	if v == "" {
		v = strings.TrimSpace(string(c.kind) + " " + version(c.kind, c.exe, f))
		m.versions.put(s, v)
	}
	return v
}

// version reads a runtime's version from its own files: "" if none tells.
func version(k kind, exe string, f io.Reader) string {
	prefix := filepath.Dir(filepath.Dir(real(exe)))
	switch k {
	case node:
		return after(f, "node.js/v")
	case bun:
		return after(f, "Bun/")
	case python:
		if v := assigned(filepath.Join(filepath.Dir(filepath.Dir(exe)), "pyvenv.cfg"), "version", "version_info"); v != "" {
			return v
		}
		short := strings.TrimPrefix(pythonVersion(exe), "python")
		if short == "" {
			return ""
		}
		if v := after(f, "\x00"+short+"."); v != "" {
			return short + "." + v
		}
		if lib, _, err := open(filepath.Join(prefix, "lib", "libpython"+short+".so.1.0")); err == nil {
			defer lib.Close()
			if v := after(lib, "\x00"+short+"."); v != "" {
				return short + "." + v
			}
		}
		return short
	case java:
		return assigned(filepath.Join(prefix, "release"), "JAVA_VERSION")
	}
	name := filepath.Base(real(exe))
	return strings.TrimLeft(strings.TrimPrefix(name, strings.TrimRight(name, "0123456789.")), "-")
}

// after is the number that follows the first marker followed by a digit.
func after(r io.Reader, marker string) string {
	keep := len(marker) + versionMax
	buf := make([]byte, 0, chunk+keep)
	for {
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		end := err != nil || n == 0
		for at := buf; ; {
			i := bytes.Index(at, []byte(marker))
			if i < 0 || !end && len(at)-i < keep { // not yet whole
				break
			}
			at = at[i+len(marker):]
			if v := number(at); v != "" {
				return v
			}
		}
		if end {
			return ""
		}
		if len(buf) > keep {
			buf = buf[:copy(buf, buf[len(buf)-keep:])]
		}
	}
}

func number(b []byte) string {
	b = b[:min(len(b), versionMax)]
	n := 0
	for n < len(b) && (b[n] >= '0' && b[n] <= '9' || b[n] == '.') {
		n++
	}
	return strings.Trim(string(b[:n]), ".")
}

// assigned is the value of NAME = VALUE in a file of such lines.
func assigned(path string, names ...string) string {
	b, err := readFile(path)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		name, value, ok := strings.Cut(line, "=")
		for _, want := range names {
			if ok && strings.TrimSpace(name) == want {
				return number([]byte(strings.Trim(strings.TrimSpace(value), `"`)))
			}
		}
	}
	return ""
}
