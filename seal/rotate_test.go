package seal_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/seal"
)

func same(t testing.TB, got, want any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("mismatch (-want +got):\n%s", d)
	}
}

// mortal is a Backend whose process dies at its n-th commit: before it, or
// after it took effect and before anybody heard of it.
type mortal struct {
	*memory.Backend
	left  int
	after bool
}

func (m *mortal) Commit(ctx context.Context, b tidemark.Batch) (tidemark.Receipt, error) {
	if m.left--; m.left > 0 {
		return m.Backend.Commit(ctx, b)
	}
	if m.left == 0 && m.after {
		m.Backend.Commit(ctx, b)
	}
	return tidemark.Receipt{}, tidemark.Storagef("no space left")
}

// keyPlace is where a caller keeps the key file.
type keyPlace struct{ contents []byte }

func (p *keyPlace) opens(t testing.TB) seal.Unlocker {
	return must[seal.Unlocker](t)(seal.KeyFile(p.contents))
}

// rotation returns one that puts a fresh key file into the place of the old.
func (p *keyPlace) rotation(t testing.TB) seal.Rotation {
	next := seal.NewKeyFile()
	return seal.Rotation{New: must[seal.NewSlot](t)(seal.FileSlot("new", next)), Keep: func(context.Context) error {
		p.contents = next
		return nil
	}}
}

// manySessions is more than are wrapped anew in one commit.
const manySessions = 450

func sessionID(i int) string { return fmt.Sprintf("%08x-0000-4000-8000-000000000000", i) }

func TestARotationThatIsKilledAnywhereOpensAndCanBeFinished(t *testing.T) {
	first := seal.NewKeyFile()
	origin := memory.New()
	b := must[*seal.Backend](t)(seal.Create(ctx, origin.Again(), must[seal.NewSlot](t)(seal.FileSlot("old", first)),
		must[seal.NewSlot](t)(seal.PassphraseSlot("", []byte("correct horse"), cheap))))
	talk(t, b)
	for i := range manySessions {
		keep(t, b, says(key("session", sessionID(i)), 1, "hello"))
	}
	want := readAll(t, b, logs...)
	start := contentOf(t, origin)
	sound := func(inner *memory.Backend, p *keyPlace) *seal.Backend {
		t.Helper()
		b := reopened(t, inner, p.opens(t))
		same(t, readAll(t, b, logs...), want)
		for i := range manySessions {
			log := key("session", sessionID(i))
			same(t, readAll(t, b, log)[log.String()+"@1"], "user  hello")
		}
		same(t, readAll(t, reopened(t, inner, seal.Passphrase([]byte("correct horse"))), logs...), want)
		return b
	}
	for _, after := range []bool{false, true} {
		finished := false
		for n := 1; !finished; n++ {
			inner, place := start.store(t), &keyPlace{first}
			dying := must[*seal.Backend](t)(seal.Open(ctx, &mortal{Backend: inner.Again(), left: n, after: after}, place.opens(t)))
			err := dying.Rotate(ctx, place.rotation(t))
			if finished = err == nil; !finished && !errors.Is(err, tidemark.ErrStorage) {
				t.Fatalf("Rotate = %v, want ErrStorage", err)
			}
			if finished && n < 6 {
				t.Errorf("a rotation of %d commits", n-1)
			}
			b := sound(inner, place)
			if err := b.Rotate(ctx, place.rotation(t)); err != nil {
				t.Fatalf("killed at commit %d (after: %v), then Rotate = %v", n, after, err)
			}
			b = sound(inner, place)
			h := must[seal.Header](t)(b.Header(ctx))
			if h.Rotating || len(h.Slots) != 2 {
				t.Errorf("after a rotation that was killed at commit %d: %+v", n, h)
			}
			if _, err := seal.Open(ctx, inner.Again(), (&keyPlace{first}).opens(t)); !errors.Is(err, tidemark.ErrSealed) {
				t.Errorf("Open with the old key = %v, want ErrSealed", err)
			}
		}
	}
}

func TestARotationRewritesNoBody(t *testing.T) {
	place := &keyPlace{seal.NewKeyFile()}
	inner := memory.New()
	b := must[*seal.Backend](t)(seal.Create(ctx, inner.Again(), must[seal.NewSlot](t)(seal.FileSlot("", place.contents))))
	talk(t, b)
	before := contentOf(t, inner)
	done := 0
	r := place.rotation(t)
	r.Progress = func(n int) { done = max(done, n) }
	if err := b.Rotate(ctx, r); err != nil {
		t.Fatal(err)
	}
	same(t, done, 3)
	after := contentOf(t, inner)
	same(t, after.logs, before.logs)
	for _, was := range before.records {
		is := after.record(t, was.Key)
		if own := was.Kind == "keyring" || was.Kind == "datakey"; own == cmp.Equal(was, *is) {
			t.Errorf("%s: changed: %v", was.Key, !own)
		}
	}
	keep(t, b, says(logOne, 5, "after"))
	keep(t, reopened(t, inner, place.opens(t)), says(logOne, 6, "and again"))
}

func TestAFailingCallerStopsARotationBeforeTheOldKeyGoes(t *testing.T) {
	old := seal.NewKeyFile()
	inner := memory.New()
	b := must[*seal.Backend](t)(seal.Create(ctx, inner.Again(), must[seal.NewSlot](t)(seal.FileSlot("", old))))
	talk(t, b)
	place := &keyPlace{old}
	r := place.rotation(t)
	full := errors.New("the disk of the key file is full")
	r.Keep = func(context.Context) error { return full }
	if err := b.Rotate(ctx, r); !errors.Is(err, full) {
		t.Fatalf("Rotate = %v", err)
	}
	if h := must[seal.Header](t)(seal.Inspect(ctx, inner)); !h.Rotating || len(h.Slots) != 2 {
		t.Errorf("header %+v", h)
	}
	b = reopened(t, inner, place.opens(t))
	if err := b.RemoveSlot(ctx, must[seal.Header](t)(b.Header(ctx)).Slots[1].ID); !errors.Is(err, tidemark.ErrInvalid) {
		t.Errorf("removing a slot of a rotation = %v, want ErrInvalid", err)
	}
	if err := b.Rotate(ctx, place.rotation(t)); err != nil {
		t.Fatal(err)
	}
	readAll(t, reopened(t, inner, place.opens(t)), logs...)
}

func TestARotationWithoutANewSlotChangesTheStoreKeyAlone(t *testing.T) {
	b, inner, opens := made(t)
	talk(t, b)
	want := readAll(t, b, logs...)
	before := contentOf(t, inner)
	if err := b.Rotate(ctx, seal.Rotation{}); err != nil {
		t.Fatal(err)
	}
	same(t, readAll(t, reopened(t, inner, opens), logs...), want)
	// The data keys of before do not open any more, nor does a mixture.
	mixed := contentOf(t, inner)
	*mixed.record(t, key("datakey", one)) = *before.record(t, key("datakey", one))
	got := readAll(t, reopened(t, mixed.store(t), opens), logs...)
	if s := got[logOne.String()]; !strings.Contains(s, "which the keyring does not have") {
		t.Errorf("a data key of an older store key: %q", s)
	}
}

func TestADamagedDataKeyKeepsTheOldStoreKey(t *testing.T) {
	sealed, inner, opens := made(t)
	talk(t, sealed)
	whole := readAll(t, sealed, logs...)
	broken := contentOf(t, inner)
	r := broken.record(t, key("datakey", one))
	r.Body[len(r.Body)-1] ^= 1
	place := broken.store(t)
	if err := reopened(t, place, opens).Rotate(ctx, seal.Rotation{}); !errors.Is(err, tidemark.ErrCorrupt) || !strings.Contains(err.Error(), one) {
		t.Fatalf("Rotate = %v, want ErrCorrupt that names the session", err)
	}
	// Whoever repairs it can read it.
	repaired := contentOf(t, place)
	r = repaired.record(t, key("datakey", one))
	r.Body[len(r.Body)-1] ^= 1
	place = repaired.store(t)
	b := reopened(t, place, opens)
	same(t, readAll(t, b, logs...), whole)
	if err := b.Rotate(ctx, seal.Rotation{}); err != nil {
		t.Fatal(err)
	}
	same(t, readAll(t, reopened(t, place, opens), logs...), whole)
}

func TestARotationReplacesTheSlotThatIsNamed(t *testing.T) {
	inner := memory.New()
	lost := must[seal.NewSlot](t)(seal.FileSlot("lost", seal.NewKeyFile()))
	text, recovery, err := seal.NewRecovery()
	if err != nil {
		t.Fatal(err)
	}
	talk(t, must[*seal.Backend](t)(seal.Create(ctx, inner.Again(), lost, recovery)))
	paper, place := &keyPlace{[]byte(text)}, &keyPlace{}
	b := reopened(t, inner, paper.opens(t))
	r := place.rotation(t)
	r.Replace = "nobody"
	if err := b.Rotate(ctx, r); !errors.Is(err, tidemark.ErrNotFound) {
		t.Errorf("replacing no slot = %v, want ErrNotFound", err)
	}
	r.Replace = lost.ID()
	if err := b.Rotate(ctx, r); err != nil {
		t.Fatal(err)
	}
	h := must[seal.Header](t)(b.Header(ctx))
	if len(h.Slots) != 2 || h.Slots[0].Label != "recovery" || !h.Slots[0].Opened || h.Slots[1].ID != r.New.ID() || h.Rotating {
		t.Errorf("after the rotation: %+v", h)
	}
	for _, p := range []*keyPlace{paper, place} {
		readAll(t, reopened(t, inner, p.opens(t)), logs...)
	}
}

func TestOfTwoRotationsOneWins(t *testing.T) {
	place := &keyPlace{seal.NewKeyFile()}
	inner := memory.New()
	b := must[*seal.Backend](t)(seal.Create(ctx, inner.Again(), must[seal.NewSlot](t)(seal.FileSlot("", place.contents))))
	talk(t, b)
	other := reopened(t, inner, place.opens(t))
	late := (&keyPlace{}).rotation(t)
	late.Keep = func(context.Context) error { return other.Rotate(ctx, place.rotation(t)) }
	if err := b.Rotate(ctx, late); !errors.Is(err, tidemark.ErrSealed) {
		t.Errorf("the rotation that lost = %v, want ErrSealed", err)
	}
	readAll(t, reopened(t, inner, place.opens(t)), logs...)
	if h := must[seal.Header](t)(seal.Inspect(ctx, inner)); h.Rotating || len(h.Slots) != 1 {
		t.Errorf("after both: %+v", h)
	}
}

// meddled runs something of another process before every commit.
type meddled struct {
	*memory.Backend
	before func()
}

func (m *meddled) Commit(ctx context.Context, b tidemark.Batch) (tidemark.Receipt, error) {
	if f := m.before; f != nil {
		m.before = nil
		f()
		m.before = f
	}
	return m.Backend.Commit(ctx, b)
}

// TestAnotherProcessWorksOnDuringARotation lets a second handle append, make
// sessions and purge one before every commit of a rotation.
func TestAnotherProcessWorksOnDuringARotation(t *testing.T) {
	place := &keyPlace{seal.NewKeyFile()}
	inner := memory.New()
	b := must[*seal.Backend](t)(seal.Create(ctx, inner.Again(), must[seal.NewSlot](t)(seal.FileSlot("", place.contents))))
	talk(t, b)
	for i := range 20 {
		keep(t, b, says(key("session", sessionID(1000+i)), 1, "to be purged"))
		keep(t, b, put(key("session", sessionID(1000+i)), 1, "{}"))
	}
	other := reopened(t, inner, place.opens(t))
	seq, made := int64(5), 0
	first := &meddled{Backend: inner.Again(), before: func() {
		keep(t, other, says(logOne, seq, "meanwhile"))
		seq++
		keep(t, other, says(key("session", sessionID(made)), 1, "new"))
		if gone := key("session", sessionID(1000+made)); made < 20 {
			keep(t, other, tidemark.Batch{Deletes: []tidemark.Precondition{{Key: gone, Version: 1}}, Drops: []tidemark.Key{gone}})
		}
		made++
	}}
	rotating := must[*seal.Backend](t)(seal.Open(ctx, first, place.opens(t)))
	if err := rotating.Rotate(ctx, place.rotation(t)); err != nil {
		t.Fatal(err)
	}
	if made < 3 {
		t.Fatalf("%d commits", made)
	}
	for _, b := range []*seal.Backend{reopened(t, inner, place.opens(t)), rotating, other} {
		for item, body := range readAll(t, b, logOne, key("session", sessionID(0)), key("session", sessionID(made-1))) {
			if strings.HasPrefix(body, "!") {
				t.Errorf("%s reads as %q", item, body)
			}
		}
	}
}

// TestAHandleThatSleptThroughARotation still serves what it has open, and says
// what to do where it would need the new key.
func TestAHandleThatSleptThroughARotation(t *testing.T) {
	place := &keyPlace{seal.NewKeyFile()}
	inner := memory.New()
	b := must[*seal.Backend](t)(seal.Create(ctx, inner.Again(), must[seal.NewSlot](t)(seal.FileSlot("", place.contents))))
	talk(t, b)
	asleep := reopened(t, inner, place.opens(t))
	readAll(t, asleep, logOne)
	keep(t, b, says(key("session", sessionID(1)), 1, "never seen by the other"))
	if err := b.Rotate(ctx, place.rotation(t)); err != nil {
		t.Fatal(err)
	}
	keep(t, asleep, says(logOne, 5, "goes on"))
	keep(t, asleep, put(logOne, 2, `{"title":"new"}`))
	for what, err := range map[string]error{
		"a session never seen": lastError(asleep, key("session", sessionID(1))),
		"a new session":        commit(asleep, says(key("session", sessionID(2)), 1, "x")),
	} {
		if !errors.Is(err, tidemark.ErrSealed) || !strings.Contains(err.Error(), "open it again") {
			t.Errorf("%s = %v, want ErrSealed that says what to do", what, err)
		}
	}
	got := readAll(t, reopened(t, inner, place.opens(t)), logOne)
	if got[logOne.String()+"@5"] != "user  goes on" || got[logOne.String()] != `{"title":"new"}` {
		t.Errorf("what it wrote reads as %v", got)
	}
}

func lastError(b tidemark.Backend, log tidemark.Key) (last error) {
	for _, err := range b.Lines(ctx, log) {
		last = err
	}
	return last
}

// TestWritersAndRotationsTogether is for the race detector: whatever happens
// at the same time, what was acknowledged is there.
func TestWritersAndRotationsTogether(t *testing.T) {
	b, inner, opens := made(t)
	const writers, rounds = 4, 30
	var wg sync.WaitGroup
	for w := range writers {
		handle := b
		if w%2 == 1 {
			handle = reopened(t, inner, opens)
		}
		wg.Go(func() {
			for i := range int64(rounds) {
				if err := commit(handle, says(key("session", sessionID(w)), i+1, "x")); err != nil {
					t.Errorf("append: %v", err)
				}
				if err := commit(handle, says(key("session", sessionID(100+w*rounds+int(i))), 1, "x")); err != nil {
					t.Errorf("create: %v", err)
				}
			}
		})
	}
	rotating := reopened(t, inner, opens)
	for range 5 {
		if err := rotating.Rotate(ctx, seal.Rotation{}); err != nil {
			t.Errorf("Rotate: %v", err)
		}
	}
	wg.Wait()
	again := reopened(t, inner, opens)
	for i := range 100 + writers*rounds {
		log := key("session", sessionID(i))
		if i < writers && len(readAll(t, again, log)) != rounds {
			t.Errorf("writer %d: %d lines, want %d", i, len(readAll(t, again, log)), rounds)
		}
		if err := lastError(again, log); err != nil {
			t.Error(err)
		}
	}
}
