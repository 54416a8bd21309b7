package postgres

import (
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/pressly/goose/v3"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/workshop/pgtest"
)

// withAct returns a batch that appends a line to a log and says who did it.
func withAct(log tidemark.Key, seq int64, tenant, boot string, n int64) tidemark.Batch {
	at := time.Now().UTC().Truncate(time.Microsecond)
	line := func(log tidemark.Key, seq int64, text string) tidemark.Append {
		l := tidemark.Line{Seq: seq, Kind: log.Kind, At: at, Body: []byte(text)}
		l.Sum = l.Checksum(log)
		return tidemark.Append{Log: log, Lines: []tidemark.Line{l}}
	}
	return tidemark.Batch{ID: tidemark.NewBatchID(), At: at, Appends: []tidemark.Append{
		line(log, seq, "hello"), line(tidemark.ActLog(tidemark.ActKind, tenant, "node", boot), n, fmt.Sprint("act ", n))}}
}

func actsIn(t *testing.T, b *Backend) (all []string) {
	t.Helper()
	for k, err := range b.Walk(t.Context(), tidemark.Key{}) {
		if err != nil {
			t.Fatal(err)
		}
		if k.Kind != tidemark.ActKind {
			continue
		}
		for l, err := range b.Lines(t.Context(), k, tidemark.Span{From: 1}) {
			_, _, boot, _ := k.Act()
			all = append(all, fmt.Sprintf("%s/%d %s %v", boot, l.Seq, l.Body, err))
		}
	}
	return all
}

func TestWhatIsDoneIsWrittenDownWithItAndReadByTheOperatorAlone(t *testing.T) {
	made := ready(t, Migration{})
	db := connected(t, made.Server, nil)
	ada, eve := tidemark.TenantOf("acme", "ada"), tidemark.TenantOf("other", "eve")
	log := tidemark.Key{Kind: "session", ID: "550e8400-e29b-41d4-a716-446655440000"}
	b := db.For(ada)
	// The first goes the long way, the next the quick one, and one that does not
	// stand leaves nothing.
	for n := int64(1); n <= 3; n++ {
		if _, err := b.Commit(t.Context(), withAct(log, n, ada.Tenant, "b-0", n)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.Commit(t.Context(), withAct(log, 9, ada.Tenant, "b-1", 1)); !errors.Is(err, tidemark.ErrConflict) {
		t.Errorf("a batch that does not stand: %v", err)
	}
	if _, err := b.Commit(t.Context(), withAct(log, 4, eve.Tenant, "b-0", 4)); !errors.Is(err, tidemark.ErrInvalid) {
		t.Errorf("an act in another tenant: %v", err)
	}
	if _, err := db.For(eve).Commit(t.Context(), withAct(log, 1, eve.Tenant, "c-0", 1)); err != nil {
		t.Fatal(err)
	}
	want := []string{"b-0/1 act 1 <nil>", "b-0/2 act 2 <nil>", "b-0/3 act 3 <nil>"}
	if got := actsIn(t, db.For(tidemark.AuditorOf(ada.Tenant))); !slices.Equal(got, want) {
		t.Errorf("the operator reads %q, want %q", got, want)
	}
	for name, p := range map[string]tidemark.Principal{"who did it": ada, "the tenant": {Tenant: ada.Tenant, User: ada.Tenant}, "another tenant": eve, "the operator's own": tidemark.Operator()} {
		if got := actsIn(t, db.For(p)); len(got) > 0 {
			t.Errorf("%s reads %q", name, got)
		}
	}
	if got := actsIn(t, db.For(tidemark.AuditorOf(eve.Tenant))); len(got) != 1 {
		t.Errorf("in the other tenant: %q", got)
	}
}

// The server's role can add rows, whoever it says to be, and nothing else.
func TestServersCannotChangeWhatIsWrittenDown(t *testing.T) {
	made := ready(t, Migration{})
	db := connected(t, made.Server, nil)
	ada := tidemark.TenantOf("acme", "ada")
	log := tidemark.Key{Kind: "session", ID: "550e8400-e29b-41d4-a716-446655440000"}
	if _, err := db.For(ada).Commit(t.Context(), withAct(log, 1, ada.Tenant, "b-0", 1)); err != nil {
		t.Fatal(err)
	}
	c, err := pgx.Connect(t.Context(), made.Server)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	other := tidemark.TenantOf("other", "").Tenant
	for _, who := range []tidemark.Principal{ada, {Tenant: ada.Tenant, User: ada.Tenant}, tidemark.AuditorOf(ada.Tenant), tidemark.Operator()} {
		if _, err := c.Exec(t.Context(), fmt.Sprintf(`select set_config('tidemark.tenant', '%s', false), set_config('tidemark.user', '%s', false)`, who.Tenant, who.User)); err != nil {
			t.Fatal(err)
		}
		for _, sql := range []string{`update tidemark.act set n = 2`, `delete from tidemark.act`, `truncate tidemark.act`, `select * from tidemark.act for update`,
			`insert into tidemark.act values ('` + other + `', 'node', 'b-9', 1, now(), 'x', 0, '')`,
			`insert into tidemark.act values ('` + ada.Tenant + `', 'node', 'b-0', 1, now(), 'x', 0, '') on conflict (tenant, node, boot, n) do update set n = 7`} {
			if _, err := c.Exec(t.Context(), sql); err == nil {
				t.Errorf("%s in %s may %s", who.User, who.Tenant, sql)
			}
		}
	}
	if got := actsIn(t, db.For(tidemark.AuditorOf(ada.Tenant))); len(got) != 1 {
		t.Errorf("%q", got)
	}
}

// The policy names the operator, whose id follows from the name.
func TestThePolicyNamesTheOperator(t *testing.T) {
	if !strings.Contains(policies, "'"+tidemark.Operator().User+"'") {
		t.Errorf("the policies do not name %s", tidemark.Operator().User)
	}
}

// monthsOf lists the parts of what was done, with how many rows each has.
func monthsOf(t *testing.T, made *pgtest.Database) (all []string) {
	t.Helper()
	names := tellOne[string](t, made.Owner, `select string_agg(i.inhrelid::regclass::text, ' ' order by 1) from pg_inherits i where i.inhparent = 'tidemark.act'::regclass`)
	for name := range strings.FieldsSeq(names) {
		all = append(all, fmt.Sprint(strings.TrimPrefix(name, "tidemark."), " ", tellOne[int](t, made.Super, `select count(*) from `+name)))
	}
	slices.Sort(all)
	return all
}

// TestWhatWasDoneIsKeptByTheMonth has a database of the version before, whose rows stay
// where they are, and servers that make months ahead and drop those that its owner does
// not want.
func TestWhatWasDoneIsKeptByTheMonth(t *testing.T) {
	made := ready(t, Migration{})
	ada := tidemark.TenantOf("acme", "ada")
	log := tidemark.Key{Kind: "session", ID: "550e8400-e29b-41d4-a716-446655440000"}
	db := connected(t, made.Server, nil)
	for n := int64(1); n <= 2; n++ {
		if _, err := db.For(ada).Commit(t.Context(), withAct(log, n, ada.Tenant, "b-0", n)); err != nil {
			t.Fatal(err)
		}
	}
	actsInOne(t, made)
	// The server that runs goes on, before and after the policies were made anew.
	dir, err := fs.Sub(migrations, "migrations")
	if err != nil {
		t.Fatal(err)
	}
	owner, err := sql.Open("pgx", made.Owner)
	if err != nil {
		t.Fatal(err)
	}
	defer owner.Close()
	p, err := goose.NewProvider(goose.DialectPostgres, owner, dir, goose.WithTableName(versionTable))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := db.For(ada).Commit(t.Context(), withAct(log, 3, ada.Tenant, "b-0", 3)); err != nil {
		t.Errorf("between two steps of a migration: %v", err)
	}
	if got := actsIn(t, db.For(ada)); len(got) > 0 {
		t.Errorf("between two steps of a migration who did it reads %q", got)
	}
	if err := (Migration{Role: made.Role}).Run(t.Context(), made.Owner); err != nil {
		t.Fatal(err)
	}
	now := time.Now().UTC()
	month := func(ahead int) string {
		return time.Date(now.Year(), now.Month()+time.Month(ahead), 1, 0, 0, 0, 0, time.UTC).Format("2006_01")
	}
	want := []string{"act_" + month(1) + " 0", "act_" + month(2) + " 0", "act_" + month(3) + " 0", "act_other 0", "act_until_" + month(1) + " 3"}
	if got := monthsOf(t, made); !slices.Equal(got, want) {
		t.Fatalf("there are %q, want %q", got, want)
	}

	// Each month has its rows, and a number that is there twice was planted.
	late := withAct(log, 4, ada.Tenant, "b-0", 4)
	for i := range late.Appends {
		l := &late.Appends[i].Lines[0]
		l.At = now.AddDate(0, 2, 1-now.Day()).Truncate(time.Microsecond)
		l.Sum = l.Checksum(late.Appends[i].Log)
	}
	if _, err := db.For(ada).Commit(t.Context(), late); err != nil {
		t.Fatal(err)
	}
	auditor := db.For(tidemark.AuditorOf(ada.Tenant))
	if got := actsIn(t, auditor); len(got) != 4 || got[3] != "b-0/4 act 4 <nil>" {
		t.Errorf("the operator reads %q", got)
	}
	c, err := pgx.Connect(t.Context(), made.Server)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	plant := fmt.Sprintf(`insert into tidemark.act values ('%s', 'node', 'b-0', 2, '%s', 'x', 0, 'planted')`, ada.Tenant, late.Appends[0].Lines[0].At.Format(time.RFC3339))
	if _, err := c.Exec(t.Context(), `select set_config('tidemark.tenant', '`+ada.Tenant+`', false)`); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Exec(t.Context(), plant); err != nil {
		t.Fatal(err)
	}
	if got := actsIn(t, auditor); len(got) != 5 || !strings.Contains(got[2], "more than one row of this number") {
		t.Errorf("with one that was planted: %q", got)
	}

	// Servers make months and drop nothing of themselves.
	tell(t, made.Owner, `drop table tidemark.act_`+month(3))
	tell(t, made.Super, `delete from tidemark.made where what = 'row security of act_`+month(3)+`'`)
	for _, forbidden := range []string{`insert into tidemark.keep values ('act', '1 day')`, `select * from tidemark.act_other`, `drop table tidemark.act_other`} {
		if _, err := c.Exec(t.Context(), forbidden); codeOf(err) != codeDenied {
			t.Errorf("a server may %s: %v", forbidden, err)
		}
	}
	if err := db.KeepActs(t.Context()); err != nil {
		t.Fatal(err)
	}
	want[4], want[1] = "act_until_"+month(1)+" 3", "act_"+month(2)+" 2"
	if got := monthsOf(t, made); !slices.Equal(got, want) {
		t.Errorf("there are %q, want %q", got, want)
	}
	connected(t, made.Server, nil) // what was made is as it should be
	// The oldest part ended years ago.
	old := "tidemark.act_until_" + month(1)
	tell(t, made.Owner, `alter table tidemark.act detach partition `+old)
	tell(t, made.Super, `update `+old+` set at = at - interval '3 years'`)
	tell(t, made.Owner, `alter table tidemark.act attach partition `+old+` for values from (minvalue) to ('`+now.AddDate(-2, 0, 0).Format(time.DateOnly)+`')`)
	for _, keep := range []time.Duration{0, 3 * 366 * 24 * time.Hour, -1, 366 * 24 * time.Hour} {
		if got := monthsOf(t, made); len(got) < 5 || !slices.Contains(got, "act_until_"+month(1)+" 3") {
			t.Errorf("before it is kept for %v: %q", keep, got)
		}
		if err := (Migration{Role: made.Role, KeepActs: keep}).Run(t.Context(), made.Owner); err != nil {
			t.Fatal(err)
		}
	}
	if got := monthsOf(t, made); slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, "act_until") }) {
		t.Errorf("what is a year too old is kept: %q", got)
	}
	connected(t, made.Server, nil)
}
