package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/server/serve"
	"github.com/tidemark-sessions/tidemark/server/stores"
)

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
	of := cmd.PersistentFlags().String("tenant", tenant.DefaultTenant, "whose audit log")
	cmd.AddCommand(auditListCommand(a, of), auditExportCommand(a, of), auditVerifyCommand(a, of))
	return cmd
}

// auditLog is the audit log of a tenant, and the backends in which servers
// recorded who did what.
type auditLog struct {
	*tenant.Directory
	id   string
	from []tidemark.Backend
}

// withAudit calls run with the audit log of a tenant.
func (a *app) withAudit(ctx context.Context, name string, run func(auditLog) error) error {
	s, err := a.directory(ctx, open.Read)
	if err != nil {
		return err
	}
	place, _, err := a.location()
	if err != nil {
		return err
	}
	if !open.HasAudit(place) {
		return hint.With(stores.ErrNoAudit(), "serve a store of sqlite or PostgreSQL: tidemark migrate")
	}
	log := auditLog{Directory: s}
	if log.id, err = s.TenantID(ctx, name); err != nil {
		return err
	}
	beside := serve.StoresBeside(ctx, a.opened, place, a.openOptions)
	defer beside.Close()
	if log.from, err = beside.Acts(ctx, log.id); err != nil {
		return err
	}
	return run(log)
}

func auditListCommand(a *app, name *string) *cobra.Command {
	var limit int
	var filter tenant.AuditFilter
	cmd := &cobra.Command{
		Use: "ls", Short: "List who did what, the newest last", Example: "  tidemark audit ls\n  tidemark audit ls --tenant acme --who ada --since 2026-11-01 -n 1000 --json",
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 {
				return tidemark.Invalidf("--limit %d: want at least 1", limit)
			}
			match, err := filter.Match(nil)
			if err != nil {
				return err
			}
			return a.withAudit(cmd.Context(), *name, func(log auditLog) error { return a.listAudit(cmd.Context(), log, limit, match) })
		},
	}
	cmd.Flags().IntVarP(&limit, "limit", "n", 50, "how many")
	addAuditFilter(cmd, &filter)
	return cmd
}

// addAuditFilter adds the flags that say which lines are meant.
func addAuditFilter(cmd *cobra.Command, f *tenant.AuditFilter) {
	cmd.Flags().StringVar(&f.Who, "who", "", "a part of the name or id of `WHO` did it, or of the token's id")
	cmd.Flags().StringVar(&f.What, "what", "", "a part of `WHAT` was done, to what, or how it ended")
	cmd.Flags().StringVar(&f.Since, "since", "", "from this `DAY` on (UTC), such as 2026-11-15")
	cmd.Flags().StringVar(&f.Until, "until", "", "up to the end of this `DAY`")
}

func auditExportCommand(a *app, name *string) *cobra.Command {
	var file string
	var filter tenant.AuditFilter
	cmd := &cobra.Command{
		Use: "export", Short: "Write who did what as JSON lines, the oldest first", Example: "  tidemark audit export --tenant acme -o audit.jsonl\n  tidemark audit export --who ada --since 2026-11-01",
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			match, err := filter.Match(nil)
			if err != nil {
				return err
			}
			return a.withAudit(cmd.Context(), *name, func(log auditLog) error {
				lines, err := log.ExportAudit(cmd.Context(), log.id, log.from, match)
				if err != nil {
					return err
				}
				return a.toFile(file, func(w io.Writer) error { return tenant.WriteAudit(w, lines) })
			})
		},
	}
	cmd.Flags().StringVarP(&file, "output", "o", "-", "the `FILE`, or - for stdout")
	addAuditFilter(cmd, &filter)
	return cmd
}

func (a *app) listAudit(ctx context.Context, log auditLog, limit int, match func(tenant.AuditLine) bool) error {
	rows, err := log.NewestAudit(ctx, log.id, limit, match, log.from, a.warnSkipped)
	if err != nil {
		return err
	}
	return printTable(a, rows, []string{"SEQ", "AT", "WHO", "ACTION", "THING", "OUTCOME"}, func(l tenant.AuditLine) []string {
		seq := fmt.Sprint(l.Seq)
		if l.Seq == 0 {
			seq = "not chained yet"
		}
		return []string{seq, render.TimeOrDash(l.At), cmp.Or(l.Name, l.Who), l.Action, render.OrDash(l.Thing), l.Outcome}
	})
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
			return a.withAudit(cmd.Context(), *name, func(log auditLog) error { return a.verifyAudit(cmd.Context(), log, anchors) })
		},
	}
	cmd.Flags().StringArrayVar(&files, "anchors", nil, "a `FILE` of heads that the log once had; again for more")
	return cmd
}

func (a *app) verifyAudit(ctx context.Context, log auditLog, anchors []tenant.Anchor) error {
	beside, err := log.Anchors(ctx, log.id)
	if err != nil {
		return err
	}
	report, err := log.ReportAudit(ctx, log.id, log.from, append(anchors, beside...), a.warnSkipped)
	if err != nil {
		return err
	}
	if len(report.Faults) > 0 {
		return hint.With(&tidemark.Damage{Key: tidemark.Key{Kind: "audit", ID: log.id}, Seq: report.Faults[0].Seq, What: render.CleanLine(report.Summary())},
			"whoever can write the store did this, or the disk; compare with a backup")
	}
	return a.printf(report, "%s\n", render.CleanLine(report.String()))
}
