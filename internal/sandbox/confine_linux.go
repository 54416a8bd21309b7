package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/tidemark-sessions/tidemark/internal/durable"
)

// stageArg is the argument that makes this program the first process of a
// sandbox.
const stageArg = "__sandbox"

// controlFD is the stage's socket to the process that started it. The plan comes
// in over it, and the listener of the proxy goes out; its end tells the stage
// that nobody wants the command any more.
const controlFD = 3

// plan is what the stage is told to do.
type plan struct {
	Mounts     []mount  // how to make the new root, in this order; nil without namespaces
	Writable   []string // for Landlock
	Readable   []string // for Landlock, when there is no new root
	Path       string
	Args       []string
	Dir        string
	Temp       string // a folder for temporary files, when there is no private /tmp
	Proxy      bool
	Ports      []string // of this machine that are reachable inside the sandbox
	Namespaces bool
}

// namespaces are those of a sandbox, besides the user namespace.
const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS

// Fence is this process's handle on a confined one.
type Fence struct {
	theirs, ours *os.File
	places       []*durable.Placeholder
	scratch      *durable.Scratch
	absent       []string // files that must not exist afterwards either
	once         sync.Once
	mu           sync.Mutex
	closed       bool
	listeners    []net.Listener
}

// Confine changes cmd so that it runs within the policy. cmd has its Path, Args,
// Dir, Env and files; the environment is passed to the command unchanged, so it
// should come from Environ. Where the kernel does not allow namespaces, only
// Landlock and seccomp confine the command; hosts cannot be allowed then, and
// nothing below the project can be hidden: a policy that needs it is ErrNone.
//
// The caller calls Started after cmd.Start, whether it succeeded or not, and
// Close after the command has ended.
func Confine(p Policy, cmd *exec.Cmd) (*Fence, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	attr, spaces := newSpaces()
	if p.NoNamespaces {
		spaces = errors.New("the policy leaves them away")
	}
	if err := p.withoutSpaces(); spaces != nil && err != nil {
		return nil, fmt.Errorf("%w: namespaces: %w: %w", ErrNone, spaces, err)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	f := &Fence{theirs: os.NewFile(uintptr(pair[0]), "control"), ours: os.NewFile(uintptr(pair[1]), "control")}
	told := plan{Path: cmd.Path, Args: cmd.Args, Dir: cmd.Dir, Proxy: len(p.Hosts) > 0, Namespaces: spaces == nil}
	if told.Dir == "" {
		told.Dir = p.Root
	}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	if told.Namespaces {
		f.forestall(p.Root)
		told.Mounts, told.Writable = p.mounts()
		cmd.SysProcAttr.Cloneflags |= attr.Cloneflags
		cmd.SysProcAttr.UidMappings, cmd.SysProcAttr.GidMappings, cmd.SysProcAttr.AmbientCaps = attr.UidMappings, attr.GidMappings, attr.AmbientCaps
	} else {
		if f.scratch, err = durable.NewScratch("tidemark-sandbox"); err != nil {
			f.abandon()
			return nil, fmt.Errorf("sandbox: %w", err)
		}
		told.Readable, told.Writable = p.rules()
		told.Temp = f.scratch.Dir()
		told.Writable = append(told.Writable, told.Temp)
	}
	var way *proxy
	if told.Proxy {
		if way, err = newProxy(p.Hosts); err != nil {
			f.abandon()
			return nil, err
		}
		told.Ports = slices.Sorted(maps.Keys(way.local()))
	}
	cmd.Path, cmd.Args, cmd.Dir, cmd.Err = "/proc/self/exe", []string{"tidemark", stageArg}, "/", nil
	cmd.ExtraFiles = []*os.File{f.theirs}
	go f.attend(told, way)
	return f, nil
}

// withoutSpaces returns why Landlock and seccomp alone cannot enforce a policy.
func (p Policy) withoutSpaces() error {
	switch {
	case landlockVersion() < 1:
		return errors.New("this kernel has no Landlock either")
	case len(p.Hosts) > 0:
		return errors.New("hosts cannot be allowed without them")
	}
	for _, path := range p.Hide {
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			continue // it does not exist
		}
		for _, open := range slices.Concat([]string{p.Root}, p.Write, p.Read, p.Forget) {
			if open, err := filepath.EvalSymlinks(open); err != nil {
				continue
			} else if _, ok := Below(open, real); ok {
				return fmt.Errorf("%s cannot be hidden without them", path)
			}
		}
	}
	return nil
}

// abandon closes a fence that has no attend goroutine.
func (f *Fence) abandon() {
	f.ours.Close()
	f.Close()
}

// attend sends the stage its plan, serves its proxy, and holds the socket open
// until the stage is gone.
func (f *Fence) attend(told plan, way *proxy) {
	defer f.ours.Close()
	fd := int(f.ours.Fd()) // blocking from here on
	b, err := json.Marshal(told)
	if err != nil {
		return
	}
	for b = append(b, '\n'); len(b) > 0; {
		n, err := unix.SendmsgN(fd, b, nil, nil, unix.MSG_NOSIGNAL)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return
		}
		b = b[max(n, 0):]
	}
	buf, rights := make([]byte, 1), make([]byte, unix.CmsgSpace(4))
	for {
		n, oob, _, _, err := unix.Recvmsg(fd, buf, rights, unix.MSG_CMSG_CLOEXEC)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil || n == 0:
			f.mu.Lock()
			for _, l := range f.listeners {
				l.Close()
			}
			f.mu.Unlock()
			return
		}
		f.open(rights[:oob], way)
	}
}

// open serves a listener that the stage made in its network.
func (f *Fence) open(rights []byte, way *proxy) {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil || len(messages) != 1 {
		return
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return
	}
	for _, fd := range fds {
		file := os.NewFile(uintptr(fd), "proxy")
		l, err := net.FileListener(file)
		file.Close()
		switch {
		case err != nil:
		case way == nil:
			l.Close()
		default:
			f.mu.Lock()
			f.listeners = append(f.listeners, l)
			f.mu.Unlock()
			go way.attend(l)
		}
	}
}

// Started releases what only the started process needs now.
func (f *Fence) Started() { f.once.Do(func() { f.theirs.Close() }) }

// Close ends what is left of the sandbox, and removes the placeholders that were
// put into the project. It may be called twice.
func (f *Fence) Close() {
	f.Started()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return
	}
	f.closed = true
	for _, p := range f.places {
		p.Close()
	}
	for _, name := range f.absent {
		unix.Unlink(name)
	}
	if f.scratch != nil {
		f.scratch.Close()
	}
}

// forestall occupies the names of Protected that do not exist, so that they can
// be mounted over and nothing in the sandbox can create them. The folders are
// empty, which git ignores.
func (f *Fence) forestall(root string) {
	var paths []string
	for _, name := range slices.Concat([]string{".git"}, Protected) {
		if !slices.Contains(harmlessWhenAbsent, name) {
			paths = append(paths, filepath.Join(root, name))
		}
	}
	if real, err := filepath.EvalSymlinks(root); err == nil {
		for _, dir := range gitDirs(real) {
			paths = append(paths, filepath.Join(dir, "hooks"), filepath.Join(dir, "modules"), filepath.Join(dir, "worktrees"))
		}
	}
	for _, path := range paths {
		if parent, err := os.Lstat(filepath.Dir(path)); err != nil || !parent.IsDir() || parent.Mode().Perm()&0o200 == 0 {
			continue
		}
		if place, err := durable.HoldPlaceholder(path); err == nil && place != nil {
			f.places = append(f.places, place)
		}
	}
	// A file of this name makes git take its configuration from elsewhere. A
	// folder in its place would stop git, so instead such a file is removed
	// after the program.
	if common := filepath.Join(root, ".git", "commondir"); isDir(filepath.Join(root, ".git")) {
		if _, err := os.Lstat(common); errors.Is(err, os.ErrNotExist) {
			f.absent = append(f.absent, common)
		}
	}
}

func isDir(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}

// newSpaces returns how a process is started in the namespaces of a sandbox, or
// why this process cannot do that. It tries: it starts a program that does not
// exist in them, which fails with "not found" only if they could be made.
//
// Root needs no user namespace, and cannot have one in a chroot.
func newSpaces() (*syscall.SysProcAttr, error) {
	id := func(n int) []syscall.SysProcIDMap {
		return []syscall.SysProcIDMap{{ContainerID: n, HostID: n, Size: 1}}
	}
	users := &syscall.SysProcAttr{Cloneflags: namespaces | unix.CLONE_NEWUSER, UidMappings: id(os.Getuid()), GidMappings: id(os.Getgid()),
		// A process that is not root in the namespace would lose these at the
		// exec of the stage.
		AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_NET_BIND_SERVICE, unix.CAP_SETPCAP, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_CHOWN}}
	if b, err := os.ReadFile("/proc/sys/kernel/apparmor_restrict_unprivileged_userns"); err == nil && strings.TrimSpace(string(b)) == "1" && os.Geteuid() != 0 {
		return nil, errors.New("AppArmor does not let users make them (kernel.apparmor_restrict_unprivileged_userns)")
	}
	err := trySpaces(users)
	if err == nil {
		return users, nil
	}
	if root := (&syscall.SysProcAttr{Cloneflags: namespaces}); os.Geteuid() == 0 && trySpaces(root) == nil {
		return root, nil
	}
	return nil, err
}

func trySpaces(attr *syscall.SysProcAttr) error {
	tried := *attr
	_, err := os.StartProcess("/nonexistent/sandbox", []string{"sandbox"}, &os.ProcAttr{Env: []string{}, Sys: &tried})
	var path *os.PathError
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case errors.As(err, &path):
		return path.Err
	}
	return err
}

// Layers lists what this machine can enforce.
func Layers() []Layer {
	spaces := Layer{"namespaces", true, "files, processes and network are those of the sandbox alone"}
	network := Layer{"network", true, "off; hosts are allowed one by one through a proxy"}
	if _, err := newSpaces(); err != nil {
		spaces = Layer{"namespaces", false, err.Error() + ": git's and agents' configuration below the project is not protected, and the system's processes can be seen"}
		network = Layer{"network", true, "off; hosts cannot be allowed without namespaces"}
	}
	land := Layer{"landlock", true, fmt.Sprintf("version %d; holds files a second time", landlockVersion())}
	if landlockVersion() < 1 {
		land = Layer{"landlock", false, "this kernel does not have it, or it was not turned on at boot"}
	}
	calls := Layer{"seccomp", true, fmt.Sprintf("%d system calls are refused, with no_new_privs", len(refusedCalls()))}
	if auditArch == 0 {
		calls = Layer{"seccomp", false, "there is no list for this processor"}
		network.On = spaces.On
	}
	if !spaces.On && !land.On {
		network = Layer{"network", false, "nothing is run in a sandbox"}
	}
	return []Layer{spaces, network, land, calls}
}
