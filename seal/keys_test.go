package seal_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"filippo.io/age"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/seal"
)

func TestEverySlotOpensTheStoreAndNothingElseDoes(t *testing.T) {
	inner := memory.New()
	file, fileOpens := fileKey(t)
	text, recovery, err := seal.NewRecovery()
	if err != nil {
		t.Fatal(err)
	}
	hybrid := must[*age.HybridIdentity](t)(age.GenerateHybridIdentity())
	b := must[*seal.Backend](t)(seal.Create(ctx, inner.Again(), file, recovery,
		must[seal.NewSlot](t)(seal.PassphraseSlot("mine", []byte("correct horse"), cheap))))
	talk(t, b)
	if err := b.AddSlot(ctx, must[seal.NewSlot](t)(seal.AgeSlot("a colleague", hybrid.Recipient().String()))); err != nil {
		t.Fatal(err)
	}
	want := readAll(t, b, logs...)
	keyFile := func(text string) seal.Unlocker { return must[seal.Unlocker](t)(seal.KeyFile([]byte(text))) }
	wrong, _ := must[*age.X25519Identity](t)(age.GenerateX25519Identity()), 0
	_, otherFile := fileKey(t)
	for what, c := range map[string]struct {
		keys  []seal.Unlocker
		label string // of the slot that opens, "": none
	}{
		"key file":        {[]seal.Unlocker{fileOpens}, "test"},
		"passphrase":      {[]seal.Unlocker{seal.Passphrase([]byte("correct horse"))}, "mine"},
		"recovery key":    {[]seal.Unlocker{keyFile("# from paper\r\n" + text + "\r\n")}, "recovery"},
		"hybrid identity": {[]seal.Unlocker{keyFile(hybrid.String())}, "a colleague"},
		"several":         {[]seal.Unlocker{otherFile, seal.Passphrase([]byte("no")), keyFile(wrong.String() + "\n" + text)}, "recovery"},
		"nothing":         {nil, ""},
		"the zero value":  {[]seal.Unlocker{{}}, ""},
		"all wrong":       {[]seal.Unlocker{otherFile, seal.Passphrase([]byte("no")), keyFile(wrong.String())}, ""},
	} {
		b, err := seal.Open(ctx, inner.Again(), c.keys...)
		if c.label == "" {
			if !errors.Is(err, tidemark.ErrSealed) {
				t.Errorf("%s: Open = %v, want ErrSealed", what, err)
			}
			for _, name := range []string{"key file “test”", "passphrase “mine”", "recovery key", "age identity “a colleague”"} {
				if err != nil && !strings.Contains(err.Error(), name) {
					t.Errorf("%s: %q does not say that it opens with a %s", what, err, name)
				}
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: Open = %v", what, err)
			continue
		}
		same(t, readAll(t, b, logs...), want)
		h := must[seal.Header](t)(b.Header(ctx))
		for _, s := range h.Slots {
			if s.Opened != (s.Label == c.label) {
				t.Errorf("%s: slot %q opened: %v", what, s.Label, s.Opened)
			}
		}
	}
}

func TestASlotThatIsRemovedOpensNothing(t *testing.T) {
	b, inner, opens := made(t)
	talk(t, b)
	slot, second := fileKey(t)
	if err := b.AddSlot(ctx, slot); err != nil {
		t.Fatal(err)
	}
	if err := b.AddSlot(ctx, slot); !errors.Is(err, tidemark.ErrExists) {
		t.Errorf("the same key twice = %v, want ErrExists", err)
	}
	h := must[seal.Header](t)(b.Header(ctx))
	for id, want := range map[string]error{h.Slots[0].ID: tidemark.ErrInvalid, "none": tidemark.ErrNotFound} {
		if err := b.RemoveSlot(ctx, id); !errors.Is(err, want) {
			t.Errorf("RemoveSlot(%s) = %v, want %v", id, err, want)
		}
	}
	other := reopened(t, inner, second)
	if err := other.RemoveSlot(ctx, h.Slots[0].ID); err != nil {
		t.Fatal(err)
	}
	if err := other.RemoveSlot(ctx, h.Slots[1].ID); !errors.Is(err, tidemark.ErrInvalid) {
		t.Errorf("removing the last slot = %v, want ErrInvalid", err)
	}
	if _, err := seal.Open(ctx, inner.Again(), opens); !errors.Is(err, tidemark.ErrSealed) {
		t.Errorf("Open with the removed slot = %v, want ErrSealed", err)
	}
	// The handle whose slot is gone reads and writes what it has open, and
	// says what is the matter where it would need the keyring.
	keep(t, b, says(logOne, 5, "still here"))
	if err := commit(b, says(key("session", "44444444-4444-4444-8444-444444444444"), 1, "new")); err == nil {
		readAll(t, other, key("session", "44444444-4444-4444-8444-444444444444"))
	} else if !errors.Is(err, tidemark.ErrSealed) {
		t.Errorf("a new session after the slot is gone = %v, want ErrSealed", err)
	}
}

func TestWhatCannotBeASlotIsRefused(t *testing.T) {
	x := must[*age.X25519Identity](t)(age.GenerateX25519Identity())
	pq := must[*age.HybridIdentity](t)(age.GenerateHybridIdentity())
	for what, err := range map[string]error{
		"an empty passphrase":      second(seal.PassphraseSlot("", nil, nil)),
		"too much memory":          second(seal.PassphraseSlot("", []byte("correct horse"), &seal.Cost{Time: 1, MemoryKiB: 2 << 20, Threads: 1})),
		"no time":                  second(seal.PassphraseSlot("", []byte("correct horse"), &seal.Cost{MemoryKiB: 64, Threads: 1})),
		"a label with a newline":   second(seal.PassphraseSlot("a\nb", []byte("correct horse"), cheap)),
		"no recipient":             second(seal.AgeSlot("")),
		"a secret as a recipient":  second(seal.AgeSlot("", x.String())),
		"hybrid beside X25519":     second(seal.AgeSlot("", x.Recipient().String(), pq.Recipient().String())),
		"identities as a key file": second(seal.FileSlot("", []byte(x.String()))),
		"no slot":                  second(seal.Create(ctx, memory.New())),
		"the zero slot":            second(seal.Create(ctx, memory.New(), seal.NewSlot{})),
	} {
		if !errors.Is(err, tidemark.ErrInvalid) {
			t.Errorf("%s = %v, want ErrInvalid", what, err)
		}
		if err != nil && strings.Contains(err.Error(), "AGE-SECRET") {
			t.Errorf("%s: the error tells the secret", what)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestAKeyFileWithATypingErrorIsToldFromAWrongOne(t *testing.T) {
	good := seal.NewKeyFile()
	at := bytes.Index(good, []byte("TIDEMARK-KEY-1 ")) + 15
	for i := at; i < len(good)-1; i++ {
		bad := bytes.Clone(good)
		bad[i] ^= 1
		_, err := seal.KeyFile(bad)
		if !errors.Is(err, tidemark.ErrSealed) || !strings.Contains(err.Error(), "key file") {
			t.Errorf("byte %d changed: %v, want ErrSealed", i, err)
		}
	}
	for text, want := range map[string]error{
		"":                          tidemark.ErrSealed,
		"# nothing\n":               tidemark.ErrSealed,
		"hello":                     tidemark.ErrSealed,
		"TIDEMARK-KEY-2 abc":        tidemark.ErrUnsupported,
		"TIDEMARK-KEY-1 abc":        tidemark.ErrSealed,
		"AGE-SECRET-KEY-1ABC":       tidemark.ErrSealed,
		string(good) + string(good): tidemark.ErrSealed,
		strings.Repeat("#", 2<<20):  tidemark.ErrSealed,
	} {
		if _, err := seal.KeyFile([]byte(text)); !errors.Is(err, want) {
			t.Errorf("KeyFile(%.30q) = %v, want %v", text, err, want)
		}
	}
}

func TestOnlyAnEmptyStoreIsSealed(t *testing.T) {
	slot, opens := fileKey(t)
	plain := memory.New()
	if is, err := seal.IsSealed(ctx, plain); is || err != nil {
		t.Errorf("IsSealed of an empty store = %v, %v", is, err)
	}
	if _, err := seal.Open(ctx, plain, opens); !errors.Is(err, tidemark.ErrNotFound) {
		t.Errorf("Open of a plain store = %v, want ErrNotFound", err)
	}
	keep(t, plain, put(logOne, 1, `{}`))
	if _, err := seal.Create(ctx, plain, slot); !errors.Is(err, tidemark.ErrInvalid) {
		t.Errorf("Create over plain content = %v, want ErrInvalid", err)
	}
	b, inner, _ := made(t)
	if _, err := seal.Create(ctx, inner, slot); !errors.Is(err, tidemark.ErrExists) {
		t.Errorf("Create over a sealed store = %v, want ErrExists", err)
	}
	talk(t, b)
	if is, err := seal.IsSealed(ctx, inner); !is || err != nil {
		t.Errorf("IsSealed = %v, %v", is, err)
	}
	keep(t, inner, tidemark.Batch{Deletes: []tidemark.Precondition{{Key: key("keyring", "keyring"), Version: 1}}})
	if _, err := seal.IsSealed(ctx, inner); !errors.Is(err, tidemark.ErrCorrupt) {
		t.Errorf("IsSealed without a keyring = %v, want ErrCorrupt", err)
	}
	for _, err := range []error{second(seal.Create(ctx, inner, slot)), second(seal.Open(ctx, inner, opens))} {
		if !errors.Is(err, tidemark.ErrCorrupt) {
			t.Errorf("without a keyring: %v, want ErrCorrupt", err)
		}
	}
}

func TestAHostileHeaderCostsNothing(t *testing.T) {
	inner := memory.New()
	b := must[*seal.Backend](t)(seal.Create(ctx, inner.Again(), must[seal.NewSlot](t)(seal.PassphraseSlot("", []byte("correct horse"), cheap))))
	talk(t, b)
	for what, c := range map[string]struct {
		from, to string
		want     error
	}{
		"100 GB for a passphrase": {`"memory_kib":64`, `"memory_kib":100000000`, tidemark.ErrCorrupt},
		"a million passes":        {`"time":1`, `"time":1000000`, tidemark.ErrCorrupt},
		"a newer format":          {`"format":2`, `"format":7`, tidemark.ErrUnsupported},
		"an older format":         {`"format":2`, `"format":0`, tidemark.ErrCorrupt},
		"an unknown slot":         {`"type":"passphrase"`, `"type":"telepathy"`, tidemark.ErrCorrupt},
		"an unknown field":        {`"slots"`, `"extra":1,"slots"`, tidemark.ErrCorrupt},
		"another label":           {`"created_at"`, `"label":"x","created_at"`, tidemark.ErrCorrupt},
		"an index switched off":   {`"slots"`, `"no_index":true,"slots"`, tidemark.ErrCorrupt},
		"a cut header":            {`"mac"`, `"m`, tidemark.ErrCorrupt},
	} {
		changed := contentOf(t, inner)
		r := changed.record(t, key("keyring", "keyring"))
		was := string(r.Body)
		if r.Body = []byte(strings.Replace(was, c.from, c.to, 1)); string(r.Body) == was {
			t.Fatalf("%s: the header has no %s", what, c.from)
		}
		_, err := seal.Open(ctx, changed.store(t), seal.Passphrase([]byte("correct horse")))
		if !errors.Is(err, c.want) {
			t.Errorf("%s: Open = %v, want %v", what, err, c.want)
		}
		if c.want == tidemark.ErrUnsupported && !strings.Contains(err.Error(), "7") {
			t.Errorf("%s: %q does not name the version", what, err)
		}
	}
}
