package pages

import (
	"fmt"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/sqlite"
	"github.com/tidemark-sessions/tidemark/internal/process"
	"github.com/tidemark-sessions/tidemark/store"
)

// BenchmarkUsage counts a store, as the page does when nobody asked before.
func BenchmarkUsage(b *testing.B) {
	backend, err := sqlite.Open(b.Context(), b.TempDir()+"/store.db", &sqlite.Options{Create: true})
	if err != nil {
		b.Fatal(err)
	}
	st := store.New(backend, nil)
	defer st.Close()
	now := time.Now()
	for i := range 2_000 {
		keepUse(b, st, tidemark.Session{Model: fmt.Sprint("model-", i%9), Project: fmt.Sprint("/p", i%50)}, now.Add(-time.Duration(i)*time.Minute))
	}
	for b.Loop() {
		u := &usage{cells: make(map[cell]*store.Tally)}
		if err := u.count(b.Context(), st, counting{zone: time.UTC}, "jo", func(int64) {}); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(len(u.cells)), "cells")
	}
}

// keepUse keeps a session in which a model was asked once.
func keepUse(b *testing.B, st *store.Store, sess tidemark.Session, at time.Time) {
	b.Helper()
	w := st.Create(sess, process.Self("test"))
	_, err := w.Append(b.Context(), tidemark.Say(tidemark.User, "when is high tide?"),
		tidemark.Entry{Kind: tidemark.KindMessage, Role: tidemark.Assistant, At: at, Blocks: []tidemark.Block{tidemark.Text("at six")},
			Usage: &tidemark.Usage{InputTokens: 100, OutputTokens: 1, CostUSD: 0.01}})
	if err != nil {
		b.Fatal(err)
	}
	if err := w.Close(b.Context()); err != nil {
		b.Fatal(err)
	}
}
