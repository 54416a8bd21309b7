package main

import (
	"cmp"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/fleet/daemon"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/open"
)

func runCommand(a *app) *cobra.Command {
	var o fleet.JobRequest
	var resume, fork string
	var wait bool
	cmd := &cobra.Command{
		Use: "run AGENT", Short: "Have an agent of the fleet do something now",
		Long: `Adds a job for an agent. Whoever runs the fleet on this store starts it, as soon as
the limits allow. With --wait it shows what the job puts out, and ends with it.`,
		Example: `  tidemark run coder -p "Fix the failing test." --wait
  tidemark run coder --schedule nightly`,
		Args: usage(cobra.ExactArgs(1)),
		RunE: a.onFleet(open.Write, func(cmd *cobra.Command, s *fleet.Store, args []string) error {
			o.Agent = args[0]
			for _, named := range []struct {
				ref string
				id  *tidemark.SessionID
			}{{resume, &o.Resume}, {fork, &o.Fork}} {
				if named.ref == "" {
					continue
				}
				_, p, err := a.resolve(cmd.Context(), open.Write, named.ref)
				if err != nil {
					return err
				}
				*named.id, o.Entry = p.ID, p.Seq
			}
			j, err := s.RequestJob(cmd.Context(), o)
			if err != nil {
				return hint.With(err, "see them with: tidemark agents, tidemark schedules; a fleet that is up makes those of its file known")
			}
			return a.reportJob(cmd, s, j, wait)
		}),
	}
	cmd.Flags().StringVarP(&o.Prompt, "prompt", "p", "", "what to do")
	cmd.Flags().StringVar(&o.Schedule, "schedule", "", "as this `SCHEDULE` of the agent would")
	cmd.Flags().StringVar(&resume, "resume", "", "go on with this `SESSION`, or from a node of it: SESSION@NODE")
	cmd.Flags().StringVar(&fork, "fork", "", "go on with a copy of this `SESSION`, up to SESSION@NODE")
	cmd.Flags().BoolVar(&wait, "wait", false, "show what it puts out, and wait for its end")
	return cmd
}

// agentNamed returns an agent: ErrNotFound, with a hint.
func agentNamed(cmd *cobra.Command, s *fleet.Store, name string) (tidemark.Agent, error) {
	agent, err := s.Agent(cmd.Context(), name)
	return agent, hint.With(err, "see them with: tidemark agents; a fleet that is up makes those of its file known")
}

// addJob adds a job and, with wait, waits for its end.
func (a *app) addJob(cmd *cobra.Command, s *fleet.Store, j tidemark.Job, wait bool) error {
	j, err := s.AddJob(cmd.Context(), j)
	if err != nil {
		return err
	}
	return a.reportJob(cmd, s, j, wait)
}

// reportJob prints the id of a job that was added or, with wait, its output until
// it ends. A job that does not complete is an error.
func (a *app) reportJob(cmd *cobra.Command, s *fleet.Store, j tidemark.Job, wait bool) error {
	if !wait {
		if up, err := daemon.Living(cmd.Context(), s); err == nil && len(up) == 0 {
			a.say("It waits: no fleet is up. Start it with: tidemark fleet up")
		}
		return a.printf(j, "%s\n", j.ID)
	}
	a.say("%s", j.ID)
	if err := a.events(s.Tail(cmd.Context(), j.ID, 0, true)); err != nil {
		return err
	}
	j, err := s.Job(cmd.Context(), j.ID)
	if err != nil {
		return err
	}
	a.say("%s: %s, after %s", j.ID, cmp.Or(j.ExitReason, j.Status), time.Duration(j.DurationSeconds*float64(time.Second)).Round(time.Millisecond))
	if j.Status != tidemark.JobCompleted {
		return fmt.Errorf("%s %s: %s", j.ID, j.Status, cmp.Or(j.ErrorMessage, j.ExitReason))
	}
	return nil
}

func cancelCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "cancel JOB", Short: "End a job, wherever it runs",
		Example: "  tidemark cancel job-2026-11-15-3y0e8d",
		Args:    usage(cobra.ExactArgs(1)),
		RunE: a.onFleet(open.Write, func(cmd *cobra.Command, s *fleet.Store, args []string) error {
			ended, err := s.CancelJob(cmd.Context(), args[0], a.holder(cmd))
			if err != nil {
				return hint.With(err, "see them with: tidemark jobs")
			}
			if ended {
				a.say("%s is cancelled; nobody ran it here.", args[0])
			} else {
				a.say("Told whoever runs %s; see how it ends with: tidemark job %s", args[0], args[0])
			}
			return nil
		}),
	}
}

// repeatCommand returns a command that makes a new job of an old one.
func repeatCommand(a *app, name, short, example string, fork bool) *cobra.Command {
	var prompt string
	var wait bool
	cmd := &cobra.Command{
		Use: name + " JOB", Short: short, Example: example,
		Args: usage(cobra.ExactArgs(1)),
		RunE: a.onFleet(open.Write, func(cmd *cobra.Command, s *fleet.Store, args []string) error {
			j, err := s.RepeatJob(cmd.Context(), args[0], prompt, fork)
			if err != nil {
				return hint.With(err, "see them with: tidemark jobs")
			}
			return a.reportJob(cmd, s, j, wait)
		}),
	}
	cmd.Flags().StringVarP(&prompt, "prompt", "p", "", "what to do, instead of what the old one was to do")
	cmd.Flags().BoolVar(&wait, "wait", false, "show what it puts out, and wait for its end")
	return cmd
}

func retryCommand(a *app) *cobra.Command {
	return repeatCommand(a, "retry", "Do a job once more, in its session", "  tidemark retry job-2026-11-15-3y0e8d", false)
}

func forkJobCommand(a *app) *cobra.Command {
	return repeatCommand(a, "fork-job", "Do a job once more, in a copy of its session", "  tidemark fork-job job-2026-11-15-3y0e8d -p \"Try another way.\"", true)
}
