package confine

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Landlock, by its system calls: github.com/landlock-lsm/go-landlock would bring libpsx, C code that wraps every start of
// a thread, into spd, which also plays sp. Here one thread is restricted, which then becomes the agent.

const (
	onFiles = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_READ_FILE
	listing = unix.LANDLOCK_ACCESS_FS_READ_DIR
	onDirs  = listing | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_MAKE_CHAR |
		unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK | unix.LANDLOCK_ACCESS_FS_MAKE_SYM
)

// Versions of Landlock that brought something (landlock(7)).
const (
	abiRefer    = 2 // moving between folders
	abiTruncate = 3
	abiScope    = 6 // abstract sockets and signals; Linux 6.12
)

// landlockABI is the kernel's version; 0: none.
func landlockABI() int {
	v, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(v)
}

// Missing names what this kernel can't keep an agent from.
func Missing() (missing []string) {
	abi := landlockABI()
	if abi < 1 {
		return []string{"the vault, the log and the operators' door (the kernel has no Landlock)"}
	}
	if abi < abiTruncate {
		missing = append(missing, "truncating the gateway's files")
	}
	if abi < abiScope {
		missing = append(missing, "the operators' door, if it learns its name", "signalling the gateway")
	}
	return missing
}

// Exec becomes path, kept from the hidden folders: absolute paths without links, as
// they are or would be. It returns only on failure.
func Exec(path string, argv, env, hidden []string) error {
	runtime.LockOSThread() // the exec keeps this thread's restrictions; the others are gone then
	if abi := landlockABI(); abi > 0 {
		if err := restrict(abi, hidden); err != nil {
			return fmt.Errorf("confine: %w", err)
		}
	}
	return fmt.Errorf("execute %s: %w", path, unix.Exec(path, argv, env))
}

func restrict(abi int, hidden []string) error {
	files, dirs := uint64(onFiles), uint64(onDirs)
	if abi >= abiRefer {
		dirs |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if abi >= abiTruncate {
		files |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	attr := unix.LandlockRulesetAttr{Handled_access_fs: files | dirs}
	size := unsafe.Offsetof(attr.Handled_access_net) // what every version knows
	if abi >= abiScope {
		attr.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
		size = unsafe.Offsetof(attr.Quiet_access_fs)
	}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if errno != 0 {
		return fmt.Errorf("make ruleset: %w", errno)
	}
	set := int(fd)
	defer unix.Close(set)
	hidden, err := allNames(hidden)
	switch {
	case err != nil:
		return err
	case slices.Contains(hidden, "/"):
		return errors.New("a folder to hide is mounted as /")
	}
	paths, err := opened("/", hidden)
	if err != nil {
		return err
	}
	// Names may be listed everywhere: without that no shell works in a folder above the gateway's.
	if err := allow(set, "/", listing, listing); err != nil {
		return err
	}
	for _, p := range paths {
		if err := allow(set, p, files, files|dirs); err != nil {
			return err
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(set), 0, 0); errno != 0 {
		return fmt.Errorf("restrict: %w", errno)
	}
	return nil
}

// allow gives what lies at and below path: a file or a folder.
func allow(set int, path string, onFile, onDir uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil // gone since, or closed to us anyway
	}
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("stat %s: %w", path, err)
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: onFile, Parent_fd: int32(fd)}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		rule.Allowed_access = onDir
	}
	if _, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(set), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0); errno != 0 {
		return fmt.Errorf("allow %s: %w", path, errno)
	}
	return nil
}
