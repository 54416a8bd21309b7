package main

import (
	"context"
	"path/filepath"

	"github.com/spf13/cobra"

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
			r := seal.Rotation{Progress: func(n int) { a.progress("%d keys wrapped", n) }}
			done, err := a.replaceKeyFile(h, &r)
			if err != nil {
				return err
			}
			if err := b.Rotate(cmd.Context(), r); err != nil {
				return err
			}
			a.progressDone()
			done()
			return nil
		},
	}
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

// replaceKeyFile makes the key file that takes the place of the one that
// opened the store. In the folder of keys it has a name of its own, so that
// both are there until the store needs only the new one; elsewhere it takes
// the name of the old one. A rotation that was cut off and is opened with its
// new key file needs none.
func (a *app) replaceKeyFile(h seal.Header, r *seal.Rotation) (done func(), err error) {
	name, err := a.ownKeyFile(h)
	if name == "" || err != nil {
		return func() { a.say("The store has another key. What opens it is what opened it before.") }, err
	}
	contents := seal.NewKeyFile()
	if r.New, err = seal.FileSlot(openedLabel(h), contents); err != nil {
		return nil, err
	}
	if a.keySource().file != "" {
		next := name + ".new"
		err := inKeyDir(next, func(dir durable.FS, base string) error {
			return durable.Replace(dir, "."+base+".tmp", base, contents)
		})
		r.Keep = func(context.Context) error {
			return inKeyDir(next, func(dir durable.FS, base string) error {
				if err := dir.Rename(base, filepath.Base(name)); err != nil {
					return err
				}
				return durable.SyncDir(dir, ".")
			})
		}
		return func() { a.say("The store has another key. The new key file is %s.", name) }, err
	}
	fresh := filepath.Join(filepath.Dir(name), r.New.ID()+".key")
	if err := writeKey(fresh, contents); err != nil {
		return nil, err
	}
	return func() {
		a.say("The store has another key. The new key file is %s.\nThe old one, %s, opens only copies that were made before: remove it when you need none of them.", fresh, name)
	}, nil
}
