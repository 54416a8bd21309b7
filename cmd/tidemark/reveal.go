package main

import (
	"bufio"
	"io"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/store"
)

func revealCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "reveal",
		Short: "Put back what masks in a text stand for",
		Long: `Copies text from standard input to standard output, line by line, with what the
vault keeps in place of masks. A line that is JSON stays so. With "redact: vault"
everything that was masked can be revealed by whoever has a key of the store.`,
		Example: "  tidemark logs job-2026-11-15-k3f9qa | tidemark reveal\n  tidemark reviews --json | tidemark reveal",
		Args:    usage(cobra.NoArgs),
		RunE: a.onStore(open.Read, func(cmd *cobra.Command, s *store.Store, _ []string) error {
			in := bufio.NewReader(cmd.InOrStdin())
			for {
				line, readErr := in.ReadString('\n')
				text, err := s.RevealText(cmd.Context(), line)
				if err != nil {
					return err
				}
				if _, err := io.WriteString(a.out, text); err != nil {
					return err
				}
				if readErr == io.EOF {
					return nil
				}
				if readErr != nil {
					return readErr
				}
			}
		}),
	}
}
