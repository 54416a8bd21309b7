package sync

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/transfer/remote"
)

// TestAStoreFromABackupHasEachEntryOnce makes a backup of what was not pushed yet, and
// restores it after it was.
func TestAStoreFromABackupHasEachEntryOnce(t *testing.T) {
	dir := t.TempDir()
	a, b := newHome(t, "a"), newHome(t, "b")
	a.join(dir, nil)
	b.join(dir, a)
	id := a.create("plan", "one", "two")
	fork, err := a.s.Fork(t.Context(), id, 1, "other way")
	a.must(err)
	a.add(fork.ID, "three")
	w, err := a.s.Attach(t.Context(), id, a.holder())
	a.must(err)
	_, err = w.AppendTo(t.Context(), "helper", tidemark.Say(tidemark.Assistant, "four"))
	a.must(err)
	a.must(w.Close(t.Context()))
	backup := copyOf(t, a)
	a.add(id, "five")
	a.sync()
	b.sync()
	b.add(id, "six")
	b.sync()
	backup.add(id, "seven")
	if r := backup.run(Options{Push: true, Pull: true}); r.Renamed == "" {
		t.Error("it goes on under the id of the other")
	}
	for range 2 {
		b.sync()
		backup.sync()
	}
	same2(t, id, b, backup)
	same2(t, fork.ID, b, backup)
	all := fmt.Sprint(b.told(id), b.told(fork.ID))
	for text, times := range map[string]int{`"one"`: 2, `"two"`: 1, `"three"`: 1, "worker helper:four": 1, `"five"`: 1, `"six"`: 1, `"seven"`: 1} {
		if n := strings.Count(all, text); n != times { // the fork shows what it began after
			t.Errorf("%s is there %d times, not %d: %s", text, n, times, all)
		}
	}
}

func TestAPurgeByAStoreFromABackupStays(t *testing.T) {
	dir := t.TempDir()
	a, b := newHome(t, "a"), newHome(t, "b")
	a.join(dir, nil)
	b.join(dir, a)
	id := a.create("plan", "one")
	backup := copyOf(t, a)
	a.sync()
	b.sync()
	backup.must(backup.s.Purge(t.Context(), id, backup.holder()))
	for range 2 {
		backup.sync()
		b.sync()
	}
	for _, h := range []*home{b, backup} {
		if _, err := h.s.Session(t.Context(), id); !isAbsent(err) {
			t.Errorf("%s has it: %v", h.name, err)
		}
	}
}

// TestAForkOutlivesItsSourceAndItsMachine has a machine that never comes back fork a
// session, which another one purges. Who comes later gets the fork.
func TestAForkOutlivesItsSourceAndItsMachine(t *testing.T) {
	dir := t.TempDir()
	a, b := newHome(t, "a"), newHome(t, "b")
	a.join(dir, nil)
	b.join(dir, a)
	id := a.create("plan", "one", "two")
	fork, err := a.s.Fork(t.Context(), id, 2, "other way")
	a.must(err)
	a.add(fork.ID, "three")
	a.sync()
	b.sync()
	b.must(b.s.Purge(t.Context(), id, b.holder()))
	b.sync()
	c := newHome(t, "c")
	c.join(dir, b)
	c.sync()
	same2(t, fork.ID, b, c)
}

// TestWhatIsPushedAgainIsNewerThanWhatOthersSaw has a run end after its head was
// written, others see the head, and the head vanish.
func TestWhatIsPushedAgainIsNewerThanWhatOthersSaw(t *testing.T) {
	dir := t.TempDir()
	a, b := newHome(t, "a"), newHome(t, "b")
	a.join(dir, nil)
	b.join(dir, a)
	me, err := a.remotes().machine(t.Context())
	a.must(err)
	place, err := remote.Open(t.Context(), "file:"+dir, nil)
	a.must(err)
	defer place.Close()
	a.sync()
	b.sync()
	id := a.create("plan", "one")
	o := Options{Holder: a.holder(), Host: a.name, Push: true, Pull: true}
	o.open = func(context.Context, string) (remote.Blobs, error) { return unheard{place}, nil }
	if _, err := Run(t.Context(), a.s, "r", o); !errors.Is(err, errCut) {
		t.Fatal(err)
	}
	b.sync()
	a.must(place.Delete(t.Context(), headName(me.ID)))
	a.run(Options{Push: true, Pull: true})
	b.sync()
	same2(t, id, a, b)
}

// unheard is a place that writes a head and does not say so.
type unheard struct{ remote.Blobs }

func (u unheard) Replace(ctx context.Context, name string, data []byte) error {
	return errors.Join(u.Blobs.Replace(ctx, name, data), errCut)
}

func (u unheard) Close() error { return nil }
