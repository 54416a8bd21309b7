package sync

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
	"github.com/tidemark-sessions/tidemark/store"
)

// logMerge merges one log.
type logMerge struct {
	m      *merge
	worker string
	o      *origins
	offset int64
	length int64 // with what is not appended yet

	entries []tidemark.Entry
	bytes   int
	keys    map[string]int64 // the lines that have a key; nil: not read yet
	aliases int              // how many lines turned out to be here already
	head    int64            // where the person at this machine is
	newest  int64            // where the newest line leaves the head
}

// A batch is committed when it has this much.
const (
	batchEntries = 500
	batchBytes   = 4 << 20
)

func (l *logMerge) run(ctx context.Context, sources []source) error {
	m := l.m
	var streams []*stream
	for _, s := range sources {
		if log := s.kept.log(l.worker); log != nil && log.to() > l.o.Read[s.machine] {
			streams = append(streams, &stream{y: m.y, machine: s.machine, kept: s.kept, log: log, next: l.o.Read[s.machine] + 1})
		}
	}
	if len(streams) == 0 {
		return nil
	}
	if err := l.begin(ctx); err != nil {
		return err
	}
	for moved := true; moved; {
		moved = false
		for _, s := range streams {
			was := s.next
			if err := l.apply(ctx, s); err != nil {
				return err
			}
			moved = moved || s.next > was
		}
	}
	for _, s := range streams {
		if s.next <= s.log.to() {
			m.waits[s.machine] = true
			m.y.problem(Problem{Session: m.id, Machine: m.y.nameOfMachine(s.machine), What: "it goes on from lines of a machine that are not at the remote yet", Waits: true})
		}
	}
	return l.end(ctx)
}

// begin finds out where the log ends here.
func (l *logMerge) begin(ctx context.Context) error {
	m := l.m
	if !m.exists {
		return nil
	}
	v, err := m.y.s.View(ctx, m.id)
	if err == nil && l.worker != "" {
		v, err = v.Worker(ctx, l.worker)
		if isAbsent(err) {
			return nil
		}
	}
	if err != nil {
		return err
	}
	l.offset = offsetOf(v.Base)
	l.length = v.Entries - l.offset
	if l.head, err = v.Head(ctx); err != nil {
		return err
	}
	l.newest = l.head
	return nil
}

// apply takes over lines of a machine until one follows what is not here yet.
func (l *logMerge) apply(ctx context.Context, s *stream) error {
	before, tip := l.length, int64(0)
	saw, runs := false, -1 // whether the machine had all that is here when it added its newest line
	for {
		it, err := s.peek(ctx)
		if err != nil {
			return err
		}
		if it == nil {
			break
		}
		count := it.count()
		switch {
		case it.Same != nil:
			local, ok := l.o.find(it.Same.Machine, it.Same.Line)
			if it.Same.Machine == l.m.y.me.ID { // a line that this machine gave on
				local, ok = it.Same.Line, it.Same.Line <= l.length
			}
			if count = 1; !ok {
				count = 0
			} else {
				l.alias(s.machine, s.next, local)
			}
		case it.Line != nil:
			seq, ok, err := l.line(ctx, s, it.Line)
			if err != nil {
				return err
			}
			if !ok {
				count = 0
				break
			}
			if seq > 0 && it.Line.Kind != tidemark.KindBranch {
				tip = seq
			}
			if seq > 0 && runs != l.aliases {
				saw, runs = l.o.saw(s.machine, before), l.aliases
			}
		}
		if count == 0 {
			break
		}
		s.next += count
		if l.o.Read == nil {
			l.o.Read = make(map[string]int64)
		}
		l.o.Read[s.machine], l.o.changed = s.next-1, true
		if len(l.entries) >= batchEntries || l.bytes >= batchBytes {
			if err := l.flush(ctx); err != nil {
				return err
			}
		}
	}
	switch {
	case l.length == before:
	case saw:
		l.head = l.newest
	case tip > 0:
		l.m.tips[s.machine] = tip
	}
	return nil
}

// alias notes that a line of a machine is one that is here.
func (l *logMerge) alias(machine string, line, local int64) {
	l.aliases++
	if _, known := l.o.find(machine, line); !known {
		l.o.add(run{Local: local, Count: 1, Machine: machine, Line: line})
	}
}

// line takes over one line, and returns the seq that it gets here, 0 if it is here
// already; not ok when what it follows is not here yet.
func (l *logMerge) line(ctx context.Context, s *stream, in *line) (seq int64, ok bool, err error) {
	born := Name{Machine: s.machine, Line: s.next}
	if in.Born != nil {
		born = *in.Born
	}
	if local, known := l.o.find(born.Machine, born.Line); known {
		l.alias(s.machine, s.next, local)
		return 0, true, nil
	}
	if local, known, err := l.keyed(ctx, in.Key); err != nil {
		return 0, false, err
	} else if same, err := l.sameKeyed(ctx, in, local); err != nil {
		return 0, false, err
	} else if known && !same {
		in.Key = "" // what two machines call the same is not
	} else if known {
		l.alias(born.Machine, born.Line, local)
		l.alias(s.machine, s.next, local)
		return 0, true, nil
	}
	e, err := in.entry()
	if err != nil {
		return 0, false, err
	}
	parent, ok, err := l.parent(ctx, s, in)
	if err != nil {
		return 0, false, err
	}
	if !ok {
		created, err := l.createApart(ctx, s, in)
		return 0, created && err == nil, err
	}
	if created, err := l.create(ctx, s, in, parent); created || err != nil {
		return 0, err == nil, err
	}
	if e.Parent = parent; parent == 0 {
		e.Parent = store.Root
	}
	l.length++
	seq = l.length + l.offset
	l.born(s, in)
	if in.Key != "" {
		l.keys[in.Key] = l.length
	}
	if l.newest = seq; e.Kind == tidemark.KindBranch {
		l.newest = parent
	}
	l.entries, l.bytes = append(l.entries, e), l.bytes+len(in.Body)
	l.m.entries++
	return seq, true, nil
}

// entry returns the line as an entry that has no place yet.
func (l *line) entry() (tidemark.Entry, error) {
	return tidemark.EntryOf(tidemark.Line{Kind: l.Kind, Key: l.Key, At: records.Keepable(l.At), Body: l.Body})
}

// born notes where the newest line came from.
func (l *logMerge) born(s *stream, in *line) {
	l.o.cameAs(s, in, l.length, l.m.y.c.Store)
}

// keyed returns the line here that has a key. An entry that two machines imported is
// one.
func (l *logMerge) keyed(ctx context.Context, key string) (local int64, known bool, err error) {
	if key == "" {
		return 0, false, nil
	}
	if l.keys == nil {
		if err := l.readKeys(ctx); err != nil {
			return 0, false, err
		}
	}
	local, known = l.keys[key]
	return local, known, nil
}

// sameKeyed reports whether the line here that has the key of another is that one. A
// tool's key means one entry; those of programs that append may mean anything.
func (l *logMerge) sameKeyed(ctx context.Context, in *line, local int64) (bool, error) {
	if in.Key == "" || local == 0 || l.m.abouts[0].Session.Tool != "" {
		return true, nil
	}
	if err := l.flush(ctx); err != nil {
		return false, err
	}
	for have, err := range l.m.y.k.Backend().Lines(ctx, store.LogKey(l.m.id, l.worker), tidemark.Span{From: local, To: local}) {
		return err == nil && have.Kind == in.Kind && bytes.Equal(have.Body, in.Body), err
	}
	return false, nil
}

func (l *logMerge) readKeys(ctx context.Context) error {
	l.keys = make(map[string]int64)
	if !l.m.exists || l.length == 0 {
		return nil
	}
	if err := l.flush(ctx); err != nil {
		return err
	}
	v, err := l.m.y.s.View(ctx, l.m.id)
	if err == nil && l.worker != "" {
		v, err = v.Worker(ctx, l.worker)
	}
	if err != nil {
		return err
	}
	for e, err := range v.LogRange(ctx, l.offset+1, 0) {
		if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
			return err
		}
		if err == nil && e.Key != "" {
			l.keys[e.Key] = e.Seq - l.offset
		}
	}
	return nil
}

// parent returns the seq here of what a line follows.
func (l *logMerge) parent(ctx context.Context, s *stream, in *line) (seq int64, ok bool, err error) {
	switch {
	case in.Past != nil && l.m.exists && l.o.Base != nil && *in.Past == *l.o.Base:
		return l.offset, true, nil // also when that was purged
	case in.Past != nil:
		seq, err := l.m.y.seqOf(ctx, *in.Past)
		if isAbsent(err) {
			if err := l.m.before(ctx, in.Past.Session); err != nil {
				return 0, false, err
			}
			seq, err = l.m.y.seqOf(ctx, *in.Past)
		}
		if isAbsent(err) {
			return 0, false, nil
		}
		return seq, err == nil, err
	case in.Parent == 0:
		return 0, true, nil
	case in.Parent >= s.next:
		return 0, false, corruptf("line %d follows line %d", s.next, in.Parent)
	}
	local, ok := l.o.find(s.machine, in.Parent)
	if !ok {
		return 0, false, corruptf("line %d follows line %d, which is no line of it", s.next, in.Parent)
	}
	return local + l.offset, true, nil
}

// create makes a fork with its first line, which is its marker, and reports whether
// that is what the line was.
func (l *logMerge) create(ctx context.Context, s *stream, in *line, parent int64) (bool, error) {
	if !l.creates(in) {
		return false, nil
	}
	return true, l.fork(ctx, s, in, parent, func(sess tidemark.Session) (store.Info, error) {
		return l.m.s.ForkAs(ctx, l.m.abouts[0].Base.Session, parent, sess)
	})
}

// createApart is create for a fork of a session that was purged before it came here,
// from what a machine keeps of that.
func (l *logMerge) createApart(ctx context.Context, s *stream, in *line) (bool, error) {
	if !l.creates(in) {
		return false, nil
	}
	for _, from := range l.m.sources {
		log := from.kept.log(pastLog)
		if log.to() == 0 {
			continue
		}
		past := &stream{y: l.m.y, machine: from.machine, kept: from.kept, log: log, next: 1}
		return true, l.fork(ctx, s, in, log.to(), func(sess tidemark.Session) (store.Info, error) {
			return l.m.s.ForkApart(ctx, l.m.abouts[0].Base.Session, past.entries(ctx), sess)
		})
	}
	return false, nil
}

// creates reports whether a line makes a fork.
func (l *logMerge) creates(in *line) bool {
	return !l.m.exists && in.Past != nil && l.worker == "" && l.length == 0
}

// fork makes a fork, whose seqs go on after one.
func (l *logMerge) fork(ctx context.Context, s *stream, in *line, after int64, create func(tidemark.Session) (store.Info, error)) error {
	m := l.m
	base := m.abouts[0].Base
	if base == nil || in.Kind != tidemark.KindBranch {
		return corruptf("a fork that does not begin as one")
	}
	sess := m.session()
	m.sayCreated()
	m.o.Base, l.length, l.offset = base, 1, after
	l.head, l.newest = after, after
	l.born(s, in)
	r, err := m.o.record()
	if err != nil {
		return err
	}
	m.pending, m.log = &r, store.LogKey(m.id, "")
	m.clock = records.Keepable(in.At)
	info, err := create(sess)
	m.pending = nil
	if err != nil {
		return err
	}
	m.o.version++
	m.exists, m.info, m.changed = true, info, true
	m.entries++                   // as a push counts
	if info.Title != sess.Title { // it was the source's
		m.o.Seen[regTitle], _ = records.Encode(info.Title)
	}
	m.w, err = m.s.AttachMerge(ctx, m.id, m.y.o.Holder)
	return err
}

// flush commits what was taken over, together with where it came from.
func (l *logMerge) flush(ctx context.Context) error {
	m := l.m
	if len(l.entries) == 0 {
		if !m.exists {
			return nil
		}
		return l.o.save(ctx, m.y.k)
	}
	if m.w == nil {
		if m.exists {
			return tidemark.Conflictf("session %s: it changed at the same moment", m.id)
		}
		sess := m.session()
		m.sayCreated()
		m.w = m.s.Create(sess, m.y.o.Holder)
	}
	m.log = store.LogKey(m.id, l.worker)
	r, err := l.o.record()
	if err != nil {
		return err
	}
	m.pending, m.clock = &r, minTime(l.entries[len(l.entries)-1].At, m.y.k.Clock())
	var seqs []int64
	if l.worker == "" {
		seqs, err = m.w.Append(ctx, l.entries...)
	} else {
		seqs, err = m.w.AppendTo(ctx, l.worker, l.entries...)
	}
	m.pending = nil
	if err != nil {
		return err
	}
	if first := l.length + l.offset - int64(len(l.entries)) + 1; seqs[0] != first || seqs[len(seqs)-1] != l.length+l.offset {
		return tidemark.Conflictf("session %s: its entries got other places than expected", m.id)
	}
	l.o.version, l.o.changed = l.o.version+1, false
	l.entries, l.bytes, m.exists, m.changed = nil, 0, true, true
	return nil
}

func minTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return records.Keepable(a)
	}
	return b
}

// end commits the rest, and a marker if what others added moved the head away from
// where the person at this machine is.
func (l *logMerge) end(ctx context.Context) error {
	if l.worker == "" && l.head != l.newest && l.head > 0 {
		l.length++
		if l.o.Markers == nil {
			l.o.Markers = make(map[int64]int64)
		}
		l.o.Markers[l.length], l.o.changed = l.head, true
		mark := tidemark.Entry{Kind: tidemark.KindBranch, At: l.m.y.k.Clock(), Position: tidemark.Position{Parent: l.head}}
		l.entries = append(l.entries, mark)
	}
	return l.flush(ctx)
}
