package backendtest

import (
	"context"
	"errors"
	"slices"

	"pgregory.net/rapid"

	"github.com/tidemark-sessions/tidemark"
)

// A log may be without its oldest lines, and get them back. Where a Backend does
// not trim, nothing is left to try.

func canTrim(be tidemark.Backend, b tidemark.Batch) bool {
	b.Trims = []tidemark.Trim{{Log: key("session", "never"), Length: 2, Upto: 1}}
	_, err := be.Commit(context.Background(), b)
	return !errors.Is(err, tidemark.ErrUnsupported)
}

func (b *bench) trims() bool { return canTrim(b.backend(), b.batch()) }

// trimmed reads spans and expects to be told that the log is trimmed.
func (b *bench) trimmed(log tidemark.Key, upto int64, spans ...tidemark.Span) {
	b.Helper()
	var is *tidemark.TrimmedError
	for l, err := range b.backend().Lines(context.Background(), log, spans...) {
		if err == nil {
			b.Errorf("%+v: line %d was read", spans, l.Seq)
		} else if !errors.As(err, &is) || is.Span != 0 || is.Upto != upto || is.Log != log || !errors.Is(err, tidemark.ErrStorage) {
			b.Errorf("%+v: %v, want to hear that lines to %d were trimmed", spans, err, upto)
		}
	}
	if is == nil {
		b.Errorf("%+v: nothing was said", spans)
	}
}

func trimKeepsTheRest(b *bench) {
	if !b.trims() {
		return
	}
	log := key("session", "s")
	b.keep(NewRecord(log, 1, `{}`), run(log, 1, 700))
	b.keep(NewRecord(key("session", "newer"), 1, `{}`), run(key("notes", "s"), 1, 3))
	want := b.get(log)
	b.keep(NewRecord(key("agent", "where"), 1, `{}`), tidemark.Trim{Log: log, Length: 700, Upto: 600})
	want.Head.Trimmed = 600
	for range 2 {
		b.same(b.get(log), want)
		b.same(b.get(key("agent", "where")).Version, int64(1))
		b.same(ids(b.list(tidemark.Query{Kind: "session"})), []string{"newer", "s"})
		b.same(b.list(tidemark.Query{Kind: "session"})[1].Head, want.Head)
		b.same(seqs(b.lines(log, tidemark.Span{From: 601, To: 602}, tidemark.Span{Newest: 2, Backwards: true}, tidemark.Span{From: 700, To: 900})), []int64{601, 602, 700, 699, 700})
		b.same(len(b.lines(log, tidemark.Span{From: 601})), 100)
		b.same(seqs(b.lines(log, tidemark.Span{From: 701})), []int64(nil))
		b.trimmed(log, 600)
		b.trimmed(log, 600, tidemark.Span{From: 600, To: 601})
		b.trimmed(log, 600, tidemark.Span{Newest: 101, Backwards: true})
		b.trimmed(log, 600, tidemark.Span{From: 3, To: 4})
		b.same(seqs(b.lines(key("notes", "s"))), []int64{1, 2, 3})
		b.be.Close()
		b.be = nil
	}
	b.keep(NewRecord(log, 2, `{"b":1}`), tidemark.Trim{Log: log, Length: 700, Upto: 699})
	b.same(seqs(b.lines(log, tidemark.Span{Newest: 1})), []int64{700})
	b.same(b.get(log).Head.Trimmed, int64(699))
}

func trimTellsTheRest(b *bench) {
	if !b.trims() {
		return
	}
	log := key("session", "s")
	b.keep(run(log, 1, 20))
	b.keep(tidemark.Trim{Log: log, Length: 20, Upto: 10})
	var got []int64
	var is *tidemark.TrimmedError
	for l, err := range b.backend().Lines(context.Background(), log, tidemark.Span{From: 19}, tidemark.Span{From: 30}, tidemark.Span{To: 12, Newest: 5, Backwards: true}) {
		if got = append(got, l.Seq); err != nil && !errors.As(err, &is) {
			b.Fatal(err)
		}
	}
	b.same(got, []int64{19, 20, 0})
	b.same(is, &tidemark.TrimmedError{Log: log, Upto: 10, Span: 2, First: 8, Last: 12})
}

func trimConflicts(b *bench) {
	if !b.trims() {
		return
	}
	log, where := key("session", "s"), key("agent", "where")
	b.keep(run(log, 1, 20))
	want := b.lines(log)
	b.fails(tidemark.ErrConflict, tidemark.Trim{Log: key("session", "none"), Length: 20, Upto: 10})
	for _, length := range []int64{19, 21} {
		b.fails(tidemark.ErrConflict, NewRecord(where, 1, `{}`), tidemark.Trim{Log: log, Length: length, Upto: 10})
	}
	b.fails(tidemark.ErrConflict, NewRecord(where, 2, `{}`), tidemark.Trim{Log: log, Length: 20, Upto: 10})
	for _, upto := range []int64{0, 20, 21} {
		b.fails(tidemark.ErrInvalid, tidemark.Trim{Log: log, Length: 20, Upto: upto})
	}
	b.fails(tidemark.ErrInvalid, run(log, 21, 21), tidemark.Trim{Log: log, Length: 20, Upto: 10})
	b.same(b.lines(log), want)
	b.fails(tidemark.ErrConflict, fill(want[4:10], log))
	b.keep(tidemark.Trim{Log: log, Length: 20, Upto: 10})
	for _, upto := range []int64{9, 10} {
		b.fails(tidemark.ErrConflict, tidemark.Trim{Log: log, Length: 20, Upto: upto})
	}
	b.fails(tidemark.ErrConflict, fill(want[4:9], log))
	b.fails(tidemark.ErrConflict, fill(want[4:11], log))
	b.fails(tidemark.ErrConflict, NewRecord(where, 2, `{}`), fill(want[4:10], log))
	b.same(b.get(log).Head.Trimmed, int64(10))
	b.same(b.lines(log, tidemark.Span{From: 11}), want[10:])
}

// fill is an append that puts lines back.
func fill(lines []tidemark.Line, log tidemark.Key) filled { return filled{Log: log, Lines: lines} }

type filled tidemark.Append

func fillBringsBack(b *bench) {
	if !b.trims() {
		return
	}
	log, where := key("session", "s"), key("agent", "where")
	b.keep(NewRecord(log, 1, `{}`), tidemark.Append{Log: log, Lines: []tidemark.Line{keyed(log, 1, "one"), keyed(log, 2, "two")}})
	b.keep(run(log, 3, 7))
	b.keep(run(log, 8, 8))
	chained := NewLine(log, 9, "\x00\n\xff")
	chained.Chain = []byte{0, 1, 255}
	b.keep(tidemark.Append{Log: log, Lines: []tidemark.Line{sealed(log, chained)}})
	b.keep(run(log, 10, 12))
	want, head := b.lines(log), b.get(log)
	b.keep(NewRecord(where, 1, `{}`), tidemark.Trim{Log: log, Length: 12, Upto: 5})
	b.keep(NewRecord(where, 2, `{}`), tidemark.Trim{Log: log, Length: 12, Upto: 11})

	var is *tidemark.TrimmedError
	for _, a := range []tidemark.Append{{Log: log, Lines: []tidemark.Line{keyed(log, 13, "two")}}, run(log, 13, 13), run(log, 14, 14)} {
		_, err := b.backend().Commit(context.Background(), b.batch(NewRecord(where, 3, `{}`), a))
		if !errors.As(err, &is) || is.Upto != 11 {
			b.Errorf("an append to a trimmed log = %v", err)
		}
	}
	b.same(b.get(log).Head.Length, int64(12))

	b.keep(NewRecord(where, 3, `{}`), fill(want[7:11], log))
	b.trimmed(log, 7)
	b.same(b.lines(log, tidemark.Span{From: 8}), want[7:])
	b.keep(fill(want[:7], log))
	b.same(b.lines(log), want)
	b.same(b.lines(log, tidemark.Span{Backwards: true, Newest: 5})[4], want[7])
	b.same(b.get(log), head)
	again := b.open()
	defer again.Close()
	r, err := again.Commit(context.Background(), b.batch(tidemark.Append{Log: log, Lines: []tidemark.Line{keyed(log, 13, "two")}}))
	if !errors.Is(err, tidemark.ErrExists) {
		b.Fatalf("a key that was away = %v, want ErrExists", err)
	}
	b.same(r.Duplicates, []tidemark.Duplicate{{Log: log, Key: "two", Seq: 2}})
	b.keep(run(log, 13, 14))
	b.same(len(b.lines(log)), 14)
	b.same(b.lines(log)[:12], want)
}

func longLogsGrow(b *bench) {
	if !b.trims() {
		return
	}
	log := key("session", "s")
	first := run(log, 1, tidemark.KeyWindow+50)
	first.Lines[50] = keyed(log, 51, "in the window")
	b.keep(first)
	b.keep(tidemark.Trim{Log: log, Length: tidemark.KeyWindow + 50, Upto: 50})
	r := b.fails(tidemark.ErrExists, tidemark.Append{Log: log, Lines: []tidemark.Line{keyed(log, tidemark.KeyWindow+51, "in the window")}})
	b.same(r.Duplicates, []tidemark.Duplicate{{Log: log, Key: "in the window", Seq: 51}})
	b.keep(run(log, tidemark.KeyWindow+51, tidemark.KeyWindow+52))
	b.same(b.get(log).Head.Trimmed, int64(50))
	b.same(seqs(b.lines(log, tidemark.Span{Newest: 3})), []int64{tidemark.KeyWindow + 50, tidemark.KeyWindow + 51, tidemark.KeyWindow + 52})
	b.trimmed(log, 50, tidemark.Span{From: 50, To: 51})
}

func trimmedIsDropped(b *bench) {
	if !b.trims() {
		return
	}
	log := key("session", "s")
	b.keep(NewRecord(log, 1, `{}`), tidemark.Append{Log: log, Lines: []tidemark.Line{keyed(log, 1, "k"), NewLine(log, 2, `{}`), NewLine(log, 3, `{}`)}})
	b.keep(tidemark.Trim{Log: log, Length: 3, Upto: 2})
	b.checksOut()
	b.keep(tidemark.Batch{Drops: []tidemark.Key{log}})
	b.same(b.get(log).Head, tidemark.Head{})
	if got := b.lines(log); got != nil {
		b.Errorf("lines of a dropped log: %v", got)
	}
	b.keep(tidemark.Append{Log: log, Lines: []tidemark.Line{keyed(log, 1, "k")}})
	b.same(seqs(b.lines(log)), []int64{1})
	b.checksOut()
}

// checksOut expects that a check finds no damage.
func (b *bench) checksOut() {
	b.Helper()
	if c, ok := b.backend().(tidemark.Checker); ok {
		for err := range c.Check(context.Background()) {
			b.Errorf("Check: %v", err)
		}
	}
}

// trim and fill of random histories.

func (h *history) trim(r *rapid.T) {
	k := someKeyOf(r)
	rec, _ := h.model.Get(context.Background(), k)
	if !h.trims || rec.Head.Length-rec.Head.Trimmed < 2 {
		return
	}
	upto := rapid.Int64Range(rec.Head.Trimmed+1, rec.Head.Length-1).Draw(r, "upto")
	if rec.Head.Trimmed == 0 {
		h.away[k] = nil
	}
	for l := range h.model.Lines(context.Background(), k, tidemark.Span{From: rec.Head.Trimmed + 1, To: upto}) {
		h.away[k] = append(h.away[k], l)
	}
	h.both(tidemark.Batch{ID: tidemark.NewBatchID(), At: h.now, Trims: []tidemark.Trim{{Log: k, Length: rec.Head.Length, Upto: upto}}})
}

func (h *history) fill(r *rapid.T) {
	k := someKeyOf(r)
	rec, _ := h.model.Get(context.Background(), k)
	if rec.Head.Trimmed == 0 {
		return
	}
	from := rapid.Int64Range(1, rec.Head.Trimmed).Draw(r, "from")
	lines := slices.Clone(h.away[k][from-1:])
	h.away[k] = h.away[k][:from-1]
	h.both(tidemark.Batch{ID: tidemark.NewBatchID(), At: h.now, Puts: []tidemark.Record{NewRecord(key("agent", "a"), h.version(key("agent", "a"))+1, `{}`)},
		Fills: []tidemark.Append{{Log: k, Lines: lines}}})
}
