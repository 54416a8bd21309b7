package seal

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"github.com/tidemark-sessions/tidemark"
)

func FuzzHeader(f *testing.F) {
	unlock := newSecret()
	keys := (&bundle{names: newSecret(), words: newSecret()}).withNewKey()
	h := &header{Format: Format, Store: hexOf(keys.store[:])}
	file, err := FileSlot("file", formatKeyFile(unlock))
	if err != nil {
		f.Fatal(err)
	}
	pass, err := PassphraseSlot("", []byte("correct horse"), &Cost{Time: 1, MemoryKiB: 64, Threads: 1})
	if err != nil {
		f.Fatal(err)
	}
	_, recovery, err := NewRecovery()
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range []NewSlot{file, pass, recovery} {
		if err := h.add(s, keys); err != nil {
			f.Fatal(err)
		}
	}
	body, err := encodeRing(h, keys)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(body)
	f.Add([]byte(`{"keyring":{"format":2},"mac":""}`))
	f.Add([]byte(`{"keyring":null}`))
	f.Add([]byte(`[]`))
	u := Unlocker{key: &unlock}
	f.Fuzz(func(t *testing.T, data []byte) {
		h, e, id, err := parseRing(data)
		if err != nil {
			if !errors.Is(err, tidemark.ErrCorrupt) && !errors.Is(err, tidemark.ErrUnsupported) {
				t.Fatalf("parseRing = %v", err)
			}
			return
		}
		for i := range h.Slots {
			if a := h.Slots[i].Argon; h.Slots[i].Type == TypePassphrase && a.check() != nil {
				t.Fatalf("a slot asks for %+v", a)
			}
			_, keys, err := u.try(&h.Slots[i], id)
			if err != nil || keys == nil {
				continue
			}
			// Whatever opens is what was sealed, or is noticed.
			if _, err := newRing(tidemark.Record{}, h, e, keys, ""); err == nil && !bytes.Contains(body, e.Keyring) {
				t.Fatalf("another header is taken for the store's: %s", data)
			}
		}
		if _, err := json.Marshal(h.public("")); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzKeyFile(f *testing.F) {
	f.Add(NewKeyFile())
	text, _, err := NewRecovery()
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte("# a comment\n\n" + text))
	f.Add([]byte("TIDEMARK-KEY-9 x"))
	f.Fuzz(func(t *testing.T, data []byte) {
		u, err := KeyFile(data)
		switch {
		case err == nil && u.key == nil && u.identities == nil:
			t.Fatal("a key file without a key")
		case err != nil && !errors.Is(err, tidemark.ErrSealed) && !errors.Is(err, tidemark.ErrUnsupported):
			t.Fatalf("KeyFile = %v", err)
		case u.key != nil:
			if again, err := KeyFile(formatKeyFile(*u.key)); err != nil || *again.key != *u.key {
				t.Fatalf("written again it is another key: %v", err)
			}
		}
	})
}

func FuzzBody(f *testing.F) {
	k := newDataKey(storeOwner, newSecret())
	key := tidemark.Key{Kind: "session", ID: "a"}
	var id storeID
	record := sealRecord(k, id, newNonce(), key, []byte("hello"))
	line := sealLine(k, id, true, newNonce(), key, tidemark.Line{Seq: 1, Key: "k", Body: []byte("hello")}, tag{})
	packed := sealLine(k, id, true, newNonce(), key, tidemark.Line{Seq: 1, Key: "k", Body: bytes.Repeat([]byte("hello "), 500)}, tag{})
	keyRecord := k.wrap(&ring{bundle: (&bundle{}).withNewKey()})
	f.Add(record, []byte{}, "")
	f.Add(line.Body, line.Chain, line.Key)
	f.Add(packed.Body, packed.Chain, packed.Key)
	f.Add(keyRecord, make([]byte, tagBytes), "")
	f.Add([]byte{formBody}, []byte{}, "")
	f.Fuzz(func(t *testing.T, body, chain []byte, lineKey string) {
		if plain, err := openRecord(k, id, key, body); err == nil && (string(plain) != "hello" || !bytes.Equal(body, record)) {
			t.Fatalf("a record opens as %q", plain)
		}
		l, err := openLine(k, id, key, tidemark.Line{Seq: 1, Key: lineKey, Chain: chain, Body: body})
		if err == nil && !(string(l.Body) == "hello" && bytes.Equal(body, line.Body) || bytes.Equal(body, packed.Body)) {
			t.Fatalf("a line opens as %+v", l)
		}
		splitDataKey(body)
		if b, err := decodeBundle(body); err == nil && !bytes.Equal(b.encode(), body) {
			t.Fatal("a bundle that is not what it was read from")
		}
	})
}
