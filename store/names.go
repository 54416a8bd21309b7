package store

import (
	"context"
	"iter"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// The classes of names that lead to a session or to a point in one.
const (
	classTitle   = "title"
	classForeign = "foreign"
	classLabel   = "label"
)

// name leads from a text that people know to what it means. It is a record of
// its own, found by the hash of its text, so that looking up a title costs the
// same among ten sessions and a million.
type name struct {
	Class   string             `json:"class"`
	Text    string             `json:"text"`
	Session tidemark.SessionID `json:"session"`
	Seq     int64              `json:"seq,omitempty"` // a label's entry

	version int64
	given   time.Time // when the record was put
}

// nameGroup is what all names of one text in one class have in common.
func (s *Store) nameGroup(class, text string) string { return s.hash(class, fold(text)) }

// fold makes names match whatever their case.
func fold(s string) string { return strings.ToLower(strings.TrimSpace(s)) }

func (s *Store) nameKey(n name) tidemark.Key {
	return keyOf(kindName, n.Session, s.nameGroup(n.Class, n.Text))
}

// nameRecord returns the record that keeps n, to replace the one at n.version.
func (s *Store) nameRecord(n name) (tidemark.Record, error) {
	r, err := put(s.nameKey(n), n.version, n)
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
				n.version, n.given = r.Version, r.UpdatedAt
				err = decode(r, &n)
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
