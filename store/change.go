package store

import (
	"context"
	"slices"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
)

// Version counts the changes to the session's record (its title, tags and so on);
// appending entries does not change it.
func (i Info) Version() int64 { return i.version }

// Patch says what to change about a session. Nil fields stay as they are.
type Patch struct {
	Title  *string
	Tags   *[]string // replaces all of them
	Pinned *bool
	OnHold *bool
	// If is called with the session before it is changed. When it returns an
	// error, nothing is changed and Change returns that error.
	If func(Info) error
}

// Change makes several changes to a session at once. It needs no lease.
func (s *Store) Change(ctx context.Context, id tidemark.SessionID, p Patch) (Info, error) {
	err := s.update(ctx, id, func(i *Info, b *tidemark.Batch) error {
		if p.If != nil {
			if err := p.If(*i); err != nil {
				return records.Final(err) // do not try again: the answer would be the same
			}
		}
		return s.patch(ctx, i, b, p)
	})
	if err != nil {
		return Info{}, err
	}
	return s.Session(ctx, id)
}

func (s *Store) patch(ctx context.Context, i *Info, b *tidemark.Batch, p Patch) error {
	var notes []Note
	if p.Title != nil {
		title, err := records.CheckText("title", *p.Title)
		if err != nil {
			return err
		}
		if title, err = s.vault.RedactText(ctx, string(i.ID), title); err != nil {
			return err
		}
		if err := s.retitle(ctx, i, b, title); err != nil {
			return err
		}
		notes = append(notes, Note{Kind: noteTitle, Text: title})
	}
	if p.Tags != nil {
		tags, changed, err := s.retag(ctx, i, *p.Tags)
		if err != nil {
			return err
		}
		i.Tags, notes = tags, append(notes, changed...)
	}
	if p.Pinned != nil && *p.Pinned != i.Pinned {
		i.Pinned = *p.Pinned
		notes = append(notes, Note{Kind: notePin, Remove: !i.Pinned})
	}
	if p.OnHold != nil && *p.OnHold != i.OnHold {
		i.OnHold = *p.OnHold
		notes = append(notes, Note{Kind: noteHold, Remove: !i.OnHold})
	}
	for _, n := range notes {
		if err := s.addNote(ctx, b, i.ID, n); err != nil {
			return err
		}
	}
	return mergeAppends(b)
}

// retag returns the wanted tags as they are kept, and the notes that record what
// was added and removed.
func (s *Store) retag(ctx context.Context, i *Info, want []string) (tags []string, notes []Note, err error) {
	have := i.Tags
	for _, t := range want {
		if t, err = records.CheckText("tag", t); err != nil {
			return nil, nil, err
		}
		if t, err = s.vault.RedactText(ctx, string(i.ID), t); err != nil {
			return nil, nil, err
		}
		if slices.Contains(tags, t) {
			continue
		}
		tags = append(tags, t)
		if !slices.Contains(have, t) {
			notes = append(notes, Note{Kind: noteTag, Text: t})
		}
	}
	for _, t := range have {
		if !slices.Contains(tags, t) {
			notes = append(notes, Note{Kind: noteTag, Text: t, Remove: true})
		}
	}
	return tags, notes, nil
}
