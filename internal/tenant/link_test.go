package tenant_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/store"
)

func aLink(letter string, life time.Duration) tenant.Link {
	return tenant.Link{Name: strings.Repeat(letter, 26), Tenant: "acme", User: "ada", ExpiresAt: time.Now().Add(life)}
}

func putLink(t *testing.T, s place, l tenant.Link, sealed string) tenant.Link {
	t.Helper()
	l, err := s.PutLink(t.Context(), l, []byte(sealed))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestALinkIsOpenedByItsNameAndEndedByItsOwner(t *testing.T) {
	onEach(t, func(t *testing.T, s place) {
		ctx := t.Context()
		l := putLink(t, s, aLink("a", time.Hour), "sealed")
		putLink(t, s, aLink("a", time.Hour), "sealed") // once more, by who got no answer
		if _, err := s.PutLink(ctx, aLink("a", time.Hour), []byte("other")); !errors.Is(err, tidemark.ErrExists) {
			t.Errorf("another copy under the name: %v", err)
		}
		other := aLink("a", time.Hour)
		other.User = "cy"
		if _, err := s.PutLink(ctx, other, []byte("sealed")); !errors.Is(err, tidemark.ErrExists) {
			t.Errorf("the name of another owner: %v", err)
		}
		if got, sealed, err := s.OpenLink(ctx, l.Name); err != nil || string(sealed) != "sealed" || got.State != tenant.Active {
			t.Errorf("opened: %+v, %q, %v", got, sealed, err)
		}
		if _, err := s.RevokeLink(ctx, "acme", "cy", l.Name); !errors.Is(err, tidemark.ErrNotFound) {
			t.Errorf("revoked by somebody else: %v", err)
		}
		for range 2 {
			if l, err := s.RevokeLink(ctx, "acme", "ada", l.Name); err != nil || l.State != tenant.Revoked || l.EndedAt.IsZero() {
				t.Errorf("revoked: %+v, %v", l, err)
			}
		}
		if got, sealed, err := s.OpenLink(ctx, l.Name); err != nil || sealed != nil || got.State != tenant.Revoked {
			t.Errorf("after that: %+v, %q, %v", got, sealed, err)
		}
		if _, err := s.Backend().Get(ctx, tidemark.Key{Kind: "linkdata", ID: l.Name}); !errors.Is(err, tidemark.ErrNotFound) {
			t.Errorf("the copy: %v", err)
		}
		for _, bad := range []tenant.Link{{Name: "short", ExpiresAt: time.Now().Add(time.Hour)}, aLink("A", time.Hour), aLink("b", -time.Hour), aLink("b", 400*24*time.Hour)} {
			if _, err := s.PutLink(ctx, bad, []byte("sealed")); !errors.Is(err, tidemark.ErrInvalid) {
				t.Errorf("%+v: %v", bad, err)
			}
		}
		if _, _, err := s.OpenLink(ctx, "../etc"); !errors.Is(err, tidemark.ErrNotFound) {
			t.Errorf("no name: %v", err)
		}
	})
}

func TestALinkExpiresAndIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := placeOf(store.New(memory.New(), nil))
		ctx := context.Background()
		l := putLink(t, s, aLink("a", time.Hour), "sealed")
		putLink(t, s, aLink("b", 100*24*time.Hour), "sealed")
		time.Sleep(time.Hour)
		// It leads nowhere, before anybody has swept.
		if got, sealed, err := s.OpenLink(ctx, l.Name); err != nil || sealed != nil || got.State != tenant.Expired {
			t.Errorf("after an hour: %+v, %q, %v", got, sealed, err)
		}
		if err := s.SweepLinks(ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Backend().Get(ctx, tidemark.Key{Kind: "linkdata", ID: l.Name}); !errors.Is(err, tidemark.ErrNotFound) {
			t.Errorf("the copy: %v", err)
		}
		if got, err := s.Link(ctx, l.Name); err != nil || got.State != tenant.Expired {
			t.Errorf("after the sweep: %+v, %v", got, err)
		}
		time.Sleep(31 * 24 * time.Hour)
		if err := s.SweepLinks(ctx); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Link(ctx, l.Name); !errors.Is(err, tidemark.ErrNotFound) {
			t.Errorf("after a month: %+v, %v", got, err)
		}
		n := 0
		for l, err := range s.Links(ctx, "acme", "ada", "") {
			if n++; err != nil || l.State != tenant.Active {
				t.Errorf("left: %+v, %v", l, err)
			}
		}
		if n != 1 {
			t.Errorf("%d links are left", n)
		}
	})
}
