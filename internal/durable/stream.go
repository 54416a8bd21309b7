package durable

import (
	"bufio"
	"errors"
	"io"
	"os"
	"path"
)

// streamBuffer is how much is buffered before it is written.
const streamBuffer = 256 << 10

// Stream writes the output of write to tmp and then replaces name with it, as
// Replace does: after a crash or an error, name is unchanged.
func Stream(fsys FS, tmp, name string, write func(io.Writer) error) error {
	f, err := fsys.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return err
	}
	err = func() error {
		defer f.Close()
		w := bufio.NewWriterSize(io.NewOffsetWriter(f, 0), streamBuffer)
		if err := write(w); err != nil {
			return err
		}
		if err := w.Flush(); err != nil {
			return err
		}
		return SyncFile(f, tmp)
	}()
	if err == nil {
		err = fsys.Rename(tmp, name)
	}
	if err != nil {
		return errors.Join(err, fsys.Remove(tmp))
	}
	return SyncDir(fsys, path.Dir(name))
}
