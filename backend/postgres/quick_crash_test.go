//go:build unix

package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/backendtest"
	"github.com/tidemark-sessions/tidemark/workshop/pgtest"
)

// Batches of nothing but lines take one round trip, those of several users
// together. Wherever the connection
// breaks in it, the writer is told what is so, or that nobody knows.
func TestBatchesOfLinesSurviveCutAndTerminatedConnections(t *testing.T) {
	c := pgtest.Start(t)
	db := c.Database(t)
	migrated(t, db)
	super, err := pgx.Connect(t.Context(), db.Super)
	if err != nil {
		t.Fatal(err)
	}
	defer super.Close(context.Background())
	terminate := func() {
		if _, err := super.Exec(t.Context(), `select pg_terminate_backend(pid) from pg_stat_activity where usename = $1`, db.Role); err != nil {
			t.Error(err)
		}
	}
	p := c.CutAtRandom(t, someBatches, nil)
	for name, one := range map[string]struct {
		url     string
		trouble func()
	}{"cut": {p.Through(t, db.Server), func() {}}, "terminated": {db.Server, terminate}} {
		t.Run(name, func(t *testing.T) {
			shared := connect(t, one.url)
			for user := range 3 {
				t.Run(fmt.Sprint(user), func(t *testing.T) {
					t.Parallel()
					who := tidemark.TenantOf("lines", fmt.Sprint("writer-", user))
					log := tidemark.Key{Kind: "session", ID: tidemark.IDOf("session", name)}
					w := &writer{t: t, log: log, be: shared.For(who), lease: tidemark.Key{Kind: "lease", ID: log.ID}}
					var told []string // the batch of each line
					for seq := int64(1); seq <= int64(batchesEach(t, 100)); seq++ {
						told = append(told, w.line(t, seq))
						if seq%20 == 0 && user == 0 {
							one.trouble()
						}
					}
					n := 0
					for l, err := range open(t, db.Server, who).Lines(t.Context(), log) {
						if err != nil || n >= len(told) || l.Batch != told[n] {
							t.Fatalf("line %d is of batch %s, %v", l.Seq, l.Batch, err)
						}
						n++
					}
					if n != len(told) {
						t.Errorf("%d lines, %d were acknowledged", n, len(told))
					}
					t.Logf("%d outcomes unknown at first, %d cuts", w.unknown, p.Cuts())
				})
			}
		})
	}
}

// line appends one line, whatever it takes, and returns the batch that did.
func (w *writer) line(t *testing.T, seq int64) string {
	t.Helper()
	tried := make(map[string]bool) // batches of which nobody knew
	for t.Context().Err() == nil {
		b := tidemark.Batch{ID: tidemark.NewBatchID(), At: now(), Appends: []tidemark.Append{{Log: w.log, Lines: []tidemark.Line{backendtest.NewLine(w.log, seq, fmt.Sprint(seq))}}}}
		if seq == 1 {
			b.Puts = []tidemark.Record{backendtest.NewRecord(w.lease, 1, "{}")}
		} else {
			b.Require = []tidemark.Precondition{{Key: w.lease, Version: 1}}
		}
		_, err := w.be.Commit(t.Context(), b)
		switch {
		case err == nil:
			return b.ID
		case errors.Is(err, tidemark.ErrUnknown):
			w.unknown++
			tried[b.ID] = true
		case errors.Is(err, tidemark.ErrConflict) && len(tried) == 0:
			t.Fatalf("line %d: %v", seq, err)
		}
		if w.length(t.Context()) < seq {
			breathe()
			continue
		}
		for l, err := range w.be.Lines(t.Context(), w.log, tidemark.Span{From: seq, To: seq}) {
			if err == nil && !tried[l.Batch] {
				t.Fatalf("line %d is of batch %s, which was said to have changed nothing", seq, l.Batch)
			}
			if err == nil {
				return l.Batch
			}
		}
	}
	return ""
}
