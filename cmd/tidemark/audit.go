package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/render"
)

// auditReport is what verifying found.
type auditReport struct {
	Head      tenant.Anchor       `json:"head"`
	Unchained int                 `json:"unchained"`
	Anchors   int                 `json:"anchors"`
	Faults    []tenant.AuditFault `json:"faults"`
}

func auditCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use: "audit", Short: "The audit log of tidemark serve: who did what",
		Long: `Each tenant has a log of who changed something, and of who was refused: user,
token, call, id and outcome, never content. A change and its line are one
commit; a server then adds the line to a chain, in which each holds the hash of
the one before it. A store of files has no audit log.

Run this where the store of the server can be opened, with the same --store.`,
		Args: usage(cobra.NoArgs), RunE: help,
	}
	tenant := cmd.PersistentFlags().String("tenant", tenant.DefaultTenant, "whose audit log")
	cmd.AddCommand(auditListCommand(a, tenant), auditVerifyCommand(a, tenant))
	return cmd
}

// noAudit says why there is none.
const noAudit = "a store of files has no audit log: nobody will know who did what"

func isFiles(url string) bool { return strings.HasPrefix(url, "files:") }

// auditedTenant opens the store and finds whose audit log is meant.
func (a *app) auditedTenant(cmd *cobra.Command, name string) (*tenant.Directory, string, error) {
	s, err := a.directory(cmd.Context(), reads)
	if place, _, unknown := a.location(); err == nil && unknown == nil && isFiles(place) {
		err = withHint(tidemark.Unsupportedf("a store of files has no audit log"), "serve a store of sqlite or PostgreSQL: tidemark migrate")
	}
	if err != nil || name == tenant.DefaultTenant {
		return s, tidemark.TenantOf(tenant.DefaultTenant, "").Tenant, err
	}
	t, err := s.TenantNamed(cmd.Context(), name)
	return s, t.ID, withHint(err, "see them with: tidemark tenant ls")
}

func auditListCommand(a *app, name *string) *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use: "ls", Short: "List who did what, the newest last", Example: "  tidemark audit ls\n  tidemark audit ls --tenant acme -n 1000 --json",
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 {
				return tidemark.Invalidf("--limit %d: want at least 1", limit)
			}
			s, id, err := a.auditedTenant(cmd, *name)
			if err != nil {
				return err
			}
			from, err := a.acts(cmd.Context(), id)
			if err != nil {
				return err
			}
			fresh, err := a.unchained(cmd.Context(), s, id, from)
			if err != nil {
				return err
			}
			rows := []tenant.AuditLine{}
			for l, err := range s.AuditLines(cmd.Context(), id, tidemark.Span{Newest: limit}) {
				if errors.Is(err, tidemark.ErrCorrupt) {
					a.say("tidemark: %s: skipped", err)
					continue
				}
				if err != nil {
					return err
				}
				rows = append(rows, l)
			}
			rows = append(rows, tenant.NotIn(fresh, rows)...)
			rows = rows[max(0, len(rows)-limit):]
			return a.print(rows, func(w io.Writer) error {
				t := a.table("SEQ", "AT", "WHO", "ACTION", "THING", "OUTCOME")
				for _, l := range rows {
					who := l.Name
					if who == "" {
						who = l.Who
					}
					seq := fmt.Sprint(l.Seq)
					if l.Seq == 0 {
						seq = "not chained yet"
					}
					t.row(seq, due(l.At), who, l.Action, orDash(l.Thing), l.Outcome)
				}
				return t.print(w)
			})
		},
	}
	cmd.Flags().IntVarP(&limit, "limit", "n", 50, "how many")
	return cmd
}

func auditVerifyCommand(a *app, name *string) *cobra.Command {
	var files []string
	cmd := &cobra.Command{
		Use: "verify", Short: "Find lines of the audit log that were changed, removed, inserted, moved or cut off",
		Long: `Follow the chain of the audit log, and compare it with what servers wrote down
with each change, where a gap in the numbers is a line that was removed; and with
the heads that it once had: those kept beside it, and those in files that the
server wrote elsewhere.
Without such a file, somebody who can write the whole store can also write a
whole new log.`,
		Example: "  tidemark audit verify\n  tidemark audit verify --tenant acme --anchors /mnt/elsewhere/anchors.jsonl",
		Args:    usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var anchors []tenant.Anchor
			for _, file := range files {
				text, err := os.ReadFile(file)
				if err != nil {
					return tidemark.Invalidf("--anchors: %w", err)
				}
				more, err := tenant.ParseAnchors(text)
				if err != nil {
					return fmt.Errorf("%s: %w", file, err)
				}
				anchors = append(anchors, more...)
			}
			s, id, err := a.auditedTenant(cmd, *name)
			if err != nil {
				return err
			}
			beside, err := s.Anchors(cmd.Context(), id)
			if err != nil {
				return err
			}
			anchors = append(anchors, beside...)
			from, err := a.acts(cmd.Context(), id)
			if err != nil {
				return err
			}
			fresh, err := a.unchained(cmd.Context(), s, id, from)
			if err != nil {
				return err
			}
			head, faults, err := s.VerifyAudit(cmd.Context(), id, from, anchors...)
			if err != nil {
				return err
			}
			report := auditReport{Head: head, Unchained: len(fresh), Anchors: len(anchors), Faults: append([]tenant.AuditFault{}, faults...)}
			if len(faults) > 0 {
				return withHint(&tidemark.Damage{Key: tidemark.Key{Kind: "audit", ID: id}, Seq: faults[0].Seq, What: auditFaults(faults)},
					"whoever can write the store did this, or the disk; compare with a backup")
			}
			return a.print(report, func(w io.Writer) error {
				more := ""
				if len(fresh) > 0 {
					more = fmt.Sprintf(", and so are %d that are not chained yet", len(fresh))
				}
				_, err := fmt.Fprintf(w, "%d lines are as they were written, compared with %d anchors%s; the head is %s\n", head.Length, len(anchors), more, orDash(head.Hash))
				return err
			})
		},
	}
	cmd.Flags().StringArrayVar(&files, "anchors", nil, "a `FILE` of heads that the log once had; again for more")
	return cmd
}

// unchained returns the lines that are written down and not chained yet, oldest
// first.
func (a *app) unchained(ctx context.Context, s *tenant.Directory, of string, from []tidemark.Backend) (lines []tenant.AuditLine, err error) {
	for l, err := range s.Unchained(ctx, of, from...) {
		if errors.Is(err, tidemark.ErrCorrupt) {
			a.say("tidemark: %s: skipped", err)
			continue
		}
		if err != nil {
			return nil, err
		}
		lines = append(lines, l)
	}
	slices.SortStableFunc(lines, func(x, y tenant.AuditLine) int { return x.At.Compare(y.At) })
	return lines, nil
}

// acts returns the places where servers of the operator's store wrote down who
// did what in a tenant.
func (a *app) acts(ctx context.Context, tenant string) ([]tidemark.Backend, error) {
	if o, ok := a.opened.Inner.(operatorBackend); ok {
		return []tidemark.Backend{o.db.For(tidemark.AuditorOf(tenant))}, nil
	}
	place, _, err := a.location()
	if err != nil {
		return nil, err
	}
	t := &team{app: a, url: place, opened: make(map[string]*open.Opened)}
	from, err := t.acts(ctx, tenant)
	a.others = append(a.others, slices.Collect(maps.Values(t.opened))...)
	return from, err
}

// auditFaults says the first fault, and how many more there are.
func auditFaults(faults []tenant.AuditFault) string {
	text := render.CleanLine(faults[0].What)
	if n := len(faults) - 1; n > 0 {
		text += fmt.Sprintf(" (and %d more, the last at line %d)", n, faults[n].Seq)
	}
	return text
}
