package agsh_test

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/agsh"
	"github.com/tidemark-sessions/tidemark/convert/converttest"
)

// drawTree draws a session with branches, compactions and a head anywhere.
func drawTree(r *rapid.T) (entries []convert.Entry, head string) {
	n := rapid.IntRange(1, 12).Draw(r, "entries")
	at := time.Date(2026, 8, 1, 8, 0, 0, 0, time.UTC)
	for i := range n {
		e := convert.Entry{ID: strconv.Itoa(i), Parent: convert.Root}
		if i > 0 {
			e.Parent = strconv.Itoa(rapid.IntRange(max(0, i-4), i-1).Draw(r, "parent"))
		}
		text := []tidemark.Block{tidemark.Text(fmt.Sprintf("text %d", i))}
		switch rapid.IntRange(0, 4).Draw(r, "kind") {
		case 0:
			kept := rapid.IntRange(0, 3).Draw(r, "kept")
			e.Entry = tidemark.Entry{Kind: "compaction", Blocks: text, Extra: fmt.Appendf(nil, `{"agsh":{"boundary":{},"kept":%d}}`, kept)}
		case 1, 2:
			e.Entry = tidemark.Entry{Role: tidemark.Assistant, Blocks: text}
		default:
			e.Entry = tidemark.Entry{Role: tidemark.User, Blocks: text}
		}
		e.At = at.Add(time.Duration(i) * time.Second)
		entries = append(entries, e)
	}
	return entries, strconv.Itoa(rapid.IntRange(0, n-1).Draw(r, "head"))
}

// paths are the texts from the root to each entry.
func paths(entries []convert.Entry) []string {
	var all []string
	for _, e := range entries {
		line := ""
		for _, on := range converttest.Path(entries, e.ID) {
			line += " / " + on.Kind + string(on.Role) + " " + on.Text()
		}
		all = append(all, line)
	}
	slices.Sort(all)
	return all
}

func TestAnyTreeSurvivesMeka(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		entries, head := drawTree(r)
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			r.Fatal(err)
		}
		s := &convert.Session{Entries: convert.All(entries), Head: head}
		s.Session = tidemark.Session{ForeignID: "88888888-8888-4888-8888-888888888888", Extra: []byte(`{"agsh":{"meka":true}}`)}
		if _, err := agsh.Tool().Export(t.Context(), folder(t, dir), s); err != nil {
			r.Fatal(err)
		}
		got := converttest.Read(t, agsh.Tool(), place(t, dir, "."))
		if len(got.Sessions) != 1 || len(got.Skips) != 0 {
			r.Fatalf("%d sessions, skips %q", len(got.Sessions), got.Skips)
		}
		back := got.Sessions[0]
		if d := cmp.Diff(paths(entries), paths(back.Entries)); d != "" {
			r.Fatal(d)
		}
		want, have := converttest.Path(entries, head), converttest.Path(back.Entries, back.Head)
		if a, b := want[len(want)-1].Text(), have[len(have)-1].Text(); a != b {
			r.Fatalf("the head is at %q, want %q", b, a)
		}
	})
}
