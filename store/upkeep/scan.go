package upkeep

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/store"
)

// Leak is a secret that a Scan found. It never holds the secret itself.
type Leak struct {
	Session     tidemark.SessionID `json:"session"`
	Worker      string             `json:"worker,omitempty"`
	Seq         int64              `json:"seq,omitempty"`   // of the entry; 0: see Where
	Where       string             `json:"where,omitempty"` // title, tag, label, …
	Rule        string             `json:"rule"`
	Fingerprint string             `json:"fingerprint"`
	Masked      bool               `json:"masked"`
}

// Scan looks for secrets in sessions, and with Mask adds marks that mask them for
// every reader. No entry is rewritten.
type Scan struct {
	Mask     bool
	Progress func(format string, args ...any)
	Found    []Leak
	Damage   error // the last thing that could not be read

	sessions int
}

// All scans every session, live and in the trash.
func (f *Scan) All(ctx context.Context, s *store.Store) error {
	return f.rewriting(ctx, s, f.all(ctx, s))
}

// Session scans one session: its title, tags and labels, its entries and those of
// its workers, and what its snapshots keep of files.
func (f *Scan) Session(ctx context.Context, s *store.Store, id tidemark.SessionID) error {
	return f.rewriting(ctx, s, f.session(ctx, s, id))
}

// rewriting takes what was masked out of the search index, after an error too.
func (f *Scan) rewriting(ctx context.Context, s *store.Store, err error) error {
	if !f.Mask || !slices.ContainsFunc(f.Found, func(l Leak) bool { return l.Masked }) {
		return err
	}
	return errors.Join(err, s.RewriteIndex(ctx))
}

func (f *Scan) all(ctx context.Context, s *store.Store) error {
	for _, state := range []string{store.Live, store.Trash} {
		for i, err := range s.Sessions(ctx, store.Filter{State: state}) {
			if errors.Is(err, tidemark.ErrCorrupt) {
				f.Damage = err
				continue
			}
			if err != nil {
				return err
			}
			if err := f.session(ctx, s, i.ID); err != nil {
				return err
			}
			f.sessions++
			f.Progress("%d sessions scanned, %d secrets found", f.sessions, len(f.Found))
		}
	}
	return nil
}

func (f *Scan) session(ctx context.Context, s *store.Store, id tidemark.SessionID) error {
	v, err := s.View(ctx, id)
	if err != nil {
		return err
	}
	if err := f.about(ctx, s, v); err != nil {
		return err
	}
	workers, err := v.Workers(ctx)
	if err != nil {
		return err
	}
	for _, worker := range append([]string{""}, workers...) {
		view := v
		if worker != "" {
			if view, err = v.Worker(ctx, worker); err != nil {
				return err
			}
		}
		if err := f.log(ctx, view.Unmasked(), worker); err != nil {
			return err
		}
	}
	return nil
}

// about scans the title, agent, tags, labels and Extra of a session. With Mask, it
// replaces the title; the others are only reported, and their owner has to change
// them.
func (f *Scan) about(ctx context.Context, s *store.Store, v *store.View) error {
	labels, err := v.Labels(ctx)
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
		done := f.Mask && where == "title"
		if done {
			if err := s.Rename(ctx, v.ID, masked); err != nil {
				return err
			}
		}
		for _, mark := range tidemark.Fingerprints(masked) {
			if !slices.Contains(tidemark.Fingerprints(text), mark) {
				f.Found = append(f.Found, Leak{Session: v.ID, Where: where, Rule: "see " + where, Fingerprint: mark, Masked: done})
			}
		}
	}
	return nil
}

// log scans the log of a session or a worker, and its draft.
func (f *Scan) log(ctx context.Context, v *store.View, worker string) error {
	looked := make(map[string]bool) // contents of snapshots
	for e, err := range v.Log(ctx) {
		if errors.Is(err, tidemark.ErrCorrupt) {
			f.Damage = err
			continue
		}
		if err != nil {
			return err
		}
		secrets, err := v.FindSecrets(ctx, e)
		if err != nil {
			return err
		}
		if f.Mask {
			if err := v.MarkSecrets(ctx, e.Seq, secrets); err != nil {
				return err
			}
		}
		if err := f.snapshot(ctx, v, e, looked); err != nil {
			return err
		}
		for _, secret := range secrets {
			f.Found = append(f.Found, Leak{Session: v.ID, Worker: worker, Seq: e.Seq, Rule: secret.Rule, Fingerprint: secret.Fingerprint, Masked: f.Mask})
		}
	}
	drafts, err := v.Draft(ctx)
	if err != nil {
		return err
	}
	for _, e := range drafts {
		secrets, err := v.FindSecrets(ctx, e)
		if err != nil {
			return err
		}
		for _, secret := range secrets {
			f.Found = append(f.Found, Leak{Session: v.ID, Worker: worker, Seq: e.Seq, Where: "draft", Rule: secret.Rule, Fingerprint: secret.Fingerprint, Masked: f.Mask})
		}
	}
	if f.Mask {
		return v.MaskDraft(ctx)
	}
	return nil
}

// snapshot scans what a snapshot keeps of files. A mark cannot mask a part of a file
// that has to come back as it was, so with Mask the content is removed: that version
// of the file cannot be brought back any more.
func (f *Scan) snapshot(ctx context.Context, v *store.View, e tidemark.Entry, looked map[string]bool) error {
	s, ok := tidemark.SnapshotOf(e)
	if !ok {
		return nil
	}
	for _, file := range s.Files {
		for _, version := range []tidemark.FileVersion{file.Before, file.After} {
			if looked[version.Content] {
				continue
			}
			looked[version.Content] = true
			secrets, err := v.ContentSecrets(ctx, version)
			if errors.Is(err, tidemark.ErrCorrupt) {
				f.Damage = err
				continue
			}
			if err == nil && f.Mask && len(secrets) > 0 {
				err = v.DropContent(ctx, version)
			}
			if err != nil {
				return err
			}
			for _, secret := range secrets {
				f.Found = append(f.Found, Leak{Session: v.ID, Seq: e.Seq, Where: "snapshot of " + file.Path, Rule: secret.Rule, Fingerprint: secret.Fingerprint, Masked: f.Mask})
			}
		}
	}
	return nil
}
