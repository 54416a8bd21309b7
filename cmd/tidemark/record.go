package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/internal/records"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/transfer"
)

func recordCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "record",
		Short: "Read and write records, for repair by hand",
		Args:  usage(cobra.NoArgs),
		RunE:  help,
	}
	cmd.AddCommand(recordGetCommand(a), recordListCommand(a), recordPutCommand(a))
	return cmd
}

func recordGetCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "get KIND ID",
		Short:   "Print one record as JSON",
		Example: "  tidemark record get lease 7f3a0c1e-88a1-4f60-9d3e-0a4e5f6b7c8d",
		Args:    usage(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			key := tidemark.Key{Kind: args[0], ID: args[1]}
			if err := key.Check(); err != nil {
				return err
			}
			if _, err := a.open(cmd.Context(), open.Read); err != nil {
				return err
			}
			r, err := a.opened.Backend.Get(cmd.Context(), key)
			if err != nil {
				return hint.With(err, "tidemark record list %s", key.Kind)
			}
			return a.format().Print(a.out, open.ViewOfRecord(r))
		},
	}
}

func recordListCommand(a *app) *cobra.Command {
	var q tidemark.Query
	cmd := &cobra.Command{
		Use:     "list KIND",
		Short:   "Print records as NDJSON, the newest first",
		Example: "  tidemark record list session --state trash --jq .id",
		Args:    usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			q.Kind = args[0]
			if err := (tidemark.Key{Kind: q.Kind, ID: "x"}).Check(); err != nil {
				return err
			}
			if _, err := a.open(cmd.Context(), open.Read); err != nil {
				return err
			}
			var damage error
			for r, err := range a.opened.Backend.List(cmd.Context(), q) {
				if errors.Is(err, tidemark.ErrCorrupt) {
					damage = err
					a.say("tidemark: %s: skipped", err)
					continue
				}
				if err != nil {
					return err
				}
				if err := a.format().Print(a.out, open.ViewOfRecord(r)); err != nil {
					return err
				}
			}
			return damage
		},
	}
	cmd.Flags().StringVar(&q.Prefix, "prefix", "", "only ids that begin so")
	cmd.Flags().StringVar(&q.Group, "group", "", "only this group")
	cmd.Flags().StringVar(&q.State, "state", "", "only this state")
	cmd.Flags().IntVarP(&q.Limit, "limit", "n", 0, "at most so many")
	return cmd
}

func recordPutCommand(a *app) *cobra.Command {
	r := tidemark.Record{}
	cmd := &cobra.Command{
		Use:   "put KIND ID",
		Short: "Replace a record by what is read from stdin",
		Long: `Replaces the body of a record. --version names the version that stands now, 0
when there is none; when another one stands, nothing is changed. Group, state
and due time stay as they are unless they are given.`,
		Example: `  tidemark record get agent scout --jq .body > scout.json
  tidemark record put agent scout --version 3 < scout.json`,
		Args: usage(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			r.Key = tidemark.Key{Kind: args[0], ID: args[1]}
			if err := r.Key.Check(); err != nil {
				return err
			}
			body, err := io.ReadAll(io.LimitReader(a.in, tidemark.MaxBodyBytes+1))
			if err != nil {
				return err
			}
			var v json.RawMessage
			if err := transfer.DecodeStrict(body, &v); err != nil {
				return tidemark.Invalidf("stdin: %w", err)
			}
			if r.Body, err = records.Encode(v); err != nil {
				return err
			}
			if _, err := a.open(cmd.Context(), open.Create); err != nil {
				return err
			}
			r, err = a.opened.ReplaceRecord(cmd.Context(), r, !cmd.Flags().Changed("state"), !cmd.Flags().Changed("group"))
			if err != nil {
				return hint.With(err, "tidemark record get %s %s", r.Kind, r.ID)
			}
			_, err = fmt.Fprintln(a.out, r.Version)
			return err
		},
	}
	cmd.Flags().Int64Var(&r.Version, "version", 0, "the version that stands now")
	cmd.Flags().StringVar(&r.State, "state", "", "its state")
	cmd.Flags().StringVar(&r.Group, "group", "", "its group")
	return cmd
}
