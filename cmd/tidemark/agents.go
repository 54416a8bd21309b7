package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/fleet/file"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/render"
)

func agentsCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "agents", Short: "List the agents of the fleet and what they do",
		Example: "  tidemark agents\n  tidemark agents --json=name,status,next_trigger_at",
		Args:    usage(cobra.NoArgs),
		RunE: a.onFleet(open.Read, func(cmd *cobra.Command, s *fleet.Store, _ []string) error {
			rows, err := s.AgentStates(cmd.Context())
			if err != nil {
				return err
			}
			return printTable(a, rows, []string{"NAME", "STATUS", "CURRENT", "LAST", "NEXT", "DUE", "FAILED", "ERROR"}, func(g tidemark.Agent) []string {
				current := render.OrDash(g.CurrentJob)
				if g.Node != "" && g.Node != a.host() {
					current += " on " + g.Node
				}
				return []string{g.Name, g.Status, current, render.OrDash(g.LastJob), render.OrDash(g.NextSchedule), render.TimeOrDash(g.NextTriggerAt), render.OrDash(g.FailedJob), render.Phrase(g.ErrorMessage)}
			})
		}),
	}
}

func agentCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "agent", Short: "One agent of the fleet", Args: usage(cobra.NoArgs), RunE: help}
	cmd.AddCommand(&cobra.Command{
		Use: "show NAME", Short: "Show an agent", Example: "  tidemark agent show coder",
		Args: usage(cobra.ExactArgs(1)),
		RunE: a.onFleet(open.Read, func(cmd *cobra.Command, s *fleet.Store, args []string) error {
			g, err := agentNamed(cmd, s, args[0])
			if err != nil {
				return err
			}
			session := "-"
			if g.Session != nil {
				session = fmt.Sprintf("%s, %d jobs, used %s", g.Session.ID, g.Session.Jobs, a.when(g.Session.LastUsedAt))
			}
			return a.printFields(g, [][2]string{{"name", g.Name}, {"status", g.Status}, {"current job", render.OrDash(g.CurrentJob)}, {"last job", render.OrDash(g.LastJob)},
				{"next", render.OrDash(g.NextSchedule)}, {"due", render.TimeOrDash(g.NextTriggerAt)}, {"session", session}, {"failed job", render.OrDash(g.FailedJob)}, {"error", render.OrDash(g.ErrorMessage)}})
		}),
	}, &cobra.Command{
		Use: "reset NAME", Short: "Forget the session and the error of an agent", Example: "  tidemark agent reset coder",
		Args: usage(cobra.ExactArgs(1)),
		RunE: a.onFleet(open.Write, func(cmd *cobra.Command, s *fleet.Store, args []string) error {
			if err := s.ResetAgent(cmd.Context(), args[0]); err != nil {
				return hint.With(err, "see them with: tidemark agents")
			}
			a.say("%s begins anew: its next job has a fresh session.", args[0])
			return nil
		}),
	}, agentRemoveCommand(a))
	return cmd
}

func agentRemoveCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "remove NAME", Short: "Remove an agent that is in no fleet file any more",
		Long: `Removes an agent that was taken out of the fleet file, with its schedules and what
it logged; jobs that wait for it are cancelled. Its jobs that have ended stay, and
so do its sessions. An agent that a fleet still has is refused: it would come back.`,
		Example: "  tidemark agent remove coder",
		Args:    usage(cobra.ExactArgs(1)),
		RunE: a.onFleet(open.Write, func(cmd *cobra.Command, s *fleet.Store, args []string) error {
			if err := a.checkNotInFleetFile(args[0]); err != nil {
				return err
			}
			gone, err := s.RemoveAgent(cmd.Context(), args[0], a.holder(cmd))
			switch {
			case errors.Is(err, tidemark.ErrNotFound):
				return hint.With(err, "see them with: tidemark agents")
			case errors.Is(err, tidemark.ErrConflict):
				return hint.With(err, "take it out of the fleet file, then: tidemark fleet reload; what runs is ended by: tidemark cancel JOB")
			case err != nil:
				return err
			}
			return a.printf(gone, "%s is removed, with %d schedule(s); %d job(s) that waited are cancelled\n", gone.Agent, len(gone.Schedules), len(gone.Cancelled))
		}),
	}
}

// checkNotInFleetFile refuses an agent that the fleet file of this folder would
// bring back. A file that cannot be read is ignored.
func (a *app) checkNotInFleetFile(name string) error {
	f, err := file.Read(file.DefaultName)
	if err != nil || !f.Has(name) {
		return nil
	}
	return hint.With(tidemark.Conflictf("agent %s is in %s, which would bring it back", name, file.DefaultName), "take it out of the file first")
}

// readFleetKey returns the key of the fleet; nil if no fleet has run here, and,
// after printing the error, if the key cannot be trusted.
func (a *app) readFleetKey() fleet.Key {
	state, err := stateDir()
	if err != nil {
		return nil
	}
	key, err := fleet.ReadKey(state)
	if err != nil {
		a.complain(err)
	}
	return key
}

func schedulesCommand(a *app) *cobra.Command {
	var agent string
	cmd := &cobra.Command{
		Use: "schedules", Short: "List the schedules, when they are due, and what was skipped",
		Example: "  tidemark schedules\n  tidemark schedules --agent coder --json",
		Args:    usage(cobra.NoArgs),
		RunE: a.onFleet(open.Read, func(cmd *cobra.Command, s *fleet.Store, _ []string) error {
			key := a.readFleetKey()
			all, damage, err := collectReadable(a, s.Schedules(cmd.Context(), agent))
			if err != nil {
				return err
			}
			rows := make([]fleet.ScheduleState, len(all))
			for i, d := range all {
				if rows[i], err = s.ScheduleState(cmd.Context(), key, d); err != nil {
					return err
				}
			}
			return errors.Join(damage, printTable(a, rows, []string{"SCHEDULE", "STATUS", "WHEN", "NEXT", "LAST", "SKIPPED", "ERROR"}, func(d fleet.ScheduleState) []string {
				skipped := "-"
				if len(d.Skipped) > 0 {
					skipped = d.Skipped[0].Reason
				}
				status := d.Status
				if d.Proposed {
					status = "proposed"
				}
				return []string{d.Agent + "/" + d.Name, status, fleet.ScheduleText(d.Schedule), render.TimeOrDash(d.NextRunAt), render.TimeOrDash(d.LastRunAt), skipped, render.Phrase(d.LastError)}
			}))
		}),
	}
	cmd.Flags().StringVar(&agent, "agent", "", "those of this agent")
	return cmd
}

// scheduleNamed opens the store to change a schedule, and splits AGENT/NAME.
func (a *app) scheduleNamed(cmd *cobra.Command, ref string) (s *fleet.Store, agent, name string, err error) {
	if agent, name, err = refParts(ref); err == nil {
		s, err = a.openFleet(cmd.Context(), open.Write)
	}
	return s, agent, name, err
}

func scheduleCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "schedule", Short: "One schedule of the fleet", Args: usage(cobra.NoArgs), RunE: help}
	turn := func(name, status, short, long string) *cobra.Command {
		return &cobra.Command{
			Use: name + " AGENT/NAME", Short: short, Long: long, Example: "  tidemark schedule " + name + " coder/nightly",
			Args: usage(cobra.ExactArgs(1)),
			RunE: func(cmd *cobra.Command, args []string) error {
				s, agent, schedule, err := a.scheduleNamed(cmd, args[0])
				if err != nil {
					return err
				}
				var key fleet.Key
				if status != tidemark.Disabled {
					if key, err = fleetKey(); err != nil {
						return err
					}
				}
				kept, accepted, err := s.TurnSchedule(cmd.Context(), key, agent, schedule, status)
				if err != nil {
					return hint.With(err, "see them with: tidemark schedules")
				}
				if accepted {
					a.say("%s is accepted here: %s, it tells the agent %q.", args[0], fleet.ScheduleText(kept), kept.Prompt)
				}
				a.say("%s %s", args[0], fleet.TurnedText(kept, time.Now()))
				if status == tidemark.Disabled {
					kept.NextRunAt, kept.SettledAt = time.Time{}, time.Time{}
				}
				return a.print(kept, func(io.Writer) error { return nil })
			},
		}
	}
	var wait bool
	now := &cobra.Command{
		Use: "run-now AGENT/NAME", Short: "Do what a schedule does, now", Example: "  tidemark schedule run-now coder/nightly --wait",
		Args: usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, agent, schedule, err := a.scheduleNamed(cmd, args[0])
			if err != nil {
				return err
			}
			d, err := s.Schedule(cmd.Context(), agent, schedule)
			if err != nil {
				return hint.With(err, "see them with: tidemark schedules")
			}
			return a.addJob(cmd, s, tidemark.Job{Agent: agent, Schedule: schedule, Trigger: tidemark.TriggerManual, Prompt: d.Prompt}, wait)
		},
	}
	now.Flags().BoolVar(&wait, "wait", false, "show what it puts out, and wait for its end")
	cmd.AddCommand(turn("enable", tidemark.Idle, "Let a schedule run", `Lets a schedule run again that was disabled, and accepts one that is proposed: it is
not in the fleet file, and was neither added on this machine nor by an agent of its
fleet. It is signed with the key of the fleet here, fleet.key.`),
		turn("disable", tidemark.Disabled, "Keep a schedule from running, also after a reload", ""), now, scheduleAddCommand(a), scheduleRemoveCommand(a))
	return cmd
}
