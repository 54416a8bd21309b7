package postgres

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/backendtest"
	"github.com/tidemark-sessions/tidemark/seal"
	"github.com/tidemark-sessions/tidemark/workshop/pgtest"
)

// A random history asks thousands of questions, each a round trip, so fewer of
// them are run than over a file, unless -rapid.checks says otherwise.
func TestMain(m *testing.M) {
	flag.Parse()
	said := false
	flag.Visit(func(f *flag.Flag) { said = said || f.Name == "rapid.checks" })
	if !said {
		flag.Set("rapid.checks", "3")
	}
	os.Exit(pgtest.Main(m))
}

// ready returns a migrated database, a copy of the one for all tests with the
// same migration: its roles are those of all of them.
func ready(t testing.TB, m Migration) *pgtest.Database {
	t.Helper()
	return pgtest.Start(t).Prepared(t, fmt.Sprint(m.Partitions), func(db *pgtest.Database) error {
		m.Role = db.Role
		return m.Run(context.Background(), db.Owner)
	})
}

// readyAlone returns a migrated database whose roles a test may change.
func readyAlone(t testing.TB) *pgtest.Database {
	t.Helper()
	db := pgtest.Start(t).Database(t)
	if err := Migrate(context.Background(), db.Owner, db.Role); err != nil {
		t.Fatal(err)
	}
	return db
}

// connected connects as the test does to the end.
func connected(t testing.TB, url string, o *Options) *Database {
	t.Helper()
	db, err := Connect(context.Background(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db
}

var ada = tidemark.TenantOf("acme", "ada")

// place makes each place another tenant of one database, so that the suite
// also runs with other tenants around.
func place(db *Database) backendtest.Place {
	return func(t testing.TB) func() tidemark.Backend {
		who := tidemark.TenantOf(tidemark.NewBatchID(), "ada")
		return func() tidemark.Backend { return db.For(who) }
	}
}

func TestBackend(t *testing.T) {
	backendtest.Run(t, place(connected(t, ready(t, Migration{}).Server, nil)))
}

func TestBackendWithPartitions(t *testing.T) {
	backendtest.Run(t, place(connected(t, ready(t, Migration{Partitions: 4}).Server, nil)))
}

func TestBackendBehindAPooler(t *testing.T) {
	db := connected(t, pgtest.Bouncer(t, ready(t, Migration{})), nil)
	if !db.pooled {
		t.Error("the pooler was not noticed")
	}
	backendtest.Run(t, place(db))
}

func TestBackendUnderSeal(t *testing.T) {
	backendtest.Run(t, sealed(place(connected(t, ready(t, Migration{}).Server, nil))))
}

// sealed makes places that are sealed when they are first opened.
func sealed(inner backendtest.Place) backendtest.Place {
	return func(t testing.TB) func() tidemark.Backend {
		open := inner(t)
		contents := seal.NewKeyFile()
		slot, err := seal.FileSlot("test", contents)
		if err != nil {
			t.Fatal(err)
		}
		unlock, err := seal.KeyFile(contents)
		if err != nil {
			t.Fatal(err)
		}
		create := sync.OnceFunc(func() {
			b := open()
			defer b.Close()
			if _, err := seal.Create(context.Background(), b, slot); err != nil {
				t.Fatal(err)
			}
		})
		return func() tidemark.Backend {
			create()
			b, err := seal.Open(context.Background(), open(), unlock)
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
	}
}

func key(kind, id string) tidemark.Key { return tidemark.Key{Kind: kind, ID: id} }

func record(k tidemark.Key, version int64, body string) tidemark.Record {
	return backendtest.NewRecord(k, version, body)
}

// at is the time of batches that name none.
var at = time.Date(2026, 3, 4, 5, 6, 7, 89_000, time.UTC)

func line(log tidemark.Key, seq int64, kind, body string) tidemark.Line {
	l := tidemark.Line{Seq: seq, Kind: kind, Body: []byte(body), At: at.Add(time.Duration(seq) * time.Second),
		Position: tidemark.Position{Parent: seq - 1, Depth: seq}}
	l.Sum = l.Checksum(log)
	return l
}

func commit(b tidemark.Backend, batch tidemark.Batch) error {
	if batch.ID == "" {
		batch.ID = tidemark.NewBatchID()
	}
	if batch.At.IsZero() {
		batch.At = at
	}
	_, err := b.Commit(context.Background(), batch)
	return err
}

func keep(t testing.TB, b tidemark.Backend, batch tidemark.Batch) {
	t.Helper()
	if err := commit(b, batch); err != nil {
		t.Fatalf("Commit = %v", err)
	}
}
