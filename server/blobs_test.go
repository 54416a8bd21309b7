package server

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	backend "github.com/tidemark-sessions/tidemark/backend/remote"
	"github.com/tidemark-sessions/tidemark/internal/process"
	"github.com/tidemark-sessions/tidemark/internal/records"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/server/auth"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/transfer/remote"
	"github.com/tidemark-sessions/tidemark/transfer/sync"
)

// byToken opens remotes with a token.
func byToken(text string) *remote.Options {
	return &remote.Options{Token: func(string) func(context.Context) (string, error) {
		return func(context.Context) (string, error) { return text, nil }
	}}
}

// tokenServer is a server that lets in by service tokens of a directory, with one
// store for all.
func tokenServer(t *testing.T, change func(*Options)) (s *testServer, token func(scopes ...string) string, b tidemark.Backend) {
	t.Helper()
	b = memory.New()
	users := tenant.NewDirectory(store.New(memory.New(), nil).Records())
	org, err := users.CreateTenant(t.Context(), tenant.Tenant{Name: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	s = newTestServer(t, func(o *Options) {
		o.Auth = auth.ServiceTokens(users)
		o.Open = func(context.Context, tidemark.Principal) (*store.Store, error) { return store.New(b, nil), nil }
		o.Backend = func(context.Context, tidemark.Principal) (tidemark.Backend, error) { return b, nil }
		change(o)
	})
	return s, func(scopes ...string) string {
		t.Helper()
		_, text, err := users.CreateToken(t.Context(), tenant.Token{Tenant: org.ID, Name: "laptop", Role: tenant.RoleWriter, Scopes: scopes})
		if err != nil {
			t.Fatal(err)
		}
		return text
	}, b
}

// TestATokenForBlobsLeadsToNothingElse syncs by a token of the scope blobs, and tries
// everything else that the calls of a store lead to.
func TestATokenForBlobsLeadsToNothingElse(t *testing.T) {
	s, token, b := tokenServer(t, func(*Options) {})
	kept := keepUsed(t, store.New(b, nil), tidemark.Session{Title: "theirs"}, 1, 0, time.Now())
	text := token(auth.BlobsScope)
	st := store.New(memory.New(), nil)
	keepUsed(t, st, tidemark.Session{Title: "mine"}, 1, 0, time.Now())
	places := byToken(text)
	if err := sync.Of(st.Records(), "laptop", places).Add(t.Context(), "home", s.URL, ""); err != nil {
		t.Fatal(err)
	}
	r, err := sync.Run(t.Context(), st, "home", sync.Options{Holder: process.Self("test"), Host: "laptop", Places: places, Push: true, Pull: true})
	if err != nil || len(r.Problems) > 0 || r.Pushed.Sessions != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	be, err := backend.Open(t.Context(), s.URL, &backend.Options{Token: places.Token("")})
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	key := store.LogKey(kept, "")
	if _, err := be.Get(t.Context(), key); !errors.Is(err, tidemark.ErrNotFound) {
		t.Errorf("get: %v", err)
	}
	for range be.Lines(t.Context(), key) {
		t.Error("it reads lines of a session")
	}
	for _, kind := range []string{key.Kind, records.KindRemote, records.KindLease} {
		for r, err := range be.List(t.Context(), tidemark.Query{Kind: kind, Order: tidemark.ByID}) {
			t.Errorf("it lists %s %s, %v", kind, r.ID, err)
		}
	}
	for k, err := range be.Walk(t.Context(), tidemark.Key{}) {
		if err != nil || !records.IsBlob(k.Kind) {
			t.Errorf("it walks to %s, %v", k, err)
		}
	}
	rec, err := records.Put(tidemark.Key{Kind: records.KindRemote, ID: "machine"}, 0, "x")
	if err == nil {
		_, err = be.Commit(t.Context(), tidemark.Batch{ID: tidemark.NewBatchID(), At: time.Now().UTC().Truncate(time.Microsecond), Puts: []tidemark.Record{rec}})
	}
	if !errors.Is(err, tidemark.ErrDenied) {
		t.Errorf("commit: %v", err)
	}
	if err := be.Share(t.Context(), kept, tidemark.Scope{With: "tenant"}); !errors.Is(err, tidemark.ErrDenied) {
		t.Errorf("share: %v", err)
	}
	for _, path := range []string{"/api/v1/sessions", "/api/v1/sessions/" + string(kept), "/api/v1/search?q=tide", "/api/v1/links"} {
		if a := s.call(t, text, "GET", path, nil); a.Status != 403 {
			t.Errorf("%s: %d", path, a.Status)
		}
	}
	if _, err := backend.Open(t.Context(), s.URL, &backend.Options{Token: byToken(token("sessions")).Token("")}); !errors.Is(err, tidemark.ErrDenied) {
		t.Errorf("a token for sessions: %v", err)
	}
}

// TestAServerIsFullForAUser fills what a user may keep: the next blob is refused by a
// word that sync passes on, the store here is whole, and what is removed counts at
// once.
func TestAServerIsFullForAUser(t *testing.T) {
	s, token, b := tokenServer(t, func(o *Options) { o.Limits.User.Blobs = 6000 })
	places := byToken(token(auth.BlobsScope))
	st := store.New(memory.New(), nil)
	if err := sync.Of(st.Records(), "laptop", places).Add(t.Context(), "home", s.URL, ""); err != nil {
		t.Fatal(err)
	}
	meet := func() (sync.Report, error) {
		return sync.Run(t.Context(), st, "home", sync.Options{Holder: process.Self("test"), Host: "laptop", Places: places, Push: true, Pull: true})
	}
	keepUsed(t, st, tidemark.Session{Title: "small"}, 1, 0, time.Now())
	if _, err := meet(); err != nil {
		t.Fatal(err)
	}
	w := st.Create(tidemark.Session{Title: "large"}, process.Self("test"))
	var random [9000]byte
	for i := range random {
		random[i] = byte(' ' + 1 + (i*i*7919+i*31)%90)
	}
	if _, err := w.Append(t.Context(), tidemark.Say(tidemark.User, strings.ToUpper(tidemark.NewBatchID())+string(random[:]))); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	p, err := remote.Open(t.Context(), s.URL, places)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if err := p.PutNew(t.Context(), "m/other/filler", []byte(strings.Repeat("x", 4000))); err != nil {
		t.Fatal(err)
	}
	if _, err = meet(); !errors.Is(err, tidemark.ErrStorage) || !strings.Contains(err.Error(), "full for this user") || !strings.Contains(err.Error(), "6000") {
		t.Errorf("a full server: %v", err)
	}
	for err := range st.VerifyAll(t.Context(), nil) {
		t.Errorf("the store here: %v", err)
	}
	if got := held(t, b); got > 6000 {
		t.Errorf("it keeps %d bytes", got)
	}
	if err := p.Delete(t.Context(), "m/other/filler"); err != nil {
		t.Fatal(err)
	}
	if err := p.Replace(t.Context(), "m/other/head", []byte(strings.Repeat("x", 2000))); err != nil {
		t.Error("there is room again:", err)
	}
	// A list that lies about a size is refused.
	be, err := backend.Open(t.Context(), s.URL, &backend.Options{Token: places.Token("")})
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	for name, listed := range map[string]string{"smaller": `{"bytes":1}`, "negative": `{"bytes":-5}`, "nothing": `{}`} {
		puts := []tidemark.Record{{Key: tidemark.Key{Kind: records.KindBlobData, ID: "home." + name}, Version: 1, Body: []byte("a longer one")}, {Key: tidemark.Key{Kind: records.KindBlob, ID: "home." + name}, Version: 1, Body: []byte(listed)}}
		for i := range puts {
			puts[i].Sum = puts[i].Checksum()
		}
		for _, some := range [][]tidemark.Record{puts, puts[:1]} {
			_, err := be.Commit(t.Context(), tidemark.Batch{ID: tidemark.NewBatchID(), At: time.Now().UTC().Truncate(time.Microsecond), Puts: some})
			if !errors.Is(err, tidemark.ErrInvalid) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// held adds up what a backend keeps in blobs.
func held(t *testing.T, b tidemark.Backend) (bytes int) {
	t.Helper()
	for r, err := range b.List(t.Context(), tidemark.Query{Kind: records.KindBlobData, Order: tidemark.ByID}) {
		if err != nil {
			t.Fatal(err)
		}
		bytes += len(r.Body)
	}
	return bytes
}
