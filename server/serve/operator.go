package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/postgres"
	"github.com/tidemark-sessions/tidemark/dispatch"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/store/upkeep"
)

// OpenOperator opens the operator's store: where one store serves everybody
// it is that one; in a database it is a place of its own. ErrUnsupported:
// the URL is that of a server.
func OpenOperator(ctx context.Context, place string, o *open.Options) (*open.Opened, error) {
	switch {
	case strings.HasPrefix(place, "http"):
		return nil, hint.With(tidemark.Unsupportedf("who may use a server is said where its store is"), "run this on the machine of the server, with the --store that it serves, or use the API of the server")
	case !open.IsPostgres(place):
		return open.Open(ctx, place, o)
	}
	db, err := postgres.Connect(ctx, place, &postgres.Options{Others: open.Databases(o.Environ)})
	if err != nil {
		return nil, open.DatabaseHint(err)
	}
	b := OperatorBackend{db.For(tidemark.Operator()), db}
	opened, err := open.Over(b, b, o)
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return opened, nil
}

// OperatorBackend is the operator's place in a database. Closing it also
// closes the database.
type OperatorBackend struct {
	*postgres.Backend
	db *postgres.Database
}

// Close also closes the database.
func (b OperatorBackend) Close() error {
	err := b.Backend.Close()
	b.db.Close()
	return err
}

// MigrateDatabase upgrades the tables of a database, as their owner, for the
// role that the store's URL logs in with. The environment names the owner,
// since the URL contains a password.
func MigrateDatabase(ctx context.Context, place string, environ []string, m postgres.Migration) (role string, err error) {
	owner := open.Getenv(environ, open.DatabaseOwner)
	if owner == "" {
		return "", hint.With(tidemark.Invalidf("%s is not set: tables are made by their owner, who is not the one that servers log in as", open.DatabaseOwner),
			"%s=postgres://OWNER:PASSWORD@HOST/DB tidemark …", open.DatabaseOwner)
	}
	u, err := url.Parse(place)
	if err != nil {
		return "", tidemark.Invalidf("the store's URL cannot be read")
	}
	if role = cmp.Or(u.User.Username(), u.Query().Get("user"), open.Getenv(environ, "PGUSER")); role == "" {
		return "", hint.With(tidemark.Invalidf("the store's URL names no role"), "write postgres://ROLE@HOST/DB")
	}
	m.Role = role
	if err := m.Run(ctx, owner); err != nil {
		if served := (*postgres.ServedError)(nil); errors.As(err, &served) {
			err = hint.With(err, "stop the servers and daemons; what a pooler keeps open closes with it, or: tidemark database migrate --backed-up --force")
		}
		return role, err
	}
	return role, dispatch.Migrate(ctx, owner, dispatch.DefaultSchema, role)
}

// ParseActsKept returns how long rows of the audit log are to be kept, for a migration:
// "" as long as was said before, "forever", or an age.
func ParseActsKept(text string) (time.Duration, error) {
	switch text {
	case "":
		return 0, nil
	case "forever":
		return -1, nil
	}
	age, err := upkeep.ParseAge(text)
	if err != nil {
		err = tidemark.Invalidf("--audit-keep: %w", err)
	}
	return age, err
}

// OnlyWithABackup refuses to change the tables of an older program. The owner
// cannot copy them, because row security is forced, so the operator of the
// database has to confirm that there is a backup.
func OnlyWithABackup(from, to int64) error {
	return hint.With(tidemark.Invalidf("the tables have version %d, and bringing them to version %d cannot be taken back", from, to),
		"back the database up, with pg_dump as a superuser or a snapshot, then run: tidemark database migrate --backed-up")
}

// DatabaseState is what a check of a database found.
type DatabaseState struct {
	Bytes    int64 `json:"bytes"`
	Isolated bool  `json:"isolated"` // no tenant can see another's rows
	Standby  bool  `json:"standby"`  // it takes no writes
	// Replicas are those that were asked for. Each is one.
	Replicas []ReplicaFound `json:"replicas,omitempty"`
}

// ReplicaFound is what a check of a replica found.
type ReplicaFound struct {
	Place       string `json:"place"`
	BytesBehind int64  `json:"bytes_behind"` // of the write-ahead log
}

func (s DatabaseState) String() string {
	text := fmt.Sprintf("Policies, grants and roles are as they have to be. The database has %d MB.", s.Bytes>>20)
	if s.Standby {
		text += " It takes no writes now: it is a standby, or was made read-only."
	}
	for _, r := range s.Replicas {
		text += fmt.Sprintf("\n%s is a replica of it, %d bytes behind.", r.Place, r.BytesBehind)
	}
	return text
}

// CheckDatabase logs in as a server would, also at the replicas, and returns what it found.
// ErrInvalid: one of those is no replica of the database.
func CheckDatabase(ctx context.Context, place string, replicas ...string) (is DatabaseState, err error) {
	db, err := postgres.Connect(ctx, place, nil)
	if err != nil {
		return is, open.DatabaseHint(err)
	}
	defer db.Close()
	is.Isolated = true
	if is.Bytes, err = db.Size(ctx); err != nil {
		return is, err
	}
	if err = db.Writable(ctx); errors.Is(err, postgres.ErrReadOnly) {
		is.Standby, err = true, nil
	}
	for _, replica := range replicas {
		behind, checkErr := db.CheckReplica(ctx, replica)
		if checkErr != nil {
			return is, errors.Join(err, open.DatabaseHint(checkErr))
		}
		is.Replicas = append(is.Replicas, ReplicaFound{open.WithoutPassword(replica), behind})
	}
	return is, err
}
