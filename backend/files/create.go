package files

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/durable"
)

const formatName = "tidemark-files"

// readStore reads the description of the store, and refuses a format that this
// program does not know.
func (b *Backend) readStore() (about, error) {
	b.about.Lock()
	defer b.about.Unlock()
	return b.readAbout()
}

// readAbout is readStore for a caller that holds b.about.
func (b *Backend) readAbout() (about, error) {
	info, err := b.fs.Stat(storeFile)
	var data []byte
	if err == nil {
		data, err = durable.ReadFile(b.fs, storeFile)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return about{}, noStore(b.dir)
	}
	if err != nil {
		return about{}, storeError(b.dir, err)
	}
	var a about
	if err := json.Unmarshal(data, &a); err != nil || a.Format != formatName || a.Version < 1 || a.From < 0 || a.From > a.Version {
		return about{}, tidemark.Errorf(tidemark.ErrCorrupt, "store %s: %s does not describe a store of files", b.dir, storeFile)
	}
	a.unmark()
	if a.Version > b.set.format() {
		newer := &tidemark.NewerError{What: "store " + b.dir, Format: int64(a.Version), Known: int64(b.set.format())}
		newer.Backup = durable.LastBackup(filepath.Clean(b.dir), newer.Known)
		return about{}, newer
	}
	b.seen.Store(&info)
	b.marked.Store(a.mark())
	return a, nil
}

// create makes the store. If two processes do so at once, one makes it and the
// other finds it made; a store left half made by a crash is completed.
func (b *Backend) create(ctx context.Context) error {
	names, err := b.fs.Names(".")
	if err != nil {
		return storeError(b.dir, err)
	}
	for _, n := range names {
		if !slices.Contains(folders, n) && n != storeFile {
			return tidemark.Invalidf("%s: holds %q and no store: give a new or an empty directory", b.dir, n)
		}
	}
	for _, folder := range folders {
		if err := b.fs.Mkdir(folder); err != nil && !errors.Is(err, fs.ErrExist) {
			return storeError(b.dir, err)
		}
	}
	unlock, err := b.takeAll(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := b.readStore(); !errors.Is(err, tidemark.ErrNoStore) {
		return err
	}
	var id [16]byte
	rand.Read(id[:])
	if err := b.sweep(); err != nil {
		return storeError(b.dir, err)
	}
	if err := b.fillReserve(); err != nil {
		return storeError(b.dir, err)
	}
	// The folders first: the file that marks the store must not outlive them.
	if err := durable.SyncDir(b.fs, "."); err != nil {
		return storeError(b.dir, err)
	}
	if err := b.tell(about{Format: formatName, Version: b.set.format(), Store: hex.EncodeToString(id[:])}); err != nil {
		return storeError(b.dir, err)
	}
	return nil
}
