package sqlite

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
)

// long is a body of half a page.
var long = `{"x":"` + strings.Repeat("haddock ", 512) + `"}`

func appendLong(t testing.TB, b *Backend, log tidemark.Key, seq int64) {
	t.Helper()
	keep(t, b, tidemark.Batch{Appends: []tidemark.Append{{Log: log, Lines: []tidemark.Line{line(log, seq, "user", long)}}}})
}

// walOf returns the -wal file, and how much of it holds commits.
func walOf(t testing.TB, b *Backend) (file []byte, used int64) {
	t.Helper()
	if err := b.writer.c.run("BEGIN; SELECT count(*) FROM log; COMMIT"); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(b.path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	return file, b.writer.c.walBytes()
}

func TestTheWALFileIsMadeLongerAheadOfTheCommits(t *testing.T) {
	b, log := made(t), key("session", "s")
	const commits = 150
	sizes := make(map[int]bool)
	for seq := int64(1); seq <= commits; seq++ {
		appendLong(t, b, log, seq)
		file, used := walOf(t, b)
		sizes[len(file)] = true
		if used < aheadFrom/2 && int64(len(file)) != used {
			t.Errorf("after %d commits: %d bytes, of which %d hold commits", seq, len(file), used)
		}
		if n := len(bytes.Trim(file[used:], "\x00")); n > 0 {
			t.Fatalf("after %d commits: %d bytes that are not zeros behind the log", seq, n)
		}
	}
	if n := len(sizes); n > commits/5 {
		t.Errorf("%d commits made the file longer %d times", commits, n)
	}
	keep(t, b, tidemark.Batch{Drops: []tidemark.Key{log}})
	file, _ := walOf(t, b)
	if len(file) != 0 {
		t.Errorf("%d bytes after a purge", len(file))
	}
	for seq := int64(1); seq <= commits; seq++ {
		appendLong(t, b, log, seq)
	}
	if file, used := walOf(t, b); int64(len(file)) <= used {
		t.Errorf("after the purge: %d bytes, of which %d hold commits", len(file), used)
	}
	if found := faults(t, b); found != nil {
		t.Errorf("Check: %v", found)
	}
	b.Close()
	if info, err := os.Stat(b.path + "-wal"); err != nil || info.Size() != 0 {
		t.Errorf("after closing: %v, %v", info.Size(), err)
	}
}

// A power cut leaves any part of what was not synced, and any length of the file.
func TestWhereverTheWALFileEndsItIsTheCommitsBeforeThat(t *testing.T) {
	b, log := made(t), key("session", "s")
	appendLong(t, b, log, 1)
	b.writer.clearWAL()
	type state struct{ used, length int64 }
	states := []state{{0, 1}}
	for seq := int64(2); seq <= 12; seq++ {
		appendLong(t, b, log, seq)
		_, used := walOf(t, b)
		states = append(states, state{used, seq})
	}
	wal, used := walOf(t, b)
	if int64(len(wal)) <= used {
		t.Fatalf("the file has %d bytes and holds %d: nothing to test", len(wal), used)
	}
	file, err := os.ReadFile(b.path)
	if err != nil {
		t.Fatal(err)
	}
	frames, page := b.writer.c.walFrames()
	var cuts []int64
	for n := int64(0); n <= frames; n++ {
		end := walHeader + n*(frameHeader+page)
		cuts = append(cuts, end-1, end, end+1, end+frameHeader, end+frameHeader+page/2)
	}
	cuts = append(cuts, 0, 16, used+100_000, int64(len(wal)))
	path := filepath.Join(t.TempDir(), "store.db")
	for _, cut := range cuts {
		want := int64(0)
		for _, s := range states {
			if s.used <= cut {
				want = s.length
			}
		}
		cut = min(cut, int64(len(wal)))
		for what, left := range map[string][]byte{
			"that long":   wal[:cut],
			"zeros there": append(bytes.Clone(wal[:cut]), make([]byte, int64(len(wal))-cut)...),
		} {
			removeAll(t, path)
			writeFile(t, path, file)
			writeFile(t, path+"-wal", left)
			c, err := openConn(path, forWriting, pragmas...)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.leaveWAL(); err != nil {
				t.Fatal(err)
			}
			length, err := c.number("SELECT max(length) FROM log")
			whole, checkErr := c.number("SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'")
			if err := errors.Join(err, checkErr); err != nil || length != want || whole != 0 {
				t.Errorf("cut at %d of %d, %s: %d lines, want %d; %d faults, %v", cut, len(wal), what, length, want, whole, err)
			}
			c.close()
		}
	}
	// What follows the cut is written over the zeros.
	removeAll(t, path)
	writeFile(t, path, file)
	writeFile(t, path+"-wal", wal[:len(wal)-5000])
	again := opened(t, path, nil)
	for seq := int64(13); seq <= 40; seq++ {
		appendLong(t, again, log, seq)
	}
	if n := len(linesOf(t, again, log)); n != 40 {
		t.Errorf("%d lines, want 40", n)
	}
	if found := faults(t, again); found != nil {
		t.Errorf("Check: %v", found)
	}
}

func removeAll(t *testing.T, path string) {
	t.Helper()
	for _, end := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(path + end); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
}

func writeFile(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Each makes the file longer without knowing what the other did to it, and a third one
// empties it, as a purge in another process does.
func TestSeveralProgramsMakeTheWALFileLonger(t *testing.T) {
	one := made(t)
	two := opened(t, one.path, nil)
	shell, err := openConn(one.path, forWriting)
	if err != nil {
		t.Fatal(err)
	}
	defer shell.close()
	logs := [2]tidemark.Key{key("session", "one"), key("session", "two")}
	seqs := [2]int64{}
	for n := range 240 {
		i := n / 7 % 2
		seqs[i]++
		appendLong(t, [2]*Backend{one, two}[i], logs[i], seqs[i])
		if n%60 == 59 {
			if err := shell.run("PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
				t.Fatal(err)
			}
		}
		if n%60 == 55 {
			if err := shell.run("BEGIN IMMEDIATE; CREATE TABLE theirs (x); INSERT INTO theirs VALUES (zeroblob(50000)); DROP TABLE theirs; COMMIT"); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i, log := range logs {
		for _, b := range []*Backend{one, two} {
			if n := int64(len(linesOf(t, b, log))); n != seqs[i] {
				t.Errorf("%s has %d lines, want %d", log, n, seqs[i])
			}
		}
	}
	if found := faults(t, one); found != nil {
		t.Errorf("Check: %v", found)
	}
	if file, used := walOf(t, one); int64(len(file)) != used {
		t.Errorf("after it was emptied: %d bytes, of which %d hold commits", len(file), used)
	}
}

// The store of a program that died, and a reader that may not write.
func TestAWALFileThatEndsInZerosIsReadByThoseWhoOnlyRead(t *testing.T) {
	b, log := made(t), key("session", "s")
	for seq := int64(1); seq <= 12; seq++ {
		appendLong(t, b, log, seq)
	}
	if file, used := walOf(t, b); int64(len(file)) <= used {
		t.Fatalf("the file has %d bytes and holds %d: nothing to test", len(file), used)
	}
	path := filepath.Join(t.TempDir(), "store.db")
	for _, end := range []string{"", "-wal"} {
		data, err := os.ReadFile(b.path + end)
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, path+end, data)
	}
	r := opened(t, path, &Options{ReadOnly: true})
	if n := len(linesOf(t, r, log)); n != 12 {
		t.Errorf("%d lines, want 12", n)
	}
}

// The log is written back behind the writers, and the next commit begins it anew.
func TestAfterTheMoveALongLogIsWrittenBack(t *testing.T) {
	for _, x := range []struct {
		pages int64
		anew  bool
	}{{20, false}, {backFrames / 2, true}} {
		b, log := patient(t), key("session", "long")
		harm(t, b, "PRAGMA synchronous=OFF")
		seq, pages := int64(0), int64(0)
		for pages < x.pages {
			seq++
			appendLong(t, b, log, seq)
			pages, _ = b.writer.c.walFrames()
		}
		together(t, b, 8, 1)
		b.mover.run()
		if n := rowsArrived(t, b); n != 0 {
			t.Errorf("%d rows have not been moved", n)
		}
		appendLong(t, b, log, seq+1)
		if after, _ := b.writer.c.walFrames(); (after < pages) != x.anew {
			t.Errorf("%d pages in the log before, %d after", pages, after)
		}
	}
}
