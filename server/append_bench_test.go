package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/internal/process"
	"github.com/tidemark-sessions/tidemark/search"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/workshop/pgtest"
)

// discard is a ResponseWriter that keeps the status.
type discard struct {
	header http.Header
	status int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(status int)      { d.status = status }

// BenchmarkAppendUnderALease is an append of one entry through the whole server,
// without a network and a client: 64 sessions, each with its lease, of one caller.
func BenchmarkAppendUnderALease(b *testing.B) {
	kept := memory.New()
	backends := map[string]func(b *testing.B) func(tidemark.Principal) tidemark.Backend{
		"memory": func(*testing.B) func(tidemark.Principal) tidemark.Backend {
			return func(tidemark.Principal) tidemark.Backend { return kept }
		},
		"postgres": func(b *testing.B) func(tidemark.Principal) tidemark.Backend {
			served := connectTo(b, migrated(b, pgtest.Start(b).Database(b)), nil)
			return func(p tidemark.Principal) tidemark.Backend { return served.For(p) }
		},
	}
	for name, backend := range backends {
		b.Run(name, func(b *testing.B) {
			of := backend(b)
			var mu sync.Mutex
			stores := make(map[string]*store.Store)
			s, err := New(Options{Auth: people(), Version: "test", Holder: process.Self("test"),
				Open: func(_ context.Context, p tidemark.Principal) (*store.Store, error) {
					mu.Lock()
					defer mu.Unlock()
					if stores[p.Tenant+p.User] == nil {
						stores[p.Tenant+p.User] = store.New(of(p), &store.Options{Places: search.EachWord})
					}
					return stores[p.Tenant+p.User], nil
				}})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Drain()
			call := func(path string, body []byte, w http.ResponseWriter) {
				r := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body))
				r.Header.Set("Content-Type", "application/json")
				r.Header.Set("Authorization", "Bearer "+wA)
				s.ServeHTTP(w, r)
			}
			const sessions = 64
			var paths [sessions]string
			var bodies [sessions][]byte
			for i := range paths {
				w := httptest.NewRecorder()
				call("/api/v1/sessions", []byte(`{"title":"bench","entries":[{"role":"user","content":"hello"}]}`), w)
				var made struct{ ID string }
				if err := json.Unmarshal(w.Body.Bytes(), &made); err != nil || w.Code != http.StatusCreated {
					b.Fatal(w.Code, w.Body, err)
				}
				paths[i] = "/api/v1/sessions/" + made.ID
				w = httptest.NewRecorder()
				call(paths[i]+"/lease", []byte(`{}`), w)
				var l api.LeaseInfo
				if err := json.Unmarshal(w.Body.Bytes(), &l); err != nil || l.Token == "" {
					b.Fatal(w.Code, w.Body, err)
				}
				bodies[i] = fmt.Appendf(nil, `{"entries":[{"role":"assistant","blocks":[{"type":"text","text":%q}]}],"lease":%q}`, strings.Repeat("tide ", 30), l.Token)
			}
			var next atomic.Int64
			b.SetParallelism(sessions / 2) // of two processors
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				i := next.Add(1) % sessions
				for pb.Next() {
					w := &discard{header: make(http.Header)}
					if call(paths[i]+"/entries", bodies[i], w); w.status != http.StatusCreated {
						b.Error("status", w.status)
						return
					}
				}
			})
		})
	}
}
