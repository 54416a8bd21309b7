package serve_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/postgres"
	"github.com/tidemark-sessions/tidemark/internal/process"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/server/serve"
	"github.com/tidemark-sessions/tidemark/workshop/pgtest"
)

// TestAnIndexThatFailedIsTakenUpAgain refuses whatever the index writes for a while.
func TestAnIndexThatFailedIsTakenUpAgain(t *testing.T) {
	t.Parallel()
	made := pgtest.Start(t).Database(t)
	if err := postgres.Migrate(t.Context(), made.Owner, made.Role); err != nil {
		t.Fatal(err)
	}
	stores, err := serve.OpenStores(t.Context(), made.Server, false, func(open.Access) *open.Options { return &open.Options{} }, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stores.Close() })
	st, err := stores.Store(t.Context(), tidemark.TenantOf("harbour", "jo"))
	if err != nil {
		t.Fatal(err)
	}
	until := func(what string, is func() bool) {
		t.Helper()
		for !is() {
			select {
			case <-t.Context().Done():
				t.Fatal(what)
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	super(t, made, `create function public.refuse() returns trigger language plpgsql as $$ begin raise exception 'no room for an index'; end $$`)
	super(t, made, `create trigger refuse before insert on tidemark.log for each row when (new.kind = 'segment') execute function public.refuse()`)
	w := st.Create(tidemark.Session{}, process.Self("test"))
	if _, err := w.Append(t.Context(), tidemark.Say(tidemark.User, "count the gulls")); err != nil {
		t.Fatal(err)
	}
	until("nothing failed", func() bool {
		for _, m := range stores.Measure() {
			if m.Name == "tidemark_index_failures_total" && m.Values[0].Value > 0 {
				return true
			}
		}
		return false
	})
	if st.IndexLag() <= 0 {
		t.Error("what is not indexed does not wait")
	}
	super(t, made, `drop trigger refuse on tidemark.log`)
	until("it is never indexed", func() bool {
		n, err := st.Unindexed(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		return n == 0
	})
	until("it still waits", func() bool { return st.IndexLag() == 0 })
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestTheKeyThatOpenedAStoreIsTold(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	options := func(access open.Access) *open.Options {
		return &open.Options{Access: access, Environ: []string{"HOME=" + dir, "XDG_CONFIG_HOME=" + dir}}
	}
	stores, err := serve.OpenStores(t.Context(), "sqlite:"+filepath.Join(dir, "sessions.db"), true, options, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stores.Close() })
	p, err := stores.Principal()
	if err != nil {
		t.Fatal(err)
	}
	is, err := stores.Inspect(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if !is.Sealed || len(is.Keys) != 1 || !is.Keys[0].Opened {
		t.Errorf("of a store with one key the server says %+v", is)
	}
}
