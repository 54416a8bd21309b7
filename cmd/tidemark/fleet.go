package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/agent"
	"github.com/tidemark-sessions/tidemark/backend/cold"
	"github.com/tidemark-sessions/tidemark/backend/postgres"
	"github.com/tidemark-sessions/tidemark/dispatch"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/fleet/daemon"
	"github.com/tidemark-sessions/tidemark/fleet/file"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/internal/process"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/runner"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/transfer"
)

func fleetCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "fleet",
		Short: "Run agents on schedules",
		Long: `Runs the agents that a fleet file describes: when they are due, when somebody
asks for them, as many at a time as the file allows. Every occurrence of a
schedule runs once, or is written down as skipped with its reason. Any number of
processes may run the same fleet on one store.`,
		Args: usage(cobra.NoArgs), RunE: help,
	}
	f := &fleetRoom{app: a}
	cmd.PersistentFlags().StringVarP(&f.file, "file", "f", file.DefaultName, "the fleet `FILE`")
	cmd.AddCommand(f.init(), f.convert(), f.validate(), f.up(), f.status(), f.install(), f.signal("down", "Stop the fleet on this machine", syscall.SIGTERM),
		f.signal("reload", "Make the fleet on this machine read its file again", syscall.SIGHUP))
	return cmd
}

// fleetRoom is what the subcommands of fleet share.
type fleetRoom struct {
	*app
	file string
}

func (f *fleetRoom) init() *cobra.Command {
	return &cobra.Command{
		Use: "init", Short: "Write a commented fleet file",
		Example: "  tidemark fleet init",
		Args:    usage(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			if _, err := os.Stat(f.file); err == nil {
				return hint.With(tidemark.Existsf("%s is there already", f.file), "name another one with --file")
			}
			if err := file.Write(f.file, file.Template()); err != nil {
				return err
			}
			f.say("Wrote %s. Change it, then: tidemark fleet validate, tidemark fleet up", f.file)
			return nil
		},
	}
}

func (f *fleetRoom) validate() *cobra.Command {
	return &cobra.Command{
		Use: "validate", Short: "Look for mistakes in the fleet file",
		Example: "  tidemark fleet validate",
		Args:    usage(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			file, err := file.Read(f.file)
			if err != nil {
				return err
			}
			agents, schedules := len(file.Agents), file.ScheduleCount()
			return f.printf(map[string]int{"agents": agents, "schedules": schedules}, "%s: %d agent(s), %d schedule(s), no mistakes\n", f.file, agents, schedules)
		},
	}
}

func (f *fleetRoom) up() *cobra.Command {
	var background bool
	var log string
	cmd := &cobra.Command{
		Use: "up", Short: "Run schedules and jobs until stopped",
		Long: `Runs the fleet until SIGTERM or Ctrl-C; SIGHUP, or tidemark fleet reload, makes it
read its file again. What runs when it is stopped becomes interrupted, keeps its
session, and can be resumed. A file with mistakes is refused, and while the fleet
runs the old one stays.

With --detach it runs in the background. The command returns when the fleet is up,
or says why it is not. What it says goes into a log beside its file.

Several may run on one store, and on several machines when that is on PostgreSQL:
each job is run by one of them that has its agent in its file.`,
		Example: "  tidemark fleet up\n  tidemark fleet up --detach\n  tidemark fleet up --file ops/fleet.yaml",
		Args:    usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			file, err := file.Read(f.file)
			if err != nil {
				return err
			}
			s, err := f.open(cmd.Context(), open.Create)
			switch {
			case err != nil:
				return err
			case background:
				return f.detach(cmd, s, log)
			case log != "":
				return tidemark.Invalidf("--log goes with --detach")
			}
			return f.run(cmd, s, file)
		},
	}
	cmd.Flags().BoolVarP(&background, "detach", "d", false, "run in the background, and return when the fleet is up")
	cmd.Flags().StringVar(&log, "log", "", "with --detach, the `FILE` that gets what it says; default fleet.log beside fleet.yaml")
	return cmd
}

// run runs a daemon until the command ends.
func (f *fleetRoom) run(cmd *cobra.Command, s *store.Store, read *file.File) error {
	full, err := filepath.Abs(f.file)
	if err != nil {
		return err
	}
	key, err := fleetKey()
	if err != nil {
		return err
	}
	queue, closeDispatch, err := f.dispatch(cmd.Context(), s)
	if err != nil {
		return err
	}
	defer closeDispatch()
	reload := make(chan os.Signal, 1)
	signal.Notify(reload, syscall.SIGHUP)
	defer signal.Stop(reload)
	wakes := f.waker()
	o := daemon.Options{Store: fleet.Over(s), Dispatch: queue, Holder: f.holder(cmd), File: read, Sleepers: wakes.Sleepers, Wake: wakes.Wake, Key: key, Secret: os.Getenv, Inbox: filepath.Dir(full),
		Machine: &daemon.Machine{Sessions: s, Setup: f.setup(f.config), Environ: os.Environ(), LookupEnv: os.LookupEnv, File: full},
		Session: func(ctx context.Context, a file.Agent, t *runner.Task) (string, error) {
			return transfer.ForAgent(ctx, s, a, t, os.Environ())
		},
		Tell: func(name, text string) {
			f.say("%s %s", time.Now().Format(time.TimeOnly), agent.WithWorker(name, text))
		}}
	return daemon.Up(cmd.Context(), o, daemon.Host{File: f.file, Reload: reload, Getenv: os.Getenv, Say: f.say, Complain: f.complain})
}

// detach starts the fleet in the background and returns when it is up. The caller
// has read the file and opened the store already, so their errors are reported in
// the foreground.
func (f *fleetRoom) detach(cmd *cobra.Command, s *store.Store, log string) error {
	if url, _, err := f.location(); err != nil || strings.HasPrefix(url, "memory:") {
		return errors.Join(err, tidemark.Invalidf("a fleet in the background needs a store that lasts, and this one is %s", url))
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	child := exec.Command(exe, upArgs(cmd)...)
	child.Args[0] = os.Args[0]
	d, err := daemon.Detach(cmd.Context(), fleet.Over(s), child, f.file, log)
	if err != nil {
		return err
	}
	return f.printf(d, "The fleet is up: pid %d, log %s\n", d.PID, d.Log)
}

// upArgs returns the arguments of this command without the flags that put it into
// the background.
func upArgs(cmd *cobra.Command) []string {
	args := strings.Fields(cmd.CommandPath())[1:]
	cmd.Flags().Visit(func(g *pflag.Flag) {
		if g.Name != "detach" && g.Name != "log" {
			args = append(args, "--"+g.Name+"="+g.Value.String())
		}
	})
	return args
}

// fleetKey returns the key with which fleets of this user on this machine sign
// their schedules and wakes. It is made if there is none.
func fleetKey() (fleet.Key, error) {
	state, err := stateDir()
	if err != nil {
		return nil, err
	}
	return fleet.OpenKey(state)
}

// waker returns what wakes this user's hibernating chats.
func (f *fleetRoom) waker() *agent.Waker {
	return &agent.Waker{Store: f.opened.Store, Holder: process.Self("tidemark fleet"), Grants: f.grants(), Untrusted: f.complain,
		Setup: func(project string) (*agent.Setup, error) {
			c, err := loadSettings(f.configFile, project)
			return f.setup(c), err
		}}
}

// dispatch returns what hands out jobs, and a function to close it. On PostgreSQL,
// where several machines may share the store, it is a queue in the same database;
// otherwise it is nil, and the daemon hands them out itself.
func (f *fleetRoom) dispatch(ctx context.Context, s *store.Store) (daemon.Dispatch, func() error, error) {
	none := func() error { return nil }
	place, _, err := f.location()
	if err != nil || !open.IsPostgres(place) {
		return nil, none, err
	}
	p, err := postgres.PrincipalIn(place)
	if err != nil {
		return nil, none, err
	}
	db, ok := cold.Under(f.opened.Inner).(*postgres.Backend)
	d, err := dispatch.New(ctx, place, p, fleet.Over(s), &dispatch.Options{PollOnly: ok && db.Pooled()})
	if err != nil {
		return nil, none, hint.With(err, "make the tables of the queue with: tidemark database migrate")
	}
	return d, d.Close, nil
}

func (f *fleetRoom) status() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "What runs the fleet, and what it does",
		Example: "  tidemark fleet status --json",
		Args:    usage(cobra.NoArgs),
		RunE: f.onFleet(open.Read, func(cmd *cobra.Command, s *fleet.Store, _ []string) error {
			status, err := daemon.StatusOf(cmd.Context(), s)
			if err != nil {
				return err
			}
			return f.print(status, func(w io.Writer) error {
				if len(status.Daemons) == 0 {
					fmt.Fprintln(w, "The fleet is down.")
				}
				for _, d := range status.Daemons {
					fmt.Fprintf(w, "up\t%s\tsince %s\t%s\n", d.Holder, f.when(d.StartedAt), render.OrDash(d.File))
				}
				fmt.Fprintf(w, "%d agent(s), %d job(s) run\n", len(status.Agents), len(status.Running))
				return nil
			})
		}),
	}
}

// signal returns a command that sends a signal to the daemons of this machine.
func (f *fleetRoom) signal(name, short string, what syscall.Signal) *cobra.Command {
	return &cobra.Command{
		Use: name, Short: short, Example: "  tidemark fleet " + name,
		Args: usage(cobra.NoArgs),
		RunE: f.onFleet(open.Read, func(cmd *cobra.Command, s *fleet.Store, _ []string) error {
			signalled, err := daemon.Signal(cmd.Context(), s, f.holder(cmd), what, f.say)
			if err == nil && len(signalled) == 0 {
				err = hint.With(tidemark.NotFoundf("no fleet runs on this machine with this store"), "start it with: tidemark fleet up")
			}
			if err != nil || what != syscall.SIGTERM {
				return err
			}
			if err := daemon.AwaitGone(cmd.Context(), s, signalled); err != nil {
				return err
			}
			f.say("The fleet is down.")
			return nil
		}),
	}
}

// refParts splits AGENT/NAME.
func refParts(ref string) (agent, name string, err error) {
	agent, name, ok := strings.Cut(ref, "/")
	if !ok || agent == "" || name == "" {
		return "", "", tidemark.Invalidf("schedule %q: want AGENT/NAME", ref)
	}
	return agent, name, nil
}
