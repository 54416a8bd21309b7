package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/transfer"
)

func migrateCommand(a *app) *cobra.Command {
	var to, keyFile string
	cmd := &cobra.Command{
		Use:   "migrate --to URL",
		Short: "Copy the whole store into another place, verified",
		Long: `Copies everything into another store, of any kind, and compares all of it
afterwards. The new store is encrypted with a key of its own, unless
--no-encrypt is given; so this is also how a plain store becomes an encrypted
one, and an encrypted one plain. The old store is left as it is.

It can be interrupted and run again: it goes on where it was.`,
		Example: `  tidemark migrate --to files:/backup/sessions
  tidemark migrate --to sqlite:plain.db --no-encrypt
  tidemark --store sqlite:plain.db migrate --to sqlite:sealed.db`,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if to == "" {
				return hint.With(tidemark.Invalidf("where to?"), "tidemark migrate --to sqlite:PATH")
			}
			return a.migrate(cmd, to, keyFile)
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "the store to copy into, as for --store: `URL`")
	cmd.Flags().StringVar(&keyFile, "to-key-file", "", "`PATH` of the key of the store to copy into")
	return cmd
}

func (a *app) migrate(cmd *cobra.Command, to, keyFile string) error {
	from, _, err := a.location()
	if err != nil {
		return err
	}
	if transfer.SameStore(from, to) {
		return tidemark.Invalidf("--to %s: is the store itself", to)
	}
	// --no-encrypt is about the new store, not about the one that is opened here.
	plain := a.noEncrypt
	a.noEncrypt = false
	if _, err := a.open(cmd.Context(), open.Read); err != nil {
		return err
	}
	how := a.openOptions(open.Create)
	how.Plain, how.Key = plain, open.Key{}
	if keyFile != "" {
		how.Key = open.Key{File: keyFile, Origin: "flag --key-file"}
	}
	target, err := open.Open(cmd.Context(), to, how)
	if err != nil {
		return fmt.Errorf("--to %s: %w", to, err)
	}
	var damage error
	stats, err := transfer.Migrate(cmd.Context(), a.opened.Backend, target, transfer.MigrateOptions{
		Progress: a.archiveProgress("Copied", 0),
		Damaged: func(err error) {
			damage = err
			a.say("tidemark: %s: left out", err)
		},
		Indexing: func(n int64) { a.progress("%d entries indexed", n) },
		NoVault:  func() { a.say("The vault stays behind: a plain store has none. Masks stay masks.") },
	})
	a.progressDone()
	if err != nil {
		return err
	}
	err = a.printf(stats, "%s: %d records and %d entries copied and compared\n", to, stats.Records, stats.Lines)
	return errors.Join(err, damage)
}
