package transfer

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/search"
	"github.com/tidemark-sessions/tidemark/store"
)

// toolOf is a tool that has these sessions; a nil one is an item that cannot be
// read.
func toolOf(sessions ...*convert.Session) convert.Tool {
	return convert.Tool{Name: "fake", Import: func(context.Context, convert.Source) iter.Seq2[*convert.Session, error] {
		return func(yield func(*convert.Session, error) bool) {
			for i, s := range sessions {
				var err error
				if s == nil {
					err = convert.Skipf(fmt.Sprint("item ", i), "it is damaged")
				}
				if !yield(s, err) {
					return
				}
			}
		}
	}}
}

// said is a session with so many entries, the second of which is damaged.
func said(id string, entries int) *convert.Session {
	s := &convert.Session{Entries: func(yield func(convert.Entry, error) bool) {
		for i := range entries {
			e := convert.Entry{ID: fmt.Sprint(id, "-", i), Entry: tidemark.Entry{Role: tidemark.User, At: time.Unix(int64(i), 0), Blocks: []tidemark.Block{tidemark.Text(fmt.Sprint("text ", i))}}}
			if !yield(e, nil) || i == 0 && entries > 1 && !yield(convert.Entry{}, convert.Skipf(id, "an entry is damaged")) {
				return
			}
		}
	}}
	s.ForeignID, s.Title = id, "Session "+id
	return s
}

func importInto(ctx context.Context, b tidemark.Backend, tool convert.Tool) (i *Importer, told []string, err error) {
	i = &Importer{Opened: open.Around(store.New(b, nil)), Holder: store.Self("import"),
		Skip: func(err error) { told = append(told, err.Error()) },
		Kept: func(r Result) { told = append(told, fmt.Sprintf("%s %s %d", r.State, r.ForeignID, r.Entries)) }}
	err = newToolImport(i, tool).all(ctx, convert.Source{}, "here")
	return i, told, err
}

func TestSessionsAreToldOfInTheOrderOfTheSource(t *testing.T) {
	var sessions []*convert.Session
	var want []string
	for n := range 40 {
		if n%7 == 3 {
			sessions, want = append(sessions, nil), append(want, fmt.Sprintf("item %d: it is damaged", n))
			continue
		}
		id, entries := fmt.Sprint("s", n), 1+(n*37)%300
		sessions = append(sessions, said(id, entries))
		if entries > 1 {
			want = append(want, id+": an entry is damaged")
		}
		want = append(want, fmt.Sprintf("new %s %d", id, entries))
	}
	b := memory.New()
	for range 2 {
		i, told, err := importInto(t.Context(), b, toolOf(sessions...))
		if err != nil || !slices.Equal(told, want) || len(i.Results) != 34 {
			t.Fatalf("%d results, %v; told\n%s\nwant\n%s", len(i.Results), err, strings.Join(told, "\n"), strings.Join(want, "\n"))
		}
		for n := range want { // the second time all is there
			if id, ok := strings.CutPrefix(want[n], "new "); ok {
				want[n] = "known " + strings.Fields(id)[0] + " 0"
			}
		}
	}
}

func TestASessionThatLooksForAnotherOneFindsIt(t *testing.T) {
	fork, copied, again := said("fork", 3), said("copy", 3), said("one", 5)
	fork.Fork = &convert.Fork{Session: "one", Entry: "one-1"}
	copied.Copied, copied.Title = "one", "Session one"
	i, told, err := importInto(t.Context(), memory.New(), toolOf(said("zero", 900), said("one", 900), again, copied, fork))
	if err != nil || len(i.Results) != 5 {
		t.Fatalf("%v, told %q", err, told)
	}
	if i.Results[2].State == "new" || i.Results[2].Session != i.Results[1].Session {
		t.Errorf("a session that is there twice became two: %+v", i.Results[2])
	}
	if i.Results[3].Title == "Session one" {
		t.Error("a copy has the title of its source: it was not found")
	}
}

// together is a Backend whose first commit waits for a second one.
type together struct {
	tidemark.Backend
	mu     sync.Mutex
	number int
	second chan struct{}
}

func (b *together) Commit(ctx context.Context, batch tidemark.Batch) (tidemark.Receipt, error) {
	b.mu.Lock()
	b.number++
	n := b.number
	b.mu.Unlock()
	switch n {
	case 1:
		<-b.second
	case 2:
		close(b.second)
	}
	return b.Backend.Commit(ctx, batch)
}

func TestSeveralSessionsAreWrittenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // it ends, with an error, where nobody can go on
		b := &together{Backend: memory.New(), second: make(chan struct{})}
		if _, told, err := importInto(t.Context(), b, toolOf(said("a", 1), said("b", 1), said("c", 1))); err != nil || len(told) != 3 {
			t.Errorf("%v, told %q", err, told)
		}
	})
}

// asked is a Backend that counts who looks for a name.
type asked struct {
	tidemark.Backend
	names atomic.Int64
}

func (b *asked) List(ctx context.Context, q tidemark.Query) iter.Seq2[tidemark.Record, error] {
	if q.Kind == "name" {
		b.names.Add(1)
	}
	return b.Backend.List(ctx, q)
}

// To look for a name costs a store of files the reading of a folder.
func TestASessionThatIsThereIsFoundByItsID(t *testing.T) {
	b := &asked{Backend: memory.New()}
	for _, want := range []string{"new", "known"} {
		b.names.Store(0)
		i, _, err := importInto(t.Context(), b, toolOf(said("one", 3)))
		if err != nil || len(i.Results) != 1 || i.Results[0].State != want {
			t.Fatalf("%+v, %v, want one that is %s", i.Results, err, want)
		}
	}
	if n := b.names.Load(); n > 0 {
		t.Errorf("a session that is known was looked for by its name, %d times", n)
	}
}

// full is a Backend whose disk is full when a session of that id comes.
type full struct {
	tidemark.Backend
	id string
}

func (b *full) Commit(ctx context.Context, batch tidemark.Batch) (tidemark.Receipt, error) {
	for _, r := range batch.Puts {
		if strings.Contains(string(r.Body), b.id) {
			return tidemark.Receipt{}, tidemark.Storagef("no space left")
		}
	}
	return b.Backend.Commit(ctx, batch)
}

func TestAnImportEndsWithTheFirstErrorOfTheStore(t *testing.T) {
	var sessions []*convert.Session
	for n := range 30 {
		sessions = append(sessions, said(fmt.Sprint("s", n), 200))
	}
	b := &full{memory.New(), `"s10"`}
	i, told, err := importInto(t.Context(), b, toolOf(sessions...))
	if !errors.Is(err, tidemark.ErrStorage) {
		t.Fatalf("error %v, want ErrStorage", err)
	}
	if len(i.Results) < 10 || len(i.Results) >= 10+writtenAtOnce {
		t.Errorf("%d sessions were kept: %q", len(i.Results), told)
	}
	kept := 0
	for _, err := range i.Opened.Store.Sessions(t.Context(), store.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		kept++
	}
	if kept != len(i.Results) {
		t.Errorf("%d sessions are there, %d were told of", kept, len(i.Results))
	}
}

func TestAForkOfAnEntryProvesThatTheEntryIsFinal(t *testing.T) {
	source, fork := said("one", 4), said("fork", 2)
	entries := source.Entries
	source.Entries = func(yield func(convert.Entry, error) bool) {
		for e, err := range entries {
			e.Draft = err == nil && e.ID > "one-0"
			if !yield(e, err) {
				return
			}
		}
	}
	fork.Fork = &convert.Fork{Session: "one", Entry: "one-2"}
	b := memory.New()
	i, told, err := importInto(t.Context(), b, toolOf(source, fork))
	if err != nil || len(i.Results) != 2 {
		t.Fatalf("%v, told %q", err, told)
	}
	count := func(n int) (kept, drafts int) {
		v, err := i.Opened.Store.View(t.Context(), i.Results[n].Session)
		if err == nil {
			v, err = v.WithDraft(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		for e, err := range v.Path(t.Context(), 0) {
			if err != nil {
				t.Fatal(err)
			}
			if kept++; e.Draft {
				drafts++
			}
		}
		return kept, drafts
	}
	if kept, drafts := count(0); kept != 4 || drafts != 1 {
		t.Errorf("the source has %d entries, %d of them drafts, want 4 and 1", kept, drafts)
	}
	if kept, _ := count(1); kept != 5 {
		t.Errorf("the fork has %d entries, want 3 of the source and 2", kept)
	}
	again, told, err := importInto(t.Context(), b, toolOf(source, fork))
	if err != nil || again.Results[0].State != "known" || again.Results[1].State != "known" {
		t.Errorf("a second import: %v, told %q", err, told)
	}
}

// A file that a converter was not made for must not keep the others out.
func TestAConverterThatPanicsLosesOnlyWhatItWasAt(t *testing.T) {
	bad := said("bad", 3)
	bad.Entries = func(yield func(convert.Entry, error) bool) {
		for e, err := range said("bad", 3).Entries {
			if !yield(e, err) {
				return
			}
			if e.ID == "bad-1" {
				panic("it is not like that")
			}
		}
	}
	b := memory.New()
	i, told, err := importInto(t.Context(), b, toolOf(said("one", 1), bad, said("two", 1)))
	if err != nil || len(i.Results) != 2 || i.Skipped != 2 || !strings.Contains(strings.Join(told, "\n"), "session bad: it cannot be read, which is a fault of this program: it is not like that") {
		t.Errorf("in the entries of a session: %q, %v", told, err)
	}
	found, err := i.Opened.Store.Foreign(t.Context(), "bad")
	if err != nil || len(found) > 0 {
		t.Errorf("of a session that cannot be read there is %v, %v", found, err)
	}

	tool := toolOf(said("three", 1))
	before := tool.Import
	tool.Import = func(ctx context.Context, p convert.Source) iter.Seq2[*convert.Session, error] {
		return func(yield func(*convert.Session, error) bool) {
			for s, err := range before(ctx, p) {
				if !yield(s, err) {
					return
				}
			}
			panic("nor like that")
		}
	}
	i, told, err = importInto(t.Context(), b, tool)
	if !errors.Is(err, tidemark.ErrInvalid) || !ConcernsInput(err) || len(i.Results) != 1 {
		t.Errorf("between sessions: %q, %v", told, err)
	}
}

func TestALongImportIndexesWhileItGoesOn(t *testing.T) {
	for entries, want := range map[int]int64{1000: 1000, 6000: 0} {
		var sessions []*convert.Session
		for n := range 10 {
			sessions = append(sessions, said(fmt.Sprint("s", n), entries/10))
		}
		s := store.New(memory.New(), &store.Options{Places: search.EachWord})
		i := &Importer{Opened: open.Around(s), Holder: store.Self("import")}
		if err := newToolImport(i, toolOf(sessions...)).all(t.Context(), convert.Source{}, "here"); err != nil {
			t.Fatal(err)
		}
		if n, err := s.Unindexed(t.Context(), 0); err != nil || n != want {
			t.Errorf("of %d entries %d are left for the end, %v, want %d", entries, n, err, want)
		}
		if err := i.Index(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n, err := s.Unindexed(t.Context(), 0); err != nil || n != 0 {
			t.Errorf("of %d entries %d are not indexed, %v", entries, n, err)
		}
	}
}
