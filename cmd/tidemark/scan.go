package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/store"
)

// leak is a secret that scan found. It never says the secret itself.
type leak struct {
	Session     tidemark.SessionID `json:"session"`
	Worker      string             `json:"worker,omitempty"`
	Seq         int64              `json:"seq,omitempty"`   // 0: what is said of the session
	Where       string             `json:"where,omitempty"` // title, tag, label, …
	Rule        string             `json:"rule"`
	Fingerprint string             `json:"fingerprint"`
	Masked      bool               `json:"masked"`
}

func scanCommand(a *app) *cobra.Command {
	var mask bool
	cmd := &cobra.Command{
		Use:   "scan [SESSION]",
		Short: "Find secrets in what is kept",
		Long: `Looks for keys, tokens and passwords in a session, or in all of them. What it
finds is named by its kind and a fingerprint, never shown. With --mask a mark is
added to the session's notes: every reader and export shows a mask in place of
the secret from then on. Nothing is rewritten; purge destroys.

The exit code is 1 when secrets were found that are not masked.`,
		Example:           "  tidemark scan\n  tidemark scan last --mask",
		Args:              usage(cobra.MaximumNArgs(1)),
		ValidArgsFunction: completeSession(a),
		RunE: func(cmd *cobra.Command, args []string) error {
			how := reads
			if mask {
				how = writes
			}
			f := &scan{app: a, mask: mask, found: []leak{}}
			if len(args) == 1 {
				s, p, err := a.resolve(cmd.Context(), how, args[0])
				if err != nil {
					return err
				}
				if err := f.session(cmd, s, p.ID); err != nil {
					return err
				}
			} else if err := f.all(cmd, how); err != nil {
				return err
			}
			a.progressDone()
			return errors.Join(a.print(f.found, f.print), f.err())
		},
	}
	cmd.Flags().BoolVar(&mask, "mask", false, "mask what is found, for every reader")
	return cmd
}

// scan is one run over sessions.
type scan struct {
	*app
	mask     bool
	found    []leak
	sessions int
	damage   error
}

func (f *scan) all(cmd *cobra.Command, how open.Access) error {
	s, err := f.open(cmd.Context(), how)
	if err != nil {
		return err
	}
	for _, state := range []string{store.Live, store.Trash} {
		for i, err := range s.Sessions(cmd.Context(), store.Filter{State: state}) {
			if errors.Is(err, tidemark.ErrCorrupt) {
				f.damage = err
				continue
			}
			if err != nil {
				return err
			}
			if err := f.session(cmd, s, i.ID); err != nil {
				return err
			}
			f.sessions++
			f.progress("%d sessions scanned, %d secrets found", f.sessions, len(f.found))
		}
	}
	return nil
}

func (f *scan) session(cmd *cobra.Command, s *store.Store, id tidemark.SessionID) error {
	v, err := s.View(cmd.Context(), id)
	if err != nil {
		return err
	}
	if err := f.about(cmd, s, v); err != nil {
		return err
	}
	workers, err := v.Workers(cmd.Context())
	if err != nil {
		return err
	}
	for _, worker := range append([]string{""}, workers...) {
		view := v
		if worker != "" {
			if view, err = v.Worker(cmd.Context(), worker); err != nil {
				return err
			}
		}
		if err := f.log(cmd, view.Unmasked(), worker); err != nil {
			return err
		}
	}
	return nil
}

// about looks at what is said of a session. A title can be masked by another
// one; the rest is named, for its owner to change.
func (f *scan) about(cmd *cobra.Command, s *store.Store, v *store.View) error {
	labels, err := v.Labels(cmd.Context())
	if err != nil {
		return err
	}
	texts := map[string]string{"title": v.Title, "agent": v.Agent, "tags": strings.Join(v.Tags, "\n"), "extra": string(v.Extra)}
	for seq, label := range labels {
		texts[fmt.Sprintf("label of entry %d", seq)] = label
	}
	for where, text := range texts {
		masked := s.MaskText(text)
		if masked == text {
			continue
		}
		done := f.mask && where == "title"
		if done {
			if err := s.Rename(cmd.Context(), v.ID, masked); err != nil {
				return err
			}
		}
		for _, mark := range tidemark.Fingerprints(masked) {
			if !slices.Contains(tidemark.Fingerprints(text), mark) {
				f.found = append(f.found, leak{Session: v.ID, Where: where, Rule: "see " + where, Fingerprint: mark, Masked: done})
			}
		}
	}
	return nil
}

func (f *scan) log(cmd *cobra.Command, v *store.View, worker string) error {
	for e, err := range v.Log(cmd.Context()) {
		if errors.Is(err, tidemark.ErrCorrupt) {
			f.damage = err
			continue
		}
		if err != nil {
			return err
		}
		secrets, err := v.FindSecrets(cmd.Context(), e)
		if err != nil {
			return err
		}
		if f.mask {
			if err := v.MarkSecrets(cmd.Context(), e.Seq, secrets); err != nil {
				return err
			}
		}
		for _, secret := range secrets {
			f.found = append(f.found, leak{Session: v.ID, Worker: worker, Seq: e.Seq, Rule: secret.Rule, Fingerprint: secret.Fingerprint, Masked: f.mask})
		}
	}
	return nil
}

func (f *scan) print(w io.Writer) error {
	t := f.table("REF", "RULE", "FINGERPRINT", "WORKER")
	for _, l := range f.found {
		ref := f.shortID(l.Session)
		if l.Seq > 0 {
			ref = fmt.Sprintf("%s@%d", ref, l.Seq)
		}
		t.row(ref, l.Rule, l.Fingerprint, l.Worker)
	}
	return t.print(w)
}

func (f *scan) err() error {
	if f.damage != nil {
		return f.damage
	}
	open := 0
	for _, l := range f.found {
		if !l.Masked {
			open++
		}
	}
	switch {
	case open == 0:
		return nil
	case f.mask:
		return withHint(fmt.Errorf("%d secret(s) are in what is said of sessions, where nothing is masked", open), "change them: tidemark tag SESSION -x, tidemark label SESSION@N TEXT")
	}
	return withHint(fmt.Errorf("%d secret(s) found", open), "mask them for every reader with: tidemark scan --mask")
}
