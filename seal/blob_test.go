package seal_test

import (
	"errors"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/seal"
)

func unlocker(t *testing.T, text string) seal.Unlocker {
	t.Helper()
	u, err := seal.KeyFile([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func identity(t *testing.T, label string) (string, seal.NewSlot) {
	t.Helper()
	text, slot, err := seal.NewIdentity(label)
	if err != nil {
		t.Fatal(err)
	}
	return text, slot
}

func reopen(t *testing.T, r *seal.Ring, text string) (*seal.Ring, error) {
	t.Helper()
	body, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return seal.OpenRing(t.Context(), body, unlocker(t, text))
}

func TestARingOpensForWhoeverASlotLetsIn(t *testing.T) {
	ada, first := identity(t, "ada")
	bob, second := identity(t, "bob")
	r, err := seal.NewRing(first)
	if err != nil {
		t.Fatal(err)
	}
	sealed := r.Seal("head 1", []byte("text"))
	if _, err := reopen(t, r, bob); !errors.Is(err, tidemark.ErrSealed) {
		t.Errorf("without a slot: %v", err)
	}
	if r, err = r.Add(second); err != nil {
		t.Fatal(err)
	}
	open, err := reopen(t, r, bob)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := open.Open("head 1", sealed); err != nil || string(got) != "text" {
		t.Errorf("Open = %q, %v", got, err)
	}
	if _, err := open.Open("head 2", sealed); !errors.Is(err, tidemark.ErrCorrupt) {
		t.Errorf("as something else: %v", err)
	}
	for i := range sealed {
		changed := append([]byte(nil), sealed...)
		changed[i] ^= 1
		if _, err := open.Open("head 1", changed); err == nil {
			t.Errorf("byte %d changed, and it opens", i)
		}
	}
	if out, err := r.Remove(open.Header().Slots[1].ID); err != nil {
		t.Error(err)
	} else if r, err = out.NewKey(); err != nil {
		t.Error(err)
	}
	later := r.Seal("head 1", []byte("later"))
	if _, err := open.Open("head 1", later); !errors.Is(err, tidemark.ErrSealed) {
		t.Errorf("who was let out opens what is sealed later: %v", err)
	}
	in, err := reopen(t, r, ada)
	if err != nil {
		t.Fatal(err)
	}
	for _, data := range [][]byte{sealed, later} {
		if _, err := in.Open("head 1", data); err != nil {
			t.Errorf("who is let in: %v", err)
		}
	}
}

func TestABlobOpensWithItsKeyAlone(t *testing.T) {
	_, slot := identity(t, "")
	r, err := seal.NewRing(slot)
	if err != nil {
		t.Fatal(err)
	}
	key := seal.NewBlobKey()
	sealed, err := r.SealWith(key, "segment", []byte("text"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := r.OpenWith(key, "segment", sealed); err != nil || string(got) != "text" {
		t.Errorf("OpenWith = %q, %v", got, err)
	}
	for name, open := range map[string]func() ([]byte, error){
		"another key":  func() ([]byte, error) { return r.OpenWith(seal.NewBlobKey(), "segment", sealed) },
		"no key":       func() ([]byte, error) { return r.OpenWith(nil, "segment", sealed) },
		"another name": func() ([]byte, error) { return r.OpenWith(key, "about", sealed) },
		"nothing":      func() ([]byte, error) { return r.OpenWith(key, "segment", nil) },
	} {
		if _, err := open(); !errors.Is(err, tidemark.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
