package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// lockDown takes away from this thread, and from what it starts, everything that
// is not needed: capabilities, new privileges by exec, files by Landlock, system
// calls by seccomp.
func lockDown(told plan) error {
	for c := uintptr(0); c <= 63; c++ {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil && told.Namespaces && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("capabilities: %w", err)
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&header, &none[0]); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	if err := landlock(told); err != nil {
		return fmt.Errorf("landlock: %w", err)
	}
	if err := filterCalls(told.Namespaces); err != nil {
		return fmt.Errorf("seccomp: %w", err)
	}
	return nil
}

// landlockVersion returns the version of Landlock that the kernel has, 0 when
// it has none.
func landlockVersion() int {
	v, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(v)
}

const (
	landRead = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	landFile = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	landAll1 = 0x1fff // every right of the first version
)

// landlock allows reading everything and writing what is writable. It cannot
// forbid a part of what it allows: the mounts do that.
func landlock(told plan) error {
	version := landlockVersion()
	if version < 1 {
		return nil
	}
	attr := unix.LandlockRulesetAttr{Handled_access_fs: landAll1}
	if version >= 2 {
		attr.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if version >= 3 {
		attr.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if version >= 5 {
		attr.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	if version >= 6 {
		attr.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	size := unsafe.Sizeof(attr)
	if version < 6 {
		size = 8 // the size of the first version, which is all that is used
	}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if errno != 0 {
		return errno
	}
	defer unix.Close(int(fd))
	readable := told.Readable
	if told.Namespaces {
		readable = []string{"/"}
	}
	for _, path := range readable {
		if err := allowBeneath(int(fd), path, landRead&attr.Handled_access_fs); err != nil {
			return err
		}
	}
	for _, path := range told.Writable {
		if err := allowBeneath(int(fd), path, attr.Handled_access_fs); err != nil {
			return err
		}
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

func allowBeneath(ruleset int, path string, access uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EACCES) {
		return nil
	}
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	var what unix.Stat_t
	if err := unix.Fstat(fd, &what); err != nil {
		return err
	}
	if what.Mode&unix.S_IFMT != unix.S_IFDIR {
		access &= landFile
	}
	attr := unix.LandlockPathBeneathAttr{Allowed_access: access, Parent_fd: int32(fd)}
	if _, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&attr)), 0, 0, 0); errno != 0 {
		return &os.PathError{Op: "allow", Path: path, Err: errno}
	}
	return nil
}

// rules returns what Landlock allows when the sandbox has no root of its own.
func (p Policy) rules() (readable, writable []string) {
	readable = append(slices.Clone(systemPaths), "/proc", "/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")
	for _, name := range etcPaths {
		readable = append(readable, "/etc/"+name)
	}
	for _, name := range toolchains {
		readable = append(readable, filepath.Join(p.Home, name))
	}
	readable = append(readable, p.Read...)
	writable = append([]string{p.Root, "/dev/null", "/dev/tty"}, p.Write...)
	return readable, writable
}
