package tenant_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/store"
)

// writesDown returns the store whose every batch says that ada made it, and
// what is to be chained.
func writesDown(s place, boot *tenant.Boot) (*store.Store, func() []tenant.Act) {
	var mu sync.Mutex
	var acts []tenant.Act
	return s.sessions.With(func(ctx context.Context, b *tidemark.Batch) (func(error), error) {
			act, ended, err := boot.Add(ctx, b, tenant.Audited{Who: "ada", Action: "append", Outcome: tenant.AuditDone})
			return func(err error) {
				if err == nil {
					mu.Lock()
					acts = append(acts, act)
					mu.Unlock()
				}
				ended(err)
			}, err
		}), func() []tenant.Act {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(acts)
		}
}

// writeMany makes sessions of several entries, at once.
func writeMany(t *testing.T, s *store.Store, writers, entries int) {
	t.Helper()
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() {
			w := s.Create(tidemark.Session{Title: fmt.Sprint("session ", i)}, store.Self("test"))
			for range entries {
				if _, err := w.Append(context.Background(), tidemark.Say(tidemark.User, "hello")); err != nil {
					t.Error(err)
				}
			}
			if err := w.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// batches returns the batches that wrote something to a session, and those that
// a line of the audit log names.
func batches(t *testing.T, s place) (wrote, told []string) {
	t.Helper()
	for k, err := range s.Backend().Walk(t.Context(), tidemark.Key{}) {
		if err != nil {
			t.Fatal(err)
		}
		if k.Kind != "session" {
			continue
		}
		for l, err := range s.Backend().Lines(t.Context(), k) {
			if err != nil {
				t.Fatal(err)
			}
			wrote = append(wrote, l.Batch)
		}
	}
	for l, err := range s.AuditLines(t.Context(), audited, tidemark.Span{}) {
		if err != nil {
			t.Fatal(err)
		}
		told = append(told, l.Batch)
	}
	for l, err := range s.Unchained(t.Context(), audited, s.Backend()) {
		if err != nil {
			t.Fatal(err)
		}
		told = append(told, l.Batch)
	}
	return wrote, told
}

func TestEveryCommitBringsItsLineWhoeverChainsIt(t *testing.T) {
	onEach(t, func(t *testing.T, s place) {
		boot := s.NewBoot(audited, "Node.1", false)
		does, acts := writesDown(s, boot)
		writeMany(t, does, 6, 5)
		wrote, told := batches(t, s)
		for _, b := range wrote {
			if n := len(slices.Collect(matches(told, b))); n != 1 {
				t.Errorf("batch %s has %d lines", b, n)
			}
		}
		if len(wrote) < 30 {
			t.Fatalf("only %d entries", len(wrote))
		}
		// Half is chained by the server itself, twice; the rest by who comes after.
		all := acts()
		for range 2 {
			if err := boot.Chain(t.Context(), all[:len(all)/2]...); err != nil {
				t.Fatal(err)
			}
		}
		if n, err := s.ChainLeft(t.Context(), audited, time.Unix(0, 0), s.Backend()); n != 0 || err != nil {
			t.Errorf("chained %d that are young: %v", n, err)
		}
		var after sync.WaitGroup
		for range 3 {
			after.Go(func() {
				if _, err := s.ChainLeft(context.Background(), audited, time.Now().Add(time.Hour), s.Backend()); err != nil {
					t.Error(err)
				}
			})
		}
		after.Wait()
		head, faults, err := s.VerifyAudit(t.Context(), audited, []tidemark.Backend{s.Backend()})
		if err != nil || len(faults) > 0 || head.Length != int64(len(all)) {
			t.Errorf("%d lines of %d, %v, %v", head.Length, len(all), faults, err)
		}
		for l, err := range s.Unchained(t.Context(), audited, s.Backend()) {
			t.Errorf("not chained: %+v, %v", l, err)
		}
		if err := boot.End(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func matches(all []string, one string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for _, s := range all {
			if s == one && !yield(s) {
				return
			}
		}
	}
}

// unsure is a Backend that fails as it is told to.
type unsure struct {
	tidemark.Backend
	mu   sync.Mutex
	fail func(n int) (before, after error)
	n    int
}

func (u *unsure) Walk(ctx context.Context, after tidemark.Key) iter.Seq2[tidemark.Key, error] {
	return u.Backend.Walk(ctx, after)
}

func (u *unsure) Commit(ctx context.Context, b tidemark.Batch) (tidemark.Receipt, error) {
	if len(b.Appends) == 0 || b.Appends[len(b.Appends)-1].Log.Kind != tidemark.ActKind {
		return u.Backend.Commit(ctx, b)
	}
	u.mu.Lock()
	u.n++
	before, after := u.fail(u.n)
	u.mu.Unlock()
	if before != nil {
		return tidemark.Receipt{}, before
	}
	r, err := u.Backend.Commit(ctx, b)
	return r, errors.Join(err, after)
}

func TestNoNumberIsMissingWhateverBecomesOfACommit(t *testing.T) {
	u := &unsure{Backend: memory.New(), fail: func(n int) (error, error) {
		switch n % 5 {
		case 1:
			return tidemark.ErrUnknown, nil // it did not take effect
		case 2:
			return nil, tidemark.ErrUnknown // it did
		case 3:
			return tidemark.Conflictf("somebody was quicker"), nil
		}
		return nil, nil
	}}
	s := placeOf(store.New(u, nil))
	boot := s.NewBoot(audited, "node", false)
	does, acts := writesDown(s, boot)
	for i := range 40 {
		w := does.Create(tidemark.Session{Title: fmt.Sprint(i)}, store.Self("test"))
		w.Append(t.Context(), tidemark.Say(tidemark.User, "hello")) // some fail
		w.Close(t.Context())
	}
	each := func(when string) {
		t.Helper()
		wrote, told := batches(t, s)
		for _, b := range wrote {
			if n := len(slices.Collect(matches(told, b))); n != 1 {
				t.Errorf("%s: batch %s has %d lines", when, b, n)
			}
		}
		if len(wrote) == 0 {
			t.Fatal("nothing was written")
		}
	}
	each("before anything is chained")
	// The server chains what it remembers, and ends: the first is forgotten, and
	// of what became of some it never heard.
	if err := boot.Chain(t.Context(), acts()[1:]...); err != nil {
		t.Fatal(err)
	}
	each("chained")
	if err := boot.End(t.Context()); err != nil {
		t.Fatal(err)
	}
	each("ended")
	if n, err := s.ChainLeft(t.Context(), audited, time.Now().Add(time.Hour), u); n == 0 || err != nil {
		t.Errorf("chained %d that were left: %v", n, err)
	}
	each("chained by another")
	if faults := verifiedBy(t, s); len(faults) > 0 {
		t.Error(faults)
	}
}

func verifiedBy(t *testing.T, s place) []tenant.AuditFault {
	t.Helper()
	_, faults, err := s.VerifyAudit(t.Context(), audited, []tidemark.Backend{s.Backend()})
	if err != nil {
		t.Fatal(err)
	}
	return faults
}

// Whoever can write every byte of a store changes what a server wrote down.
func TestVerifyNamesWhatIsMissingChangedOrMovedOfWhatServersWroteDown(t *testing.T) {
	const other = "0a0a0a0a-0000-8000-8000-000000000002"
	for _, c := range []struct {
		name    string
		chained int // of six
		change  func(*tidemark.Key, []tidemark.Line) []tidemark.Line
		tenant  string // whose log tells
		want    string
	}{
		{"nothing, half of it chained", 3, nil, audited, ""},
		{"a removed row", 0, func(_ *tidemark.Key, ls []tidemark.Line) []tidemark.Line { return slices.Delete(ls, 2, 3) }, audited, "line 3 of boot"},
		{"a removed row that was chained", 6, func(_ *tidemark.Key, ls []tidemark.Line) []tidemark.Line { return slices.Delete(ls, 2, 3) }, audited, "line 3 of boot"},
		{"the last rows, which were chained", 6, func(_ *tidemark.Key, ls []tidemark.Line) []tidemark.Line { return ls[:4] }, audited, "and on to 6"},
		{"a changed row", 6, func(_ *tidemark.Key, ls []tidemark.Line) []tidemark.Line {
			ls[3].Body = []byte(strings.Replace(string(ls[3].Body), "ada", "eve", 1))
			return ls
		}, audited, "another text"},
		{"a row that is no JSON", 0, func(_ *tidemark.Key, ls []tidemark.Line) []tidemark.Line { ls[3].Body = []byte("gone"); return ls }, audited, "line 4 of boot"},
		{"moved to another tenant: there", 0, func(log *tidemark.Key, ls []tidemark.Line) []tidemark.Line {
			log.ID = strings.Replace(log.ID, audited, other, 1)
			return ls
		}, other, "moved"},
		{"moved to another tenant: here", 6, func(log *tidemark.Key, ls []tidemark.Line) []tidemark.Line {
			log.ID = strings.Replace(log.ID, audited, other, 1)
			return ls
		}, audited, "missing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := placeOf(store.New(memory.New(), nil))
			boot := s.NewBoot(audited, "node", false)
			does, acts := writesDown(s, boot)
			writeMany(t, does, 1, 6)
			all := acts()[:6]
			if err := boot.Chain(t.Context(), all[:c.chained]...); err != nil {
				t.Fatal(err)
			}
			rows := withoutRows(t, s, all[0].Log, 6, c.change)
			_, faults, err := s.VerifyAudit(t.Context(), c.tenant, []tidemark.Backend{rows})
			if err != nil {
				t.Fatal(err)
			}
			if c.want == "" && len(faults) > 0 || c.want != "" && (len(faults) == 0 || !strings.Contains(faults[0].What, c.want)) {
				t.Errorf("found %v, want %q", faults, c.want)
			}
		})
	}
}

// changedRows is a place where lines can be missing in the middle, as in a
// table.
type changedRows struct {
	tidemark.Backend
	log   tidemark.Key
	lines []tidemark.Line
}

func (c changedRows) Walk(context.Context, tidemark.Key) iter.Seq2[tidemark.Key, error] {
	return func(yield func(tidemark.Key, error) bool) { yield(c.log, nil) }
}

func (c changedRows) Lines(context.Context, tidemark.Key, ...tidemark.Span) iter.Seq2[tidemark.Line, error] {
	return func(yield func(tidemark.Line, error) bool) {
		for _, l := range c.lines {
			if !yield(l, nil) {
				return
			}
		}
	}
}

func withoutRows(t *testing.T, s place, log tidemark.Key, n int, change func(*tidemark.Key, []tidemark.Line) []tidemark.Line) tidemark.Backend {
	t.Helper()
	c := changedRows{Backend: s.Backend(), log: log}
	for l, err := range s.Backend().Lines(t.Context(), log, tidemark.Span{To: int64(n)}) {
		if err != nil {
			t.Fatal(err)
		}
		l.Body = slices.Clone(l.Body)
		c.lines = append(c.lines, l)
	}
	if change != nil {
		c.lines = change(&c.log, c.lines)
	}
	return c
}

func TestWhatIsHousekeepingIsNotTheDataOfAnybody(t *testing.T) {
	segment := tidemark.Key{Kind: tidemark.KindSegment, ID: "0a0a0a0a-0000-8000-8000-000000000001"}
	family := tidemark.Key{Kind: tidemark.KindIndex, ID: "own"}
	lease := tidemark.Key{Kind: "lease", ID: "0a0a0a0a-0000-8000-8000-000000000002"}
	session := tidemark.Key{Kind: "session", ID: "0a0a0a0a-0000-8000-8000-000000000002"}
	puts := func(k tidemark.Key) tidemark.Batch { return tidemark.Batch{Puts: []tidemark.Record{{Key: k}}} }
	deletes := func(k tidemark.Key) tidemark.Batch {
		return tidemark.Batch{Deletes: []tidemark.Precondition{{Key: k}}}
	}
	appends := func(k tidemark.Key) tidemark.Batch { return tidemark.Batch{Appends: []tidemark.Append{{Log: k}}} }
	drops := func(k tidemark.Key) tidemark.Batch { return tidemark.Batch{Drops: []tidemark.Key{k}} }
	for what, b := range map[string]tidemark.Batch{"puts a family": puts(family), "deletes a segment": deletes(segment),
		"appends blocks": appends(segment), "drops blocks": drops(segment), "puts a lease": puts(lease)} {
		if !tenant.Housekeeping(b) {
			t.Errorf("a batch that %s is not housekeeping", what)
		}
	}
	hides := drops(session)
	hides.Puts = puts(family).Puts
	for what, b := range map[string]tidemark.Batch{"puts a session": puts(session), "deletes a session": deletes(session),
		"appends entries": appends(session), "drops entries": drops(session), "drops entries and hides them in the index": hides, "drops the log of a lease": drops(lease)} {
		if tenant.Housekeeping(b) {
			t.Errorf("a batch that %s is housekeeping", what)
		}
	}
}
