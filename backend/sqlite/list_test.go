package sqlite

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	lib "modernc.org/sqlite/lib"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
)

// Many records are touched within few seconds, also by a clock that goes back
// and before 1970, and every listing and page is the model's.
func TestListingsMatchTheModelWithinASecond(t *testing.T) {
	real, kind := made(t), []byte("aaa")
	rapid.Check(t, func(r *rapid.T) {
		for i := range kind { // each history has records of its own kind
			if kind[i]++; kind[i] <= 'z' {
				break
			}
			kind[i] = 'a'
		}
		model := memory.New()
		start := rapid.SampledFrom([]int64{at.UnixMicro(), -3_000_000, 0}).Draw(r, "start")
		versions, lengths := map[string]int64{}, map[string]int64{}
		for range rapid.IntRange(1, 40).Draw(r, "commits") {
			id := rapid.SampledFrom([]string{"a", "a_", "ab", "b", "c", "d", "e%", "f"}[:6]).Draw(r, "id")
			k := key(string(kind), id)
			batch := tidemark.Batch{ID: tidemark.NewBatchID(), At: time.UnixMicro(start + rapid.SampledFrom([]int64{0, 1, 250_000, 999_999, 1_000_000, 1_500_000, 2_999_999}).Draw(r, "offset")).UTC()}
			if rapid.Bool().Draw(r, "put") {
				versions[id]++
				rec := record(k, versions[id], `{}`)
				rec.State = rapid.SampledFrom([]string{"", "x", "y"}).Draw(r, "state")
				rec.Group = rapid.SampledFrom([]string{"", "g", "h"}).Draw(r, "group")
				if rapid.Bool().Draw(r, "has due") {
					rec.Due = at.Add(time.Duration(rapid.IntRange(0, 3).Draw(r, "due")) * time.Second)
				}
				batch.Puts = append(batch.Puts, rec)
			}
			if rapid.Bool().Draw(r, "append") || len(batch.Puts) == 0 {
				lengths[id]++
				batch.Appends = append(batch.Appends, tidemark.Append{Log: k, Lines: []tidemark.Line{line(k, lengths[id], "user", `{}`)}})
			}
			if err := commit(model, batch); err != nil {
				r.Fatal(err)
			}
			if err := commit(real, batch); err != nil {
				r.Fatal(err)
			}
		}
		q := tidemark.Query{
			Kind:   string(kind),
			Order:  rapid.SampledFrom([]tidemark.Order{tidemark.Newest, tidemark.Newest, tidemark.ByID, tidemark.ByDue}).Draw(r, "order"),
			State:  rapid.SampledFrom([]string{"", "", "x"}).Draw(r, "q state"),
			Group:  rapid.SampledFrom([]string{"", "", "g"}).Draw(r, "q group"),
			Prefix: rapid.SampledFrom([]string{"", "", "a", "a_", "%"}).Draw(r, "q prefix"),
			Limit:  rapid.IntRange(0, 4).Draw(r, "limit"),
		}
		if rapid.Bool().Draw(r, "q due") {
			q.DueBy = at.Add(time.Second)
		}
		for page := 0; ; page++ {
			want, got := listed(r, model, q), listed(r, real, q)
			if d := cmp.Diff(want, got); d != "" {
				r.Fatalf("page %d of %+v (-model +got):\n%s", page, q, d)
			}
			if len(want) == 0 {
				break
			}
			q.After = &want[len(want)-1]
		}
	})
	if found := faults(t, real); found != nil {
		t.Errorf("Check: %v", found)
	}
}

func listed(r *rapid.T, b tidemark.Backend, q tidemark.Query) (records []tidemark.Record) {
	for rec, err := range b.List(context.Background(), q) {
		if err != nil {
			r.Fatal(err)
		}
		records = append(records, rec)
	}
	return records
}

func TestRecordTouchedWhileAListingRunsIsStillListed(t *testing.T) {
	b := made(t)
	const records = 3 * pageRows
	batch := tidemark.Batch{}
	for i := range records {
		batch.Puts = append(batch.Puts, record(key("agent", fmt.Sprintf("a%04d", i)), 1, `{}`))
	}
	keep(t, b, batch)
	seen := make(map[string]int)
	for r, err := range b.List(t.Context(), tidemark.Query{Kind: "agent"}) {
		if err != nil {
			t.Fatal(err)
		}
		if len(seen) == 0 { // the last in the listing becomes the newest
			keep(t, b, tidemark.Batch{At: at.Add(time.Hour), Puts: []tidemark.Record{record(key("agent", fmt.Sprintf("a%04d", records-1)), 2, `{}`)}})
		}
		seen[r.ID]++
	}
	if len(seen) != records {
		t.Errorf("%d records, want %d", len(seen), records)
	}
	for id, n := range seen {
		if n != 1 {
			t.Errorf("%s is listed %d times", id, n)
		}
	}
}

// A listing must not sort or scan everything, whatever it asks for.
func TestListingsUseAnIndex(t *testing.T) {
	b := made(t)
	for i := range 20 {
		r := record(key("job", fmt.Sprint("j", i)), 1, `{}`)
		r.State, r.Group, r.Due = "x", "g", at
		keep(t, b, tidemark.Batch{Puts: []tidemark.Record{r}})
	}
	err := b.readers.read(t.Context(), func(c *conn) error {
		for _, q := range []tidemark.Query{{}, {State: "x"}, {Group: "g"}, {Group: "g", State: "x"}, {Order: tidemark.ByID}, {Order: tidemark.ByDue},
			{Order: tidemark.ByDue, DueBy: at}, {Prefix: "j1", Order: tidemark.ByID}, {Prefix: "j1"}, {DueBy: at}, {DueBy: at, State: "x"}} {
			q.Kind = "job"
			if _, err := refsOf(c, q, 10); err != nil {
				return err
			}
		}
		var texts []string
		for sql := range c.stmts {
			if strings.Contains(sql, "FROM record") {
				texts = append(texts, sql)
			}
		}
		for _, sql := range texts {
			err := c.do("EXPLAIN QUERY PLAN "+sql, nil, func(s *stmt) {
				if step := s.text(3); strings.Contains(step, "TEMP B-TREE") || strings.HasPrefix(step, "SCAN r") {
					t.Errorf("%s\n%s", sql, step)
				}
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Names are found by the hash of their text, which is their group: what it costs
// does not grow with the other names.
func TestAGroupByIDIsFoundByItsIndex(t *testing.T) {
	b := made(t)
	for i := range 20 {
		r := record(key("name", fmt.Sprint("n", i)), 1, `{}`)
		r.Group = fmt.Sprint("g", i%4)
		keep(t, b, tidemark.Batch{Puts: []tidemark.Record{r}})
	}
	q := tidemark.Query{Kind: "name", Group: "g1", Order: tidemark.ByID}
	err := b.readers.read(t.Context(), func(c *conn) error {
		before := maps.Clone(c.stmts)
		refs, err := refsOf(c, q, 10)
		if len(refs) != 5 || err != nil {
			t.Fatalf("refs = %v, %v", refs, err)
		}
		var asked []string
		for sql := range c.stmts {
			if before[sql] == nil && strings.Contains(sql, "FROM record") {
				asked = append(asked, sql)
			}
		}
		for _, sql := range asked {
			err := c.do("EXPLAIN QUERY PLAN "+sql, nil, func(s *stmt) {
				if step := s.text(3); !strings.Contains(step, "record_group (kind=? AND group=?)") {
					t.Errorf("%s\n%s", sql, step)
				}
			})
			if err != nil {
				return err
			}
		}
		if len(asked) == 0 {
			t.Error("no statement was looked at")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestStatementsArePlannedOnceWhateverTheyAreGiven(t *testing.T) {
	b := made(t)
	for i := range 20 {
		after := record(key("k", fmt.Sprintf("a%d", i)), 1, "{}")
		for _, q := range []tidemark.Query{
			{Kind: "k", Prefix: fmt.Sprintf("a%d", i), Order: tidemark.ByID},
			{Kind: "k", Group: fmt.Sprint(i), After: &after},
			{Kind: "k", State: fmt.Sprint(i), Order: tidemark.ByDue, DueBy: at.Add(time.Duration(i))},
		} {
			for _, err := range b.List(t.Context(), q) {
				t.Fatal("nothing is there", err)
			}
		}
		for _, err := range b.Lines(t.Context(), key("k", fmt.Sprint(i)), tidemark.Span{From: int64(i), To: int64(2 * i)}) {
			t.Fatal("nothing is there", err)
		}
	}
	err := b.snapshot(t.Context(), func(c *conn) error {
		if len(c.stmts) == 0 {
			t.Error("the connection that was used is another one")
		}
		for text, s := range c.stmts {
			if n := lib.Xsqlite3_stmt_status(c.tls, s.p, lib.SQLITE_STMTSTATUS_REPREPARE, 0); n > 1 { // one for the schema, which had to be read
				t.Errorf("planned %d times more: %s", n, text)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// What a listing by prefix costs does not grow with what else is of that kind.
func TestAListingByPrefixReadsNothingElse(t *testing.T) {
	b := made(t)
	var all tidemark.Batch
	for i := range 5000 {
		all.Puts = append(all.Puts, record(key("name", fmt.Sprintf("%04d.x", i)), 1, "{}"))
	}
	keep(t, b, all)
	list := func(q tidemark.Query) (ids []string) {
		t.Helper()
		q.Kind, q.Order = "name", tidemark.ByID
		for r, err := range b.List(t.Context(), q) {
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, r.ID)
		}
		return ids
	}
	steps := func() (n int32) {
		err := b.snapshot(t.Context(), func(c *conn) error {
			n = lib.Xsqlite3_stmt_status(c.tls, c.stmts[sqlRecords].p, lib.SQLITE_STMTSTATUS_VM_STEP, 1)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	list(tidemark.Query{Limit: 1})
	steps() // from here on
	for _, q := range []tidemark.Query{{Prefix: "2500."}, {Prefix: "nowhere."}, {Prefix: "0000."}, {Prefix: "4999."}, {Prefix: "2500.", After: &tidemark.Record{Key: key("name", "2500.x")}}} {
		if got := list(q); len(got) > 1 || len(got) == 1 && !strings.HasPrefix(got[0], q.Prefix) {
			t.Errorf("%q: %v", q.Prefix, got)
		}
		if n := steps(); n > 500 {
			t.Errorf("%q takes %d steps", q.Prefix, n)
		}
	}
	// One that begins before its prefix begins with it, and one without ends with the kind.
	if got := list(tidemark.Query{Prefix: "25", After: &tidemark.Record{Key: key("name", "1")}}); len(got) != 100 {
		t.Errorf("%d begin with 25", len(got))
	}
	if got := list(tidemark.Query{After: &tidemark.Record{Key: key("name", "4997.x")}}); len(got) != 2 {
		t.Errorf("at the end: %v", got)
	}
}

// Records that were found are read several at once: in the order in which they were
// found, without those that were deleted meanwhile, and each by its key.
func TestAListingReadsWhatIsLeftOfTheRecordsItFound(t *testing.T) {
	b := made(t)
	var refs []ref
	var want []string
	for i := range 40 {
		id := fmt.Sprint("j", (i*7)%40)
		refs = append(refs, ref{id: id})
		keep(t, b, tidemark.Batch{Puts: []tidemark.Record{record(key("job", id), 1, `{}`)}})
		if i%3 == 0 || i > 30 {
			keep(t, b, tidemark.Batch{Deletes: []tidemark.Precondition{{Key: key("job", id), Version: 1}}})
		} else {
			want = append(want, id)
		}
	}
	err := b.readers.read(t.Context(), func(c *conn) error {
		l := lister{q: tidemark.Query{Kind: "job"}, left: 1000, refs: refs, begun: true}
		if err := l.next(c); err != nil {
			return err
		}
		var got []string
		for _, f := range l.found {
			if f.err != nil {
				return f.err
			}
			got = append(got, f.record.ID)
		}
		if diff := cmp.Diff(want, got); diff != "" || !l.done {
			t.Errorf("done %t, read (-want +got):\n%s", l.done, diff)
		}
		found := 0
		err := c.do("EXPLAIN QUERY PLAN "+sqlSome, nil, func(s *stmt) {
			switch step := s.text(3); {
			case strings.HasPrefix(step, "SEARCH r USING PRIMARY KEY (kind=? AND id=?)"), strings.HasPrefix(step, "SEARCH l USING INDEX"):
				found++
			case strings.Contains(step, " r ") || strings.Contains(step, " l "):
				t.Errorf("%s\n%s", sqlSome, step)
			}
		})
		if found != 2 {
			t.Errorf("%d of 2 tables are searched by a key", found)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Small bodies of a page share memory: what is added behind one of them must not
// reach the next.
func TestBodiesOfAPageDoNotReachEachOther(t *testing.T) {
	b := made(t)
	k := key("session", "s")
	var lines []tidemark.Line
	for i := range 20 {
		lines = append(lines, line(k, int64(i+1), []string{"user", "assistant", "tool", "system", "other"}[i%5], fmt.Sprintf(`{"n":%d,"text":%q}`, i, strings.Repeat("x", i*40))))
	}
	keep(t, b, tidemark.Batch{Appends: []tidemark.Append{{Log: k, Lines: lines}}})
	var got []tidemark.Line
	for l, err := range b.Lines(t.Context(), k) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, l)
	}
	if len(got) != len(lines) {
		t.Fatalf("%d lines, want %d", len(got), len(lines))
	}
	for _, l := range got {
		_ = append(l.Body, "something else that is longer than a word"...)
	}
	for i, l := range got {
		if string(l.Body) != string(lines[i].Body) || l.Kind != lines[i].Kind {
			t.Errorf("line %d is %s %s", i+1, l.Kind, l.Body)
		}
	}
}
