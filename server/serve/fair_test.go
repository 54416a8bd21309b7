package serve_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/postgres"
	"github.com/tidemark-sessions/tidemark/internal/process"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/search"
	"github.com/tidemark-sessions/tidemark/server/serve"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/transfer"
	"github.com/tidemark-sessions/tidemark/workshop/pgtest"
)

// One user imports from many places at once, and does not end before another has
// appended and searched: each time the other finds exactly what is there, and nothing
// of either is lost.
func TestAnImportInBulkKeepsNobodyElseFromTheirWork(t *testing.T) {
	t.Parallel()
	made := pgtest.Start(t).Database(t)
	if err := postgres.Migrate(t.Context(), made.Owner, made.Role); err != nil {
		t.Fatal(err)
	}
	sep := "?"
	if strings.Contains(made.Server, "?") {
		sep = "&"
	}
	stores, err := serve.OpenStores(t.Context(), made.Server+sep+"pool_max_conns=6", false, func(open.Access) *open.Options { return &open.Options{} }, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stores.Close() })
	of := func(user string) *store.Store {
		s, err := stores.Store(t.Context(), tidemark.TenantOf("acme", user))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	bulk, calm := of("bulk"), of("calm")
	var done atomic.Bool
	var imported atomic.Int64
	var importing sync.WaitGroup
	begun := make(chan struct{}, 100)
	for n := range 4 {
		importing.Go(func() {
			for i := 0; i == 0 || !done.Load(); i++ {
				file := fmt.Sprintf(`{"format":"tidemark-session","version":1,"session":{"id":"%08d-%04d-4000-8000-000000000000","created_at":"2026-11-15T22:17:32Z"},"entries":[
{"seq":1,"depth":1,"nodes":1,"at":"2026-11-15T22:17:32Z","kind":"message","role":"user","blocks":[{"type":"text","text":"the tide of bulk"}]}]}`, n, i)
				got, err := transfer.Upload(postgres.Background(t.Context()), bulk, "x.json", strings.NewReader(file), process.Self("import"), &open.Options{})
				if err != nil {
					t.Errorf("import %d of %d: %v", i, n, err)
					return
				}
				imported.Add(int64(len(got)))
				if i == 0 {
					begun <- struct{}{}
				}
			}
		})
	}
	for range 4 {
		<-begun
	}
	w := calm.Create(tidemark.Session{Title: "calm"}, process.Self("test"))
	for i := range 15 {
		if _, err := w.Append(t.Context(), tidemark.Say(tidemark.User, fmt.Sprintf("tide number %d", i))); err != nil {
			t.Fatalf("append %d: %v", i, err)
		}
		query, err := search.Parse("tide")
		if err != nil {
			t.Fatal(err)
		}
		answer, err := calm.Search(t.Context(), store.Question{}.About(query))
		if err != nil {
			t.Fatalf("search %d: %v", i, err)
		}
		if len(answer.Found) != i+1 {
			t.Errorf("search %d finds %d", i, len(answer.Found))
		}
	}
	done.Store(true)
	importing.Wait()
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	there := int64(0)
	for _, err := range bulk.Sessions(t.Context(), store.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		there++
	}
	if there != imported.Load() || there < 4 {
		t.Errorf("%d sessions are there, %d were imported", there, imported.Load())
	}
}
