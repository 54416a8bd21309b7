package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/fleet/file"
	"github.com/tidemark-sessions/tidemark/internal/process"
)

// Host connects a daemon with the process that it runs in.
type Host struct {
	// File is the path of the fleet file as people gave it. It is read again at
	// each signal from Reload.
	File   string
	Reload <-chan os.Signal
	// Getenv returns environment variables: the socket of systemd, and the secrets
	// of webhooks that the file names.
	Getenv func(string) string
	// Say and Complain print messages and errors for people.
	Say      func(format string, args ...any)
	Complain func(error)
}

// Up runs a fleet on its Machine until ctx ends. As long as it runs, the store lists
// it as a daemon.
func Up(ctx context.Context, o Options, h Host) error {
	if err := o.Store.AddDaemon(ctx, fleet.Daemon{Holder: o.Holder, File: o.Machine.File}); err != nil {
		return err
	}
	defer o.Store.RemoveDaemon(context.WithoutCancel(ctx), o.Holder)
	n := process.NewNotifier(h.Getenv)
	o.Round = n.Alive
	// The message comes first, so that it is in the log when AwaitReady returns.
	o.Ready = func() {
		h.Say("The fleet is up.")
		if err := o.Store.DaemonReady(ctx, o.Holder); err != nil {
			h.Complain(err)
		}
		n.Ready()
	}
	d := New(o)
	go h.reloads(ctx, d)
	go func() {
		if err := d.Serve(ctx, h.Getenv); err != nil {
			h.Complain(err)
		}
	}()
	h.Say("The fleet starts: %d agent(s).", len(o.File.Agents))
	defer context.AfterFunc(ctx, n.Stopping)()
	err := d.Run(ctx)
	h.Say("The fleet is down.")
	return err
}

// reloads reads the file again at each signal. The changes come from the daemon, since
// only that knows which file it has: it may be starting at the same time.
func (h Host) reloads(ctx context.Context, d *Daemon) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.Reload:
		}
		next, err := file.Read(h.File)
		if err != nil {
			h.Complain(fmt.Errorf("the file was not taken over: %w", err))
			continue
		}
		for _, c := range d.Reload(next) {
			h.Say("%s", c)
		}
	}
}

// Living returns the daemons of a store that are not proven dead.
func Living(ctx context.Context, s *fleet.Store) ([]fleet.Daemon, error) {
	all, err := s.Daemons(ctx)
	alive := []fleet.Daemon{}
	for _, d := range all {
		if !d.Dead {
			alive = append(alive, d)
		}
	}
	return alive, err
}

// Status is the state of a fleet: its agents, its daemons and what runs.
type Status struct {
	Agents    []tidemark.Agent `json:"agents"`
	Daemons   []fleet.Daemon   `json:"daemons"`
	Running   []string         `json:"running"`
	StartedAt time.Time        `json:"started_at"`
}

// StatusOf returns the status of the fleet in a store.
func StatusOf(ctx context.Context, s *fleet.Store) (is Status, err error) {
	about, err := s.Fleet(ctx)
	if err != nil {
		return is, err
	}
	is.StartedAt = about.StartedAt
	if is.Daemons, err = Living(ctx, s); err != nil {
		return is, err
	}
	if is.Running, err = s.Running(ctx, ""); err != nil {
		return is, err
	}
	is.Agents, err = s.AgentStates(ctx)
	return is, err
}

// Signal sends a signal to the daemons on this machine, and reports each with say. It
// returns them: none when no fleet runs here.
func Signal(ctx context.Context, s *fleet.Store, here tidemark.Holder, what syscall.Signal, say func(format string, args ...any)) (told []fleet.Daemon, err error) {
	daemons, err := Living(ctx, s)
	if err != nil {
		return nil, err
	}
	for _, d := range daemons {
		if d.Holder.Host != here.Host || d.Holder.BootID != here.BootID {
			continue
		}
		if err := process.Signal(d.Holder.PID, what); err != nil {
			return told, tidemark.Invalidf("%s: %w", d.Holder, err)
		}
		told = append(told, d)
		say("Told %s.", d.Holder)
	}
	return told, nil
}

const (
	// readyWithin is how long a fleet may take to start: it may have to catch up on
	// what was due while none was running.
	readyWithin = time.Minute
	// downWithin is longer than the time that a fleet gives its runs to end.
	downWithin = 45 * time.Second
	// statusEvery is how often the store is checked for whether it is up or down.
	statusEvery = 50 * time.Millisecond
)

// AwaitReady waits until the fleet of a process on this machine is up. ended receives
// the result of the process if it ends before.
func AwaitReady(ctx context.Context, s *fleet.Store, pid int, ended <-chan error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyWithin, fmt.Errorf("the fleet, pid %d, is not up after %s; it goes on trying", pid, readyWithin))
	defer cancel()
	host := process.Self("").Host
	for {
		daemons, err := s.Daemons(ctx)
		if err != nil {
			return err
		}
		for _, d := range daemons {
			if d.Holder.PID == pid && d.Holder.Host == host && !d.Dead && !d.ReadyAt.IsZero() {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case err := <-ended:
			if err == nil {
				err = errors.New("it ended at once")
			}
			return fmt.Errorf("the fleet did not come up: %w", err)
		case <-time.After(statusEvery):
		}
	}
}

// AwaitGone waits until daemons that were told to stop have ended.
func AwaitGone(ctx context.Context, s *fleet.Store, told []fleet.Daemon) error {
	late := time.Now().Add(downWithin)
	for {
		left, err := Living(ctx, s)
		if err != nil {
			return err
		}
		waits := ""
		for _, d := range left {
			for _, t := range told {
				if d.Holder == t.Holder {
					waits = d.Holder.String()
				}
			}
		}
		switch {
		case waits == "":
			return nil
		case time.Now().After(late):
			return fmt.Errorf("%s has not ended after %s", waits, downWithin)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(statusEvery):
		}
	}
}
