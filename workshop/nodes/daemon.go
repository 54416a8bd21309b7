package nodes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// Daemon is one `tidemark fleet up`.
type Daemon struct {
	log   string
	cmd   *exec.Cmd
	ended chan struct{}
}

// Fleet starts one more daemon with a fleet file, and waits until it is up.
func (p *Place) Fleet(ctx context.Context, file string) (*Daemon, error) {
	p.made++
	d := &Daemon{log: filepath.Join(p.Dir, fmt.Sprintf("daemon-%d.log", p.made)), ended: make(chan struct{})}
	log, err := os.OpenFile(d.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	d.cmd = p.command(context.WithoutCancel(ctx), append([]string{"fleet", "up", "--file", file}, p.Flags...)...)
	d.cmd.Stdout, d.cmd.Stderr = log, log
	begun := make(chan error, 1)
	go collect(d.cmd, begun, d.ended)
	if err := <-begun; err != nil {
		return nil, err
	}
	return d, d.up(ctx)
}

// up waits until the daemon reports that it is up.
func (d *Daemon) up(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, nodeTimeout)
	defer cancel()
	for {
		if said, err := os.ReadFile(d.log); err == nil && bytes.Contains(said, []byte("The fleet is up.")) {
			return nil
		}
		select {
		case <-d.ended:
			return fmt.Errorf("a daemon ended:\n%s", d.Said())
		case <-ctx.Done():
			return fmt.Errorf("a daemon is not up: %w\n%s", ctx.Err(), d.Said())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Said returns all output of the daemon.
func (d *Daemon) Said() string {
	b, err := os.ReadFile(d.log)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// Signal sends the daemon a signal.
func (d *Daemon) Signal(s syscall.Signal) error { return d.cmd.Process.Signal(s) }

// Wait waits until a daemon that was asked to end has done so, and reports an
// unclean end.
func (d *Daemon) Wait() error {
	select {
	case <-d.ended:
	case <-time.After(nodeTimeout):
		return errors.Join(errors.New("a daemon does not end"), d.Kill())
	}
	if code := d.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("a daemon ended with %d:\n%s", code, d.Said())
	}
	return nil
}

// Kill ends the daemon at once.
func (d *Daemon) Kill() error {
	err := d.cmd.Process.Kill()
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	<-d.ended
	return err
}
