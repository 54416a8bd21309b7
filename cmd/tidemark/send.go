package main

import (
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/open"
)

func sendCommand(a *app) *cobra.Command {
	var wait bool
	cmd := &cobra.Command{
		Use: "send AGENT TEXT", Short: "Write to an agent of the fleet",
		Long: `Adds a job for an agent that has a schedule of type chat: the prompt of the
schedule, and your text after it. With - instead of TEXT it is read from stdin.
Whoever runs the fleet on this store starts the job, as soon as the limits allow.`,
		Example: `  tidemark send helper "Is the build green?" --wait
  git log -5 | tidemark send helper -`,
		Args: usage(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := messageText(a.in, args[1])
			if err != nil {
				return err
			}
			s, err := a.openFleet(cmd.Context(), open.Write)
			if err != nil {
				return err
			}
			if _, err := agentNamed(cmd, s, args[0]); err != nil {
				return err
			}
			job, err := s.SendMessage(cmd.Context(), a.holder(cmd), args[0], text)
			if err != nil {
				return sendHint(cmd, s, args[0], err)
			}
			return a.reportJob(cmd, s, job, wait)
		},
	}
	cmd.Flags().BoolVar(&wait, "wait", false, "show what it puts out, and wait for its end")
	return cmd
}

// sendHint adds a hint to the error of a message that was not taken.
func sendHint(cmd *cobra.Command, s *fleet.Store, agent string, err error) error {
	switch {
	case errors.Is(err, tidemark.ErrNotFound):
		return hint.With(err, "add - {name: inbox, type: chat} to its schedules in the fleet file, then: tidemark fleet reload")
	case errors.Is(err, fleet.ErrDisabled):
		if to, lookErr := s.ChatSchedule(cmd.Context(), agent); lookErr == nil {
			return hint.With(err, "tidemark schedule enable %s/%s", to.Agent, to.Name)
		}
	case errors.Is(err, tidemark.ErrConflict):
		return hint.With(err, "send it again later, or set overlap: queue in the fleet file")
	}
	return err
}

// messageText returns the message, from the argument or from stdin. It reads one
// byte more than is allowed, so that SendMessage refuses what is too long.
func messageText(in io.Reader, arg string) (string, error) {
	if arg != "-" {
		return arg, nil
	}
	b, err := io.ReadAll(io.LimitReader(in, fleet.MaxMessageBytes+1))
	if err != nil {
		return "", tidemark.Invalidf("stdin: %w", err)
	}
	return string(b), nil
}
