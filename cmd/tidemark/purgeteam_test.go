//go:build unix

package main

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-sessions/tidemark/workshop/pgtest"
)

// What is purged in PostgreSQL is deleted, the wrapped key of a sealed session
// with it, and the command says what may still hold it.
func TestPurgeInPostgreSQLDeletesTheRowsAndTheKey(t *testing.T) {
	t.Parallel()
	for name, sealed := range map[string]bool{"sealed": true, "plain": false} {
		t.Run(name, func(t *testing.T) {
			db := pgtest.Start(t).Database(t)
			d := newDesk(t, db.Server)
			d.env = append(d.env, "TIDEMARK_DATABASE_OWNER="+db.Owner)
			d.want("", "database", "migrate")
			how := []string{"append", "new"}
			if !sealed {
				how = append([]string{"--no-encrypt"}, how...)
			}
			talk := func() string {
				id, _, _ := strings.Cut(d.want(`{"role":"user","content":"kanarienvogel"}`, how...), " ")
				return id
			}
			id, other := talk(), talk()
			owner, err := pgx.Connect(t.Context(), db.Super)
			if err != nil {
				t.Fatal(err)
			}
			defer owner.Close(context.Background())
			rows := func(id string) (kinds []string) {
				found, _ := owner.Query(t.Context(), `select kind from tidemark.record where id like $1 || '%' or session::text = $1
union all select 'line of ' || l.kind from tidemark.log l join tidemark.line n using (tenant, owner, log) where l.id like $1 || '%'`, id)
				kinds, err := pgx.CollectRows(found, pgx.RowTo[string])
				if err != nil {
					t.Fatal(err)
				}
				return kinds
			}
			if kept := rows(id); slices.Contains(kept, "datakey") != sealed || !slices.Contains(kept, "line of session") {
				t.Errorf("before: %v", kept)
			}
			d.want("", "rm", id)
			_, said, code := d.run("", "purge", "--yes", id)
			if code != 0 || !strings.Contains(said, "until VACUUM") || !strings.Contains(said, "WAL, replicas and backups") || strings.Contains(said, "rotate") != sealed {
				t.Errorf("purge: exit %d: %s", code, said)
			}
			if left := rows(id); len(left) > 0 {
				t.Errorf("after: %v", left)
			}
			if out := d.want("", "cat", other); !strings.Contains(out, "kanarienvogel") {
				t.Errorf("the other session: %s", out)
			}
		})
	}
}
