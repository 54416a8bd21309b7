package convert

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"iter"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// Transcripts imports the sessions of a tool that keeps each in a transcript of
// its own, which names the unit of all its files. Of a transcript whose unit did
// not change only the Identity is needed, which an earlier import left in the
// ledger; so it is not opened.
type Transcripts[T any] struct {
	// Find returns the transcripts of a Source, and what cannot be searched.
	Find func(Source) (files []string, skips []error)
	// Look reads a transcript for what must be known before its entries.
	Look func(file string) (T, error)
	// Identity is what was found in it.
	Identity func(T) Identity
	// Session makes a session of a transcript and those of its helper agents. If it
	// leaves a Unit, that has the Bookmark of the transcript.
	Session func(one T, helpers []T) *Session
	// GoOn makes a session of what was added to a transcript without helper agents,
	// and of what a Bookmark has of it; nil if that takes a reading of all. Nil: it
	// always does.
	GoOn func(file string, g Growth) *Session
}

// transcript is a transcript during an import.
type transcript[T any] struct {
	file    string
	id      Identity
	session string  // what it was part of when it was last imported; "": it has to be read
	grown   *Growth // it only became longer; nil: it did not, or has to be read
	read    bool
	is      T
}

// keptIdentity is what is kept of a transcript in the ledger.
type keptIdentity struct {
	ID       string    `json:"id"`
	Original string    `json:"original,omitempty"`
	Owners   []string  `json:"owners,omitempty"`
	Created  time.Time `json:"created,omitzero"`
	Session  string    `json:"session"` // that it is part of
}

// TranscriptKin is the Kin of such a tool.
func TranscriptKin(state []byte) (names, others []string) {
	var kept keptIdentity
	if json.Unmarshal(state, &kept) != nil {
		return nil, nil
	}
	return []string{kept.ID}, append([]string{kept.Original, kept.Session}, kept.Owners...)
}

// Import is the Import of the tool.
func (t Transcripts[T]) Import(ctx context.Context, p Source) iter.Seq2[*Session, error] {
	return func(yield func(*Session, error) bool) {
		if _, err := fs.Stat(p.FS, p.Path); err != nil {
			yield(nil, err)
			return
		}
		files, skips := t.Find(p)
		for _, skip := range skips {
			if !yield(nil, skip) {
				return
			}
		}
		var all []*transcript[T]
		for _, file := range files {
			one := &transcript[T]{file: file}
			err := ctx.Err()
			if err == nil && !one.known(p) && !t.grew(one, p) {
				err = t.look(one)
			}
			if err != nil {
				if !yield(nil, err) || !IsSkip(err) {
					return
				}
				continue
			}
			all = append(all, one)
		}
		all = InOrder(all, func(one *transcript[T]) Identity { return one.id })
		roots, helpers := byOwner(all)
		for _, root := range roots {
			s, skips := t.session(root, helpers[root])
			for _, skip := range skips {
				if !yield(nil, skip) {
					return
				}
			}
			if err := ctx.Err(); err != nil {
				yield(nil, err)
				return
			}
			if s != nil && !yield(s, nil) {
				return
			}
		}
	}
}

// known takes over what is kept of a transcript that did not change.
func (one *transcript[T]) known(p Source) bool {
	state, ok := p.State(one.file)
	return ok && one.was(state)
}

// grew takes over what is kept of a transcript that only became longer.
func (t Transcripts[T]) grew(one *transcript[T], p Source) bool {
	if t.GoOn == nil || p.Growth == nil {
		return false
	}
	g, ok := p.Growth(one.file)
	if !ok || !one.was(g.Known) {
		return false
	}
	one.grown = &g
	return true
}

// was takes over what is kept of a transcript.
func (one *transcript[T]) was(state []byte) bool {
	var kept keptIdentity
	if json.Unmarshal(state, &kept) != nil || kept.ID == "" {
		return false
	}
	one.id, one.session = Identity{ID: kept.ID, Original: kept.Original, Owners: kept.Owners, CreatedAt: kept.Created}, kept.Session
	return true
}

// look reads a transcript.
func (t Transcripts[T]) look(one *transcript[T]) (err error) {
	if one.read {
		return nil
	}
	if one.is, err = t.Look(one.file); err != nil {
		if IsSkip(err) {
			return err
		}
		return &Skip{What: one.file, Why: err}
	}
	one.id, one.session, one.read = t.Identity(one.is), "", true
	return nil
}

// maxNested bounds how deep helpers start helpers. In a damaged store they may be
// each other's.
const maxNested = 32

// byOwner returns the transcripts that are sessions, and those of the helper agents
// that worked for each, also through others. A helper whose session is gone is a
// session.
func byOwner[T any](all []*transcript[T]) (roots []*transcript[T], helpers map[*transcript[T]][]*transcript[T]) {
	byID := make(map[string]*transcript[T], len(all))
	for _, one := range all {
		byID[one.id.ID] = one
	}
	owner := func(one *transcript[T]) *transcript[T] {
		for _, id := range one.id.Owners {
			if id != one.id.ID && byID[id] != nil {
				return byID[id]
			}
		}
		return nil
	}
	helpers = make(map[*transcript[T]][]*transcript[T])
	for _, one := range all {
		top, steps := one, 0
		for up := owner(one); up != nil && steps < maxNested; steps++ {
			top, up = up, owner(up)
		}
		if top == one || steps == maxNested {
			roots = append(roots, one)
		} else {
			helpers[top] = append(helpers[top], one)
		}
	}
	return roots, helpers
}

// session makes the session of a transcript and its helpers. All of them are read
// if one of them changed, or was part of another session.
func (t Transcripts[T]) session(root *transcript[T], helpers []*transcript[T]) (s *Session, skips []error) {
	id := root.id.ID
	same := root.session == id
	grown := root.grown
	for _, h := range helpers {
		same, grown = same && h.session == id && h.grown == nil, nil
	}
	if same && grown != nil {
		if s = t.GoOn(root.file, *grown); s != nil {
			s.Units = root.units(s, id)
			s.From, s.Whole = &grown.Bookmark, func() (*Session, error) {
				s, skips := t.whole(root, nil)
				return s, errors.Join(skips...)
			}
			return s, nil
		}
	}
	if same && root.grown == nil {
		return &Session{Session: tidemark.Session{ForeignID: id}, Unchanged: true}, nil
	}
	return t.whole(root, helpers)
}

// whole makes the session of a transcript and its helpers, all of which are read.
func (t Transcripts[T]) whole(root *transcript[T], helpers []*transcript[T]) (s *Session, skips []error) {
	if err := t.look(root); err != nil {
		return nil, []error{err}
	}
	id := root.id.ID
	var units []Unit
	var read []T
	for _, h := range helpers {
		if err := t.look(h); err != nil {
			skips = append(skips, err)
			continue
		}
		read, units = append(read, h.is), append(units, h.unit(id))
	}
	s = t.Session(root.is, read)
	s.Units = append(root.units(s, id), units...)
	return s, skips
}

// units is what the transcript leaves in the ledger, with the Bookmark of a session
// that is made of it.
func (one *transcript[T]) units(s *Session, session string) []Unit {
	u := one.unit(session)
	if len(s.Units) > 0 {
		u.Bookmark = s.Units[0].Bookmark
	}
	return []Unit{u}
}

// unit is what the transcript leaves in the ledger, as a part of a session.
func (one *transcript[T]) unit(session string) Unit {
	kept := keptIdentity{ID: one.id.ID, Original: one.id.Original, Owners: one.id.Owners, Created: one.id.CreatedAt, Session: session}
	state, err := json.Marshal(kept)
	if err != nil { // of a year that JSON has no form for: it is read each time
		state = nil
	}
	return Unit{Name: one.file, State: state}
}
