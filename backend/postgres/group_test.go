package postgres

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-sessions/tidemark"
)

// grouped is a session of one user of several whose log knows its lease.
type grouped struct {
	b          *Backend
	log, lease tidemark.Key
}

// next is the batch of a further line, as it waits for its turn.
func (g grouped) next(seq, lease int64) *pending {
	b := under(g.log, seq, tidemark.Precondition{Key: g.lease, Version: lease})
	b.ID, b.At = tidemark.NewBatchID(), at.Add(time.Minute)
	return &pending{who: g.b.who, batch: &b, done: make(chan struct{})}
}

// several makes sessions of three lines, of as many users of one tenant.
func several(t *testing.T, db *Database, n int) (all []grouped) {
	t.Helper()
	for i := range n {
		g := grouped{b: db.For(person(fmt.Sprint("user-", i), crew))}
		g.log, g.lease = fencedSession(t, g.b)
		for seq := int64(2); seq <= 3; seq++ {
			keep(t, g.b, under(g.log, seq, tidemark.Precondition{Key: g.lease, Version: 1}))
		}
		all = append(all, g)
	}
	return all
}

func (g grouped) length(t *testing.T) int64 {
	t.Helper()
	r, err := g.b.Get(t.Context(), g.log)
	if err != nil {
		t.Fatal(err)
	}
	return r.Head.Length
}

// together carries out a batch of each, as a queue of the tenant does.
func together(t *testing.T, all []grouped, group []*pending) {
	t.Helper()
	db := all[0].b.db
	for _, p := range group {
		if of := db.laneOf(t.Context(), p.who, p.batch); of != (lane{who: who{tenant: p.who.tenant}}) {
			t.Errorf("a line under a lease that is known waits in %+v", of)
		}
	}
	w := db.writer(lane{who: who{tenant: all[0].b.who.tenant}})
	defer db.letGo(w)
	w.carryOut(group)
}

func TestLinesOfSeveralUsersAreOneCommit(t *testing.T) {
	made := ready(t, Migration{})
	db := connected(t, made.Server, nil)
	all := several(t, db, 5)
	if err := all[1].b.Share(t.Context(), tidemark.SessionID(all[1].log.ID), tidemark.Scope{With: tidemark.InWorkspace, Workspace: crew}); err != nil {
		t.Fatal(err)
	}
	keep(t, all[1].b, under(all[1].log, 4, tidemark.Precondition{Key: all[1].lease, Version: 1}))
	var group []*pending
	for i, g := range all {
		group = append(group, g.next(g.length(t)+1, 1))
		if i == 2 {
			group[i].acts = []act{{node: "node", boot: "boot", batch: group[i].batch.ID, line: &tidemark.Line{Seq: 1, At: at, Body: []byte("did")}}}
		}
	}
	together(t, all, group)
	for i, g := range all {
		if group[i].err != nil {
			t.Errorf("user %d: %v", i, group[i].err)
		}
		if n := g.length(t); n != group[i].batch.Appends[0].Lines[0].Seq {
			t.Errorf("user %d: %d lines", i, n)
		}
		checked(t, g.b)
	}
	const newest = `select count(distinct n.xmin::text) || ' of ' || count(*) from tidemark.line n join tidemark.log l on l.log = n.log and l.length = n.seq`
	if got := tellOne[string](t, made.Super, newest); got != "1 of 5" {
		t.Errorf("transactions of the newest lines: %s", got)
	}
	if got := tellOne[int](t, made.Super, `select count(*) from tidemark.act`); got != 1 {
		t.Errorf("%d rows say what was done", got)
	}
	if got := tellOne[int](t, made.Super, `select count(distinct touched) from tidemark.record where kind = 'session'`); got != 1 {
		t.Errorf("%d times at which a session was touched, want the same for all", got)
	}
}

// One who was refused does not keep the others from their lines, and holds them
// up once.
func TestWhoLostTheLeaseIsRefusedAndTheOthersAreNot(t *testing.T) {
	made := ready(t, Migration{})
	db, elsewhere := connected(t, made.Server, nil), connected(t, made.Server, nil)
	all := several(t, db, 4)
	keep(t, elsewhere.For(person("user-2")), tidemark.Batch{Puts: []tidemark.Record{record(all[2].lease, 2, "{}")}})
	var group []*pending
	for _, g := range all {
		group = append(group, g.next(4, 1))
	}
	together(t, all, group)
	for i, g := range all {
		want, length := error(nil), int64(4)
		if i == 2 {
			want, length = tidemark.ErrConflict, 3
		}
		if !errors.Is(group[i].err, want) || g.length(t) != length {
			t.Errorf("user %d: %v, %d lines, want %v, %d", i, group[i].err, g.length(t), want, length)
		}
		checked(t, g.b)
	}
	if of := db.laneOf(t.Context(), all[2].b.who, group[2].batch); of.who != all[2].b.who {
		t.Error("who was refused still waits beside the others")
	}
	if of := db.laneOf(t.Context(), all[1].b.who, all[1].next(5, 1).batch); of.who == all[1].b.who {
		t.Error("who was not refused waits alone")
	}
}

// A line goes to the log of its own user alone, whatever the others have.
func TestAGroupDoesNotMixUpWhatItsUsersCallAlike(t *testing.T) {
	made := ready(t, Migration{})
	db := connected(t, made.Server, nil)
	id := string(tidemark.NewSessionID())
	var all []grouped
	var group []*pending
	for i := range 3 {
		g := grouped{db.For(person(fmt.Sprint("user-", i))), key("session", id), key("lease", id)}
		talk(t, g.b, id)
		for seq := int64(2); seq <= int64(3+i); seq++ {
			keep(t, g.b, under(g.log, seq, tidemark.Precondition{Key: g.lease, Version: 1}))
		}
		all, group = append(all, g), append(group, g.next(int64(4+i), 1))
	}
	together(t, all, group)
	for i, g := range all {
		if n := g.length(t); group[i].err != nil || n != int64(4+i) {
			t.Errorf("user %d: %v, %d lines", i, group[i].err, n)
		}
		checked(t, g.b)
	}
}

func TestOnlyWhatIsUnderALeaseWaitsBesideOtherUsers(t *testing.T) {
	db := connected(t, ready(t, Migration{}).Server, nil)
	g := several(t, db, 1)[0]
	large := g.next(4, 1)
	large.batch.Appends[0].Lines[0].Body = make([]byte, smallBatch+1)
	free := g.next(4, 1)
	free.batch.Require = nil
	more := g.next(4, 1)
	more.batch.Require = append(more.batch.Require, tidemark.Precondition{Key: key("agent", "one"), Version: 1})
	put := g.next(4, 1)
	put.batch.Puts = []tidemark.Record{record(g.log, 2, "{}")}
	for name, p := range map[string]*pending{"a large batch": large, "no lease": free, "another record": more, "a put": put, "an older lease": g.next(4, 7)} {
		if of := db.laneOf(t.Context(), p.who, p.batch); of.who != g.b.who {
			t.Errorf("%s waits in %+v", name, of)
		}
	}
}

// However many lines wait, a group has no more than one statement takes.
func TestAGroupOfSeveralUsersFitsAStatement(t *testing.T) {
	w := &writer{of: lane{who: who{tenant: id{1}}}, running: 1}
	for i := range 100 {
		log := key("session", fmt.Sprint(i))
		b := under(log, 2)
		for seq := int64(3); seq <= 11; seq++ {
			b.Appends[0].Lines = append(b.Appends[0].Lines, line(log, seq, "user", "{}"))
		}
		w.queue = append(w.queue, &pending{who: who{id{1}, id{byte(i)}}, batch: &b})
	}
	for taken := 0; taken < 100; {
		group := w.take()
		lines := 0
		for _, p := range group {
			lines += linesOf(p.batch)
		}
		if taken += len(group); len(group) == 0 || lines > quickLines {
			t.Fatalf("%d batches of %d lines", len(group), lines)
		}
	}
}

// The functions that append look by themselves where the tenant is, with the trigger
// taken away; that somebody switches it is said by the trigger.
func TestEveryAppendLooksWhereItsTenantIs(t *testing.T) {
	made := ready(t, Migration{})
	db := connected(t, made.Server, nil)
	all := several(t, db, 2)
	first, other, second := all[0], all[1], grouped{b: all[0].b}
	second.log, second.lease = fencedSession(t, second.b)
	for seq := int64(2); seq <= 3; seq++ {
		keep(t, second.b, under(second.log, seq, tidemark.Precondition{Key: second.lease, Version: 1}))
	}
	lengths := map[tidemark.Key]int64{first.log: 3, second.log: 3, other.log: 3}
	next := func(g grouped) *pending { return g.next(lengths[g.log]+1, 1) }
	forms := []struct {
		sql   string
		group func() []*pending
	}{
		{sqlAppendOne, func() []*pending { return []*pending{next(first)} }},
		{sqlAppend, func() []*pending {
			p := next(first)
			a := &p.batch.Appends[0]
			a.Lines = append(a.Lines, line(first.log, lengths[first.log]+2, "user", "{}"))
			return []*pending{p}
		}},
		{sqlAppend, func() []*pending { return []*pending{next(first), next(second)} }},
		{sqlAppendMany, func() []*pending { return []*pending{next(first), next(other)} }},
	}
	want := func(when, code string) {
		t.Helper()
		for i, f := range forms {
			q := newQuick(f.group(), &db.fences)
			if sql, _ := q.statement(); sql != f.sql {
				t.Fatalf("form %d is sent as %s", i, sql)
			}
			c, err := db.pool.Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			_, err = q.send(t.Context(), db, c)
			c.Release()
			if codeOf(err) != code || (err == nil) != (code == "") {
				t.Errorf("%s, form %d: %v, want code %q", when, i, err, code)
			}
			if err == nil {
				for _, g := range q.logs {
					lengths[g.Log] += int64(len(g.Lines))
				}
			}
		}
	}
	home := func(tenant id, state string) {
		t.Helper()
		tell(t, made.Super, fmt.Sprintf(`insert into tidemark.home values ('%s', '%s', 'elsewhere') on conflict (tenant) do update set state = excluded.state`, idText(tenant), state))
	}
	triggers := func(how string) {
		t.Helper()
		for _, table := range []string{"log", "line"} {
			tell(t, made.Owner, fmt.Sprintf(`alter table tidemark.%s %s trigger check_home`, table, how))
		}
	}
	tenant := first.b.who.tenant
	triggers("disable")
	want("no row", "")
	home(id{}, homeMoved)
	want("all that have no row are elsewhere", codeElsewhere)
	home(tenant, homeLeaving)
	want("being copied", "")
	home(tenant, homeArriving)
	want("arriving", codeElsewhere)
	home(tenant, homeMoved)
	want("moved", codeElsewhere)
	home(tenant, homeHere)
	want("back", "")

	triggers("enable")
	mover, err := pgx.Connect(t.Context(), made.Super)
	if err != nil {
		t.Fatal(err)
	}
	defer mover.Close(context.Background())
	if _, err := mover.Exec(t.Context(), `select pg_advisory_lock(hashtextextended('tidemark.home ' || $1::text, 0))`, idText(tenant)); err != nil {
		t.Fatal(err)
	}
	want("being switched", codeSwitching)
	if _, err := mover.Exec(t.Context(), `select pg_advisory_unlock_all()`); err != nil {
		t.Fatal(err)
	}
	want("after it", "")
	for _, g := range []grouped{first, second, other} {
		if n := g.length(t); n != lengths[g.log] {
			t.Errorf("log %s has %d lines, want %d", g.log.ID, n, lengths[g.log])
		}
	}
}

// A trigger before a row has the database lock the row first, and write that down, for each
// line that is appended, whatever its condition says.
func TestNoTriggerComesBeforeARowThatAnAppendChanges(t *testing.T) {
	const row, before = 1, 2 // bits of tgtype
	found := tellOne[*string](t, ready(t, Migration{}).Super, fmt.Sprintf(`select string_agg(t.tgname || ' on ' || c.relname, ', ') from pg_trigger t join pg_class c on c.oid = t.tgrelid
  where c.relnamespace = 'tidemark'::regnamespace and (c.relname = 'log' or c.relname like 'line%%') and t.tgtype & %d = %d`, row|before, row|before))
	if found != nil {
		t.Errorf("there is %s", *found)
	}
}

// TestWhatArrivesBesideACrowdIsOneGroup has the second of few writers begin at once, and
// what comes while a large group is carried out wait until it is as large, or that one slow.
func TestWhatArrivesBesideACrowdIsOneGroup(t *testing.T) {
	w := &writer{}
	arrive := func(n int) (leads int) {
		for range n {
			log := key("session", idText(newLogID()))
			if w.add(&pending{batch: &tidemark.Batch{Appends: []tidemark.Append{{Log: log, Lines: []tidemark.Line{line(log, 2, "user", "{}")}}}}}) {
				leads++
			}
		}
		return leads
	}
	carries := func(want int) {
		t.Helper()
		if got := len(w.take()); got != want {
			t.Fatalf("a group of %d, want %d", got, want)
		}
	}
	leads := func(want, got int) {
		t.Helper()
		if got != want {
			t.Fatalf("%d of them lead a lane, want %d", got, want)
		}
	}
	goesOn := func(want bool, n int) {
		t.Helper()
		if got := w.more(n); got != want {
			t.Fatalf("after a group of %d the lane goes on: %v, want %v", n, got, want)
		}
	}
	leads(1, arrive(1))
	carries(1)
	leads(1, arrive(1)) // beside one
	carries(1)
	leads(0, arrive(10))
	goesOn(true, 1)
	carries(10)
	leads(0, arrive(9))
	goesOn(false, 1)    // the lane with ten takes those, too
	leads(1, arrive(1)) // ten beside ten
	carries(10)
	leads(0, arrive(3))
	goesOn(false, 10)
	goesOn(true, 10) // nobody else would
	carries(3)
	leads(0, arrive(2))
	w.began = w.began.Add(-2 * slowGroup)
	leads(1, arrive(1))
	carries(3)
	goesOn(false, 3)
	goesOn(false, 3)
	if w.running != 0 || w.flying != 0 {
		t.Errorf("%d lanes carry %d batches when all is done", w.running, w.flying)
	}
}
