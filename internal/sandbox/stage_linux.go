package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Stage runs the first process of a sandbox, if the arguments of this process
// (including its name) say that it is one, and returns the exit code of the
// command. It must be the first thing that a program with a sandbox does.
// environ is passed to the command; signals are those that this process
// receives, and are forwarded to the command.
//
// The process stays as the parent of all others, because a command that is the
// first process of a namespace cannot be interrupted. When the command ends, or
// the process that wanted it, everything in the sandbox is killed with it.
func Stage(args, environ []string, signals func() <-chan os.Signal) (code int, staged bool, err error) {
	if len(args) != 2 || args[1] != stageArg {
		return 0, false, nil
	}
	// Privileges belong to threads. This one starts the command.
	runtime.LockOSThread()
	code, err = stage(environ, signals())
	if err != nil {
		return 126, true, fmt.Errorf("sandbox: %w", err)
	}
	return code, true, nil
}

func stage(environ []string, signals <-chan os.Signal) (int, error) {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return 0, err
	}
	// Nothing that this process inherited by accident is passed on.
	if err := unix.CloseRange(3, ^uint(0)>>1, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return 0, fmt.Errorf("close_range: %w", err)
	}
	var told plan
	if err := json.NewDecoder(controlReader{}).Decode(&told); err != nil {
		return 0, fmt.Errorf("plan: %w", err)
	}
	if told.Namespaces {
		if err := makeRoot(told.Mounts); err != nil {
			return 0, err
		}
		if err := raiseLoopback(); err != nil {
			return 0, fmt.Errorf("loopback: %w", err)
		}
	}
	environ = without(environ, "TMPDIR", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
	if told.Temp != "" {
		environ = append(environ, "TMPDIR="+told.Temp)
	}
	for _, port := range told.Ports {
		for _, host := range []string{"127.0.0.1", "::1"} {
			// If the port is not available, the proxy leads there, too.
			offer(net.JoinHostPort(host, port))
		}
	}
	if told.Proxy {
		address, err := offer("127.0.0.1:0")
		if err != nil {
			return 0, fmt.Errorf("proxy: %w", err)
		}
		for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"} {
			environ = append(environ, name+"=http://"+address)
		}
		environ = append(environ, "NO_PROXY=localhost,127.0.0.1,::1", "no_proxy=localhost,127.0.0.1,::1")
	}
	pid, err := launch(told, environ)
	if err != nil {
		return 0, err
	}
	go func() {
		io.Copy(io.Discard, controlReader{})
		unix.Kill(pid, unix.SIGKILL) // nobody wants it any more
	}()
	// A session leader was started as a family, which is signalled as a whole:
	// the command would get every signal twice.
	if session, err := unix.Getsid(0); err != nil || session != os.Getpid() {
		go func() {
			for s := range signals {
				if n, ok := s.(syscall.Signal); ok && passedOn(n) {
					unix.Kill(pid, n)
				}
			}
		}()
	}
	return reap(pid)
}

// controlReader reads what the stage is told. It is not an os.File: that would
// be closed when it is garbage collected, and its number reused.
type controlReader struct{}

func (controlReader) Read(b []byte) (int, error) {
	for {
		n, err := unix.Read(controlFD, b)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

// passedOn reports whether a signal is meant for the command. Those of a
// terminal reach it directly.
func passedOn(s syscall.Signal) bool {
	switch s {
	case unix.SIGTERM, unix.SIGHUP, unix.SIGUSR1, unix.SIGUSR2:
		return true
	}
	return false
}

// launch gives up every privilege and starts the command.
func launch(told plan, environ []string) (pid int, err error) {
	path := told.Path
	if !strings.Contains(path, "/") {
		if path, err = exec.LookPath(path); err != nil {
			return 0, fmt.Errorf("%s: not found in the sandbox", told.Path)
		}
	}
	if err := unix.Chdir(told.Dir); err != nil {
		return 0, fmt.Errorf("%s: %w", told.Dir, err)
	}
	if err := lockDown(told); err != nil {
		return 0, err
	}
	pid, _, err = syscall.StartProcess(path, told.Args, &syscall.ProcAttr{Env: environ, Files: []uintptr{0, 1, 2}})
	if errors.Is(err, os.ErrNotExist) {
		return 0, fmt.Errorf("%s is not in the sandbox", path)
	}
	if err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	return pid, nil
}

// reap waits for the command, and for all processes whose parents ended before
// them.
func reap(pid int) (code int, err error) {
	for {
		var status unix.WaitStatus
		got, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return 0, err
		case got == pid && status.Signaled():
			return 128 + int(status.Signal()), nil
		case got == pid:
			return status.ExitStatus(), nil
		}
	}
}

// without removes variables, in upper and lower case.
func without(environ []string, names ...string) (kept []string) {
	for _, kv := range environ {
		name, _, _ := strings.Cut(kv, "=")
		found := false
		for _, n := range names {
			found = found || strings.EqualFold(n, name)
		}
		if !found {
			kept = append(kept, kv)
		}
	}
	return kept
}

// raiseLoopback turns on the loopback network of the sandbox.
func raiseLoopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request)
}

// offer listens in the network of the sandbox and sends the listener out:
// connections are accepted outside.
func offer(address string) (at string, err error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return "", err
	}
	defer l.Close()
	file, err := l.(*net.TCPListener).File()
	if err != nil {
		return "", err
	}
	defer file.Close()
	err = unix.Sendmsg(controlFD, []byte{'l'}, unix.UnixRights(int(file.Fd())), nil, unix.MSG_NOSIGNAL)
	return l.Addr().String(), err
}
