package open

import (
	"bytes"
	"context"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/seal"
)

// NewSlots describes the slots that a store is to get.
type NewSlots struct {
	Passphrase bool     // typed by a person, or read from a file
	Recipients []string // of age
	File       string   // a key file, created if it does not exist
	Label      string
}

// None reports whether no slot is requested.
func (n *NewSlots) None() bool { return !n.Passphrase && len(n.Recipients) == 0 && n.File == "" }

// Make makes the slots. A passphrase is read from the file that environ names, or
// else asked for with ask, which is like Options.Ask.
func (n *NewSlots) Make(ctx context.Context, environ []string, ask func(ctx context.Context, prompt string) ([]byte, error)) ([]seal.NewSlot, error) {
	var all []seal.NewSlot
	if len(n.Recipients) > 0 {
		s, err := seal.AgeSlot(n.Label, n.Recipients...)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	if n.Passphrase {
		p, err := newPassphrase(ctx, environ, ask)
		if err != nil {
			return nil, err
		}
		s, err := seal.PassphraseSlot(n.Label, p, nil)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	if n.File != "" { // last, so that no file is created if another slot is invalid
		s, err := FileSlot(ctx, n.File, n.Label)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// newPassphrase reads the passphrase from the file that environ names, or else asks
// for it twice.
func newPassphrase(ctx context.Context, environ []string, ask func(ctx context.Context, prompt string) ([]byte, error)) ([]byte, error) {
	if file := Getenv(environ, PassphraseVariable); file != "" {
		return ReadPassphrase(ctx, file)
	}
	first, err := ask(ctx, "New passphrase: ")
	if err != nil {
		return nil, err
	}
	if first == nil {
		return nil, hint.With(tidemark.Invalidf("there is no terminal to ask for a passphrase"), "put it into a file of mode 0600 and name it in $TIDEMARK_PASSPHRASE_FILE")
	}
	again, err := ask(ctx, "Once more: ")
	if err == nil && !bytes.Equal(first, again) {
		err = tidemark.Invalidf("the two passphrases differ")
	}
	return first, err
}
