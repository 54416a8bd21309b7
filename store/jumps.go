package store

import (
	"context"
	"errors"
	"slices"
	"sort"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
)

// A path leads back from entry to entry, so to know where it begins, or how many turns it has, all
// of it would have to be read. Nearly always an entry follows the one before it in the log, and where
// one does not, the path jumps. A record beside each log keeps its jumps, up to some entry: with them a
// path of a million entries is a few runs.
//
// The record is derived. It is made by whoever writes the session, after what it is about was
// committed; what is not in it yet is read. Where it is missing, or was made for another log, a
// path is walked entry by entry.

// jumps is the record.
type jumps struct {
	UpTo int64  `json:"up_to"` // the entry up to which all jumps are known
	Sum  uint32 `json:"sum"`   // of the line of that entry: a log that was cut off and grew again has another one
	All  []jump `json:"jumps,omitempty"`
	Many bool   `json:"many,omitempty"` // more than mostJumps, and none of them is kept
}

// jump is an entry that does not follow the one before it.
type jump struct {
	At     int64 `json:"at"`
	Parent int64 `json:"parent,omitempty"` // what it follows, 0: it is a root
	Nodes  int64 `json:"nodes"`            // its own count of nodes
	Before int64 `json:"before,omitempty"` // that of what it follows
	Mark   bool  `json:"mark,omitempty"`   // a marker or a gap, which are in no node
}

const (
	// mostJumps bounds the record, to some 100 KB. In a session that jumps more often,
	// paths are walked.
	mostJumps = 1000
	// mostUnknown is how many entries behind the record are read to find their jumps. A walk
	// reads as many in one step.
	mostUnknown = 4096
	// jumpsEach is how many new entries are worth a new record.
	jumpsEach = 256
	// jumpsOften is how many entries a Writer appends before it looks whether that is so; it
	// looks again when it is closed.
	jumpsOften = 4 * jumpsEach
	// mostCaughtUp is how many entries a writer reads at a time to catch up with a log that grew
	// without it: some tens of milliseconds.
	mostCaughtUp = 1 << 14
)

// jumpsKey names the jumps of a log.
func jumpsKey(log tidemark.Key) tidemark.Key {
	return tidemark.Key{Kind: tidemark.KindJumps, ID: log.ID}
}

// jumpOf returns the jump that an entry makes; ok is false for one that makes none.
func jumpOf(l, parent *tidemark.Line) (j jump, ok bool) {
	if l.Position.Parent == l.Seq-1 {
		return j, false
	}
	return jump{At: l.Seq, Parent: l.Position.Parent, Nodes: l.Position.Nodes, Before: parent.Position.Nodes,
		Mark: l.Kind == tidemark.KindBranch || l.Kind == tidemark.KindGap}, true
}

// add adds a jump behind all others.
func (known *jumps) add(j jump) {
	if known.All = append(known.All, j); len(known.All) > mostJumps {
		known.All, known.Many = nil, true
	}
}

// readJumps reads a record, which is empty where there is none that can be used.
func (s *Store) readJumps(ctx context.Context, log tidemark.Key) (known jumps, version int64, err error) {
	r, err := s.k.Get(ctx, jumpsKey(log), &known)
	if errors.Is(err, tidemark.ErrCorrupt) {
		return jumps{}, r.Version, nil
	}
	return known, r.Version, err
}

// jumpsUpTo completes what is known of the jumps of a segment's log with those up to seq. ok is false
// when they cannot be told: the record is of another log, something is damaged, or there are too many.
func (v *View) jumpsUpTo(ctx context.Context, segments []segment, seg *segment, known jumps, seq int64) (_ jumps, ok bool, err error) {
	if known.UpTo <= seg.offset {
		known = jumps{UpTo: seg.offset}
	}
	from := max(known.UpTo, seg.offset+1) // the last entry that is known is looked at as well
	for l, err := range v.lines(ctx, seg.log, tidemark.Span{From: from - seg.offset, To: max(seq, from) - seg.offset}) {
		if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
			return known, false, err
		}
		if l.Seq += seg.offset; err != nil || l.Seq != from {
			return known, false, nil
		}
		if from++; l.Seq == known.UpTo {
			if l.Sum != known.Sum {
				return known, false, nil
			}
			continue
		}
		parent := tidemark.Line{}
		if p := l.Position.Parent; p > 0 && p != l.Seq-1 {
			if parent, err = v.line(ctx, segments, p); errors.Is(err, tidemark.ErrCorrupt) || errors.Is(err, tidemark.ErrNotFound) {
				return known, false, nil
			} else if err != nil {
				return known, false, err
			}
		}
		if j, does := jumpOf(&l, &parent); does {
			known.add(j)
		}
		known.UpTo, known.Sum = l.Seq, l.Sum
	}
	return known, from > max(known.UpTo, seq) && !known.Many, nil
}

// pathRun is a run of entries of a path, with the nodes that begin or go on in it.
type pathRun struct {
	seqRun
	first int64 // the count of nodes at its first node
	last  int64 // that at its end: less than first when there is no node in it
}

// nodes is how many nodes are in the run.
func (r *pathRun) nodes() int64 { return max(r.last-r.first+1, 0) }

// jumped returns the path to the line end as runs, oldest first, by the jumps of the logs. ok is false
// when they are not known: then it has to be walked.
func (v *View) jumped(ctx context.Context, segments []segment, end *tidemark.Line) (runs []pathRun, ok bool, err error) {
	last := end.Position.Nodes // at the end of the run
	var seg *segment
	var known jumps
	for seq := end.Seq; seq > 0; {
		if at := segmentAt(segments, seq); at != seg {
			if seg = at; seg.log.Kind == kindPast {
				known = jumps{}
			} else if known, _, err = v.s.readJumps(ctx, seg.log); err != nil {
				return nil, false, err
			}
			if known.Many || seq-max(known.UpTo, seg.offset) > mostUnknown {
				return nil, false, nil
			}
			if known, ok, err = v.jumpsUpTo(ctx, segments, seg, known, seq); err != nil || !ok {
				return nil, false, err
			}
		}
		r := pathRun{seqRun: seqRun{seg.offset + 1, seq}, first: 1, last: last}
		next, before := seg.offset, last
		if i := sort.Search(len(known.All), func(i int) bool { return known.All[i].At > seq }); i > 0 {
			j := known.All[i-1]
			next, before = j.Parent, j.Before
			if r.from, r.first = j.At, j.Nodes; j.Mark {
				r.first++
			}
		}
		if next >= r.from {
			return nil, false, nil // no entry follows a later one
		}
		if n := len(runs); n > 0 && runs[n-1].from == r.to+1 {
			r.to, r.last = runs[n-1].to, runs[n-1].last // it went on in another log
			runs = runs[:n-1]
		}
		runs, seq, last = append(runs, r), next, before
	}
	slices.Reverse(runs)
	return runs, true, nil
}

// noteJumps keeps the jumps of a log that this Writer may append to, once it is worth it, and returns up to
// which entry they are kept now, 0 when nothing was. They can be found again, so an error is none of the
// caller's: what was appended is kept.
func (w *Writer) noteJumps(ctx context.Context, t *tail) int64 {
	if t.newest.Position.Depth == t.newest.Seq {
		return 0 // each entry is a message that follows the one before
	}
	t.noted = t.newest.Seq
	known, version, err := w.s.readJumps(ctx, t.log)
	if err != nil || known.Many || t.newest.Seq-max(known.UpTo, t.offset) < jumpsEach {
		return 0
	}
	if known, err = w.jumpsOf(ctx, t, known); err != nil {
		return 0
	}
	r, err := records.Put(jumpsKey(t.log), version, known)
	if err != nil {
		return 0
	}
	b := tidemark.Batch{At: w.s.k.Now(), Puts: []tidemark.Record{r}}
	if err = w.held.Guard(&b, false); err == nil {
		_, err = w.s.k.Commit(ctx, b)
	}
	if err != nil {
		return 0
	}
	return known.UpTo
}

// NoteJumps notes the jumps of long sessions that grew without it, as those did that programs before this one
// wrote. Sessions that somebody has open are left alone. progress, unless nil, is called with each that is done.
func (s *Store) NoteJumps(ctx context.Context, who tidemark.Holder, progress func(Info)) error {
	for i, err := range s.Sessions(ctx, Filter{}) {
		if errors.Is(err, tidemark.ErrCorrupt) || err == nil && (i.Owner != "" || i.depth == i.Entries || i.Entries < mostUnknown) {
			continue
		}
		if err != nil {
			return err
		}
		known, _, err := s.readJumps(ctx, keyOf(kindSession, i.ID))
		if err != nil {
			return err
		}
		if known.Many || i.Entries-known.UpTo < mostUnknown {
			continue
		}
		w, err := s.AttachSource(ctx, i.ID, who)
		if errors.Is(err, tidemark.ErrHeld) || errors.Is(err, tidemark.ErrNotFound) || errors.Is(err, tidemark.ErrDenied) || errors.Is(err, tidemark.ErrCorrupt) {
			continue
		}
		if err != nil {
			return err
		}
		w.held.Lock()
		for upTo := known.UpTo; ; {
			was := upTo
			if upTo = w.noteJumps(ctx, w.main); upTo <= was {
				break
			}
		}
		w.held.Unlock()
		if err := w.Close(ctx); err != nil {
			return err
		}
		if progress != nil {
			progress(i)
		}
	}
	return nil
}

// finishJumps notes the jumps of what was appended, before the lease is given back.
func (w *Writer) finishJumps(ctx context.Context) {
	w.held.Lock()
	defer w.held.Unlock()
	if !w.held.IsTaken() || w.held.Ended() {
		return
	}
	for _, t := range w.workers {
		if t.newest.Seq > t.noted {
			w.noteJumps(ctx, t)
		}
	}
	if w.main.newest.Seq > w.main.noted {
		w.noteJumps(ctx, w.main)
	}
}

// jumpsOf completes what is known of the jumps of a log: what the Writer did not append itself
// is read, at most mostCaughtUp entries of it.
func (w *Writer) jumpsOf(ctx context.Context, t *tail, known jumps) (jumps, error) {
	v, err := w.s.View(ctx, w.id)
	if err == nil && t != w.main {
		_, name := sessionOf(t.log)
		v, err = v.Worker(ctx, name)
	}
	if err != nil {
		return known, err
	}
	segments, err := v.trail(ctx)
	if err != nil {
		return known, err
	}
	seg := &segments[len(segments)-1]
	upTo := min(t.appended-1, max(known.UpTo, t.offset)+mostCaughtUp)
	more, ok, err := v.jumpsUpTo(ctx, segments, seg, known, max(upTo, known.UpTo))
	if err == nil && !ok && !more.Many { // of another log
		more, ok, err = v.jumpsUpTo(ctx, segments, seg, jumps{}, min(t.appended-1, t.offset+mostCaughtUp))
	}
	if err != nil || !ok && !more.Many {
		return more, errors.Join(err, tidemark.NotFoundf("session %s: its jumps cannot be told", w.id))
	}
	if more.UpTo < t.appended-1 || more.Many {
		return more, nil
	}
	for _, j := range t.jumps {
		if j.At > more.UpTo {
			more.add(j)
		}
	}
	more.UpTo, more.Sum = t.newest.Seq, t.newest.Sum
	return more, nil
}
