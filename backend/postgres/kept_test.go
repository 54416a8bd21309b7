package postgres

import (
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/internal/records"
)

// The database counts what reading everything would.
func TestWhatIsKeptIsCountedByOwnerWithoutReadingIt(t *testing.T) {
	t.Parallel()
	db := connected(t, ready(t, Migration{}).Server, nil)
	ada, bob := db.For(tidemark.TenantOf("acme", "ada")), db.For(tidemark.TenantOf("acme", "bob"))
	model := memory.New()
	for i, id := range []string{"7f3a0c1e-52d4-4a41-9a6e-0d5be2f1c0aa", "7f3a0c1e-52d4-4a41-9a6e-0d5be2f1c0ab"} {
		log := tidemark.Key{Kind: "session", ID: id}
		rec := tidemark.Record{Key: log, Version: 1, Body: []byte(`{"title":"tides"}`)}
		rec.Sum = rec.Checksum()
		index := tidemark.Record{Key: tidemark.Key{Kind: tidemark.KindIndex, ID: id}, Version: 1, Body: []byte(`{"n":1}`)}
		index.Sum = index.Checksum()
		b := tidemark.Batch{Puts: []tidemark.Record{rec, index}, Appends: []tidemark.Append{{Log: log, Lines: []tidemark.Line{line(log, 1, "user", `{"n":1}`), line(log, 2, "user", `{"more":22}`)}}}}
		keep(t, ada, b)
		keep(t, model, b)
		if i == 0 {
			keep(t, bob, b)
		}
	}
	for _, c := range []struct {
		b        tidemark.Backend
		sessions int64
		bytes    int64
	}{{ada, 2, 2 * (17 + 7 + 11)}, {model, 2, 2 * (17 + 7 + 11)}, {bob, 1, 17 + 7 + 11}} {
		if n, size, err := records.Kept(t.Context(), c.b); err != nil || n != c.sessions || size != c.bytes {
			t.Errorf("kept: %d sessions, %d bytes, %v; want %d and %d", n, size, err, c.sessions, c.bytes)
		}
	}
}
