package files

import (
	"errors"
	"io/fs"
	"os"

	"github.com/tidemark-sessions/tidemark/internal/durable"
)

// wipeBytes is how much of a file is overwritten at once.
const wipeBytes = 256 << 10

// wipe overwrites a file that is about to be removed, so that its freed blocks
// do not hold the content: for a purged session, above all its data key. A
// copy-on-write file system may have no space for that; the file is then
// removed anyway.
func (b *Backend) wipe(name string) error {
	f, err := b.fs.OpenFile(name, os.O_RDWR)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode.IsRegular() {
		return err
	}
	zeros := make([]byte, min(info.Size, wipeBytes))
	for at := int64(0); at < info.Size; at += int64(len(zeros)) {
		if _, err := f.WriteAt(zeros[:min(int64(len(zeros)), info.Size-at)], at); durable.IsFull(err) {
			return nil
		} else if err != nil {
			return err
		}
	}
	if err := f.Sync(); err != nil && !durable.IsFull(err) {
		return &durable.SyncError{Name: name, Err: err}
	}
	return nil
}
