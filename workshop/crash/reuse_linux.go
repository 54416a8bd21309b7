package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/process"
)

// reuses is how often a pid is reused in one trial.
const reuses = 20

// reusePids runs the helper reuse as the first process of a pid namespace,
// where it alone decides which pid comes next.
func reusePids(ctx context.Context, o options, dir string) (int, error) {
	if os.Geteuid() != 0 {
		return 0, &skipped{"choosing a pid needs root"}
	}
	me, err := os.Executable()
	if err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(ctx, me, "reuse", o.backend, dir)
	cmd.Env = append(os.Environ(), helperMark+"=reuse")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	stderr := new(strings.Builder)
	cmd.Stderr = stderr
	out, err := cmd.Output()
	switch {
	case errors.Is(err, syscall.EPERM):
		return 0, &skipped{"no pid namespace of our own: " + err.Error()}
	case err != nil:
		return 0, fmt.Errorf("pid used again: %w: %s", err, stderr)
	}
	said := strings.TrimSpace(string(out))
	if reason, ok := strings.CutPrefix(said, "skipped: "); ok {
		return 0, &skipped{reason}
	}
	return strconv.Atoi(said)
}

// reuse is the helper command: it lets a holder die, gives its pid to
// an unrelated process, and attaches.
func reuse(ctx context.Context, args []string, _ io.Reader, out io.Writer) error {
	if len(args) != 2 {
		return errors.New("reuse: want a backend and a directory")
	}
	if err := ownProc(); err != nil {
		fmt.Fprintf(out, "skipped: %v\n", err)
		return nil
	}
	s, err := openStore(ctx, args[0], args[1], longLease)
	if err != nil {
		return err
	}
	defer s.Close()
	w := s.Create(tidemark.Session{}, process.Self("crash"))
	if _, err := w.Append(ctx, tidemark.Say(tidemark.User, "first")); err != nil {
		return err
	}
	if err := w.Close(ctx); err != nil {
		return err
	}
	attach := func() error {
		w, err := s.Attach(ctx, w.ID(), process.Self("crash"))
		if err != nil {
			return err
		}
		return w.Close(ctx)
	}
	done := 0
	for range reuses {
		ok, err := reuseOnce(args, w.ID(), attach)
		if err != nil {
			return err
		}
		if ok {
			done++
		}
	}
	if done == 0 {
		fmt.Fprintln(out, "skipped: no process could be given the pid of a dead one")
		return nil
	}
	fmt.Fprintln(out, done)
	return nil
}

// ownProc mounts a /proc that shows this namespace.
func ownProc() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("own mounts: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("own /proc: %w", err)
	}
	return os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte("100"), 0o600)
}

// reuseOnce reports whether a pid was really reused.
func reuseOnce(args []string, id tidemark.SessionID, attach func() error) (bool, error) {
	holder, err := child("contend", "-backend", args[0], "-dir", args[1], "-lease", longLease.String(), "-name", "holder",
		"-sessions", string(id))
	if err != nil {
		return false, err
	}
	defer holder.end()
	if err := holder.until("got "); err != nil {
		return false, err
	}
	// While suspended it is alive and keeps its lease.
	if err := suspend(holder.Process); err != nil {
		return false, err
	}
	if err := attach(); err != nil && !errors.Is(err, tidemark.ErrHeld) {
		return false, fmt.Errorf("attach beside a living holder: %w", err)
	} else if err == nil {
		return false, nil // it had just released the session
	}
	// The kernel counts start times in hundredths of a second.
	time.Sleep(20 * time.Millisecond)
	pid := holder.Process.Pid
	holder.end()
	for range 50 {
		if err := os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte(strconv.Itoa(pid-1)), 0o600); err != nil {
			return false, err
		}
		other, err := child("idle")
		if err != nil {
			return false, err
		}
		defer other.end()
		if other.Process.Pid != pid {
			other.end()
			continue
		}
		if err := other.until("here"); err != nil {
			return false, err
		}
		if err := attach(); err != nil {
			return false, fmt.Errorf("attach after the holder died and its pid %d was used again: %w", pid, err)
		}
		return true, nil
	}
	return false, nil
}

// childProcess is a helper and what it says.
type childProcess struct {
	*exec.Cmd
	out *bufio.Reader
}

func child(args ...string) (*childProcess, error) {
	cmd := exec.Command("/proc/self/exe", args...)
	if _, err := cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = os.Stderr
	return &childProcess{cmd, bufio.NewReader(out)}, cmd.Start()
}

func (c *childProcess) until(prefix string) error {
	for {
		line, err := c.out.ReadString('\n')
		if err != nil {
			return fmt.Errorf("%s: %w", c.Args[1], err)
		}
		if strings.HasPrefix(line, prefix) {
			return nil
		}
	}
}

// end kills the child; a second call does nothing.
func (c *childProcess) end() {
	if c.ProcessState == nil {
		c.Process.Kill()
		c.Wait()
	}
}
