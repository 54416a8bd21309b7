package pgtest

import (
	"context"
	"fmt"
	"testing"
)

// Database is an empty database with two roles of its own. The fields are
// URLs.
type Database struct {
	Name   string
	Owner  string // a plain role that owns the database
	Server string // a plain role that owns nothing and is no member of any other
	Super  string // a superuser
	Role   string // the name of the role of Server

	cluster *Cluster
	owner   string
}

// Database creates a database for this test, and drops it afterwards.
func (c *Cluster) Database(t testing.TB) *Database {
	t.Helper()
	db, err := c.Make(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.try(fmt.Sprintf("drop database if exists %s with (force)", db.Name),
			fmt.Sprintf("drop role %s, %s", db.owner, db.Role))
	})
	return db
}

// Prepared returns a copy of a database that prepare has filled, which it does
// once for all calls with the same name. The copies have the same two roles, so
// a test that changes what a role may do needs a Database.
func (c *Cluster) Prepared(t testing.TB, name string, prepare func(*Database) error) *Database {
	t.Helper()
	db, err := c.prepared(name, prepare)
	if err != nil {
		t.Fatal(err)
	}
	return db.Copy(t)
}

// prepared returns the database that copies are made of. An attempt that
// failed is made again by the next test, with a new database.
func (c *Cluster) prepared(name string, prepare func(*Database) error) (*Database, error) {
	c.preparing.Lock()
	defer c.preparing.Unlock()
	if db := c.originals[name]; db != nil {
		return db, nil
	}
	db, err := c.Make(context.Background())
	if err != nil {
		return nil, err
	}
	if err := prepare(db); err != nil {
		return nil, err
	}
	c.originals[name] = db
	return db, nil
}

// byFiles makes a new database of its template's files, as they are. That
// needs a checkpoint, which is cheap where nothing is synced, and takes half the
// time of writing each page to the log.
const byFiles = "strategy file_copy"

// Copy creates another database with the content of db, for the same
// roles. Nobody else may be connected to db meanwhile.
func (db *Database) Copy(t testing.TB) *Database {
	t.Helper()
	c := db.cluster
	twin := c.database(c.name(), db.owner, db.Role)
	c.must(t, fmt.Sprintf("create database %s owner %s template %s %s", twin.Name, db.owner, db.Name, byFiles))
	t.Cleanup(func() { c.try(fmt.Sprintf("drop database if exists %s with (force)", twin.Name)) })
	return twin
}

func (c *Cluster) name() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.made++
	return fmt.Sprintf("db%d", c.made)
}

func (c *Cluster) database(name, owner, server string) *Database {
	return &Database{
		Name: name, Role: server, cluster: c, owner: owner,
		Owner: c.url(owner, name), Server: c.url(server, name), Super: c.url("postgres", name),
	}
}

func (c *Cluster) must(t testing.TB, statements ...string) {
	t.Helper()
	if err := c.tell(context.Background(), statements...); err != nil {
		t.Fatal(err)
	}
}

// try cleans up and ignores errors: a server that the test has killed keeps
// nothing for long.
func (c *Cluster) try(statements ...string) {
	ctx, cancel := context.WithTimeout(context.Background(), serverTimeout)
	defer cancel()
	_ = c.tell(ctx, statements...)
}
