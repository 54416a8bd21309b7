package archive

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// source emits everything that a Backend holds as a run of items, in an order
// that suits a copy while the Backend is still being written to:
//
// First it settles which keys there are; later ones are left out. The keyring
// comes first. Then the logs, each up to its head at that moment. Then the
// records, each preceded by the lines that its log got meanwhile, so that a
// record never refers to missing lines, and things become visible only when what
// belongs to them is there. Then once more the lines that logs got meanwhile: a
// record may also refer to the lines of another log, and now every log is at
// least as new as every record. Last, what was emitted and has disappeared, and
// what the previous archive had and has disappeared.
type source struct {
	ctx     context.Context
	from    tidemark.Backend
	skip    func(tidemark.Key) bool
	since   []Kept
	damaged func(error) // nil: damage ends it
	emit    func(*item) error

	keys []Kept          // what was emitted, by kind and id
	said map[string]bool // damage that was reported
}

func newSource(ctx context.Context, from tidemark.Backend) *source {
	return &source{ctx: ctx, from: from, said: make(map[string]bool)}
}

func compareKeys(a, b tidemark.Key) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID))
}

// find returns the element of a key in a sorted list, or nil.
func find(keys []Kept, k tidemark.Key) *Kept {
	i, ok := slices.BinarySearchFunc(keys, k, func(e Kept, k tidemark.Key) int { return compareKeys(e.Key, k) })
	if !ok {
		return nil
	}
	return &keys[i]
}

// base returns what the previous archive knows of a key.
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

// maxWalks bounds how often the keys are walked. If a store keeps making new
// ones, the last walk counts.
const maxWalks = 5

// names settles which keys there are. A walk takes time, so it may see a session
// that was made meanwhile but not its key; two walks with the same result had no
// such gap.
func (s *source) names() error {
	for range maxWalks {
		var keys []Kept
		derived, err := derivedOf(s.ctx, s.from)
		if err != nil {
			return err
		}
		for k, err := range s.from.Walk(s.ctx, tidemark.Key{}) {
			if err != nil {
				return err
			}
			if !derived(k) && (s.skip == nil || !s.skip(k)) {
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

// derivedOf returns which keys of a Backend are left out, because what they hold is
// made from the rest: the search index, and the keys that open it.
func derivedOf(ctx context.Context, b tidemark.Backend) (func(tidemark.Key) bool, error) {
	segments := make(map[string]bool)
	for r, err := range b.List(ctx, tidemark.Query{Kind: tidemark.KindSegment, Order: tidemark.ByID}) {
		if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
			return nil, err
		}
		segments[r.ID] = true
	}
	return func(k tidemark.Key) bool { return k.Derived() || k.Kind == dataKeyKind && segments[k.ID] }, nil
}

func (s *source) keyring() error { return s.kind(keyringKind) }

// damage reports whether err is damage that may be skipped, and reports each
// once.
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

// get returns a record with the head of its log. A record that is missing, or
// damaged and skipped, has version 0.
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
		return r, nil // damage of the log: reading it tells how far it goes
	}
	// The log of a damaged record may be intact.
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

// logs emits every log up to its head.
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

// log emits what a log has beyond base, and notes it in kept. A log that differs
// from base was dropped and begun again.
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

// lines emits the lines after base up to head, in runs of bounded size. In the
// same pass it reads the newest line of base: when that differs from base, it
// has emitted nothing and returns false.
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
			continue // not to be emitted, and it cannot be compared
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
	return true, r.emit()
}

// gapBatch is the batch of a line that replaces an unreadable one.
const gapBatch = "damaged"

// gap returns a line that replaces a damaged one, so that the lines after it can
// follow. It is the same each time.
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
		if err := r.emit(); err != nil {
			return err
		}
	}
	r.size += n
	r.lines.Lines = append(r.lines.Lines, *l)
	return nil
}

// emit passes the lines on.
func (r *run) emit() error {
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

// records emits every record, kind by kind.
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

// record emits a record, preceded by the lines that its log got meanwhile.
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

// grown emits the lines that a log got since it was emitted. A damaged one was
// emitted as far as it goes.
func (s *source) grown(head tidemark.Head, kept *Kept) error {
	if head.Length == 0 || head.UpdatedAt.Equal(kept.At) && (head.Length == kept.Length || s.damaged != nil) {
		return nil
	}
	return s.log(*kept, head, kept)
}

// rest emits the lines that logs got while the records were emitted.
func (s *source) rest() error {
	for i := range s.keys {
		kept := &s.keys[i]
		r, err := s.get(kept.Key)
		if err != nil {
			return err
		}
		if kept.Kind == keyringKind && r.Version > 0 && markOf(&r) != kept.Mark {
			// The session keys that were emitted are wrapped for either the old
			// or the new keyring.
			return tidemark.Conflictf("%s: the keys of the store were changed while it was read: begin again", kept.Key)
		}
		if err := s.grown(r.Head, kept); err != nil {
			return err
		}
	}
	return nil
}

// vanished withdraws what was emitted and no longer exists. A purge removes
// several keys at once, and a walk may see some of them and not others; a walk
// that misses nothing more had no such gap.
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

// takenAway returns which parts of before are missing now.
func takenAway(before, now Kept) (what byte) {
	if before.Mark != (Mark{}) && now.Mark == (Mark{}) {
		what |= goneRecord
	}
	if before.Length > 0 && now.Length == 0 {
		what |= goneLog
	}
	return what
}

// gone emits what the previous archive had and the store no longer has.
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
