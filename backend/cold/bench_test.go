package cold_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/backendtest"
	"github.com/tidemark-sessions/tidemark/backend/cold"
	"github.com/tidemark-sessions/tidemark/backend/sqlite"
	"github.com/tidemark-sessions/tidemark/transfer/remote"
	"github.com/tidemark-sessions/tidemark/workshop/placetest"
)

var log = tidemark.Key{Kind: "session", ID: "7f3a"}

// BenchmarkPage reads fifty lines from the middle of a session of 20,000: from the
// store, from segments in a folder and in storage, which are not in memory, and from
// segments that are.
func BenchmarkPage(b *testing.B) {
	s3 := placetest.S3(b, "../..")
	for name, c := range map[string]struct {
		url    string
		forget bool
	}{
		"hot": {}, "folder": {"file:" + b.TempDir(), true}, "s3": {s3.URL("cold"), true}, "remembered": {"file:" + b.TempDir(), false},
	} {
		b.Run(name, func(b *testing.B) {
			inner, open := long(b, s3, c.url)
			be := cold.Over(inner, cold.NewPlaces(open), c.url)
			for b.Loop() {
				if c.forget {
					be = cold.Over(inner, cold.NewPlaces(open), c.url)
				}
				n := 0
				for _, err := range be.Lines(b.Context(), log, tidemark.Span{From: 9000, To: 9049}) {
					if n++; err != nil {
						b.Fatal(err)
					}
				}
				if n != 50 {
					b.Fatal(n)
				}
			}
		})
	}
}

// long returns a store with a session of 20,000 lines, which were moved to a URL.
func long(b *testing.B, s3 *placetest.S3Server, url string) (tidemark.Backend, func(context.Context, string) (cold.Place, error)) {
	path := b.TempDir() + "/tidemark.db"
	inner, err := sqlite.Open(b.Context(), path, &sqlite.Options{Create: true})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { inner.Close() })
	var place cold.Place
	open := func(ctx context.Context, url string) (_ cold.Place, err error) {
		if place == nil {
			place, err = remote.Open(ctx, url, s3.Options)
		}
		return place, err
	}
	be := cold.Over(inner, cold.NewPlaces(open), url)
	r := rand.New(rand.NewPCG(1, 2))
	words := strings.Fields("the tide turns at noon func return error nil file path src main test run output line read write value index when where which while commit branch")
	for from := int64(1); from <= 20_000; from += 2000 {
		batch := tidemark.Batch{ID: tidemark.NewBatchID(), At: time.Now().UTC().Truncate(time.Microsecond)}
		a := tidemark.Append{Log: log}
		for seq := from; seq < from+2000; seq++ {
			var text strings.Builder
			for range 120 {
				fmt.Fprintf(&text, "%s%d ", words[r.IntN(len(words))], r.IntN(40))
			}
			a.Lines = append(a.Lines, backendtest.NewLine(log, seq, fmt.Sprintf(`{"blocks":[{"type":"text","text":%q}]}`, text.String())))
		}
		batch.Appends = []tidemark.Append{a}
		if _, err := be.Commit(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
	if url == "" {
		return inner, open
	}
	info, _ := os.Stat(path)
	did, err := be.Move(b.Context(), log)
	if err != nil || did.Lines != 20_000-64 {
		b.Fatalf("%+v, %v", did, err)
	}
	b.Logf("%d bytes of lines, %d in the database file, %d at the place", did.Bytes, info.Size(), did.Packed)
	return inner, open
}
