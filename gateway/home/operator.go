package home

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// operatorAddrMax bounds operator.addr: a socket address and its newline.
const operatorAddrMax = 256

// ErrBadAddr is returned by OperatorAddr and PublishOperator for text that is
// no socket address.
var ErrBadAddr = errors.New("not a socket address")

// OperatorSocket is where operators connect on a system without abstract
// socket names.
func (h Home) OperatorSocket() string { return filepath.Join(h.Runtime(), "operator.sock") }

// OperatorAddr reads where operators connect: "@NAME" (abstract) or a path. A
// file that is a symlink, another's, or open to others is refused with
// ErrNotPrivate; fs.ErrNotExist says that no spd has published one.
func (h Home) OperatorAddr() (string, error) {
	addr, _, err := h.OperatorDoor()
	return addr, err
}

// OperatorDoor is OperatorAddr with the uid that must answer there: whoever
// published the address.
func (h Home) OperatorDoor() (addr string, uid int, err error) {
	for _, dir := range h.candidates() {
		addr, uid, err := readAddr(dir)
		// The system's folder may be there for another user than us.
		if errors.Is(err, fs.ErrNotExist) || dir == systemRuntime && errors.Is(err, fs.ErrPermission) {
			continue
		}
		if err != nil {
			return "", 0, fmt.Errorf("read operator address: %w", err)
		}
		return addr, uid, nil
	}
	return "", 0, fmt.Errorf("read operator address: %w", fs.ErrNotExist)
}

func readAddr(dir string) (addr string, uid int, err error) {
	if uid, err = Owner(dir); err != nil {
		return "", 0, err
	}
	addr, err = readAddrOf(filepath.Join(dir, "operator.addr"), uid)
	return addr, uid, err
}

// readAddrOf reads the file of the gateway that runs as uid.
func readAddrOf(path string, uid int) (string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ELOOP) {
		return "", fmt.Errorf("open %s: is a symlink: %w", path, ErrNotPrivate)
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return "", fmt.Errorf("stat %s: %w", path, err)
	}
	if uint32(st.Mode)&unix.S_IFMT != unix.S_IFREG {
		return "", fmt.Errorf("open %s: is no file: %w", path, ErrNotPrivate)
	}
	if int(st.Uid) != uid {
		return "", fmt.Errorf("open %s: owner is uid %d, not %d: %w", path, st.Uid, uid, ErrNotPrivate)
	}
	most := uint32(0o700)
	if uid != os.Geteuid() {
		most = 0o640
	}
	if err := closed("open", path, &st, most); err != nil {
		return "", err
	}
	b, err := io.ReadAll(io.LimitReader(f, operatorAddrMax+1))
	if err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	addr, ended := strings.CutSuffix(string(b), "\n")
	if !ended {
		return "", fmt.Errorf("read %s: %w", path, ErrBadAddr)
	}
	return addr, checkAddr(addr)
}

// checkAddr accepts an abstract name or an absolute path of printable ASCII.
func checkAddr(addr string) error {
	if len(addr) < 2 || len(addr) >= operatorAddrMax || addr[0] != '@' && addr[0] != '/' {
		return ErrBadAddr
	}
	for _, c := range []byte(addr) {
		if c < ' ' || c > '~' {
			return ErrBadAddr
		}
	}
	return fits(addr)
}

// PublishOperator writes operator.addr (0600; 0640 if served) in one step: a reader sees the
// old address or the new one.
func (h Home) PublishOperator(addr string) error {
	if err := h.publish(addr); err != nil {
		return fmt.Errorf("publish operator address: %w", err)
	}
	return nil
}

func (h Home) publish(addr string) error {
	if err := checkAddr(addr); err != nil {
		return err
	}
	check, mode := CheckPrivate, fs.FileMode(0o600)
	if h.served {
		check, mode = checkServed, 0o640
	}
	if err := check(h.Runtime()); err != nil {
		return err
	}
	path := filepath.Join(h.Runtime(), "operator.addr")
	temp := path + "." + rand.Text()
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(addr + "\n")
	if err == nil {
		err = f.Chmod(mode) // the umask took the group's part
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		os.Remove(temp)
	}
	return err
}
