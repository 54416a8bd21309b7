package files_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/backendtest"
	"github.com/tidemark-sessions/tidemark/backend/files"
)

func mended(t testing.TB, b *files.Backend) (said []string) {
	t.Helper()
	for what, err := range b.Mend(ctx) {
		if err != nil {
			t.Fatalf("Mend = %v", err)
		}
		said = append(said, what)
	}
	return said
}

func TestMendAcceptsALogThatLostItsTailAndKeepsItsHead(t *testing.T) {
	for name, c := range map[string]struct {
		change func([]byte) []byte
		left   int64
		said   string
	}{
		"two lines lost": {func(d []byte) []byte { return bytes.Join(bytes.SplitAfter(d, []byte("\n"))[:3], nil) }, 3, "lines 4 to 5 are lost"},
		"cut in a line":  {func(d []byte) []byte { return d[:len(d)-10] }, 4, "lines 5 to 5 are lost"},
		"all lines lost": {func([]byte) []byte { return nil }, 0, "lines 1 to 5 are lost"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			b := open(t, dir, &files.Options{Create: true})
			for s := int64(1); s <= 5; s++ {
				keep(t, b, run(sessA, s, s))
			}
			keep(t, b, backendtest.NewRecord(sessA, 1, `{}`))
			before, err := os.ReadFile(filepath.Join(dir, "heads/session/a.json"))
			if err != nil {
				t.Fatal(err)
			}
			edit(t, dir, logA, c.change)
			said := mended(t, b)
			if len(said) != 1 || !strings.Contains(said[0], c.said) {
				t.Errorf("Mend said %q", said)
			}
			kept, _ := filepath.Glob(filepath.Join(dir, "torn/session/a.*.head"))
			if len(kept) != 1 {
				t.Fatalf("%d heads were kept", len(kept))
			}
			if after, _ := os.ReadFile(kept[0]); !bytes.Equal(before, after) {
				t.Errorf("the head that was kept is %q", after)
			}
			if r, err := b.Get(ctx, sessA); err != nil || r.Head.Length != c.left {
				t.Errorf("Get = %+v, %v; want %d lines", r, err, c.left)
			}
			keep(t, b, run(sessA, c.left+1, 7))
			if seqs, damages := read(t, b, sessA); len(seqs) != 7 || len(damages) != 0 {
				t.Errorf("read %v, %v", seqs, damages)
			}
			for err := range b.Check(ctx) {
				t.Errorf("Check: %v", err)
			}
			if said := mended(t, b); len(said) != 0 {
				t.Errorf("a second Mend said %q", said)
			}
		})
	}
}

func TestMendNarrowsWhatIsOpenToOthers(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there are no such modes")
	}
	dir := t.TempDir()
	b := open(t, dir, &files.Options{Create: true})
	keep(t, b, backendtest.NewRecord(sessA, 1, `{}`), run(sessA, 1, 3))
	for name, mode := range map[string]os.FileMode{".": 0o755, "records/session": 0o750, "records/session/a.json": 0o644, logA: 0o604, "heads/session/a.json": 0o640} {
		if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	if said := mended(t, b); len(said) != 5 {
		t.Errorf("Mend said %q", said)
	}
	for err := range b.Check(ctx) {
		t.Errorf("Check: %v", err)
	}
}

func TestMendCompletesAndDropsWhatWritersLeft(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir, &files.Options{Create: true})
	keep(t, b, run(sessA, 1, 1))
	batch := batchOf(backendtest.NewRecord(sessA, 1, `{"x":1}`), run(sessA, 2, 3))
	whole := files.IntentOf(batch)
	for name, data := range map[string][]byte{"intents/00.json": whole, "intents/01.json": whole[:len(whole)/2], "tmp/left": []byte("x")} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	said := mended(t, b)
	slices.Sort(said)
	want := []string{
		"intents/00.json: completed a batch that was cut off",
		"intents/01.json: dropped a batch that was never decided",
		"tmp: removed 1 unfinished files of writers that died",
	}
	if d := cmp.Diff(want, said); d != "" {
		t.Errorf("Mend said (-want +got):\n%s", d)
	}
	if r, err := b.Get(ctx, sessA); err != nil || r.Version != 1 || r.Head.Length != 3 {
		t.Errorf("Get = %+v, %v", r, err)
	}
}

func TestWhatIsOpenForReadingIsNotMended(t *testing.T) {
	dir := t.TempDir()
	open(t, dir, &files.Options{Create: true}).Close()
	b := open(t, dir, &files.Options{ReadOnly: true})
	for _, err := range b.Mend(ctx) {
		if !errors.Is(err, tidemark.ErrDenied) {
			t.Errorf("Mend = %v, want ErrDenied", err)
		}
	}
	if _, err := b.Compact(ctx); !errors.Is(err, tidemark.ErrDenied) {
		t.Errorf("Compact = %v, want ErrDenied", err)
	}
}

func TestCompactRemovesWhatNothingNeeds(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir, &files.Options{Create: true})
	keep(t, b, backendtest.NewRecord(sessA, 1, `{}`), run(sessA, 1, 3))
	old := time.Now().Add(-31 * 24 * time.Hour)
	left := map[string]struct {
		data string
		at   time.Time
		gone bool
	}{
		"tmp/0123456789abcdef":         {"12345", time.Now(), true},
		"torn/session/a.00000001":      {`{"seq":4,"at`, old, true},
		"torn/session/a.00000002":      {`{"seq":4,"at`, time.Now(), false},
		"torn/session/a.00000003":      {"{\"seq\":4}\n{", old, false},
		"torn/session/a.00000004.head": {`{"length":3}`, old, false},
		"torn/session/note":            {"mine", old, false},
	}
	if err := os.Mkdir(filepath.Join(dir, "torn/session"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, l := range left {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(l.data), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, l.at, l.at); err != nil {
			t.Fatal(err)
		}
	}
	freed, err := b.Compact(ctx)
	if err != nil || freed != 5+12 {
		t.Errorf("Compact = %d, %v; want 17", freed, err)
	}
	for name, l := range left {
		if _, err := os.Stat(filepath.Join(dir, name)); os.IsNotExist(err) != l.gone {
			t.Errorf("%s: gone %v, want %v", name, !l.gone, l.gone)
		}
	}
	if seqs, damages := read(t, b, sessA); len(seqs) != 3 || len(damages) != 0 {
		t.Errorf("read %v, %v", seqs, damages)
	}
}

func TestADropTakesWhatWasSetAsideWithIt(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir, &files.Options{Create: true})
	other := tidemark.Key{Kind: sessA.Kind, ID: "a.b"}
	keep(t, b, run(sessA, 1, 3), run(other, 1, 1))
	if err := os.Mkdir(filepath.Join(dir, "torn/session"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a.00000001", "a.00000002.head", "a.b.00000003", "a.note"} {
		if err := os.WriteFile(filepath.Join(dir, "torn/session", name), []byte("secret"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	drop := batchOf()
	drop.Drops = []tidemark.Key{sessA}
	if _, err := b.Commit(ctx, drop); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "torn/session/*"))
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range left {
		left[i] = filepath.Base(name)
	}
	if want := []string{"a.b.00000003", "a.note"}; !slices.Equal(left, want) {
		t.Errorf("left aside are %v, want %v", left, want)
	}
}

func TestAWalkNamesALogThatIsGone(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir, &files.Options{Create: true})
	keep(t, b, run(sessA, 1, 3))
	keep(t, b, backendtest.NewRecord(tidemark.Key{Kind: "session", ID: "UPPER"}, 1, `{}`))
	if err := os.Remove(filepath.Join(dir, logA)); err != nil {
		t.Fatal(err)
	}
	var keys []string
	for k, err := range b.Walk(ctx, tidemark.Key{}) {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, k.String())
	}
	if d := cmp.Diff([]string{"session/UPPER", "session/a"}, keys); d != "" {
		t.Errorf("Walk (-want +got):\n%s", d)
	}
}
