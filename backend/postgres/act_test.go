package postgres

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-sessions/tidemark"
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
