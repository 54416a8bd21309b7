package files

import (
	"bytes"
	"errors"
	"os"

	"github.com/tidemark-sessions/tidemark/internal/durable"
)

// The reserve is a file that only occupies space. On a full disk it is given up,
// so that changes that free space (moving to the trash, a purge) can still be
// written; it is filled again as soon as there is space. Appends do not use it.
const (
	reserveFile  = locksDir + "/reserve"
	reserveBytes = 64 << 10
)

func (b *Backend) fillReserve() error {
	f, err := b.fs.OpenFile(reserveFile, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return err
	}
	defer f.Close()
	// A partial reserve is better than none.
	chunk := bytes.Repeat([]byte("reserve\n"), 4096/8)
	for at := int64(0); at < reserveBytes && err == nil; at += int64(len(chunk)) {
		_, err = f.WriteAt(chunk, at)
	}
	return errors.Join(err, f.Sync()) // allocates the space now, not when the system gets round to it
}

// withReserve runs work; if there is no space for it, it gives up the reserve
// and runs it again. Work that found no space has changed nothing.
func (b *Backend) withReserve(work func() error) error {
	err := work()
	var (
		sync  *durable.SyncError
		stuck *stuckError
	)
	if err == nil || !durable.IsFull(err) || errors.As(err, &sync) || errors.As(err, &stuck) {
		return err
	}
	f, ferr := b.fs.OpenFile(reserveFile, os.O_RDWR)
	if ferr != nil {
		return err
	}
	defer f.Close()
	if info, serr := f.Stat(); serr != nil || info.Size == 0 || f.Truncate(0) != nil || f.Sync() != nil {
		return err
	}
	err = work()
	b.fillReserve() // a record that replaced another one freed its space
	return err
}
