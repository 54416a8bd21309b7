// Package backendtest is the one suite that every Backend passes, local or
// remote, plain or sealed, without exceptions: the promises of the contract as
// tests, random histories against package memory as the model, and benchmarks.
//
//	func TestBackend(t *testing.T) { backendtest.Run(t, place) }
package backendtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
)

// A Place makes an empty place to keep things in, and returns how to open it.
// Each call of open returns another handle on the same place, as another
// process would get; handles may be open at the same time.
type Place func(t testing.TB) (open func() tidemark.Backend)

// Run runs the suite.
func Run(t *testing.T, place Place) {
	for _, c := range cases {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			c.run(&bench{TB: t, open: place(t)})
		})
	}
	t.Run("random_histories_match_the_model", func(t *testing.T) {
		t.Parallel()
		Model(t, place)
	})
}

var cases = []struct {
	name string
	run  func(*bench)
}{
	{"a record is found as it was put", recordIsFound},
	{"what was never put is not found", missingIsNotFound},
	{"a put at another version conflicts and changes nothing", putConflicts},
	{"a delete needs the version that stands", deleteConflicts},
	{"a required version must stand", requireMustStand},
	{"lines are read back as they were appended", linesAreFound},
	{"a span is cut to what is there", spans},
	{"an append at another length conflicts", appendConflicts},
	{"a key seen before is not appended again", keysAreKnown},
	{"a key is known among the newest ten thousand lines", keysInTheWindow},
	{"a batch happens whole or not at all", allOrNothing},
	{"a head commits with its log", heads},
	{"a listing is newest first and an append makes new", listNewest},
	{"a listing asks by group state prefix and due", listFilters},
	{"a listing goes on behind a cursor", listCursor},
	{"a dropped log is gone and can begin again", drops},
	{"a batch that breaks the rules is refused", refuses},
	{"bodies of any bytes survive", anyBytes},
	{"what was given may be changed afterwards", noAliases},
	{"of concurrent appends at one seq one wins", oneWins},
	{"concurrent writers of many logs all succeed", manyWriters},
	{"another handle sees a commit at once", handlesAgree},
	{"everything is there after opening again", reopen},
	{"a loop may stop and may commit inside", loopsAreFree},
	{"a cancelled commit changes nothing", cancelled},
	{"a closed backend serves nothing", closed},
	{"a watcher wakes when a log grows", watches},
	{"a searcher finds words newest first", searches},
	{"a checker finds nothing wrong with a healthy place", checks},
}

// bench is the table that a case works at: a place, a handle, and a clock
// that only goes forward.
type bench struct {
	testing.TB
	open func() tidemark.Backend
	be   tidemark.Backend
	mu   sync.Mutex
	now  time.Time
}

func (b *bench) backend() tidemark.Backend {
	if b.be == nil {
		b.be = b.open()
		b.Cleanup(func() { b.be.Close() })
	}
	return b.be
}

func (b *bench) tick() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.now.IsZero() {
		b.now = time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC)
	}
	b.now = b.now.Add(1500 * time.Millisecond)
	return b.now
}

func key(kind, id string) tidemark.Key { return tidemark.Key{Kind: kind, ID: id} }

// NewRecord returns a record with a valid sum.
func NewRecord(k tidemark.Key, version int64, body string) tidemark.Record {
	r := tidemark.Record{Key: k, Version: version, Body: []byte(body)}
	r.Sum = r.Checksum()
	return r
}

// NewLine returns a line with a valid sum.
func NewLine(log tidemark.Key, seq int64, body string) tidemark.Line {
	l := tidemark.Line{
		Seq: seq, Kind: "user", Body: []byte(body),
		At:    time.Date(2026, 1, 1, 0, 0, 0, int(seq%1000)*1000, time.UTC),
		Place: tidemark.Place{Parent: seq - 1, Depth: seq, Nodes: (seq + 1) / 2, Turn: seq / 2},
	}
	return sealed(log, l)
}

func sealed(log tidemark.Key, l tidemark.Line) tidemark.Line {
	l.Sum = l.Checksum(log)
	return l
}

func (b *bench) batch(parts ...any) tidemark.Batch {
	b.Helper()
	batch := tidemark.Batch{ID: tidemark.NewBatchID(), At: b.tick()}
	for _, p := range parts {
		switch p := p.(type) {
		case tidemark.Record:
			batch.Puts = append(batch.Puts, p)
		case tidemark.Append:
			batch.Appends = append(batch.Appends, p)
		case tidemark.Batch:
			batch.Require, batch.Deletes, batch.Drops = p.Require, p.Deletes, p.Drops
		default:
			b.Fatalf("batch of %T", p)
		}
	}
	return batch
}

// keep commits and fails the test when that fails.
func (b *bench) keep(parts ...any) tidemark.Batch {
	b.Helper()
	batch := b.batch(parts...)
	if _, err := b.backend().Commit(context.Background(), batch); err != nil {
		b.Fatalf("Commit = %v", err)
	}
	return batch
}

// fails commits and wants an error that answers to want.
func (b *bench) fails(want error, parts ...any) tidemark.Receipt {
	b.Helper()
	r, err := b.backend().Commit(context.Background(), b.batch(parts...))
	if !errors.Is(err, want) {
		b.Fatalf("Commit = %v, want %v", err, want)
	}
	return r
}

func (b *bench) get(k tidemark.Key) tidemark.Record {
	b.Helper()
	r, err := b.backend().Get(context.Background(), k)
	if err != nil {
		b.Fatalf("Get(%s) = %v", k, err)
	}
	return r
}

func (b *bench) lines(log tidemark.Key, spans ...tidemark.Span) (lines []tidemark.Line) {
	b.Helper()
	for l, err := range b.backend().Lines(context.Background(), log, spans...) {
		if err != nil {
			b.Fatalf("Lines(%s) = %v", log, err)
		}
		lines = append(lines, l)
	}
	return lines
}

func (b *bench) list(q tidemark.Query) (records []tidemark.Record) {
	b.Helper()
	for r, err := range b.backend().List(context.Background(), q) {
		if err != nil {
			b.Fatalf("List(%+v) = %v", q, err)
		}
		records = append(records, r)
	}
	return records
}

func ids(records []tidemark.Record) (ids []string) {
	for _, r := range records {
		ids = append(ids, r.ID)
	}
	return ids
}

func seqs(lines []tidemark.Line) (seqs []int64) {
	for _, l := range lines {
		seqs = append(seqs, l.Seq)
	}
	return seqs
}

func (b *bench) same(got, want any) {
	b.Helper()
	if d := cmp.Diff(want, got); d != "" {
		b.Errorf("mismatch (-want +got):\n%s", d)
	}
}

func run(log tidemark.Key, from, to int64) tidemark.Append {
	a := tidemark.Append{Log: log}
	for s := from; s <= to; s++ {
		a.Lines = append(a.Lines, NewLine(log, s, fmt.Sprintf(`{"n":%d}`, s)))
	}
	return a
}

func keyed(log tidemark.Key, seq int64, k string) tidemark.Line {
	l := NewLine(log, seq, `{}`)
	l.Key = k
	return sealed(log, l)
}

func recordIsFound(b *bench) {
	r := NewRecord(key("agent", "a.b-c_D"), 1, `{"x":1}`)
	r.Group, r.State, r.Due = "group ü/..", "idle", time.Date(2027, 1, 1, 0, 0, 0, 1000, time.UTC)
	batch := b.keep(r)
	r.UpdatedAt, r.Batch = batch.At, batch.ID
	b.same(b.get(r.Key), r)
	r.Version, r.Body, r.Due, r.Group, r.State = 2, []byte(`"two"`), time.Time{}, "", ""
	r.Sum = r.Checksum()
	batch = b.keep(r)
	r.UpdatedAt, r.Batch = batch.At, batch.ID
	b.same(b.get(r.Key), r)
	long := NewRecord(key("agent", strings.Repeat("x", tidemark.MaxIDBytes)), 1, `{}`)
	b.keep(long)
	b.get(long.Key)
}

func missingIsNotFound(b *bench) {
	ctx := context.Background()
	if _, err := b.backend().Get(ctx, key("agent", "none")); !errors.Is(err, tidemark.ErrNotFound) {
		b.Errorf("Get = %v, want ErrNotFound", err)
	}
	if got := b.lines(key("agent", "none")); got != nil {
		b.Errorf("lines of no log: %v", got)
	}
	if got := b.list(tidemark.Query{Kind: "agent"}); got != nil {
		b.Errorf("records of an empty place: %v", got)
	}
}

func putConflicts(b *bench) {
	k := key("agent", "a")
	b.fails(tidemark.ErrConflict, NewRecord(k, 2, `{}`))
	b.keep(NewRecord(k, 1, `{"v":1}`))
	b.fails(tidemark.ErrConflict, NewRecord(k, 1, `{"v":9}`))
	b.fails(tidemark.ErrConflict, NewRecord(k, 3, `{"v":9}`))
	if got := b.get(k); got.Version != 1 || string(got.Body) != `{"v":1}` {
		b.Errorf("after conflicts: version %d, body %s", got.Version, got.Body)
	}
}

func deleteConflicts(b *bench) {
	k := key("agent", "a")
	del := func(v int64) tidemark.Batch {
		return tidemark.Batch{Deletes: []tidemark.Need{{Key: k, Version: v}}}
	}
	b.fails(tidemark.ErrConflict, del(1))
	b.keep(NewRecord(k, 1, `{}`))
	b.fails(tidemark.ErrConflict, del(2))
	b.keep(del(1))
	if _, err := b.backend().Get(context.Background(), k); !errors.Is(err, tidemark.ErrNotFound) {
		b.Errorf("Get after delete = %v, want ErrNotFound", err)
	}
	b.keep(NewRecord(k, 1, `{}`))
}

func requireMustStand(b *bench) {
	k, other := key("lease", "a"), key("session", "a")
	need := func(v int64) tidemark.Batch {
		return tidemark.Batch{Require: []tidemark.Need{{Key: k, Version: v}}}
	}
	b.fails(tidemark.ErrConflict, need(1), run(other, 1, 1))
	b.keep(need(0), run(other, 1, 1))
	b.keep(NewRecord(k, 1, `{}`))
	b.fails(tidemark.ErrConflict, need(0), run(other, 2, 2))
	b.fails(tidemark.ErrConflict, need(2), run(other, 2, 2))
	b.keep(need(1), run(other, 2, 2))
	b.same(seqs(b.lines(other)), []int64{1, 2})
}

func linesAreFound(b *bench) {
	log := key("session", "s")
	want := []tidemark.Line{NewLine(log, 1, `{"a":1}`), NewLine(log, 2, ``), NewLine(log, 3, `{"a":"ü\u0000"}`)}
	want[0].Key, want[0].Chain = "key with spaces \" ü", []byte{0, 1, 255}
	want[1].Kind = ""
	want[2].At = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range want {
		want[i] = sealed(log, want[i])
	}
	one := b.keep(tidemark.Append{Log: log, Lines: want[:1]})
	two := b.keep(tidemark.Append{Log: log, Lines: want[1:]})
	want[0].Batch, want[1].Batch, want[2].Batch = one.ID, two.ID, two.ID
	got := b.lines(log)
	for i := range got {
		if len(got[i].Body) == 0 && len(want[i].Body) == 0 {
			got[i].Body = want[i].Body // an empty body may come back as nil
		}
	}
	b.same(got, want)
}

func spans(b *bench) {
	log := key("session", "s")
	b.keep(run(log, 1, 7))
	b.keep(run(log, 8, 700))
	for _, c := range []struct {
		span tidemark.Span
		want []int64
	}{
		{tidemark.Span{To: 3}, []int64{1, 2, 3}},
		{tidemark.Span{From: 6, To: 9}, []int64{6, 7, 8, 9}},
		{tidemark.Span{From: 6, To: 9, Backwards: true}, []int64{9, 8, 7, 6}},
		{tidemark.Span{From: 699}, []int64{699, 700}},
		{tidemark.Span{From: 699, To: 9000}, []int64{699, 700}},
		{tidemark.Span{Newest: 2}, []int64{699, 700}},
		{tidemark.Span{Newest: 2, Backwards: true}, []int64{700, 699}},
		{tidemark.Span{To: 350, Newest: 2}, []int64{349, 350}},
		{tidemark.Span{From: 350, To: 350, Newest: 5}, []int64{350}},
		{tidemark.Span{From: 701}, nil},
		{tidemark.Span{From: 9, To: 8}, nil},
		{tidemark.Span{From: -3, To: 1}, []int64{1}},
	} {
		if got := seqs(b.lines(log, c.span)); !slices.Equal(got, c.want) {
			b.Errorf("%+v: %v, want %v", c.span, got, c.want)
		}
	}
	b.same(seqs(b.lines(log, tidemark.Span{From: 5, To: 6}, tidemark.Span{From: 2, To: 3, Backwards: true})), []int64{5, 6, 3, 2})
	if got := seqs(b.lines(log)); len(got) != 700 || got[0] != 1 || got[699] != 700 || !slices.IsSorted(got) {
		b.Errorf("the whole log: %d lines", len(got))
	}
	if got := seqs(b.lines(log, tidemark.Span{Backwards: true})); len(got) != 700 || got[0] != 700 || got[699] != 1 {
		b.Errorf("the whole log backwards: %d lines", len(got))
	}
}

func appendConflicts(b *bench) {
	log := key("session", "s")
	b.fails(tidemark.ErrConflict, run(log, 2, 2))
	b.keep(run(log, 1, 2))
	b.fails(tidemark.ErrConflict, run(log, 2, 2))
	b.fails(tidemark.ErrConflict, run(log, 4, 5))
	b.same(seqs(b.lines(log)), []int64{1, 2})
}

func keysAreKnown(b *bench) {
	log, other, lease := key("session", "s"), key("session", "t"), key("lease", "s")
	add := func(lines ...tidemark.Line) tidemark.Append { return tidemark.Append{Log: log, Lines: lines} }
	b.keep(add(keyed(log, 1, "one"), keyed(log, 2, "two")))
	known := []tidemark.Known{{Log: log, Key: "two", Seq: 2}}
	for _, again := range []any{
		add(keyed(log, 3, "two")),
		add(keyed(log, 2, "two")), // also when the length is another one
		add(keyed(log, 3, "three"), keyed(log, 4, "two")),
	} {
		r := b.fails(tidemark.ErrExists, again, tidemark.Batch{Require: []tidemark.Need{{Key: lease, Version: 7}}}, NewRecord(lease, 1, `{}`))
		b.same(r.Known, known)
	}
	b.same(seqs(b.lines(log)), []int64{1, 2})
	b.keep(tidemark.Append{Log: other, Lines: []tidemark.Line{keyed(other, 1, "two")}})
	b.keep(add(NewLine(log, 3, `{}`), NewLine(log, 4, `{}`)))
	again := b.open()
	defer again.Close()
	r, err := again.Commit(context.Background(), b.batch(add(keyed(log, 5, "one"))))
	if !errors.Is(err, tidemark.ErrExists) {
		b.Fatalf("after opening again: %v, want ErrExists", err)
	}
	b.same(r.Known, []tidemark.Known{{Log: log, Key: "one", Seq: 1}})
}

func keysInTheWindow(b *bench) {
	log := key("session", "s")
	first := run(log, 1, tidemark.KeyWindow)
	first.Lines[0] = keyed(log, 1, "oldest")
	b.keep(first)
	again := b.open()
	defer again.Close()
	r, err := again.Commit(context.Background(), b.batch(tidemark.Append{Log: log, Lines: []tidemark.Line{keyed(log, tidemark.KeyWindow+1, "oldest")}}))
	if !errors.Is(err, tidemark.ErrExists) {
		b.Fatalf("Commit = %v, want ErrExists", err)
	}
	b.same(r.Known, []tidemark.Known{{Log: log, Key: "oldest", Seq: 1}})
}

func allOrNothing(b *bench) {
	a, c, log := key("agent", "a"), key("agent", "c"), key("session", "s")
	b.keep(NewRecord(a, 1, `{"v":1}`), run(log, 1, 1))
	b.fails(tidemark.ErrConflict, NewRecord(a, 2, `{"v":2}`), NewRecord(c, 2, `{}`), run(log, 2, 3))
	b.fails(tidemark.ErrConflict, NewRecord(a, 2, `{"v":2}`), run(log, 3, 3))
	b.fails(tidemark.ErrConflict, NewRecord(a, 2, `{"v":2}`), run(log, 2, 2), run(key("notes", "s"), 5, 5))
	if got := b.get(a); got.Version != 1 {
		b.Errorf("version %d after failed batches, want 1", got.Version)
	}
	b.same(seqs(b.lines(log)), []int64{1})
	b.keep(NewRecord(a, 2, `{"v":2}`), NewRecord(c, 1, `{}`), run(log, 2, 3), run(key("notes", "s"), 1, 1))
	b.same(seqs(b.lines(log)), []int64{1, 2, 3})
	b.same(b.get(c).Version, int64(1))
}

func heads(b *bench) {
	log := key("session", "s")
	one := b.keep(run(log, 1, 3))
	want := tidemark.Head{Length: 3, UpdatedAt: one.At, Place: NewLine(log, 3, ``).Place}
	got := b.get(log)
	b.same(got.Head, want)
	if got.Version != 0 || got.Body != nil || got.Key != log {
		b.Errorf("a log alone: %+v", got)
	}
	two := b.keep(NewRecord(log, 1, `{}`))
	l := NewLine(log, 4, `{}`)
	l.Chain = []byte("chain")
	l = sealed(log, l)
	three := b.keep(tidemark.Append{Log: log, Lines: []tidemark.Line{l}})
	got = b.get(log)
	b.same(got.Head, tidemark.Head{Length: 4, UpdatedAt: three.At, Place: l.Place, Chain: l.Chain})
	b.same(got.UpdatedAt, two.At)
	b.same(b.list(tidemark.Query{Kind: "session"})[0].Head, got.Head)
}

func listNewest(b *bench) {
	for _, id := range []string{"a", "b", "c"} {
		b.keep(NewRecord(key("session", id), 1, `{}`))
	}
	b.keep(NewRecord(key("agent", "z"), 1, `{}`))
	q := tidemark.Query{Kind: "session"}
	b.same(ids(b.list(q)), []string{"c", "b", "a"})
	b.keep(run(key("session", "b"), 1, 1))
	b.same(ids(b.list(q)), []string{"b", "c", "a"})
	b.keep(NewRecord(key("session", "a"), 2, `{}`))
	b.same(ids(b.list(q)), []string{"a", "b", "c"})
	b.now = b.now.Add(-1499 * time.Millisecond) // one millisecond later
	b.keep(run(key("session", "c"), 1, 1))
	b.same(ids(b.list(q)), []string{"c", "a", "b"})
	b.keep(run(key("session", "c"), 2, 2), run(key("session", "a"), 1, 1)) // the same instant
	b.same(ids(b.list(q)), []string{"a", "c", "b"})
	q.Order = tidemark.ByID
	b.same(ids(b.list(q)), []string{"a", "b", "c"})
}

func listFilters(b *bench) {
	day := func(n int) time.Time { return time.Date(2027, 1, n, 0, 0, 0, 0, time.UTC) }
	put := func(id, group, state string, due time.Time) {
		r := NewRecord(key("job", id), 1, `{}`)
		r.Group, r.State, r.Due = group, state, due
		b.keep(r)
	}
	put("aa1", "g", "running", day(3))
	put("aa2", "g", "done", time.Time{})
	put("ab3", "h", "running", day(1))
	put("b4", "h", "done", day(2))
	put("a_5", "g%", "running", day(9))
	for _, c := range []struct {
		q    tidemark.Query
		want []string
	}{
		{tidemark.Query{Group: "g"}, []string{"aa2", "aa1"}},
		{tidemark.Query{State: "running"}, []string{"a_5", "ab3", "aa1"}},
		{tidemark.Query{State: "running", Group: "g"}, []string{"aa1"}},
		{tidemark.Query{Prefix: "a", Order: tidemark.ByID}, []string{"a_5", "aa1", "aa2", "ab3"}},
		{tidemark.Query{Prefix: "aa", Order: tidemark.ByID}, []string{"aa1", "aa2"}},
		{tidemark.Query{Prefix: "a_", Order: tidemark.ByID}, []string{"a_5"}},
		{tidemark.Query{Prefix: "aa"}, []string{"aa2", "aa1"}},
		{tidemark.Query{Prefix: "zz"}, nil},
		{tidemark.Query{Order: tidemark.ByDue}, []string{"ab3", "b4", "aa1", "a_5"}},
		{tidemark.Query{Order: tidemark.ByDue, DueBy: day(2)}, []string{"ab3", "b4"}},
		{tidemark.Query{Order: tidemark.ByDue, DueBy: day(2), State: "done"}, []string{"b4"}},
		{tidemark.Query{DueBy: day(3)}, []string{"b4", "ab3", "aa1"}},
		{tidemark.Query{Limit: 2}, []string{"a_5", "b4"}},
		{tidemark.Query{Order: tidemark.ByID, Limit: 1}, []string{"a_5"}},
		{tidemark.Query{Order: tidemark.ByDue, Limit: 1}, []string{"ab3"}},
	} {
		c.q.Kind = "job"
		if got := ids(b.list(c.q)); !slices.Equal(got, c.want) {
			b.Errorf("%+v: %v, want %v", c.q, got, c.want)
		}
	}
}

func listCursor(b *bench) {
	for i := range 25 {
		r := NewRecord(key("job", fmt.Sprintf("j%02d", (i*7)%25)), 1, `{}`)
		r.State = []string{"running", "done"}[i%2]
		r.Due = time.Date(2027, 1, 1+i%4, 0, 0, 0, 0, time.UTC)
		b.keep(r)
		if i%5 == 0 {
			b.now = b.now.Add(-1500 * time.Millisecond) // the next one at the same instant
		}
	}
	for _, order := range []tidemark.Order{tidemark.Newest, tidemark.ByID, tidemark.ByDue} {
		for _, state := range []string{"", "done"} {
			q := tidemark.Query{Kind: "job", Order: order, State: state}
			want := ids(b.list(q))
			var got []string
			q.Limit = 4
			for {
				page := b.list(q)
				if len(page) == 0 {
					break
				}
				got = append(got, ids(page)...)
				q.After = &page[len(page)-1]
			}
			if !slices.Equal(got, want) {
				b.Errorf("order %d, state %q: by pages %v, at once %v", order, state, got, want)
			}
		}
	}
}

func drops(b *bench) {
	log := key("session", "s")
	b.keep(tidemark.Append{Log: log, Lines: []tidemark.Line{keyed(log, 1, "k")}})
	b.keep(tidemark.Batch{Drops: []tidemark.Key{log, key("session", "never")}})
	if _, err := b.backend().Get(context.Background(), log); !errors.Is(err, tidemark.ErrNotFound) {
		b.Errorf("Get of a dropped log = %v, want ErrNotFound", err)
	}
	if got := b.lines(log); got != nil {
		b.Errorf("lines of a dropped log: %v", got)
	}
	b.keep(tidemark.Append{Log: log, Lines: []tidemark.Line{keyed(log, 1, "k")}})
	b.same(seqs(b.lines(log)), []int64{1})
}

func refuses(b *bench) {
	log := key("session", "s")
	bad := func(change func(*tidemark.Batch)) {
		b.Helper()
		batch := b.batch(NewRecord(key("agent", "a"), 1, `{}`), run(log, 1, 2))
		change(&batch)
		if _, err := b.backend().Commit(context.Background(), batch); !errors.Is(err, tidemark.ErrInvalid) {
			b.Errorf("Commit = %v, want ErrInvalid", err)
		}
	}
	for _, id := range []string{"", "..", "a/b", `a\b`, "a\x00", "a..b", ".a", "a b", "ü", strings.Repeat("x", 129)} {
		bad(func(x *tidemark.Batch) { x.Puts[0].ID = id })
		bad(func(x *tidemark.Batch) { x.Appends[0].Log.ID = id })
		bad(func(x *tidemark.Batch) { x.Drops = []tidemark.Key{key("agent", id)} })
		bad(func(x *tidemark.Batch) { x.Require = []tidemark.Need{{Key: key("agent", id)}} })
		bad(func(x *tidemark.Batch) { x.Deletes = []tidemark.Need{{Key: key("agent", id), Version: 1}} })
	}
	bad(func(x *tidemark.Batch) { x.ID = "../up" })
	bad(func(x *tidemark.Batch) { x.Puts[0].Kind = "Up/.." })
	bad(func(x *tidemark.Batch) { x.Puts[0].Version = 0 })
	bad(func(x *tidemark.Batch) { x.Puts[0].Sum++ })
	bad(func(x *tidemark.Batch) { x.Puts = append(x.Puts, x.Puts[0]) })
	bad(func(x *tidemark.Batch) { x.Appends = append(x.Appends, x.Appends[0]) })
	bad(func(x *tidemark.Batch) { x.Appends[0].Lines[1].Seq = 3 })
	bad(func(x *tidemark.Batch) { x.Appends[0].Lines[1].Sum++ })
	bad(func(x *tidemark.Batch) { x.Appends[0].Lines = nil })
	bad(func(x *tidemark.Batch) { x.At = x.At.Add(time.Nanosecond) })
	bad(func(x *tidemark.Batch) { x.At = x.At.In(time.FixedZone("here", 3600)) })
	if got := b.list(tidemark.Query{Kind: "agent"}); got != nil {
		b.Errorf("a refused batch left %v", got)
	}
}

func anyBytes(b *bench) {
	log := key("session", "s")
	bodies := []string{"", "null", "{}", "\n", "{\n}", `{"a":1}` + "\n" + `{"b":2}`, "\x00\xff\xfe", "not json", `"string"`,
		" {} ", "[1,2", strings.Repeat("é", 1<<19), "\u2028 <>&"}
	for i, body := range bodies {
		b.keep(NewRecord(key("agent", fmt.Sprint("r", i)), 1, body), tidemark.Append{Log: log, Lines: []tidemark.Line{NewLine(log, int64(i+1), body)}})
	}
	lines := b.lines(log)
	if len(lines) != len(bodies) {
		b.Fatalf("%d lines, want %d", len(lines), len(bodies))
	}
	for i, body := range bodies {
		if string(lines[i].Body) != body {
			b.Errorf("line body %.20q came back as %.20q", body, lines[i].Body)
		}
		if got := b.get(key("agent", fmt.Sprint("r", i))); string(got.Body) != body {
			b.Errorf("record body %.20q came back as %.20q", body, got.Body)
		}
	}
}

func noAliases(b *bench) {
	r, a := NewRecord(key("agent", "a"), 1, `{"v":1}`), run(key("session", "s"), 1, 1)
	b.keep(r, a)
	r.Body[1], a.Lines[0].Body[1] = 'X', 'X'
	if got := b.get(r.Key); string(got.Body) != `{"v":1}` {
		b.Errorf("record changed with the caller's bytes: %s", got.Body)
	}
	if got := b.lines(a.Log)[0]; string(got.Body) != `{"n":1}` {
		b.Errorf("line changed with the caller's bytes: %s", got.Body)
	}
}

func oneWins(b *bench) {
	log := key("session", "s")
	second := b.open()
	defer second.Close()
	handles := []tidemark.Backend{b.backend(), second}
	const writers, rounds = 8, 20
	won := make([]int, rounds+1)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for seq := int64(1); seq <= rounds; {
				_, err := handles[w%2].Commit(context.Background(), b.batch(run(log, seq, seq)))
				switch {
				case err == nil:
					mu.Lock()
					won[seq]++
					mu.Unlock()
					seq++
				case errors.Is(err, tidemark.ErrConflict):
					seq++
					if head, err := handles[w%2].Get(context.Background(), log); err == nil {
						seq = head.Head.Length + 1
					}
				default:
					b.Errorf("Commit = %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
	for seq := 1; seq <= rounds; seq++ {
		if won[seq] != 1 {
			b.Errorf("line %d was acknowledged to %d writers", seq, won[seq])
		}
	}
	if got := b.lines(log); len(got) != rounds {
		b.Errorf("%d lines, want %d", len(got), rounds)
	}
}

func manyWriters(b *bench) {
	second := b.open()
	defer second.Close()
	handles := []tidemark.Backend{b.backend(), second}
	var wg sync.WaitGroup
	for w := range 16 {
		log := key("session", fmt.Sprint("s", w))
		wg.Go(func() {
			for seq := int64(1); seq <= 20; seq++ {
				if _, err := handles[w%2].Commit(context.Background(), b.batch(run(log, seq, seq))); err != nil {
					b.Errorf("Commit = %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
	for w := range 16 {
		if got := b.lines(key("session", fmt.Sprint("s", w))); len(got) != 20 {
			b.Errorf("writer %d: %d lines, want 20", w, len(got))
		}
	}
}

func handlesAgree(b *bench) {
	second := b.open()
	defer second.Close()
	log := key("session", "s")
	for i := int64(1); i <= 20; i++ {
		b.keep(run(log, i, i), NewRecord(log, i, fmt.Sprintf(`{"v":%d}`, i)))
		got, err := second.Get(context.Background(), log)
		if err != nil || got.Version != i || got.Head.Length != i {
			b.Fatalf("second handle: version %d, length %d, %v; want %d", got.Version, got.Head.Length, err, i)
		}
		b.be, second = second, b.be
	}
}

func reopen(b *bench) {
	log := key("session", "s")
	b.keep(NewRecord(log, 1, `{}`), run(log, 1, 3))
	want := b.get(log)
	b.be.Close()
	b.be = nil
	b.same(b.get(log), want)
	b.same(seqs(b.lines(log)), []int64{1, 2, 3})
	b.keep(NewRecord(log, 2, `{}`), run(log, 4, 4))
}

func loopsAreFree(b *bench) {
	log := key("session", "s")
	b.keep(run(log, 1, 600))
	for i := range 10 {
		b.keep(NewRecord(key("agent", fmt.Sprint("a", i)), 1, `{}`))
	}
	for l, err := range b.backend().Lines(context.Background(), log) {
		if err != nil {
			b.Fatal(err)
		}
		if l.Seq%100 == 0 {
			b.keep(run(log, 600+l.Seq/100, 600+l.Seq/100))
		}
		if l.Seq == 400 {
			break
		}
	}
	n := int64(0)
	for r, err := range b.backend().List(context.Background(), tidemark.Query{Kind: "agent", Order: tidemark.ByID}) {
		if err != nil {
			b.Fatal(err)
		}
		b.keep(NewRecord(r.Key, 2, `{}`))
		if n++; n == 5 {
			break
		}
	}
	b.same(b.get(log).Head.Length, int64(604))
}

func cancelled(b *bench) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	log := key("session", "s")
	if _, err := b.backend().Commit(ctx, b.batch(run(log, 1, 1))); !errors.Is(err, context.Canceled) {
		b.Errorf("Commit = %v, want context.Canceled", err)
	}
	if _, err := b.backend().Get(ctx, log); !errors.Is(err, context.Canceled) {
		b.Errorf("Get = %v, want context.Canceled", err)
	}
	for _, err := range b.backend().Lines(ctx, log) {
		if !errors.Is(err, context.Canceled) {
			b.Errorf("Lines = %v, want context.Canceled", err)
		}
	}
	for _, err := range b.backend().List(ctx, tidemark.Query{Kind: "session"}) {
		if !errors.Is(err, context.Canceled) {
			b.Errorf("List = %v, want context.Canceled", err)
		}
	}
	if got := b.lines(log); got != nil {
		b.Errorf("a cancelled commit left %v", got)
	}
}

func closed(b *bench) {
	log := key("session", "s")
	b.keep(run(log, 1, 1))
	other := b.open()
	for range 2 {
		if err := other.Close(); err != nil {
			b.Errorf("Close = %v", err)
		}
	}
	if _, err := other.Get(context.Background(), log); err == nil {
		b.Error("Get after Close succeeded")
	}
	if _, err := other.Commit(context.Background(), b.batch(run(log, 2, 2))); err == nil {
		b.Error("Commit after Close succeeded")
	}
	b.keep(run(log, 2, 2))
}

func watches(b *bench) {
	w, ok := b.backend().(tidemark.Watcher)
	if !ok {
		return
	}
	second := b.open()
	defer second.Close()
	log := key("session", "s")
	for seq := int64(1); seq <= 3; seq++ {
		woken := make(chan error, 1)
		go func() {
			for {
				if err := w.Wait(context.Background(), log, seq-1); err != nil {
					woken <- err
					return
				}
				if r, err := b.backend().Get(context.Background(), log); err == nil && r.Head.Length >= seq {
					woken <- nil
					return
				}
			}
		}()
		if _, err := second.Commit(context.Background(), b.batch(run(log, seq, seq))); err != nil {
			b.Fatal(err)
		}
		if err := <-woken; err != nil {
			b.Fatalf("Wait = %v", err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := w.Wait(ctx, log, 3); !errors.Is(err, context.Canceled) {
		b.Errorf("Wait = %v, want context.Canceled", err)
	}
}

func searches(b *bench) {
	s, ok := b.backend().(tidemark.Searcher)
	if !ok {
		return
	}
	log := key("session", "s")
	a := run(log, 1, 4)
	for i, words := range [][]string{{"red", "fish"}, {"blue", "fish"}, {"red", "bird"}, {"fish"}} {
		a.Lines[i].Words = words
	}
	b.keep(a)
	for _, c := range []struct {
		ask  tidemark.Ask
		want []int64
	}{
		{tidemark.Ask{All: [][]string{{"fish"}}}, []int64{4, 2, 1}},
		{tidemark.Ask{All: [][]string{{"fish"}}, Limit: 2}, []int64{4, 2}},
		{tidemark.Ask{All: [][]string{{"fish"}, {"red", "blue"}}}, []int64{2, 1}},
		{tidemark.Ask{All: [][]string{{"fish", "bird"}}, None: []string{"red"}}, []int64{4, 2}},
		{tidemark.Ask{All: [][]string{{"fis"}}}, nil},
	} {
		c.ask.Kind = "session"
		var got []int64
		for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			got = nil
			for h, err := range s.Search(context.Background(), c.ask) {
				if err != nil {
					b.Fatal(err)
				}
				got = append(got, h.Seq)
			}
			if slices.Equal(got, c.want) || time.Now().After(deadline) {
				break
			}
		}
		if !slices.Equal(got, c.want) {
			b.Errorf("%+v: %v, want %v", c.ask, got, c.want)
		}
	}
}

func checks(b *bench) {
	log := key("session", "s")
	b.keep(NewRecord(log, 1, `{}`), run(log, 1, 50))
	b.keep(tidemark.Append{Log: log, Lines: []tidemark.Line{NewLine(log, 51, string(bytes.Repeat([]byte{0}, 5000)))}})
	c, ok := b.backend().(tidemark.Checker)
	if !ok {
		return
	}
	for err := range c.Check(context.Background()) {
		b.Errorf("Check: %v", err)
	}
}
