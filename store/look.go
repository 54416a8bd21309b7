package store

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"sync/atomic"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
)

// This file opens lines that may be hits, and decides whether they are.

// look opens the line of a place and returns the hit of that rank in it, nil when
// there is none. What is left out is counted.
func (h *hunt) look(ctx context.Context, p place) (found *Found, err error) {
	_, err = h.open(ctx, p.spot.Owner, p.spot.Log, tidemark.Span{From: p.spot.Seq, To: p.spot.Seq}, 1<<p.rank,
		func(_ place, f Found) { found = &f }, nil)
	return found, err
}

// fetched is a line that was read before it is looked at.
type fetched struct {
	line tidemark.Line
	err  error // ErrCorrupt
}

// fetch reads the lines at spots, those of one log at once: elsewhere each would be a
// round trip. What is too much is read when it is looked at.
func (h *hunt) fetch(ctx context.Context, spots []spot) error {
	h.fetched = nil
	if len(spots) < 2 {
		return nil
	}
	of := make(map[spot][]int64) // by owner and log
	var logs []spot
	for _, s := range spots {
		log := spot{Log: s.Log, Owner: s.Owner}
		if s.Log.Kind == kindDraft || slices.Contains(of[log], s.Seq) {
			continue
		}
		if of[log] == nil {
			logs = append(logs, log)
		}
		of[log] = append(of[log], s.Seq)
	}
	if err := h.meet(ctx, logs); err != nil {
		return err
	}
	read := make([][]fetched, len(logs))
	var bytes atomic.Int64
	err := sideBySide(len(logs), h.beside(ctx), func(i int) error {
		log := logs[i]
		s, _, ok, err := h.looksInto(ctx, log.Owner, log.Log)
		if err != nil || !ok || bytes.Load() > maxAtOnceBytes {
			return err
		}
		var spans []tidemark.Span
		for _, seq := range slices.Sorted(slices.Values(of[log])) {
			spans = append(spans, tidemark.Span{From: seq, To: seq})
		}
		for l, err := range s.backend.Lines(ctx, log.Log, spans...) {
			if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
				return err
			}
			read[i] = append(read[i], fetched{l, err})
			if bytes.Add(int64(len(l.Body))) > maxAtOnceBytes {
				break
			}
		}
		return nil
	})
	h.fetched = make(map[spot]fetched, len(spots))
	for i, log := range logs {
		for _, f := range read[i] {
			log.Seq = f.line.Seq
			h.fetched[log] = f
		}
	}
	return err
}

// meet looks up the sessions of logs that were not met yet.
func (h *hunt) meet(ctx context.Context, logs []spot) error {
	type stranger struct {
		s    *Store
		name string
		id   tidemark.SessionID
		info Info
		err  error
	}
	var strangers []*stranger
	for _, log := range logs {
		id, _ := sessionOf(log.Log)
		if h.q.Session != "" && (h.q.Session != id || h.owner != log.Owner) {
			continue
		}
		name := tidemark.SessionName(log.Owner, id)
		if _, known := h.infos[name]; known || slices.ContainsFunc(strangers, func(o *stranger) bool { return o.name == name }) {
			continue
		}
		s, err := h.s.of(log.Owner)
		if err != nil {
			return err
		}
		strangers = append(strangers, &stranger{s: s, name: name, id: id})
	}
	_ = sideBySide(len(strangers), h.beside(ctx), func(i int) error {
		o := strangers[i]
		o.info, o.err = o.s.Session(ctx, o.id)
		return nil
	})
	for _, o := range strangers {
		if err := h.met(o.name, o.info, o.err); err != nil {
			return err
		}
	}
	return nil
}

// met notes a session that was looked up: an empty one where it is gone or cannot be read.
func (h *hunt) met(name string, i Info, err error) error {
	if errors.Is(err, tidemark.ErrNotFound) || h.damaged(err) {
		i, err = Info{}, nil
	}
	if err == nil {
		h.infos[name] = i
	}
	return err
}

// looksInto returns whose store a log is in, and its session, and whether there may be
// hits in it.
func (h *hunt) looksInto(ctx context.Context, owner string, log tidemark.Key) (*Store, Info, bool, error) {
	id, _ := sessionOf(log)
	if h.q.Session != "" && (h.q.Session != id || h.owner != owner) {
		return nil, Info{}, false, nil
	}
	s, err := h.s.of(owner)
	if err != nil {
		return nil, Info{}, false, err
	}
	i, ok, err := h.info(ctx, s, owner, id)
	return s, i, ok && h.sessionFits(i), err
}

// lines yields those of a span of a log, as fetch read it or from the store.
func (o *opened) lines(ctx context.Context, span tidemark.Span) iter.Seq2[tidemark.Line, error] {
	if f, ok := o.h.fetched[spot{Log: o.log, Seq: span.From, Owner: o.owner}]; ok && span.From == span.To {
		return func(yield func(tidemark.Line, error) bool) { yield(f.line, f.err) }
	}
	return o.s.backend.Lines(ctx, o.log, span)
}

// every is the set of all ranks.
const every = 1<<ranks - 1

// open reads lines of a log of an owner, and calls keep with the hits in them that
// are of one of the ranks. It stops before the line for which stop says so, and
// returns how many it has read. Damaged ones are noted and passed over.
func (h *hunt) open(ctx context.Context, owner string, log tidemark.Key, span tidemark.Span, of int, keep func(place, Found), stop func() bool) (read int64, err error) {
	s, i, ok, err := h.looksInto(ctx, owner, log)
	if err != nil || !ok {
		return 0, err
	}
	_, worker := sessionOf(log)
	o := opened{h: h, s: s, owner: owner, info: i, log: log, worker: worker, ranks: of, keep: keep}
	if o.marks, err = h.marksOf(ctx, s, i, worker); err != nil {
		return 0, err
	}
	if log.Kind == kindDraft {
		return 0, o.lookAtDraft(ctx, span)
	}
	for l, err := range o.lines(ctx, span) {
		if stop != nil && stop() {
			return read, nil
		}
		read++
		if h.damaged(err) {
			continue
		}
		if err == nil {
			err = o.line(ctx, l)
		}
		if err != nil && !h.damaged(err) {
			return read, err
		}
	}
	return read, nil
}

// opened is a log whose lines are looked at.
type opened struct {
	h      *hunt
	s      *Store // of its owner
	owner  string
	info   Info
	log    tidemark.Key
	worker string
	draft  bool // it is the draft of the log that is looked at
	marks  marks
	ranks  int // which are wanted, one bit each
	keep   func(place, Found)
}

// lookAtDraft looks at the lines that the draft of a log would have there.
func (o *opened) lookAtDraft(ctx context.Context, span tidemark.Span) error {
	v, err := (&View{s: o.s, Info: o.info, worker: o.worker}).WithDraft(ctx)
	if err != nil || v.draft == nil {
		return err
	}
	o.log, o.draft = v.log(), true
	for _, l := range v.draft.lines {
		if l.Seq < span.From || span.To > 0 && l.Seq > span.To {
			continue
		}
		if err := o.line(ctx, l); err != nil && !o.h.damaged(err) {
			return err
		}
	}
	return nil
}

// line looks at a line: at what it holds, and, at the first of a session, at its
// title.
func (o *opened) line(ctx context.Context, l tidemark.Line) error {
	at := spot{At: l.At.UTC(), Log: o.log, Seq: l.Seq, Owner: o.owner}
	if o.draft {
		at.Log = draftKey(o.log)
	}
	if o.log.Kind == kindSession && l.Seq == 1 && o.info.Title != "" && o.ranks&(1<<rankTitle) != 0 {
		if err := o.offer(ctx, at, Found{Info: o.info, At: l.At, Entry: titleEntry(o.info.Title)}, noteTitle); err != nil {
			return err
		}
	}
	if o.ranks == 1<<rankTitle && o.log.Kind != kindNotes {
		return nil
	}
	e, err := searchable(o.log, l)
	if err != nil {
		return err
	}
	if o.log.Kind != kindNotes {
		if o.log.Kind == kindSession && o.info.Base != nil {
			e.Seq += o.info.Base.Seq
		}
		if e.Draft = o.draft; !e.Draft { // notes are about entries that are kept
			e = o.marks.apply(o.s, e)
		}
	}
	f := Found{Info: o.info, Seq: e.Seq, Worker: o.worker, At: l.At, Entry: e}
	if o.log.Kind == kindNotes && e.Kind == noteTitle && e.Text() != o.info.Title {
		return nil // it is called otherwise now
	}
	return o.offer(ctx, at, f, l.Kind)
}

// isCurrent reports whether the line at a spot is the one that a title, label or
// tag is found at. It may have been given several times, and a label that is given
// again moves: the newest note counts. A title without a note is found at the first
// line of the session.
func (o *opened) isCurrent(ctx context.Context, at spot, f Found) (bool, error) {
	if !isNote(f.Entry) {
		return true, nil
	}
	newest, ok := o.h.notes[o.info.Name()]
	if !ok {
		newest = make(map[noteName]int64)
		for l, err := range o.s.backend.Lines(ctx, keyOf(kindNotes, o.info.ID)) {
			var n Note
			if err == nil {
				err = records.Decode(tidemark.Record{Key: keyOf(kindNotes, o.info.ID), Body: l.Body}, &n)
			}
			if o.h.damaged(err) {
				continue
			}
			if err != nil {
				return false, err
			}
			newest[noteName{n.Kind, n.Text}] = l.Seq
		}
		o.h.notes[o.info.Name()] = newest
	}
	note := int64(0)
	if at.Log.Kind == kindNotes {
		note = at.Seq
	}
	return newest[noteName{f.Entry.Kind, f.Entry.Text()}] == note, nil
}

// noteName is what a title, label or tag of a session is known by.
type noteName struct{ kind, text string }

// offer keeps what matches the question and is of a wanted rank.
func (o *opened) offer(ctx context.Context, at spot, f Found, kind string) error {
	h := o.h
	if f.At.Before(h.q.Since) || !h.entryFits(f) || !h.q.Match(f.Entry) {
		return nil
	}
	r := h.q.rankOf(kind, f.Entry)
	wanted := h.q.wants(kind, r)
	if !wanted && !h.q.leavesOut(kind, r) || wanted && o.ranks&(1<<r) == 0 {
		return nil
	}
	if current, err := o.isCurrent(ctx, at, f); err != nil || !current {
		return err
	}
	if living, err := h.living(ctx, o.s, &f); err != nil || !living {
		return err
	}
	if !wanted {
		h.answer.LeftOut.N++
		return nil
	}
	o.keep(place{r, at}, f)
	return nil
}

// entryFits reports whether the filters of entries, beside their time and kind,
// admit one.
func (h *hunt) entryFits(f Found) bool {
	q := &h.q
	return (q.Until.IsZero() || f.At.Before(q.Until)) && (q.Model == "" || q.Model == cmp.Or(f.Entry.Model, f.Info.Model)) && (!q.Failed || failed(f.Entry))
}

// sessionFits reports whether the filters of sessions admit one.
func (h *hunt) sessionFits(i Info) bool {
	q := &h.q
	return (q.Agent == "" || q.Agent == i.Agent) && (q.Tool == "" || q.Tool == cmp.Or(i.Tool, Native)) && (q.Project == "" || slices.Contains(h.places, i.Project)) &&
		(q.Tag == "" || h.labelled[i.Name()] || hasTag(i.Session, q.Tag)) && (q.Cost == "" || q.CostOf != nil && q.CostOf(i) == q.Cost)
}

func (h *hunt) stateFits(i Info) bool { return (i.State == Live) != h.q.Trash }

// living reports whether the session of a hit is in the state that is asked for.
// A hit in a session that was removed counts for a fork that still shares the
// entry, and becomes the fork's.
func (h *hunt) living(ctx context.Context, s *Store, f *Found) (bool, error) {
	if h.stateFits(f.Info) {
		return true, nil
	}
	if f.Worker != "" || f.Seq == 0 || h.q.Trash {
		return false, nil
	}
	for r, err := range s.backend.List(ctx, tidemark.Query{Kind: kindFork, Prefix: string(f.Info.ID) + ".", Order: tidemark.ByID}) {
		if err != nil {
			return false, err
		}
		_, fork := sessionOf(r.Key)
		i, ok, err := h.info(ctx, s, f.Info.Owner, tidemark.SessionID(fork))
		if err != nil {
			return false, err
		}
		if !ok || !h.stateFits(i) || i.Base == nil || i.Base.Seq < f.Seq {
			continue
		}
		v := &View{s: s, Info: i}
		if _, err := v.onPath(ctx, f.Seq); err != nil {
			continue
		}
		// The fork may have masked what it shares.
		m, err := h.marksOf(ctx, s, i, "")
		if err != nil {
			return false, err
		}
		if e := m.apply(s, f.Entry); h.q.Match(e) {
			f.Info, f.Entry = i, e
			return true, nil
		}
	}
	return false, nil
}

// info returns a session of an owner, false when it is gone or cannot be read.
func (h *hunt) info(ctx context.Context, s *Store, owner string, id tidemark.SessionID) (Info, bool, error) {
	name := tidemark.SessionName(owner, id)
	if i, ok := h.infos[name]; ok {
		return i, i.ID != "", nil
	}
	i, err := s.Session(ctx, id)
	err = h.met(name, i, err)
	return h.infos[name], h.infos[name].ID != "", err
}

func (h *hunt) marksOf(ctx context.Context, s *Store, i Info, worker string) (marks, error) {
	name := i.Name() + "." + worker
	if m, ok := h.marks[name]; ok {
		return m, nil
	}
	m, err := s.marksOf(ctx, i, worker)
	if err == nil {
		h.marks[name] = m
	}
	return m, err
}

// damaged notes a damage that is passed over.
func (h *hunt) damaged(err error) bool {
	if !errors.Is(err, tidemark.ErrCorrupt) {
		return false
	}
	if h.answer.Damage == nil {
		h.answer.Damage = err
	}
	return true
}
