package postgres

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

func TestADatabaseThatIsAwayIsSaidToBe(t *testing.T) {
	const nowhere = "postgres://somebody:secret@/none?host=/nowhere/at/all"
	_, err := Connect(t.Context(), nowhere, nil)
	if !errors.Is(err, ErrUnavailable) || !errors.Is(err, tidemark.ErrStorage) || strings.Contains(err.Error(), "secret") {
		t.Errorf("Connect = %v, want ErrUnavailable", err)
	}
	if err := Migrate(t.Context(), nowhere, "server"); !errors.Is(err, ErrUnavailable) {
		t.Errorf("Migrate = %v, want ErrUnavailable", err)
	}
	for _, url := range []string{"", "sqlite:x", "postgres://a@b/c?sslmode=maybe", "postgres://user:pass%zz@host/db"} {
		if _, err := Connect(t.Context(), url, nil); !errors.Is(err, tidemark.ErrInvalid) {
			t.Errorf("Connect(%q) = %v, want ErrInvalid", url, err)
		}
	}
}

// The cluster asks nobody for a password; a role that may not log in is refused
// the same way.
func TestWhoIsNotLetInIsDeniedAndADatabaseThatIsNotThereIsNoStore(t *testing.T) {
	made := readyAlone(t)
	tell(t, made.Super, `alter role `+made.Role+` nologin`)
	if _, err := Connect(t.Context(), made.Server, nil); !errors.Is(err, tidemark.ErrDenied) {
		t.Errorf("Connect as a role that may not = %v, want ErrDenied", err)
	}
	tell(t, made.Super, `alter role `+made.Role+` login`)
	u, err := url.Parse(made.Server)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/nothing"
	if _, err := Connect(t.Context(), u.String(), nil); !errors.Is(err, tidemark.ErrNoStore) {
		t.Errorf("Connect to no database = %v, want ErrNoStore", err)
	}
}

func TestConnectionsThatWereCutAreMadeAnew(t *testing.T) {
	made := ready(t, Migration{})
	b := connected(t, made.Server, nil).For(ada)
	log := key("session", string(session))
	for seq := int64(1); seq <= 5; seq++ {
		keep(t, b, tidemark.Batch{Appends: []tidemark.Append{{Log: log, Lines: []tidemark.Line{line(log, seq, "user", "{}")}}}})
		tell(t, made.Super, `select pg_terminate_backend(pid) from pg_stat_activity where usename = '`+made.Role+`'`)
		if r, err := b.Get(t.Context(), log); err != nil || r.Head.Length != seq {
			t.Fatalf("Get = %d, %v, want %d", r.Head.Length, err, seq)
		}
	}
}

func TestAPrincipalOfNoUUIDsIsRefused(t *testing.T) {
	db := connected(t, ready(t, Migration{}).Server, nil)
	for _, p := range []tidemark.Principal{{}, {Tenant: "acme", User: "ada"}, {Tenant: ada.Tenant, User: ada.User, Workspaces: []string{"crew"}}} {
		b := db.For(p)
		if _, err := b.Get(t.Context(), key("agent", "a")); !errors.Is(err, tidemark.ErrInvalid) {
			t.Errorf("Get for %+v = %v, want ErrInvalid", p, err)
		}
		if err := commit(b, tidemark.Batch{}); !errors.Is(err, tidemark.ErrInvalid) {
			t.Errorf("Commit for %+v = %v, want ErrInvalid", p, err)
		}
		if err := b.Share(t.Context(), session, tidemark.Scope{With: tidemark.Private}); !errors.Is(err, tidemark.ErrInvalid) {
			t.Errorf("Share for %+v = %v, want ErrInvalid", p, err)
		}
	}
}

func TestAURLNamesItsPrincipal(t *testing.T) {
	for url, want := range map[string]tidemark.Principal{
		"postgres://h/db":                      tidemark.TenantOf("default", ""),
		"postgres://h/db?tenant=acme":          tidemark.TenantOf("acme", ""),
		"postgres://h/db?tenant=acme&as=ada":   ada,
		"postgresql://h/db?as=ada&sslmode=off": tidemark.TenantOf("default", "ada"),
	} {
		if got, err := PrincipalIn(url); err != nil || got.User != want.User || got.Tenant != want.Tenant || got.Workspaces != nil {
			t.Errorf("PrincipalIn(%s) = %+v, %v", url, got, err)
		}
	}
	p, err := PrincipalIn("postgres://h/db?tenant=acme&as=ada&workspace=crew&workspace=other")
	if err != nil || len(p.Workspaces) != 2 || p.Workspaces[0] != crew || p.Workspaces[1] != other {
		t.Errorf("workspaces %v, %v", p.Workspaces, err)
	}
}

func TestOpenServesOnePrincipalAndClosesTheDatabase(t *testing.T) {
	made := ready(t, Migration{})
	b, err := Open(t.Context(), made.Server+"&tenant=acme&as=ada", nil)
	if err != nil {
		t.Fatal(err)
	}
	keep(t, b, tidemark.Batch{Puts: []tidemark.Record{record(key("agent", "a"), 1, "{}")}})
	db := connected(t, made.Server, nil)
	if _, err := db.For(ada).Get(t.Context(), key("agent", "a")); err != nil {
		t.Errorf("Get = %v", err)
	}
	if size, err := db.Size(t.Context()); err != nil || size < 8192 {
		t.Errorf("Size = %d, %v", size, err)
	}
	b.Close()
	if err := b.db.Ping(t.Context()); err == nil {
		t.Error("the pool is open after Close")
	}
	if err := db.For(ada).Close(); err != nil || db.Ping(t.Context()) != nil {
		t.Error("closing a Backend closed the pool of others")
	}
}

// Names that PostgreSQL cannot hold as text come back as they were.
func TestNamesOfAnyBytesSurvive(t *testing.T) {
	b := connected(t, ready(t, Migration{}).Server, nil).For(ada)
	log := key("session", "s")
	for i, name := range []string{"a\x00b", "\xff\xfe", "\x01", "\x0161", "ü"} {
		r := record(key("agent", "a"), int64(i+1), "{}")
		r.Group, r.State = name, name
		l := line(log, int64(i+1), name, "{}")
		l.Key = name
		l.Sum = l.Checksum(log)
		keep(t, b, tidemark.Batch{Puts: []tidemark.Record{r}, Appends: []tidemark.Append{{Log: log, Lines: []tidemark.Line{l}}}})
		if got := listed(t, b, tidemark.Query{Kind: "agent", Group: name, State: name}); len(got) != 1 || got[0].Group != name || got[0].State != name {
			t.Errorf("%q: listed %+v", name, got)
		}
		l.Seq++
		l.Sum = l.Checksum(log)
		if err := commit(b, tidemark.Batch{Appends: []tidemark.Append{{Log: log, Lines: []tidemark.Line{l}}}}); !errors.Is(err, tidemark.ErrExists) {
			t.Errorf("%q again = %v, want ErrExists", name, err)
		}
	}
	for l, err := range b.Lines(t.Context(), log) {
		if err != nil || l.Key != l.Kind {
			t.Errorf("%+v, %v", l, err)
		}
	}
}

// Two processes that change the same things, named in another order, wait for
// each other and never in a ring.
func TestBatchesThatCrossAllGetThrough(t *testing.T) {
	made := ready(t, Migration{})
	one, two := connected(t, made.Server, nil).For(ada), connected(t, made.Server, nil).For(ada)
	a, c := key("agent", "a"), key("agent", "c")
	keep(t, one, tidemark.Batch{Puts: []tidemark.Record{record(a, 1, "{}"), record(c, 1, "{}")}})
	done := make(chan error, 2)
	for i, b := range []*Backend{one, two} {
		first, second := a, c
		if i == 1 {
			first, second = c, a
		}
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			for n := 0; n < 30; {
				x, err := b.Get(ctx, first)
				if err != nil {
					done <- err
					return
				}
				y, err := b.Get(ctx, second)
				if err != nil {
					done <- err
					return
				}
				err = commit(b, tidemark.Batch{Puts: []tidemark.Record{record(first, x.Version+1, "{}"), record(second, y.Version+1, "{}")}})
				switch {
				case err == nil:
					n++
				case !errors.Is(err, tidemark.ErrConflict):
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if r, err := one.Get(t.Context(), a); err != nil || r.Version != 61 {
		t.Errorf("version %d, %v, want 61", r.Version, err)
	}
}
