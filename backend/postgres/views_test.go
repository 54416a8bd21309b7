package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/tidemark-sessions/tidemark"
)

// asked asks with SQL as a principal does in a shell: columns are joined by |,
// rows by newlines, null is ∅.
func asked(t *testing.T, url string, p tidemark.Principal, sql string) string {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	_, err = c.Exec(t.Context(), `select set_config('tidemark.tenant', $1, false), set_config('tidemark.user', $2, false), set_config('search_path', 'tidemark', false)`, p.Tenant, p.User)
	if err != nil {
		t.Fatal(err)
	}
	results, err := c.PgConn().Exec(t.Context(), sql).ReadAll()
	if err != nil {
		t.Fatalf("%v\n%s", err, sql)
	}
	var rows []string
	for _, r := range results {
		for _, row := range r.Rows {
			var cells []string
			for _, cell := range row {
				if cell == nil {
					cells = append(cells, "∅")
				} else {
					cells = append(cells, string(cell))
				}
			}
			rows = append(rows, strings.Join(cells, "|"))
		}
	}
	return strings.Join(rows, "\n")
}

// conversation makes a session of every kind of message, held by a process,
// one in the trash, one without messages, and a job.
func conversation(t *testing.T, b *Backend, seal func(string) string) {
	t.Helper()
	put := func(kind, id, group, state, body string, when time.Time) {
		r := record(key(kind, id), 1, seal(body))
		r.Group, r.State = group, state
		keep(t, b, tidemark.Batch{At: when, Puts: []tidemark.Record{r}})
	}
	log := key("session", string(session))
	put("session", string(session), "", "", `{"title":"a \"title\"","created_at":"2026-03-04T05:06:07.5Z"}`, at)
	put("lease", string(session), "", "held", `{"holder":{"program":"tidemark","pid":4411,"host":"ada"},"token":3}`, at)
	put("session", "quiet", "", "", `{"created_at":"2026-01-01T00:00:00Z"}`, at.Add(-time.Hour))
	put("session", "gone", "", "trash", `{"created_at":"2026-01-01T00:00:00Z"}`, at)
	put("job", "job-1", "agent", "done", `{"created_at":"2026-02-03T04:05:06Z","exit":0}`, at)
	a := tidemark.Append{Log: log}
	for i, l := range []struct{ kind, body string }{
		{"system", `{"blocks":[{"type":"text","text":"be brief"}]}`},
		{"user", `{"blocks":[{"type":"text","text":"what is 1+1?"},{"type":"image","url":"x"},{"type":"text","text":"and 'why'"}]}`},
		{"assistant", `{"blocks":[{"type":"tool_use","id":"t1"}],"model":"demo"}`},
		{"tool", `{"blocks":[{"type":"tool_result","text":"2"}]}`},
		{"user", `{}`},
	} {
		a.Lines = append(a.Lines, line(log, int64(i+1), l.kind, seal(l.body)))
	}
	keep(t, b, tidemark.Batch{At: at.Add(time.Minute), Appends: []tidemark.Append{a}})
}

func TestViewsAnswer(t *testing.T) {
	made := ready(t, Migration{})
	db := connected(t, made.Server, nil)
	conversation(t, db.For(ada), func(body string) string { return body })
	conversation(t, db.For(tidemark.TenantOf("rival", "ada")), func(body string) string { return body })
	for sql, want := range map[string]string{
		`select id, created_at, updated_at, locked_by, metadata ->> 'title' from sessions order by updated_at desc`: string(session) + `|2026-03-04 05:06:07.5+00|2026-03-04 05:07:07.000089+00|4411|a "title"
quiet|2026-01-01 00:00:00+00|2026-03-04 04:06:07.000089+00|∅|∅`,
		`select id, role, content from messages where session_id = '` + string(session) + `' order by id`: `2|user|what is 1+1?
and 'why'
3|assistant|[{"type":"tool_use","id":"t1"}]
4|tool_results|[{"type":"tool_result","text":"2"}]
5|user|`,
		`select id, agent, status, created_at, metadata from jobs`: `job-1|agent|done|2026-02-03 04:05:06+00|{"created_at":"2026-02-03T04:05:06Z","exit":0}`,
	} {
		if d := cmp.Diff(want, asked(t, made.Server, ada, sql)); d != "" {
			t.Errorf("%s (-want +got):\n%s", sql, d)
		}
	}
	if got := asked(t, made.Server, tidemark.Principal{}, `select id from sessions; select id from messages; select id from jobs`); got != "" {
		t.Errorf("without settings: %s", got)
	}
}

func TestViewsOfASealedStoreShowNoContent(t *testing.T) {
	made := ready(t, Migration{})
	conversation(t, connected(t, made.Server, nil).For(ada), func(body string) string { return "{\xff" + strings.Repeat("\x80", len(body)) })
	if got, want := asked(t, made.Server, ada, `select metadata, locked_by from sessions where id = 'quiet'; select role, content from messages order by id limit 2; select metadata from jobs`),
		"∅|∅\nuser|∅\nassistant|∅\n∅"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// The statements of the page run as they stand there.
func TestStatementsOfTheFormatPageRun(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "formats", "postgres.md"))
	if err != nil {
		t.Fatal(err)
	}
	made := ready(t, Migration{})
	conversation(t, connected(t, made.Server, nil).For(ada), func(body string) string { return body })
	blocks := regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(blocks) < 4 {
		t.Fatalf("%d statements on the page", len(blocks))
	}
	for _, block := range blocks {
		if out := asked(t, made.Server, ada, block[1]); out == "" {
			t.Errorf("no answer to\n%s", block[1])
		}
	}
	if !strings.Contains(string(page), fmt.Sprintf("version of the schema is %d", Schema)) {
		t.Error("the page does not say the version of the schema")
	}
}

func TestDamageIsNamedAndTheRestIsRead(t *testing.T) {
	made := ready(t, Migration{})
	b := connected(t, made.Server, nil).For(ada)
	conversation(t, b, func(body string) string { return body })
	tell(t, made.Super, `update tidemark.record set body = 'x' where kind = 'job'`, `update tidemark.line set body = 'x' where seq = 2`, `delete from tidemark.line where seq in (4, 5)`,
		`update tidemark.record set touched = touched + interval '1 hour' where id = 'quiet'`)
	var damage *tidemark.Damage
	if _, err := b.Get(t.Context(), key("job", "job-1")); !errors.As(err, &damage) || damage.Key != key("job", "job-1") {
		t.Errorf("Get = %v, want a Damage", err)
	}
	for r, err := range b.List(t.Context(), tidemark.Query{Kind: "job"}) {
		if !errors.As(err, &damage) || r.ID != "job-1" {
			t.Errorf("List = %+v, %v", r, err)
		}
	}
	for _, back := range []bool{false, true} {
		var got []string
		for l, err := range b.Lines(t.Context(), key("session", string(session)), tidemark.Span{Backwards: back}) {
			got = append(got, fmt.Sprint(l.Seq, errors.Is(err, tidemark.ErrCorrupt)))
		}
		want := []string{"1 false", "2 true", "3 false", "4 true", "5 true"}
		if back {
			want = []string{"5 true", "4 true", "3 false", "2 true", "1 false"}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("backwards %v (-want +got):\n%s", back, d)
		}
	}
	var found []string
	for err := range b.Check(t.Context()) {
		found = append(found, err.Error())
	}
	for _, want := range []string{"there are 3", "touched does not match"} {
		if !strings.Contains(strings.Join(found, "\n"), want) {
			t.Errorf("Check found %q, want %q", found, want)
		}
	}
}
