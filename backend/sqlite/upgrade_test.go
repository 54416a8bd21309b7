package sqlite

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
)

func TestFormatIsWhatTheLastUpgradeMakes(t *testing.T) {
	if here.version() != Format {
		t.Errorf("Format is %d, and the upgrades lead to %d", Format, here.version())
	}
}

// later is a program some schema versions ahead of this one, which reads no
// older one as it is.
func later(steps ...upgrade) setting {
	set := here
	set.upgrades = append(slices.Clip(set.upgrades), steps...)
	set.readable = set.version()
	set.now = func() time.Time { return at }
	return set
}

func addColumn(c *conn) error { return c.run("ALTER TABLE record ADD COLUMN colour TEXT") }
func addTable(c *conn) error  { return c.run("CREATE TABLE extra (x)") }

// refusedAsNewer wants each way to open a store to be refused as too new, and
// returns what was said.
func refusedAsNewer(t *testing.T, path string) *tidemark.NewerError {
	t.Helper()
	var newer *tidemark.NewerError
	for _, o := range []*Options{nil, {ReadOnly: true}, {Create: true}} {
		_, err := Open(t.Context(), path, o)
		if !errors.As(err, &newer) || !errors.Is(err, tidemark.ErrUnsupported) {
			t.Fatalf("Open(%+v) = %v, want a NewerError", o, err)
		}
	}
	return newer
}

func TestStoreOfANewerProgramIsRefusedAndLeftAlone(t *testing.T) {
	old := made(t)
	talk(t, old, key("session", "s"), 1, 3)
	old.Close()
	b, err := open(t.Context(), old.path, nil, later(addColumn, addTable))
	if err != nil {
		t.Fatal(err)
	}
	talk(t, b, key("session", "s"), 4, 4)
	b.Close()
	os.Chmod(b.path, 0o640) // a wide mode is put right, but not by who does not know the format
	before := contents(t, filepath.Dir(b.path))
	newer := refusedAsNewer(t, b.path)
	want := tidemark.NewerError{What: "store " + b.path, Format: Format + 2, Known: Format, Backup: b.path + ".bak-v3-20260304T050607Z"}
	if d := cmp.Diff(want, *newer); d != "" {
		t.Errorf("said:\n%s", d)
	}
	if d := cmp.Diff(before, contents(t, filepath.Dir(b.path))); d != "" {
		t.Errorf("refusing changed something:\n%s", d)
	}
	if info, _ := os.Stat(b.path); info.Mode().Perm() != 0o640 {
		t.Errorf("refusing changed the mode to %04o", info.Mode().Perm())
	}
}

// A process that upgrades and dies leaves the new version in the -wal file
// alone.
func TestStoreWhoseUpgraderDiedAtOnceIsRefusedAndLeftAlone(t *testing.T) {
	b := made(t)
	talk(t, b, key("session", "s"), 1, 3)
	b.writer.clearWAL()
	if err := b.writer.c.run(fmt.Sprintf("PRAGMA user_version=%d", Format+1)); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "store.db")
	for _, end := range []string{"", "-wal", "-shm"} {
		data, err := os.ReadFile(b.path + end)
		if err == nil {
			err = os.WriteFile(path+end, data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	before := contents(t, dir)
	refusedAsNewer(t, path)
	after := contents(t, dir)
	for _, name := range []string{"store.db", "store.db-wal"} {
		if before[name] != after[name] {
			t.Errorf("refusing changed %s", name)
		}
	}
}

func TestOlderStoreIsUpgradedAfterABackup(t *testing.T) {
	old := made(t)
	log := key("session", "s")
	keep(t, old, tidemark.Batch{Puts: []tidemark.Record{record(log, 1, `{"a":1}`)}})
	talk(t, old, log, 1, 5)
	reader := opened(t, old.path, &Options{ReadOnly: true})
	if _, err := open(t.Context(), old.path, &Options{ReadOnly: true}, later(addColumn, addTable)); !errors.Is(err, tidemark.ErrUnsupported) {
		t.Errorf("opened for reading: %v, want ErrUnsupported", err)
	}
	copyPath := old.path + ".bak-v3-20260304T050607Z"
	said := ""
	o := &Options{Upgrading: func(from, to int64, backup string) { said = fmt.Sprint(from, to, " ", backup) }}
	b, err := open(t.Context(), old.path, o, later(addColumn, addTable))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if want := "3 5 " + copyPath; said != want {
		t.Errorf("said %q, want %q", said, want)
	}
	if n, _ := b.writer.c.number("PRAGMA user_version"); n != 5 {
		t.Errorf("user_version %d, want 5", n)
	}
	talk(t, b, log, 6, 6)
	if err := commit(old, tidemark.Batch{Puts: []tidemark.Record{record(log, 2, `{}`)}}); !errors.Is(err, tidemark.ErrUnsupported) {
		t.Errorf("the older program, still running, commits: %v, want ErrUnsupported", err)
	}
	if _, err := reader.Get(t.Context(), log); !errors.Is(err, tidemark.ErrUnsupported) {
		t.Errorf("the older program, still running, reads: %v, want ErrUnsupported", err)
	}
	info, err := os.Stat(copyPath)
	if err != nil {
		t.Fatal(err)
	}
	if mode := info.Mode().Perm(); mode != 0o600 {
		t.Errorf("the backup has mode %04o", mode)
	}
	back := opened(t, copyPath, nil)
	if n := len(linesOf(t, back, log)); n != 5 {
		t.Errorf("the backup has %d lines, want 5", n)
	}
	if found := faults(t, back); found != nil {
		t.Errorf("the backup: %v", found)
	}
	talk(t, back, log, 6, 6)
}

func TestUpgradeThatFailsLeavesTheStoreAsItWas(t *testing.T) {
	old := made(t)
	talk(t, old, key("session", "s"), 1, 5)
	old.Close()
	broken := later(addColumn, func(c *conn) error { return c.run("CREATE TABLE record (x)") })
	for range 2 {
		if _, err := open(t.Context(), old.path, nil, broken); !errors.Is(err, tidemark.ErrStorage) {
			t.Fatalf("Open = %v, want ErrStorage", err)
		}
	}
	b := opened(t, old.path, nil)
	if n := len(linesOf(t, b, key("session", "s"))); n != 5 {
		t.Errorf("%d lines, want 5", n)
	}
	if n, _ := b.writer.c.number(`SELECT count(*) FROM pragma_table_info('record') WHERE name = 'colour'`); n != 0 {
		t.Error("the first step was kept")
	}
	if left, _ := filepath.Glob(old.path + ".bak*"); left != nil {
		t.Errorf("left behind: %v", left)
	}
}

// cannotCopy wants that a store whose copy cannot be made is not upgraded.
func cannotCopy(t *testing.T, ctx context.Context, path string, want error) {
	t.Helper()
	step := func(*conn) error { t.Error("the upgrade began"); return nil }
	if _, err := open(ctx, path, nil, later(step)); !errors.Is(err, want) {
		t.Errorf("Open = %v, want %v", err, want)
	}
	b := opened(t, path, nil)
	if n, _ := b.writer.c.number("PRAGMA user_version"); n != Format {
		t.Errorf("user_version %d, want %d", n, Format)
	}
	if found := faults(t, b); found != nil {
		t.Errorf("Check: %v", found)
	}
	if left, _ := filepath.Glob(path + ".bak-*"); left != nil {
		t.Errorf("left behind: %v", left)
	}
}

func TestWithoutACopyThereIsNoUpgrade(t *testing.T) {
	b := made(t)
	talk(t, b, key("session", "s"), 1, 5)
	b.Close()
	inTheWay := b.path + ".bak.new/x"
	if err := os.MkdirAll(inTheWay, 0o700); err != nil {
		t.Fatal(err)
	}
	cannotCopy(t, t.Context(), b.path, tidemark.ErrStorage)
}

func TestStoreThatIsDamagedIsNotUpgraded(t *testing.T) {
	b := made(t)
	talk(t, b, key("session", "s"), 1, 2000)
	root, err := b.writer.c.number(`SELECT rootpage FROM sqlite_schema WHERE name = 'line'`)
	if err != nil {
		t.Fatal(err)
	}
	b.Close()
	f, err := os.OpenFile(b.path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte(strings.Repeat("x", wideBytes)), (root-1)*wideBytes); err != nil {
		t.Fatal(err)
	}
	f.Close()
	_, err = open(t.Context(), b.path, nil, later(addTable))
	if !errors.Is(err, tidemark.ErrCorrupt) || !strings.Contains(err.Error(), "migrate") {
		t.Errorf("Open = %v, want ErrCorrupt with a way out", err)
	}
}

func TestOfSeveralThatOpenAnOlderStoreOneUpgradesIt(t *testing.T) {
	old := made(t)
	talk(t, old, shared, 1, 500)
	old.Close()
	var upgrades atomic.Int64
	o := &Options{Upgrading: func(int64, int64, string) { upgrades.Add(1) }}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			b, err := open(context.Background(), old.path, o, later(addColumn, addTable))
			if err != nil {
				t.Errorf("Open = %v", err)
				return
			}
			defer b.Close()
			if _, err := b.Get(context.Background(), shared); err != nil {
				t.Errorf("Get = %v", err)
			}
		})
	}
	wg.Wait()
	if n := upgrades.Load(); n != 1 {
		t.Errorf("upgraded %d times", n)
	}
	if copies, _ := filepath.Glob(old.path + ".bak*"); len(copies) != 1 {
		t.Errorf("copies: %v, want one", copies)
	}
}

// upgradeAloud says when the copy begins and when the store is open.
func upgradeAloud(path string) error {
	o := &Options{Upgrading: func(int64, int64, string) { fmt.Println("copying") }}
	b, err := open(context.Background(), path, o, later(func(c *conn) error { fmt.Println("changing"); return addColumn(c) }, addTable))
	if err != nil {
		return err
	}
	fmt.Println("open")
	return b.Close()
}

// A process that upgrades is killed at many instants, counted from when it
// began to copy. Whatever it left opens, is the old store or the new one, and
// has every line; and whatever has the name of a copy is one.
func TestUpgradeThatIsKilledLeavesTheOldStoreOrTheNewOne(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b := made(t)
	talk(t, b, shared, 1, 3000)
	b.Close()
	whole, err := os.ReadFile(b.path)
	if err != nil {
		t.Fatal(err)
	}
	outcome := make(map[string]int)
	for i := range 40 {
		path := filepath.Join(t.TempDir(), "store.db")
		if err := os.WriteFile(path, whole, 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(exe)
		cmd.Env = append(os.Environ(), childUpgrade+"="+path)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		said := bufio.NewScanner(out)
		for said.Scan() && i%4 == 3 && said.Text() != "changing" { // else from the first word on
		}
		time.AfterFunc(time.Duration(i)*400*time.Microsecond, func() { cmd.Process.Kill() })
		for said.Scan() {
		}
		cmd.Wait()
		outcome[afterTheKill(t, path)]++
	}
	t.Logf("%v", outcome)
	if outcome["old"] == 0 {
		t.Error("no kill met the store before it was upgraded")
	}
}

func afterTheKill(t *testing.T, path string) (which string) {
	t.Helper()
	copies, _ := filepath.Glob(path + ".bak-*")
	for _, c := range append(copies, path) {
		which = "old"
		r, err := open(t.Context(), c, nil, here)
		if c == path && errors.Is(err, tidemark.ErrUnsupported) {
			which = "new"
			r, err = open(t.Context(), c, nil, later(addColumn, addTable))
		}
		if err != nil {
			t.Fatalf("%s: %v", filepath.Base(c), err)
		}
		if n := len(linesOf(t, r, shared)); n != 3000 {
			t.Errorf("%s: %d lines, want 3000", filepath.Base(c), n)
		}
		if found := faults(t, r); found != nil {
			t.Errorf("%s: %v", filepath.Base(c), found)
		}
		r.Close()
	}
	if which == "new" && len(copies) == 0 {
		t.Error("the store was upgraded and there is no copy")
	}
	// The next one to come upgrades what is still old.
	b, err := open(t.Context(), path, nil, later(addColumn, addTable))
	if err != nil {
		t.Fatal(err)
	}
	b.Close()
	if left, _ := filepath.Glob(path + ".bak.new*"); left != nil {
		t.Errorf("left behind: %v", left)
	}
	return which
}

// older is the program that knew the schema up to a version.
func older(version int64) setting {
	set := here
	set.upgrades = upgrades[:version-1]
	return set
}

// asOlder makes a store as an older program did, with what another holds.
func asOlder(t *testing.T, version int64, from *Backend) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "older.db")
	if err := makeStore(path, older(version)); err != nil {
		t.Fatal(err)
	}
	c, err := openConn(path, forWriting, writing...)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	const head = "number, kind, id, length, updated, parent, depth, nodes, turn, chain, sum"
	if err := c.run("ATTACH '" + from.path + "' AS now; INSERT INTO record SELECT * FROM now.record; INSERT INTO log (" + head + ") SELECT " + head +
		" FROM now.log; INSERT INTO line (" + lineColumns + ") SELECT " + lineColumns + " FROM now.line"); err != nil {
		t.Fatal(err)
	}
	if version == 2 {
		if err := c.run("INSERT INTO word (rowid, words) SELECT id, 'indexed somewhere' FROM line; INSERT INTO hit SELECT id, id FROM line; UPDATE log SET indexed = length, behind = 0"); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

func TestStoreOfAnOlderVersionIsReadAsItIsAndUpgradedWhenItIsWritten(t *testing.T) {
	b := made(t)
	log := key("session", "s")
	keep(t, b, tidemark.Batch{Puts: []tidemark.Record{record(log, 1, `{"a":1}`)}})
	talk(t, b, log, 1, 500)
	want, err := readSchema(b.writer.c)
	if err != nil {
		t.Fatal(err)
	}
	for version := int64(1); version < Format; version++ {
		path := asOlder(t, version, b)
		r := opened(t, path, &Options{ReadOnly: true})
		if n := len(linesOf(t, r, log)); n != 500 {
			t.Errorf("%d lines, want 500", n)
		}
		if found := faults(t, r); found != nil {
			t.Errorf("Check: %v", found)
		}
		w := opened(t, path, nil)
		copies, _ := filepath.Glob(fmt.Sprintf("%s.bak-v%d-*", path, version))
		if len(copies) != 1 {
			t.Fatalf("backups: %v", copies)
		}
		talk(t, w, log, 501, 501)
		for _, s := range []*Backend{w, r} { // the reader sees that it was upgraded
			if n := len(linesOf(t, s, log)); n != 501 {
				t.Errorf("%d lines, want 501", n)
			}
		}
		if found := faults(t, w); found != nil {
			t.Errorf("Check: %v", found)
		}
		have, err := readSchema(w.writer.c)
		if err != nil || have.sum() != want.sum() || have.sum() != schemaSums[Format] {
			t.Errorf("version %d: the schema has sum %#x, %v; that of a new store is %#x", version, have.sum(), err, want.sum())
		}
		if !wholeSchema(w.writer.c, Format) {
			t.Errorf("version %d: its tables begin elsewhere: %v", version, have.begins)
		}
		w.Close()
		if data, _ := os.ReadFile(path); strings.Contains(string(data), "indexed") {
			t.Error("words of the old index are still in the file")
		}
		for _, o := range []*Options{nil, {ReadOnly: true}} {
			if _, err := open(t.Context(), path, o, older(version)); !errors.Is(err, tidemark.ErrUnsupported) {
				t.Errorf("the program of version %d opens it: %v, want ErrUnsupported", version, err)
			}
		}
		back, err := open(t.Context(), copies[0], nil, older(version))
		if err != nil {
			t.Fatalf("the program of version %d does not open the copy: %v", version, err)
		}
		if n := len(linesOf(t, back, log)); n != 500 {
			t.Errorf("the copy has %d lines, want 500", n)
		}
		back.Close()
	}
}
