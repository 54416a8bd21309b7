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
	"github.com/tidemark-sessions/tidemark/store"
)

// onStore returns a RunE function that opens the store and calls run.
func (a *app) onStore(how open.Access, run func(*cobra.Command, *store.Store, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		s, err := a.open(cmd.Context(), how)
		if err != nil {
			return err
		}
		return run(cmd, s, args)
	}
}

// onSession returns a RunE function that opens the store, finds the session that the
// first argument means, and calls run with the store as its owner sees it.
func (a *app) onSession(how open.Access, run func(*cobra.Command, *store.Store, store.Point, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		s, p, err := a.resolve(cmd.Context(), how, args[0])
		if err != nil {
			return err
		}
		return run(cmd, s, p, args)
	}
}

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
	return a.onStore(how, func(cmd *cobra.Command, s *store.Store, args []string) error { return run(cmd, fleet.Over(s), args) })
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
// rows that cells makes. It reports and skips what cannot be read, and returns the
// last such damage.
func printRows[T any](a *app, list iter.Seq2[T, error], head []string, cells func(T) []string) error {
	rows, damage, err := collectReadable(a, list)
	if err != nil {
		return err
	}
	return errors.Join(printTable(a, rows, head, cells), damage)
}

// printTable prints rows as data for programs, or as a table for people with the
// cells that cells makes.
func printTable[T any](a *app, rows []T, head []string, cells func(T) []string) error {
	if rows == nil {
		rows = []T{} // an empty list is [] in JSON, not null
	}
	return a.print(rows, func(w io.Writer) error {
		t := a.table(head...)
		for _, r := range rows {
			t.Row(cells(r)...)
		}
		return t.Print(w)
	})
}

// collectReadable collects a list. It reports and skips what cannot be read, and
// returns the last such damage.
func collectReadable[T any](a *app, list iter.Seq2[T, error]) (rows []T, damage, err error) {
	rows = []T{}
	for v, err := range list {
		if errors.Is(err, tidemark.ErrCorrupt) {
			damage = err
			a.warnSkipped(err)
			continue
		}
		if err != nil {
			return rows, damage, err
		}
		rows = append(rows, v)
	}
	return rows, damage, nil
}

// warnSkipped reports something damaged that is left out.
func (a *app) warnSkipped(err error) { a.say("tidemark: %s: skipped", err) }
