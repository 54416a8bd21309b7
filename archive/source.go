package archive

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// source tells everything that a Backend keeps as a run of items, in an order
// that suits whoever brings it somewhere else while the Backend goes on being
// written to:
//
// First it is settled which keys there are; what is made later is left out.
// The keyring is told first. Then the logs, each up to its head at that
// moment. Then the records, each with what its log got meanwhile before it, so
// that a record never tells of lines that are not there, and things become
// visible when what belongs to them is. Then once more what logs got
// meanwhile: a record may also tell of the lines of another log, and every log
// is now at least as new as every record. Last, what was told and is gone, and
// what the archive before had and is gone.
type source struct {
	ctx     context.Context
	from    tidemark.Backend
	skip    func(tidemark.Key) bool
	since   []Kept
	damaged func(error) // nil: damage ends it
	emit    func(*item) error

	keys []Kept          // what was told, by kind and id
	said map[string]bool // damage that was told of
}

func newSource(ctx context.Context, from tidemark.Backend) *source {
	return &source{ctx: ctx, from: from, said: make(map[string]bool)}
}

func compareKeys(a, b tidemark.Key) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID))
}

// find returns the entry of a key in a sorted list, and nil when there is none.
func find(keys []Kept, k tidemark.Key) *Kept {
	i, ok := slices.BinarySearchFunc(keys, k, func(e Kept, k tidemark.Key) int { return compareKeys(e.Key, k) })
	if !ok {
		return nil
	}
	return &keys[i]
}

// base returns what the archive before knows of a key.
func (s *source) base(k tidemark.Key) Kept {
	if b := find(s.since, k); b != nil {
		return *b
	}
	return Kept{Key: k}
}

func (s *source) all() error {
	for _, pass := range []func() error{s.names, s.keyring, s.logs, s.records, s.rest, s.vanished, s.gone} {
		if err := pass(); err != nil {
			return err
		}
	}
	return nil
}

// sealed reports whether the Backend has a keyring.
func sealed(ctx context.Context, b tidemark.Backend) (bool, error) {
	for _, err := range b.List(ctx, tidemark.Query{Kind: keyringKind, Order: tidemark.ByID, Limit: 1}) {
		if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
			return false, err
		}
		return true, nil
	}
	return false, nil
}

// maxWalks bounds how often the keys are looked through. A store that makes
// new ones all the time is told as it was found last.
const maxWalks = 5

// names settles which keys there are. A walk takes time, so it may see a
// session that was made meanwhile and not its key; two walks that see the same
// saw no such thing.
func (s *source) names() error {
	for range maxWalks {
		var keys []Kept
		for k, err := range s.from.Walk(s.ctx, tidemark.Key{}) {
			if err != nil {
				return err
			}
			if s.skip == nil || !s.skip(k) {
				keys = append(keys, Kept{Key: k})
			}
		}
		settled := slices.Equal(keys, s.keys)
		s.keys = keys
		if settled {
			break
		}
	}
	return nil
}

func (s *source) keyring() error { return s.kind(keyringKind) }

// damage reports whether err may be passed over, and tells of it once.
func (s *source) damage(err error) bool {
	if s.damaged == nil || !errors.Is(err, tidemark.ErrCorrupt) {
		return false
	}
	if what := err.Error(); !s.said[what] {
		s.said[what] = true
		s.damaged(err)
	}
	return true
}

// get returns a record with the head of its log. What is not there, or is
// damaged and passed over, is at version 0.
func (s *source) get(k tidemark.Key) (tidemark.Record, error) {
	r, err := s.from.Get(s.ctx, k)
	var d *tidemark.Damage
	switch {
	case err == nil:
		return r, nil
	case errors.Is(err, tidemark.ErrNotFound):
		return tidemark.Record{Key: k}, nil
	case !s.damage(err):
		return r, err
	case errors.As(err, &d) && d.Seq > 0:
		return r, nil // of the log: reading it tells how far it goes
	}
	// The log of a damaged record may be whole.
	r = tidemark.Record{Key: k}
	for l, err := range s.from.Lines(s.ctx, k, tidemark.Span{Newest: 1}) {
		if err == nil {
			r.Head = tidemark.Head{Length: l.Seq, UpdatedAt: l.At, Position: l.Position, Chain: l.Chain}
		} else if !s.damage(err) {
			return r, err
		}
	}
	return r, nil
}

// logs tells every log up to its head.
func (s *source) logs() error {
	for i := range s.keys {
		kept := &s.keys[i]
		r, err := s.get(kept.Key)
		if err != nil {
			return err
		}
		if r.Head.Length == 0 {
			continue
		}
		if err := s.log(s.base(kept.Key), r.Head, kept); err != nil {
			return err
		}
	}
	return nil
}

// log tells what a log has beyond base, and notes it in kept. A log that is
// not what base says was dropped and began again.
func (s *source) log(base Kept, head tidemark.Head, kept *Kept) error {
	if base.Length == head.Length && base.At.Equal(head.UpdatedAt) {
		kept.Length, kept.Tail, kept.At = base.Length, base.Tail, base.At
		return nil
	}
	same, err := s.lines(base, head, kept)
	if err != nil || same {
		return err
	}
	if err := s.emit(&item{kind: goneItem, kept: base, gone: goneLog | goneAnew}); err != nil {
		return err
	}
	_, err = s.lines(Kept{Key: base.Key}, head, kept)
	return err
}

// lines tells the lines behind base up to head, in runs of bounded size. It
// reads the newest line of base, too, in the same breath: when that is not
// what base says, it has told nothing and returns false.
func (s *source) lines(base Kept, head tidemark.Head, kept *Kept) (same bool, err error) {
	if base.Length > head.Length {
		return false, nil
	}
	r := run{s: s, kept: kept, lines: tidemark.Append{Log: base.Key, At: head.UpdatedAt}}
	kept.Length, kept.Tail, kept.At = base.Length, base.Tail, head.UpdatedAt
	var before tidemark.Line
	for l, err := range s.from.Lines(s.ctx, base.Key, tidemark.Span{From: base.Length, To: head.Length}) {
		switch {
		case err != nil && !s.damage(err):
			return true, err
		case err != nil && l.Seq == base.Length:
			continue // not to be told, and it cannot be compared
		case err != nil:
			l = gap(base.Key, l.Seq, before)
			if err := r.add(&l); err != nil {
				return true, err
			}
		case l.Seq == base.Length && l.Sum != base.Tail:
			return false, nil
		case l.Seq > base.Length:
			if err := r.add(&l); err != nil {
				return true, err
			}
		}
		before = l
	}
	return true, r.tell()
}

// gapBatch is the batch of a line that stands for one that cannot be read.
const gapBatch = "damaged"

// gap returns a line that stands in the place of a damaged one, so that those
// behind it can be told. Made again it is the same.
func gap(log tidemark.Key, seq int64, before tidemark.Line) tidemark.Line {
	l := tidemark.Line{Seq: seq, Kind: tidemark.KindGap, At: before.At, Position: before.Position, Batch: gapBatch}
	if l.Position.Parent = before.Seq; before.At.IsZero() {
		l.At = time.Unix(0, 0).UTC()
	}
	l.Sum = l.Checksum(log)
	return l
}

// run gathers lines of one log.
type run struct {
	s     *source
	kept  *Kept
	lines tidemark.Append
	size  int
}

func (r *run) add(l *tidemark.Line) error {
	n := lineBytes(l)
	if len(r.lines.Lines) == maxRunLines || r.size > 0 && r.size+n > maxRunBytes {
		if err := r.tell(); err != nil {
			return err
		}
	}
	r.size += n
	r.lines.Lines = append(r.lines.Lines, *l)
	return nil
}

// tell leaves the lines to whoever is told.
func (r *run) tell() error {
	n := len(r.lines.Lines)
	if n == 0 {
		return nil
	}
	last := &r.lines.Lines[n-1]
	r.kept.Length, r.kept.Tail = last.Seq, last.Sum
	err := r.s.emit(&item{kind: linesItem, lines: r.lines})
	r.lines.Lines, r.size = make([]tidemark.Line, 0, n), 0
	return err
}

// records tells every record, kind by kind.
func (s *source) records() error {
	kinds := make([]string, 0, 16)
	for i := range s.keys {
		if k := s.keys[i].Kind; k != keyringKind && (len(kinds) == 0 || kinds[len(kinds)-1] != k) {
			kinds = append(kinds, k)
		}
	}
	for _, kind := range kinds {
		if err := s.kind(kind); err != nil {
			return err
		}
	}
	return nil
}

func (s *source) kind(kind string) error {
	for r, err := range s.from.List(s.ctx, tidemark.Query{Kind: kind, Order: tidemark.ByID}) {
		kept := find(s.keys, r.Key)
		if kept == nil && r.Key != (tidemark.Key{}) {
			continue
		}
		var d *tidemark.Damage
		if err != nil {
			if !s.damage(err) {
				return err
			}
			if !errors.As(err, &d) || d.Seq == 0 || kept == nil {
				continue
			}
		}
		if err := s.record(r, kept); err != nil {
			return err
		}
	}
	return nil
}

// record tells a record, and before it what its log got meanwhile.
func (s *source) record(r tidemark.Record, kept *Kept) error {
	if r.Kind != keyringKind {
		if err := s.grown(r.Head, kept); err != nil {
			return err
		}
	}
	r.Head = tidemark.Head{}
	kept.Mark = markOf(&r)
	base := s.base(r.Key)
	if kept.Mark == base.Mark {
		return nil
	}
	return s.emit(&item{kind: recordItem, record: r, was: base.Mark})
}

// grown tells what a log got since it was told. One that is damaged was told
// as far as it goes.
func (s *source) grown(head tidemark.Head, kept *Kept) error {
	if head.Length == 0 || head.UpdatedAt.Equal(kept.At) && (head.Length == kept.Length || s.damaged != nil) {
		return nil
	}
	return s.log(*kept, head, kept)
}

// rest tells what logs got while the records were told.
func (s *source) rest() error {
	for i := range s.keys {
		kept := &s.keys[i]
		r, err := s.get(kept.Key)
		if err != nil {
			return err
		}
		if kept.Kind == keyringKind && r.Version > 0 && markOf(&r) != kept.Mark {
			// The keys of sessions that were told are wrapped for one of the two.
			return tidemark.Conflictf("%s: the keys of the store were changed while it was read: begin again", kept.Key)
		}
		if err := s.grown(r.Head, kept); err != nil {
			return err
		}
	}
	return nil
}

// vanished takes back what was told and is no longer there. A purge takes
// several keys away at once, and a walk may see some of them and not others;
// one that misses nothing new saw no such thing.
func (s *source) vanished() error {
	for range maxWalks {
		there := s.keys[:0:0]
		i := 0
		for k, err := range s.from.Walk(s.ctx, tidemark.Key{}) {
			if err != nil {
				return err
			}
			for i < len(s.keys) && compareKeys(s.keys[i].Key, k) < 0 {
				if err := s.takeBack(&s.keys[i]); err != nil {
					return err
				}
				i++
			}
			if i < len(s.keys) && s.keys[i].Key == k {
				there = append(there, s.keys[i])
				i++
			}
		}
		for ; i < len(s.keys); i++ {
			if err := s.takeBack(&s.keys[i]); err != nil {
				return err
			}
		}
		settled := len(there) == len(s.keys)
		s.keys = there
		if settled {
			break
		}
	}
	s.keys = slices.DeleteFunc(s.keys, func(k Kept) bool { return k.Mark == Mark{} && k.Length == 0 })
	return nil
}

func (s *source) takeBack(kept *Kept) error {
	what := takenAway(*kept, Kept{})
	if what == 0 {
		return nil
	}
	return s.emit(&item{kind: goneItem, kept: *kept, gone: what})
}

// takenAway says what of before is not there now.
func takenAway(before, now Kept) (what byte) {
	if before.Mark != (Mark{}) && now.Mark == (Mark{}) {
		what |= goneRecord
	}
	if before.Length > 0 && now.Length == 0 {
		what |= goneLog
	}
	return what
}

// gone tells what the archive before had and the store has no more.
func (s *source) gone() error {
	for _, before := range s.since {
		var now Kept
		if k := find(s.keys, before.Key); k != nil {
			now = *k
		}
		if what := takenAway(before, now); what != 0 {
			if err := s.emit(&item{kind: goneItem, kept: before, gone: what}); err != nil {
				return err
			}
		}
	}
	return nil
}
