package store

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// View reads a session, or a worker of one. It takes no lock, never writes, and
// stays valid while others write: each call sees what is there at that time. Its
// methods may be called concurrently.
//
// A damaged entry is yielded as its Seq with a *tidemark.Damage, and reading
// goes on past it.
type View struct {
	Info
	s        *Store
	worker   string
	unmasked bool        // ignore the marks: show entries as they were written
	draft    *draftLines // shown at the end of the log; nil: none

	showsDraft bool // Follow yields drafts
}

// View returns a View of a session, which may be in the trash: ErrNotFound.
func (s *Store) View(ctx context.Context, id tidemark.SessionID) (*View, error) {
	i, err := s.Session(ctx, id)
	if err != nil {
		return nil, err
	}
	return s.ViewOf(i)
}

// ViewOf returns a View of a session that was listed, read from its owner's part
// of the store.
func (s *Store) ViewOf(i Info) (*View, error) {
	of, err := s.of(i.Owner)
	if err != nil {
		return nil, err
	}
	return &View{Info: i, s: of}, nil
}

// Store returns the part of the store that the owner of the session has.
func (v *View) Store() *Store { return v.s }

// Worker returns a View of a worker of the session: ErrNotFound.
func (v *View) Worker(ctx context.Context, name string) (*View, error) {
	if err := CheckWorker(name); err != nil {
		return nil, err
	}
	r, err := v.s.backend.Get(ctx, keyOf(kindWorker, v.ID, name))
	if errors.Is(err, tidemark.ErrNotFound) {
		return nil, tidemark.NotFoundf("session %s: worker %q: not found", v.ID, name)
	}
	if err != nil {
		return nil, err
	}
	w := &View{Info: v.Info, s: v.s, worker: name}
	w.Base = nil
	w.Messages, w.Nodes, w.Entries, w.depth = r.Head.Position.Depth, r.Head.Position.Nodes, r.Head.Length, r.Head.Position.Depth
	return w, nil
}

// WorkerInfo is a worker as a listing shows it.
type WorkerInfo struct {
	Session   tidemark.SessionID `json:"session"`
	Name      string             `json:"name"`
	Entries   int64              `json:"entries"`
	Messages  int64              `json:"messages"`
	UpdatedAt time.Time          `json:"updated_at"`
	Owner     string             `json:"owner,omitempty"` // of the session, if that is somebody else
}

func workerOf(r tidemark.Record) WorkerInfo {
	id, name := sessionOf(r.Key)
	return WorkerInfo{Session: id, Name: name, Entries: r.Head.Length, Messages: r.Head.Position.Depth, UpdatedAt: r.Touched(), Owner: r.Owner}
}

// WorkerInfos lists the session's workers by name.
func (v *View) WorkerInfos(ctx context.Context) ([]WorkerInfo, error) {
	var all []WorkerInfo
	q := tidemark.Query{Kind: kindWorker, Prefix: string(v.ID) + ".", Order: tidemark.ByID}
	for r, err := range v.s.backend.List(ctx, q) {
		if err != nil {
			return all, err
		}
		all = append(all, workerOf(r))
	}
	return all, nil
}

// Workers lists the names of the session's workers.
func (v *View) Workers(ctx context.Context) ([]string, error) {
	all, err := v.WorkerInfos(ctx)
	names := make([]string, len(all))
	for i, w := range all {
		names[i] = w.Name
	}
	return names, err
}

// segment is the part of a session's entries that one log holds.
type segment struct {
	log    tidemark.Key
	offset int64 // an entry's seq is its line's plus this
	last   int64 // the last of the session's seqs in this log, 0: no end
	marks  marks // what its notes say about its entries
}

// trail returns the logs that hold the session's entries, oldest first. A fork
// reads its past from the logs of the sessions it came from.
func (v *View) trail(ctx context.Context) ([]segment, error) {
	if v.worker != "" {
		m, err := v.s.marksOf(ctx, v.Info, v.worker)
		return []segment{{log: keyOf(kindWorker, v.ID, v.worker), marks: m}}, err
	}
	segments, err := v.s.trail(ctx, v.Info)
	if errors.Is(err, tidemark.ErrNotFound) {
		// The session it was forked from was purged since v was made, so the
		// fork now has its own copy of the past.
		i, lookErr := v.s.Session(ctx, v.ID)
		if lookErr != nil {
			return nil, lookErr
		}
		return v.s.trail(ctx, i)
	}
	return segments, err
}

func (s *Store) trail(ctx context.Context, i Info) ([]segment, error) {
	var segments []segment
	var masked marks // of all sessions so far: a fork may mark entries that it shares
	id, base, last := i.ID, i.Base, int64(0)
	seen := map[tidemark.SessionID]bool{id: true}
	for {
		m, err := s.marksOf(ctx, i, "")
		if err != nil {
			return nil, err
		}
		masked = masked.with(m)
		own := segment{log: keyOf(kindSession, id), last: last, marks: masked}
		if base == nil {
			segments = append(segments, own)
			break
		}
		own.offset = base.Seq
		if last == 0 || last > base.Seq {
			segments = append(segments, own)
			last = base.Seq
		}
		if base.Owned {
			segments = append(segments, segment{log: keyOf(kindPast, id), last: last, marks: masked})
			break
		}
		if i, err = s.Session(ctx, base.Session); err != nil {
			return nil, fmt.Errorf("session %s: its past: %w", id, err)
		}
		if id, base = i.ID, i.Base; seen[id] {
			return nil, &tidemark.Damage{Key: keyOf(kindSession, id), What: "is its own past"}
		}
		seen[id] = true
	}
	slices.Reverse(segments)
	return segments, nil
}

// sharedUpTo returns the last seq that is not in the session's own log, 0 when
// the session is no fork.
func (v *View) sharedUpTo() int64 {
	if v.Base == nil {
		return 0
	}
	return v.Base.Seq
}

// segmentAt returns the segment that holds seq.
func segmentAt(segments []segment, seq int64) *segment {
	for i := range segments {
		if s := &segments[i]; s.last == 0 || seq <= s.last {
			return s
		}
	}
	return &segments[len(segments)-1]
}

// backwards yields the lines of one segment, newest first, starting at seq, or at
// the end when seq is 0; at most n of them unless n is 0. The Seq of each line is
// its entry's.
func (v *View) backwards(ctx context.Context, seg *segment, seq int64, n int) iter.Seq2[tidemark.Line, error] {
	span := tidemark.Span{Newest: n, Backwards: true}
	if seq > 0 {
		span.To = seq - seg.offset
	}
	return func(yield func(tidemark.Line, error) bool) {
		for l, err := range v.lines(ctx, seg.log, span) {
			l.Seq += seg.offset
			if !yield(l, err) {
				return
			}
		}
	}
}

// head returns the newest line of the session, of whatever kind. Seq is 0 when
// there is no line, and only Seq is set when the line is damaged: callers that
// read from there on get the damage as an error then.
func (v *View) head(ctx context.Context) (tidemark.Line, error) {
	segments, err := v.trail(ctx)
	if err != nil {
		return tidemark.Line{}, err
	}
	own := segments[len(segments)-1]
	for l, err := range v.lines(ctx, own.log, tidemark.Span{Newest: 1}) {
		l.Seq += own.offset
		if errors.Is(err, tidemark.ErrCorrupt) {
			return tidemark.Line{Seq: l.Seq}, nil
		}
		return l, err
	}
	if own.offset > 0 {
		return v.line(ctx, segments, own.offset)
	}
	return tidemark.Line{}, nil
}

// Head returns the seq that the next entry would follow, 0 when there is none.
// Where a branch marker is newest, it is the seq that the marker points at.
func (v *View) Head(ctx context.Context) (int64, error) {
	l, err := v.head(ctx)
	if err != nil || l.Kind != tidemark.KindBranch {
		return l.Seq, err
	}
	l, err = v.resolveMarker(ctx, l.Position.Parent)
	return l.Seq, err
}

// line returns the line of the entry seq, with that Seq.
func (v *View) line(ctx context.Context, segments []segment, seq int64) (tidemark.Line, error) {
	seg := segmentAt(segments, seq)
	n := seq - seg.offset
	for l, err := range v.lines(ctx, seg.log, tidemark.Span{From: n, To: n}) {
		l.Seq += seg.offset
		return l, err
	}
	return tidemark.Line{}, tidemark.NotFoundf("session %s: entry %d: not found", v.ID, seq)
}

// linesOf hands over the lines from one seq to another, from whichever logs hold them, until yield
// returns false or something other than a line's own damage is wrong.
func (v *View) linesOf(ctx context.Context, segments []segment, from, to int64, yield func(*segment, *tidemark.Line, error) bool) {
	for from <= to {
		seg := segmentAt(segments, from)
		last := to
		if seg.last != 0 {
			last = min(to, seg.last)
		}
		for l, err := range v.lines(ctx, seg.log, tidemark.Span{From: from - seg.offset, To: last - seg.offset}) {
			l.Seq += seg.offset
			if !yield(seg, &l, err) || err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
				return
			}
		}
		from = last + 1
	}
}

// entries yields the entries from one seq to another, from whichever logs hold
// them.
func (v *View) entries(ctx context.Context, segments []segment, from, to int64) iter.Seq2[tidemark.Entry, error] {
	return func(yield func(tidemark.Entry, error) bool) {
		var d tidemark.Decoder
		v.linesOf(ctx, segments, from, to, func(seg *segment, l *tidemark.Line, err error) bool {
			var e tidemark.Entry
			err = v.entryOf(&d, seg, l, err, &e)
			return yield(e, err) && (err == nil || errors.Is(err, tidemark.ErrCorrupt))
		})
	}
}

// entryOf decodes a line into e and masks what is marked in it. A line that cannot be
// decoded is a *tidemark.Damage with its place.
func (v *View) entryOf(d *tidemark.Decoder, seg *segment, l *tidemark.Line, err error, e *tidemark.Entry) error {
	if err != nil {
		*e = tidemark.Entry{Seq: l.Seq}
		return err
	}
	if err := d.Decode(l, e); err != nil {
		return &tidemark.Damage{Key: seg.log, Seq: l.Seq, What: err.Error()}
	}
	if v.draft != nil && seg.log == v.log() && l.Seq-seg.offset > v.draft.after {
		e.Draft = true
		return nil // notes are about entries that are kept
	}
	if len(seg.marks.costs) > 0 {
		*e = seg.marks.charge(*e)
	}
	if !v.unmasked && (seg.marks.lost || len(seg.marks.bySeq) > 0) {
		*e = seg.marks.apply(v.s, *e)
	}
	return nil
}

// structural reports whether an entry only shapes the tree and has no content.
func structural(e tidemark.Entry) bool {
	return e.Kind == tidemark.KindBranch || e.Kind == tidemark.KindGap
}

type tailEntry struct {
	e   tidemark.Entry
	err error
}

// tails are rooms for the entries of a tail, of at most mostTail entries.
var tails = sync.Pool{New: func() any { return new([]tailEntry) }}

const mostTail = 256

// Tail yields the newest n entries on the path to seq, oldest first; seq 0
// means the head. It costs the same however long the session is.
func (v *View) Tail(ctx context.Context, seq int64, n int) iter.Seq2[tidemark.Entry, error] {
	return func(yield func(tidemark.Entry, error) bool) {
		if n <= 0 {
			return
		}
		segments, err := v.trail(ctx)
		if err != nil {
			yield(tidemark.Entry{}, err)
			return
		}
		room := tails.Get().(*[]tailEntry)
		tail := (*room)[:0]
		defer func() {
			clear(tail) // who keeps an entry keeps it alone
			if *room = tail; cap(tail) <= mostTail {
				tails.Put(room)
			}
		}()
		var d tidemark.Decoder
		d.Expect(n)
		for l, err := range v.walk(ctx, segments, seq, n) {
			tail = append(tail, tailEntry{})
			f := &tail[len(tail)-1]
			f.err = v.entryOf(&d, segmentAt(segments, l.Seq), &l, err, &f.e)
			if f.err == nil && structural(f.e) {
				*f, tail = tailEntry{}, tail[:len(tail)-1]
			}
			if len(tail) == n {
				break // here, so that walk does not read another line
			}
		}
		for i := len(tail) - 1; i >= 0; i-- {
			if !yield(tail[i].e, tail[i].err) {
				return
			}
		}
	}
}

// Before yields the n entries on the path before seq, oldest first.
func (v *View) Before(ctx context.Context, seq int64, n int) iter.Seq2[tidemark.Entry, error] {
	return func(yield func(tidemark.Entry, error) bool) {
		segments, err := v.trail(ctx)
		if err != nil {
			yield(tidemark.Entry{}, err)
			return
		}
		l, err := v.line(ctx, segments, seq)
		if err != nil {
			yield(tidemark.Entry{}, err)
			return
		}
		if l.Position.Parent == 0 {
			return
		}
		v.Tail(ctx, l.Position.Parent, n)(yield)
	}
}

// Log yields everything in the session, all branches and markers, in the order
// in which it was written. Of the past that a fork shares, only the path to the
// fork is yielded.
func (v *View) Log(ctx context.Context) iter.Seq2[tidemark.Entry, error] { return v.LogAfter(ctx, 0) }

// LogAfter is Log without the entries up to seq, which it does not read.
func (v *View) LogAfter(ctx context.Context, seq int64) iter.Seq2[tidemark.Entry, error] {
	return func(yield func(tidemark.Entry, error) bool) {
		segments, err := v.trail(ctx)
		if err != nil {
			yield(tidemark.Entry{}, err)
			return
		}
		shared := v.sharedUpTo()
		if shared > seq && !v.pathRange(ctx, segments, shared, seq+1, 0, yield) {
			return
		}
		v.entries(ctx, segments, max(shared, seq)+1, 1<<62)(yield)
	}
}

// log is the log that new entries are appended to.
func (v *View) log() tidemark.Key { return LogKey(v.ID, v.worker) }

// LogKey is the key of the log of a session or, with a name, of a worker of it.
func LogKey(id tidemark.SessionID, worker string) tidemark.Key {
	if worker != "" {
		return keyOf(kindWorker, id, worker)
	}
	return keyOf(kindSession, id)
}

// has returns ErrNotFound when the session has no entry seq. Its own entries
// are numbered without gaps, so a comparison is enough; an entry of the shared
// past has to be on the path that the fork shares.
func (v *View) has(ctx context.Context, seq int64) error {
	switch {
	case seq < 1:
		return tidemark.NotFoundf("session %s: entries are counted from 1", v.ID)
	case seq > v.Entries:
		return tidemark.NotFoundf("session %s: entry %d: not found, the newest is %d", v.ID, seq, v.Entries)
	case seq <= v.sharedUpTo():
		_, err := v.onPath(ctx, seq)
		return err
	}
	return nil
}

// onPath returns the line of an entry in the shared past of a fork:
// ErrInvalid when it is there but not on the path that the fork shares.
func (v *View) onPath(ctx context.Context, seq int64) (tidemark.Line, error) {
	segments, err := v.trail(ctx)
	if err != nil {
		return tidemark.Line{}, err
	}
	target, err := v.line(ctx, segments, seq)
	if err != nil {
		return target, err
	}
	for at := v.sharedUpTo(); at >= seq; {
		l, err := v.line(ctx, segments, at)
		if err != nil {
			return target, err
		}
		if l.Seq == seq {
			return target, nil
		}
		if l.Position.Turn < seq {
			// seq is in the node that ends at l, or it is not on the path.
			for l, err := range v.walk(ctx, segments, at, 64) {
				if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
					return target, err
				}
				if l.Seq <= seq {
					if l.Seq == seq {
						return target, nil
					}
					break
				}
			}
			break
		}
		at = l.Position.Turn
	}
	return target, tidemark.Invalidf("session %s: entry %d is on a branch that this fork does not share", v.ID, seq)
}
