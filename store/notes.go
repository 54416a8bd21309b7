package store

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
)

// Labels, titles, tags and the like are not entries of a session: they go to a log
// of their own, the notes. Appending a note needs no lease, so a session can be
// labelled while it is open elsewhere. The log also keeps every earlier label and
// title.

// The kinds of notes.
const (
	NoteLabel = "label"
	noteTitle = "title"
	noteTag   = "tag"
	notePin   = "pin"
	noteHold  = "hold"
	NoteMask  = "redact"
	noteCost  = "cost"
)

// Note is one line of a session's notes.
type Note struct {
	Kind    string   `json:"kind"`
	Seq     int64    `json:"seq,omitempty"` // the entry that it is about
	Worker  string   `json:"worker,omitempty"`
	Text    string   `json:"text,omitempty"`
	Remove  bool     `json:"remove,omitempty"`
	Secrets []Secret `json:"secrets,omitempty"`

	Costs map[int64]float64 `json:"costs,omitempty"` // in USD, by the seq of the entry
}

// NoteCount returns how many notes a session has, without reading them.
func (s *Store) NoteCount(ctx context.Context, id tidemark.SessionID) (int64, error) {
	r, err := s.k.Get(ctx, keyOf(kindNotes, id), nil)
	return r.Head.Length, err
}

// SessionsWithNotes returns the sessions of which anything is noted, so that nobody asks
// for the NoteCount of all the others. ErrCorrupt: there may be more.
func (s *Store) SessionsWithNotes(ctx context.Context) (map[tidemark.SessionID]bool, error) {
	noted := make(map[tidemark.SessionID]bool)
	for key, err := range s.backend.Walk(ctx, tidemark.Key{Kind: kindNotes}) {
		if err != nil {
			return noted, err
		}
		if key.Kind != kindNotes {
			break
		}
		id, _ := sessionOf(key)
		noted[id] = true
	}
	return noted, nil
}

// Notes yields the notes of the session, oldest first.
func (v *View) Notes(ctx context.Context) iter.Seq2[Note, error] {
	return func(yield func(Note, error) bool) {
		for l, err := range v.s.backend.Lines(ctx, keyOf(kindNotes, v.ID)) {
			var n Note
			if err == nil {
				err = records.Decode(tidemark.Record{Key: keyOf(kindNotes, v.ID), Body: l.Body}, &n)
			}
			if !yield(n, err) {
				return
			}
		}
	}
}

// addNote appends a note to a batch.
func (s *Store) addNote(ctx context.Context, b *tidemark.Batch, id tidemark.SessionID, n Note) error {
	log := keyOf(kindNotes, id)
	r, err := s.k.Get(ctx, log, nil)
	if err != nil {
		return err
	}
	body, err := records.Encode(n)
	if err != nil {
		return err
	}
	if b.At.IsZero() {
		b.At = s.k.Now()
	}
	l := tidemark.Line{Seq: r.Head.Length + 1, Kind: n.Kind, At: b.At, Body: body}
	l.Sum = l.Checksum(log)
	b.Appends = append(b.Appends, tidemark.Append{Log: log, Lines: []tidemark.Line{l}})
	return nil
}

// Label gives an entry a name that references can use: ErrInvalid, ErrNotFound.
// Within a session a label names one entry: a label that is given again moves. It
// needs no lease.
func (s *Store) Label(ctx context.Context, id tidemark.SessionID, seq int64, text string) error {
	text, err := records.CheckText("label", text)
	if err != nil {
		return err
	}
	if text, err = s.vault.RedactText(ctx, string(id), text); err != nil {
		return err
	}
	return records.Retry(ctx, func() error {
		v, err := s.View(ctx, id)
		if err != nil {
			return err
		}
		if err := v.has(ctx, seq); err != nil {
			return err
		}
		n := name{Class: classLabel, Text: text, Session: id, Seq: seq}
		old, err := s.k.Get(ctx, s.nameKey(n), &name{})
		if err != nil {
			return err
		}
		n.version = old.Version
		var b tidemark.Batch
		if err := s.addName(&b, n); err != nil {
			return err
		}
		if err := s.addNote(ctx, &b, id, Note{Kind: NoteLabel, Seq: seq, Text: text}); err != nil {
			return err
		}
		_, err = s.k.Commit(ctx, b)
		return err
	})
}

// Labels returns the session's labels by the seq of the entry that they name. Of
// several labels of one entry, it is the newest.
func (v *View) Labels(ctx context.Context) (map[int64]string, error) {
	labels := make(map[int64]string)
	given := make(map[int64]time.Time)
	for n, err := range v.s.namesOf(ctx, v.ID) {
		if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
			return nil, err
		}
		if err == nil && n.Class == classLabel && !n.given.Before(given[n.Seq]) {
			labels[n.Seq], given[n.Seq] = n.Text, n.given
		}
	}
	return labels, nil
}

// seqOfLabel returns the seq of the entry that a label names: ErrNotFound.
func (v *View) seqOfLabel(ctx context.Context, text string) (int64, error) {
	n := name{Class: classLabel, Text: text, Session: v.ID}
	r, err := v.s.k.Get(ctx, v.s.nameKey(n), &n)
	if err == nil && r.Version == 0 {
		err = tidemark.NotFoundf("session %s: there is no node, entry or label %q", v.ID, text)
	}
	return n.Seq, err
}

// Rename gives a session another title. It needs no lease.
func (s *Store) Rename(ctx context.Context, id tidemark.SessionID, title string) error {
	title, err := records.CheckText("title", title)
	if err != nil {
		return err
	}
	if title, err = s.vault.RedactText(ctx, string(id), title); err != nil {
		return err
	}
	return s.update(ctx, id, func(i *Info, b *tidemark.Batch) error {
		if err := s.retitle(ctx, i, b, title); err != nil {
			return err
		}
		return s.addNote(ctx, b, id, Note{Kind: noteTitle, Text: title})
	})
}

// RenameToSource gives a session the title that its source has, and has it follow
// its source again: Renamed is false from then on. It needs no lease.
func (s *Store) RenameToSource(ctx context.Context, id tidemark.SessionID, title string) error {
	title, err := s.vault.RedactText(ctx, string(id), title)
	if err != nil {
		return err
	}
	return s.update(ctx, id, func(i *Info, b *tidemark.Batch) error {
		if err := s.retitle(ctx, i, b, title); err != nil {
			return err
		}
		return s.addNote(ctx, b, id, Note{Kind: noteTitle, Text: title, Remove: true})
	})
}

// Renamed reports whether somebody gave the session its title here, so that it is
// not its source's.
func (v *View) Renamed(ctx context.Context) (renamed bool, err error) {
	for n, err := range v.Notes(ctx) {
		if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
			return false, err
		}
		if err == nil && n.Kind == noteTitle {
			renamed = !n.Remove
		}
	}
	return renamed, nil
}

// retitle sets the title, and replaces the name by which references find the
// session.
func (s *Store) retitle(ctx context.Context, i *Info, b *tidemark.Batch, title string) error {
	old := name{Class: classTitle, Text: i.Title, Session: i.ID}
	fresh := name{Class: classTitle, Text: title, Session: i.ID}
	r, err := s.k.Get(ctx, s.nameKey(old), &name{})
	if err != nil {
		return err
	}
	if old.version = r.Version; s.nameKey(old) == s.nameKey(fresh) {
		fresh.version = old.version
	} else if old.version > 0 {
		b.Deletes = append(b.Deletes, tidemark.Precondition{Key: s.nameKey(old), Version: old.version})
	}
	i.Title = title
	return s.addName(b, fresh)
}

// Tag adds and removes tags of a session. It needs no lease.
func (s *Store) Tag(ctx context.Context, id tidemark.SessionID, add, remove []string) error {
	return s.update(ctx, id, func(i *Info, b *tidemark.Batch) error {
		var notes []Note
		for _, t := range remove {
			i.Tags = slices.DeleteFunc(i.Tags, func(have string) bool { return have == t })
			notes = append(notes, Note{Kind: noteTag, Text: t, Remove: true})
		}
		for _, t := range add {
			t, err := records.CheckText("tag", t)
			if err != nil {
				return err
			}
			if t, err = s.vault.RedactText(ctx, string(id), t); err != nil {
				return err
			}
			if !slices.Contains(i.Tags, t) {
				i.Tags = append(i.Tags, t)
			}
			notes = append(notes, Note{Kind: noteTag, Text: t})
		}
		for _, n := range notes {
			if err := s.addNote(ctx, b, id, n); err != nil {
				return err
			}
		}
		return mergeAppends(b)
	})
}

// mergeAppends turns several appends to the notes into one, since a batch may
// append to a log only once.
func mergeAppends(b *tidemark.Batch) error {
	if len(b.Appends) < 2 {
		return nil
	}
	all := &b.Appends[0]
	for _, a := range b.Appends[1:] {
		l := a.Lines[0]
		l.Seq = all.Lines[0].Seq + int64(len(all.Lines))
		l.Sum = l.Checksum(all.Log)
		all.Lines = append(all.Lines, l)
	}
	b.Appends = b.Appends[:1]
	return nil
}
