package seal_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
)

// content is everything that a Backend keeps, to be changed by an attacker
// who then makes all sums right again.
type content struct {
	records []tidemark.Record
	logs    []tidemark.Append
}

func contentOf(t testing.TB, inner *memory.Backend) (c content) {
	t.Helper()
	for k, err := range inner.Walk(ctx, tidemark.Key{}) {
		if err != nil {
			t.Fatal(err)
		}
		r := must[tidemark.Record](t)(inner.Get(ctx, k))
		if r.Version > 0 {
			r.Body = slices.Clone(r.Body)
			c.records = append(c.records, r)
		}
		if r.Head.Length > 0 {
			a := tidemark.Append{Log: k, At: r.Head.UpdatedAt}
			for l, err := range inner.Lines(ctx, k) {
				if err != nil {
					t.Fatal(err)
				}
				l.Body, l.Chain = slices.Clone(l.Body), slices.Clone(l.Chain)
				a.Lines = append(a.Lines, l)
			}
			c.logs = append(c.logs, a)
		}
	}
	return c
}

func (c content) record(t testing.TB, k tidemark.Key) *tidemark.Record {
	t.Helper()
	i := slices.IndexFunc(c.records, func(r tidemark.Record) bool { return r.Key == k })
	if i < 0 {
		t.Fatalf("no record %s", k)
	}
	return &c.records[i]
}

func (c content) log(t testing.TB, k tidemark.Key) *tidemark.Append {
	t.Helper()
	i := slices.IndexFunc(c.logs, func(a tidemark.Append) bool { return a.Log == k })
	if i < 0 {
		t.Fatalf("no log %s", k)
	}
	return &c.logs[i]
}

// store returns a Backend that keeps c.
func (c content) store(t testing.TB) *memory.Backend {
	t.Helper()
	b := memory.New()
	for _, r := range c.records {
		r.Sum = r.Checksum()
		c.adopt(t, b, tidemark.Batch{Puts: []tidemark.Record{r}})
	}
	for _, a := range c.logs {
		lines := slices.Clone(a.Lines)
		for i := range lines {
			lines[i].Sum = lines[i].Checksum(a.Log)
		}
		a.Lines = lines
		c.adopt(t, b, tidemark.Batch{Appends: []tidemark.Append{a}})
	}
	return b
}

func (content) adopt(t testing.TB, b *memory.Backend, batch tidemark.Batch) {
	t.Helper()
	batch.Adopt = true
	keep(t, b, batch)
}

// reading is what can be read of a store: each record and line by its name,
// with its body or, after "!", what is wrong with it.
type reading map[string]string

func readAll(t testing.TB, b tidemark.Backend, logs ...tidemark.Key) reading {
	t.Helper()
	got := reading{}
	note := func(name string, body []byte, err error) {
		if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
			t.Fatalf("%s: %v", name, err)
		}
		if got[name] = string(body); err != nil {
			got[name] = "!" + err.Error()
		}
	}
	for _, kind := range []string{"session", "lease", "note"} {
		for r, err := range b.List(ctx, tidemark.Query{Kind: kind, Order: tidemark.ByID}) {
			note(r.Key.String(), r.Body, err)
		}
	}
	for _, log := range logs {
		for l, err := range b.Lines(ctx, log) {
			note(fmt.Sprintf("%s@%d", log, l.Seq), []byte(l.Kind+" "+l.Key+" "+string(l.Body)), err)
		}
	}
	return got
}
