package store

import (
	"context"
	"errors"
	"iter"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
)

// The classes of names that lead to a session or to a point in one.
const (
	classTitle   = "title"
	classForeign = "foreign"
	classBegin   = "foreign_begin" // of a foreign id
	classLabel   = "label"
)

// beginnings are the lengths of the beginnings of a foreign id that have a
// record of their own: a shorter one is no reference, and a longer one is looked
// for among those that begin alike. In a sealed store names are hashes, so that
// no other way leads from a part of one to the whole.
var beginnings = []int{4, 8, 16}

// maxAlike bounds how many foreign ids that begin alike are looked through.
const maxAlike = 10_000

// beginOf returns the first n characters of a text as names are compared, ""
// for one that is not longer.
func beginOf(text string, n int) string {
	runes := []rune(fold(text))
	if len(runes) <= n {
		return ""
	}
	return string(runes[:n])
}

// name leads from a text that people know to what it means. It is a record of
// its own, found by the hash of its text, so that looking up a title costs the
// same among ten sessions and a million.
type name struct {
	Class   string             `json:"class"`
	Text    string             `json:"text"`
	Session tidemark.SessionID `json:"session"`
	Seq     int64              `json:"seq,omitempty"`   // a label's entry
	Whole   string             `json:"whole,omitempty"` // what Text is the beginning of

	version int64
	given   time.Time // when the record was put
	owner   string    // whose the record is, "": this principal's
}

// nameGroup is what all names of one text in one class have in common.
func (s *Store) nameGroup(class, text string) string { return s.k.Hash(class, fold(text)) }

// fold makes names match whatever their case.
func fold(s string) string { return strings.ToLower(strings.TrimSpace(s)) }

func (s *Store) nameKey(n name) tidemark.Key {
	return keyOf(kindName, n.Session, s.nameGroup(n.Class, n.Text))
}

// nameRecord returns the record that keeps n, to replace the one at n.version.
func (s *Store) nameRecord(n name) (tidemark.Record, error) {
	r, err := records.Put(s.nameKey(n), n.version, n)
	r.Group = s.nameGroup(n.Class, n.Text)
	return r, err
}

// names lists the names that q asks for.
func (s *Store) names(ctx context.Context, q tidemark.Query) iter.Seq2[name, error] {
	q.Kind = kindName
	q.Order = tidemark.ByID
	return func(yield func(name, error) bool) {
		for r, err := range s.backend.List(ctx, q) {
			var n name
			if err == nil {
				n.version, n.given, n.owner = r.Version, r.UpdatedAt, r.Owner
				err = records.Decode(r, &n)
			}
			if !yield(n, err) {
				return
			}
		}
	}
}

// namesOf lists the names of one session.
func (s *Store) namesOf(ctx context.Context, id tidemark.SessionID) iter.Seq2[name, error] {
	return s.names(ctx, tidemark.Query{Prefix: string(id) + "."})
}

// addName puts a name into a batch unless it is empty.
func (s *Store) addName(b *tidemark.Batch, n name) error {
	if fold(n.Text) == "" {
		return nil
	}
	r, err := s.nameRecord(n)
	if err == nil {
		b.Puts = append(b.Puts, r)
	}
	return err
}

// addForeign puts the names that lead to a session by its foreign id into a
// batch.
func (s *Store) addForeign(b *tidemark.Batch, sess tidemark.Session) error {
	if err := s.addName(b, name{Class: classForeign, Text: sess.ForeignID, Session: sess.ID}); err != nil {
		return err
	}
	return s.addBeginnings(b, sess)
}

func (s *Store) addBeginnings(b *tidemark.Batch, sess tidemark.Session) error {
	for _, n := range beginnings {
		begin := name{Class: classBegin, Text: beginOf(sess.ForeignID, n), Session: sess.ID, Whole: sess.ForeignID}
		if err := s.addName(b, begin); err != nil {
			return err
		}
	}
	return nil
}

// foreignBegin adds the sessions whose foreign id begins with ref to found. It
// costs one listing of the ids that begin alike in the longest of beginnings that
// ref has: of a handful, unless a tool begins all its ids with the same word.
func (s *Store) foreignBegin(ctx context.Context, ref string, found map[string]Info) error {
	begin := ""
	for runes, i := []rune(fold(ref)), 0; i < len(beginnings) && beginnings[i] <= len(runes); i++ {
		begin = string(runes[:beginnings[i]])
	}
	if begin == "" {
		return nil
	}
	alike := 0
	for n, err := range s.names(ctx, tidemark.Query{Group: s.nameGroup(classBegin, begin)}) {
		if err != nil {
			return err
		}
		if alike++; alike > maxAlike {
			return tidemark.Invalidf("%q is how too many ids of other tools begin; type more of it", ref)
		}
		if !strings.HasPrefix(fold(n.Whole), fold(ref)) {
			continue
		}
		if err := s.addNamed(ctx, n, found); err != nil {
			return err
		}
		if len(found) > maxCandidates {
			return nil
		}
	}
	return nil
}

// addNamed adds the session that a name leads to, where it is still there.
func (s *Store) addNamed(ctx context.Context, n name, found map[string]Info) error {
	i, err := s.named(ctx, n)
	if errors.Is(err, tidemark.ErrNotFound) {
		return nil
	}
	if err == nil {
		found[i.Name()] = i
	}
	return err
}

// named returns the session that a name leads to: one of whoever gave the name.
func (s *Store) named(ctx context.Context, n name) (Info, error) {
	return s.sessionOf(ctx, n.owner, n.Session)
}
