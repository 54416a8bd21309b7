package main

import (
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/transfer"
)

func renameCommand(a *app) *cobra.Command {
	source := false
	cmd := &cobra.Command{
		Use:   "rename SESSION TITLE | rename SESSION --source",
		Short: "Give a session another title",
		Long: `Gives a session another title. A session that was imported has the title that its
tool gives it, and follows it from one import to the next, until it is renamed
here; --source goes back to the tool's title.`,
		Example:           "  tidemark rename last \"database design\"\n  tidemark rename last --source",
		Args:              usage(cobra.RangeArgs(1, 2)),
		ValidArgsFunction: completeSession(a),
		RunE: func(cmd *cobra.Command, args []string) error {
			if source == (len(args) == 2) {
				return tidemark.Invalidf("want a title, or --source")
			}
			return a.changeSession(cmd, args[0], func(s *store.Store, id tidemark.SessionID) error {
				if source {
					return transfer.RenameToSource(cmd.Context(), s, id)
				}
				return s.Rename(cmd.Context(), id, args[1])
			})
		},
	}
	cmd.Flags().BoolVar(&source, "source", false, "the title that it has in the tool that it came from")
	return cmd
}

func tagCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "tag SESSION +TAG -TAG…",
		Short:   "Add and remove tags of a session",
		Example: "  tidemark tag last +keep -draft",
		Args:    usage(cobra.MinimumNArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			var add, remove []string
			for _, t := range args[1:] {
				switch {
				case strings.HasPrefix(t, "+"):
					add = append(add, t[1:])
				case strings.HasPrefix(t, "-"):
					remove = append(remove, t[1:])
				default:
					return tidemark.Invalidf("tag %q: write +%s to add it, -%s to remove it", t, t, t)
				}
			}
			return a.changeSession(cmd, args[0], func(s *store.Store, id tidemark.SessionID) error {
				return s.Tag(cmd.Context(), id, add, remove)
			})
		},
	}
}

// tagArgs moves +TAG and -TAG behind a "--" if the command is tag, so that a tag to
// remove is not taken for a flag. So flags of this command need two dashes.
func tagArgs(args []string) []string {
	at := commandAt(args)
	if at < 0 || args[at] != "tag" {
		return args
	}
	rest := slices.Clone(args[:at+1])
	var tags []string
	for i, t := range args[at+1:] {
		switch {
		case t == "--":
			return append(append(rest, "--"), append(tags, args[at+2+i:]...)...)
		case strings.HasPrefix(t, "+"), strings.HasPrefix(t, "-") && !strings.HasPrefix(t, "--") && t != "-" && t != "-h":
			tags = append(tags, t)
		default:
			rest = append(rest, t)
		}
	}
	if tags == nil {
		return args
	}
	return append(append(rest, "--"), tags...)
}

// commandAt returns the index of the command among arguments that may begin
// with global flags, -1 when there is none.
func commandAt(args []string) int {
	valued := []string{"--store", "--config", "--key-file", "--jq", "--template"}
	for i := 0; i < len(args); i++ {
		if slices.Contains(valued, args[i]) {
			i++
		} else if !strings.HasPrefix(args[i], "-") {
			return i
		}
	}
	return -1
}

// changeSession changes one session and prints it afterwards.
func (a *app) changeSession(cmd *cobra.Command, ref string, change func(*store.Store, tidemark.SessionID) error) error {
	s, p, err := a.resolve(cmd.Context(), open.Write, ref)
	if err != nil {
		return err
	}
	if err := change(s, p.ID); err != nil {
		return err
	}
	i, err := s.Session(cmd.Context(), p.ID)
	if err != nil {
		return err
	}
	return a.print(i, func(w io.Writer) error {
		t := a.table("ID", "TITLE", "TAGS")
		t.Row(string(i.ID), i.Title, strings.Join(i.Tags, " "))
		return t.Print(w)
	})
}
