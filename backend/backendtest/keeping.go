package backendtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// What is put and appended is read back unchanged, or refused.

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
		return tidemark.Batch{Deletes: []tidemark.Precondition{{Key: k, Version: v}}}
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
		return tidemark.Batch{Require: []tidemark.Precondition{{Key: k, Version: v}}}
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
	known := []tidemark.Duplicate{{Log: log, Key: "two", Seq: 2}}
	for _, again := range []any{
		add(keyed(log, 3, "two")),
		add(keyed(log, 2, "two")), // even when the length differs
		add(keyed(log, 3, "three"), keyed(log, 4, "two")),
	} {
		r := b.fails(tidemark.ErrExists, again, tidemark.Batch{Require: []tidemark.Precondition{{Key: lease, Version: 7}}}, NewRecord(lease, 1, `{}`))
		b.same(r.Duplicates, known)
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
	b.same(r.Duplicates, []tidemark.Duplicate{{Log: log, Key: "one", Seq: 1}})
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
	b.same(r.Duplicates, []tidemark.Duplicate{{Log: log, Key: "oldest", Seq: 1}})
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
	want := tidemark.Head{Length: 3, UpdatedAt: one.At, Position: NewLine(log, 3, ``).Position}
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
	b.same(got.Head, tidemark.Head{Length: 4, UpdatedAt: three.At, Position: l.Position, Chain: l.Chain})
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
		bad(func(x *tidemark.Batch) { x.Require = []tidemark.Precondition{{Key: key("agent", id)}} })
		bad(func(x *tidemark.Batch) { x.Deletes = []tidemark.Precondition{{Key: key("agent", id), Version: 1}} })
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
