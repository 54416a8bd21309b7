package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Run starts a cluster for a program that is not a test; the program calls End.
func Run(o Options) (*Cluster, error) { return start(o) }

// End stops the server and removes all that it kept.
func (c *Cluster) End() { c.end() }

// Crash ends the whole server with SIGKILL and starts it again, as Kill and
// Restart do in tests.
func (c *Cluster) Crash() error {
	if err := c.kill(); err != nil {
		return err
	}
	return c.launch()
}

// IsMissing reports whether an error means that there is no PostgreSQL on
// this machine.
func IsMissing(err error) bool {
	var m missing
	return errors.As(err, &m)
}

// Program returns the path of a program that belongs to the server, "" when it
// is not installed.
func (c *Cluster) Program(name string) string {
	path := filepath.Join(c.bin, name)
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}

// Dir returns the folder of the server's socket, which clients use as the
// host.
func (c *Cluster) Dir() string { return c.dir }

// Make creates a database with two roles, which stays until End.
func (c *Cluster) Make(ctx context.Context) (*Database, error) {
	name := c.name()
	db := c.database(name, name+"_owner", name+"_server")
	return db, c.tell(ctx,
		fmt.Sprintf("create role %s login nosuperuser nobypassrls nocreaterole nocreatedb", db.owner),
		fmt.Sprintf("create role %s login nosuperuser nobypassrls nocreaterole nocreatedb", db.Role),
		fmt.Sprintf("create database %s owner %s %s", name, db.owner, byFiles))
}
