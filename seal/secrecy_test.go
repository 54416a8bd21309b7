package seal_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/seal"
)

// spy looks at everything that goes down.
type spy struct {
	*memory.Backend
	mu   sync.Mutex
	seen bytes.Buffer
}

func (s *spy) Commit(ctx context.Context, b tidemark.Batch) (tidemark.Receipt, error) {
	s.mu.Lock()
	fmt.Fprintf(&s.seen, "%s\n", b.ID)
	for _, r := range b.Puts {
		fmt.Fprintf(&s.seen, "%s %s %s %s\n", r.Key, r.Group, r.State, r.Body)
	}
	for _, a := range b.Appends {
		for _, l := range a.Lines {
			fmt.Fprintf(&s.seen, "%s %s %s %s %s\n", a.Log, l.Kind, l.Key, l.Chain, l.Body)
		}
	}
	s.mu.Unlock()
	return s.Backend.Commit(ctx, b)
}

func TestNothingOfACanaryReachesTheBackendUnderneath(t *testing.T) {
	const canary = "kanarienvogel"
	s := &spy{Backend: memory.New()}
	slot, _ := fileKey(t)
	b := must[*seal.Backend](t)(seal.Create(ctx, s, slot))
	if err := b.AddSlot(ctx, must[seal.NewSlot](t)(seal.PassphraseSlot("", []byte(canary), cheap))); err != nil {
		t.Fatal(err)
	}
	for i := range int64(50) {
		batch := says(logOne, i+1, canary+" sings")
		l := &batch.Appends[0].Lines[0]
		l.Key = fmt.Sprint(canary, i)
		l.Sum = l.Checksum(logOne)
		r := put(key("session", one+"."+b.Hash("title", canary)), i+1, `{"title":"`+canary+`"}`)
		r.Puts[0].Group = b.Hash("group", canary)
		batch.Puts = r.Puts
		keep(t, b, batch)
	}
	if err := b.Rotate(ctx, seal.Rotation{}); err != nil {
		t.Fatal(err)
	}
	keep(t, b, tidemark.Batch{Deletes: []tidemark.Precondition{{Key: key("session", one+"."+b.Hash("title", canary)), Version: 50}}})
	for _, part := range []string{canary, canary[:5], "sings", "title"} {
		if bytes.Contains(s.seen.Bytes(), []byte(part)) {
			t.Errorf("%q went down in the clear", part)
		}
	}
	if !bytes.Contains(s.seen.Bytes(), []byte(one)) {
		t.Error("the spy is blind")
	}
}

func TestAPurgeDestroysTheDataKey(t *testing.T) {
	b, inner, opens := made(t)
	talk(t, b)
	other := reopened(t, inner, opens)
	before := contentOf(t, inner)
	readAll(t, other, logs...)
	has := func(owner string) bool {
		_, err := inner.Get(ctx, key("datakey", owner))
		return !errors.Is(err, tidemark.ErrNotFound)
	}
	keep(t, b, tidemark.Batch{Drops: []tidemark.Key{logOne}})
	if !has(one) {
		t.Error("a drop without a delete destroyed the key")
	}
	keep(t, b, tidemark.Batch{
		Deletes: []tidemark.Precondition{{Key: logOne, Version: 1}, {Key: key("lease", one), Version: 1}},
		Drops:   []tidemark.Key{logOne, key("notes", one)},
	})
	if has(one) || !has(two) || !has("store") {
		t.Errorf("data keys after the purge: one %v, two %v, store %v", has(one), has(two), has("store"))
	}
	// What somebody kept of it does not open any more.
	kept := contentOf(t, inner)
	kept.records = append(kept.records, *before.record(t, logOne))
	kept.logs = append(kept.logs, *before.log(t, logOne))
	for item, body := range readAll(t, reopened(t, kept.store(t), opens), logs...) {
		if strings.Contains(item, one) != strings.HasPrefix(body, "!") {
			t.Errorf("%s reads as %q", item, body)
		}
	}
	// Another handle still has the key in memory, and does not use it.
	if err := commit(other, says(logOne, 5, "late")); !errors.Is(err, tidemark.ErrConflict) {
		t.Errorf("an append to what was purged = %v, want ErrConflict", err)
	}
	keep(t, other, says(logOne, 1, "anew"))
	keep(t, other, put(logOne, 1, `{"title":"anew"}`))
	for _, handle := range []*seal.Backend{b, other, reopened(t, inner, opens)} {
		got := readAll(t, handle, logOne)
		if got[logOne.String()+"@1"] != "user  anew" || got[logOne.String()] != `{"title":"anew"}` {
			t.Errorf("the session made anew reads as %v", got)
		}
	}
}

// TestAHandleDoesNotTrustTheEndThatItRemembers drops a log and makes it anew in
// another handle, to the same length.
func TestAHandleDoesNotTrustTheEndThatItRemembers(t *testing.T) {
	for _, id := range []string{one, "of-the-store"} {
		log := key("session", id)
		b, inner, opens := made(t)
		other := reopened(t, inner, opens)
		keep(t, b, says(log, 1, "a", "b"))
		keep(t, other, tidemark.Batch{Drops: []tidemark.Key{log}})
		keep(t, other, says(log, 1, "A", "B"))
		keep(t, b, says(log, 3, "C"))
		keep(t, other, says(log, 4, "D"))
		if err := lastError(b, log); err != nil {
			t.Error(err)
		}
		for item, body := range readAll(t, other, log) {
			if strings.HasPrefix(body, "!") {
				t.Errorf("%s reads as %q", item, body)
			}
		}
	}
}

// lost is a Backend that loses the answer of a commit.
type lost struct {
	*memory.Backend
	lose, done bool
}

func (l *lost) Commit(ctx context.Context, b tidemark.Batch) (tidemark.Receipt, error) {
	if !l.lose {
		return l.Backend.Commit(ctx, b)
	}
	l.lose = false
	if l.done {
		l.Backend.Commit(ctx, b)
	}
	return tidemark.Receipt{}, tidemark.ErrUnknown
}

func TestALostAnswerLeavesNoWrongEnd(t *testing.T) {
	for _, done := range []bool{false, true} {
		inner := &lost{Backend: memory.New(), done: done}
		slot, _ := fileKey(t)
		b := must[*seal.Backend](t)(seal.Create(ctx, inner, slot))
		keep(t, b, says(logOne, 1, "a"))
		inner.lose = true
		if err := commit(b, says(logOne, 2, "b")); !errors.Is(err, tidemark.ErrUnknown) {
			t.Fatalf("Commit = %v, want ErrUnknown", err)
		}
		if !done {
			keep(t, b, says(logOne, 2, "b"))
		}
		keep(t, b, says(logOne, 3, "c"))
		inner.lose = true
		if err := b.SetIndex(ctx, false); errors.Is(err, tidemark.ErrUnknown) == done {
			t.Errorf("SetIndex with a lost answer (done: %v) = %v", done, err)
		}
		got := readAll(t, b, logOne)
		for i, body := range []string{"a", "b", "c"} {
			if item := fmt.Sprintf("%s@%d", logOne, i+1); got[item] != "user  "+body {
				t.Errorf("%s reads as %q", item, got[item])
			}
		}
	}
}

func TestAnIndexCanBeForbiddenForEveryProgram(t *testing.T) {
	b, inner, opens := made(t)
	other := reopened(t, inner, opens)
	for _, allowed := range []bool{true, false, true} {
		if err := b.SetIndex(ctx, allowed); err != nil {
			t.Fatal(err)
		}
		for _, handle := range []*seal.Backend{b, other, reopened(t, inner, opens)} {
			if may, err := handle.MayIndex(ctx); may != allowed || err != nil {
				t.Errorf("MayIndex = %v, %v, want %v", may, err, allowed)
			}
		}
	}
}

func TestHashesAreOfOneStore(t *testing.T) {
	a, inner, opens := made(t)
	b, _, _ := made(t)
	h := a.Hash("title", "x")
	if len(h) != 24 || h != reopened(t, inner, opens).Hash("title", "x") {
		t.Errorf("Hash = %q, and another one after opening again", h)
	}
	if h == b.Hash("title", "x") || h == a.Hash("titlex") || h == a.Hash("titl", "ex") {
		t.Error("hashes of different things are equal")
	}
	if err := a.Rotate(ctx, seal.Rotation{}); err != nil || a.Hash("title", "x") != h {
		t.Errorf("a rotation changed what things are called (%v)", err)
	}
}

// TestASessionThatComesBackHasAnotherKey purges a session and adopts one of
// the same id, while a handle still remembers the key of the first.
func TestASessionThatComesBackHasAnotherKey(t *testing.T) {
	b, inner, opens := made(t)
	talk(t, b)
	remembers := reopened(t, inner, opens)
	readAll(t, remembers, logOne)
	keep(t, b, tidemark.Batch{Deletes: []tidemark.Precondition{{Key: logOne, Version: 1}}, Drops: []tidemark.Key{logOne}})
	back := says(logOne, 1, "back")
	back.Adopt = true
	back.Appends[0].At = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	back.Appends[0].Lines[0].Batch = "batch"
	keep(t, b, back)
	keep(t, remembers, says(logOne, 2, "and on"))
	for _, handle := range []*seal.Backend{b, remembers, reopened(t, inner, opens)} {
		got := readAll(t, handle, logOne)
		if got[logOne.String()+"@1"] != "user  back" || got[logOne.String()+"@2"] != "user  and on" {
			t.Errorf("reads as %v", got)
		}
	}
}
