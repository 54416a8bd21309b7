package postgres

import (
	"bufio"
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-sessions/tidemark/backend/backendtest"
)

// Servers of the release before and of this one run side by side while a database is
// migrated and servers are replaced one by one. What the release before asks of the
// tables is recorded, statement by statement, so that a migration which breaks one of
// them is found without building that release: TIDEMARK_UPDATE=1 records those of this
// program, which is done once for each release, before the first migration after it.

// statementsBefore has the statements of the release before: the schema that it was made for in
// the name, a JSON text in each line.
const statementsBefore = "testdata/statements-schema-7.jsonl"

// recording is a tracer that collects statements.
type recording struct {
	mu  sync.Mutex
	all map[string]bool
}

func (r *recording) note(sql string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if strings.Contains(sql, "tidemark") {
		r.all[sql] = true
	}
}

func (r *recording) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	r.note(d.SQL)
	return ctx
}
func (r *recording) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
func (r *recording) TraceBatchStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceBatchStartData) context.Context {
	for _, q := range d.Batch.QueuedQueries {
		r.note(q.SQL)
	}
	return ctx
}
func (r *recording) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (r *recording) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

// Every statement of the release before can still be planned, by the role of a server,
// with the parameters that it has.
func TestStatementsOfTheReleaseBeforeStandOnTheTablesOfThisOne(t *testing.T) {
	made := ready(t, Migration{})
	if os.Getenv("TIDEMARK_UPDATE") != "" {
		recordStatements(t, made.Server)
	}
	f, err := os.Open(statementsBefore)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c, err := pgx.Connect(t.Context(), made.Server)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.WithoutCancel(t.Context()))
	n := 0
	for lines := bufio.NewScanner(f); lines.Scan(); n++ {
		var sql string
		if err := json.Unmarshal(lines.Bytes(), &sql); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Prepare(t.Context(), "", sql); err != nil {
			t.Errorf("the release before cannot go on: %v in %s", err, sql)
		}
	}
	if n < 40 {
		t.Errorf("%d statements were recorded, which cannot be all", n)
	}
	// The test can fail: without a column they need, some do not stand.
	if _, err := c.Prepare(t.Context(), "", "select l.behind from tidemark.log l"); err == nil {
		t.Error("a column that is gone is not missed")
	}
}

// recordStatements runs the suite of backends, and keeps what it asked.
func recordStatements(t *testing.T, url string) {
	t.Helper()
	config, err := configOf(url)
	if err != nil {
		t.Fatal(err)
	}
	r := &recording{all: make(map[string]bool)}
	config.ConnConfig.Tracer = r
	config.MaxConns = defaultConns
	db := &Database{place: "test", writers: make(map[lane]*writer)}
	if err := db.detect(t.Context(), config, &Options{}); err != nil {
		t.Fatal(err)
	}
	if err := db.pooling(t.Context(), config, &Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	if err := db.SelfTest(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Run("suite", func(t *testing.T) { backendtest.Run(t, place(db)) })
	if err := os.MkdirAll(filepath.Dir(statementsBefore), 0o755); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, sql := range slices.Sorted(maps.Keys(r.all)) {
		line, _ := json.Marshal(sql)
		out.Write(append(line, '\n'))
	}
	if err := os.WriteFile(statementsBefore, []byte(out.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}
