package backendtest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
)

// Model runs random histories on a place and on package memory side by side,
// reopening the place at random moments, and expects the same results.
func Model(t *testing.T, place Place) {
	rapid.Check(t, func(r *rapid.T) {
		open := place(t)
		h := &history{T: r, model: memory.New(), real: open(), now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), away: make(map[tidemark.Key][]tidemark.Line)}
		h.trims = canTrim(h.real, tidemark.Batch{ID: tidemark.NewBatchID(), At: h.now})
		defer func() { h.real.Close() }()
		r.Repeat(map[string]func(*rapid.T){
			"commit": h.commit,
			"repeat": h.repeat,
			"trim":   h.trim,
			"fill":   h.fill,
			"reopen": func(*rapid.T) {
				h.real.Close()
				h.real = open()
			},
			"": h.compare,
		})
	})
}

type history struct {
	*rapid.T
	model, real tidemark.Backend
	now         time.Time
	last        tidemark.Batch
	trims       bool
	away        map[tidemark.Key][]tidemark.Line // that were trimmed
}

var (
	someKind = rapid.SampledFrom([]string{"agent", "session", "notes"})
	someID   = rapid.SampledFrom([]string{"a", "a.b", "B"})
	someBody = rapid.SampledFrom([]string{"", `{}`, `{"x":"y"}`, "\x00\n\xff", `{"long":"` + strings.Repeat("a", 5000) + `"}`})
	someName = rapid.SampledFrom([]string{"", "", "g", "h"})
	someKey  = rapid.SampledFrom([]string{"", "", "", "k1", "k2", "k3"})
)

func someKeyOf(r *rapid.T) tidemark.Key { return key(someKind.Draw(r, "kind"), someID.Draw(r, "id")) }

// near returns v, and now and then a wrong number near it.
func near(r *rapid.T, v int64) int64 {
	return max(v+rapid.SampledFrom([]int64{0, 0, 0, 0, 0, 0, 1, -1}).Draw(r, "off"), 0)
}

func (h *history) version(k tidemark.Key) int64 {
	rec, _ := h.model.Get(context.Background(), k)
	return rec.Version
}

func (h *history) length(k tidemark.Key) int64 {
	rec, _ := h.model.Get(context.Background(), k)
	return rec.Head.Length
}

func (h *history) commit(r *rapid.T) {
	h.now = h.now.Add(time.Duration(rapid.Int64Range(0, 3_000_000).Draw(r, "µs later")) * time.Microsecond)
	b := tidemark.Batch{ID: tidemark.NewBatchID(), At: h.now}
	for range rapid.IntRange(0, 2).Draw(r, "puts") {
		k := someKeyOf(r)
		rec := NewRecord(k, near(r, h.version(k))+1, someBody.Draw(r, "body"))
		rec.Group, rec.State = someName.Draw(r, "group"), someName.Draw(r, "state")
		if rapid.Bool().Draw(r, "is due") {
			rec.Due = h.now.Add(time.Duration(rapid.IntRange(-3, 3).Draw(r, "due")) * time.Hour)
		}
		b.Puts = append(b.Puts, rec)
	}
	for range rapid.IntRange(0, 1).Draw(r, "deletes") {
		k := someKeyOf(r)
		b.Deletes = append(b.Deletes, tidemark.Precondition{Key: k, Version: near(r, h.version(k))})
	}
	for range rapid.IntRange(0, 1).Draw(r, "requires") {
		k := someKeyOf(r)
		b.Require = append(b.Require, tidemark.Precondition{Key: k, Version: near(r, h.version(k))})
	}
	for range rapid.IntRange(0, 2).Draw(r, "appends") {
		k := someKeyOf(r)
		a := tidemark.Append{Log: k}
		first := near(r, h.length(k)) + 1
		for i := range int64(rapid.IntRange(1, 4).Draw(r, "lines")) {
			l := NewLine(k, first+i, someBody.Draw(r, "body"))
			l.Key = someKey.Draw(r, "key")
			a.Lines = append(a.Lines, sealed(k, l))
		}
		b.Appends = append(b.Appends, a)
	}
	if rapid.IntRange(0, 9).Draw(r, "drops") == 0 {
		b.Drops = append(b.Drops, someKeyOf(r))
	}
	h.both(b)
	h.last = b
}

// repeat sends the last batch once more, like a caller that got no answer.
func (h *history) repeat(*rapid.T) {
	if h.last.ID != "" {
		h.both(h.last)
	}
}

func (h *history) both(b tidemark.Batch) {
	want, wantErr := h.model.Commit(context.Background(), b)
	got, err := h.real.Commit(context.Background(), b)
	for _, kind := range []error{nil, tidemark.ErrExists, tidemark.ErrConflict, tidemark.ErrInvalid, tidemark.ErrStorage} {
		if errors.Is(wantErr, kind) != errors.Is(err, kind) {
			h.Fatalf("Commit = %v, the model says %v", err, wantErr)
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		h.Fatalf("receipt (-model +got):\n%s", d)
	}
}

func (h *history) compare(*rapid.T) {
	for _, kind := range []string{"agent", "session", "notes"} {
		for _, id := range []string{"a", "a.b", "B"} {
			k := key(kind, id)
			h.same("Get", read(h.model, k), read(h.real, k))
			for _, s := range []tidemark.Span{{}, {Newest: 2, Backwards: true}, {From: 2, To: 3}} {
				h.same(fmt.Sprintf("Lines %s %+v", k, s), lines(h.model, k, s), lines(h.real, k, s))
			}
		}
		for _, q := range []tidemark.Query{{}, {Order: tidemark.ByID}, {Order: tidemark.ByDue}, {State: "g"}, {Group: "h", Limit: 1}, {DueBy: h.now}, {Prefix: "a"}} {
			q.Kind = kind
			h.same(fmt.Sprintf("List %+v", q), list(h.model, q), list(h.real, q))
		}
	}
}

func (h *history) same(what string, want, got any) {
	if !reflect.DeepEqual(want, got) {
		h.Fatalf("%s (-model +got):\n%s", what, cmp.Diff(want, got))
	}
}

type answer[T any] struct {
	Values []T
	Err    string
}

func read(b tidemark.Backend, k tidemark.Key) answer[tidemark.Record] {
	r, err := b.Get(context.Background(), k)
	if errors.Is(err, tidemark.ErrNotFound) {
		return answer[tidemark.Record]{Err: "not found"}
	}
	return gather(func(yield func(tidemark.Record, error) bool) { yield(r, err) }, normalRecord)
}

func lines(b tidemark.Backend, k tidemark.Key, s tidemark.Span) answer[tidemark.Line] {
	return gather(b.Lines(context.Background(), k, s), func(l tidemark.Line) tidemark.Line {
		l.Body = orNil(l.Body)
		return l
	})
}

func list(b tidemark.Backend, q tidemark.Query) answer[tidemark.Record] {
	return gather(b.List(context.Background(), q), normalRecord)
}

// orNil lets an empty body come back as nil.
func orNil(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return b
}

func normalRecord(r tidemark.Record) tidemark.Record {
	r.Body = orNil(r.Body)
	return r
}

func gather[T any](seq iter.Seq2[T, error], normal func(T) T) (a answer[T]) {
	for v, err := range seq {
		if err != nil {
			a.Err = err.Error()
		}
		a.Values = append(a.Values, normal(v))
	}
	return a
}
