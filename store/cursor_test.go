package store

import (
	"slices"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

func FuzzCursor(f *testing.F) {
	q := Question{Text: "tide", Since: time.UnixMicro(7), PerSession: 3}
	at := place{rankSaid, spot{At: time.UnixMicro(1_700_000_000_000_001).UTC(), Log: tidemark.Key{Kind: kindSession, ID: "s"}, Seq: 12, Owner: "ada"}}
	f.Add(q.cursor(at, nil))
	f.Add(q.cursor(at, []string{shown("one"), shown("two")}))
	f.Add("")
	f.Add("eyJ2IjoxfQ")
	f.Fuzz(func(t *testing.T, text string) {
		asked := q
		asked.After = text
		from, full, err := asked.goOn()
		if err != nil || text == "" {
			return
		}
		// Whatever is accepted is a place with sessions, and its cursor leads to the same.
		again := asked
		again.After = asked.cursor(from, full)
		if same, shown, err := again.goOn(); err != nil || same != from || !slices.Equal(shown, full[max(len(full)-keptShown, 0):]) {
			t.Errorf("%q leads to %+v, its cursor to %+v, %v", text, from, same, err)
		}
	})
}
