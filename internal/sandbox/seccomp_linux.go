//go:build amd64 || arm64

package sandbox

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// auditArch is how the kernel names this processor to a filter.
var auditArch = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}[runtime.GOARCH]

// refusedCalls are system calls that no build, test or script needs, and with
// which programs reach others, change the system, or expose much of the kernel.
func refusedCalls() []uint32 {
	return []uint32{
		// Other processes.
		unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_KCMP, unix.SYS_PIDFD_GETFD, unix.SYS_PROCESS_MADVISE,
		// Mounts and namespaces.
		unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE, unix.SYS_FSOPEN, unix.SYS_FSCONFIG,
		unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR, unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_NAME_TO_HANDLE_AT,
		// Keys, and large kernel interfaces.
		unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER,
		unix.SYS_IO_URING_REGISTER, unix.SYS_USERFAULTFD, unix.SYS_FANOTIFY_INIT, unix.SYS_QUOTACTL, unix.SYS_LOOKUP_DCOOKIE, unix.SYS_NFSSERVCTL, unix.SYS_SYSLOG,
		// The machine.
		unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_REBOOT, unix.SYS_SWAPON,
		unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_CLOCK_ADJTIME, unix.SYS_ADJTIMEX, unix.SYS_SETHOSTNAME,
		unix.SYS_SETDOMAINNAME, unix.SYS_VHANGUP,
	}
}

// Offsets in the data that a filter is given.
const (
	offNumber = 0
	offArch   = 4
	offArg0   = 16 // the lower half; both processors are little-endian
	offArg1   = 24
	offArg2   = 32
)

// newNamespaces are the flags of clone that make a namespace.
const newNamespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

func load(offset uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
}

func answer(action uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action}
}

// unless skips steps when the loaded value is not k.
func unless(k uint32, steps uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: k, Jf: steps}
}

// when skips steps when the loaded value is k.
func when(k uint32, steps uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: k, Jt: steps}
}

// filterProgram returns the filter. Sockets may be TCP, UDP and netlink queries
// about the network; without a network namespace the sandbox has no sockets at
// all.
func filterProgram(network bool) []unix.SockFilter {
	refuse := func(errno uint32) unix.SockFilter { return answer(unix.SECCOMP_RET_ERRNO | errno) }
	allow := answer(unix.SECCOMP_RET_ALLOW)
	f := []unix.SockFilter{load(offArch), when(auditArch, 1), answer(unix.SECCOMP_RET_KILL_PROCESS), load(offNumber)}
	if auditArch == unix.AUDIT_ARCH_X86_64 {
		// The calls of x32 have other numbers for the same operations.
		f = append(f, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, K: 0x40000000, Jf: 1}, refuse(uint32(unix.ENOSYS)))
	}
	for _, call := range refusedCalls() {
		f = append(f, unless(call, 1), refuse(uint32(unix.EPERM)))
	}
	// The flags of clone3 are in memory, which a filter cannot read; programs
	// fall back to clone.
	f = append(f, unless(unix.SYS_CLONE3, 1), refuse(uint32(unix.ENOSYS)))
	f = append(f, unless(unix.SYS_CLONE, 4), load(offArg0),
		unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: newNamespaces, Jf: 1}, refuse(uint32(unix.EPERM)), allow)
	f = append(f, unless(unix.SYS_IOCTL, 5), load(offArg1),
		when(unix.TIOCSTI, 1), unless(unix.TIOCLINUX, 1), refuse(uint32(unix.EPERM)), allow)
	if !network {
		f = append(f, unless(unix.SYS_SOCKET, 1), refuse(uint32(unix.ENETUNREACH)))
		return append(f, allow)
	}
	f = append(f, unless(unix.SYS_SOCKET, 8), load(offArg0), when(unix.AF_INET, 5), when(unix.AF_INET6, 4), unless(unix.AF_NETLINK, 2),
		load(offArg2), when(unix.NETLINK_ROUTE, 1), refuse(uint32(unix.EAFNOSUPPORT)), allow)
	return append(f, allow)
}

// filterCalls installs the filter for this thread and what it starts.
func filterCalls(network bool) error {
	f := filterProgram(network)
	program := unix.SockFprog{Len: uint16(len(f)), Filter: &f[0]}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program))); errno != 0 {
		return errno
	}
	return nil
}
