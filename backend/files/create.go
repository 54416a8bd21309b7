package files

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"slices"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/durable"
)

const (
	formatName    = "tidemark-files"
	formatVersion = 1
)

// about is what the file tidemark.json says. It is written last when a store
// is made: a directory without it is not a store yet.
type about struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	Store   string `json:"store"` // drawn once; tells copies of stores apart from other stores
}

func (b *Backend) readStore() error {
	data, err := durable.ReadFile(b.fs, storeFile)
	if errors.Is(err, fs.ErrNotExist) {
		return noStore(b.dir)
	}
	if err != nil {
		return storeError(b.dir, err)
	}
	var a about
	if err := json.Unmarshal(data, &a); err != nil || a.Format != formatName || a.Version < 1 {
		return kind(tidemark.ErrCorrupt, "store %s: %s does not describe a store of files", b.dir, storeFile)
	}
	if a.Version > formatVersion {
		return kind(tidemark.ErrUnsupported, "store %s: has format %d and this program knows %d: use a newer program", b.dir, a.Version, formatVersion)
	}
	return nil
}

// create makes the store. Of two processes that do so at once, one does it
// and the other finds it; what a crash left half made is completed.
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
	if err := b.readStore(); !errors.Is(err, tidemark.ErrNoStore) {
		return err
	}
	var id [16]byte
	rand.Read(id[:])
	data, err := json.Marshal(about{formatName, formatVersion, hex.EncodeToString(id[:])})
	if err != nil {
		return err
	}
	if err := b.sweep(); err != nil {
		return storeError(b.dir, err)
	}
	if err := b.fillReserve(); err != nil {
		return storeError(b.dir, err)
	}
	// The folders first: what says that this is a store must not outlive them.
	if err := durable.SyncDir(b.fs, "."); err != nil {
		return storeError(b.dir, err)
	}
	if err := durable.Replace(b.fs, b.tmpName(), storeFile, append(data, '\n')); err != nil {
		return storeError(b.dir, err)
	}
	return nil
}
