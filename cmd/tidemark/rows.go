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

// openFleet returns the fleet of the store, opened as far as the command needs.
func (a *app) openFleet(ctx context.Context, how open.Access) (*fleet.Store, error) {
	s, err := a.open(ctx, how)
	if err != nil {
		return nil, err
	}
	return fleet.Over(s), nil
}

// onFleet is a command on the fleet of the store.
func (a *app) onFleet(how open.Access, run func(*cobra.Command, *fleet.Store, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		s, err := a.openFleet(cmd.Context(), how)
		if err != nil {
			return err
		}
		return run(cmd, s, args)
	}
}

// printf prints a value for programs, or what people read instead.
func (a *app) printf(v any, format string, args ...any) error {
	return a.print(v, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, format, args...)
		return err
	})
}

// printFields prints a value for programs, or its fields, one a line.
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

// printRows prints a list for programs, or as a table of which cells makes a
// row. What cannot be read is said and skipped.
func printRows[T any](a *app, list iter.Seq2[T, error], head []string, cells func(T) []string) error {
	rows, err := readable(a, list)
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

// readable collects what a list holds and can be read. What cannot is said.
func readable[T any](a *app, list iter.Seq2[T, error]) ([]T, error) {
	rows := []T{}
	for v, err := range list {
		if errors.Is(err, tidemark.ErrCorrupt) {
			a.skipped(err)
			continue
		}
		if err != nil {
			return rows, err
		}
		rows = append(rows, v)
	}
	return rows, nil
}

// skipped says what of a list cannot be read.
func (a *app) skipped(err error) { a.say("tidemark: %s: skipped", err) }
