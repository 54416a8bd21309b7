package store_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/store"
)

// imported makes a session of another tool, with turns that begin at a time and
// are a second apart.
func imported(t *testing.T, s *store.Store, id, from string, at time.Time, answers ...string) {
	t.Helper()
	extra, err := json.Marshal(map[string]any{"imported": map[string]string{"tool": "other", "copied_from": from}})
	if err != nil {
		t.Fatal(err)
	}
	w := s.Create(tidemark.Session{ForeignID: id, Extra: extra, CreatedAt: at}, store.Self("test"))
	for i, text := range answers {
		ask := tidemark.Say(tidemark.User, "go on")
		if at.Nanosecond() != 0 { // else several were asked the same by one clock
			ask = tidemark.Say(tidemark.User, "say "+text)
		}
		ask.At = at.Add(time.Duration(i) * time.Second)
		answer := tidemark.Say(tidemark.Assistant, text)
		answer.At, answer.Model = ask.At.Add(time.Millisecond), "m"
		answer.Usage = &tidemark.Usage{InputTokens: 1000, OutputTokens: 10}
		if _, err := w.Append(t.Context(), ask, answer); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestWhatAForkCopiedCountsOnce has sessions of another tool that forked by
// copying, with the times of the original, with those of the copying, and once
// more from a copy; and others that are only alike.
func TestWhatAForkCopiedCountsOnce(t *testing.T) {
	begun := time.Date(2026, 11, 1, 10, 0, 0, 250_000_000, time.UTC)
	hour := func(n int) time.Time { return begun.Add(time.Duration(n) * time.Hour) }
	whole := begun.Truncate(time.Second)
	for name, c := range map[string]struct {
		sessions func(s *store.Store)
		answers  int64
	}{
		"at the times of the original, whoever comes first": {func(s *store.Store) {
			imported(t, s, "fork", "", begun, "one", "two", "other")
			imported(t, s, "source", "", begun, "one", "two", "three")
		}, 4},
		"at the time of the copying": {func(s *store.Store) {
			imported(t, s, "source", "", begun, "one", "two", "three")
			imported(t, s, "fork", "source", hour(1), "one", "two", "other")
		}, 4},
		"a copy of a copy": {func(s *store.Store) {
			imported(t, s, "source", "", begun, "one", "two", "three")
			imported(t, s, "fork", "source", hour(1), "one", "two", "other")
			imported(t, s, "again", "fork", hour(2), "one", "two", "other", "last")
		}, 5},
		"the source goes on as the fork does": {func(s *store.Store) {
			imported(t, s, "source", "", begun, "one", "two", "same")
			imported(t, s, "fork", "", begun, "one")
			imported(t, s, "alike", "", hour(1), "one", "two", "same")
		}, 6},
		"the same question by one clock": {func(s *store.Store) {
			imported(t, s, "a", "", whole, "done")
			imported(t, s, "b", "", whole, "finished")
		}, 2},
		"the same answer twice in one session": {func(s *store.Store) {
			imported(t, s, "source", "", begun, "ok", "ok")
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := store.New(memory.New(), nil)
			c.sessions(s)
			rows, err := s.Count(t.Context(), store.Counting{})
			if err != nil || len(rows) != 1 {
				t.Fatalf("%v, %v", rows, err)
			}
			got := rows[0]
			if got.InputTokens != 1000*c.answers || got.Messages != 2*c.answers || got.Turns != c.answers {
				t.Errorf("%d tokens, %d messages, %d turns; want those of %d answers", got.InputTokens, got.Messages, got.Turns, c.answers)
			}
			if got.CostUSD != nil || got.UnpricedMessages != c.answers {
				t.Errorf("cost %v, %d not known; want none and all", got.CostUSD, got.UnpricedMessages)
			}
		})
	}
}

// BenchmarkCountImported counts sessions that may all be copies.
func BenchmarkCountImported(b *testing.B) {
	s := store.New(memory.New(), nil)
	at := time.Date(2026, 11, 1, 10, 0, 0, 0, time.UTC)
	for i := range 50 {
		w := s.Create(tidemark.Session{ForeignID: fmt.Sprint("s", i)}, store.Self("test"))
		var entries []tidemark.Entry
		for n := range 1000 {
			e := tidemark.Say(tidemark.Assistant, fmt.Sprintf("answer %d of %d, of some length, as answers are", n, i))
			e.At, e.Usage = at.Add(time.Duration(n)*time.Second), &tidemark.Usage{InputTokens: int64(n + 1)}
			entries = append(entries, e)
		}
		if _, err := w.Append(b.Context(), entries...); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if _, err := s.Count(b.Context(), store.Counting{}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/50_000, "ns/entry")
}
