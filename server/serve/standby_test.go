package serve_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-sessions/tidemark/api"
	"github.com/tidemark-sessions/tidemark/backend/postgres"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/server/serve"
	"github.com/tidemark-sessions/tidemark/workshop/pgtest"
)

func TestAServerOfAReadOnlyDatabaseIsNotReady(t *testing.T) {
	t.Parallel()
	made := pgtest.Start(t).Database(t)
	if err := postgres.Migrate(t.Context(), made.Owner, made.Role); err != nil {
		t.Fatal(err)
	}
	stores, err := serve.OpenStores(t.Context(), made.Server, false, func(open.Access) *open.Options { return &open.Options{} }, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stores.Close() })
	if err := stores.Ready(t.Context()); err != nil {
		t.Errorf("Ready at first = %v", err)
	}
	if is, err := serve.CheckDatabase(t.Context(), made.Server); err != nil || is.Standby || !is.Isolated {
		t.Errorf("CheckDatabase at first = %+v, %v", is, err)
	}
	super(t, made, "alter database "+made.Name+" set default_transaction_read_only = on")
	super(t, made, "select pg_terminate_backend(pid) from pg_stat_activity where usename = '"+made.Role+"'")
	var problem *api.Problem
	if err := stores.Ready(t.Context()); !errors.As(err, &problem) || problem.Status != http.StatusServiceUnavailable {
		t.Errorf("Ready of a read-only database = %v, want 503", err)
	}
	if is, err := serve.CheckDatabase(t.Context(), made.Server); err != nil || !is.Standby {
		t.Errorf("CheckDatabase of a read-only database = %+v, %v, want a standby", is, err)
	}
}

// super runs a statement as superuser.
func super(t *testing.T, db *pgtest.Database, statement string) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), db.Super)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.WithoutCancel(t.Context()))
	if _, err := c.Exec(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}
