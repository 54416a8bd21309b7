package transfer

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/durable"
)

// ToFile gives write a file that gets its name only when it is complete.
// It refuses to overwrite the store at url itself.
func ToFile(name, url string, write func(io.Writer) error) error {
	full, err := filepath.Abs(name)
	if err != nil {
		return tidemark.Invalidf("%s: %w", name, err)
	}
	i, err := os.Stat(full)
	if err == nil && !i.Mode().IsRegular() {
		return tidemark.Invalidf("%s: is not a file", name)
	}
	if err := notTheStore(full, url, i); err != nil {
		return err
	}
	dir, err := durable.OpenDir(filepath.Dir(full))
	if err != nil {
		return tidemark.Storagef("%s: %w", name, err)
	}
	defer dir.Close()
	base := filepath.Base(full)
	var failed error // keeps its own kind, apart from storage errors
	var disk *diskWriter
	err = durable.Stream(dir, fmt.Sprintf(".%s.%d.tmp", base, os.Getpid()), base, func(w io.Writer) error {
		disk = &diskWriter{w: w}
		failed = write(disk)
		return failed
	})
	if err != nil && (failed == nil || disk.err != nil) {
		return tidemark.Storagef("%s: %w", name, err)
	}
	return failed
}

// notTheStore refuses to overwrite the store itself.
func notTheStore(file, url string, is os.FileInfo) error {
	scheme, at, _ := strings.Cut(url, ":")
	at, err := filepath.Abs(at)
	if err != nil {
		return err
	}
	inside := scheme == "files" && strings.HasPrefix(file, at+string(filepath.Separator))
	for _, end := range []string{"", "-wal", "-shm", "-journal", ".lock"} {
		if store, err := os.Stat(at + end); err == nil && scheme == "sqlite" && is != nil && os.SameFile(store, is) {
			inside = true
		}
	}
	if inside {
		return tidemark.Invalidf("%s: is a part of the store itself", file)
	}
	return nil
}

// diskWriter distinguishes errors of the disk from those of the content.
type diskWriter struct {
	w   io.Writer
	err error
}

func (d *diskWriter) Write(p []byte) (int, error) {
	n, err := d.w.Write(p)
	if err != nil {
		d.err = err
	}
	return n, err
}
