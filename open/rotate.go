package open

import (
	"context"
	"errors"
	"path/filepath"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/durable"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/seal"
)

// Rotated is what a rotation did to the key file that opened the store.
type Rotated struct {
	// KeyFile is the key file that opens the store from now on. Old is where the
	// previous one is kept, which opens earlier copies of the store. Both are ""
	// when something other than a key file opened the store.
	KeyFile, Old string
	// Named means that KeyFile has a name that a person chose, so that the old
	// file had to be moved.
	Named bool
	// Finished means that an interrupted rotation was finished: no new key file
	// was needed.
	Finished bool
}

// Rotate gives the store another key and rewraps the key of every session in it;
// no entry is rewritten. A store that a key file opened gets a new key file in
// its place; the other slots stay. It can be killed at any step: the store then
// opens with the old or the new key, and another call of Rotate finishes it.
// progress is called with the number of keys that are rewrapped so far.
func Rotate(ctx context.Context, b *seal.Backend, o *Options, progress func(int)) (Rotated, error) {
	k := newOpener(o)
	h, err := b.Header(ctx)
	if err != nil {
		return Rotated{}, err
	}
	unlock, err := k.lockKeys(ctx)
	if err != nil {
		return Rotated{}, err
	}
	defer unlock()
	r := &rotation{opener: k, header: h}
	if err := r.prepare(ctx); err != nil {
		return Rotated{}, err
	}
	if err := b.Rotate(ctx, seal.Rotation{New: r.slot, Keep: r.keep, Progress: progress}); err != nil {
		if r.fresh != "" && !r.used {
			err = errors.Join(err, removeKey(r.fresh)) // the old one still opens the store
		}
		return Rotated{}, hint.With(err, "the store opens as before, or with either key; run it again to finish")
	}
	return r.finish()
}

// lockKeys locks the key folder of this user, so that two rotations do not replace
// the same key file.
func (k *opener) lockKeys(ctx context.Context) (unlock func(), err error) {
	dir, err := KeyDir(k.Environ)
	if err != nil {
		return nil, err
	}
	if err := durable.MakeDir(dir); err != nil {
		return nil, tidemark.Storagef("%s: %w", dir, err)
	}
	lock, err := durable.OpenLock(filepath.Join(dir, "rotate.lock"))
	if err != nil {
		return nil, tidemark.Storagef("%s: %w", dir, err)
	}
	if err := lock.Acquire(ctx); err != nil {
		return nil, err
	}
	return func() {
		lock.Release()
		lock.Close()
	}, nil
}

// openedLabel is the label of the slot that opened the store.
func openedLabel(h seal.Header) string {
	for _, s := range h.Slots {
		if s.Opened {
			return s.Label
		}
	}
	return ""
}

// rotation is the part of a rotation that handles key files. It never deletes an
// old key file: that may open another store, or a copy of this one.
type rotation struct {
	*opener
	header seal.Header
	slot   seal.NewSlot // zero: something other than a key file opened the store
	old    string       // the key file that opened it
	fresh  string       // the new key file
	named  bool         // fresh takes the name of the old one
	used   bool         // the store got the new key
}

// prepare creates the key file that replaces the one that opened the store. It is
// durable before the store gets a slot for it.
func (r *rotation) prepare(ctx context.Context) (err error) {
	if r.old, err = r.ownKeyFile(r.header); err != nil || r.old == "" {
		return err
	}
	r.named = r.key().File != ""
	if r.named {
		contents, err := readKey(ctx, r.old)
		if err != nil {
			return err
		}
		if keysIn(contents) > 1 {
			return hint.With(tidemark.Invalidf("%s holds other keys as well, which a rotation would take out of it", r.old), "give the store a key file of its own: tidemark key add --file FILE")
		}
	}
	contents := seal.NewKeyFile()
	if r.slot, err = seal.FileSlot(openedLabel(r.header), contents); err != nil {
		return err
	}
	r.fresh = filepath.Join(filepath.Dir(r.old), r.slot.ID()+".key")
	if r.named {
		r.fresh = r.old + "." + r.slot.ID()
	}
	return writeKey(r.fresh, contents)
}

// keysIn counts the lines of a key file that are keys.
func keysIn(contents []byte) (n int) {
	for line := range strings.Lines(string(contents)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			n++
		}
	}
	return n
}

// keep is called when both keys open the store. If a person chose the name of the
// key file, the new file takes that name, and the old one is kept with the id of its
// slot appended to the name.
func (r *rotation) keep(ctx context.Context) error {
	r.used = true
	if !r.named {
		return nil
	}
	contents, err := readKey(ctx, r.old)
	if err != nil {
		return err
	}
	aside := r.aside()
	if err := writeKey(aside, contents); err != nil && !errors.Is(err, tidemark.ErrInvalid) {
		return err // an existing one holds the same key
	}
	return inKeyDir(r.fresh, func(dir durable.FS, base string) error {
		if err := dir.Rename(base, filepath.Base(r.old)); err != nil {
			return err
		}
		return durable.SyncDir(dir, ".")
	})
}

// aside is the name under which the old key file is kept.
func (r *rotation) aside() string {
	for _, s := range r.header.Slots {
		if s.Opened {
			return r.old + "." + s.ID
		}
	}
	return r.old + ".old"
}

// finish returns where the keys are. It removes the prepared key file if that was
// not needed: a store that its new key opened only finishes an interrupted
// rotation.
func (r *rotation) finish() (Rotated, error) {
	switch {
	case r.old == "":
		return Rotated{}, nil
	case !r.used:
		return Rotated{KeyFile: r.old, Finished: true}, removeKey(r.fresh)
	case r.named:
		return Rotated{KeyFile: r.old, Old: r.aside(), Named: true}, nil
	}
	return Rotated{KeyFile: r.fresh, Old: r.old}, nil
}

// ownKeyFile is the name of the key file that opened the store, "" when
// something else did.
func (k *opener) ownKeyFile(h seal.Header) (string, error) {
	for _, s := range h.Slots {
		if !s.Opened || s.Type != seal.TypeFile {
			continue
		}
		switch src := k.key(); {
		case src.File != "":
			return src.File, nil
		case !src.given():
			dir, err := KeyDir(k.Environ)
			return filepath.Join(dir, s.ID+".key"), err
		}
	}
	return "", nil
}
