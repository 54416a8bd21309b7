package backendtest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

func walks(b *bench) {
	w := b.backend()
	both, record, log := key("session", "both"), key("lease", "r"), key("notes", "l")
	b.keep(NewRecord(both, 1, `{}`), NewRecord(record, 1, `{}`), NewRecord(key("session", "gone"), 1, `{}`), run(both, 1, 1), run(log, 1, 2))
	b.keep(tidemark.Batch{Deletes: []tidemark.Precondition{{Key: key("session", "gone"), Version: 1}}})
	walk := func(after tidemark.Key) (keys []tidemark.Key) {
		for k, err := range w.Walk(context.Background(), after) {
			if err != nil {
				b.Fatalf("Walk = %v", err)
			}
			keys = append(keys, k)
		}
		return keys
	}
	b.same(walk(tidemark.Key{}), []tidemark.Key{record, log, both})
	b.same(walk(record), []tidemark.Key{log, both})
	b.same(walk(key("notes", "")), []tidemark.Key{log, both})
	b.same(len(walk(both)), 0)
}

func adopts(b *bench) {
	k := key("session", "s")
	r := NewRecord(k, 37, `{"a":1}`)
	r.UpdatedAt, r.Batch = time.Date(2020, 1, 2, 3, 4, 5, 6000, time.UTC), "other-batch"
	r.Group, r.State, r.Due = "g", "live", time.Date(2031, 1, 2, 3, 4, 5, 6000, time.UTC)
	a := run(k, 1, 3)
	a.At = time.Date(2021, 1, 2, 3, 4, 5, 6000, time.UTC)
	for i := range a.Lines {
		a.Lines[i].Batch = fmt.Sprintf("batch-%d", i)
	}
	batch := b.batch(r, a)
	batch.Adopt = true
	if _, err := b.backend().Commit(context.Background(), batch); err != nil {
		b.Fatalf("Commit = %v", err)
	}
	want := r
	want.Head = tidemark.Head{Length: 3, UpdatedAt: a.At, Position: a.Lines[2].Position}
	b.same(b.get(k), want)
	b.same(b.lines(k), a.Lines)
	other := b.open()
	defer other.Close()
	got, err := other.Get(context.Background(), k)
	if err != nil {
		b.Fatal(err)
	}
	b.same(got, want)
	b.same(b.list(tidemark.Query{Kind: "session"}), []tidemark.Record{want})
	b.keep(NewRecord(k, 38, `{}`), run(k, 4, 4))
	b.same(ids(b.list(tidemark.Query{Kind: "session"})), []string{"s"})
}

func adoptConflicts(b *bench) {
	k := key("session", "s")
	first := b.keep(NewRecord(k, 1, `{}`), run(k, 1, 2))
	for what, parts := range map[string][]any{
		"a record": {NewRecord(k, 2, `{"other":1}`)},
		"a line":   {run(k, 2, 2)},
	} {
		batch := b.batch(parts...)
		batch.Adopt = true
		for i := range batch.Puts {
			batch.Puts[i].UpdatedAt, batch.Puts[i].Batch = batch.At, batch.ID
		}
		for i := range batch.Appends {
			batch.Appends[i].At = batch.At
			for j := range batch.Appends[i].Lines {
				batch.Appends[i].Lines[j].Batch = batch.ID
			}
		}
		if _, err := b.backend().Commit(context.Background(), batch); !errors.Is(err, tidemark.ErrConflict) {
			b.Errorf("adopting %s over one that stands = %v, want ErrConflict", what, err)
		}
	}
	bare := b.batch(NewRecord(key("session", "bare"), 5, `{}`))
	bare.Adopt = true
	if _, err := b.backend().Commit(context.Background(), bare); !errors.Is(err, tidemark.ErrInvalid) {
		b.Errorf("adopting a record without its time = %v, want ErrInvalid", err)
	}
	b.same(b.get(k).Batch, first.ID)
}
