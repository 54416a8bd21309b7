package crashfs_test

import (
	"os"
	"testing"

	"github.com/tidemark-sessions/tidemark/internal/durable"
	"github.com/tidemark-sessions/tidemark/internal/durable/crashfs"
)

func TestACutKeepsWhatWasSyncedAndNoMoreThanWasWritten(t *testing.T) {
	disk := crashfs.New()
	f, err := disk.OpenFile("a", os.O_RDWR|os.O_CREATE)
	if err != nil {
		t.Fatal(err)
	}
	f.WriteAt([]byte("kept"), 0)
	f.Sync()
	if _, err := durable.ReadFile(disk.Cut(crashfs.Loss{}, 0), "a"); err == nil {
		t.Error("a name that was not synced survived")
	}
	disk.SyncDir(".")
	f.WriteAt([]byte(" and more"), 4)
	lengths := map[int]bool{}
	for seed := range uint64(200) {
		for _, loss := range crashfs.Losses {
			got, err := durable.ReadFile(disk.Cut(loss, seed), "a")
			if err != nil || string(got) != "kept and more"[:len(got)] || len(got) < 4 {
				t.Fatalf("%v: %q, %v", loss, got, err)
			}
			lengths[len(got)] = true
		}
	}
	if len(lengths) != 10 {
		t.Errorf("the write was torn at %d places, want every one", len(lengths))
	}
}

func TestOneSeedMeansOneState(t *testing.T) {
	disk := crashfs.New()
	for _, name := range []string{"a", "b", "c"} {
		f, err := disk.OpenFile(name, os.O_RDWR|os.O_CREATE)
		if err != nil {
			t.Fatal(err)
		}
		f.WriteAt(make([]byte, 3000), 0)
	}
	for seed := range uint64(50) {
		for _, loss := range crashfs.Losses {
			once, again := disk.Cut(loss, seed).Hash(nil), disk.Cut(loss, seed).Hash(nil)
			if once != again {
				t.Fatalf("seed %d, %v: two states", seed, loss)
			}
		}
	}
}
