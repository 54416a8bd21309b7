package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/seal"
)

func keyCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "key",
		Short: "The keys of an encrypted store",
		Long: `A store is encrypted with a key of its own. What opens that key are slots: a key
file, a passphrase, age identities, a recovery key on paper. Each of them opens
the whole store; slots can be added and removed at any time.`,
		Example: "  tidemark key show\n  tidemark key export-recovery\n  tidemark key add --passphrase\n  tidemark key rotate",
		Args:    usage(cobra.NoArgs),
		RunE:    help,
	}
	cmd.AddCommand(keyInitCommand(a), keyShowCommand(a), keyAddCommand(a), keyRemoveCommand(a), keyRotateCommand(a),
		keyRecoveryCommand(a), keyIndexCommand(a))
	return cmd
}

// sealedStore opens the store and returns its encryption.
func (a *app) sealedStore(ctx context.Context, how open.Access) (*seal.Backend, error) {
	if _, err := a.open(ctx, how); err != nil {
		return nil, err
	}
	b := a.opened.Sealed()
	if b == nil {
		return nil, hint.With(tidemark.Invalidf("the store is not encrypted"), "copy it into an encrypted one with: tidemark migrate --to sqlite:PATH")
	}
	return b, nil
}

// slotFlags adds the flags that describe new slots.
func slotFlags(cmd *cobra.Command, n *open.NewSlots) {
	cmd.Flags().BoolVar(&n.Passphrase, "passphrase", false, "a passphrase, asked for or read from $TIDEMARK_PASSPHRASE_FILE")
	cmd.Flags().StringArrayVar(&n.Recipients, "recipient", nil, "an age `RECIPIENT` (age1…); may be given several times")
	cmd.Flags().StringVar(&n.File, "file", "", "a key `FILE`, made when it is not there")
	cmd.Flags().StringVar(&n.Label, "label", "", "what to call it")
}

func keyInitCommand(a *app) *cobra.Command {
	var n open.NewSlots
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Make an encrypted store",
		Long: `Makes a new, empty, encrypted store. Without a flag it opens with a key file,
which is made, as it is by the first command that keeps something.`,
		Example: `  tidemark key init
  tidemark key init --passphrase
  tidemark key init --recipient age1… --recipient age1…`,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.keyInit(cmd.Context(), &n)
		},
	}
	slotFlags(cmd, &n)
	return cmd
}

func (a *app) keyInit(ctx context.Context, n *open.NewSlots) error {
	if a.noEncrypt {
		return tidemark.Invalidf("--no-encrypt: a plain store has no keys")
	}
	url, _, err := a.location()
	if err != nil {
		return err
	}
	var slots func(context.Context) ([]seal.NewSlot, error)
	if !n.None() {
		slots = func(ctx context.Context) ([]seal.NewSlot, error) { return n.Make(ctx, os.Environ(), a.askPassphrase) }
	}
	h, err := open.MakeSealed(ctx, url, a.openOptions(open.Create), slots)
	if err != nil {
		return err
	}
	return a.print(h, func(w io.Writer) error { return a.slots(w, h) })
}

func keyShowCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "show",
		Short:   "Show what opens the store, never a key itself",
		Example: "  tidemark key show\n  tidemark key show --json",
		Args:    usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := a.sealedStore(cmd.Context(), open.Read)
			if err != nil {
				return err
			}
			h, err := b.Header(cmd.Context())
			if err != nil {
				return err
			}
			return a.print(h, func(w io.Writer) error { return a.slots(w, h) })
		},
	}
}

// slots prints the slots of a store.
func (a *app) slots(w io.Writer, h seal.Header) error {
	if a.terminal {
		index := "on"
		if h.NoIndex {
			index = "off; a search decrypts and reads"
		}
		fmt.Fprintf(w, "Store %s, search index %s.\n", h.Store, index)
		if h.Rotating {
			fmt.Fprintln(w, "A rotation was begun and not finished; finish it with: tidemark key rotate")
		}
	}
	t := a.table("SLOT", "TYPE", "CREATED", "OPENED", "LABEL")
	for _, s := range h.Slots {
		opened := ""
		if s.Opened {
			opened = "now"
		}
		label := s.Label
		if len(s.Recipients) > 0 && label != seal.RecoveryLabel {
			label = strings.TrimSpace(label + " " + strings.Join(s.Recipients, " "))
		}
		t.Row(s.ID, s.Type, a.when(s.CreatedAt), opened, label)
	}
	return t.Print(w)
}

func keyAddCommand(a *app) *cobra.Command {
	var n open.NewSlots
	cmd := &cobra.Command{
		Use:   "add",
		Short: "Add something that opens the store",
		Example: `  tidemark key add --passphrase
  tidemark key add --recipient age1… --label ada
  tidemark key add --file /media/stick/tidemark.key`,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if n.None() {
				return hint.With(tidemark.Invalidf("add what?"), "tidemark key add --passphrase, --recipient age1… or --file FILE")
			}
			a.newPassphraseOnly = n.Passphrase
			b, err := a.sealedStore(cmd.Context(), open.Write)
			if err != nil {
				return err
			}
			slots, err := n.Make(cmd.Context(), os.Environ(), a.askPassphrase)
			if err != nil {
				return err
			}
			for _, s := range slots {
				if err := b.AddSlot(cmd.Context(), s); err != nil {
					return err
				}
				a.say("Added slot %s.", s.ID())
			}
			return nil
		},
	}
	slotFlags(cmd, &n)
	return cmd
}

func keyRemoveCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "remove SLOT",
		Short: "Take away something that opens the store",
		Long: `Takes a slot away. Whoever had it, and a copy of the store, can still read that
copy: rotate afterwards, so that it opens nothing that is written from then on.`,
		Example: "  tidemark key remove 1f2e3d4c5b6a7988\n  tidemark key rotate",
		Args:    usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := a.sealedStore(cmd.Context(), open.Write)
			if err != nil {
				return err
			}
			err = b.RemoveSlot(cmd.Context(), args[0])
			if errors.Is(err, tidemark.ErrNotFound) {
				return hint.With(err, "see them with: tidemark key show")
			}
			if err != nil {
				return err
			}
			a.say("Removed slot %s. Rotate to make copies of the old keyring useless for new sessions: tidemark key rotate", args[0])
			return nil
		},
	}
}

func keyRecoveryCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "export-recovery",
		Short: "Print a recovery key, once",
		Long: `Makes a recovery key, adds it to the store and prints it. It is not kept
anywhere: write it down. A file of mode 0600 that holds it is a key file.`,
		Example: `  tidemark key export-recovery
  tidemark --key-file recovered.key ls`,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := a.sealedStore(cmd.Context(), open.Write)
			if err != nil {
				return err
			}
			text, slot, err := seal.NewRecovery()
			if err != nil {
				return err
			}
			if err := b.AddSlot(cmd.Context(), slot); err != nil {
				return err
			}
			a.say("This key opens the whole store. It is shown once: write it down and keep it elsewhere.")
			return a.printf(map[string]string{"recovery_key": text, "slot": slot.ID()}, "%s\n", text)
		},
	}
}

func keyIndexCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "index on|off",
		Short: "Allow or forbid the search index of an encrypted store",
		Long: `The search index of an encrypted store is encrypted like the rest: whoever can read
the files or the tables learns how large it is and when it changed. Off, nothing is
indexed, and a search decrypts and reads.`,
		Example:   "  tidemark key index off",
		Args:      usage(cobra.ExactArgs(1)),
		ValidArgs: []string{"on", "off"},
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] != "on" && args[0] != "off" {
				return tidemark.Invalidf("index %q: want on or off", args[0])
			}
			b, err := a.sealedStore(cmd.Context(), open.Write)
			if err != nil {
				return err
			}
			if err := b.SetIndex(cmd.Context(), args[0] == "on"); err != nil {
				return err
			}
			if args[0] == "off" {
				return a.opened.Store.ResetIndex(cmd.Context())
			}
			n, err := a.opened.Store.CatchUp(cmd.Context(), func(n int64) { a.progress("%d entries indexed", n) })
			a.progressDone()
			if errors.Is(err, tidemark.ErrUnsupported) {
				err = nil
			}
			a.say("%d entries indexed.", n)
			return err
		},
	}
}

// askPassphrase asks for a passphrase on the terminal. It returns nil if there is
// no terminal, or with --no-input.
func (a *app) askPassphrase(ctx context.Context, prompt string) ([]byte, error) {
	fd := int(os.Stdin.Fd())
	if a.noInput || !term.IsTerminal(fd) {
		return nil, nil
	}
	fmt.Fprint(a.err, prompt)
	defer fmt.Fprintln(a.err)
	before, err := term.GetState(fd)
	if err != nil {
		return nil, fmt.Errorf("passphrase: %w", err)
	}
	type typed struct {
		text []byte
		err  error
	}
	answer := make(chan typed, 1)
	go func() {
		p, err := term.ReadPassword(fd)
		answer <- typed{p, err}
	}()
	select {
	case p := <-answer:
		if p.err != nil {
			return nil, fmt.Errorf("passphrase: %w", p.err)
		}
		return p.text, nil
	case <-ctx.Done():
		term.Restore(fd, before) // ReadPassword is still waiting, and would leave the echo off
		return nil, context.Cause(ctx)
	}
}

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
			b, err := a.sealedStore(cmd.Context(), open.Write)
			if err != nil {
				return err
			}
			r, err := open.Rotate(cmd.Context(), b, a.openOptions(open.Write), func(n int) { a.progress("%d keys wrapped", n) })
			a.progressDone()
			if r.Finished {
				a.say("The rotation is finished. The key file is %s.", r.KeyFile)
			}
			switch {
			case err != nil || r.Finished:
			case r.KeyFile == "":
				a.say("The store has another key. What opens it is what opened it before.")
			case r.Named:
				a.say("The store has another key. The new key file is %s.\nThe old one is kept as %s: it opens copies that were made before, and other stores that it was given to.", r.KeyFile, r.Old)
			default:
				a.say("The store has another key. The new key file is %s.\nThe old one, %s, opens only copies that were made before: remove it when you need none of them.", r.KeyFile, r.Old)
			}
			return err
		},
	}
}
