package wire

import (
	"context"
	"flag"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/backendtest"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/backend/remote"
	"github.com/tidemark-sessions/tidemark/backend/sqlite"
	"github.com/tidemark-sessions/tidemark/seal"
)

const backendToken = "open-sesame"

// backendServed serves a Backend on a real connection, to who has the token.
func backendServed(t testing.TB, be tidemark.Backend) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(Handler(func(r *http.Request) (tidemark.Backend, error) {
		if r.Header.Get("Authorization") != "Bearer "+backendToken {
			return nil, tidemark.ErrDenied
		}
		return be, nil
	}))
	t.Cleanup(s.Close)
	return s
}

func backendTokens(context.Context) (string, error) { return backendToken, nil }

// backendOpened is a client of the server at an address.
func backendOpened(t testing.TB, address string) *remote.Backend {
	t.Helper()
	b, err := remote.Open(context.Background(), address, &remote.Options{Token: backendTokens})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func backendOverMemory(t testing.TB) func() tidemark.Backend {
	s := backendServed(t, memory.New())
	return func() tidemark.Backend { return backendOpened(t, s.URL) }
}

func backendOverSQLite(t testing.TB) func() tidemark.Backend {
	kept, err := sqlite.Open(context.Background(), filepath.Join(t.TempDir(), "store.db"), &sqlite.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	s := backendServed(t, kept)
	t.Cleanup(func() {
		s.Close()
		kept.Close()
	})
	return func() tidemark.Backend { return backendOpened(t, s.URL) }
}

// backendSealed makes sealed places of places.
func backendSealed(t testing.TB, open func() tidemark.Backend) func() tidemark.Backend {
	contents := seal.NewKeyFile()
	slot, err := seal.FileSlot("test", contents)
	if err != nil {
		t.Fatal(err)
	}
	key, err := seal.KeyFile(contents)
	if err != nil {
		t.Fatal(err)
	}
	create := sync.OnceFunc(func() {
		be := open()
		defer be.Close()
		if _, err := seal.Create(context.Background(), be, slot); err != nil {
			t.Fatal(err)
		}
	})
	return func() tidemark.Backend {
		create()
		b, err := seal.Open(context.Background(), open(), key)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
}

// backendHistories bounds how many random histories a suite runs: each call is
// a request, and what they look for is the wire, not the backend behind it.
func backendHistories(t *testing.T, n string) {
	was := flag.Lookup("rapid.checks").Value.String()
	flag.Set("rapid.checks", n)
	t.Cleanup(func() { flag.Set("rapid.checks", was) })
}

func TestBackendOverTheWireKeepsTheContract(t *testing.T) {
	backendHistories(t, "20")
	backendtest.Run(t, backendOverMemory)
}

func TestBackendOverTheWireAndSQLiteKeepsTheContract(t *testing.T) {
	backendHistories(t, "5")
	backendtest.Run(t, backendOverSQLite)
}

func TestSealedBackendOverTheWireKeepsTheContract(t *testing.T) {
	backendHistories(t, "5")
	backendtest.Run(t, func(t testing.TB) func() tidemark.Backend { return backendSealed(t, backendOverMemory(t)) })
}
