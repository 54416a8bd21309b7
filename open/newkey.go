package open

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/durable"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/seal"
)

// newKey is the first slot of a store that is about to be created.
type newKey struct {
	slot seal.NewSlot
	made string // the key file made for it, "" if none
}

// undo removes a key file that newKeyFile made at its default place, if the store
// has no slot for it.
func (k newKey) undo(ctx context.Context, inner tidemark.Backend) {
	if k.made == "" || !strings.HasSuffix(k.made, k.slot.ID()+".key") {
		return
	}
	h, err := seal.Inspect(ctx, inner)
	if err == nil && !slices.ContainsFunc(h.Slots, func(s seal.Slot) bool { return s.ID == k.slot.ID() }) {
		removeKey(k.made)
	}
}

// reportKey calls KeyMade if a key file was made.
func (k *opener) reportKey(key newKey) {
	if key.made != "" {
		k.KeyMade(key.made)
	}
}

// newKey returns the slot for the given key, or makes a key file. The file is
// durable before the store knows of it: a store whose key was lost in a power
// cut would be lost, too.
func (k *opener) newKey(ctx context.Context) (made newKey, err error) {
	src := k.key()
	if !src.given() {
		return k.newKeyFile("")
	}
	if k.given != nil {
		return *k.given, nil
	}
	if src.File != "" {
		// With the lock, one of several processes makes the file, and the others
		// never read a part of it.
		unlock, err := k.lockKeys(ctx)
		if err != nil {
			return made, err
		}
		defer unlock()
	}
	contents, err := k.read(ctx, src)
	if errors.Is(err, fs.ErrNotExist) && src.File != "" {
		return k.newKeyFile(src.File)
	}
	if err == nil {
		made.slot, err = src.slot(contents)
	}
	return made, err
}

// slot returns the slot for the given key in a new store.
func (k Key) slot(contents []byte) (seal.NewSlot, error) {
	if k.PassphraseFile != "" {
		return seal.PassphraseSlot("", contents, nil)
	}
	return seal.FileSlot("", contents)
}

// readGivenKey reads the given key for a new store before that is created.
// A missing key file is made with the store.
func (k *opener) readGivenKey(ctx context.Context) error {
	src := k.key()
	if !src.given() {
		return nil
	}
	contents, err := k.read(ctx, src)
	if errors.Is(err, fs.ErrNotExist) && src.File != "" {
		return nil
	}
	if src.File != "" && err == nil && len(contents) == 0 {
		return nil // another process is making it: newKey waits for that
	}
	var given newKey
	if err == nil {
		given.slot, err = src.slot(contents)
	}
	if err == nil && src.File == "" {
		k.given = &given // so that no command or person is asked for it twice
	}
	return err
}

// newKeyFile makes a key file; an empty name means the default place.
func (k *opener) newKeyFile(name string) (key newKey, err error) {
	contents := seal.NewKeyFile()
	if key.slot, err = seal.FileSlot("", contents); err != nil {
		return key, err
	}
	if name == "" {
		dir, err := KeyDir(k.Environ)
		if err != nil {
			return key, err
		}
		name = filepath.Join(dir, key.slot.ID()+".key")
	}
	key.made = name
	return key, writeKey(name, contents)
}

// FileSlot is the slot of a key file, which is created if it does not exist.
func FileSlot(ctx context.Context, name, label string) (seal.NewSlot, error) {
	contents, err := readKey(ctx, name)
	missing := errors.Is(err, fs.ErrNotExist)
	if missing {
		contents, err = seal.NewKeyFile(), nil
	}
	if err != nil {
		return seal.NewSlot{}, err
	}
	slot, err := seal.FileSlot(label, contents)
	if err == nil && missing {
		err = writeKey(name, contents)
	}
	return slot, err
}

// MakeSealed creates a new, empty, encrypted store and returns its header. The
// store gets the slots that slots returns; if slots is nil, one for the key of the
// options, or for a new key file. ErrExists: it is encrypted already; ErrInvalid:
// it contains something that is not encrypted.
func MakeSealed(ctx context.Context, url string, o *Options, slots func(context.Context) ([]seal.NewSlot, error)) (h seal.Header, err error) {
	k := newOpener(o)
	k.url, k.Access = url, Create
	var all []seal.NewSlot
	if slots == nil {
		err = k.checkBeforeCreate(ctx)
	} else if IsAbsent(url) { // first, so that an invalid key leaves no store behind
		all, err = slots(ctx)
	}
	if err != nil {
		return h, err
	}
	inner, err := Backend(ctx, url, &k.Options)
	if err != nil {
		return h, err
	}
	defer inner.Close()
	sealed, err := seal.IsSealed(ctx, inner)
	if err != nil {
		return h, err
	}
	if sealed {
		return h, hint.With(fmt.Errorf("the store %s is encrypted already: %w", url, tidemark.ErrExists), "tidemark key show")
	}
	var key newKey
	if slots == nil {
		if key, err = k.newKey(ctx); err == nil {
			all = []seal.NewSlot{key.slot}
		}
	} else if all == nil {
		all, err = slots(ctx)
	}
	if err != nil {
		return h, err
	}
	b, err := k.create(ctx, inner, key, all...)
	if err != nil {
		key.undo(ctx, inner)
		if errors.Is(err, tidemark.ErrInvalid) {
			err = hint.With(err, "copy it into an encrypted one with: tidemark migrate --to sqlite:PATH")
		}
		return h, err
	}
	return b.Header(ctx)
}

// create encrypts a new store with the slots that are wanted, and with those that the
// policy of this machine adds, and reports both.
func (k *opener) create(ctx context.Context, inner tidemark.Backend, key newKey, slots ...seal.NewSlot) (*seal.Backend, error) {
	policy, err := PolicyOf(k.Environ)
	if err != nil {
		return nil, err
	}
	escrow, err := policy.slots()
	if err != nil {
		return nil, err
	}
	b, err := seal.Create(ctx, inner, append(slots, escrow...)...)
	if err != nil {
		return nil, err
	}
	k.reportKey(key)
	if len(escrow) > 0 {
		k.Escrowed(policy.Organisation)
	}
	return b, nil
}

// writeKey creates a key file, durable when it returns.
func writeKey(name string, contents []byte) error {
	return inKeyDir(name, func(dir durable.FS, base string) error {
		if err := durable.Create(dir, base, contents); err != nil {
			return err
		}
		return durable.SyncDir(dir, ".")
	})
}

func removeKey(name string) error {
	return inKeyDir(name, func(dir durable.FS, base string) error {
		if err := dir.Remove(base); err != nil {
			return err
		}
		return durable.SyncDir(dir, ".")
	})
}

func inKeyDir(name string, change func(durable.FS, string) error) error {
	full, err := filepath.Abs(name)
	if err != nil {
		return tidemark.Invalidf("key file %s: %w", name, err)
	}
	// MakeDir would also narrow the mode of an existing folder, which may hold
	// other things.
	if _, err := os.Stat(filepath.Dir(full)); errors.Is(err, fs.ErrNotExist) {
		if err := durable.MakeDir(filepath.Dir(full)); err != nil {
			return tidemark.Storagef("key file %s: %w", name, err)
		}
	}
	dir, err := durable.OpenDir(filepath.Dir(full))
	if err != nil {
		return tidemark.Storagef("key file %s: %w", name, err)
	}
	defer dir.Close()
	switch err := change(dir, filepath.Base(full)); {
	case errors.Is(err, fs.ErrExist):
		return tidemark.Invalidf("key file %s: is there already", name)
	case err != nil:
		return tidemark.Storagef("key file %s: %w", name, err)
	}
	return nil
}
