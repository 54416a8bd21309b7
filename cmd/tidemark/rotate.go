package main

import (
	"context"
	"errors"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/durable"
	"github.com/tidemark-sessions/tidemark/seal"
)

func keyRotateCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "rotate",
		Short: "Give the store another key",
		Long: `Makes another store key and wraps the key of every session in it; no entry is
rewritten. A store that a key file opened gets a new key file in its place; the
other slots stay as they are.

It can be interrupted, or killed, at any step: the store opens with the old or
the new key then, and rotate, run again, finishes.`,
		Example: "  tidemark key rotate",
		Args:    usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := a.sealedStore(cmd.Context(), writes)
			if err != nil {
				return err
			}
			h, err := b.Header(cmd.Context())
			if err != nil {
				return err
			}
			unlock, err := a.lockKeys(cmd.Context())
			if err != nil {
				return err
			}
			defer unlock()
			r := &rotation{app: a, header: h}
			if err := r.prepare(cmd.Context()); err != nil {
				return err
			}
			err = b.Rotate(cmd.Context(), seal.Rotation{New: r.slot, Keep: r.keep, Progress: func(n int) { a.progress("%d keys wrapped", n) }})
			a.progressDone()
			if err != nil {
				if r.fresh != "" && !r.used {
					err = errors.Join(err, removeKey(r.fresh)) // the old one still opens the store
				}
				return withHint(err, "the store opens as before, or with either key; run it again to finish")
			}
			return r.finish()
		},
	}
}

// lockKeys keeps two rotations of this user apart: both would put a key file
// into the place of the same one.
func (a *app) lockKeys(ctx context.Context) (unlock func(), err error) {
	dir, err := keyDir()
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

// openedLabel is what the slot that opened the store is called.
func openedLabel(h seal.Header) string {
	for _, s := range h.Slots {
		if s.Opened {
			return s.Label
		}
	}
	return ""
}

// rotation is the part of a rotation that has to do with key files. No key
// file is ever lost by it: the old one may open another store, or a copy of
// this one.
type rotation struct {
	*app
	header seal.Header
	slot   seal.NewSlot // zero: something else than a key file opened the store
	old    string       // the key file that opened it
	fresh  string       // the key file that was made
	named  bool         // fresh takes the name of the old one
	used   bool         // the store got the new key
}

// prepare makes the key file that takes the place of the one that opened the
// store, durable before the store knows of it.
func (r *rotation) prepare(ctx context.Context) (err error) {
	if r.old, err = r.ownKeyFile(r.header); err != nil || r.old == "" {
		return err
	}
	r.named = r.keySource().file != ""
	if r.named {
		contents, err := readKey(ctx, r.old)
		if err != nil {
			return err
		}
		if keysIn(contents) > 1 {
			return withHint(tidemark.Invalidf("%s holds other keys as well, which a rotation would take out of it", r.old), "give the store a key file of its own: tidemark key add --file FILE")
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

// keep is called when both keys open the store. A file with a name that people
// chose is put into its place, and the old one stays under the name of its
// slot.
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
		return err // one that is there already is the same key
	}
	return inKeyDir(r.fresh, func(dir durable.FS, base string) error {
		if err := dir.Rename(base, filepath.Base(r.old)); err != nil {
			return err
		}
		return durable.SyncDir(dir, ".")
	})
}

// aside is where the old key file stays.
func (r *rotation) aside() string {
	for _, s := range r.header.Slots {
		if s.Opened {
			return r.old + "." + s.ID
		}
	}
	return r.old + ".old"
}

// finish says where the key is, and takes a file away that was not needed: a
// rotation that was cut off, and was opened with its new key, needs no other.
func (r *rotation) finish() error {
	switch {
	case r.old == "":
		r.say("The store has another key. What opens it is what opened it before.")
	case !r.used:
		r.say("The rotation is finished. The key file is %s.", r.old)
		return removeKey(r.fresh)
	case r.named:
		r.say("The store has another key. The new key file is %s.\nThe old one is kept as %s: it opens copies that were made before, and other stores that it was given to.", r.old, r.aside())
	default:
		r.say("The store has another key. The new key file is %s.\nThe old one, %s, opens only copies that were made before: remove it when you need none of them.", r.fresh, r.old)
	}
	return nil
}
