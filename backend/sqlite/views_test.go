package sqlite

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
)

const session = "550e8400-e29b-41d4-a716-446655440000"

// shell asks a closed store with the sqlite3 program, as a person does, or
// with the library where that is not installed. Columns are joined by |, rows
// by newlines, NULL is ∅.
func shell(t *testing.T, path, sql string) string {
	t.Helper()
	if exe, err := exec.LookPath("sqlite3"); err == nil {
		out, err := exec.Command(exe, "-batch", "-bail", "-nullvalue", "∅", path, sql).CombinedOutput()
		if err != nil {
			t.Fatalf("sqlite3: %v\n%s\n%s", err, sql, out)
		}
		return strings.TrimSuffix(string(out), "\n")
	}
	c, err := openConn(path, forWriting)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	var rows []string
	for _, one := range strings.SplitAfter(sql, ";") {
		if strings.TrimSpace(one) == "" {
			continue
		}
		err := c.do(one, nil, func(s *stmt) {
			var cells []string
			for i := range s.width() {
				if s.null(i) {
					cells = append(cells, "∅")
				} else {
					cells = append(cells, s.text(i))
				}
			}
			rows = append(rows, strings.Join(cells, "|"))
		})
		if err != nil {
			t.Fatalf("%v\n%s", err, one)
		}
	}
	return strings.Join(rows, "\n")
}

// conversation makes a closed store with a session of every kind of message,
// held by a process, one in the trash, one without messages, and a job.
func conversation(t *testing.T, seal func(string) string) *Backend {
	t.Helper()
	b := made(t)
	put := func(kind, id, group, state, body string, when time.Time) {
		r := record(key(kind, id), 1, seal(body))
		r.Group, r.State = group, state
		keep(t, b, tidemark.Batch{At: when, Puts: []tidemark.Record{r}})
	}
	log := key("session", session)
	put("session", session, "", "", `{"id":"`+session+`","title":"a \"title\"","created_at":"2026-03-04T05:06:07.5Z"}`, at)
	put("lease", session, "", "held", `{"holder":{"program":"tidemark","pid":4411,"host":"ada"},"token":3}`, at)
	put("session", "quiet", "", "", `{"created_at":"2026-01-01T00:00:00Z"}`, at.Add(-time.Hour))
	put("lease", "quiet", "", "free", `{"holder":{"pid":17}}`, at)
	put("session", "gone", "", "trash", `{"created_at":"2026-01-01T00:00:00Z"}`, at)
	put("job", "job-1", "agent", "done", `{"created_at":"2026-02-03T04:05:06Z","exit":0}`, at)
	a := tidemark.Append{Log: log}
	for i, l := range []struct{ kind, body string }{
		{"system", `{"blocks":[{"type":"text","text":"be brief"}]}`},
		{"user", `{"blocks":[{"type":"text","text":"what is 1+1?"},{"type":"image","url":"x"},{"type":"text","text":"and 'why'"}]}`},
		{"assistant", `{"blocks":[{"type":"tool_use","id":"t1","name":"bash","input":{"command":"echo 2"}}],"model":"demo"}`},
		{"tool", `{"blocks":[{"type":"tool_result","tool_use_id":"t1","text":"2"}]}`},
		{"branch", `{}`},
		{"user", `{}`},
	} {
		a.Lines = append(a.Lines, line(log, int64(i+1), l.kind, seal(l.body)))
	}
	keep(t, b, tidemark.Batch{At: at.Add(time.Minute), Appends: []tidemark.Append{a}})
	talk(t, b, key("session", "gone"), 1, 2)
	talk(t, b, key("worker", session), 1, 2)
	b.Close()
	return b
}

func plainly(body string) string { return body }

func TestViewsAnswerInAShell(t *testing.T) {
	b := conversation(t, plainly)
	for sql, want := range map[string]string{
		`SELECT id, created_at, updated_at FROM sessions ORDER BY updated_at DESC`: session + `|2026-03-04T05:06:07.500000Z|2026-03-04T05:07:07.000089Z
quiet|2026-01-01T00:00:00.000000Z|2026-03-04T04:06:07.000089Z`,
		`SELECT id, locked_by, typeof(locked_by), json_extract(metadata, '$.title') FROM sessions ORDER BY id`: session + `|4411|text|a "title"
quiet|∅|null|∅`,
		`SELECT id, role, content, created_at FROM messages WHERE session_id = '` + session + `' ORDER BY id`: `4294967298|user|what is 1+1?
and 'why'|2026-03-04T05:06:09.000089Z
4294967299|assistant|[{"type":"tool_use","id":"t1","name":"bash","input":{"command":"echo 2"}}]|2026-03-04T05:06:10.000089Z
4294967300|tool_results|[{"type":"tool_result","tool_use_id":"t1","text":"2"}]|2026-03-04T05:06:11.000089Z
4294967302|user||2026-03-04T05:06:13.000089Z`,
		`SELECT count(*), count(DISTINCT session_id) FROM messages`: `4|1`,
		`SELECT * FROM jobs`: `job-1|agent|done|2026-02-03T04:05:06.000000Z|2026-03-04T05:06:07.000089Z|{"created_at":"2026-02-03T04:05:06Z","exit":0}`,
	} {
		if d := cmp.Diff(want, shell(t, b.path, sql)); d != "" {
			t.Errorf("%s (-want +got):\n%s", sql, d)
		}
	}
}

func TestViewsOfASealedStoreShowNoContent(t *testing.T) {
	for name, seal := range map[string]func(string) string{
		"sealed":  func(body string) string { return "\x01\xff" + strings.Repeat("\x80", len(body)) },
		"damaged": func(body string) string { return body[:len(body)-1] + "\x00" },
	} {
		t.Run(name, func(t *testing.T) {
			b := conversation(t, seal)
			for sql, want := range map[string]string{
				`SELECT id, created_at, metadata, locked_by FROM sessions ORDER BY id`: session + `|2026-03-04T05:06:08.000089Z|∅|∅
quiet|2026-03-04T04:06:07.000089Z|∅|∅`,
				`SELECT role, content FROM messages`:    "user|∅\nassistant|∅\ntool_results|∅\nuser|∅",
				`SELECT id, status, metadata FROM jobs`: `job-1|done|∅`,
			} {
				if d := cmp.Diff(want, shell(t, b.path, sql)); d != "" {
					t.Errorf("%s (-want +got):\n%s", sql, d)
				}
			}
		})
	}
}

func TestDeletingInAShellMovesASessionToTheTrash(t *testing.T) {
	for name, sql := range map[string]string{
		"session":  `DELETE FROM sessions WHERE id = '` + session + `'`,
		"messages": `DELETE FROM messages WHERE session_id = '` + session + `'`,
		"both":     `DELETE FROM messages WHERE session_id = '` + session + `'; DELETE FROM sessions WHERE id = '` + session + `';`,
	} {
		t.Run(name, func(t *testing.T) {
			old := conversation(t, plainly)
			shell(t, old.path, sql)
			if got := shell(t, old.path, `SELECT count(*) FROM sessions; SELECT count(*) FROM messages`); got != "1\n0" {
				t.Errorf("sessions and messages left: %q", got)
			}
			b := opened(t, old.path, nil)
			r, err := b.Get(t.Context(), key("session", session))
			if err != nil {
				t.Fatal(err)
			}
			if r.State != "trash" || r.Version != 2 || r.Batch != "sql" || !strings.Contains(string(r.Body), "title") {
				t.Errorf("%+v", r)
			}
			if since := time.Since(r.UpdatedAt); since < -time.Minute || since > time.Hour {
				t.Errorf("updated %v ago", since)
			}
			if n := len(linesOf(t, b, r.Key)); n != 6 {
				t.Errorf("%d lines, want all 6", n)
			}
			if found := faults(t, b); found != nil {
				t.Errorf("Check: %v", found)
			}
			for first, err := range b.List(t.Context(), tidemark.Query{Kind: "session", State: "trash", Limit: 1}) {
				if err != nil || first.ID != session {
					t.Errorf("newest in the trash: %s, %v", first.ID, err)
				}
			}
			keep(t, b, tidemark.Batch{At: time.Now().UTC().Truncate(time.Microsecond), Puts: []tidemark.Record{record(r.Key, 3, string(r.Body))}})
		})
	}
}

func TestTimesOfAllYearsAreWrittenRight(t *testing.T) {
	b := made(t)
	for i, when := range []time.Time{time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(1969, 12, 31, 23, 59, 59, 999_999_000, time.UTC),
		time.Date(9999, 12, 31, 23, 59, 59, 1000, time.UTC)} {
		r := record(key("job", fmt.Sprint(i)), 1, `not json`)
		batch := tidemark.Batch{ID: tidemark.NewBatchID(), At: when, Puts: []tidemark.Record{r}}
		if _, err := b.Commit(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
		got, err := b.Get(t.Context(), r.Key)
		if err != nil || !got.UpdatedAt.Equal(when) {
			t.Errorf("updated %v, %v; want %v", got.UpdatedAt, err, when)
		}
	}
	b.Close()
	const want = "0001-01-01T00:00:00.000000Z\n1969-12-31T23:59:59.999999Z\n9999-12-31T23:59:59.000001Z"
	if d := cmp.Diff(want, shell(t, b.path, `SELECT updated_at FROM jobs ORDER BY id`)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// The statements of the page run as they stand there.
func TestStatementsOfTheFormatPageRun(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "formats", "sqlite.md"))
	if err != nil {
		t.Fatal(err)
	}
	b := conversation(t, plainly)
	blocks := regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(blocks) < 6 {
		t.Fatalf("%d statements on the page", len(blocks))
	}
	deleted := false
	for _, block := range blocks {
		out := shell(t, b.path, block[1])
		deletes := strings.HasPrefix(block[1], "DELETE")
		if out == "" && !deletes {
			t.Errorf("no answer to\n%s", block[1])
		}
		deleted = deleted || deletes
	}
	if !deleted {
		t.Error("the page deletes nothing")
	}
	for _, want := range []string{fmt.Sprint(applicationID), "`PRAGMA user_version`"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page does not say %s", want)
		}
	}
}
