package transfer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/archive"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/seal"
	"github.com/tidemark-sessions/tidemark/store"
)

// cameIn imports sessions and returns what became of them, with what was passed
// over.
func cameIn(t *testing.T, b tidemark.Backend, how Importer, sessions ...*convert.Session) string {
	t.Helper()
	how.Opened, how.Holder = open.Around(store.New(b, nil)), store.Self("import")
	if err := newToolImport(&how, toolOf(sessions...)).all(t.Context(), convert.Source{}, "here"); err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, r := range how.Results {
		all = append(all, r.State+" "+r.ForeignID)
	}
	return fmt.Sprintf("%s, %d trashed, %d purged", strings.Join(all, " "), how.Trashed, how.Purged)
}

func wantCame(t *testing.T, when, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %s, want %s", when, got, want)
	}
}

// purge purges the session of the tool that has an id.
func purge(t *testing.T, b tidemark.Backend, foreign string) {
	t.Helper()
	s := store.New(b, nil)
	found, err := s.Foreign(t.Context(), foreign)
	if err != nil || len(found) != 1 {
		t.Fatalf("%d sessions, %v", len(found), err)
	}
	if err := s.Purge(t.Context(), found[0].ID, store.Self("test")); err != nil {
		t.Fatal(err)
	}
}

func TestAPurgedSessionComesBackOnlyWhenSomebodyAsksForIt(t *testing.T) {
	inner := memory.New()
	slot, err := seal.FileSlot("test", seal.NewKeyFile())
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := seal.Create(t.Context(), memory.New(), slot)
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string]tidemark.Backend{"plain": inner, "sealed": sealed} {
		one, two := said("one", 3), said("two", 1)
		wantCame(t, name, cameIn(t, b, Importer{}, one, two), "new one new two, 0 trashed, 0 purged")
		purge(t, b, "one")
		wantCame(t, name+", purged", cameIn(t, b, Importer{}, one, two), "known two, 0 trashed, 1 purged")
		wantCame(t, name+", all homes again", cameIn(t, b, Importer{Again: true, homes: true}, one), ", 0 trashed, 1 purged")
		wantCame(t, name+", dry", cameIn(t, b, Importer{Again: true, DryRun: true}, one), "new one, 0 trashed, 0 purged")
		wantCame(t, name+", again", cameIn(t, b, Importer{Again: true}, one), "new one, 0 trashed, 0 purged")
		if is, err := store.New(b, nil).Purged(t.Context(), tidemark.Session{Tool: "fake", ForeignID: "one", ID: tidemark.DerivedSessionID("import", "fake", "one")}); is || err != nil {
			t.Errorf("%s: what came back is still purged: %v, %v", name, is, err)
		}
		purge(t, b, "one")
		purge(t, b, "two")
		wantCame(t, name+", purged again", cameIn(t, b, Importer{}, one, two), ", 0 trashed, 2 purged")
	}
	for key, err := range inner.Walk(t.Context(), tidemark.Key{}) {
		if err != nil {
			t.Fatal(err)
		}
		r, err := inner.Get(t.Context(), key)
		if text := key.ID + string(r.Body); err == nil && (strings.Contains(text, "one") || strings.Contains(text, "fake")) {
			t.Errorf("%s of a purged session: %s", key.Kind, text)
		}
	}
}

func TestASessionInTheTrashIsPassedOverAndHasAllWhenItIsRestored(t *testing.T) {
	b := memory.New()
	s := store.New(b, nil)
	cameIn(t, b, Importer{}, said("one", 1))
	found, err := s.Foreign(t.Context(), "one")
	if err == nil {
		err = s.Trash(t.Context(), found[0].ID)
	}
	if err != nil {
		t.Fatal(err)
	}
	told := 0
	how := Importer{Again: true, Skip: func(error) { told++ }}
	wantCame(t, "in the trash", cameIn(t, b, how, said("one", 2)), ", 1 trashed, 0 purged")
	if told > 0 {
		t.Errorf("it was told of %d times", told)
	}
	if err := s.Restore(t.Context(), found[0].ID); err != nil {
		t.Fatal(err)
	}
	wantCame(t, "restored", cameIn(t, b, Importer{}, said("one", 2)), "grown one, 0 trashed, 0 purged")
}

func TestWhatGrewInTheTrashIsReadAfterItIsRestored(t *testing.T) {
	h := homeOf(t, "claude-code")
	all := len(h.read(t, false).Results)
	id := h.session(t, strings.TrimSuffix(h.files[0][strings.LastIndexAny(h.files[0], `/\`)+1:], ".jsonl"))
	if err := h.s.Trash(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	h.touch(t, h.files[0])
	if i := h.read(t, false); i.Trashed != 1 || len(i.Results) != 0 {
		t.Errorf("%d passed over, %d read, want 1 and none", i.Trashed, len(i.Results))
	}
	h.want(t, "in the trash", h.read(t, false), 0, all-1)
	if err := h.s.Restore(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if i := h.read(t, false); len(i.Results) != 1 || i.Results[0].Session != id {
		t.Errorf("restored: %+v, want session %s", i.Results, id)
	}
}

func TestTombstonesGoWithMigrationsAndArchives(t *testing.T) {
	from := memory.New()
	one, two := said("one", 1), said("two", 1)
	cameIn(t, from, Importer{}, one, said("three", 1))
	purge(t, from, "one")

	slot, err := seal.FileSlot("test", seal.NewKeyFile())
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := seal.Create(t.Context(), memory.New(), slot)
	if err != nil {
		t.Fatal(err)
	}
	migrate := func(b tidemark.Backend) {
		t.Helper()
		target := open.Around(store.New(b, nil))
		if _, err := copyAll(t.Context(), from, target, &archive.CopyOptions{Change: target.Refile}); err != nil {
			t.Fatal(err)
		}
	}
	migrate(sealed)
	wantCame(t, "migrated", cameIn(t, sealed, Importer{}, one), ", 0 trashed, 1 purged")

	others := memory.New() // with tombstones of its own
	cameIn(t, others, Importer{}, two)
	purge(t, others, "two")
	migrate(others)
	wantCame(t, "migrated to others", cameIn(t, others, Importer{}, one, two), ", 0 trashed, 2 purged")

	into := memory.New()
	var buf bytes.Buffer
	if _, err := archive.Write(t.Context(), &buf, from, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(t.Context(), &buf, false, RestoreOptions{Opened: open.Around(store.New(into, nil))}); err != nil {
		t.Fatal(err)
	}
	wantCame(t, "restored", cameIn(t, into, Importer{}, one), ", 0 trashed, 1 purged")
}

// failing fails with the commit of a number.
type failing struct {
	tidemark.Backend
	left int
}

func (f *failing) Commit(ctx context.Context, b tidemark.Batch) (tidemark.Receipt, error) {
	if f.left--; f.left == 0 {
		return tidemark.Receipt{}, tidemark.Invalidf("not this one")
	}
	return f.Backend.Commit(ctx, b)
}

func TestAnImportThatWasTakenBackLeavesNoTombstone(t *testing.T) {
	long := said("one", 3*importChunk)
	for n := 1; ; n++ {
		inner := memory.New()
		b := &failing{inner, n}
		i := Importer{Opened: open.Around(store.New(b, nil)), Holder: store.Self("import")}
		err := newToolImport(&i, toolOf(long)).all(t.Context(), convert.Source{}, "here")
		if b.left > 0 {
			if n < 3 {
				t.Fatal("no commit failed after the first")
			}
			return
		}
		if err != nil && !errors.Is(err, tidemark.ErrInvalid) {
			t.Fatal(err)
		}
		s := store.New(inner, nil)
		ids, err := s.Purging(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range ids { // whoever cleans up finishes it
			if err := s.Destroy(t.Context(), id, store.Self("doctor")); err != nil {
				t.Fatal(err)
			}
		}
		if got := cameIn(t, inner, Importer{}, long); !slices.Contains([]string{"new one, 0 trashed, 0 purged", "known one, 0 trashed, 0 purged", "grown one, 0 trashed, 0 purged", "changed one, 0 trashed, 0 purged"}, got) {
			t.Errorf("after commit %d failed: %s", n, got)
		}
	}
}
