package seal

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
)

var update = flag.Bool("update", false, "write testdata/vectors.json anew")

const (
	vectorsFile = "testdata/vectors.json"
	formatPage  = "../docs/formats/seal.md"
)

// counted returns n bytes that count up from first, so that every key of the
// vectors can be told from the others by eye.
func counted(first byte, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = first + byte(i)
	}
	return b
}

func hexText(b []byte) string { return hex.EncodeToString(b) }

// storedFrame returns a body in a frame of Zstandard that compresses nothing: no
// version of an encoder changes it.
func storedFrame(body []byte) []byte {
	n := len(body)
	return append([]byte{0x28, 0xb5, 0x2f, 0xfd, 0x20, byte(n), 1 | byte(n<<3), byte(n >> 5), 0}, body...)
}

// vectors makes the test vectors from fixed keys and nonces.
func vectors() map[string]string {
	at := nonce(counted(0xa0, nonceBytes))
	unlock, store, data := secret(counted(0x00, 32)), secret(counted(0x20, 32)), secret(counted(0x40, 32))
	id := storeID(counted(0xf0, 16))
	keys := &bundle{store: id, current: keyID{1, 2, 3, 4}, keys: []storeKey{{keyID{1, 2, 3, 4}, store}},
		names: secret(counted(0x60, 32)), words: secret(counted(0x80, 32))}
	s := slot{ID: printOf(&unlock), Type: TypeFile}
	a := argon{Time: 1, MemoryKiB: 64, Threads: 1, Salt: counted(0xc0, saltBytes)}
	pass := a.key([]byte("correct horse"))

	k := newDataKey(vectorLog.ID, data)
	bound := dataKeyBound(id, k.owner, keys.current, k.print)
	wrapped := wrapWith(store.derive("data keys"), at, data[:], bound)
	l1 := sealLine(k, id, true, at, vectorLog, vectorLines[0], tag{})
	l2 := sealLine(k, id, true, at, vectorLog, vectorLines[1], tagOf(l1.Body))
	l3 := sealLineAs(formPacked, storedFrame(vectorLines[0].Body), k, id, at, vectorLog, vectorLines[0], tag{})
	derived := store.derive("keyring")
	return map[string]string{
		"unlock key":                 hexText(unlock[:]),
		"key file line":              strings.Split(string(formatKeyFile(unlock)), "\n")[1],
		"slot id":                    s.ID,
		"passphrase key":             hexText(pass[:]),
		"store id":                   hexText(id[:]),
		"store key":                  hexText(store[:]),
		"derived for keyring":        hexText(derived[:]),
		"bundle":                     hexText(keys.encode()),
		"bound to bundle":            hexText(s.bound("bundle", id)),
		"wrapped bundle":             hexText(wrapWith(unlock.derive("slot"), at, keys.encode(), s.bound("bundle", id))),
		"kept key":                   hexText(wrapWith(store.derive("kept"), at, unlock[:], s.bound("kept", id))),
		"keyring MAC of {}":          hexText(ringMAC([]byte("{}"), keys)),
		"data key":                   hexText(data[:]),
		"data key record":            hexText(joinDataKey(keys.current, k.print, wrapped)),
		"bound to record":            hexText(recordBound(nil, id, formBody, vectorLog)),
		"sealed record":              hexText(sealRecord(k, id, at, vectorLog, []byte(vectorRecord))),
		"sealed record without body": hexText(sealRecord(k, id, at, vectorLog, nil)),
		"key of line 2":              l2.Key,
		"bound to line 2":            hexText(lineBound(nil, id, formBody, vectorLog, &l2)),
		"sealed line 1":              hexText(l1.Body),
		"sealed line 1, packed":      hexText(l3.Body),
		"chain of line 2":            hexText(l2.Chain),
		"sealed line 2":              hexText(l2.Body),
		"name title, tides":          func() string { m := keys.names.mac("title", "tides"); return hexText(m[:12]) }(),
	}
}

const vectorRecord = `{"title":"Tides"}`

var (
	vectorLog   = tidemark.Key{Kind: "session", ID: "7f3a0c1e-5b2d-4c3e-9f10-0123456789ab"}
	vectorTime  = time.Date(2026, 3, 14, 9, 26, 53, 589793000, time.UTC)
	vectorLines = []tidemark.Line{
		{Seq: 1, Kind: "user", At: vectorTime, Position: tidemark.Position{Depth: 1, Nodes: 1}, Body: []byte(`{"blocks":[]}`)},
		{Seq: 2, Kind: "assistant", Key: "msg-2", At: vectorTime, Position: tidemark.Position{Parent: 1, Depth: 2, Nodes: 1}, Body: []byte(`{"blocks":[]}`)},
	}
)

func TestTheVectorsAreWhatTheProgramMakes(t *testing.T) {
	made, err := json.MarshalIndent(vectors(), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	made = append(bytes.ReplaceAll(bytes.ReplaceAll(made, []byte(`\u003c`), []byte("<")), []byte(`\u003e`), []byte(">")), '\n')
	if *update {
		if err := os.WriteFile(vectorsFile, made, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile(vectorsFile)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(kept), string(made)); d != "" {
		t.Errorf("the vectors (-kept +made):\n%s", d)
	}
	page, err := os.ReadFile(formatPage)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(page, append([]byte("```json vectors\n"), kept...)) {
		t.Errorf("%s does not show the vectors of %s", formatPage, vectorsFile)
	}
}

// TestTheVectorsOpen reads the kept vectors the other way round.
func TestTheVectorsOpen(t *testing.T) {
	kept, err := os.ReadFile(vectorsFile)
	if err != nil {
		t.Fatal(err)
	}
	var v map[string]string
	if err := json.Unmarshal(kept, &v); err != nil {
		t.Fatal(err)
	}
	raw := func(name string) []byte {
		b, err := hex.DecodeString(v[name])
		if err != nil || len(b) == 0 {
			t.Fatalf("vector %q: %v", name, err)
		}
		return b
	}
	u, err := KeyFile([]byte(v["key file line"]))
	if err != nil || !bytes.Equal(u.key[:], raw("unlock key")) {
		t.Fatalf("KeyFile = %v", err)
	}
	s := slot{ID: v["slot id"], Type: TypeFile, Bundle: raw("wrapped bundle")}
	id := storeID(raw("store id"))
	_, keys, err := u.try(&s, id)
	if err != nil || keys == nil || !bytes.Equal(keys.encode(), raw("bundle")) {
		t.Fatalf("the bundle does not open: %v", err)
	}
	b := newBackend(nil, &ring{bundle: keys}, &opener{})
	k, err := b.openKey(t.Context(), vectorLog.ID, tidemark.Record{Key: dataKeyKey(vectorLog.ID), Version: 1, Body: raw("data key record")})
	if err != nil || !bytes.Equal(k.secret[:], raw("data key")) {
		t.Fatalf("the data key does not open: %v", err)
	}
	if body, err := openRecord(k, id, vectorLog, raw("sealed record")); string(body) != vectorRecord {
		t.Errorf("the record opens as %q, %v", body, err)
	}
	if body, err := openRecord(k, id, vectorLog, raw("sealed record without body")); body != nil || err != nil {
		t.Errorf("the record without a body opens as %q, %v", body, err)
	}
	r := lineReader{b: b, log: vectorLog, key: k}
	for i, name := range []string{"sealed line 1", "sealed line 2"} {
		l := vectorLines[i]
		l.Body, l.Chain = raw(name), make([]byte, tagBytes)
		if i == 1 {
			l.Chain, l.Key = raw("chain of line 2"), v["key of line 2"]
		}
		got := l
		err := r.open(t.Context(), &got)
		want := vectorLines[i]
		want.Sum = want.Checksum(vectorLog)
		if d := cmp.Diff(want, got); err != nil || d != "" {
			t.Errorf("%s: %v\n%s", name, err, d)
		}
	}
	packed := vectorLines[0]
	packed.Body, packed.Chain = raw("sealed line 1, packed"), make([]byte, tagBytes)
	if got, err := openLine(k, id, vectorLog, packed); err != nil || !bytes.Equal(got.Body, vectorLines[0].Body) {
		t.Errorf("the packed line opens as %q, %v", got.Body, err)
	}
}
