package store

import (
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

func FuzzCursor(f *testing.F) {
	q := Question{Text: "tide", Since: time.UnixMicro(7)}
	f.Add(q.cursor(place{rankSaid, spot{time.UnixMicro(1_700_000_000_000_001).UTC(), tidemark.Key{Kind: kindSession, ID: "s"}, 12, "ada"}}))
	f.Add("")
	f.Add("eyJ2IjoxfQ")
	f.Fuzz(func(t *testing.T, text string) {
		asked := q
		asked.After = text
		from, err := asked.goOn()
		if err != nil || text == "" {
			return
		}
		// Whatever is accepted is a place, and its cursor leads to the same one.
		again := asked
		again.After = asked.cursor(from)
		if same, err := again.goOn(); err != nil || same != from {
			t.Errorf("%q leads to %+v, its cursor to %+v, %v", text, from, same, err)
		}
	})
}
