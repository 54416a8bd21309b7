package postgres

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/workshop/pgtest"
)

func TestWhatADatabaseRefusesIsToldApart(t *testing.T) {
	t.Parallel()
	db := &Database{place: "db.example/tidemark"}
	for code, c := range map[string]struct {
		is   []error
		exit int
	}{
		"53100": {[]error{tidemark.ErrStorage, syscall.ENOSPC}, 14},
		"53200": {[]error{tidemark.ErrStorage}, 14},
		"58030": {[]error{tidemark.ErrStorage}, 14},
		"57014": {[]error{tidemark.ErrStorage}, 14},
		"40001": {[]error{tidemark.ErrStorage}, 14},
		"57P01": {[]error{tidemark.ErrStorage, ErrUnavailable}, 14},
		"53300": {[]error{tidemark.ErrStorage, ErrUnavailable}, 14},
		"25006": {[]error{tidemark.ErrStorage, ErrUnavailable, ErrReadOnly}, 14},
		"XX001": {[]error{tidemark.ErrCorrupt}, 13},
		"XX002": {[]error{tidemark.ErrCorrupt}, 13},
		"42501": {[]error{tidemark.ErrDenied}, 4},
		"3D000": {[]error{tidemark.ErrNoStore}, 10},
		"42703": {nil, 1}, // a column that is not there
		"22P02": {nil, 1}, // a value of another type
		"XX000": {nil, 1},
	} {
		err := db.named(fmt.Errorf("insert: %w", &pgconn.PgError{Code: code, Severity: "ERROR", Message: "refused"}))
		for _, want := range c.is {
			if !errors.Is(err, want) {
				t.Errorf("%s: %v is not %v", code, err, want)
			}
		}
		if got := tidemark.CodeOf(err).Exit; got != c.exit {
			t.Errorf("%s: %v has exit code %d, want %d", code, err, got, c.exit)
		}
		if full := errors.Is(err, syscall.ENOSPC); full != (code == "53100") {
			t.Errorf("%s: %v is a full disk: %v", code, err, full)
		}
	}
}

func TestAStandbyIsReadAndSaysThatItTakesNoWrites(t *testing.T) {
	t.Parallel()
	primary := pgtest.New(t, pgtest.Options{Durable: true})
	made := primary.Database(t)
	if err := Migrate(t.Context(), made.Owner, made.Role); err != nil {
		t.Fatal(err)
	}
	log := key("session", string(session))
	first := tidemark.Batch{Appends: []tidemark.Append{{Log: log, Lines: []tidemark.Line{line(log, 1, "user", "{}")}}}}
	keep(t, connected(t, made.Server, nil).For(ada), first)
	standby := pgtest.NewStandby(t, primary, true)

	there := connected(t, made.At(standby).Server, nil)
	if err := there.Writable(t.Context()); !errors.Is(err, ErrReadOnly) || !errors.Is(err, ErrUnavailable) {
		t.Errorf("Writable of a standby = %v, want ErrReadOnly", err)
	}
	b := there.For(ada)
	if r, err := b.Get(t.Context(), log); err != nil || r.Head.Length != 1 {
		t.Errorf("Get at a standby = %d, %v, want 1", r.Head.Length, err)
	}
	second := tidemark.Batch{Appends: []tidemark.Append{{Log: log, Lines: []tidemark.Line{line(log, 2, "user", "{}")}}}}
	if err := commit(b, second); !errors.Is(err, ErrReadOnly) || !strings.Contains(err.Error(), "takes no writes") {
		t.Errorf("Commit at a standby = %v, want ErrReadOnly", err)
	}

	// The same program goes on where the primary went, once there is one.
	anywhere := connected(t, made.Anywhere(standby), nil)
	if err := anywhere.Writable(t.Context()); err != nil {
		t.Errorf("Writable with the primary up: %v", err)
	}
	keep(t, anywhere.For(ada), second)
	primary.Kill(t)
	if err := standby.Promote(); err != nil {
		t.Fatal(err)
	}
	if err := there.Writable(t.Context()); err != nil {
		t.Errorf("Writable after it was promoted: %v", err)
	}
	if r, err := anywhere.For(ada).Get(t.Context(), log); err != nil || r.Head.Length != 2 {
		t.Errorf("Get after the failover = %d, %v, want 2", r.Head.Length, err)
	}
	keep(t, anywhere.For(ada), tidemark.Batch{Appends: []tidemark.Append{{Log: log, Lines: []tidemark.Line{line(log, 3, "user", "{}")}}}})
}
