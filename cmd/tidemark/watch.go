package main

import (
	"context"
	"io"
	"os"
	"os/exec"
	"os/user"
	"runtime"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/unit"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/transfer"
	"github.com/tidemark-sessions/tidemark/transfer/watch"
)

func watchCommand(a *app) *cobra.Command {
	var once bool
	var now, from string
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "Keep the sessions of every agent on this machine",
		Long: `Follows the folders in which the known agents of this machine keep their sessions,
and takes in what they write, within a second, until it is stopped. What a tool
deletes later stays here. Files of tools are only read. Killed at any moment, it
loses and doubles nothing: the next one goes on.

Where the system does not tell of changes, such as on a network disk, folders are
looked through from time to time, and status says so.`,
		Example: `  tidemark watch
  tidemark watch --once
  tidemark watch --now claude-code
  tidemark watch status`,
		// Codex adds what happened to the command of its notifications.
		Args: func(cmd *cobra.Command, args []string) error {
			if now != "" {
				return nil
			}
			return usage(cobra.NoArgs)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := transfer.ToolNamed(now); now != "" && err != nil {
				return err
			}
			o, err := a.watchOptions(cmd, open.Create)
			if err != nil {
				return err
			}
			screen := &watch.Screen{W: a.out, Terminal: a.terminal, Columns: a.columns, Path: abbreviateHome}
			if o.Tool = now; once || now != "" {
				return a.watchOnce(cmd.Context(), o, screen)
			}
			if o.Tell, o.Progress = screen.Tell, screen.Progress; a.wantsJSON() {
				o.Tell, o.Progress = func(e watch.Event) { a.jsonLine(e) }, nil
			}
			o.Begun = func() { a.say("Watching what agents write in %s. Ctrl-C ends it.", o.Home) }
			return watch.New(o).Run(cmd.Context())
		},
	}
	cmd.Flags().BoolVar(&once, "once", false, "take in what changed, and return")
	cmd.Flags().StringVar(&now, "now", "", "take in what `TOOL` wrote, and return; for a hook of that tool")
	add := a.watchChange("add PATH", "Follow another folder of a tool", "add /mnt/old-laptop/.claude", cobra.ExactArgs(1), func(ctx context.Context, c *watch.Control, args []string) error {
		return c.Add(ctx, &transfer.Importer{Open: a.openOptions(open.Read), Tool: from}, args[0])
	})
	add.Flags().StringVar(&from, "from", "", "the `TOOL` that keeps its sessions there, instead of finding out")
	cmd.AddCommand(a.watchStatus(), add,
		a.watchChange("rm PATH", "Take back what add or ignore said", "rm /mnt/old-laptop/.claude", cobra.ExactArgs(1), func(ctx context.Context, c *watch.Control, args []string) error { return c.Remove(ctx, args[0]) }),
		a.watchChange("ignore PATH", "Leave out a folder of a tool, or the sessions of a project", "ignore ~/private", cobra.ExactArgs(1), func(ctx context.Context, c *watch.Control, args []string) error { return c.Ignore(ctx, args[0]) }),
		a.watchChange("pause [DURATION|off]", "Take in nothing for a while", "pause 2h\n  tidemark watch pause off", cobra.MaximumNArgs(1), func(ctx context.Context, c *watch.Control, args []string) error { return c.Pause(ctx, args...) }),
		a.watchInstall(),
		a.watchService("uninstall", "Take the watcher back out of the care of the system", func(ctx context.Context, i watch.Installer, _ unit.Service) error { return i.Uninstall(ctx) }),
		a.watchService("start", "Start the watcher that was installed", func(ctx context.Context, i watch.Installer, _ unit.Service) error { return i.Start(ctx) }),
		a.watchService("stop", "Stop the watcher that was installed", func(ctx context.Context, i watch.Installer, _ unit.Service) error { return i.Stop(ctx) }))
	return cmd
}

// watchOptions returns what is watched for this user, with the store open.
func (a *app) watchOptions(cmd *cobra.Command, how open.Access) (o watch.Options, err error) {
	if _, err := a.open(cmd.Context(), how); err != nil {
		return o, err
	}
	url, _, err := a.location()
	o = watch.Options{Opened: a.opened, Open: a.openOptions(how), Holder: a.holder(cmd), Home: homeDir(), StorePath: open.LocalPath(url), MaxBytes: a.config.Watch.MaxBytes}
	if u, err := user.Current(); err == nil {
		o.User = u.Uid
	}
	return o, err
}

// watchOnce takes in what changed. A hook has no use for an exit code about what
// could not be read.
func (a *app) watchOnce(ctx context.Context, o watch.Options, screen *watch.Screen) error {
	o.Progress = func(p watch.Progress) { a.progress("%s: %s", p.Tool, p) }
	events, err := watch.New(o).Once(ctx)
	a.progressDone()
	if ctx.Err() != nil {
		n := 0
		for _, e := range events {
			n += e.Sessions
		}
		a.say("%d session(s) came in, each of them whole. The same command goes on with the rest.", n)
	}
	if err != nil {
		return err
	}
	problems := 0
	for _, e := range events {
		problems += len(e.Problems)
	}
	err = a.print(events, func(w io.Writer) error {
		screen.W, screen.Terminal = w, false
		for _, e := range events {
			screen.Tell(e)
		}
		return nil
	})
	if err == nil && problems > 0 && o.Tool == "" {
		return &partly{problems}
	}
	return err
}

// watchChange is a subcommand that tells the watcher what this user wants.
func (a *app) watchChange(use, short, example string, args cobra.PositionalArgs, change func(context.Context, *watch.Control, []string) error) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Example: "  tidemark watch " + example, Args: usage(args), RunE: func(cmd *cobra.Command, args []string) error {
		o, err := a.watchOptions(cmd, open.Create)
		if err != nil {
			return err
		}
		return change(cmd.Context(), watch.ControlOf(o), args)
	}}
}

func (a *app) watchStatus() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "What is watched, and what is kept of it",
		Example: "  tidemark watch status\n  tidemark watch status --json",
		Args:    usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			o, err := a.watchOptions(cmd, open.Read)
			if err != nil {
				return err
			}
			st, err := watch.ControlOf(o).Status(cmd.Context(), o)
			if err != nil {
				return err
			}
			return a.print(st, func(w io.Writer) error { return st.Print(w, a.table(watch.Columns...), a.when, abbreviateHome) })
		},
	}
}

func (a *app) watchInstall() *cobra.Command {
	var onlyPrint bool
	cmd := a.watchService("install", "Keep a watcher running, now and after each login", func(ctx context.Context, i watch.Installer, s unit.Service) error {
		if onlyPrint {
			return i.Print(a.out, s)
		}
		err := i.Install(ctx, s, a.openOptions(open.Read))
		if err == nil {
			a.say("Wrote %s and started it. See what it does with: tidemark watch status", i.File())
		}
		return err
	})
	cmd.Flags().BoolVar(&onlyPrint, "print", false, "print what would be installed, and install nothing")
	return cmd
}

// watchService is a subcommand about the watcher that the system keeps running.
func (a *app) watchService(use, short string, do func(context.Context, watch.Installer, unit.Service) error) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Example: "  tidemark watch " + use, Args: usage(cobra.NoArgs), RunE: func(cmd *cobra.Command, _ []string) error {
		s, err := a.unitService("watch")
		if err != nil {
			return err
		}
		i := watch.Installer{System: runtime.GOOS, Home: homeDir(), UID: strconv.Itoa(os.Getuid()), Run: func(ctx context.Context, name string, args ...string) ([]byte, error) {
			return exec.CommandContext(ctx, name, args...).CombinedOutput()
		}}
		if i.Config, err = os.UserConfigDir(); err != nil {
			return tidemark.Invalidf("%w", err)
		}
		return do(cmd.Context(), i, s)
	}}
}
