package main

import (
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/store"
)

// maxMessage bounds a message to an agent, as those in its inbox are.
const maxMessage = 1 << 20

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
			s, err := a.open(cmd.Context(), writes)
			if err != nil {
				return err
			}
			if _, err := agentNamed(cmd, s, args[0]); err != nil {
				return err
			}
			to, err := fleet.ChatSchedule(s.Schedules(cmd.Context(), args[0]))
			switch {
			case err != nil:
				return err
			case to.Name == "":
				return withHint(tidemark.NotFoundf("agent %s has no schedule of type chat", args[0]),
					"add - {name: inbox, type: chat} to its schedules in the fleet file, then: tidemark fleet reload")
			case to.Status == tidemark.Disabled:
				return withHint(tidemark.Conflictf("schedule %s/%s is disabled", to.Agent, to.Name), "tidemark schedule enable %s/%s", to.Agent, to.Name)
			}
			got, err := s.Deliver(cmd.Context(), a.holder(cmd), time.Now(), store.Delivery{Agent: to.Agent, Schedule: to.Name, Trigger: tidemark.TriggerChat,
				Text: func(prompt string) string { return fleet.Message(prompt, text) }})
			switch {
			case err != nil:
				return err
			case got.Skipped != "":
				return withHint(tidemark.Conflictf("schedule %s/%s skips it: %s", to.Agent, to.Name, got.Skipped), "send it again later, or set overlap: queue in the fleet file")
			}
			return a.jobAdded(cmd, s, got.Job, wait)
		},
	}
	cmd.Flags().BoolVar(&wait, "wait", false, "show what it puts out, and wait for its end")
	return cmd
}

// messageText is what somebody wants to say.
func messageText(in io.Reader, arg string) (string, error) {
	text := arg
	if arg == "-" {
		b, err := io.ReadAll(io.LimitReader(in, maxMessage+1))
		if err != nil {
			return "", tidemark.Invalidf("stdin: %w", err)
		}
		text = string(b)
	}
	switch {
	case len(text) > maxMessage:
		return "", tidemark.Invalidf("the message has more than %d bytes", maxMessage)
	case strings.TrimSpace(text) == "":
		return "", tidemark.Invalidf("the message is empty")
	}
	return strings.ToValidUTF8(text, "\uFFFD"), nil
}
