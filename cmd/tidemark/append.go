package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/transfer"
)

func appendCommand(a *app) *cobra.Command {
	var worker, meta string
	cmd := &cobra.Command{
		Use:   "append SESSION|new",
		Short: "Append entries, read as NDJSON from stdin",
		Long: `Reads entries as NDJSON and, after each one is durable, prints "ID SEQ".

An entry needs a role (system, user, assistant, tool) and content (a string) or
blocks; parent, at, key, model, usage, kind and extra are optional. "new"
creates a session at the first line. An entry whose key was seen before in that
log is not appended again: its old SEQ is printed. A line that cannot be kept is
named on stderr and skipped; the exit code is then 3.`,
		Example: `  echo '{"role":"user","content":"hello"}' | tidemark append new
  agent --stream | tidemark append last
  tidemark append new --session-meta '{"title":"nightly","model":"m1"}' < entries.ndjson`,
		Args:              usage(cobra.ExactArgs(1)),
		ValidArgsFunction: completeSession(a),
		RunE: func(cmd *cobra.Command, args []string) error {
			if worker != "" {
				if err := store.CheckWorker(worker); err != nil {
					return err
				}
			}
			w, err := a.writer(cmd, args[0], meta)
			if err != nil {
				return err
			}
			skipped := 0
			f := &transfer.Feed{Writer: w, Worker: worker,
				Kept: func(seq int64) error {
					_, err := fmt.Fprintf(a.out, "%s %d\n", w.ID(), seq)
					return err
				},
				Skip: func(err error) {
					skipped++
					a.complain(err)
				},
			}
			if err = f.Run(cmd.Context(), a.in); err == nil && skipped > 0 {
				err = &partly{skipped}
			}
			return errors.Join(err, w.Close(context.WithoutCancel(cmd.Context())))
		},
	}
	cmd.Flags().StringVar(&worker, "worker", "", "append to the log of this worker of the session")
	cmd.Flags().StringVar(&meta, "session-meta", "", "what a new session is to say of itself: `JSON` with title, agent, model, mode, project, tags, foreign_id, extra")
	return cmd
}

// writer attaches to the session that ref means, or prepares a new one.
func (a *app) writer(cmd *cobra.Command, ref, meta string) (*store.Writer, error) {
	if ref == "new" {
		sess, err := a.newSession(meta)
		if err != nil {
			return nil, err
		}
		s, err := a.open(cmd.Context(), open.Create)
		if err != nil {
			return nil, err
		}
		return s.Create(sess, a.holder(cmd)), nil
	}
	if meta != "" {
		return nil, tidemark.Invalidf("--session-meta goes with new")
	}
	s, p, err := a.resolve(cmd.Context(), open.Write, ref)
	if err != nil {
		return nil, err
	}
	if p.Seq != 0 {
		return nil, hint.With(tidemark.Invalidf("%q names a point: entries are appended at the head", ref), "tidemark branch %s", ref)
	}
	return s.Attach(cmd.Context(), p.ID, a.holder(cmd))
}

func (a *app) newSession(meta string) (tidemark.Session, error) {
	var sess tidemark.Session
	if meta != "" {
		if err := transfer.DecodeStrict([]byte(meta), &sess); err != nil {
			return sess, tidemark.Invalidf("--session-meta: %w", err)
		}
	}
	if sess.ID != "" || sess.Base != nil {
		return sess, tidemark.Invalidf("--session-meta: id and base are not for a new session to choose")
	}
	if sess.Mode != "" && sess.Mode != tidemark.ModeLocal && sess.Mode != tidemark.ModeRemote {
		return sess, tidemark.Invalidf("--session-meta: mode %q: want %s or %s", sess.Mode, tidemark.ModeLocal, tidemark.ModeRemote)
	}
	if sess.Project == "" {
		sess.Project = a.project()
	}
	return sess, nil
}
