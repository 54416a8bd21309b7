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

// Host is the process that a daemon runs in: what tells it things, and whom it
// tells.
type Host struct {
	// File is the fleet file as people named it, which is read again whenever
	// something comes from Reload.
	File   string
	Reload <-chan os.Signal
	// Getenv finds where systemd listens, and what the file names for webhooks.
	Getenv func(string) string
	// Say and Complain are for people.
	Say      func(format string, args ...any)
	Complain func(error)
}

// Up runs a fleet on its Machine until ctx ends, and has it known in the store as
// long.
func Up(ctx context.Context, o Options, h Host) error {
	if err := o.Store.AddDaemon(ctx, fleet.Daemon{Holder: o.Holder, File: o.Machine.File}); err != nil {
		return err
	}
	defer o.Store.RemoveDaemon(context.WithoutCancel(ctx), o.Holder)
	n := process.NewNotifier(h.Getenv)
	o.Round = n.Alive
	// It is in the log first, so that it is there for whoever waited.
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

// reloads reads the file again whenever somebody asks for it. The daemon alone
// knows which file holds: it starts, and is reloaded, at the same time.
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

// Living are the daemons of a store that are not proven dead.
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

// Status is what runs a fleet, and what it does.
type Status struct {
	Agents    []tidemark.Agent `json:"agents"`
	Daemons   []fleet.Daemon   `json:"daemons"`
	Running   []string         `json:"running"`
	StartedAt time.Time        `json:"started_at"`
}

// StatusOf is the status of the fleet of a store.
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

// Signal tells the daemons of this machine something, and says whom it told. It
// returns those: none when no fleet runs here.
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
	// readyWithin is how long a fleet may take until it is up: it may have a
	// long time without one to make up for.
	readyWithin = time.Minute
	// downWithin is longer than a fleet gives its runs to end.
	downWithin = 45 * time.Second
	// statusEvery is how often it is looked whether it is up, or down.
	statusEvery = 50 * time.Millisecond
)

// AwaitReady waits until the fleet of a process on this machine is up. Ended gets
// how the process ended, if it does.
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
