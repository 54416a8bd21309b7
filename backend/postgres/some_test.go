package postgres

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
)

// Lines that are named one by one come as those of a span do: in order, without
// those that are not there yet, each missing one as a damage.
func TestScatteredLines(t *testing.T) {
	made := ready(t, Migration{})
	b := connected(t, made.Server, nil).For(ada)
	log := key("session", string(tidemark.NewSessionID()))
	large := `{"text":"` + strings.Repeat("x", pageBytes/3) + `"}`
	var lines []tidemark.Line
	for seq := int64(1); seq <= 40; seq++ {
		body := fmt.Sprintf(`{"n":%d}`, seq)
		if seq > 30 {
			body = large
		}
		lines = append(lines, line(log, seq, "user", body))
	}
	keep(t, b, tidemark.Batch{Puts: []tidemark.Record{record(log, 1, "{}")}, Appends: []tidemark.Append{{Log: log, Lines: lines}}})
	tell(t, made.Super, `delete from tidemark.line where seq in (7, 35)`, `update tidemark.line set body = 'damaged' where seq = 9`)
	one := func(seqs ...int64) (spans []tidemark.Span) {
		for _, s := range seqs {
			spans = append(spans, tidemark.Span{From: s, To: s})
		}
		return spans
	}
	for name, c := range map[string]struct {
		spans []tidemark.Span
		want  string
	}{
		"in order":          {one(2, 5, 8), "2 5 8"},
		"runs":              {[]tidemark.Span{{From: 1, To: 3}, {From: 10, To: 11}}, "1 2 3 10 11"},
		"missing, damaged":  {one(6, 7, 8, 9, 10), "6 7! 8 9! 10"},
		"not there yet":     {one(1, 40, 41, 99), "1 40"},
		"only what is not":  {one(41, 42), ""},
		"large ones":        {one(3, 31, 32, 33, 34, 35, 36, 40), "3 31 32 33 34 35! 36 40"},
		"backwards":         {[]tidemark.Span{{From: 4, To: 5, Backwards: true}, {From: 2, To: 2}}, "5 4 2"},
		"not in order":      {one(5, 2), "5 2"},
		"a log without end": {[]tidemark.Span{{From: 39}, {From: 1, To: 1}}, "39 40 1"},
	} {
		var got []string
		for l, err := range b.Lines(t.Context(), log, c.spans...) {
			mark := ""
			if errors.Is(err, tidemark.ErrCorrupt) {
				mark = "!"
			} else if err != nil {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprint(l.Seq)+mark)
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%s: %q, want %q", name, text, c.want)
		}
	}
	for range b.Lines(t.Context(), key("session", string(tidemark.NewSessionID())), one(1, 3)...) {
		t.Error("there are lines of a log that is not there")
	}
	first := slices.Collect(func(yield func(int64) bool) {
		for l := range b.Lines(t.Context(), log, one(1, 3, 5)...) {
			yield(l.Seq)
			return
		}
	})
	if len(first) != 1 {
		t.Errorf("whoever stops gets %v", first)
	}
}
