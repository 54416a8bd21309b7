package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/agent"
	"github.com/tidemark-sessions/tidemark/backend/postgres"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/dispatch"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/fleet/daemon"
	"github.com/tidemark-sessions/tidemark/fleet/file"
	"github.com/tidemark-sessions/tidemark/internal/durable"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/runner"
	"github.com/tidemark-sessions/tidemark/store"
)

// fleetFile is where a fleet is described, unless --file says otherwise.
const fleetFile = "fleet.yaml"

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
	cmd.PersistentFlags().StringVarP(&f.file, "file", "f", fleetFile, "the fleet `FILE`")
	cmd.AddCommand(f.init(), f.convert(), f.validate(), f.up(), f.status(), f.install(), f.signal("down", "Stop the fleet on this machine", syscall.SIGTERM),
		f.signal("reload", "Make the fleet on this machine read its file again", syscall.SIGHUP))
	return cmd
}

// fleetRoom is what the commands about the fleet share.
type fleetRoom struct {
	*app
	file   string
	daemon *daemon.Daemon // while it is up
	key    fleet.Key      // likewise
}

func (f *fleetRoom) init() *cobra.Command {
	return &cobra.Command{
		Use: "init", Short: "Write a commented fleet file",
		Example: "  tidemark fleet init",
		Args:    usage(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			if _, err := os.Stat(f.file); err == nil {
				return withHint(tidemark.Existsf("%s is there already", f.file), "name another one with --file")
			}
			if err := f.write(file.Template()); err != nil {
				return err
			}
			f.say("Wrote %s. Change it, then: tidemark fleet validate, tidemark fleet up", f.file)
			return nil
		},
	}
}

// write writes the fleet file, whole or not at all.
func (f *fleetRoom) write(text []byte) error {
	dir, err := durable.OpenDir(filepath.Dir(f.file))
	if err != nil {
		return tidemark.Invalidf("%w", err)
	}
	defer dir.Close()
	name := filepath.Base(f.file)
	err = durable.Stream(dir, name+".tmp", name, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
	if err != nil {
		return tidemark.Storagef("%s: %w", f.file, err)
	}
	return nil
}

// maxFleetFile bounds a fleet file.
const maxFleetFile = 1 << 20

// read reads the fleet file.
func (f *fleetRoom) read() (*file.File, error) {
	in, err := os.Open(f.file)
	if err != nil {
		return nil, withHint(tidemark.NotFoundf("%w", err), "write one with: tidemark fleet init")
	}
	defer in.Close()
	data, err := io.ReadAll(io.LimitReader(in, maxFleetFile+1))
	if err != nil {
		return nil, tidemark.Storagef("%s: %w", f.file, err)
	}
	return f.parse(data)
}

// parse reads the text of the fleet file.
func (f *fleetRoom) parse(data []byte) (*file.File, error) {
	folder, err := filepath.Abs(filepath.Dir(f.file))
	if err != nil {
		return nil, err
	}
	return file.Parse(f.file, data, &file.Options{Files: os.DirFS(folder), Dir: func(written string) (string, error) {
		if !filepath.IsAbs(written) {
			written = filepath.Join(folder, written)
		}
		return filepath.Clean(written), nil
	}})
}

func (f *fleetRoom) validate() *cobra.Command {
	return &cobra.Command{
		Use: "validate", Short: "Look for mistakes in the fleet file",
		Example: "  tidemark fleet validate",
		Args:    usage(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			file, err := f.read()
			if err != nil {
				return err
			}
			schedules := 0
			for _, a := range file.Agents {
				schedules += len(a.Schedules)
			}
			return f.print(map[string]int{"agents": len(file.Agents), "schedules": schedules}, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "%s: %d agent(s), %d schedule(s), no mistakes\n", f.file, len(file.Agents), schedules)
				return err
			})
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
			file, err := f.read()
			if err != nil {
				return err
			}
			s, err := f.open(cmd.Context(), creates)
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
func (f *fleetRoom) run(cmd *cobra.Command, s *store.Store, file *file.File) error {
	who := f.holder(cmd)
	full, err := filepath.Abs(f.file)
	if err != nil {
		return err
	}
	if err := s.AddDaemon(cmd.Context(), store.Daemon{Holder: who, File: full}); err != nil {
		return err
	}
	defer s.RemoveDaemon(context.WithoutCancel(cmd.Context()), who)
	if f.key, err = fleetKey(); err != nil {
		return err
	}
	wakes := f.waker()
	n := newNotifier(os.Getenv)
	hands, letGo, err := f.dispatch(cmd.Context(), s)
	if err != nil {
		return err
	}
	defer letGo()
	d := daemon.New(daemon.Options{Store: s, Dispatch: hands, Holder: who, File: file, Runner: f.runner, Environ: f.environ, Policy: f.policyOf, Engine: engineEnviron(os.Environ()), Session: f.session, MayWake: wakes.MayWake, Wake: wakes.Wake, Key: f.key,
		Secret: os.Getenv, Inbox: filepath.Dir(full), Round: n.alive, Ready: func() { f.ready(cmd.Context(), s, who, n) },
		Tell: func(name, text string) {
			f.say("%s %s", time.Now().Format(time.TimeOnly), agent.WithWorker(name, text))
		}})
	reload := make(chan os.Signal, 1)
	signal.Notify(reload, syscall.SIGHUP)
	defer signal.Stop(reload)
	go func() {
		for range reload {
			next, err := f.read()
			if err != nil {
				f.complain(fmt.Errorf("the file was not taken over: %w", err))
				continue
			}
			for _, c := range next.Changes(file) {
				f.say("%s", c)
			}
			file = next
			d.Reload(next)
		}
	}()
	go func() {
		if err := d.Serve(cmd.Context(), os.Getenv); err != nil {
			f.complain(err)
		}
	}()
	f.say("The fleet starts: %d agent(s).", len(file.Agents))
	defer context.AfterFunc(cmd.Context(), n.stopping)()
	f.daemon = d
	err = d.Run(cmd.Context())
	f.say("The fleet is down.")
	return err
}

// fleetKey is what fleets of this user on this machine know their own by.
func fleetKey() (fleet.Key, error) {
	state, err := stateDir()
	if err != nil {
		return nil, err
	}
	return fleet.OpenKey(state)
}

// waker goes on with the chats of this person that sleep.
func (f *fleetRoom) waker() *agent.Waker {
	return &agent.Waker{Store: f.opened.Store, Holder: f.holderNamed("tidemark fleet"), Grants: f.grants(), Untrusted: f.complain,
		Setup: func(project string) (*agent.Setup, error) {
			c, err := loadSettings(f.configFile, project)
			return f.setup(c), err
		}}
}

// ready says that the fleet is up to whoever waits for it: in the log first, so
// that it is there for whoever waited.
func (f *fleetRoom) ready(ctx context.Context, s *store.Store, who tidemark.Holder, n *notifier) {
	f.say("The fleet is up.")
	if err := s.DaemonReady(ctx, who); err != nil {
		f.complain(err)
	}
	n.ready()
}

// dispatch is what hands out jobs: where several machines may share the store,
// a queue in the same database; else nil, and the daemon does it itself.
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
	db, ok := f.opened.Inner.(*postgres.Backend)
	d, err := dispatch.New(ctx, place, p, s, &dispatch.Options{PollOnly: ok && db.Pooled()})
	if err != nil {
		return nil, none, withHint(err, "make the tables of the queue with: tidemark database migrate")
	}
	return d, d.Close, nil
}

// engineEnviron is what the program that makes containers is told: where it and
// its parts are, and how it reaches its service. The rest is no affair of its,
// and a variable that both it and an agent have would be seen by all.
func engineEnviron(all []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(v string) bool {
		name, _, _ := strings.Cut(strings.ToUpper(v), "=")
		switch name {
		case "PATH", "HOME", "USER", "LANG", "TMPDIR", "SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY",
			"SYSTEMROOT", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "PROGRAMDATA", "TEMP", "TMP":
			return false
		}
		return !slices.ContainsFunc([]string{"DOCKER_", "CONTAINER_", "CONTAINERS_", "XDG_"}, func(p string) bool { return strings.HasPrefix(name, p) })
	})
}

// runner makes what runs an agent.
func (f *fleetRoom) runner(a file.Agent) (runner.Runner, error) {
	switch a.Runner {
	case fleet.RunnerCommand:
		return runner.Command(a.Command), nil
	case fleet.RunnerClaude:
		return runner.Claude(a.Command...), nil
	case fleet.RunnerCodex:
		return runner.Codex(a.Command...), nil
	case fleet.RunnerACP:
		return runner.ACP(a.Command), nil
	}
	return runner.Builtin(func(ctx context.Context, t runner.Task) (chat.Options, error) {
		return f.chatOptions(ctx, a, t)
	}), nil
}

// chatOptions are what the built-in agent of a fleet gets.
func (f *fleetRoom) chatOptions(ctx context.Context, a file.Agent, t runner.Task) (chat.Options, error) {
	fence := f.fenceFor(a, t)
	set, err := f.setup(f.config).Assemble(ctx, agent.Options{Store: f.opened.Store, Holder: f.holderNamed("tidemark fleet"), Agent: a.Name, Project: t.Dir,
		Choice: agent.Choice{Provider: a.Provider, Model: a.Model, BaseURL: a.BaseURL}, System: cmp.Or(t.System, agent.DefaultInstructions),
		Environ: append([]string{}, t.Environ...), Fence: &fence, Unattended: true})
	if err != nil {
		return chat.Options{}, err
	}
	o := set.Chat
	o.Limits.ToolRounds = cmp.Or(a.Limits.ToolRounds, o.Limits.ToolRounds)
	o.Tools, o.Without = f.daemon.ScheduleTools(a), a.Without()
	o.Wake = func(ctx context.Context, id tidemark.SessionID, at time.Time) error {
		return f.opened.Store.PutWake(ctx, daemon.SignWake(f.key, store.Wake{Session: id, Agent: a.Name, At: at}))
	}
	return o, nil
}

func (f *fleetRoom) status() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "What runs the fleet, and what it does",
		Example: "  tidemark fleet status --json",
		Args:    usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := f.open(cmd.Context(), reads)
			if err != nil {
				return err
			}
			about, err := s.Fleet(cmd.Context())
			if err != nil {
				return err
			}
			daemons, err := living(cmd.Context(), s)
			if err != nil {
				return err
			}
			running, err := s.Running(cmd.Context(), "")
			if err != nil {
				return err
			}
			agents, err := s.AgentStates(cmd.Context())
			if err != nil {
				return err
			}
			out := map[string]any{"started_at": about.StartedAt, "daemons": daemons, "running": running, "agents": agents}
			return f.print(out, func(w io.Writer) error {
				if len(daemons) == 0 {
					fmt.Fprintln(w, "The fleet is down.")
				}
				for _, d := range daemons {
					fmt.Fprintf(w, "up\t%s\tsince %s\t%s\n", d.Holder, f.when(d.StartedAt), orDash(d.File))
				}
				fmt.Fprintf(w, "%d agent(s), %d job(s) run\n", len(agents), len(running))
				return nil
			})
		},
	}
}

// living are the daemons that are not proven dead.
func living(ctx context.Context, s *store.Store) ([]store.Daemon, error) {
	all, err := s.Daemons(ctx)
	alive := []store.Daemon{}
	for _, d := range all {
		if !d.Dead {
			alive = append(alive, d)
		}
	}
	return alive, err
}

// signal is a command that tells the daemons of this machine something.
func (f *fleetRoom) signal(name, short string, s syscall.Signal) *cobra.Command {
	return &cobra.Command{
		Use: name, Short: short, Example: "  tidemark fleet " + name,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			st, err := f.open(cmd.Context(), reads)
			if err != nil {
				return err
			}
			daemons, err := living(cmd.Context(), st)
			if err != nil {
				return err
			}
			here := f.holder(cmd)
			var told []store.Daemon
			for _, d := range daemons {
				if d.Holder.Host != here.Host || d.Holder.BootID != here.BootID {
					continue
				}
				if err := tellProcess(d.Holder.PID, s); err != nil {
					return tidemark.Invalidf("%s: %w", d.Holder, err)
				}
				told = append(told, d)
				f.say("Told %s.", d.Holder)
			}
			if len(told) == 0 {
				return withHint(tidemark.NotFoundf("no fleet runs on this machine with this store"), "start it with: tidemark fleet up")
			}
			if s == syscall.SIGTERM {
				return f.gone(cmd.Context(), st, told)
			}
			return nil
		},
	}
}

// refParts parts AGENT/NAME.
func refParts(ref string) (agent, name string, err error) {
	agent, name, ok := strings.Cut(ref, "/")
	if !ok || agent == "" || name == "" {
		return "", "", tidemark.Invalidf("schedule %q: want AGENT/NAME", ref)
	}
	return agent, name, nil
}
