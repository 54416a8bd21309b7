package store

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/expression"
	"github.com/tidemark-sessions/tidemark/internal/records"
	"github.com/tidemark-sessions/tidemark/internal/text"
)

// Fork creates a session that shares the past of another one up to seq, by
// reference: nothing is copied, so it costs the same for a session of any length
// and a fork of any depth. A seq of 0 means the head. It needs no lease, and the
// source may be open elsewhere, in the trash, or a fork itself.
func (s *Store) Fork(ctx context.Context, id tidemark.SessionID, seq int64, title string) (Info, error) {
	return s.ForkAs(ctx, id, seq, tidemark.Session{Title: title})
}

// ForkAs is Fork with more fields than the title. The agent, model, mode and
// project of the source are used where as has none; a missing title is that of
// the source with a mark, see MarkFork. ErrConflict: there is a session with the
// id that as has.
func (s *Store) ForkAs(ctx context.Context, id tidemark.SessionID, seq int64, as tidemark.Session) (Info, error) {
	var forked Info
	err := records.Retry(ctx, func() error {
		v, err := s.View(ctx, id)
		if err != nil {
			return err
		}
		point, err := v.forkPoint(ctx, seq)
		if err != nil {
			return err
		}
		sess := as
		sess.Draft, sess.Gone = nil, time.Time{}
		if sess.ID == "" {
			sess.ID = tidemark.NewSessionID()
		}
		sess.Base = &tidemark.Base{Session: v.ownerOf(point.Seq), Seq: point.Seq}
		title, err := s.vault.RedactText(ctx, string(sess.ID), sess.Title)
		if err != nil {
			return err
		}
		sess.Title = forkTitle(title, v.Session)
		sess.Agent, sess.Model = cmp.Or(sess.Agent, v.Agent), cmp.Or(sess.Model, v.Model)
		sess.Mode, sess.Project = cmp.Or(sess.Mode, v.Mode), cmp.Or(sess.Project, v.Project)
		if sess.CreatedAt = records.Keepable(sess.CreatedAt); as.CreatedAt.IsZero() {
			sess.CreatedAt = s.k.Now()
		}
		source := v.Info
		if sess.Base.Session != source.ID {
			if source, err = s.Session(ctx, sess.Base.Session); err != nil {
				return err
			}
		}
		b, err := s.forkBatch(sess, source, point)
		if err != nil {
			return err
		}
		if as.ID != "" { // a ForkApart that was interrupted
			if has, err := s.k.Has(ctx, keyOf(kindPast, as.ID)); err != nil {
				return err
			} else if has {
				b.Drops = append(b.Drops, keyOf(kindPast, as.ID))
			}
		}
		if _, err := s.k.Commit(ctx, b); err != nil {
			return err
		}
		forked = forkedInfo(sess, b.At, point)
		return nil
	})
	return forked, err
}

var forkMark = expression.WhenNeeded(`^(.*) \(fork(?: ([0-9]{1,6}))?\)$`)

// forkTitle is the title of a fork: the given one, unless that is empty or the
// source's. Then it is the source's with a mark, so that the two can be told
// apart.
func forkTitle(title string, source tidemark.Session) string {
	switch {
	case title != "" && fold(title) != fold(source.Title):
		return title
	case fold(source.Title) == "":
		return fmt.Sprintf("fork of %.8s", source.ID)
	}
	return MarkFork(source.Title)
}

// MarkFork marks a title as that of a fork: "talk (fork)", "talk (fork 2)".
func MarkFork(title string) string {
	n := 1
	if m := forkMark().FindStringSubmatch(title); m != nil {
		n, _ = strconv.Atoi(cmp.Or(m[2], "1"))
		title, n = m[1], n+1
	}
	mark := " (fork)"
	if n > 1 {
		mark = fmt.Sprintf(" (fork %d)", n)
	}
	return strings.TrimSpace(text.Clip(title, records.MaxTextBytes-len(mark))) + mark
}

// forkPoint returns the line to fork from: that of seq, or the head when seq is
// 0. It is never a branch marker.
func (v *View) forkPoint(ctx context.Context, seq int64) (tidemark.Line, error) {
	if seq == 0 {
		var err error
		if seq, err = v.finalHead(ctx); err != nil {
			return tidemark.Line{}, err
		}
	}
	l, err := v.resolveMarker(ctx, seq)
	if err == nil && l.Seq == 0 {
		err = tidemark.Invalidf("session %s: has no entry to fork from", v.ID)
	}
	return l, err
}

// resolveMarker returns the line at seq, or, if that is a branch marker, the line
// that the marker points at. Seq is 0 when that is before the first entry.
func (v *View) resolveMarker(ctx context.Context, seq int64) (tidemark.Line, error) {
	segments, err := v.trail(ctx)
	if err != nil {
		return tidemark.Line{}, err
	}
	for seq > 0 {
		var l tidemark.Line
		if seq <= v.sharedUpTo() {
			l, err = v.onPath(ctx, seq)
		} else {
			l, err = v.line(ctx, segments, seq)
		}
		if err != nil || l.Kind != tidemark.KindBranch {
			return l, err
		}
		seq = l.Position.Parent
	}
	return tidemark.Line{}, nil
}

// ownerOf returns the session whose past holds seq, so that a fork of a fork
// refers to the session that it needs and not to the ones between.
func (v *View) ownerOf(seq int64) tidemark.SessionID {
	if v.Base != nil && !v.Base.Owned && seq <= v.Base.Seq {
		return v.Base.Session
	}
	return v.ID
}

// forkBatch returns the batch that creates a fork. Its log begins with a branch
// marker that holds the number of messages before it, so that a listing need not
// read the source.
func (s *Store) forkBatch(sess tidemark.Session, source Info, point tidemark.Line) (tidemark.Batch, error) {
	b := tidemark.Batch{At: s.k.Now()}
	if source.State == purging {
		return b, tidemark.NotFoundf("session %s is being destroyed", source.ID)
	}
	// A purge of the source first changes its record, and then this batch
	// conflicts.
	b.Require = append(b.Require, tidemark.Precondition{Key: keyOf(kindSession, source.ID), Version: source.version})
	f, err := records.Put(keyOf(kindFork, source.ID, string(sess.ID)), 0, struct{}{})
	if err != nil {
		return b, err
	}
	b.Puts = append(b.Puts, f)
	return b, s.beginFork(&b, sess, point)
}

// beginFork adds what makes a fork exist to a batch.
func (s *Store) beginFork(b *tidemark.Batch, sess tidemark.Session, point tidemark.Line) error {
	r, err := s.record(sess, Live, 0)
	if err != nil {
		return err
	}
	if err := s.addNames(b, sess); err != nil {
		return err
	}
	b.Puts = append(b.Puts, r) // last: once it is written, the session exists
	mark := tidemark.Entry{Kind: tidemark.KindBranch, At: b.At}
	mark.Seq = 1
	mark.Position = placeAfter(&mark, &point, &point)
	l, err := mark.Line()
	if err != nil {
		return err
	}
	log := keyOf(kindSession, sess.ID)
	l.Sum = l.Checksum(log)
	b.Appends = []tidemark.Append{{Log: log, Lines: []tidemark.Line{l}}}
	return nil
}

// ForkApart is ForkAs for a source that is not here: past is the path in it that the
// fork begins after, which becomes the fork's own. The session needs an id; one that
// was interrupted goes on when it is called again. ErrConflict: there is such a
// session.
func (s *Store) ForkApart(ctx context.Context, source tidemark.SessionID, past iter.Seq2[tidemark.Entry, error], sess tidemark.Session) (Info, error) {
	log := keyOf(kindPast, sess.ID)
	have, err := s.k.Get(ctx, log, nil)
	if err != nil {
		return Info{}, err
	}
	var point tidemark.Line
	c := &pastCopy{s: s, log: log, next: have.Head.Length + 1}
	for e, err := range past {
		if err != nil {
			return Info{}, err
		}
		e, secrets := s.vault.RedactEntry(string(sess.ID), e)
		if err := s.vault.Keep(ctx, string(sess.ID), secrets); err != nil {
			return Info{}, err
		}
		e.Position = placeAfter(&e, &point, &point)
		e.Seq = point.Seq + 1
		l, err := e.Line()
		if err != nil {
			return Info{}, err
		}
		if point = l; l.Seq < c.next {
			continue
		}
		if err := c.line(ctx, l); err != nil {
			return Info{}, err
		}
	}
	if point.Seq == 0 {
		return Info{}, tidemark.Invalidf("session %s: a fork of nothing", sess.ID)
	}
	if err := c.flush(ctx); err != nil {
		return Info{}, err
	}
	if sess.Title, err = s.vault.RedactText(ctx, string(sess.ID), sess.Title); err != nil {
		return Info{}, err
	}
	sess.Draft, sess.Gone, sess.CreatedAt = nil, time.Time{}, records.Keepable(sess.CreatedAt)
	sess.Base = &tidemark.Base{Session: source, Seq: point.Seq, Owned: true}
	b := tidemark.Batch{At: s.k.Now()}
	if err := s.beginFork(&b, sess, point); err != nil {
		return Info{}, err
	}
	_, err = s.k.Commit(ctx, b)
	return forkedInfo(sess, b.At, point), err
}

// forkedInfo returns what a fork is when it begins.
func forkedInfo(sess tidemark.Session, at time.Time, point tidemark.Line) Info {
	return Info{Session: sess, State: Live, UpdatedAt: at, version: 1,
		Messages: point.Position.Depth, Nodes: point.Position.Nodes, Entries: point.Seq + 1, depth: point.Position.Depth}
}

// Forks lists the sessions that share the past of this one, by id; limit
// bounds how many, 0 does not.
func (v *View) Forks(ctx context.Context, limit int) ([]tidemark.SessionID, error) {
	var ids []tidemark.SessionID
	q := tidemark.Query{Kind: kindFork, Prefix: string(v.ID) + ".", Order: tidemark.ByID, Limit: limit}
	for r, err := range v.s.backend.List(ctx, q) {
		if err != nil {
			return ids, err
		}
		ids = append(ids, tidemark.SessionID(r.ID[len(v.ID)+1:]))
	}
	return ids, nil
}
