package sync

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/store"
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

// TestAStoreFromABackupMeetsTheRemoteThatKnowsLessFirst has two remotes, of which one
// was not met since the backup: it cannot tell that the store was restored. What the
// lost store and the restored one added since then is all there, everywhere.
func TestAStoreFromABackupMeetsTheRemoteThatKnowsLessFirst(t *testing.T) {
	a, b, c := newHome(t, "a"), newHome(t, "b"), newHome(t, "c")
	first, second := t.TempDir(), t.TempDir()
	a.join(first, nil)
	b.join(first, a)
	a.joinAs("other", second, nil)
	b.joinAs("other", second, a)
	c.joinAs("other", second, a) // it never meets the first one
	id := a.create("plan", "one")
	a.must(a.s.Rename(t.Context(), id, "the plan"))
	both := func(h *home) {
		t.Helper()
		h.sync()
		h.syncWith("other")
	}
	both(a)
	both(b)
	both(a)
	backup := copyOf(t, a)
	a.add(id, "two", "three")
	a.must(a.s.Rename(t.Context(), id, "the old plan"))
	own := a.create("lost", "four")
	a.sync() // and not with the other
	backup.add(id, "zwei")
	backup.must(backup.s.Rename(t.Context(), id, "the new plan"))
	backup.syncWith("other")
	c.syncWith("other")
	b.syncWith("other")
	if r := backup.run(Options{Push: true, Pull: true}); r.Renamed == "" || len(r.Problems) > 0 {
		t.Errorf("it goes on under the id of the other: %+v", r)
	}
	for range 2 {
		both(b)
		both(backup)
		c.syncWith("other")
	}
	same2(t, id, b, backup)
	same2(t, id, c, backup)
	same2(t, own, c, backup)
	for _, h := range []*home{b, c, backup} {
		all := fmt.Sprint(h.told(id))
		for _, text := range []string{`"one"`, `"two"`, `"three"`, `"zwei"`} {
			if n := strings.Count(all, text); n != 1 {
				t.Errorf("at %s %s is there %d times: %s", h.name, text, n, all)
			}
		}
	}
	// What was one machine's at both goes on so, and nobody is renamed again.
	backup.add(id, "last")
	for _, name := range []string{"r", "other"} {
		if r, err := Run(t.Context(), backup.s, name, Options{Holder: backup.holder(), Host: backup.name, Push: true, Pull: true}); err != nil || r.Renamed != "" || len(r.Problems) > 0 {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

// TestAStoreWithOneIDAtAllRemotesTakesAnother has settings as earlier programs wrote
// them. Its own entries are this machine's whatever it was called.
func TestAStoreWithOneIDAtAllRemotesTakesAnother(t *testing.T) {
	a, b := newHome(t, "a"), newHome(t, "b")
	first, second := t.TempDir(), t.TempDir()
	a.joinAs("first", first, nil)
	b.joinAs("first", first, a)
	a.joinAs("second", second, nil)
	b.joinAs("second", second, a)
	ids := func() (all []string) {
		t.Helper()
		for c, err := range a.remotes().all(t.Context()) {
			a.must(err)
			all = append(all, c.Machine)
		}
		return all
	}
	if all := ids(); len(all) != 2 || all[0] == all[1] {
		t.Fatalf("it is called %q", all)
	}
	c, err := a.remotes().load(t.Context(), "second")
	a.must(err)
	me, err := a.remotes().machine(t.Context())
	a.must(err)
	c.Machine = me.ID
	a.must(a.remotes().save(t.Context(), c))
	id := a.create("plan", "one")
	for range 2 {
		for _, h := range []*home{a, b} {
			h.syncWith("second")
			h.syncWith("first")
		}
		a.add(id, "more")
	}
	if all := ids(); all[0] == all[1] {
		t.Errorf("it is called %q", all)
	}
	a.syncWith("second")
	b.syncWith("second")
	same2(t, id, a, b)
	for h, want := range map[*home]string{a: "", b: "a"} {
		i, err := h.s.Session(t.Context(), id)
		h.must(err)
		list := []store.Info{i}
		h.must(h.s.SetMachines(t.Context(), list))
		if list[0].Machine != want {
			t.Errorf("at %s it was last written on %q, want %q", h.name, list[0].Machine, want)
		}
	}
}

// joinAs is join, by a remote of another name.
func (h *home) joinAs(name, dir string, other *home) {
	h.t.Helper()
	code := ""
	if other != nil {
		var err error
		code, err = other.remotes().Pair(h.t.Context(), name, time.Now().Add(time.Hour))
		h.must(err)
	}
	h.must(h.remotes().Add(h.t.Context(), name, "file:"+dir, code))
}

// syncWith is sync, with a remote of another name.
func (h *home) syncWith(name string) {
	h.t.Helper()
	r, err := Run(context.Background(), h.s, name, Options{Holder: h.holder(), Host: h.name, Push: true, Pull: true})
	h.must(err)
	for _, p := range r.Problems {
		h.t.Errorf("%s, %s: %s", h.name, name, p)
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

// TestARunThatEndedBeforeItPushedGivesNoNameTwice has a run with one remote end anywhere,
// also between giving names to entries and pushing them. The other remote, which may be
// added only then, is given these, and then the store is lost: its backup does not know
// of the names.
func TestARunThatEndedBeforeItPushedGivesNoNameTwice(t *testing.T) {
	for i := range 28 {
		calls, later := i/2, i%2 == 1
		a, b := newHome(t, "a"), newHome(t, "b")
		first, second := t.TempDir(), t.TempDir()
		a.join(first, nil)
		b.join(first, a)
		if !later {
			a.joinAs("other", second, nil)
			b.joinAs("other", second, a)
		}
		id := a.create("plan", "one")
		both := func(h *home) {
			t.Helper()
			h.run(Options{Push: true, Pull: true})
			if !later {
				h.syncWith("other")
			}
		}
		both(a)
		both(b)
		both(a)
		backup := copyOf(t, a)
		a.add(id, "two")
		a.runCut(calls, -1)
		if later {
			a.joinAs("other", second, nil)
			b.joinAs("other", second, a)
			backup.joinAs("other", second, b)
			later = false
		}
		a.syncWith("other") // and is lost
		backup.add(id, "zwei")
		for range 3 {
			both(backup)
			both(b)
		}
		same2(t, id, b, backup)
		all := fmt.Sprint(b.told(id))
		for _, text := range []string{`"one"`, `"two"`, `"zwei"`} {
			if n := strings.Count(all, text); n != 1 {
				t.Errorf("cut after %d calls, run %d: %s is there %d times: %s", calls, i, text, n, all)
			}
		}
	}
}

// TestARemoteThatCannotBeWrittenIsPulledFrom has a remote that is read-only: what needs no
// new names there comes in, and the rest is named.
func TestARemoteThatCannotBeWrittenIsPulledFrom(t *testing.T) {
	a, b := newHome(t, "a"), newHome(t, "b")
	dir := t.TempDir()
	a.join(dir, nil)
	b.join(dir, a)
	grown, whole := b.create("grown", "one"), b.create("whole", "two")
	b.sync()
	a.sync()
	a.add(grown, "three")
	b.add(grown, "four")
	b.add(whole, "five")
	b.sync()
	place, err := remote.Open(t.Context(), "file:"+dir, nil)
	a.must(err)
	o := Options{Holder: a.holder(), Host: a.name, Pull: true}
	o.open = func(context.Context, string) (remote.Blobs, error) { return readOnly{place}, nil }
	r, err := Run(t.Context(), a.s, "r", o)
	a.must(err)
	if r.Pulled.Sessions != 1 || len(r.Problems) != 1 || r.Faults() != 0 {
		t.Fatalf("%+v, want one session", r)
	}
	if p := r.Problems[0]; p.Session != grown || !strings.Contains(p.What, "read-only") {
		t.Errorf("it says %q", p)
	}
	a.sync()
	b.sync()
	same2(t, grown, a, b)
	same2(t, whole, a, b)
}

// readOnly is a place that cannot be written.
type readOnly struct{ remote.Blobs }

func (readOnly) PutNew(context.Context, string, []byte) error {
	return tidemark.Errorf(tidemark.ErrDenied, "not here")
}

func (r readOnly) Replace(ctx context.Context, name string, data []byte) error {
	return r.PutNew(ctx, name, data)
}

func (r readOnly) Delete(ctx context.Context, name string) error { return r.PutNew(ctx, name, nil) }

func TestAReportCountsAsPeopleDo(t *testing.T) {
	r := Report{Remote: "box", Pulled: Count{Sessions: 1, Entries: 2}, Pushed: Count{Sessions: 3, Entries: 1}, Purged: 1}
	if got, want := r.Text(true), "box: would pull 1 session, 2 entries; would push 3 sessions, 1 entry\nbox: would purge 1 session that another machine purged\n"; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
}
