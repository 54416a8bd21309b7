package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	lib "modernc.org/sqlite/lib"

	"github.com/tidemark-sessions/tidemark"
)

func TestWhatIsNotAStoreIsRefusedAndLeftAlone(t *testing.T) {
	dir := t.TempDir()
	foreign := filepath.Join(dir, "foreign.db")
	c, err := openConn(foreign, forMaking, "journal_mode=WAL")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.run("CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1)"); err != nil {
		t.Fatal(err)
	}
	c.close()
	os.WriteFile(filepath.Join(dir, "text"), bytes.Repeat([]byte("not a database\n"), 300), 0o600)
	os.WriteFile(filepath.Join(dir, "short"), []byte("x"), 0o600)
	os.WriteFile(filepath.Join(dir, "empty"), nil, 0o600)
	os.Mkdir(filepath.Join(dir, "directory"), 0o700)
	before := contents(t, dir)
	for name, want := range map[string]error{
		"foreign.db": tidemark.ErrInvalid, "text": tidemark.ErrInvalid, "short": tidemark.ErrInvalid,
		"empty": tidemark.ErrInvalid, "directory": tidemark.ErrInvalid, "absent": tidemark.ErrNoStore,
		"absent/deeper": tidemark.ErrNoStore,
	} {
		for _, o := range []*Options{nil, {ReadOnly: true}, {Create: true}} {
			if o != nil && o.Create && want == tidemark.ErrNoStore {
				continue
			}
			b, err := Open(t.Context(), filepath.Join(dir, name), o)
			if !errors.Is(err, want) || b != nil {
				t.Errorf("Open(%s, %+v) = %v, want %v", name, o, err, want)
			}
		}
	}
	if d := cmp.Diff(before, contents(t, dir)); d != "" {
		t.Errorf("refusing changed something:\n%s", d)
	}
}

// To read the schema takes longer than everything else that opening does.
func TestAFileIsIdentifiedWithoutItsSchema(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tidemark.db")
	b, err := Open(t.Context(), path, &Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	before := fileStateOf(path)
	c, err := openConn(path, unchanging)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	if err := identifyBy(c, path, before, Format); err != nil {
		t.Errorf("identifyBy = %v", err)
	}
	dbs := (*(**lib.Tsqlite3)(unsafe.Pointer(&c.db))).FaDb
	main := (*(**lib.TDb)(unsafe.Pointer(&dbs))).FpSchema
	if (*(**lib.TSchema)(unsafe.Pointer(&main))).FschemaFlags&lib.DB_SchemaLoaded != 0 {
		t.Error("the schema was read")
	}
	raw, err := rawHeader(path)
	if err != nil {
		t.Fatal(err)
	}
	through, err := headerOf(c, path, before)
	if err != nil || *through != *raw {
		t.Errorf("headerOf = %+v, %v, want what lies in the file: %+v", through, err, raw)
	}
	if n, err := (mainFile{c}).ReadAt(make([]byte, 8), raw.size-4); n != 0 || err != io.EOF {
		t.Errorf("ReadAt over the end = %d, %v, want 0, EOF", n, err)
	}
}

// contents returns what lies in a directory, by name.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]string)
	for _, e := range entries {
		all[e.Name()] = "a directory"
		if !e.IsDir() {
			data, err := os.ReadFile(filepath.Join(dir, e.Name()))
			if err != nil {
				t.Fatal(err)
			}
			all[e.Name()] = string(data)
		}
	}
	return all
}

func linesOf(t testing.TB, b tidemark.Backend, log tidemark.Key) (lines []tidemark.Line) {
	t.Helper()
	for l, err := range b.Lines(context.Background(), log) {
		if err != nil {
			t.Fatalf("Lines(%s) = %v", log, err)
		}
		lines = append(lines, l)
	}
	return lines
}

func TestConnectionsAreSetForDurability(t *testing.T) {
	b := made(t)
	for pragma, want := range map[string]string{
		"journal_mode": "wal", "synchronous": "2", "secure_delete": "1", "busy_timeout": "10000", "temp_store": "2", "cell_size_check": "1",
	} {
		var got string
		if err := b.writer.c.do("PRAGMA "+pragma, nil, func(s *stmt) { got = s.text(0) }); err != nil || got != want {
			t.Errorf("%s = %q, %v; want %q", pragma, got, err, want)
		}
	}
	err := b.readers.read(t.Context(), func(c *conn) error { return c.run("CREATE TABLE x (y)") })
	if err == nil {
		t.Error("a connection for reading can write")
	}
}

// Versions up to 3.51.2 can damage a database when two connections write and
// write back at the same instant.
func TestSQLiteIsNewEnough(t *testing.T) {
	b := made(t)
	var text string
	if err := b.writer.c.do("SELECT sqlite_version()", nil, func(s *stmt) { text = s.text(0) }); err != nil {
		t.Fatal(err)
	}
	var v [3]int
	if _, err := fmt.Sscanf(text, "%d.%d.%d", &v[0], &v[1], &v[2]); err != nil || slices.Compare(v[:], []int{3, 51, 3}) < 0 {
		t.Errorf("SQLite %s, want 3.51.3 or newer", text)
	}
}

func TestReadOnlyMakesNothing(t *testing.T) {
	b := made(t)
	log := key("session", "s")
	talk(t, b, log, 1, 3)
	b.Close()
	names := func() (names []string) {
		for name := range contents(t, filepath.Dir(b.path)) {
			names = append(names, name)
		}
		slices.Sort(names)
		return names
	}
	for _, without := range []string{"", "-shm", "-wal", ".lock"} {
		if without != "" {
			os.Remove(b.path + without)
		}
		before := names()
		r := opened(t, b.path, &Options{ReadOnly: true})
		if n := len(linesOf(t, r, log)); n != 3 {
			t.Errorf("%d lines, want 3", n)
		}
		if err := commit(r, tidemark.Batch{Puts: []tidemark.Record{record(log, 1, `{}`)}}); !errors.Is(err, tidemark.ErrStorage) {
			t.Errorf("Commit = %v, want ErrStorage", err)
		}
		r.Close()
		if after := names(); !slices.Equal(before, after) {
			t.Errorf("without %q: %v became %v", without, before, after)
		}
	}
}

func TestReaderOfAFileThatLiesStillNoticesAWriter(t *testing.T) {
	b := made(t)
	log := key("session", "s")
	talk(t, b, log, 1, 3)
	b.Close()
	os.Remove(b.path + "-wal")
	os.Remove(b.path + "-shm")
	r := opened(t, b.path, &Options{ReadOnly: true})
	if n := len(linesOf(t, r, log)); n != 3 || !r.readers.immutable() {
		t.Fatalf("%d lines, want 3; read as it lies: %v", n, r.readers.immutable())
	}
	w := opened(t, b.path, nil)
	for seq := int64(4); seq <= 6; seq++ {
		talk(t, w, log, seq, seq)
		if n := len(linesOf(t, r, log)); n != int(seq) {
			t.Errorf("%d lines, want %d", n, seq)
		}
	}
}

func TestStoreThroughALinkIsTheSameStore(t *testing.T) {
	b := made(t)
	talk(t, b, key("session", "s"), 1, 1)
	link := filepath.Join(t.TempDir(), "link.db")
	if err := os.Symlink(b.path, link); err != nil {
		t.Skipf("no symbolic links here: %v", err)
	}
	other := opened(t, link, nil)
	talk(t, other, key("session", "s"), 2, 2)
	if n := len(linesOf(t, b, key("session", "s"))); n != 2 {
		t.Errorf("%d lines, want 2", n)
	}
}

func TestPathsWithSpecialCharactersAreOneFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a b?mode=memory&c#d%20'e;.db")
	b := opened(t, path, &Options{Create: true})
	talk(t, b, key("session", "s"), 1, 1)
	b.Close()
	b, err := open(t.Context(), path, nil, later(addTable))
	if err != nil {
		t.Fatal(err)
	}
	b.Close()
	for name := range contents(t, filepath.Dir(path)) {
		if !strings.HasPrefix(name, filepath.Base(path)) {
			t.Errorf("made %q", name)
		}
	}
}

func TestLeftoversOfACrashedCreationAreSwept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	for _, left := range []string{".new", ".new-wal", ".new-shm"} {
		os.WriteFile(path+left, []byte("half"), 0o600)
	}
	b := opened(t, path, &Options{Create: true})
	talk(t, b, key("session", "s"), 1, 1)
	if left, _ := filepath.Glob(path + ".new*"); left != nil {
		t.Errorf("still there: %v", left)
	}
}

func TestNetworkFileSystemIsRefused(t *testing.T) {
	set := here
	set.fileSystem = func(string) (string, bool, error) { return "nfs", true, nil }
	_, err := open(t.Context(), filepath.Join(t.TempDir(), "new", "store.db"), &Options{Create: true}, set)
	if !errors.Is(err, tidemark.ErrUnsupported) || !strings.Contains(err.Error(), "files:") {
		t.Errorf("Open = %v, want ErrUnsupported with a way out", err)
	}
}

// A checkpoint writes the first page, which says how long the file is, before
// the pages that make it so long. Whoever dies between leaves a file that is
// whole only together with its -wal file.
func TestStoreOfAWriterThatDiedWhileWritingBackOpens(t *testing.T) {
	b := made(t)
	b.writer.c.run("PRAGMA wal_autocheckpoint=0")
	log := key("session", "s")
	talk(t, b, log, 1, 500)
	path := filepath.Join(t.TempDir(), "died.db")
	for _, end := range []string{"", "-wal"} {
		data, err := os.ReadFile(b.path + end)
		if err != nil {
			t.Fatal(err)
		}
		if end == "" {
			copy(data[28:32], []byte{0, 0, 1, 0}) // 256 pages
		}
		if err := os.WriteFile(path+end, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, o := range []*Options{{ReadOnly: true}, nil} {
		again := opened(t, path, o)
		if n := len(linesOf(t, again, log)); n != 500 {
			t.Errorf("%d lines, want 500", n)
		}
		if found := faults(t, again); found != nil {
			t.Errorf("Check: %v", found)
		}
		again.Close()
	}
}
