package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/internal/terminal"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/transfer/remote"
	"github.com/tidemark-sessions/tidemark/transfer/sync"
)

func remoteCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "remote",
		Short: "Where your machines share their sessions",
		Long: `A remote is a place where your machines leave their sessions for each other: a
folder on a stick or a network disk, one that a program like Syncthing copies around
(file:DIR), one on a machine that ssh reaches and that has this program
(ssh://HOST/DIR), storage that speaks S3 (s3://BUCKET/PREFIX), or a Tidemark server
(https://HOST), which cannot read it. Everything in it is encrypted under keys that only your machines have.
Checkpoints, approvals, loops, files of agents and fleets never leave a machine, and
neither do sessions with the tag private.`,
		Example: `  tidemark remote add home file:/media/stick/tidemark
  tidemark sync
  tidemark remote pair                                        # shows a code; then, on the other machine:
  tidemark remote add home file:/media/stick/tidemark --code-file code
  tidemark remote add box ssh://ada@box.example.org/home/ada/tidemark`,
		Args: usage(cobra.NoArgs), RunE: help,
	}
	cmd.AddCommand(a.remoteAdd(), a.remoteList(), a.remoteCheck(), a.remotePair(), a.remoteServe(),
		a.remoteChange("rm NAME", "Forget a remote; what is there stays there", "rm home", cobra.ExactArgs(1), func(cmd *cobra.Command, r *sync.Remotes, args []string) error {
			return r.Remove(cmd.Context(), args[0])
		}),
		a.remoteChange("forget MACHINE [REMOTE]", "Let a machine out: it cannot open what is written from now on", "forget old-laptop", cobra.RangeArgs(1, 2), func(cmd *cobra.Command, r *sync.Remotes, args []string) error {
			err := r.Forget(cmd.Context(), remoteArg(args[1:]), args[0])
			if err == nil {
				a.say("%s cannot open what is written from now on. It keeps what it has pulled, and copies of the remote that were made before.", args[0])
			}
			return err
		}))
	return cmd
}

// remoteArg is the remote that a command names, "" for the only one.
func remoteArg(args []string) string { return cmp.Or(append(args, "")...) }

func (a *app) remotes(s *store.Store) *sync.Remotes {
	return sync.Of(s.Records(), a.host(), a.places())
}

// places is what opens remotes for this user.
func (a *app) places() *remote.Options {
	return &remote.Options{Environ: os.Environ(), Token: open.Tokens(os.Environ()), Ask: !a.noInput && term.IsTerminal(int(os.Stdin.Fd()))}
}

// remoteChange is a subcommand that changes the remotes of the store.
func (a *app) remoteChange(use, short, example string, args cobra.PositionalArgs, change func(*cobra.Command, *sync.Remotes, []string) error) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Example: "  tidemark remote " + example, Args: usage(args),
		RunE: a.onStore(open.Create, func(cmd *cobra.Command, s *store.Store, args []string) error { return change(cmd, a.remotes(s), args) })}
}

func (a *app) remoteAdd() *cobra.Command {
	var codeFile string
	cmd := a.remoteChange("add NAME URL", "Share sessions by a place: file:DIR, ssh://HOST/DIR, s3://BUCKET/PREFIX, https://HOST", "add home file:/media/stick/tidemark", cobra.ExactArgs(2), func(cmd *cobra.Command, r *sync.Remotes, args []string) error {
		var code []byte
		var err error
		if codeFile != "" {
			if code, err = os.ReadFile(codeFile); err != nil {
				return tidemark.Invalidf("--code-file: %w", err)
			}
		}
		dir, err := os.Getwd()
		if err != nil {
			return err
		}
		url := remote.Clean(args[1], dir)
		err = r.Add(cmd.Context(), args[0], url, string(code))
		if errors.Is(err, tidemark.ErrSealed) && codeFile == "" && a.places().Ask {
			words, asked := terminal.AskLine(cmd.Context(), os.Stdin, a.err, "Others use it already. The words that tidemark remote pair shows on one of their machines: ")
			if asked != nil {
				return asked
			}
			if words != "" {
				err = r.Add(cmd.Context(), args[0], url, words)
			}
		}
		if err == nil {
			a.say("This machine shares its sessions by %s now: tidemark sync", args[0])
		}
		return err
	})
	cmd.Flags().StringVar(&codeFile, "code-file", "", "a `FILE` with the code of tidemark remote pair, an age identity or a recovery key that was let in; of a place that others use")
	return cmd
}

func (a *app) remoteList() *cobra.Command {
	return &cobra.Command{Use: "ls", Short: "The remotes, their machines, and when each was last met", Example: "  tidemark remote ls\n  tidemark remote ls --json", Args: usage(cobra.NoArgs),
		RunE: a.onStore(open.Read, func(cmd *cobra.Command, s *store.Store, _ []string) error {
			all, err := a.remotes(s).List(cmd.Context())
			if err != nil {
				return err
			}
			return printTable(a, all, []string{"NAME", "MET", "MACHINES", "URL"}, func(r sync.Remote) []string { return r.Row(a.when) })
		})}
}

func (a *app) remoteCheck() *cobra.Command {
	return &cobra.Command{Use: "check [NAME]", Short: "Read everything at a remote, and remove what nothing needs", Example: "  tidemark remote check", Args: usage(cobra.MaximumNArgs(1)),
		RunE: a.onStore(open.Write, func(cmd *cobra.Command, s *store.Store, args []string) error {
			c, err := sync.Check(cmd.Context(), s, remoteArg(args), a.syncOptions(cmd))
			a.progressDone()
			if err != nil {
				return err
			}
			err = a.printf(c, "%s: %d machines, %d sessions, %d blobs are whole; %d removed that nothing needs\n", c.Remote, c.Machines, c.Sessions, c.Blobs, c.Removed)
			return errors.Join(err, a.syncProblems(c.Remote, c.Problems))
		})}
}

func (a *app) remotePair() *cobra.Command {
	var recipient string
	var recovery bool
	cmd := a.remoteChange("pair [NAME]", "Show nine words, and on a terminal their QR code, that let one more machine in, once, within an hour", "pair > code\n  tidemark remote pair --recipient age1…\n  tidemark remote pair --recovery", cobra.MaximumNArgs(1), func(cmd *cobra.Command, r *sync.Remotes, args []string) error {
		at, err := r.Where(cmd.Context(), remoteArg(args))
		if err != nil {
			return err
		}
		if recipient != "" {
			if err = r.LetIn(cmd.Context(), remoteArg(args), recipient); err == nil {
				a.say("Whoever has its identity is let in, until tidemark remote forget %.12s. On the other machine: tidemark remote add %s --code-file IDENTITY", recipient, at)
			}
			return err
		}
		code, until := "", time.Now().Add(time.Hour)
		if recovery {
			if code, err = r.Recovery(cmd.Context(), remoteArg(args)); err == nil {
				a.say("Write it down and keep it elsewhere: it lets a machine in when all others are lost. There: tidemark remote add %s --code-file FILE", at)
				err = a.printf(map[string]any{"recovery": code}, "%s\n", code)
			}
			return err
		}
		if code, err = r.Pair(cmd.Context(), remoteArg(args), until); err != nil {
			return err
		}
		if drawn, err := terminal.DrawQR(code, a.color); a.terminal && !a.quiet && err == nil {
			fmt.Fprint(a.err, drawn)
		}
		a.say("Whoever has these words is let in, once, until %s. On the other machine, which asks for them: tidemark remote add %s", until.Format(time.TimeOnly), at)
		return a.printf(map[string]any{"code": code, "until": until}, "%s\n", code)
	})
	cmd.Flags().StringVar(&recipient, "recipient", "", "let in whoever has the identity of this age `RECIPIENT` (age1…), instead of showing words")
	cmd.Flags().BoolVar(&recovery, "recovery", false, "print a recovery key for paper, once, instead of words")
	cmd.MarkFlagsMutuallyExclusive("recipient", "recovery")
	return cmd
}

// remoteServe is the other end of a remote by ssh.
func (a *app) remoteServe() *cobra.Command {
	return &cobra.Command{Use: "serve DIR", Short: "Answer the calls of another machine about a folder, on stdin and stdout", Hidden: true, Args: usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			return remote.Serve(cmd.Context(), dir, a.in, a.out)
		}}
}

// attend says if another machine writes to a session, and tells the others that this
// one does until leave is called.
func (a *app) attend(ctx context.Context, s *store.Store, id tidemark.SessionID) (leave func()) {
	return sync.Attend(ctx, s, id, sync.Options{Host: a.host(), Places: a.places()}, func(machine string) {
		a.say("%s writes to this session, too. Both may go on: what each adds becomes a branch.", machine)
	})
}

func (a *app) syncOptions(cmd *cobra.Command) sync.Options {
	return sync.Options{Holder: a.holder(cmd), Host: a.host(), Places: a.places(), Progress: func(done int, what string) { a.progress("%d %s", done, what) }}
}

// syncProblems tells what could not be done at a remote. What only waits is no failure.
func (a *app) syncProblems(name string, all []sync.Problem) error {
	faults := 0
	for _, p := range all {
		if a.say("tidemark: remote %s: %s", name, p); !p.Waits {
			faults++
		}
	}
	if faults > 0 {
		return hint.With(&partly{faults}, "what is kept here is whole; on the machine that is named, this pushes again what is damaged: tidemark remote check %s && tidemark sync %s", name, name)
	}
	return nil
}

// syncCommand is push, pull or sync.
func syncCommand(a *app, name, short string, push, pull bool) *cobra.Command {
	o := sync.Options{Push: push, Pull: pull}
	var watch bool
	cmd := &cobra.Command{
		Use: name + " [REMOTE]", Short: short,
		Long: short + `. Without a REMOTE it does so with each
of them; one that is away keeps none of the others waiting. Only what is new travels;
interrupted, the next run goes on.
What several machines added while they were apart becomes branches of one session.
Sessions with the tag private stay on this machine.`,
		Example: "  tidemark " + name + "\n  tidemark " + name + " home --dry-run\n  tidemark " + name + " --tag work --watch",
		Args:    usage(cobra.MaximumNArgs(1)),
		RunE: a.onStore(open.Write, func(cmd *cobra.Command, s *store.Store, args []string) error {
			all := a.syncOptions(cmd)
			all.Push, all.Pull, all.DryRun, all.Tag, all.Project = o.Push, o.Pull, o.DryRun, o.Tag, projectAt(o.Project)
			if watch {
				return sync.Watch(cmd.Context(), s, remoteArg(args), all, 10*time.Second, func(r sync.Report, err error) {
					a.complain(a.printSync(r, o.DryRun, err))
				})
			}
			var failed []error
			runs := 0
			err := sync.Each(cmd.Context(), s, remoteArg(args), all, func(r sync.Report, err error) {
				runs++
				if err = a.printSync(r, o.DryRun, err); err != nil {
					failed = append(failed, err)
				}
			})
			if err != nil || len(failed) == 0 {
				return err
			}
			for _, err := range failed[1:] {
				a.complain(err)
			}
			if len(failed) < runs {
				a.complain(failed[0])
				return &partly{len(failed)}
			}
			return failed[0]
		}),
	}
	cmd.Flags().BoolVar(&o.DryRun, "dry-run", false, "count what would travel, and change nothing")
	cmd.Flags().BoolVar(&watch, "watch", false, "go on until it is stopped, and look every ten seconds")
	cmd.Flags().StringVar(&o.Project, "project", "", "only sessions of the project in this `FOLDER`")
	cmd.Flags().StringVar(&o.Tag, "tag", "", "only sessions with this `TAG`")
	return cmd
}

// printSync prints what a run did, unless it failed.
func (a *app) printSync(r sync.Report, dry bool, err error) error {
	if a.progressDone(); err != nil {
		return err
	}
	if r.Renamed != "" {
		a.say("Another store writes to the remote as this machine, such as the one of which this is a copy. This one is machine %s now.", r.Renamed)
	}
	return errors.Join(a.printf(r, "%s", r.Text(dry)), a.syncProblems(r.Remote, r.Problems))
}
