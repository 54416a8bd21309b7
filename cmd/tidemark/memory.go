package main

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/store"
)

func memoryCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "memory",
		Short: "What was learned in a project",
		Long: `Shows and changes what was learned in a project: what a person said in a chat to
steer the agent, extracted when the chat ended, and what was added by hand. New
sessions of the project are told.`,
		Args: usage(cobra.NoArgs), RunE: help,
	}
	cmd.AddCommand(memoryLs(a), memoryShow(a), memoryAdd(a), memoryRm(a))
	return cmd
}

func memoryLs(a *app) *cobra.Command {
	var everywhere bool
	var project string
	cmd := &cobra.Command{
		Use: "ls", Short: "List what was learned, the newest first",
		Example: "  tidemark memory ls\n  tidemark memory ls -A --json",
		Args:    usage(cobra.NoArgs),
		RunE: a.onStore(open.Read, func(cmd *cobra.Command, s *store.Store, _ []string) error {
			if project = projectAt(project); project == "" && !everywhere {
				project = a.project()
			}
			return printRows(a, s.Memories(cmd.Context(), project), []string{"ID", "LEARNED", "SESSION", "TEXT"}, func(m store.Memory) []string {
				session := "-"
				if m.Session != "" {
					session = a.shortID(m.Session)
				}
				return []string{m.ID, a.when(m.At), session, m.Text}
			})
		}),
	}
	cmd.Flags().BoolVarP(&everywhere, "all", "A", false, "of all projects")
	cmd.Flags().StringVar(&project, "project", "", "of the project in `DIR`")
	return cmd
}

func memoryShow(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "Show one thing that was learned",
		Example: "  tidemark memory show 4kq2",
		Args:    usage(cobra.ExactArgs(1)),
		RunE: a.onStore(open.Read, func(cmd *cobra.Command, s *store.Store, args []string) error {
			m, err := s.Memory(cmd.Context(), args[0])
			if err != nil {
				return hint.With(err, "see what is there with: tidemark memory ls -A")
			}
			return a.printf(m, "%s\n\nlearned %s in %s, session %s\n", render.Clean(m.Text), m.At.Local().Format(time.RFC3339), render.OrDash(m.Project), render.OrDash(string(m.Session)))
		}),
	}
}

func memoryAdd(a *app) *cobra.Command {
	var project string
	cmd := &cobra.Command{
		Use: "add TEXT…", Short: "Add something that later sessions should know",
		Example: `  tidemark memory add "Tests run with make test."`,
		Args:    usage(cobra.MinimumNArgs(1)),
		RunE: a.onStore(open.Create, func(cmd *cobra.Command, s *store.Store, args []string) error {
			if project = projectAt(project); project == "" {
				project = a.project()
			}
			m, isNew, err := s.Remember(cmd.Context(), store.Memory{Project: project, Text: strings.Join(args, " ")})
			if err != nil {
				return err
			}
			if !isNew {
				a.say("It is known already.")
			}
			return a.printf(m, "%s\n", m.ID)
		}),
	}
	cmd.Flags().StringVar(&project, "project", "", "for the project in `DIR`")
	return cmd
}

func memoryRm(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "rm ID…", Short: "Forget something that was learned",
		Example: "  tidemark memory rm 4kq2",
		Args:    usage(cobra.MinimumNArgs(1)),
		RunE: a.onStore(open.Write, func(cmd *cobra.Command, s *store.Store, args []string) error {
			var ids []string
			for _, id := range args {
				m, err := s.Memory(cmd.Context(), id)
				if err != nil {
					return hint.With(err, "see what is there with: tidemark memory ls -A")
				}
				ids = append(ids, m.ID)
			}
			for _, id := range ids {
				if err := s.Forget(cmd.Context(), id); err != nil {
					return err
				}
				a.say("Forgot %s.", id)
			}
			return nil
		}),
	}
}
