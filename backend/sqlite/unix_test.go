//go:build unix

package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tidemark-sessions/tidemark"
)

func TestFilesAreNarrowWhateverTheUmask(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	dir := filepath.Join(t.TempDir(), "new", "deep")
	path := filepath.Join(dir, "store.db")
	b := opened(t, path, &Options{Create: true})
	talk(t, b, key("session", "s"), 1, 3)
	linesOf(t, b, key("session", "s"))
	check := func() {
		t.Helper()
		for _, d := range []string{dir, filepath.Dir(dir)} {
			if info, err := os.Stat(d); err != nil || info.Mode().Perm() != 0o700 {
				t.Errorf("%s: mode %v, %v", d, info.Mode(), err)
			}
		}
		seen := 0
		for name := range contents(t, dir) {
			seen++
			if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%s: mode %v, %v", name, info.Mode(), err)
			}
		}
		if seen < 4 {
			t.Errorf("only %d files: want the store, -wal, -shm and .lock", seen)
		}
	}
	check()
	b.Close()
	check()
	b, err := open(t.Context(), path, nil, later(addTable))
	if err != nil {
		t.Fatal(err)
	}
	check()
	b.Close()
}

func TestWidenedFilesAreReportedAndNarrowed(t *testing.T) {
	b := made(t)
	talk(t, b, key("session", "s"), 1, 1)
	if err := os.Chmod(b.path, 0o644); err != nil {
		t.Fatal(err)
	}
	if found := faults(t, b); len(found) != 1 || !strings.Contains(found[0].Error(), "0644") {
		t.Errorf("Check: %v", found)
	}
	if said := mended(t, b); !strings.Contains(said, "0644") {
		t.Errorf("Mend said %q", said)
	}
	if found := faults(t, b); found != nil {
		t.Errorf("after Mend: %v", found)
	}
	if err := os.Chmod(b.path, 0o644); err != nil {
		t.Fatal(err)
	}
	b.Close()
	b = opened(t, b.path, nil)
	if found := faults(t, b); found != nil {
		t.Errorf("after opening again: %v", found)
	}
}

// mounted mounts a small file system in memory for the test.
func mounted(t *testing.T, options string) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("mounting needs root")
	}
	dir := t.TempDir()
	if err := mount(dir, options); err != nil {
		t.Skipf("cannot mount here: %v", err)
	}
	t.Cleanup(func() { unmount(dir) })
	return dir
}

func TestFullDiskIsAnErrorThatPasses(t *testing.T) {
	dir := mounted(t, "size=1m")
	b := opened(t, filepath.Join(dir, "store.db"), &Options{Create: true})
	log := key("session", "s")
	big := strings.Repeat("x", 40<<10)
	kept := int64(0)
	var err error
	for err == nil && kept < 100 {
		err = commit(b, tidemark.Batch{Appends: []tidemark.Append{{Log: log, Lines: []tidemark.Line{line(log, kept+1, "user", big)}}}})
		if err == nil {
			kept++
		}
	}
	if !errors.Is(err, tidemark.ErrStorage) {
		t.Fatalf("after %d lines: %v, want ErrStorage", kept, err)
	}
	if n := len(linesOf(t, b, log)); int64(n) != kept {
		t.Errorf("%d lines, %d were acknowledged", n, kept)
	}
	if err := remount(dir, "size=8m"); err != nil {
		t.Fatal(err)
	}
	keep(t, b, tidemark.Batch{Appends: []tidemark.Append{{Log: log, Lines: []tidemark.Line{line(log, kept+1, "user", big)}}}})
	b.Close()
	b = opened(t, b.path, nil)
	if n := len(linesOf(t, b, log)); int64(n) != kept+1 {
		t.Errorf("opened again: %d lines, want %d", n, kept+1)
	}
	if found := faults(t, b); found != nil {
		t.Errorf("Check: %v", found)
	}
}

// What is deleted takes the way through the -wal file, too, and may be much
// larger than the reserve.
func TestFullDiskLetsALogGoThatIsLargerThanTheReserve(t *testing.T) {
	dir := mounted(t, "size=8m")
	b := opened(t, filepath.Join(dir, "store.db"), &Options{Create: true})
	big, small := key("session", "big"), key("session", "small")
	body := strings.Repeat("mackerel ", 5000)
	talk(t, b, small, 1, 3)
	n, err := int64(0), error(nil)
	for err == nil {
		err = commit(b, tidemark.Batch{Appends: []tidemark.Append{{Log: big, Lines: []tidemark.Line{line(big, n+1, "user", body)}}}})
		n++
	}
	if err := os.WriteFile(filepath.Join(dir, "ballast"), make([]byte, 8<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	if err := commit(b, tidemark.Batch{Appends: []tidemark.Append{{Log: small, Lines: []tidemark.Line{line(small, 4, "user", body)}}}}); !errors.Is(err, tidemark.ErrStorage) {
		t.Errorf("an append = %v, want ErrStorage", err)
	}
	keep(t, b, tidemark.Batch{Frees: true, Puts: []tidemark.Record{record(key("lease", "big"), 1, `{}`)}})
	keep(t, b, tidemark.Batch{Drops: []tidemark.Key{big}})
	if data, err := os.ReadFile(b.path); err != nil || strings.Contains(string(data), "mackerel") {
		t.Errorf("the file still holds what was dropped (%v)", err)
	}
	if info, err := os.Stat(b.path + reserveEnd); err != nil || info.Size() < reserveBytes/2 {
		t.Errorf("the reserve was not filled again: %v, %v", info, err)
	}
	// The file has room inside, and that is used.
	for seq := int64(4); seq < 20; seq++ {
		keep(t, b, tidemark.Batch{Appends: []tidemark.Append{{Log: small, Lines: []tidemark.Line{line(small, seq, "user", body)}}}})
	}
	b.Close()
	b = opened(t, b.path, nil)
	if n := len(linesOf(t, b, small)); n != 19 {
		t.Errorf("%d lines, want 19", n)
	}
	if found := faults(t, b); found != nil {
		t.Errorf("Check: %v", found)
	}
}

// Zeros take no room from commits.
func TestOnANearlyFullDiskTheWALFileIsNotMadeLonger(t *testing.T) {
	dir := mounted(t, "size=15m")
	b, log := opened(t, filepath.Join(dir, "store.db"), &Options{Create: true}), key("session", "s")
	for seq := int64(1); seq <= 40; seq++ {
		appendLong(t, b, log, seq)
		if file, used := walOf(t, b); int64(len(file)) != used {
			t.Fatalf("after %d commits: %d bytes, of which %d hold commits", seq, len(file), used)
		}
	}
}

func TestStoreIsNotMadeSmallerWhereThereIsNoRoomForIt(t *testing.T) {
	dir := mounted(t, "size=24m")
	b := opened(t, filepath.Join(dir, "store.db"), &Options{Create: true})
	for _, id := range []string{"stays", "goes"} {
		a := tidemark.Append{Log: key("session", id)}
		for seq := int64(1); seq <= 400; seq++ {
			a.Lines = append(a.Lines, line(a.Log, seq, "user", strings.Repeat("x", 10_000)))
		}
		keep(t, b, tidemark.Batch{Appends: []tidemark.Append{a}})
	}
	keep(t, b, tidemark.Batch{Drops: []tidemark.Key{key("session", "goes")}})
	if err := remount(dir, "size=12m"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Compact(t.Context()); !errors.Is(err, tidemark.ErrStorage) || !strings.Contains(err.Error(), "MB") {
		t.Errorf("Compact = %v, want ErrStorage that says how much", err)
	}
	talk(t, b, key("session", "goes"), 1, 1)
	if err := remount(dir, "size=24m"); err != nil {
		t.Fatal(err)
	}
	if n, err := b.Compact(t.Context()); err != nil || n < 3<<20 {
		t.Errorf("Compact = %d, %v; want some 4 MB", n, err)
	}
}

func TestStoreOnADiskThatCannotBeWrittenIsRead(t *testing.T) {
	dir := mounted(t, "size=8m")
	b := opened(t, filepath.Join(dir, "store.db"), &Options{Create: true})
	log := key("session", "s")
	talk(t, b, log, 1, 3)
	b.Close()
	read := func(what string) {
		t.Helper()
		if err := remount(dir, "ro"); err != nil {
			t.Skipf("cannot mount read-only here: %v", err)
		}
		if _, err := Open(t.Context(), b.path, nil); !errors.Is(err, tidemark.ErrStorage) {
			t.Errorf("%s: opened for writing: %v, want ErrStorage", what, err)
		}
		r := opened(t, b.path, &Options{ReadOnly: true})
		if n := len(linesOf(t, r, log)); n != 3 {
			t.Errorf("%s: %d lines, want 3", what, n)
		}
		r.Close()
		if err := remount(dir, "rw"); err != nil {
			t.Fatal(err)
		}
	}
	read("closed")
	// Whoever wrote it died between the head of the -wal file and the first page.
	begun := append([]byte{0x37, 0x7f, 6, 0x82, 0, 0x2d, 0xe2, 0x18, 0, 0, 0x10, 0}, strings.Repeat("x", walHeader-12)...)
	if err := os.WriteFile(b.path+"-wal", begun, 0o600); err != nil {
		t.Fatal(err)
	}
	read("begun")
	os.Remove(b.path + "-wal")
	os.Remove(b.path + "-shm")
	read("the file alone")
}

func TestFullDiskKeepsTheStoreFromBeingUpgraded(t *testing.T) {
	dir := mounted(t, "size=3m")
	b := opened(t, filepath.Join(dir, "store.db"), &Options{Create: true})
	log := key("session", "s")
	for seq := int64(1); seq <= 35; seq++ {
		keep(t, b, tidemark.Batch{Appends: []tidemark.Append{{Log: log, Lines: []tidemark.Line{line(log, seq, "user", strings.Repeat("x", 40<<10))}}}})
	}
	b.Close()
	cannotCopy(t, t.Context(), b.path, tidemark.ErrStorage)
	if left, _ := filepath.Glob(b.path + ".bak*"); left != nil {
		t.Errorf("left behind: %v", left)
	}
}
