//go:build unix

package pgtest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// account is the user who runs a server; without a name, whoever runs the
// tests.
type account struct {
	name     string
	uid, gid int
}

// whom returns the account for servers: PostgreSQL refuses to run as root.
func whom() (account, error) {
	if os.Geteuid() != 0 {
		return account{}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, errUser := strconv.Atoi(u.Uid)
		gid, errGroup := strconv.Atoi(u.Gid)
		if errUser == nil && errGroup == nil {
			return account{name: name, uid: uid, gid: gid}, nil
		}
	}
	return account{}, missing("PostgreSQL does not run as root, and there is neither a user postgres nor nobody")
}

// own gives a file to the account.
func (a account) own(path string) error {
	if a.name == "" {
		return nil
	}
	return os.Chown(path, a.uid, a.gid)
}

// command prepares a program that runs as the account, in dir, and in a
// session of its own.
func command(as account, dir, program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C", "HOME=" + dir}
	apart(cmd)
	if as.name != "" {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(as.uid), Gid: uint32(as.gid)}
	}
	return cmd
}

func apart(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// killFamily kills a process with its children, and returns when none of them
// is left: a server started while an old one is still dying finds its memory
// in use. The process is stopped first, so that it neither starts another
// child meanwhile nor notices one dying. ended is closed when the process is
// gone; its pid may then belong to another process.
func killFamily(pid int, ended <-chan struct{}) error {
	select {
	case <-ended:
		return nil
	default:
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return err
	}
	until(func() bool { return strings.ContainsAny(stateOf(pid), "TtZ") })
	children, err := childrenOf(pid)
	for _, child := range children {
		_ = syscall.Kill(child, syscall.SIGKILL) // it may have ended by itself
	}
	if e := syscall.Kill(pid, syscall.SIGKILL); e != nil {
		return e
	}
	for _, child := range children {
		until(func() bool { return stateOf(child) == "Z" })
	}
	return err
}

// suspendFamily stops a process with its children, or lets them go on.
func suspendFamily(pid int, stop bool) error {
	signal := syscall.SIGCONT
	if stop {
		signal = syscall.SIGSTOP
	}
	if err := syscall.Kill(pid, signal); err != nil {
		return err
	}
	if stop { // so that it starts no more of them
		until(func() bool { return strings.ContainsAny(stateOf(pid), "TtZ") })
	}
	children, err := childrenOf(pid)
	for _, child := range children {
		_ = syscall.Kill(child, signal) // it may have ended by itself
	}
	return err
}

// until polls done, at most for serverTimeout.
func until(done func() bool) {
	for end := time.Now().Add(serverTimeout); !done() && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
}

// stateOf returns the letter for the state of a process, Z when it has ended.
// A process that ended and whose parent does not wait for it stays forever.
func stateOf(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		if b, err = exec.Command("ps", "-o", "state=", "-p", strconv.Itoa(pid)).Output(); err != nil || len(bytes.TrimSpace(b)) == 0 {
			return "Z"
		}
	}
	var state string
	fmt.Sscan(string(b[bytes.LastIndexByte(b, ')')+1:]), &state)
	return state[:min(1, len(state))]
}

// childrenOf asks /proc, and ps where there is none.
func childrenOf(pid int) (children []int, err error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	for _, name := range stats {
		b, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		var child, parent int
		var state string
		fmt.Sscan(string(b), &child)
		fmt.Sscan(string(b[bytes.LastIndexByte(b, ')')+1:]), &state, &parent)
		if parent == pid {
			children = append(children, child)
		}
	}
	if len(stats) > 0 {
		return children, nil
	}
	out, err := exec.Command("ps", "-A", "-o", "pid=,ppid=").Output()
	for line := range bytes.Lines(out) {
		var child, parent int
		if n, _ := fmt.Sscan(string(line), &child, &parent); n == 2 && parent == pid {
			children = append(children, child)
		}
	}
	return children, err
}
