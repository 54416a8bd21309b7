package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// standbyName is what the first standby calls itself at its primary; the others have
// a number behind it.
const standbyName = "standby"

// Standby starts a server that follows c and takes no writes until Promote. With
// synchronous, c acknowledges nothing that the standby does not have. The cluster
// has to be Durable.
func (c *Cluster) Standby(synchronous bool) (*Cluster, error) {
	dir, err := folder(c.as, []string{filepath.Dir(c.dir)})
	if err != nil {
		return nil, err
	}
	s := &Cluster{bin: c.bin, dir: dir, as: c.as, originals: make(map[string]*Database)}
	for _, setting := range c.settings {
		s.settings = append(s.settings, strings.ReplaceAll(setting, c.dir, dir))
	}
	if s.guard, err = watch(dir, "QUIT"); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	c.mu.Lock()
	name := standbyName
	if c.standbys++; c.standbys > 1 {
		name += strconv.Itoa(c.standbys)
	}
	c.mu.Unlock()
	if err := s.follow(c, name, synchronous); err != nil {
		s.guard.end()
		return nil, err
	}
	return s, nil
}

// follow copies a primary, starts the copy, and waits until it streams.
func (c *Cluster) follow(primary *Cluster, name string, synchronous bool) error {
	from := fmt.Sprintf("host=%s user=postgres application_name=%s", primary.dir, name)
	if out, err := c.command("pg_basebackup", "-D", c.data(), "-d", from, "-R", "-X", "stream", "-c", "fast", "--no-sync").CombinedOutput(); err != nil {
		return fmt.Errorf("pg_basebackup: %w\n%s", err, out)
	}
	if err := c.launch(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), serverTimeout)
	defer cancel()
	want := "async"
	if synchronous {
		// After the copy: once promoted, it would wait for a standby of its own.
		want = "sync"
		if err := primary.tell(ctx, "alter system set synchronous_standby_names = '"+name+"'", "select pg_reload_conf()"); err != nil {
			return err
		}
	}
	return primary.until(ctx, `select count(*) = 1 from pg_stat_replication where application_name = $1 and state = 'streaming' and sync_state = $2`, name, want)
}

// until waits for a query to answer true.
func (c *Cluster) until(ctx context.Context, query string, args ...any) error {
	conn, err := pgx.Connect(ctx, c.url("postgres", "postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for {
		var is bool
		if err := conn.QueryRow(ctx, query, args...).Scan(&is); err != nil || is {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", query, ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Stop ends the whole server with SIGKILL. Crash starts it again.
func (c *Cluster) Stop() error { return c.kill() }

// Promote has a standby take writes.
func (c *Cluster) Promote() error {
	ctx, cancel := context.WithTimeout(context.Background(), serverTimeout)
	defer cancel()
	return c.until(ctx, `select pg_promote(true, 120) and not pg_is_in_recovery()`)
}

// CaughtUp waits until the standbys of c have everything that was committed so far.
func (c *Cluster) CaughtUp() error {
	ctx, cancel := context.WithTimeout(context.Background(), serverTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, c.url("postgres", "postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var end string
	if err := conn.QueryRow(ctx, `select pg_current_wal_insert_lsn()::text`).Scan(&end); err != nil {
		return err
	}
	return c.until(ctx, `select coalesce(bool_and(flush_lsn >= $1::text::pg_lsn), false) from pg_stat_replication`, end)
}

// Hold keeps a standby from receiving more, so that a primary that does not wait
// for it goes ahead. It lasts until the standby is promoted.
func (c *Cluster) Hold() error {
	ctx, cancel := context.WithTimeout(context.Background(), serverTimeout)
	defer cancel()
	return errors.Join(c.tell(ctx, "alter system set primary_conninfo = ''", "select pg_reload_conf()"),
		c.until(ctx, `select count(*) = 0 from pg_stat_wal_receiver`))
}

// HoldReplay has a standby receive everything and show nothing of it, until ResumeReplay.
func (c *Cluster) HoldReplay() error {
	ctx, cancel := context.WithTimeout(context.Background(), serverTimeout)
	defer cancel()
	return errors.Join(c.tell(ctx, "select pg_wal_replay_pause()"), c.until(ctx, `select pg_get_wal_replay_pause_state() = 'paused'`))
}

// ResumeReplay ends HoldReplay.
func (c *Cluster) ResumeReplay() error {
	ctx, cancel := context.WithTimeout(context.Background(), serverTimeout)
	defer cancel()
	return c.tell(ctx, "select pg_wal_replay_resume()")
}

// Suspend stops all processes of the server: it takes connections and questions, and says nothing. It
// lasts until Resume.
func (c *Cluster) Suspend() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return suspendFamily(c.server.Process.Pid, true)
}

// Resume ends Suspend.
func (c *Cluster) Resume() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return suspendFamily(c.server.Process.Pid, false)
}

// Anywhere returns the URL of a database for whoever uses the first of several
// clusters that takes writes.
func (db *Database) Anywhere(standby *Cluster) string {
	u, err := url.Parse(db.Server)
	if err != nil {
		panic(err) // this package made it
	}
	q := u.Query()
	q.Set("host", db.cluster.dir+","+standby.dir)
	q.Set("target_session_attrs", "read-write")
	u.RawQuery = q.Encode()
	return u.String()
}

// At returns the same database on a standby.
func (db *Database) At(standby *Cluster) *Database {
	return standby.database(db.Name, db.owner, db.Role)
}

// NewStandby is Standby for a test, at whose end it ends.
func NewStandby(t testing.TB, c *Cluster, synchronous bool) *Cluster {
	t.Helper()
	s, err := c.Standby(synchronous)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.end)
	return s
}
