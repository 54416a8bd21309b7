package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/agent/slash"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/store/rewind"
)

// rewound is what rewind prints.
type rewound struct {
	Session      tidemark.SessionID `json:"session"`
	Conversation int64              `json:"conversation,omitempty"` // the entry it goes on from
	Files        []rewoundFile      `json:"files"`
	Left         []rewind.Left      `json:"left,omitempty"`
	Commands     []rewind.Command   `json:"commands,omitempty"`
	DryRun       bool               `json:"dry_run,omitempty"`
}

type rewoundFile struct {
	Path    string `json:"path"`
	To      string `json:"to"` // file, link or absent
	Changed bool   `json:"changed_since,omitempty"`
}

type rewindFlags struct {
	turns               int
	conversation, files bool
	force, dry          bool
}

func rewindCommand(a *app) *cobra.Command {
	var f rewindFlags
	cmd := &cobra.Command{
		Use:   "rewind SESSION[@NODE]",
		Short: "Take turns back: the conversation, the files that its tools changed, or both",
		Long: `Goes back to before the last turn of a session, or to the end of a node. Files
of the project are put back to what they were then, from what the session keeps
of them; what commands did stays, and is listed. The conversation goes on from
there, and nothing of it is lost.

It runs in the project of the session. A file that somebody else changed since is
not overwritten without --force. What a file was until now is kept, so that a
rewind can be taken back: tidemark rewind SESSION@NODE --files.`,
		Example: `  tidemark rewind last --dry-run
  tidemark rewind last --files
  tidemark rewind 7f3a --turns 3 --conversation
  tidemark rewind 7f3a@n2`,
		Args:              usage(cobra.ExactArgs(1)),
		ValidArgsFunction: completeSession(a),
		RunE:              func(cmd *cobra.Command, args []string) error { return a.rewind(cmd, args[0], f) },
	}
	fl := cmd.Flags()
	fl.IntVar(&f.turns, "turns", 1, "how many turns to take back, without a node")
	fl.BoolVar(&f.conversation, "conversation", false, "the conversation; neither this nor --files is both")
	fl.BoolVar(&f.files, "files", false, "the files that tools changed")
	fl.BoolVar(&f.force, "force", false, "overwrite files that somebody else changed since")
	fl.BoolVar(&f.dry, "dry-run", false, "only show what would change")
	return cmd
}

func (a *app) rewind(cmd *cobra.Command, ref string, f rewindFlags) error {
	ctx := cmd.Context()
	s, p, err := a.resolve(ctx, open.Write, ref)
	if err != nil {
		return err
	}
	to, err := rewind.Node(ctx, p.View, p.Seq)
	if p.Seq == 0 {
		if f.turns < 1 {
			return tidemark.Invalidf("--turns %d: want at least 1", f.turns)
		}
		to, err = rewind.Turns(ctx, p.View, f.turns)
	}
	if err != nil {
		return hint.With(err, "see its nodes with: tidemark tree %.8s", p.ID)
	}
	if f.conversation == f.files {
		f.conversation, f.files = true, true
	}
	out := rewound{Session: p.ID, Files: []rewoundFile{}, DryRun: f.dry}
	var plan *rewind.Plan
	var lines []string
	if f.files {
		if here := a.project(); p.Project != here {
			return hint.With(tidemark.Invalidf("session %.8s is of the project %s, and this is %s", p.ID, p.Project, here), "go there, or take back the conversation alone: --conversation")
		}
		if plan, err = rewind.Look(ctx, p.View, p.Project, to.Files); err != nil {
			return err
		}
		defer plan.Close()
		for _, file := range plan.Files {
			out.Files = append(out.Files, rewoundFile{file.Path, file.To.Kind, file.Changed})
		}
		out.Left, out.Commands = plan.Left, plan.Commands
		if !a.wantsJSON() {
			lines = slash.PlanLines(ctx, plan) // of the files as they are before
		}
	}
	if f.conversation {
		if out.Conversation = to.Conversation; out.Conversation == 0 && !f.files {
			return tidemark.NotFoundf("session %.8s: there is nothing before its first turn", p.ID)
		}
	}
	if !f.dry {
		err = a.withWriter(cmd, s, p.ID, func(w *store.Writer) error {
			if plan != nil {
				if err := plan.Apply(ctx, w, &rewind.Options{Force: f.force, FileBytes: a.config.Chat.SnapshotFile, SessionBytes: a.config.Chat.SnapshotSession}); err != nil {
					return err
				}
			}
			if out.Conversation == 0 {
				return nil
			}
			return w.Branch(ctx, out.Conversation)
		})
	}
	if plan != nil {
		for _, l := range plan.Unkept {
			a.say("What %s was until now is not kept: %s", l.Path, l.Why)
		}
	}
	if err != nil && plan != nil && len(plan.Changed()) > 0 {
		err = hint.With(err, "see what would change with --dry-run; overwrite with --force")
	}
	if err != nil {
		return err
	}
	return a.print(out, func(w io.Writer) error {
		for _, line := range lines {
			fmt.Fprintln(w, line)
		}
		return nil
	})
}
