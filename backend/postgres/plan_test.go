package postgres

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/workshop/pgtest"
)

// planNode is a node of a plan as PostgreSQL explains it: Rows and what is
// removed are averages over the loops, Blocks the sum, with those of its parts.
type planNode struct {
	Type     string     `json:"Node Type"`
	Relation string     `json:"Relation Name"`
	Index    string     `json:"Index Name"`
	Cond     string     `json:"Index Cond"`
	Rows     float64    `json:"Actual Rows"`
	Loops    float64    `json:"Actual Loops"`
	Filtered float64    `json:"Rows Removed by Filter"`
	Unjoined float64    `json:"Rows Removed by Join Filter"`
	Unmet    float64    `json:"Rows Removed by Index Recheck"`
	Hit      float64    `json:"Shared Hit Blocks"`
	Read     float64    `json:"Shared Read Blocks"`
	Parts    []planNode `json:"Plans"`
}

// explained is a statement that was run, and how.
type explained struct {
	Query string   `json:"Query Text"`
	Plan  planNode `json:"Plan"`
}

// explaining connects as a server does, with every statement explained by the
// server that runs it, those inside functions, too.
type explaining struct {
	db *Database

	mu  sync.Mutex
	all []explained
	bad []string
}

// explain lets every later connection of the server's role tell the plans of its
// statements, as notices.
func explain(t *testing.T, made *pgtest.Database) {
	t.Helper()
	for name, value := range map[string]string{"session_preload_libraries": "auto_explain", "auto_explain.log_min_duration": "0", "auto_explain.log_analyze": "on",
		"auto_explain.log_buffers": "on", "auto_explain.log_timing": "off", "auto_explain.log_nested_statements": "on", "auto_explain.log_format": "json",
		"auto_explain.log_level": "notice"} {
		tell(t, made.Super, fmt.Sprintf(`alter role %s in database %s set %s = '%s'`, made.Role, made.Name, name, value))
	}
}

func newExplaining(t *testing.T, made *pgtest.Database, how Pooler) *explaining {
	t.Helper()
	e := &explaining{}
	config, err := configOf(made.Server)
	if err != nil {
		t.Fatal(err)
	}
	config.ConnConfig.OnNotice = e.note
	config.MaxConns = 1 // plans belong to a connection
	db := &Database{place: "test", writers: make(map[lane]*writer)}
	if err := db.detect(t.Context(), config, &Options{Pooler: how}); err != nil {
		t.Fatal(err)
	}
	if err := db.pooling(t.Context(), config, &Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	e.db = db
	return e
}

func (e *explaining) note(_ *pgconn.PgConn, n *pgconn.Notice) {
	_, plan, ok := strings.Cut(n.Message, "plan:\n")
	if !ok {
		return
	}
	var x explained
	err := json.Unmarshal([]byte(plan), &x)
	e.mu.Lock()
	defer e.mu.Unlock()
	if err != nil {
		e.bad = append(e.bad, err.Error())
	} else if !strings.HasPrefix(x.Query, "select set_config(") && !strings.Contains(x.Query, "pg_notify") {
		e.all = append(e.all, x)
	}
}

// take returns what was explained since it was last called.
func (e *explaining) take(t *testing.T) []explained {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.bad) > 0 {
		t.Fatalf("plans that cannot be read: %q", e.bad)
	}
	all := e.all
	e.all = nil
	return all
}

// fewRows is how many rows a step of a plan may read and throw away.
const fewRows = 4

// Blocks that one walk down an index may touch, and those for each row that it
// finds: what is walked in an index without a match is removed by nobody, and
// shows only here.
const (
	blocksAWalk = 10
	blocksARow  = 4
)

// faults lists what is wrong with a plan in which no step may yield more than
// most rows, and notes the indexes that it walked.
func (n *planNode) faults(most float64, indexes map[string]bool) (all []string) {
	blocks := n.Hit + n.Read
	for i := range n.Parts {
		all = append(all, n.Parts[i].faults(most, indexes)...)
		blocks -= n.Parts[i].Hit + n.Parts[i].Read
	}
	if n.Loops == 0 {
		return all
	}
	what := n.Type
	if n.Relation != "" {
		what += " on " + n.Relation
	}
	if n.Index != "" {
		what += " by " + n.Index + " " + n.Cond
		indexes[n.Index] = true
	}
	if thrown := (n.Filtered + n.Unjoined + n.Unmet) * n.Loops; thrown > fewRows {
		all = append(all, fmt.Sprintf("%s: throws away %.0f rows", what, thrown))
	}
	if rows := n.Rows * n.Loops; rows > most {
		all = append(all, fmt.Sprintf("%s: %.0f rows", what, rows))
	}
	if n.Type == "Seq Scan" && n.Relation != "" {
		all = append(all, what)
	}
	if strings.Contains(n.Type, "Scan") && blocks > n.Loops*blocksAWalk+n.Rows*n.Loops*blocksARow {
		all = append(all, fmt.Sprintf("%s: %.0f blocks for %.0f rows in %.0f walks", what, blocks, n.Rows*n.Loops, n.Loops))
	}
	return all
}

// The sizes of the skewed database.
const (
	skewTenants  = 20_000
	skewShared   = 100
	skewSessions = 5_000
	skewLines    = 10_000
)

// skewed fills a database with one owner of many sessions, one of them long, in a tenant that has
// run many jobs, and with many tenants of one session each. Rows that only stand
// around are written in bulk, past the policies, and have no right sums.
func skewed(t *testing.T, made *pgtest.Database) {
	t.Helper()
	who := connected(t, made.Server, nil).For(ada).who
	// The owner's records come from series of their own; the others' ids are made
	// of their number.
	const bulk = `
insert into tidemark.record (tenant, owner, kind, id, session, version, "group", state, due, updated, touched, batch, sum, body)
  select tenant, owner, kind, case kind when 'name' then session || '.title' else session::text end, case when kind <> 'lease' then session end, 1,
    case kind when 'name' then 'title:' || n when 'job' then 'agent' else '' end, case kind when 'session' then 'live' when 'lease' then 'held' when 'job' then 'ok' else '' end,
    null, at, at, 'b', 0, '{}'
  from (%[1]s) s cross join unnest(array[%[2]s]) kind;
insert into tidemark.log (tenant, owner, kind, id, log, session, length, updated, parent, depth, nodes, turn)
  select tenant, owner, 'session', session::text, session, session, %[3]d, at, 1, 2, 0, 0 from (%[1]s) s;
insert into tidemark.line (tenant, owner, log, seq, kind, key, at, parent, depth, nodes, turn, batch, sum, body)
  select tenant, owner, session, i, 'user', 'key ' || i, at, i - 1, i, 0, 0, 'b', 0, '{}' from (%[1]s) s cross join generate_series(1, %[3]d) i`
	const others = `select n, md5('t' || n)::uuid as tenant, md5('o' || n)::uuid as owner, md5('s' || n)::uuid as session,
    timestamptz '2026-01-01' + n * interval '1 minute' as at from generate_series(1, %d) n`
	mine := fmt.Sprintf(`select n, '%s'::uuid as tenant, '%s'::uuid as owner, md5('m' || n)::uuid as session,
    timestamptz '2026-01-01' + n * interval '1 minute' as at from generate_series(1, %d) n`, idText(who.tenant), idText(who.user), skewSessions)
	jobs := fmt.Sprintf(`insert into tidemark.record (tenant, owner, kind, id, version, "group", state, due, updated, touched, batch, sum, body)
  select '%[1]s', '%[1]s', 'job', md5('j' || n), 1, 'agent' || n %% 10, 'ok', null, at, at, 'b', 0, '{}'
  from (select n, timestamptz '2026-01-01' + n * interval '1 minute' as at from generate_series(1, %[2]d) n) s`, idText(who.tenant), skewSessions)
	for _, table := range []string{"record", "log", "line"} {
		tell(t, made.Super, `alter table tidemark.`+table+` set (autovacuum_enabled = false)`)
	}
	tell(t, made.Super, fmt.Sprintf(bulk, fmt.Sprintf(others, skewTenants), `'session', 'lease'`, 1), fmt.Sprintf(bulk, mine, `'session', 'lease', 'name'`, 2), jobs)
}

// skewAt is later than everything that stands around.
var skewAt = time.Date(2026, 9, 1, 0, 0, 0, 0, time.UTC)

func skewLine(log tidemark.Key, seq int64, key string) tidemark.Line {
	l := tidemark.Line{Seq: seq, Kind: "user", Key: key, Body: []byte(`{"blocks":[]}`), At: skewAt.Add(time.Duration(seq) * time.Millisecond),
		Position: tidemark.Position{Parent: seq - 1, Depth: seq}}
	l.Sum = l.Checksum(log)
	return l
}

// hot is the sessions that the statements are about, and how they are changed.
type hot struct {
	t    *testing.T
	b    *Backend
	id   tidemark.SessionID
	next int64
	acts int64
}

func (h *hot) key(kind string) tidemark.Key { return key(kind, string(h.id)) }

// begin makes a session with a name and a lease, and lines.
func (h *hot) begin(lines int64) {
	h.t.Helper()
	h.id, h.next = tidemark.NewSessionID(), 1
	named := record(key("name", string(h.id)+".title"), 1, "{}")
	named.Group = "title:" + string(h.id)
	session, lease := record(h.key("session"), 1, "{}"), record(h.key("lease"), 1, "{}")
	session.State, lease.State = "live", "held"
	h.commit(tidemark.Batch{Puts: []tidemark.Record{session, lease, named}, Appends: []tidemark.Append{h.lines(1)}})
	for h.next <= lines {
		h.commit(tidemark.Batch{Appends: []tidemark.Append{h.lines(min(2000, lines+1-h.next))}})
	}
}

// segmentOf makes a segment of so many blocks.
func segmentOf(k tidemark.Key, blocks int64) tidemark.Batch {
	a := tidemark.Append{Log: k}
	for n := range blocks {
		l := tidemark.Line{Seq: n + 1, Kind: "block", At: skewAt, Body: bytes.Repeat([]byte{byte(n)}, 3900)}
		l.Sum = l.Checksum(k)
		a.Lines = append(a.Lines, l)
	}
	return tidemark.Batch{Puts: []tidemark.Record{record(k, 1, "{}")}, Appends: []tidemark.Append{a}}
}

// lines are the next n; one that comes alone has a key.
func (h *hot) lines(n int64) tidemark.Append {
	a := tidemark.Append{Log: h.key("session")}
	for range n {
		k := ""
		if n == 1 {
			k = fmt.Sprint("key ", h.next)
		}
		a.Lines = append(a.Lines, skewLine(a.Log, h.next, k))
		h.next++
	}
	return a
}

func (h *hot) commit(b tidemark.Batch) {
	h.t.Helper()
	b.At = skewAt.Add(time.Duration(h.next) * time.Millisecond)
	keep(h.t, h.b, b)
}

func (h *hot) leased() []tidemark.Precondition {
	return []tidemark.Precondition{{Key: h.key("lease"), Version: 1}}
}

// waits is a line under the lease that waits for its turn.
func (h *hot) waits() *pending {
	b := tidemark.Batch{ID: tidemark.NewBatchID(), At: skewAt.Add(time.Duration(h.next) * time.Millisecond), Require: h.leased(), Appends: []tidemark.Append{h.lines(1)}}
	return &pending{who: h.b.who, batch: &b, done: make(chan struct{})}
}

// count reads a sequence to its end.
func count[T any](t *testing.T, seq iter.Seq2[T, error]) (n int) {
	t.Helper()
	for _, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

func TestHotStatementsThrowNoRowsAwayHoweverOwnersDiffer(t *testing.T) {
	made := ready(t, Migration{})
	skewed(t, made)
	explain(t, made)
	t.Run("before_ANALYZE", func(t *testing.T) { hotStatements(t, newExplaining(t, made, Direct)) })
	tell(t, made.Super, `analyze`)
	t.Run("after_ANALYZE", func(t *testing.T) { hotStatements(t, newExplaining(t, made, Direct)) })
	t.Run("as_behind_a_pooler", func(t *testing.T) { hotStatements(t, newExplaining(t, made, Pooled)) })
}

func hotStatements(t *testing.T, e *explaining) {
	ctx := context.Background()
	h := &hot{t: t, b: e.db.For(ada)}
	h.begin(skewLines)
	session := h.key("session")
	keeping, err := h.b.Keeper(ada.Tenant)
	if err != nil {
		t.Fatal(err)
	}
	keeper := keeping.(*Backend)
	scope := of(t, h.b, ada.Tenant)
	mate := e.db.For(tidemark.TenantOf("acme", "bob"))
	beside := &hot{t: t, b: mate}
	beside.begin(1)
	beside.commit(tidemark.Batch{Require: beside.leased(), Appends: []tidemark.Append{beside.lines(1)}})
	shared := &hot{t: t, b: h.b}
	shared.begin(skewShared)
	if err := h.b.Share(ctx, shared.id, tidemark.Scope{With: tidemark.InTenant}); err != nil {
		t.Fatal(err)
	}
	segment := key(tidemark.KindSegment, string(tidemark.NewSessionID()))
	for _, b := range []*Backend{h.b, keeper} {
		keep(t, b, segmentOf(segment, 200))
	}
	// A function that is called for the first time in a connection reads the catalog.
	if _, err := scope.Get(ctx, segment); err != nil {
		t.Fatal(err)
	}
	list := func(q tidemark.Query) func(t *testing.T) int {
		return func(t *testing.T) int { return count(t, h.b.List(ctx, q)) }
	}
	lines := func(s tidemark.Span) func(t *testing.T) int {
		return func(t *testing.T) int { return count(t, h.b.Lines(ctx, session, s)) }
	}
	newest := func(t *testing.T) *tidemark.Record {
		for r, err := range h.b.List(ctx, tidemark.Query{Kind: "session", Limit: 1}) {
			if err != nil {
				t.Fatal(err)
			}
			return &r
		}
		return nil
	}
	for _, op := range []struct {
		name string
		most float64 // rows that a step may yield
		want string  // the indexes, and no other
		do   func(t *testing.T) int
		n    int // what do returns
	}{
		{"append under a lease", 4, "log_pkey record_pkey", func(t *testing.T) int {
			h.commit(tidemark.Batch{Require: []tidemark.Precondition{{Key: h.key("lease"), Version: 1}}, Appends: []tidemark.Append{h.lines(1)}})
			return 0
		}, 0},
		{"append under a lease again", 4, "log_pkey", func(t *testing.T) int {
			h.acts++
			act := tidemark.ActLog(tidemark.ActKind, ada.Tenant, "node", string(h.id))
			l := tidemark.Line{Seq: h.acts, Kind: act.Kind, At: skewAt, Body: []byte("appended")}
			l.Sum = l.Checksum(act)
			h.commit(tidemark.Batch{Require: []tidemark.Precondition{{Key: h.key("lease"), Version: 1}},
				Appends: []tidemark.Append{h.lines(1), {Log: act, Lines: []tidemark.Line{l}}}})
			return 0
		}, 0},
		{"append of two users", 4, "log_pkey", func(t *testing.T) int {
			w := e.db.writer(lane{who: who{tenant: h.b.who.tenant}})
			defer e.db.letGo(w)
			w.queue = append(w.queue, h.waits(), beside.waits())
			n := 0
			group := w.take()
			w.carryOut(group)
			for _, p := range group {
				if p.err == nil {
					n++
				}
			}
			return n
		}, 2},
		{"lines that are named", 8, "line_pkey log_pkey", func(t *testing.T) int {
			return count(t, h.b.Lines(ctx, session, tidemark.Span{From: 5, To: 5}, tidemark.Span{From: 70, To: 71}, tidemark.Span{From: 300, To: 300}))
		}, 4},
		{"append with a record put", 4, "line_key log_pkey record_pkey", func(t *testing.T) int {
			h.commit(tidemark.Batch{Require: []tidemark.Precondition{{Key: h.key("lease"), Version: 1}}, Puts: []tidemark.Record{record(h.key("pulse"), 1, "{}")},
				Appends: []tidemark.Append{h.lines(1)}})
			return 0
		}, 0},
		{"get", 1, "log_pkey record_pkey", func(t *testing.T) int {
			if _, err := h.b.Get(ctx, session); err != nil {
				t.Fatal(err)
			}
			if _, err := h.b.Get(ctx, h.key("lease")); err != nil {
				t.Fatal(err)
			}
			return 0
		}, 0},
		{"get what is nobody's", 2, "log_pkey record_pkey share_session", func(t *testing.T) int {
			if _, err := h.b.Get(ctx, key("session", string(tidemark.NewSessionID()))); err == nil {
				t.Fatal("found")
			}
			return 0
		}, 0},
		{"newest lines", 50, "line_pkey log_pkey", lines(tidemark.Span{Newest: 50}), 50},
		{"newest lines backwards", 50, "line_pkey log_pkey", lines(tidemark.Span{Newest: 50, Backwards: true}), 50},
		{"lines behind a seq", 50, "line_pkey log_pkey", lines(tidemark.Span{From: 5001, To: 5050}), 50},
		{"lines before a seq", 50, "line_pkey log_pkey", lines(tidemark.Span{From: 5001, To: 5050, Backwards: true}), 50},
		{"wait", 3, "log_pkey record_pkey", func(t *testing.T) int {
			if err := h.b.Wait(ctx, session, 1); err != nil {
				t.Fatal(err)
			}
			return 0
		}, 0},
		{"list newest", 100, "log_pkey record_newest record_pkey record_shared", list(tidemark.Query{Kind: "session", Limit: 1}), 1},
		{"list newest after another", 100, "log_pkey record_newest record_pkey record_shared", func(t *testing.T) int {
			n := 0
			for _, err := range h.b.List(ctx, tidemark.Query{Kind: "session", Limit: 1, After: newest(t)}) {
				if n++; err != nil {
					return n // one of the rows that stand around, without a sum
				}
			}
			return n
		}, 1},
		{"list of a state", 100, "log_pkey record_pkey record_shared record_state", list(tidemark.Query{Kind: "session", State: "live", Limit: 1}), 1},
		{"list by id", 100, "log_pkey record_pkey record_shared", list(tidemark.Query{Kind: "session", Prefix: string(h.id), Order: tidemark.ByID, Limit: 1}), 1},
		{"list newest by prefix", 100, "log_pkey record_pkey record_shared", list(tidemark.Query{Kind: "name", Prefix: string(h.id) + "."}), 1},
		{"names by group", 100, "log_pkey record_group record_pkey record_shared", list(tidemark.Query{Kind: "name", Group: "title:" + string(h.id), Limit: 1}), 1},
		{"leases held", 100, "log_pkey record_pkey record_state", list(tidemark.Query{Kind: "lease", State: "held", Limit: 1}), 1},
		{"jobs due", 100, "record_due", func(t *testing.T) int {
			return count(t, e.db.For(tidemark.Principal{Tenant: ada.Tenant, User: ada.Tenant}).List(ctx, tidemark.Query{Kind: "job", State: "pending", DueBy: skewAt, Order: tidemark.ByDue, Limit: 10}))
		}, 0},
		{"jobs of an agent in a state", 100, "record_group_state", func(t *testing.T) int {
			return count(t, e.db.For(tidemark.Principal{Tenant: ada.Tenant, User: ada.Tenant}).List(ctx, tidemark.Query{Kind: "job", Group: "agent3", State: "failed", Limit: 10}))
		}, 0},
		{"what is of a group, by id", 100, "log_pkey record_group record_pkey record_shared", list(tidemark.Query{Kind: "name", Group: "title:" + string(h.id), Order: tidemark.ByID}), 1},
		{"sessions being purged", 100, "record_shared record_state", list(tidemark.Query{Kind: "session", State: "purging", Order: tidemark.ByID}), 0},
		{"who shares", 16, "log_pkey record_pkey share_session", func(t *testing.T) int {
			if _, _, err := h.b.Shared(ctx, h.id); err != nil {
				t.Fatal(err)
			}
			return 0
		}, 0},
		{"a step of the index", 8, "log_pkey record_pkey", func(t *testing.T) int {
			keep(t, h.b, segmentOf(key(tidemark.KindSegment, string(tidemark.NewSessionID())), 8))
			return 0
		}, 0},
		{"blocks of one's own index", 4, "line_pkey log_pkey", func(t *testing.T) int {
			return count(t, h.b.Lines(ctx, segment, tidemark.Span{From: 3, To: 3}, tidemark.Span{From: 77, To: 79}))
		}, 4},
		{"blocks of several segments", 4, "line_pkey log_pkey", func(t *testing.T) int {
			got, err := h.b.LinesOf(ctx, []tidemark.LogLines{{Log: segment, Seqs: []int64{3, 77}}, {Log: session, Seqs: []int64{1, 2}}})
			if err != nil {
				t.Fatal(err)
			}
			return len(got[0]) + len(got[1])
		}, 4},
		{"which segments of a scope count", 1, "log_pkey record_pkey", func(t *testing.T) int {
			if _, err := scope.Get(ctx, segment); err != nil {
				t.Fatal(err)
			}
			return 0
		}, 0},
		{"blocks of the index of a scope", 3, "line_pkey log_named log_pkey", func(t *testing.T) int {
			return count(t, scope.Lines(ctx, segment, tidemark.Span{From: 3, To: 3}, tidemark.Span{From: 77, To: 79}))
		}, 4},
		{"lines of another's session", 50, "line_pkey log_named log_pkey record_pkey share_session", func(t *testing.T) int {
			return count(t, mate.Lines(ctx, shared.key("session"), tidemark.Span{Newest: 50}))
		}, 50},
		{"notes of a scope", 100, "log_pkey record_pkey", func(t *testing.T) int {
			return min(count(t, scope.List(ctx, tidemark.Query{Kind: tidemark.KindUnindexed, Order: tidemark.ByID})), 1)
		}, 1},
		{"what a scope has to index", 100, "log_pkey record_newest record_pkey record_shared", func(t *testing.T) int {
			return min(count(t, keeper.List(ctx, tidemark.Query{Kind: "session", Each: true, Limit: 64})), 1)
		}, 1},
		{"walk", 2048, "log_pkey record_pkey", func(t *testing.T) int {
			for _, err := range h.b.Walk(ctx, tidemark.Key{Kind: "session", ID: string(h.id)}) {
				if err != nil {
					t.Fatal(err)
				}
				break
			}
			return 0
		}, 0},
	} {
		t.Run(strings.ReplaceAll(op.name, " ", "_"), func(t *testing.T) {
			e.take(t)
			if n := op.do(t); n != op.n {
				t.Errorf("%d found, want %d", n, op.n)
			}
			statements := e.take(t)
			if len(statements) == 0 {
				t.Fatal("nothing was explained")
			}
			used := make(map[string]bool)
			for _, s := range statements {
				if faults := s.Plan.faults(op.most, used); len(faults) > 0 {
					t.Errorf("%.200s\n  %s", s.Query, strings.Join(faults, "\n  "))
				}
			}
			delete(used, "home_pkey") // the trigger of every statement that writes
			if got := strings.Join(slices.Sorted(maps.Keys(used)), " "); got != op.want {
				t.Errorf("indexes %s, want %s", got, op.want)
			}
		})
	}
}

// TestALogIsFoundByItsNameHoweverSmallTheTableWas has plans made while the statistics say
// that there are next to no logs, where each index looks as good as the other: such a plan
// stays until the next ANALYZE, however many logs there are by then.
func TestALogIsFoundByItsNameHoweverSmallTheTableWas(t *testing.T) {
	made := ready(t, Migration{})
	db := connected(t, made.Server, nil)
	mine, others := db.For(ada), db.For(tidemark.TenantOf("acme", "bob"))
	seqs := make(map[tidemark.Key]int64)
	session := func(b *Backend) tidemark.Key {
		log := key("session", idText(newLogID()))
		seqs[log] = 1
		keep(t, b, tidemark.Batch{Puts: []tidemark.Record{record(log, 1, "{}"), record(key("lease", log.ID), 1, "{}")},
			Appends: []tidemark.Append{{Log: log, Lines: []tidemark.Line{line(log, 1, "user", "{}")}}}})
		return log
	}
	logs, theirs := []tidemark.Key{session(mine)}, []tidemark.Key(nil)
	tell(t, made.Super, `vacuum analyze tidemark.log`)
	for range 4 {
		logs, theirs = append(logs, session(mine)), append(theirs, session(others))
	}
	goOn := func(b *Backend, logs ...tidemark.Key) (group []*pending) {
		for _, log := range logs {
			seqs[log]++
			batch := &tidemark.Batch{ID: tidemark.NewBatchID(), At: time.Now(), Appends: []tidemark.Append{{Log: log, Lines: []tidemark.Line{line(log, seqs[log], "user", "{}")}}},
				Require: []tidemark.Precondition{{Key: log, Version: 1}, {Key: key("lease", log.ID), Version: 1}}}
			group = append(group, &pending{who: b.who, batch: batch, done: make(chan struct{})})
		}
		return group
	}
	explain(t, made)
	for _, how := range []Pooler{Direct, Pooled} {
		e := newExplaining(t, made, how)
		w := &writer{db: e.db}
		for _, c := range []struct {
			function string
			group    func() []*pending
		}{
			{"append_leased", func() []*pending { return goOn(mine, logs...) }}, // looks for the leases
			{"append_leased", func() []*pending { return goOn(others, theirs...) }},
			{"append_leased", func() []*pending { return goOn(mine, logs...) }}, // knows them
			{"append_one", func() []*pending { return goOn(mine, logs[0]) }},
			{"append_many", func() []*pending { return append(goOn(mine, logs...), goOn(others, theirs...)...) }},
		} {
			e.take(t)
			if _, err := w.transact(c.group()); err != nil {
				t.Fatalf("%s: %v", c.function, err)
			}
			found := 0
			for _, x := range e.take(t) {
				for _, n := range x.Plan.of("log") {
					found++
					if n.Index != "log_pkey" || !strings.Contains(n.Cond, "(id = ") || !strings.Contains(x.Query, c.function+".") {
						t.Errorf("%s: found by %s %s, want the whole log_pkey, in\n%s", c.function, n.Index, n.Cond, x.Query)
					}
				}
			}
			if found != 1 {
				t.Errorf("%s: logs were looked for %d times", c.function, found)
			}
		}
	}
}

// of returns the scans of a relation in a plan.
func (n *planNode) of(relation string) (all []planNode) {
	if n.Relation == relation && strings.Contains(n.Type, "Scan") {
		all = append(all, *n)
	}
	for i := range n.Parts {
		all = append(all, n.Parts[i].of(relation)...)
	}
	return all
}

func TestAMigrationThatWasCutOffBetweenIndexesGoesOn(t *testing.T) {
	made := ready(t, Migration{Partitions: 2})
	keep(t, connected(t, made.Server, nil).For(ada), tidemark.Batch{Puts: []tidemark.Record{record(key("agent", "a"), 1, "{}")}})
	// What a database of version 4 has when the migrator dies while PostgreSQL
	// makes the first index: an index that nobody may use, and all the old ones.
	withoutFences(t, made)
	tell(t, made.Super, `update pg_index set indisvalid = false where indexrelid = 'tidemark.log_id'::regclass`)
	tell(t, made.Owner, `drop index tidemark.record_newest`, `create index record_touched on tidemark.record (tenant, owner, kind, touched desc, id)`,
		`alter table tidemark.log add unique (tenant, log, owner)`, `delete from tidemark.goose_db_version where version_id = 5`)
	if err := (Migration{Role: made.Role, Force: true}).Run(t.Context(), made.Owner); err != nil {
		t.Fatal(err)
	}
	const indexes = `select string_agg(c.relname || case when i.indisvalid then '' else ' (invalid)' end, ' ' order by c.relname)
  from pg_index i join pg_class c on c.oid = i.indexrelid where i.indrelid in ('tidemark.record'::regclass, 'tidemark.log'::regclass)`
	want := "log_named log_pkey record_due record_group record_group_state record_newest record_pkey record_shared record_state"
	if got := tellOne[string](t, made.Owner, indexes); got != want {
		t.Errorf("indexes %s, want %s", got, want)
	}
	const skew = `select count(*) from pg_attribute a where a.attrelid in (select inhrelid from pg_inherits where inhparent = 'tidemark.line'::regclass)
  and a.attname in ('tenant', 'owner', 'log') and a.attoptions @> '{n_distinct=1}'`
	if n := tellOne[int](t, made.Owner, skew); n != 6 {
		t.Errorf("%d columns of partitions are planned for large owners, want 6", n)
	}
	if _, err := connected(t, made.Server, nil).For(ada).Get(t.Context(), key("agent", "a")); err != nil {
		t.Errorf("Get = %v", err)
	}
}
