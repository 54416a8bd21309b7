package durable

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestWhatLiesBesideACopyIsNotTakenForOne(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "store.db")
	const first, second = "store.db.bak-v1-20260101T000000Z", "store.db.bak-v2-20260102T000000Z"
	for _, name := range []string{first, first + "-shm", first + "-wal", first + ".lock", first + ".bak-v1-20260301T000000Z",
		second, second + "-2", second + "-10", "store.db.bak-v3-20260103T000000Z", "store.db.bak-v2-mine"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for known, want := range map[int64]string{0: "", 1: first, 2: second + "-10"} {
		if want != "" {
			want = filepath.Join(dir, want)
		}
		if got := LastBackup(path, known); got != want {
			t.Errorf("up to format %d: %q, want %q", known, got, want)
		}
	}
}

func TestANameForACopyIsFoundWhereNoneFits(t *testing.T) {
	dir, err := OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	base := strings.Repeat("a", 250)
	if name := BackupName(dir, base, 1, time.Unix(0, 0)); !strings.HasPrefix(name, base) {
		t.Error(name)
	}
}
