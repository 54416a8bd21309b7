package open

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/seal"
)

// Unseal opens a sealed store, seals an empty one when Access is Create, and returns
// a plain one unchanged. Closing the result closes inner.
func Unseal(ctx context.Context, inner tidemark.Backend, o *Options) (tidemark.Backend, error) {
	return newOpener(o).unseal(ctx, inner)
}

func (k *opener) unseal(ctx context.Context, inner tidemark.Backend) (tidemark.Backend, error) {
	if _, ok := inner.(*memory.Backend); ok {
		return inner, nil // it never leaves this process
	}
	sealed, err := seal.IsSealed(ctx, inner)
	if err != nil {
		return nil, err
	}
	switch {
	case sealed && k.Plain:
		return nil, hint.With(tidemark.Invalidf("the store %s is encrypted, and stays so", k.url),
			"copy it into a plain one with: tidemark migrate --to sqlite:PATH --no-encrypt")
	case sealed:
		return k.openSealed(ctx, inner)
	}
	fresh, err := IsEmpty(ctx, inner)
	if err == nil && !fresh {
		// Another process may have sealed it between the two checks. A store is
		// sealed before anything else is written to it, so this check is final.
		if sealed, err = seal.IsSealed(ctx, inner); sealed {
			return k.unseal(ctx, inner)
		}
	}
	switch {
	case err != nil:
		return nil, err
	case fresh && k.Access == Create && !k.Plain:
		return k.seal(ctx, inner)
	case fresh && k.Access == Create:
		err := seal.KeepPlain(ctx, inner)
		if errors.Is(err, tidemark.ErrExists) {
			return k.unseal(ctx, inner) // another process was faster
		}
		return inner, err
	case !fresh && k.key().given():
		return nil, hint.With(tidemark.Invalidf("%s: the store is not encrypted", k.key().Origin),
			"copy it into an encrypted one with: tidemark migrate --to sqlite:PATH")
	}
	return inner, nil
}

// openSealed opens a sealed store with the given key, or with the files in
// the key folder.
func (k *opener) openSealed(ctx context.Context, inner tidemark.Backend) (tidemark.Backend, error) {
	header, err := seal.Inspect(ctx, inner)
	if err != nil {
		return nil, err
	}
	unlockers, err := k.unlockers(ctx, header)
	if err != nil {
		return nil, err
	}
	b, err := seal.Open(ctx, inner, unlockers...)
	if err != nil {
		return nil, k.sealedHint(err, header)
	}
	return b, nil
}

// sealedHint says which key is missing.
func (k *opener) sealedHint(err error, h seal.Header) error {
	if !errors.Is(err, tidemark.ErrSealed) {
		return err
	}
	if dir, dirErr := KeyDir(k.Environ); dirErr == nil && !k.key().given() {
		for _, s := range h.Slots {
			if s.Type == seal.TypeFile {
				return hint.With(err, "put its key file at %s, or name it with --key-file", filepath.Join(dir, s.ID+".key"))
			}
		}
	}
	return hint.With(err, "name another one with --key-file, $TIDEMARK_KEY_COMMAND or $TIDEMARK_PASSPHRASE_FILE; a recovery key in a file is a key file")
}

// unlockers returns what may open the store: the given key, or else the files in
// the key folder, or else a passphrase that a person is asked for.
func (k *opener) unlockers(ctx context.Context, h seal.Header) ([]seal.Unlocker, error) {
	if src := k.key(); src.given() {
		u, err := k.unlocker(ctx, src)
		return []seal.Unlocker{u}, err
	}
	var all []seal.Unlocker
	hasPassphrase := false
	dir, err := KeyDir(k.Environ)
	if err != nil {
		return nil, err
	}
	// Newest first, so that an interrupted rotation continues with its new key.
	for _, s := range slices.Backward(h.Slots) {
		hasPassphrase = hasPassphrase || s.Type == seal.TypePassphrase
		if s.Type != seal.TypeFile {
			continue
		}
		contents, err := readKey(ctx, filepath.Join(dir, s.ID+".key"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		u, err := seal.KeyFile(contents)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Join(dir, s.ID+".key"), err)
		}
		all = append(all, u)
	}
	if len(all) == 0 && hasPassphrase {
		p, err := k.Ask(ctx, "Passphrase: ")
		if err != nil {
			return nil, err
		}
		if p != nil {
			all = append(all, seal.Passphrase(p))
		}
	}
	return all, nil
}

// seal encrypts a new store.
func (k *opener) seal(ctx context.Context, inner tidemark.Backend) (tidemark.Backend, error) {
	key, err := k.newKey(ctx)
	if err != nil {
		return nil, err
	}
	b, err := k.create(ctx, inner, key, key.slot)
	if err == nil {
		return b, nil
	}
	key.undo(ctx, inner)
	if errors.Is(err, tidemark.ErrExists) {
		return k.openSealed(ctx, inner) // another process was faster
	}
	return nil, err
}
