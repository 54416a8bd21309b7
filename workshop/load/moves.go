package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-sessions/tidemark/backend/postgres"
	"github.com/tidemark-sessions/tidemark/workshop/nodes"
	"github.com/tidemark-sessions/tidemark/workshop/pgtest"
)

// homes are the databases that the tenant moves between, main first, each on a server
// of its own.
type homes struct {
	names  []string
	made   []*pgtest.Database
	owners string // the file for movers
	at     int    // where the tenant is
	end    []func()
}

// otherHomes makes two more databases and the files that name them.
func (t *trial) otherHomes(ctx context.Context, dir string) error {
	h := &t.homes
	h.names, h.made = []string{postgres.MainName}, []*pgtest.Database{t.db}
	var others, owners string
	owners = fmt.Sprintf("main: %q\n", t.db.Owner)
	for _, name := range []string{"b", "c"} {
		cluster, err := pgtest.Run(pgtest.Options{Synced: true})
		if err != nil {
			return err
		}
		h.end = append(h.end, cluster.End)
		db, err := cluster.Make(ctx)
		if err != nil {
			return err
		}
		place := &nodes.Place{Program: t.place.Program, Dir: dir, Env: t.place.Env, Store: db.Server}
		if err := place.Migrate(ctx, db.Owner); err != nil {
			return err
		}
		h.names, h.made = append(h.names, name), append(h.made, db)
		others += fmt.Sprintf("%s: %q\n", name, db.Server)
		owners += fmt.Sprintf("%s: %q\n", name, db.Owner)
	}
	databases := filepath.Join(dir, "databases.yaml")
	h.owners = filepath.Join(dir, "owners.yaml")
	if err := os.WriteFile(databases, []byte(others), 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(h.owners, []byte(owners), 0o600); err != nil {
		return err
	}
	t.place.Env = append(t.place.Env, "TIDEMARK_DATABASES="+databases)
	_, err := t.place.Tell(ctx, "tenant", "create", "load")
	return err
}

// databases are all that a server may be connected to.
func (t *trial) databases() []*pgtest.Database {
	if len(t.homes.made) > 0 {
		return t.homes.made
	}
	return []*pgtest.Database{t.db}
}

// moverDies is how long the first mover lives at most: about as long as a move takes.
const moverDies = 1500 * time.Millisecond

// move moves the tenant to the next database. A first mover is killed at some moment.
func (t *trial) move(ctx context.Context) error {
	h := &t.homes
	h.at = (h.at + 1) % len(h.names)
	args := []string{"tenant", "move", "load", "--to", h.names[h.at], "--owners", h.owners}
	short, cancel := context.WithTimeout(ctx, time.Duration(t.random.Int64N(int64(moverDies))))
	if _, err := t.place.Tell(short, args...); err != nil {
		t.book.struck.movers++
	}
	cancel()
	// What the dead mover held is let go a moment later.
	var said []byte
	var err error
	for range 20 {
		if said, err = t.place.Tell(ctx, args...); err == nil || ctx.Err() != nil {
			break
		}
		time.Sleep(time.Second)
	}
	t.book.struck.moves++
	fmt.Fprintf(t.o.log, "load: %s", said)
	return err
}

// finishMoves deletes what was left behind, and looks that it is gone.
func (t *trial) finishMoves(ctx context.Context) error {
	h := &t.homes
	if len(h.names) == 0 {
		return nil
	}
	if _, err := t.place.Tell(ctx, "tenant", "move", "load", "--finish", "--owners", h.owners); err != nil {
		return err
	}
	p, err := postgres.PrincipalIn(t.place.Store)
	if err != nil {
		return err
	}
	for i, db := range h.made {
		c, err := pgx.Connect(ctx, db.Super)
		if err != nil {
			return err
		}
		var left int
		err = c.QueryRow(ctx, `select (select count(*) from tidemark.record where tenant = $1::text::uuid) + (select count(*) from tidemark.line where tenant = $1::text::uuid)`, p.Tenant).Scan(&left)
		c.Close(ctx)
		if err != nil {
			return err
		}
		if (left > 0) != (i == h.at) {
			t.book.fault("the database %s has %d rows of the tenant, which is at %s", h.names[i], left, h.names[h.at])
		}
	}
	return nil
}

// others are the databases beside main, for who looks at the end.
func (h *homes) others() (map[string]string, error) {
	all := make(map[string]string)
	for i, db := range h.made {
		all[h.names[i]] = db.Server
	}
	return all, nil
}
