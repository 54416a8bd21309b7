package remote_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	backend "github.com/tidemark-sessions/tidemark/backend/remote"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/seal"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/transfer/remote"
	"github.com/tidemark-sessions/tidemark/workshop/placetest"
)

func TestAServerKeepsItsPromises(t *testing.T) {
	t.Parallel()
	s := placetest.Server(t)
	for _, url := range []string{s.URL, s.URL + "?place=work"} {
		keepsItsPromises(t, openPlace(t, url, s.As("acme/ada")))
	}
}

func TestOthersOfAServerSeeNothingOfARemote(t *testing.T) {
	t.Parallel()
	s := placetest.Server(t)
	ctx := t.Context()
	ada := openPlace(t, s.URL, s.As("acme/ada"))
	if err := ada.Replace(ctx, "m/1/head", []byte("ada's")); err != nil {
		t.Fatal(err)
	}
	others := map[string]remote.Blobs{"a teammate": openPlace(t, s.URL, s.As("acme/cy")), "another tenant": openPlace(t, s.URL, s.As("evil/ada")), "another place": openPlace(t, s.URL+"?place=other", s.As("acme/ada"))}
	for name, p := range others {
		if _, err := p.Get(ctx, "m/1/head"); !errors.Is(err, tidemark.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
		if got := list(t, p, ""); got != nil {
			t.Errorf("%s: %q", name, got)
		}
		if err := errors.Join(p.Delete(ctx, "m/1/head"), p.PutNew(ctx, "m/1/head", []byte(name))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got, err := ada.Get(ctx, "m/1/head"); err != nil || string(got) != "ada's" {
		t.Errorf("after that: %q, %v", got, err)
	}
	if _, err := remote.Open(ctx, s.URL, s.As("nobody")); !errors.Is(err, tidemark.ErrDenied) || !strings.Contains(hint.Of(err), "TIDEMARK_TOKEN") {
		t.Errorf("without a token: %v; %s", err, hint.Of(err))
	}
	for _, url := range []string{s.URL + "?place=A", s.URL + "?x=y", "http://example.org", "https://ada:secret@example.org", "https://"} {
		if _, err := remote.Open(ctx, url, nil); !errors.Is(err, tidemark.ErrInvalid) {
			t.Errorf("%s: %v", url, err)
		}
	}
	if _, err := remote.Open(ctx, "http://127.0.0.1:1", nil); !errors.Is(err, tidemark.ErrStorage) || hint.Of(err) == "" {
		t.Errorf("where nobody is: %v; %s", err, hint.Of(err))
	}
}

// TestARemoteIsBesideTheStoreOfItsUser has blobs first and a sealed store of the same
// user after that: neither is in the way of the other.
func TestARemoteIsBesideTheStoreOfItsUser(t *testing.T) {
	t.Parallel()
	s := placetest.Server(t)
	ctx := t.Context()
	p := openPlace(t, s.URL, s.As("acme/ada"))
	if err := p.Replace(ctx, "m/1/head", []byte{0xff, 0}); err != nil {
		t.Fatal(err)
	}
	inner, err := backend.Open(ctx, s.URL, &backend.Options{Token: s.As("acme/ada").Token(s.URL)})
	if err != nil {
		t.Fatal(err)
	}
	defer inner.Close()
	if empty, err := open.IsEmpty(ctx, inner); err != nil || !empty {
		t.Errorf("before there is a store: %v, %v", empty, err)
	}
	_, slot, err := seal.NewIdentity("ada")
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := seal.Create(ctx, inner, slot)
	if err != nil {
		t.Fatal(err)
	}
	st := store.New(sealed, nil)
	w := st.Create(tidemark.Session{Title: "tea"}, store.Self("test"))
	if _, err := w.Append(ctx, tidemark.Say(tidemark.User, "hello")); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(ctx); err != nil {
		t.Fatal(err)
	}
	for k, err := range sealed.Walk(ctx, tidemark.Key{}) {
		if err != nil || strings.HasPrefix(k.Kind, "blob") {
			t.Errorf("the store has %s, %v", k, err)
		}
	}
	if got, err := p.Get(ctx, "m/1/head"); err != nil || len(got) != 2 {
		t.Errorf("the blob: %q, %v", got, err)
	}
	if got := list(t, p, ""); len(got) != 1 {
		t.Errorf("the blobs: %q", got)
	}
}
