package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/render"
)

// openFleet returns the fleet of the store, opened with the access that the command
// needs.
func (a *app) openFleet(ctx context.Context, how open.Access) (*fleet.Store, error) {
	s, err := a.open(ctx, how)
	if err != nil {
		return nil, err
	}
	return fleet.Over(s), nil
}

// onFleet returns a RunE function that opens the fleet of the store and calls run.
func (a *app) onFleet(how open.Access, run func(*cobra.Command, *fleet.Store, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		s, err := a.openFleet(cmd.Context(), how)
		if err != nil {
			return err
		}
		return run(cmd, s, args)
	}
}

// printf prints v as data for programs, or a formatted text for people.
func (a *app) printf(v any, format string, args ...any) error {
	return a.print(v, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, format, args...)
		return err
	})
}

// printFields prints v as data for programs, or its fields for people, one a line.
func (a *app) printFields(v any, fields [][2]string) error {
	return a.print(v, func(w io.Writer) error {
		for _, f := range fields {
			if _, err := fmt.Fprintf(w, "%-12s %s\n", f[0], render.CleanLine(f[1])); err != nil {
				return err
			}
		}
		return nil
	})
}

// printRows prints a list as data for programs, or as a table for people with the
// rows that cells makes. It reports and skips what cannot be read.
func printRows[T any](a *app, list iter.Seq2[T, error], head []string, cells func(T) []string) error {
	rows, err := collectReadable(a, list)
	if err != nil {
		return err
	}
	return a.print(rows, func(w io.Writer) error {
		t := a.table(head...)
		for _, r := range rows {
			t.Row(cells(r)...)
		}
		return t.Print(w)
	})
}

// collectReadable collects a list. It reports and skips what cannot be read.
func collectReadable[T any](a *app, list iter.Seq2[T, error]) ([]T, error) {
	rows := []T{}
	for v, err := range list {
		if errors.Is(err, tidemark.ErrCorrupt) {
			a.warnSkipped(err)
			continue
		}
		if err != nil {
			return rows, err
		}
		rows = append(rows, v)
	}
	return rows, nil
}

// warnSkipped reports something damaged that is left out.
func (a *app) warnSkipped(err error) { a.say("tidemark: %s: skipped", err) }
