package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/durable"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/store"
)

const (
	// readyWithin is how long a fleet may take until it is up: it may have a
	// long time without one to make up for.
	readyWithin = time.Minute
	// readyLook is how often it is looked whether it is.
	readyLook = 50 * time.Millisecond
	// maxLogTail is what is shown of the log of a fleet that did not come up.
	maxLogTail = 4 << 10
	// downWithin is longer than a fleet gives its runs to end.
	downWithin = 45 * time.Second
)

// detached is a fleet that runs in the background.
type detached struct {
	PID int    `json:"pid"`
	Log string `json:"log"`
}

// detach starts the fleet in the background and returns when it is up. Mistakes
// in the file, and a store that cannot be opened, are said here.
func (f *fleetRoom) detach(cmd *cobra.Command, s *store.Store, log string) error {
	if url, _, err := f.location(); err != nil || strings.HasPrefix(url, "memory:") {
		return errors.Join(err, tidemark.Invalidf("a fleet in the background needs a store that lasts, and this one is %s", url))
	}
	full, err := filepath.Abs(f.file)
	if err != nil {
		return err
	}
	if log == "" {
		log = strings.TrimSuffix(full, filepath.Ext(full)) + ".log"
	}
	if log, err = filepath.Abs(log); err != nil {
		return err
	}
	out, err := durable.OpenLog(log)
	if err != nil {
		return tidemark.Storagef("the log of the fleet: %w", err)
	}
	defer out.Close()
	info, err := out.Stat()
	if err != nil {
		return tidemark.Storagef("the log of the fleet: %w", err)
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	child := exec.Command(exe, upArgs(cmd)...)
	child.Args[0] = os.Args[0]
	child.Stdout, child.Stderr, child.SysProcAttr = out, out, ownSession()
	if err := child.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- child.Wait() }()
	if err := f.awaitReady(cmd.Context(), s, child.Process.Pid, ended); err != nil {
		return withHint(fmt.Errorf("%w%s", err, logSince(log, info.Size())), "all that it said is in %s", log)
	}
	d := detached{child.Process.Pid, log}
	return f.print(d, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "The fleet is up: pid %d, log %s\n", d.PID, d.Log)
		return err
	})
}

// upArgs are the arguments of this command without those that put it into the
// background.
func upArgs(cmd *cobra.Command) []string {
	args := strings.Fields(cmd.CommandPath())[1:]
	cmd.Flags().Visit(func(g *pflag.Flag) {
		if g.Name != "detach" && g.Name != "log" {
			args = append(args, "--"+g.Name+"="+g.Value.String())
		}
	})
	return args
}

// awaitReady waits until the fleet of a process is up.
func (f *fleetRoom) awaitReady(ctx context.Context, s *store.Store, pid int, ended <-chan error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyWithin, fmt.Errorf("the fleet, pid %d, is not up after %s; it goes on trying", pid, readyWithin))
	defer cancel()
	host := f.holderNamed("").Host
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
			return fmt.Errorf("the fleet did not come up: %w", orAtOnce(err))
		case <-time.After(readyLook):
		}
	}
}

// orAtOnce is why a process ended.
func orAtOnce(err error) error {
	if err == nil {
		return errors.New("it ended at once")
	}
	return err
}

// logSince is the end of what a log got since it had so many bytes, in lines of
// their own; "" when there is nothing to show.
func logSince(log string, from int64) string {
	in, err := os.Open(log)
	if err != nil {
		return ""
	}
	defer in.Close()
	if info, err := in.Stat(); err == nil && info.Size()-from > maxLogTail {
		from = info.Size() - maxLogTail
	}
	b, err := io.ReadAll(io.NewSectionReader(in, from, maxLogTail))
	text := strings.TrimSpace(render.Clean(strings.ToValidUTF8(string(b), "")))
	if err != nil || text == "" {
		return ""
	}
	return ":\n" + text
}

// gone waits until daemons that were told to stop have ended.
func (f *fleetRoom) gone(ctx context.Context, s *store.Store, told []store.Daemon) error {
	late := time.Now().Add(downWithin)
	for {
		left, err := living(ctx, s)
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
			f.say("The fleet is down.")
			return nil
		case time.Now().After(late):
			return fmt.Errorf("%s has not ended after %s", waits, downWithin)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(readyLook):
		}
	}
}
