package files_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/backendtest"
	"github.com/tidemark-sessions/tidemark/backend/files"
)

func openAndJournal(t testing.TB, dir string) *files.Backend {
	t.Helper()
	b, err := files.OpenJournaling(dir, &files.Options{Create: true}, 0, 64<<10)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func TestBackendWithAJournal(t *testing.T) {
	backendtest.Run(t, func(t testing.TB) func() tidemark.Backend {
		dir := t.TempDir()
		return func() tidemark.Backend { return openAndJournal(t, dir) }
	})
}

func TestAStoreSaysThatItsJournalIsUsedUntilItIsEmpty(t *testing.T) {
	dir := t.TempDir()
	about := func() string {
		data, err := os.ReadFile(filepath.Join(dir, "tidemark.json"))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	b := openAndJournal(t, dir)
	if s := about(); !strings.Contains(s, `"version":2,`) {
		t.Errorf("before: %s", s)
	}
	keep(t, b, backendtest.NewRecord(sessA, 1, `{}`))
	if s := about(); !strings.Contains(s, `"version":130,`) || !strings.Contains(s, `"journal":"`) {
		t.Errorf("meanwhile: %s", s)
	}
	reader := open(t, dir, &files.Options{ReadOnly: true})
	if r, err := reader.Get(ctx, sessA); err != nil || r.Version != 1 {
		t.Errorf("who only reads: Get = %+v, %v", r, err)
	}
	for err := range reader.Check(ctx) {
		t.Errorf("Check: %v", err)
	}
	b.Close()
	if s := about(); !strings.Contains(s, `"version":2,`) || strings.Contains(s, "journal") {
		t.Errorf("afterwards: %s", s)
	}
}

func TestACommandThatChangesLittleUsesNoJournal(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir, &files.Options{Create: true})
	keep(t, b, backendtest.NewRecord(sessA, 1, `{}`), run(sessA, 1, 1))
	keep(t, b, backendtest.NewRecord(sessA, 2, `{}`))
	if _, err := os.Stat(filepath.Join(dir, "journal")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Stat of the journal = %v", err)
	}
}

func TestAPurgeLeavesNothingInTheJournal(t *testing.T) {
	dir := t.TempDir()
	b := openAndJournal(t, dir)
	const secret = "the very words"
	keep(t, b, backendtest.NewRecord(sessA, 1, `{"title":"`+secret+`"}`), run(sessA, 1, 3))
	keep(t, b, backendtest.NewRecord(sessB, 1, `{}`))
	if err := b.SyncBehind(ctx); err != nil {
		t.Fatal(err)
	}
	keep(t, b, backendtest.NewRecord(sessA, 2, `{"title":"`+secret+` again"}`))
	keep(t, b, tidemark.Precondition{Key: sessA, Version: 2}, sessA)
	err := filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(name)
		if bytes.Contains(data, []byte(secret)) {
			t.Errorf("%s has it", name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := b.Get(ctx, sessB); err != nil || r.Version != 1 {
		t.Errorf("Get = %+v, %v", r, err)
	}
}

// Each handle is a process as far as locks and files go.
func TestSeveralProcessesShareAJournal(t *testing.T) {
	dir := t.TempDir()
	one, other, late := openAndJournal(t, dir), openAndJournal(t, dir), open(t, dir, nil)
	for v := int64(1); v <= 90; v++ {
		keep(t, []*files.Backend{one, other, late}[v%3], backendtest.NewRecord(sessA, v, `{"text":"`+strings.Repeat("x", 1000)+`"}`), run(sessA, v, v))
		switch v {
		case 30:
			one.Close() // takes the mark away while others go on
			one = openAndJournal(t, dir)
		case 60:
			keep(t, other, run(sessB, 1, 2))
			keep(t, other, sessB)
		}
	}
	for _, b := range []*files.Backend{one, other, late} {
		if r, err := b.Get(ctx, sessA); err != nil || r.Version != 90 || r.Head.Length != 90 {
			t.Errorf("Get = %+v, %v", r, err)
		}
	}
	if _, err := one.Commit(ctx, batchOf(backendtest.NewRecord(sessA, 90, `{}`))); !errors.Is(err, tidemark.ErrConflict) {
		t.Errorf("Commit of an old version = %v, want ErrConflict", err)
	}
	for _, b := range []*files.Backend{late, other, one} {
		b.Close()
	}
	again := open(t, dir, nil)
	if seqs, damages := read(t, again, sessA); len(seqs) != 90 || damages != nil {
		t.Errorf("%d lines, %v", len(seqs), damages)
	}
	for err := range again.Check(ctx) {
		t.Errorf("Check: %v", err)
	}
}
