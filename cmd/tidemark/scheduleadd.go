package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/fleet/daemon"
	"github.com/tidemark-sessions/tidemark/fleet/file"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/render"
)

func scheduleAddCommand(a *app) *cobra.Command {
	var n file.NewSchedule
	cmd := &cobra.Command{
		Use: "add AGENT/NAME", Short: "Add a schedule that the fleet file does not have",
		Long: `Adds a schedule to an agent of the fleet. It holds at once, also for a fleet that
is up, and stays until it is removed, whatever the fleet file says. It is signed with
the key of the fleet on this machine, fleet.key: fleets with another key show it as
proposed.`,
		Example: "  tidemark schedule add coder/watch --every 5m --prompt 'look at the queue'\n" +
			"  tidemark schedule add coder/nightly --cron '0 3 * * *' --zone Europe/Berlin --prompt 'tidy up'",
		Args: usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			agent, name, err := refParts(args[0])
			if err != nil {
				return err
			}
			n.Name = name
			switch {
			case (n.Every == "") == (n.Cron == ""):
				return hint.With(tidemark.Invalidf("schedule %s: want --every or --cron, one of the two", args[0]), "%s --help", cmd.CommandPath())
			case !cmd.Flags().Changed("prompt"):
				return hint.With(tidemark.Invalidf("schedule %s: it does not say what the agent should do", args[0]), `add --prompt TEXT; --prompt "" for a command that needs none`)
			}
			parsed, err := n.Parse()
			if err != nil {
				return fmt.Errorf("schedule %s: %w", args[0], err)
			}
			s, err := a.openFleet(cmd.Context(), open.Write)
			if err != nil {
				return err
			}
			if _, err := agentNamed(cmd, s, agent); err != nil {
				return err
			}
			key, err := fleetKey()
			if err != nil {
				return err
			}
			kept, err := daemon.AddSchedule(cmd.Context(), s, key, agent, parsed, fleet.ByPerson, time.Now())
			if errors.Is(err, tidemark.ErrExists) {
				return hint.With(err, "remove it with: tidemark schedule remove %s", args[0])
			}
			if err != nil {
				return err
			}
			return a.printf(kept, "%s is first due at %s\n", args[0], render.TimeOrDash(kept.NextRunAt))
		},
	}
	f := cmd.Flags()
	f.StringVar(&n.Every, "every", "", "an interval, such as 90s, 5m, 1h30m or 2d")
	f.StringVar(&n.Cron, "cron", "", "minute, hour, day, month and weekday, with seconds before them if needed, or a name such as @daily")
	f.StringVar(&n.Zone, "zone", "", "the time zone that --cron is read in (default UTC)")
	f.StringVarP(&n.Prompt, "prompt", "p", "", "what the agent is told")
	f.StringVar(&n.Jitter, "jitter", "", "each instant is up to so much later")
	f.StringVar(&n.Missed, "missed", "", "instants at which no fleet was up: skip, once or all (default once)")
	f.StringVar(&n.Overlap, "overlap", "", "an instant while the last run goes on: skip, queue or replace (default skip)")
	f.StringVar(&n.From, "from", "", "what --every counts from: start or completion (default start)")
	f.BoolVar(&n.Resume, "resume", false, "go on with the agent's session instead of a fresh one")
	return cmd
}

func scheduleRemoveCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "remove AGENT/NAME", Short: "Remove a schedule that the fleet file does not have",
		Long:    "Removes a schedule that a person or the agent itself added, with its history.",
		Example: "  tidemark schedule remove coder/watch",
		Args:    usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, agent, name, err := a.scheduleNamed(cmd, args[0])
			if err != nil {
				return err
			}
			err = daemon.RemoveSchedule(cmd.Context(), s, agent, name)
			if errors.Is(err, tidemark.ErrInvalid) {
				return hint.With(err, "keep it from running with: tidemark schedule disable %s", args[0])
			}
			return hint.With(err, "see them with: tidemark schedules")
		},
	}
}
