package store_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/store"
)

func TestAnImportingWriterHoldsItsSessionWhileItWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, ctx := memory.New(), t.Context()
		long := time.Now().Add(-1000 * time.Hour).UTC()
		imports := store.New(b, nil).ChangedAt(func() time.Time { return long })
		others := store.New(b, nil)
		w := imports.Create(tidemark.Session{Title: "imported"}, who("import"))
		add(t, w, user("then"))
		_, err := others.Attach(ctx, w.ID(), who("other"))
		wants(t, err, tidemark.ErrHeld)
		// It is heard with each append, and loses the lease like any other.
		time.Sleep(20 * time.Second)
		add(t, w, user("then, too"))
		time.Sleep(20 * time.Second)
		_, err = others.Attach(ctx, w.ID(), who("other"))
		wants(t, err, tidemark.ErrHeld)
		i, err := others.Session(ctx, w.ID())
		if err != nil || !i.UpdatedAt.Equal(long) {
			t.Errorf("changed at %s, %v, want when its tool changed it, %s", i.UpdatedAt, err, long)
		}
		time.Sleep(31 * time.Second)
		other := attach(t, others, w.ID(), "other")
		_, err = w.Append(ctx, user("late"))
		wants(t, err, tidemark.ErrConflict)
		// And one that comes to a session that somebody writes to does not get in.
		_, err = imports.Attach(ctx, other.ID(), who("import"))
		wants(t, err, tidemark.ErrHeld)
	})
}
