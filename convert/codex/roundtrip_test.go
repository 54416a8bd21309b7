package codex_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/codex"
	"github.com/tidemark-sessions/tidemark/convert/converttest"
)

// roundTrip exports a session with all that it shares with its source, and
// imports what was written.
func roundTrip(t *testing.T, got converttest.Taken, one converttest.Session) converttest.Session {
	t.Helper()
	s := *one.Session
	s.Entries = convert.All(got.Whole(&one))
	s.Fork = nil
	out := converttest.NewOut()
	lost, err := codex.Tool().Export(t.Context(), out, &s)
	if err != nil {
		t.Fatalf("%s: export: %v", one.ForeignID, err)
	}
	for _, l := range lost {
		t.Logf("%s: lost: %s", one.ForeignID, l)
	}
	if !codex.Tool().Detect(t.Context(), out.Source()) {
		t.Errorf("%s: what was written is not detected", one.ForeignID)
	}
	again := converttest.Read(t, codex.Tool(), out.Source())
	for _, skip := range again.Skips {
		t.Errorf("%s: skipped: %s", one.ForeignID, skip)
	}
	if len(again.Sessions) != 1 {
		t.Fatalf("%s: %d sessions came back", one.ForeignID, len(again.Sessions))
	}
	return again.Sessions[0]
}

// sameEntries compares what came back with what was there: to the ids, but for
// a fork, which is written with what it shares.
func sameEntries(t *testing.T, got converttest.Taken, one, again converttest.Session) {
	t.Helper()
	want, have := one.Entries, again.Entries
	if one.Fork != nil {
		want, have = plain(got.Whole(&one)), plain(have)
	}
	settle(want, have)
	for _, w := range slices.Concat(one.Workers, again.Workers) {
		settle(w.Entries)
	}
	if a, b := text(t, want), text(t, have); a != b {
		t.Errorf("%s: %s", one.ForeignID, cmp.Diff(want, have))
	}
	if a, b := text(t, one.Workers), text(t, again.Workers); a != b {
		t.Errorf("%s: workers: %s", one.ForeignID, cmp.Diff(one.Workers, again.Workers))
	}
}

// settle makes entries final: an export ends the turns that it writes.
func settle(logs ...[]convert.Entry) {
	for _, entries := range logs {
		for i := range entries {
			entries[i].Draft = false
		}
	}
}

func text(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// live returns the entries of the branch that a session is at.
func live(entries []convert.Entry) []convert.Entry { return converttest.Path(entries, "") }

// plain leaves out the ids and parents, which a fork and a branch written as
// one line have anew.
func plain(entries []convert.Entry) []convert.Entry {
	var all []convert.Entry
	for _, e := range entries {
		e.ID, e.Parent = "", ""
		all = append(all, e)
	}
	return all
}
