package archive_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/archive"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/seal"
)

// sealedStore returns a sealed store, what is under it, and its key.
func sealedStore(t testing.TB) (*seal.Backend, *memory.Backend, seal.Unlocker) {
	t.Helper()
	contents := seal.NewKeyFile()
	slot, err := seal.FileSlot("test", contents)
	if err != nil {
		t.Fatal(err)
	}
	unlock, err := seal.KeyFile(contents)
	if err != nil {
		t.Fatal(err)
	}
	inner := memory.New()
	be, err := seal.Create(ctx, inner.Again(), slot)
	if err != nil {
		t.Fatal(err)
	}
	return be, inner, unlock
}

const canary = "canary-7f3a0c1e"

func TestTheArchiveOfASealedStoreIsSealedAndNeedsItsKey(t *testing.T) {
	src, inner, unlock := sealedStore(t)
	f := small(t, src)
	f.put(key("session", "c"), canary)
	f.lines(key("session", "c"), strings.Repeat(canary, 20))
	data, m := write(t, inner, nil)
	if !m.Sealed || !m.Keyring {
		t.Errorf("manifest %+v", m)
	}
	restored := memory.New()
	read(t, data, restored)
	same(t, inner, restored)
	for name, place := range map[string]tidemark.Backend{"the source": inner, "the target": restored} {
		for k := range place.Walk(ctx, tidemark.Key{}) {
			r, _ := place.Get(ctx, k)
			if bytes.Contains(r.Body, []byte(canary)) {
				t.Errorf("%s: %s is in the clear", name, k)
			}
		}
	}
	if bytes.Contains(unpacked(t, data), []byte(canary)) {
		t.Error("the archive holds what was sealed in the clear")
	}
	opened, err := seal.Open(ctx, restored, unlock)
	if err != nil {
		t.Fatal(err)
	}
	same(t, src, opened)
	_, _, other := sealedStore(t)
	if _, err := seal.Open(ctx, restored.Again(), other); !errors.Is(err, tidemark.ErrSealed) {
		t.Errorf("Open with another key = %v, want ErrSealed", err)
	}
}

// unpacked returns everything that an archive says, out of its compression: a
// store of the same content, as text.
func unpacked(t testing.TB, data []byte) []byte {
	t.Helper()
	be := memory.New()
	read(t, data, be)
	var b bytes.Buffer
	for k := range be.Walk(ctx, tidemark.Key{}) {
		r, err := be.Get(ctx, k)
		if err != nil {
			t.Fatal(err)
		}
		b.WriteString(k.String() + r.Group + r.State)
		b.Write(r.Body)
		for l, err := range be.Lines(ctx, k) {
			if err != nil {
				t.Fatal(err)
			}
			b.WriteString(l.Key)
			b.Write(l.Body)
		}
	}
	return b.Bytes()
}

func TestCopyingSealsAndUnseals(t *testing.T) {
	plain, back := memory.New(), memory.New()
	small(t, plain)
	sealed, inner, _ := sealedStore(t)
	for range 2 {
		if _, err := archive.Copy(ctx, plain, sealed, nil); err != nil {
			t.Fatalf("Copy = %v", err)
		}
		if _, err := archive.Copy(ctx, sealed, back, nil); err != nil {
			t.Fatalf("Copy = %v", err)
		}
	}
	same(t, plain, back)
	if err := archive.Same(ctx, plain, inner, nil); !errors.Is(err, tidemark.ErrConflict) {
		t.Errorf("Same = %v: what is under the seal is not sealed", err)
	}
}
