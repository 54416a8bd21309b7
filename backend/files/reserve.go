package files

import (
	"bytes"
	"errors"
	"os"

	"github.com/tidemark-sessions/tidemark/internal/durable"
)

// The reserve is a file that holds room. On a full disk it is given up, so
// that what frees room (the trash, a purge) can still be written down; it is
// filled again when there is room. Appends do not touch it.
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
	if _, err := f.WriteAt(bytes.Repeat([]byte("reserve\n"), reserveBytes/8), 0); err != nil {
		return err
	}
	return f.Sync() // takes the room now, not when the system gets round to it
}

// withReserve runs work, and when there is no room for it gives up the reserve
// and runs it again. Work that found no room has changed nothing.
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
	return work()
}
