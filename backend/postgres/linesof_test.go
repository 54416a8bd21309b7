package postgres

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
)

// Lines of several logs come together; what is missing, damaged, too much or somebody
// else's is left out.
func TestLinesOfSeveralLogs(t *testing.T) {
	made := ready(t, Migration{})
	db := connected(t, made.Server, nil)
	b, other := db.For(ada), db.For(tidemark.TenantOf("acme", "bob"))
	large := `{"text":"` + strings.Repeat("x", pageBytes/3) + `"}`
	write := func(b *Backend, n int64, body func(seq int64) string) tidemark.Key {
		log := key("session", string(tidemark.NewSessionID()))
		var lines []tidemark.Line
		for seq := int64(1); seq <= n; seq++ {
			lines = append(lines, line(log, seq, "user", body(seq)))
		}
		keep(t, b, tidemark.Batch{Puts: []tidemark.Record{record(log, 1, "{}")}, Appends: []tidemark.Append{{Log: log, Lines: lines}}})
		return log
	}
	small := func(seq int64) string { return fmt.Sprintf(`{"n":%d}`, seq) }
	first, second, wide := write(b, 12, small), write(b, 3, small), write(b, 5, func(int64) string { return large })
	theirs, shared := write(other, 3, small), write(other, 3, small)
	if err := other.Share(t.Context(), tidemark.SessionID(shared.ID), tidemark.Scope{With: tidemark.InTenant}); err != nil {
		t.Fatal(err)
	}
	tell(t, made.Super, `delete from tidemark.line where seq = 11`, `update tidemark.line set body = 'damaged' where seq = 9`)
	got := func(b *Backend, asked ...tidemark.LogLines) string {
		t.Helper()
		all, err := b.LinesOf(t.Context(), asked)
		if err != nil {
			t.Fatal(err)
		}
		var text []string
		for i, lines := range all {
			for _, l := range lines {
				if l.Sum != l.Checksum(asked[i].Log) {
					t.Errorf("line %d of %s is not as it was written", l.Seq, asked[i].Log)
				}
				text = append(text, fmt.Sprintf("%d.%d", i, l.Seq))
			}
		}
		return strings.Join(text, " ")
	}
	of := func(log tidemark.Key, seqs ...int64) tidemark.LogLines {
		return tidemark.LogLines{Log: log, Seqs: seqs}
	}
	for name, c := range map[string]struct {
		asked []tidemark.LogLines
		want  string
	}{
		"of several":                {[]tidemark.LogLines{of(second, 2, 3), of(first, 1, 8, 12)}, "0.2 0.3 1.1 1.8 1.12"},
		"one log twice":             {[]tidemark.LogLines{of(second, 2), of(second, 1, 2)}, "0.2 1.1 1.2"},
		"missing, damaged, to come": {[]tidemark.LogLines{of(first, 8, 9, 10, 11, 12, 13)}, "0.8 0.10 0.12"},
		"a log that is not there":   {[]tidemark.LogLines{of(key("session", string(tidemark.NewSessionID())), 1), of(first, 1)}, "1.1"},
		"nothing of one":            {[]tidemark.LogLines{of(first), of(second, 1)}, "1.1"},
		"more than a page":          {[]tidemark.LogLines{of(first, 1), of(wide, 1, 2, 3, 4, 5), of(first, 2)}, "0.1 1.1 1.2 1.3"},
		"of somebody else":          {[]tidemark.LogLines{of(theirs, 1, 2), of(shared, 1, 2), of(second, 1)}, "2.1"},
		"none":                      {nil, ""},
	} {
		if text := got(b, c.asked...); text != c.want {
			t.Errorf("%s: %q, want %q", name, text, c.want)
		}
	}
	// In another tenant, and as nobody, there is nothing.
	if text := got(db.For(tidemark.TenantOf("other", "ada")), of(first, 1), of(shared, 1)); text != "" {
		t.Errorf("another tenant reads %s", text)
	}
	theirOwn, err := b.Of(idText(other.who.user))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := theirOwn.(*Backend).LinesOf(t.Context(), nil); !errors.Is(err, tidemark.ErrUnsupported) {
		t.Errorf("of another owner: %v, want ErrUnsupported", err)
	}
}
