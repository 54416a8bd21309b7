package main

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/render"
)

func jobsCommand(a *app) *cobra.Command {
	var f fleet.JobFilter
	cmd := &cobra.Command{
		Use: "jobs", Short: "List the jobs of the fleet, the newest first",
		Example: "  tidemark jobs --agent coder --status failed\n  tidemark jobs --json=id,status",
		Args:    usage(cobra.NoArgs),
		RunE: a.onFleet(open.Read, func(cmd *cobra.Command, s *fleet.Store, _ []string) error {
			list := s.Jobs(cmd.Context(), f)
			if f == (fleet.JobFilter{}) {
				list = s.AllJobs(cmd.Context())
			}
			rows, damage, err := collectReadable(a, list)
			if err != nil {
				return err
			}
			columns := []string{"ID", "AGENT", "STATUS", "REASON", "TRIGGER", "STARTED", "SUMMARY"}
			// If this machine ran everything, its name is no information.
			if slices.ContainsFunc(rows, func(j tidemark.Job) bool { return j.Node != "" && j.Node != a.host() }) {
				columns = append(columns, "NODE")
			}
			return errors.Join(damage, printTable(a, rows, columns, func(j tidemark.Job) []string {
				row := []string{j.ID, j.Agent, j.Status, render.OrDash(j.ExitReason), j.Trigger, a.when(j.StartedAt), render.Phrase(cmp.Or(j.Summary, j.ErrorMessage)), render.OrDash(j.Node)}
				return row[:len(columns)]
			}))
		}),
	}
	cmd.Flags().StringVar(&f.Agent, "agent", "", "jobs of this agent")
	cmd.Flags().StringVar(&f.Status, "status", "", strings.Join(tidemark.JobStatuses(), ", "))
	completeFlag(cmd, "status", tidemark.JobStatuses()...)
	cmd.Flags().IntVarP(&f.Limit, "limit", "n", 50, "at most `N`; 0 for all")
	return cmd
}

func jobCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "job ID", Short: "Show one job",
		Example: "  tidemark job job-2026-11-15-3y0e8d",
		Args:    usage(cobra.ExactArgs(1)),
		RunE: a.onFleet(open.Read, func(cmd *cobra.Command, s *fleet.Store, args []string) error {
			j, err := s.Job(cmd.Context(), args[0])
			if err != nil {
				return hint.With(err, "see them with: tidemark jobs")
			}
			return a.printFields(j, [][2]string{{"id", j.ID}, {"agent", j.Agent}, {"schedule", render.OrDash(j.Schedule)}, {"trigger", j.Trigger}, {"status", j.Status},
				{"reason", render.OrDash(j.ExitReason)}, {"error", render.OrDash(j.ErrorMessage)}, {"session", render.OrDash(j.SessionID)}, {"forked from", render.OrDash(j.ForkedFrom)},
				{"node", render.OrDash(j.Node)}, {"attempt", fmt.Sprint(j.Attempt)}, {"started", a.when(j.StartedAt)}, {"took", fmt.Sprintf("%.1f s", j.DurationSeconds)},
				{"prompt", render.OrDash(render.Phrase(j.Prompt))}, {"summary", render.OrDash(render.Phrase(j.Summary))}})
		}),
	}
}

func logsCommand(a *app) *cobra.Command {
	var n int
	var follow bool
	cmd := &cobra.Command{
		Use: "logs JOB|AGENT", Short: "Show what a job, or the last job of an agent, put out",
		Long: `Shows the newest lines of what a job put out; of an agent, those of its current or
last job. With --follow it goes on as more comes, shows nothing twice, and ends
with the job.`,
		Example: "  tidemark logs coder -f\n  tidemark logs job-2026-11-15-3y0e8d -n 200",
		Args:    usage(cobra.ExactArgs(1)),
		RunE: a.onFleet(open.Read, func(cmd *cobra.Command, s *fleet.Store, args []string) error {
			id, err := s.JobNamed(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return a.events(s.Tail(cmd.Context(), id, n, follow))
		}),
	}
	cmd.Flags().IntVarP(&n, "lines", "n", 50, "the newest `N` lines; 0 for all")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what comes from now on, until the job ends")
	return cmd
}

func (a *app) events(events iter.Seq2[tidemark.Event, error]) error {
	for e, err := range events {
		if errors.Is(err, tidemark.ErrCorrupt) {
			a.warnSkipped(err)
			continue
		}
		if err != nil {
			return err
		}
		if a.wantsJSON() {
			if err := a.jsonLine(e); err != nil {
				return err
			}
			continue
		}
		if _, err := fmt.Fprintln(a.out, render.Event(e)); err != nil {
			return err
		}
	}
	return nil
}
