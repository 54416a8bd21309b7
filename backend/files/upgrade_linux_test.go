package files

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/durable"
)

func TestFullDiskKeepsTheStoreFromBeingUpgraded(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("mounting needs root")
	}
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("cannot mount here: %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(disk, syscall.MNT_DETACH) })
	dir := filepath.Join(disk, "store")
	b := old(t, dir, 1)
	big := tidemark.Record{Key: tidemark.Key{Kind: "session", ID: "big"}, Version: 1, Body: make([]byte, 400<<10)}
	big.Sum = big.Checksum()
	if _, err := b.Commit(t.Context(), tidemark.Batch{ID: tidemark.NewBatchID(), At: then, Puts: []tidemark.Record{big}}); err != nil {
		t.Fatal(err)
	}
	b.Close()
	before := contents(t, disk)
	step := func(durable.FS) error { t.Error("the upgrade began"); return nil }
	if _, err := open(t.Context(), dir, nil, later(step)); !errors.Is(err, tidemark.ErrStorage) || !durable.IsFull(err) {
		t.Errorf("Open = %v, want ErrStorage for a full disk", err)
	}
	after := contents(t, disk)
	for name, text := range before {
		if after[name] != text {
			t.Errorf("%s was changed", name)
		}
	}
	whole(t, dir, here, 1)
}
