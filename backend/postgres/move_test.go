package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/workshop/pgtest"
)

// threeDatabases are main and two others, on three servers.
type threeDatabases struct {
	made map[string]*pgtest.Database
}

var threeNames = []string{MainName, "b", "c"}

func newThreeDatabases(t *testing.T) *threeDatabases {
	t.Helper()
	three := &threeDatabases{made: make(map[string]*pgtest.Database)}
	for _, name := range threeNames {
		made := pgtest.StartWith(t, pgtest.Options{Settings: map[string]string{"cluster_name": name}}).Database(t)
		if err := Migrate(t.Context(), made.Owner, made.Role); err != nil {
			t.Fatal(err)
		}
		three.made[name] = made
	}
	return three
}

// served connects as a server does.
func (three *threeDatabases) served(t *testing.T) *Database {
	t.Helper()
	return connected(t, three.made[MainName].Server, &Options{Others: func() (map[string]string, error) {
		return map[string]string{"b": three.made["b"].Server, "c": three.made["c"].Server}, nil
	}})
}

func (three *threeDatabases) mover(tenant string) *Mover {
	m := &Mover{Tenant: tenant, Owners: make(map[string]string)}
	for name, db := range three.made {
		m.Owners[name] = db.Owner
	}
	return m
}

func (three *threeDatabases) move(t *testing.T, tenant, to string) Moved {
	t.Helper()
	done, err := three.mover(tenant).Run(t.Context(), to)
	if err != nil {
		t.Fatalf("move to %s: %v", to, err)
	}
	return done
}

// rows counts what a database has of a tenant, as nobody who serves could.
func (three *threeDatabases) rows(t *testing.T, name, tenant string) (n int) {
	t.Helper()
	for _, table := range []string{"record", "log", "line", "share", "act"} {
		n += tellOne[int](t, three.made[name].Super, fmt.Sprintf(`select count(*) from tidemark.%s where tenant = '%s'`, table, tenant))
	}
	return n
}

// accepts are the databases that take a write of the tenant, asked by hand as a server
// that knows nothing of homes would.
func (three *threeDatabases) accepts(t *testing.T, p tidemark.Principal) (names []string) {
	t.Helper()
	for _, name := range threeNames {
		err := tellError(t, three.made[name].Server,
			fmt.Sprintf(`select set_config('tidemark.tenant', '%s', false), set_config('tidemark.user', '%s', false)`, p.Tenant, p.User),
			fmt.Sprintf(`delete from tidemark.record where tenant = '%s' and kind = 'no such kind'`, p.Tenant))
		switch codeOf(err) {
		case codeElsewhere:
		case "":
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, name)
		default:
			t.Fatal(err)
		}
	}
	return names
}

func TestATenantIsMovedWithEverythingItHas(t *testing.T) {
	three := newThreeDatabases(t)
	db := three.served(t)
	other := db.For(tidemark.TenantOf("globex", "eve"))
	keep(t, other, tidemark.Batch{Puts: []tidemark.Record{record(key("agent", "hers"), 1, "{}")}})
	b, mate := db.For(ada), db.For(tidemark.TenantOf("acme", "bob"))
	session := tidemark.NewSessionID()
	log := tidemark.Key{Kind: "session", ID: string(session)}
	keep(t, b, tidemark.Batch{Puts: []tidemark.Record{record(log, 1, "{}")}, Appends: []tidemark.Append{{Log: log, Lines: someLines(log, 1, 5)}}})
	packed := packedLines(session) // as package cold has it
	keep(t, b, tidemark.Batch{Puts: []tidemark.Record{record(key(kindCold, string(session)+".session"), 1, "{}")}, Appends: []tidemark.Append{{Log: packed,
		Lines: []tidemark.Line{line(packed, 1, "piece", strings.Repeat("packed lines", 30_000))}}}})
	if err := b.Share(t.Context(), session, tidemark.Scope{With: tidemark.InTenant}); err != nil {
		t.Fatal(err)
	}
	long := key("notes", "long")
	for at := int64(1); at < 3*moveSpan; at += 1000 { // more than one transaction copies
		keep(t, b, tidemark.Batch{Appends: []tidemark.Append{{Log: long, Lines: someLines(long, at, 1000)}}})
	}
	for i := range 2 * moveRows {
		keep(t, mate, tidemark.Batch{Puts: []tidemark.Record{record(key("agent", fmt.Sprint("a", i)), 1, strings.Repeat("x", i))}})
	}
	before := contents(t, b)
	n := three.rows(t, MainName, ada.Tenant)

	done := three.move(t, ada.Tenant, "b")
	if done.From != MainName || done.Rows < int64(n) {
		t.Errorf("moved %+v, want at least %d rows from main", done, n)
	}
	if got := three.rows(t, "b", ada.Tenant); got != n {
		t.Errorf("%d rows arrived, want %d", got, n)
	}
	if diff := cmp.Diff(before, contents(t, b)); diff != "" {
		t.Errorf("after the move (-before +after):\n%s", diff)
	}
	if got := three.accepts(t, ada); !slices.Equal(got, []string{"b"}) {
		t.Errorf("writes are taken by %q, want b alone", got)
	}
	// What is written now is written there, and read by everybody who may.
	keep(t, b, tidemark.Batch{Appends: []tidemark.Append{{Log: log, Lines: someLines(log, 6, 1)}}})
	if r, err := mate.Get(t.Context(), log); err != nil || r.Head.Length != 6 {
		t.Errorf("Get of who it is shared with = length %d, %v, want 6", r.Head.Length, err)
	}
	if !hasLine(t, mate, packed) {
		t.Error("packed lines are not read by whom they are shared with")
	}
	if got := three.rows(t, MainName, ada.Tenant); got != n {
		t.Errorf("%d rows are left at main, want %d as before", got, n)
	}

	// Another tenant stays where it was.
	if got := three.accepts(t, tidemark.TenantOf("globex", "eve")); !slices.Equal(got, []string{MainName}) {
		t.Errorf("writes of another tenant are taken by %q, want main alone", got)
	}
	if _, err := other.Get(t.Context(), key("agent", "hers")); err != nil {
		t.Error(err)
	}

	three.move(t, ada.Tenant, "c")
	three.move(t, ada.Tenant, MainName)
	if got := three.accepts(t, ada); !slices.Equal(got, []string{MainName}) {
		t.Errorf("writes are taken by %q, want main alone", got)
	}
	if r, err := b.Get(t.Context(), log); err != nil || r.Head.Length != 6 {
		t.Errorf("Get = length %d, %v, want 6", r.Head.Length, err)
	}
	if _, err := three.mover(ada.Tenant).Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := []int{three.rows(t, MainName, ada.Tenant), three.rows(t, "b", ada.Tenant), three.rows(t, "c", ada.Tenant)}; !slices.Equal(got, []int{n + 1, 0, 0}) {
		t.Errorf("rows of main, b and c: %d, want %d and none", got, n+1)
	}
}

// A mover may die at each step. Whatever it leaves, at most one database takes writes,
// and the same command goes on.
func TestAMoverThatDiesLeavesOneHomeAndGoesOn(t *testing.T) {
	three := newThreeDatabases(t)
	db := three.served(t)
	b := db.For(ada)
	log := key("notes", "n")
	length := int64(0)
	say := func() error {
		err := commit(b, tidemark.Batch{Appends: []tidemark.Append{{Log: log, Lines: someLines(log, length+1, 1)}}})
		if err == nil {
			length++
		}
		return err
	}
	if err := say(); err != nil {
		t.Fatal(err)
	}
	errDied := errors.New("died")
	at, to := MainName, ""
	for i, step := range []string{"prepare", "leave", MoveCopies, MoveSwitches, "last pass", "commit", MoveArrives, "route"} {
		to = threeNames[(slices.Index(threeNames, at)+1)%3]
		t.Run(step, func(t *testing.T) {
			m := three.mover(ada.Tenant)
			m.at = func(s string) error {
				if s == step {
					return errDied
				}
				return nil
			}
			if _, err := m.Run(t.Context(), to); !errors.Is(err, errDied) && !(step == "route" && err == nil) {
				t.Fatalf("Run = %v", err)
			}
			takes := three.accepts(t, ada)
			switch {
			case step == MoveArrives:
				if len(takes) != 0 {
					t.Errorf("%q take writes between the two commits, want none", takes)
				}
			case i < 6 && !slices.Equal(takes, []string{at}), i > 6 && !slices.Equal(takes, []string{to}):
				t.Errorf("%q take writes", takes)
			}
			if step != MoveArrives {
				if err := say(); err != nil {
					t.Errorf("a write after the mover died: %v", err)
				}
			}
			three.move(t, ada.Tenant, to)
			if takes := three.accepts(t, ada); !slices.Equal(takes, []string{to}) {
				t.Errorf("%q take writes, want %s alone", takes, to)
			}
			if err := say(); err != nil {
				t.Error(err)
			}
			if r, err := b.Get(t.Context(), log); err != nil || r.Head.Length != length {
				t.Errorf("length %d, %v, want %d", r.Head.Length, err, length)
			}
		})
		at = to
	}
	t.Run("a move that was not finished is given up", func(t *testing.T) {
		to := threeNames[(slices.Index(threeNames, at)+1)%3]
		m := three.mover(ada.Tenant)
		m.at = func(s string) error {
			if s == MoveSwitches {
				return errDied
			}
			return nil
		}
		if _, err := m.Run(t.Context(), to); !errors.Is(err, errDied) {
			t.Fatal(err)
		}
		third := threeNames[(slices.Index(threeNames, at)+2)%3]
		if _, err := three.mover(ada.Tenant).Run(t.Context(), third); !errors.Is(err, tidemark.ErrInvalid) {
			t.Errorf("a move to a third database = %v, want ErrInvalid", err)
		}
		if _, err := three.mover(ada.Tenant).Finish(t.Context()); !errors.Is(err, tidemark.ErrInvalid) {
			t.Errorf("Finish in the middle of a move = %v, want ErrInvalid", err)
		}
		three.move(t, ada.Tenant, at)
		if takes := three.accepts(t, ada); !slices.Equal(takes, []string{at}) {
			t.Errorf("%q take writes, want %s alone", takes, at)
		}
		if _, err := three.mover(ada.Tenant).Finish(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := three.rows(t, to, ada.Tenant); n != 0 {
			t.Errorf("%d rows are left where it did not go", n)
		}
	})
}

// Writers keep books of what was acknowledged. While the tenant goes from database to
// database and movers die, nothing is lost, doubled or out of order, and who waits for a
// log hears of each line.
func TestNothingIsLostOrDoubledWhileATenantMoves(t *testing.T) {
	three := newThreeDatabases(t)
	servers := []*Database{three.served(t), three.served(t)}
	const writers = 6
	var stop atomic.Bool
	var work sync.WaitGroup
	var wrote atomic.Int64
	books := make([][]string, writers)
	heard := make([]int64, writers)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for i := range writers {
		p := tidemark.TenantOf("acme", fmt.Sprint("user", i%3))
		log := key("notes", fmt.Sprint("log", i))
		work.Go(func() {
			for n := int64(1); !stop.Load(); n++ {
				l := line(log, n, "user", fmt.Sprintf(`{"writer":%d,"n":%d}`, i, n))
				if err := commit(servers[n%2].For(p), tidemark.Batch{Appends: []tidemark.Append{{Log: log, Lines: []tidemark.Line{l}}}}); err != nil {
					t.Errorf("writer %d, line %d: %v", i, n, err)
					return
				}
				books[i] = append(books[i], string(l.Body))
				wrote.Add(1)
				// What one server acknowledged, another one has.
				if r, err := servers[(n+1)%2].For(p).Get(ctx, log); err != nil || r.Head.Length != n {
					t.Errorf("writer %d: length %d after line %d, %v", i, r.Head.Length, n, err)
					return
				}
			}
		})
		go func() {
			for ctx.Err() == nil {
				if err := servers[i%2].For(p).Wait(ctx, log, heard[i]); err == nil {
					atomic.AddInt64(&heard[i], 1)
				}
			}
		}()
	}
	errDied := errors.New("died")
	moves := 0
	for _, step := range []string{"", MoveSwitches, "", "commit", MoveArrives, "", "last pass", ""} {
		to := threeNames[(moves+1)%3]
		before := wrote.Load()
		if step != "" {
			m := three.mover(ada.Tenant)
			m.at = func(s string) error {
				if s == step {
					return errDied
				}
				return nil
			}
			if _, err := m.Run(t.Context(), to); !errors.Is(err, errDied) {
				t.Fatalf("Run = %v", err)
			}
		}
		done := three.move(t, ada.Tenant, to)
		moves++
		if got := three.accepts(t, ada); !slices.Equal(got, []string{to}) {
			t.Errorf("writes are taken by %q, want %s alone", got, to)
		}
		t.Logf("to %s: %d rows in %d passes, writers waited %d ms, %d lines written meanwhile", to, done.Rows, done.Passes, done.StoppedMilliseconds, wrote.Load()-before)
		untilTrue(t, "the writers go on", func() bool { return wrote.Load() > before+writers || t.Failed() })
	}
	stop.Store(true)
	work.Wait()
	for i := range writers {
		p := tidemark.TenantOf("acme", fmt.Sprint("user", i%3))
		var kept []string
		for l, err := range servers[0].For(p).Lines(t.Context(), key("notes", fmt.Sprint("log", i))) {
			if err != nil {
				t.Fatal(err)
			}
			kept = append(kept, string(l.Body))
		}
		if diff := cmp.Diff(books[i], kept); diff != "" {
			t.Errorf("writer %d (-acknowledged +kept):\n%s", i, diff)
		}
		untilTrue(t, "the writers go on", func() bool { return atomic.LoadInt64(&heard[i]) >= int64(len(books[i])) })
	}
	t.Logf("%d lines were acknowledged during %d moves, and %d are kept", wrote.Load(), moves, wrote.Load())
}

func TestAMoveIsRefusedBeforeItDoesHarm(t *testing.T) {
	three := newThreeDatabases(t)
	keep(t, three.served(t).For(ada), tidemark.Batch{Puts: []tidemark.Record{record(key("agent", "a"), 1, "{}")}})
	held := three.mover(ada.Tenant)
	held.at = func(string) error {
		if _, err := three.mover(ada.Tenant).Run(t.Context(), "b"); !errors.Is(err, tidemark.ErrHeld) {
			t.Errorf("a second mover: %v, want ErrHeld", err)
		}
		return errors.New("enough")
	}
	if _, err := held.Run(t.Context(), "b"); err == nil || err.Error() != "enough" {
		t.Fatal(err)
	}
	role, foreign := three.mover(ada.Tenant), three.mover(ada.Tenant)
	role.Owners["b"] = three.made["b"].Server
	of := newThreeDatabases(t).made["c"]
	keep(t, connected(t, of.Server, nil).For(tidemark.Operator()), tidemark.Batch{Puts: []tidemark.Record{record(key("tenant", "t"), 1, "{}")}})
	foreign.Owners["c"] = of.Owner
	for _, c := range []struct {
		name string
		m    *Mover
		to   string
		want error
	}{
		{"the operator's records", three.mover(tidemark.Operator().Tenant), "b", tidemark.ErrInvalid},
		{"an unknown database", three.mover(ada.Tenant), "d", tidemark.ErrInvalid},
		{"a database with tenants of its own", foreign, "c", tidemark.ErrInvalid},
		{"as the role of a server", role, "b", tidemark.ErrDenied},
	} {
		if _, err := c.m.Run(t.Context(), c.to); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		if got := three.accepts(t, ada); !slices.Equal(got, []string{MainName}) {
			t.Errorf("%s: writes are taken by %q, want main alone", c.name, got)
		}
	}
	// A program that knows one database alone says where the tenant went.
	three.move(t, ada.Tenant, "b")
	var away *ElsewhereError
	alone := connected(t, three.made[MainName].Server, nil).For(ada)
	if _, err := alone.Get(t.Context(), key("agent", "a")); !errors.As(err, &away) || away.Name != "b" || !errors.Is(err, ErrUnavailable) {
		t.Errorf("Get = %v, want that the tenant is at b", err)
	}
	if err := commit(alone, tidemark.Batch{Puts: []tidemark.Record{record(key("agent", "z"), 1, "{}")}}); !errors.As(err, &away) {
		t.Errorf("Commit = %v, want that the tenant is at b", err)
	}
}

// A row that changes on its way, by whatever, keeps the tenant where it is.
func TestAMoveThatCopiedWronglyIsRefused(t *testing.T) {
	three := newThreeDatabases(t)
	db := three.served(t)
	for table, change := range map[string]string{"line": "new.body := 'x'", "record": "new.version := 7", "log": "new.turn := 7"} {
		p := tidemark.TenantOf(table, "ada")
		log := key("notes", "n")
		keep(t, db.For(p), tidemark.Batch{Puts: []tidemark.Record{record(key("agent", "a"), 1, "{}")}, Appends: []tidemark.Append{{Log: log, Lines: someLines(log, 1, 3)}}})
		tell(t, three.made["b"].Super, `create function public.spoil() returns trigger language plpgsql as $$ begin `+change+`; return new; end $$`,
			`create trigger spoil before insert on tidemark.`+table+` for each row execute function public.spoil()`)
		if _, err := three.mover(p.Tenant).Run(t.Context(), "b"); !errors.Is(err, tidemark.ErrCorrupt) {
			t.Errorf("a spoiled %s: %v, want ErrCorrupt", table, err)
		}
		if got := three.accepts(t, p); !slices.Equal(got, []string{MainName}) {
			t.Errorf("a spoiled %s: writes are taken by %q, want main alone", table, got)
		}
		tell(t, three.made["b"].Super, `drop trigger spoil on tidemark.`+table, `drop function public.spoil`)
		three.move(t, p.Tenant, "b")
	}
	p := tidemark.TenantOf("late", "ada")
	keep(t, db.For(p), tidemark.Batch{Puts: []tidemark.Record{record(key("agent", "a"), 1, "{}"), record(key("agent", "b"), 1, "{}")}})
	tell(t, three.made["b"].Super, `create function public.lose() returns trigger language plpgsql as $$ begin return null; end $$`,
		`create trigger lose before insert on tidemark.record for each row when (new.id = 'b') execute function public.lose()`)
	if _, err := three.mover(p.Tenant).Run(t.Context(), "b"); !errors.Is(err, tidemark.ErrCorrupt) {
		t.Errorf("a row that does not arrive: %v, want ErrCorrupt", err)
	}
}

// someLines are n lines of a log.
func someLines(log tidemark.Key, from int64, n int) (all []tidemark.Line) {
	for seq := from; seq < from+int64(n); seq++ {
		all = append(all, line(log, seq, "user", fmt.Sprintf(`{"n":%d}`, seq)))
	}
	return all
}

// contents is everything that a principal has, as text.
func contents(t *testing.T, b *Backend) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for k, err := range b.Walk(t.Context(), tidemark.Key{}) {
		if err != nil {
			t.Fatal(err)
		}
		r, err := b.Get(t.Context(), k)
		if err != nil {
			t.Fatal(err)
		}
		all[k.String()] = fmt.Sprintf("%+v", r)
		for l, err := range b.Lines(t.Context(), k) {
			if err != nil {
				t.Fatal(err)
			}
			all[fmt.Sprint(k, " ", l.Seq)] = fmt.Sprintf("%+v", l)
		}
	}
	return all
}

// tellError runs statements until one is refused.
func tellError(t *testing.T, url string, statements ...string) error {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	for _, s := range statements {
		if _, err := c.Exec(t.Context(), s); err != nil {
			return err
		}
	}
	return nil
}

// TestATenantIsMovedWhileItsLinesGoToAColdPlaceAndBack has older lines leave a log, and
// come back, between two passes of a mover.
func TestATenantIsMovedWhileItsLinesGoToAColdPlaceAndBack(t *testing.T) {
	three := newThreeDatabases(t)
	b := three.served(t).For(ada)
	log, other := key("session", string(tidemark.NewSessionID())), key("session", string(tidemark.NewSessionID()))
	for _, l := range []tidemark.Key{log, other} {
		keep(t, b, tidemark.Batch{Puts: []tidemark.Record{record(l, 1, "{}")}, Appends: []tidemark.Append{{Log: l, Lines: someLines(l, 1, 9)}}})
	}
	keep(t, b, tidemark.Batch{Trims: []tidemark.Trim{{Log: other, Length: 9, Upto: 4}}})
	var oldest []tidemark.Line // as they were kept
	for l, err := range b.Lines(t.Context(), log, tidemark.Span{From: 1, To: 5}) {
		if err != nil {
			t.Fatal(err)
		}
		oldest = append(oldest, l)
	}
	for i, step := range []func(){
		func() { keep(t, b, tidemark.Batch{Trims: []tidemark.Trim{{Log: log, Length: 9, Upto: 5}}}) },
		func() { keep(t, b, tidemark.Batch{Fills: []tidemark.Append{{Log: log, Lines: oldest}}}) },
		func() { keep(t, b, tidemark.Batch{Trims: []tidemark.Trim{{Log: log, Length: 9, Upto: 8}}}) },
	} {
		m := three.mover(ada.Tenant)
		passes := 0
		m.at = func(s string) error {
			if s == MoveSwitches { // after the first pass, before the last one
				if passes++; passes == 1 {
					step()
				}
			}
			return nil
		}
		if _, err := m.Run(t.Context(), threeNames[(i+1)%3]); err != nil || passes < 1 {
			t.Fatalf("Run = %v after %d passes", err, passes)
		}
		for _, l := range []tidemark.Key{log, other} {
			r, err := b.Get(t.Context(), l)
			if err != nil {
				t.Fatal(err)
			}
			var kept []int64
			for l, err := range b.Lines(t.Context(), l, tidemark.Span{From: r.Head.Trimmed + 1}) {
				if err != nil {
					t.Fatal(err)
				}
				kept = append(kept, l.Seq)
			}
			if n := int64(len(kept)); n != 9-r.Head.Trimmed || kept[0] != r.Head.Trimmed+1 {
				t.Errorf("of %s without its first %d lines there are %d", l, r.Head.Trimmed, kept)
			}
		}
		for fault := range b.Check(t.Context()) {
			t.Error(fault)
		}
	}
}
