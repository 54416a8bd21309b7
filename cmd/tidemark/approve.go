package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/render"
)

func approveCommand(a *app) *cobra.Command {
	var shown string
	cmd := &cobra.Command{
		Use: "approve JOB [CALL]", Short: "Let a job do what it asks for",
		Long: `Answers what a job asks that runs in the mode interactive or review: one call,
which may be left out when only one waits. The agent goes on at once. A question is
answered once; the output of the job says who did. An approval is for this very
call: one that was changed since, in the store, does not run. With --shown it counts
only for what tidemark reviews --json called so.`,
		Example: "  tidemark approve job-2026-11-15-3y0e8d\n  tidemark approve job-2026-11-15-3y0e8d toolu_01A",
		Args:    usage(cobra.RangeArgs(1, 2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if shown != "" && len(args) == 1 {
				return tidemark.Invalidf("--shown goes with a call")
			}
			return a.answer(cmd, args, true, "", shown)
		},
	}
	cmd.Flags().StringVar(&shown, "shown", "", "the `SHA256` of what you were shown")
	return cmd
}

func denyCommand(a *app) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "deny JOB [CALL]", Short: "Do not let a job do what it asks for",
		Long: `Answers what a job asks that runs in the mode interactive or review: one call, or
without CALL all that wait. The agent is told the reason and goes on without
it. A question is answered once; the output of the job says who did.`,
		Example: "  tidemark deny job-2026-11-15-3y0e8d --reason \"Use a branch.\"",
		Args:    usage(cobra.RangeArgs(1, 2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.answer(cmd, args, false, reason, "")
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "what the agent is told")
	return cmd
}

// answered is what approve and deny print.
type answered struct {
	Job      string `json:"job"`
	State    string `json:"state"`
	Answered int    `json:"answered"`
}

// answer answers one waiting call of a job, or all of them.
func (a *app) answer(cmd *cobra.Command, args []string, allow bool, reason, shown string) error {
	s, err := a.openFleet(cmd.Context(), open.Write)
	if err != nil {
		return err
	}
	call := ""
	if len(args) == 2 {
		call = args[1]
	}
	n := 1
	if allow && shown != "" {
		err = s.ApproveShown(cmd.Context(), args[0], call, shown, a.holder(cmd))
	} else {
		n, err = s.AnswerReview(cmd.Context(), args[0], call, allow, a.holder(cmd), reason)
	}
	if err != nil {
		return hint.With(err, "see what waits with: tidemark reviews")
	}
	out := answered{Job: args[0], State: fleet.ReviewDenied, Answered: n}
	if allow {
		out.State = fleet.ReviewApproved
	}
	return a.printf(out, "%s: %d %s\n", out.Job, out.Answered, out.State)
}

func reviewsCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "reviews [JOB]", Short: "List what jobs ask and wait for",
		Long: `Shows the calls of tools that wait for an answer, the one that waits longest
first, of one job or of all, each with every line of what it would run or write. In the mode review every call with an effect waits
that the permissions of the fleet file neither allow nor deny. Nobody answers:
then it is denied, after the review_timeout of the agent.`,
		Example: "  tidemark reviews\n  tidemark reviews --json=job,call,tool,input",
		Args:    usage(cobra.MaximumNArgs(1)),
		RunE: a.onFleet(open.Read, func(cmd *cobra.Command, s *fleet.Store, args []string) error {
			job := ""
			if len(args) == 1 {
				if _, err := s.Job(cmd.Context(), args[0]); err != nil {
					return hint.With(err, "see them with: tidemark jobs")
				}
				job = args[0]
			}
			rows, err := s.WaitingReviews(cmd.Context(), job)
			if err != nil {
				return err
			}
			if rows == nil {
				rows = []fleet.Review{}
			}
			return a.print(rows, func(w io.Writer) error { return a.reviews(w, rows) })
		}),
	}
}

// reviews prints the waiting calls, each with everything that it would do. A table
// would cut off what a person has to see to decide.
func (a *app) reviews(w io.Writer, rows []fleet.Review) error {
	for _, v := range rows {
		about := fmt.Sprintf("%s %s  %s asked %s, denied at %s", v.Job, v.Call, v.Agent, a.when(v.AskedAt), render.TimeOrDash(v.UntilAt))
		if _, err := fmt.Fprintln(w, render.CleanLine(about)); err != nil {
			return err
		}
		for _, l := range render.ReviewLines(v.Text, v.Tool, v.Input, v.InputBytes) {
			if _, err := fmt.Fprintln(w, "    "+render.ApprovalForTerminal(l, a.color)); err != nil {
				return err
			}
		}
	}
	return nil
}
