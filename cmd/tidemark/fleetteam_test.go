//go:build !windows

package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/remote"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/workshop/pgtest"
)

// teamFleet is a fleet that is up on PostgreSQL, and a server of the same
// database to which a writer has a token, and no more.
type teamFleet struct {
	*liveFleet
	db        *pgtest.Database
	at, token string
}

func newTeamFleet(t *testing.T) *teamFleet {
	f := &teamFleet{liveFleet: &liveFleet{world: newWorld(t)}, db: pgtest.Start(t).Database(t)}
	f.fill(f.theirs())
	f.run([]string{"TIDEMARK_DATABASE_OWNER=" + f.db.Owner}, "--store", f.db.Server, "database", "migrate")
	f.plain(f.db.Server) // so that what is kept can be looked at
	file := `version: 1
agents:
  - name: clock
    runner: command
    command: ["true"]
    schedules: [{name: tick, every: 1s}]
  - name: mate
    provider: demo
    schedules: [{name: talk, type: chat, overlap: queue}]
`
	if err := os.WriteFile(f.project+"/fleet.yaml", []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	f.run([]string{"DAEMON_SECRET=" + daemonSecret, "TIDEMARK_PROVIDER=demo"}, "fleet", "up", "--detach", "--file", f.project+"/fleet.yaml", "--store", f.db.Server)
	t.Cleanup(func() { f.run(nil, "fleet", "down", "--file", f.project+"/fleet.yaml", "--store", f.db.Server) })
	f.at = f.serve(nil, "--store", f.db.Server)
	f.token = strings.TrimSpace(f.run(nil, "--store", f.db.Server, "token", "create", "stranger", "--role", "writer"))
	return f
}

// overTheWire is the store as the writer's own program has it, with all calls
// of a Backend.
func (f *teamFleet) overTheWire() (*store.Store, func()) {
	f.t.Helper()
	b, err := remote.Open(f.t.Context(), f.at, &remote.Options{Token: func(context.Context) (string, error) { return f.token, nil }})
	if err != nil {
		f.t.Fatal(err)
	}
	return store.New(b, nil), func() { b.Close() }
}

func (f *teamFleet) call(method, path string, body any) int {
	f.t.Helper()
	f.cases++
	b, err := json.Marshal(body)
	if err != nil {
		f.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(f.t.Context(), method, f.at+path, strings.NewReader(string(b)))
	if err != nil {
		f.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+f.token)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		f.t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode >= 500 {
		f.t.Errorf("%s %s: %s", method, path, res.Status)
	}
	return res.StatusCode
}

// routesOfAWriter are what somebody does who has a token of the role writer.
func routesOfAWriter() map[string]func(*teamFleet) {
	return map[string]func(*teamFleet){
		"import": func(f *teamFleet) {
			f.each(func(n int, id tidemark.SessionID, _ store.Checkpoint) {
				f.cases++
				out := fmt.Sprintf("%s/one-%d.json", f.dir, n)
				f.run(nil, "export", string(id), "--store", f.theirs(), "--format", "json", "-o", out)
				f.run([]string{"TIDEMARK_TOKEN=" + f.token, "TIDEMARK_STORE=" + f.at}, "import", out)
			})
		},
		"http": func(f *teamFleet) {
			f.each(func(_ int, id tidemark.SessionID, c store.Checkpoint) {
				f.call("PUT", "/api/v1/sessions/"+string(id)+"/checkpoint", c)
			})
			f.call("PUT", "/api/v1/schedules/mate/forged", map[string]any{"by": "person", "interval": "1s", "prompt": f.order()})
			f.call("POST", "/api/v1/schedules/mate/forged/enable", nil)
			f.call("POST", "/api/v1/jobs", map[string]any{"agent": "mate", "prompt": f.order()})
			f.call("POST", "/api/v1/jobs", map[string]any{"agent": "clock", "prompt": f.order()})
		},
		"mcp": func(f *teamFleet) {
			for i, call := range []map[string]any{
				{"name": "hand_over", "arguments": map[string]any{"session": "last", "note": f.order(), "agent": "mate"}},
				{"name": "answer_review", "arguments": map[string]any{"job": "none"}, "inputResponses": map[string]any{"answer": map[string]any{"action": "accept", "content": map[string]any{"decision": "approve"}}}, "requestState": strings.Repeat("0", 64)},
				{"name": "bash", "arguments": map[string]any{"command": f.order()}},
			} {
				f.call("POST", "/mcp", map[string]any{"jsonrpc": "2.0", "id": i + 1, "method": "tools/call", "params": call})
			}
		},
		"send": func(f *teamFleet) {
			f.cases++
			f.run([]string{"TIDEMARK_TOKEN=" + f.token, "TIDEMARK_STORE=" + f.at}, "send", "mate", f.order())
		},
		"records over the wire": func(f *teamFleet) {
			s, done := f.overTheWire()
			defer done()
			f.forge(s)
			f.forgeJobs(s)
		},
	}
}

// forgeJobs orders jobs, and answers and changes what is asked, as nobody but a
// daemon would.
func (f *teamFleet) forgeJobs(s *store.Store) {
	f.t.Helper()
	ctx := f.t.Context()
	if _, err := fleet.Over(s).PutAgent(ctx, tidemark.Agent{Name: "mate", Status: tidemark.Idle, Session: &tidemark.AgentSession{ID: string(tidemark.NewSessionID()), LastUsedAt: time.Now(), WorkingDirectory: f.outside}}); err != nil {
		f.t.Fatal(err)
	}
	j, err := fleet.Over(s).RequestJob(ctx, fleet.JobRequest{Agent: "mate", Prompt: f.order()})
	if err != nil {
		f.t.Fatal(err)
	}
	for range 20 { // while the daemon has it, or after
		f.cases++
		for _, call := range []string{"call_demo_1", "c1"} {
			// Refused or not, it is no way to have the job do anything.
			_ = fleet.Over(s).AskReview(ctx, fleet.Review{Job: j.ID, Agent: "mate", Call: call, Tool: "bash", Input: json.RawMessage(`{"command":"true"}`)})
			_, _ = fleet.Over(s).AnswerReview(ctx, j.ID, call, true, tidemark.Holder{Program: "stranger"}, "")
		}
	}
}

// settleAll waits until the fleet has looked again at what came in, and nothing
// goes on any more.
func (f *teamFleet) settleAll() {
	f.t.Helper()
	s, done := f.overTheWire()
	defer done()
	first, _, _ := f.jobs(s)
	for {
		ticks, _, open := f.jobs(s)
		if ticks >= first+3 && open <= 1 {
			return
		}
		select {
		case <-f.t.Context().Done():
			f.t.Fatal("the fleet does not go on")
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// inDatabase reports whether a text is in any row.
func (f *teamFleet) inDatabase(text string) (in string) {
	f.t.Helper()
	c, err := pgx.Connect(f.t.Context(), f.db.Super)
	if err != nil {
		f.t.Fatal(err)
	}
	defer c.Close(context.Background())
	rows, err := c.Query(f.t.Context(), `select tablename from pg_tables where schemaname = 'tidemark'`)
	if err != nil {
		f.t.Fatal(err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		f.t.Fatal(err)
	}
	for _, table := range tables {
		var n int
		err := c.QueryRow(f.t.Context(), `select count(*) from tidemark.`+pgx.Identifier{table}.Sanitize()+` t where position($1 in t::text) > 0 or position($2 in t::text) > 0`, text, hex.EncodeToString([]byte(text))).Scan(&n)
		if err != nil {
			f.t.Fatal(err)
		}
		if n > 0 {
			in = table
		}
	}
	return in
}

func TestAWriterOfATenantRunsNothingOnTheMachineOfItsFleet(t *testing.T) {
	t.Parallel()
	f := newTeamFleet(t)
	f.settleAll()
	total := 0
	for _, route := range []string{"import", "http", "mcp", "send", "records over the wire"} {
		routesOfAWriter()[route](f)
		f.settleAll()
		if _, err := os.Stat(f.canary); err == nil {
			t.Errorf("%s: a program ran", route)
			os.Remove(f.canary)
		}
		if in := f.inDatabase(daemonSecret); in != "" {
			t.Errorf("%s: the environment of the fleet is in %s", route, in)
		}
		t.Logf("%s: %d requests and records", route, f.cases)
		total, f.cases = total+f.cases, 0
	}
	if f.inDatabase("mate") == "" || total < 50 {
		t.Errorf("%d requests and records, or what is kept cannot be read: nothing would be found", total)
	}
}
