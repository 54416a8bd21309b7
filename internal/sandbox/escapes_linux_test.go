package sandbox_test

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// escape is one attempt. plain says that it does no harm to the machine, so
// that a test can show that it works without a sandbox.
type escape struct {
	name  string
	plain bool
	try   func(w world) error
}

var errNothing = errors.New("there is nothing of worth")

func reads(path func(w world) string) func(w world) error {
	return func(w world) error {
		b, err := os.ReadFile(path(w))
		if err == nil && !strings.Contains(string(b), secret) {
			err = errNothing
		}
		return err
	}
}

func readsHome(name string) func(w world) error {
	return reads(func(w world) string { return filepath.Join(w.Home, name) })
}

func writes(path func(w world) string) func(w world) error {
	return func(w world) error {
		f, err := os.OpenFile(path(w), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = f.WriteString("evil\n")
		return err
	}
}

func writesProject(name string) func(w world) error {
	return writes(func(w world) string { return filepath.Join(w.Project, name) })
}

func dials(network string, address func(w world) string) func(w world) error {
	return func(w world) error {
		c, err := net.DialTimeout(network, address(w), 5*time.Second)
		if err != nil {
			return err
		}
		// A bridge answers before it has reached the listener, which hangs up.
		c.SetReadDeadline(time.Now().Add(5 * time.Second))
		c.Read(make([]byte, 1))
		return c.Close()
	}
}

func calls(number uintptr, args ...uintptr) func(w world) error {
	return func(world) error {
		var a [6]uintptr
		copy(a[:], args)
		// A call that gets as far as to look at what it was given was not refused.
		_, _, errno := unix.Syscall6(number, a[0], a[1], a[2], a[3], a[4], a[5])
		if errno == unix.EPERM || errno == unix.ENOSYS {
			return errno
		}
		return nil
	}
}

func sockets(family, kind, protocol int) func(w world) error {
	return func(world) error {
		fd, err := unix.Socket(family, kind, protocol)
		if err == nil {
			unix.Close(fd)
		}
		return err
	}
}

// shell is a script that ends with 0 when it got what it wanted.
func shell(script string) func(w world) error {
	return func(w world) error {
		script := strings.NewReplacer("HOME_", w.Home, "PROJECT_", w.Project, "OUTSIDE_", w.Outside, "PARENT_", fmt.Sprint(w.Parent), "BASE_", w.Base).Replace(script)
		cmd := exec.Command("/bin/sh", "-c", script)
		cmd.Dir = w.Project
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		fmt.Printf("%s", out)
		return nil
	}
}

func connects(target func(w world) string) func(w world) error {
	return func(w world) error {
		proxy, err := url.Parse(os.Getenv("HTTPS_PROXY"))
		if err != nil || proxy.Host == "" {
			return errors.New("there is no proxy")
		}
		c, err := net.Dial("tcp", proxy.Host)
		if err != nil {
			return err
		}
		defer c.Close()
		fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", target(w), target(w))
		line, err := bufio.NewReader(c).ReadString('\n')
		if err == nil && !strings.Contains(line, " 200 ") {
			err = errors.New(line)
		}
		return err
	}
}

var null = uintptr(0)

var escapes = []escape{
	// Reading what is the person's.
	{"read an SSH key", true, readsHome(".ssh/id_ed25519")},
	{"read cloud credentials", true, readsHome(".aws/credentials")},
	{"read the store", true, readsHome(".local/share/tidemark/tidemark.db")},
	{"read the key of the store", true, readsHome(".config/tidemark/key")},
	{"read a browser's passwords", true, readsHome(".mozilla/firefox/logins.json")},
	{"read Claude's credentials", true, readsHome(".claude/.credentials.json")},
	{"read Codex's credentials", true, readsHome(".codex/auth.json")},
	{"read docker's credentials", true, readsHome(".docker/config.json")},
	{"read the cluster's credentials", true, readsHome(".kube/config")},
	{"read a GPG key", true, readsHome(".gnupg/secring.gpg")},
	{"read the history of the shell", true, readsHome(".bash_history")},
	{"read the npm token", true, readsHome(".npmrc")},
	{"read the cargo token", true, readsHome(".cargo/credentials.toml")},
	{"read netrc", true, readsHome(".netrc")},
	{"read git's stored passwords", true, readsHome(".git-credentials")},
	{"read git's configuration", true, readsHome(".gitconfig")},
	{"read a store inside the project", true, reads(func(w world) string { return w.Project + "/store/key" })},
	{"read a sibling of the project", true, reads(func(w world) string { return w.Project + "/../../work/sibling/file" })},
	{"read outside by a symbolic link", true, reads(func(w world) string { return w.Project + "/way-out/file" })},
	{"read outside by a new symbolic link", true, shell(`rm -f l; ln -s OUTSIDE_/file l && cat l`)},
	{"read the passwords of the system", false, func(world) error { _, err := os.ReadFile("/etc/shadow"); return err }},
	{"read the root of the first process", false, reads(func(w world) string { return "/proc/1/root" + w.Outside + "/file" })},
	{"read by /proc/self/root", true, reads(func(w world) string { return "/proc/self/root" + w.Outside + "/file" })},
	{"read by /proc/self/cwd", true, reads(func(w world) string { return "/proc/self/cwd/../../outside/file" })},
	{"read by the parent's /proc", true, reads(func(w world) string { return fmt.Sprintf("/proc/%d/root%s/file", w.Parent, w.Outside) })},
	{"read the environment of the parent", false, func(w world) error {
		_, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", w.Parent))
		return err
	}},
	{"find a secret in any environment", true, func(world) error {
		found, _ := filepath.Glob("/proc/[0-9]*/environ")
		for _, name := range found {
			if b, err := os.ReadFile(name); err == nil && strings.Contains(string(b), secret) {
				return nil
			}
		}
		return errNothing
	}},
	{"read the environment", true, func(world) error {
		if os.Getenv("ESCAPE_TOKEN") != secret {
			return errNothing
		}
		return nil
	}},
	{"read the environment of the first process", false, func(world) error { _, err := os.ReadFile("/proc/1/environ"); return err }},
	{"read the memory of the first process", false, func(world) error {
		f, err := os.Open("/proc/1/mem")
		if err == nil {
			f.Close()
		}
		return err
	}},
	{"use a file that was open in the parent", false, func(world) error {
		for fd := 3; fd < 256; fd++ {
			target, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
			if err == nil && !strings.HasPrefix(target, "anon_inode:") && !strings.HasPrefix(target, "/proc/") && !strings.HasPrefix(target, "/sys/") {
				return nil
			}
		}
		return errNothing
	}},
	{"read files by the first process's descriptors", false, shell(`ls -l /proc/1/fd/ && cat /proc/1/fd/3`)},

	// Writing where it is not the project.
	{"write .bashrc", true, func(w world) error {
		if err := writes(func(w world) string { return w.Home + "/.bashrc" })(w); err != nil {
			return err
		}
		b, err := os.ReadFile(w.Home + "/.bashrc")
		if err == nil && !strings.Contains(string(b), "# mine") {
			err = errNothing // a home of the sandbox's own
		}
		return err
	}},
	{"write outside", true, writes(func(w world) string { return w.Outside + "/file" })},
	{"write outside by a symbolic link", true, writes(func(w world) string { return w.Project + "/way-out/file" })},
	{"write outside by a hard link", true, func(w world) error {
		if err := os.Link(w.Outside+"/file", w.Project+"/hard"); err != nil {
			return err
		}
		return writes(func(w world) string { return w.Project + "/hard" })(w)
	}},
	{"link a protected file and write the link", true, shell(`rm -f c; ln .git/config c && echo evil >>c`)},
	{"write beside the project", true, shell(`echo evil >../sibling/file`)},
	{"replace the project", true, shell(`mv PROJECT_ BASE_/work/old`)},
	{"write a toolchain", true, writes(func(w world) string { return w.Home + "/go/pkg/mod/cache/x" })},
	{"write a program of the system", false, writes(func(world) string { return "/usr/bin/tidemark-evil" })},
	{"write the configuration of the system", false, writes(func(world) string { return "/etc/tidemark-evil" })},
	{"write the root", false, writes(func(world) string { return "/tidemark-evil" })},
	{"write a hook", true, writesProject(".git/hooks/pre-commit")},
	{"write git's configuration", true, writesProject(".git/config")},
	{"rename over git's configuration", true, shell(`echo evil >n && mv -f n .git/config`)},
	{"remove git's configuration", true, shell(`rm -f .git/config && test ! -e .git/config`)},
	{"rename the hooks", true, shell(`mv .git/hooks .git/old`)},
	{"rename the repository", true, shell(`mv .git old`)},
	{"make Claude's settings", true, shell(`mkdir -p .claude && echo evil >.claude/settings.json`)},
	{"rename into Claude's settings", true, shell(`mkdir -p n && echo evil >n/settings.json && rm -rf .claude && mv -T n .claude`)},
	{"make MCP servers", true, shell(`rm -rf .mcp.json; echo evil >.mcp.json`)},
	{"make tasks of an editor", true, shell(`mkdir -p .vscode && echo evil >.vscode/tasks.json`)},
	{"make this program's configuration", true, shell(`rm -rf .tidemark.yaml; echo evil >.tidemark.yaml`)},
	{"change what a shell reads on entering", true, writesProject(".envrc")},
	{"make a submodule's configuration", true, shell(`mkdir -p .git/modules/x && echo evil >.git/modules/x/config`)},
	{"widen the mode of a protected file", true, shell(`chmod 777 .git/config`)},

	// Reaching others.
	{"connect to a TCP listener of the host", true, dials("tcp", func(w world) string { return w.TCP })},
	{"connect to an abstract socket", true, dials("unix", func(w world) string { return w.Abstract })},
	{"connect to a socket in a temporary folder", true, dials("unix", func(w world) string { return w.Socket })},
	{"connect to a socket in the project", true, dials("unix", func(w world) string { return w.Inner })},
	{"connect to docker", false, dials("unix", func(world) string { return "/var/run/docker.sock" })},
	{"connect to D-Bus", false, dials("unix", func(world) string { return "/run/dbus/system_bus_socket" })},
	{"connect to a machine of the network", false, dials("tcp", func(world) string { return "10.0.0.1:80" })},
	{"connect to the cloud's metadata", false, dials("tcp", func(world) string { return "169.254.169.254:80" })},
	{"send a datagram", false, func(world) error {
		c, err := net.Dial("udp", "192.0.2.1:53")
		if err == nil {
			_, err = c.Write([]byte("x"))
		}
		return err
	}},
	{"CONNECT through the proxy to the host's listener", false, connects(func(w world) string { return w.TCP })},
	{"open a packet socket", false, sockets(unix.AF_PACKET, unix.SOCK_RAW, 0)},
	{"open a raw socket", false, sockets(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP)},
	{"open a socket to the hypervisor", false, sockets(unix.AF_VSOCK, unix.SOCK_STREAM, 0)},
	{"open a socket to the kernel's audit", false, sockets(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT)},
	{"open a socket to the kernel's ciphers", false, sockets(unix.AF_ALG, unix.SOCK_SEQPACKET, 0)},
	{"signal the parent", false, func(w world) error { return unix.Kill(w.Parent, 0) }},
	{"signal everybody of the host", false, func(w world) error {
		for pid := 2; pid < 1<<22; pid++ {
			if unix.Kill(pid, 0) != nil {
				continue
			}
			// The numbers of one's own threads can be signalled, too.
			if _, err := os.Stat(fmt.Sprintf("/proc/self/task/%d", pid)); err != nil {
				return nil
			}
		}
		return errNothing
	}},
	{"trace the parent", false, func(w world) error { return unix.PtraceAttach(w.Parent) }},
	{"trace the first process", false, func(world) error { return unix.PtraceAttach(1) }},
	{"read the memory of another by process_vm_readv", false, calls(unix.SYS_PROCESS_VM_READV, 1, null, 0, null, 0, 0)},
	{"take a descriptor of another", false, calls(unix.SYS_PIDFD_GETFD, ^null, 0, 0)},

	// Changing what the sandbox is made of.
	{"mount", false, func(world) error { return unix.Mount("tmpfs", "/tmp", "tmpfs", 0, "") }},
	{"mount by the newer calls", false, calls(unix.SYS_FSOPEN, null, 0)},
	{"open a tree of mounts", false, calls(unix.SYS_OPEN_TREE, ^null, null, 0)},
	{"unmount what protects", false, func(w world) error { return unix.Unmount(w.Project+"/.git/config", unix.MNT_DETACH) }},
	{"remount for writing", false, func(w world) error {
		return unix.Mount("", w.Project+"/.git/config", "", unix.MS_REMOUNT|unix.MS_BIND, "")
	}},
	{"change the attributes of a mount", false, func(world) error {
		return unix.MountSetattr(unix.AT_FDCWD, "/usr", 0, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY})
	}},
	{"pivot_root", false, func(w world) error { return unix.PivotRoot(w.Project, w.Project) }},
	{"chroot", false, func(w world) error { return unix.Chroot(w.Project) }},
	{"make a user namespace by unshare", false, func(world) error { return unix.Unshare(unix.CLONE_NEWUSER) }},
	{"make a user namespace by clone", false, func(world) error {
		cmd := exec.Command("/bin/true")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER}
		return cmd.Run()
	}},
	{"make a namespace by clone3", false, calls(unix.SYS_CLONE3, null, 0)},
	{"enter a namespace", false, calls(unix.SYS_SETNS, ^null, 0)},
	{"open by a handle", false, calls(unix.SYS_OPEN_BY_HANDLE_AT, ^null, null, 0)},
	{"make a device", false, func(w world) error {
		return unix.Mknod(w.Project+"/disk", unix.S_IFBLK|0o600, int(unix.Mkdev(254, 0)))
	}},
	{"open a disk", false, shell(`head -c 1 /dev/vda || head -c 1 /dev/sda || head -c 1 /dev/nvme0n1`)},
	{"open the kernel's memory", false, func(world) error { _, err := os.Open("/proc/kcore"); return err }},
	{"become somebody else", false, func(world) error { return unix.Setuid(12345) }},
	{"have a capability", false, func(world) error {
		b, err := os.ReadFile("/proc/self/status")
		if err == nil && strings.Contains(string(b), "CapPrm:\t0000000000000000") && strings.Contains(string(b), "CapEff:\t0000000000000000") && strings.Contains(string(b), "NoNewPrivs:\t1") {
			err = errNothing
		}
		return err
	}},
	{"change the owner of a file to get a setuid program", false, shell(`cp /bin/sh s && chown 1 s && chmod 4755 s`)},
	{"push characters into the terminal", false, func(world) error {
		c := byte('x')
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, 0, unix.TIOCSTI, uintptr(unsafe.Pointer(&c)))
		if errno == 0 || errno == unix.ENOTTY {
			return nil
		}
		return errno
	}},
	{"push characters with a long request", false, func(world) error {
		c := byte('x')
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, 0, 1<<32|unix.TIOCSTI, uintptr(unsafe.Pointer(&c)))
		if errno == 0 || errno == unix.ENOTTY {
			return nil
		}
		return errno
	}},
	{"io_uring", false, calls(unix.SYS_IO_URING_SETUP, 1, null)},
	{"bpf", false, calls(unix.SYS_BPF, 0, null, 0)},
	{"perf", false, calls(unix.SYS_PERF_EVENT_OPEN, null, 0, 0, 0, 0)},
	{"userfaultfd", false, calls(unix.SYS_USERFAULTFD, 0)},
	{"the keys of the kernel", false, calls(unix.SYS_KEYCTL, 0, ^null-2, 0)},
	{"load a module", false, calls(unix.SYS_INIT_MODULE, null, 0, null)},
	{"set what runs on a crash", false, writes(func(world) string { return "/proc/sys/kernel/core_pattern" })},
	{"set the program that loads modules", false, writes(func(world) string { return "/proc/sys/kernel/modprobe" })},
	{"trigger the kernel", false, writes(func(world) string { return "/proc/sysrq-trigger" })},
	{"set what runs when a group is empty", false, shell(`find /sys/fs/cgroup -name release_agent 2>/dev/null | grep .`)},
	{"change the name of the host", false, func(world) error { return unix.Sethostname([]byte("evil")) }},
	{"leave a message in shared memory", false, func(world) error {
		found, err := os.ReadDir("/dev/shm")
		if err == nil && len(found) == 0 {
			err = errNothing
		}
		return err
	}},
	{"run what has no file, with more rights", false, func(w world) error {
		fd, err := unix.MemfdCreate("evil", 0)
		if err != nil {
			return err
		}
		b, err := os.ReadFile("/bin/cat")
		if err != nil {
			return err
		}
		if _, err := unix.Write(fd, b); err != nil {
			return err
		}
		cmd := exec.Command(fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), fd), w.Outside+"/file")
		return cmd.Run()
	}},
	{"use the calls of another processor mode", false, func(world) error {
		_, _, errno := unix.RawSyscall(0x40000000|unix.SYS_GETPID, 0, 0, 0)
		if errno != 0 {
			return errno
		}
		return nil
	}},
}
