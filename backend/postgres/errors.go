package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-sessions/tidemark"
)

// ErrUnavailable says that the database does not answer now, but may soon: it is
// starting, stopping, full of connections, or cannot be reached. Errors that
// answer to it answer to ErrStorage as well. Nothing was done.
var ErrUnavailable = errors.New("the database is away")

// ErrReadOnly says that the database takes no writes now: it is a standby, or
// somebody made it read-only. Errors that answer to it answer to ErrUnavailable as
// well: after a failover the next call may reach the new primary.
var ErrReadOnly = tidemark.Errorf(ErrUnavailable, "it takes no writes, as a standby does")

// After these codes of the server the transaction is retried: another one was in
// the way.
const (
	codeSerialization = "40001"
	codeDeadlock      = "40P01"
	codeLockTimeout   = "55P03"
	codeUnique        = "23505"
	codeDenied        = "42501"
	codeNoDatabase    = "3D000"
	codeReadOnly      = "25006"
	codeDiskFull      = "53100"
	codeTooLong       = "57014" // a timeout of the server, or somebody cancelled it
	classLogin        = "28"    // a wrong password, a role that may not log in
	classShort        = "53"    // of memory, of disk, of connections
	classSystem       = "58"    // errors of the server's files
)

// codesDamaged are of tables and indexes that cannot be read.
var codesDamaged = []string{"XX001", "XX002"}

func codeOf(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}

// errMoved says that something which was read without a lock has changed, so
// that the transaction is tried again.
var errMoved = errors.New("changed by another transaction")

func inTheWay(err error) bool {
	if errors.Is(err, errMoved) {
		return true
	}
	switch codeOf(err) {
	case codeSerialization, codeDeadlock, codeLockTimeout, codeUnique:
		return true
	}
	return false
}

// isAway reports whether err says that the database could not be reached, or
// went away during the call.
func isAway(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		switch {
		case strings.HasPrefix(pg.Code, "08"), strings.HasPrefix(pg.Code, "57P"), pg.Code == "53300",
			pg.Code == "25P03" || pg.Code == "25P04": // disconnected for being idle
			return true
		}
		return false
	}
	var connect *pgconn.ConnectError
	var network net.Error
	return errors.As(err, &connect) || errors.As(err, &network) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		err != nil && strings.Contains(err.Error(), "conn closed")
}

// refusedByServer reports whether the server itself refused, and so rolled
// everything back. After a fatal error, and when the connection breaks, the
// outcome is unknown.
func refusedByServer(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.SeverityUnlocalized == "ERROR"
}

// named makes an error of the driver answer to a sentinel, and adds which
// database it is about. Other errors pass unchanged.
func (db *Database) named(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	for _, c := range tidemark.Codes {
		if errors.Is(err, c.Err) {
			return err
		}
	}
	if away := db.elsewhereIn(err); away != nil {
		return away
	}
	code := codeOf(err)
	switch {
	case isAway(err):
		return tidemark.Storagef("database %s: %w: %w", db.place, ErrUnavailable, err)
	case code == codeReadOnly:
		if db.pool != nil {
			db.pool.Reset() // connections to a primary that is none any more
		}
		return tidemark.Storagef("database %s: %w: %w", db.place, ErrReadOnly, err)
	case code == codeDenied, strings.HasPrefix(code, classLogin):
		return &denied{db.place, err}
	case code == codeNoDatabase:
		return fmt.Errorf("database %s: %w: %w", db.place, tidemark.ErrNoStore, err)
	case inTheWay(err):
		return tidemark.Storagef("database %s: other transactions were in the way again and again: %w", db.place, err)
	case code == codeDiskFull:
		return tidemark.Storagef("database %s: its disk is full: %w: %w", db.place, syscall.ENOSPC, err)
	case slices.Contains(codesDamaged, code):
		return tidemark.Errorf(tidemark.ErrCorrupt, "database %s: damaged: %w", db.place, err)
	case code == "", code == codeTooLong, strings.HasPrefix(code, classShort), strings.HasPrefix(code, classSystem):
		return tidemark.Storagef("database %s: %w", db.place, err)
	}
	// The statement itself was refused. No space and no retry helps: this program
	// and the tables do not fit together.
	return fmt.Errorf("database %s: the tables do not take a statement of this program: %w", db.place, err)
}

// denied is ErrDenied by a policy or a grant of the database.
type denied struct {
	place string
	err   error
}

func (e *denied) Error() string   { return "database " + e.place + ": not allowed: " + e.err.Error() }
func (e *denied) Unwrap() []error { return []error{tidemark.ErrDenied, e.err} }
