package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/postgres"
	"github.com/tidemark-sessions/tidemark/backend/sqlite"
	"github.com/tidemark-sessions/tidemark/internal/records"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
)

// lookAtAudit compares the sessions with the audit log: every commit that wrote
// an entry has one line, and no line is about a commit that wrote none. All
// servers were killed, so this is what a crash leaves.
func (t *trial) lookAtAudit(ctx context.Context) error {
	for _, n := range t.nodes {
		if err := n.Kill(); err != nil {
			return err
		}
	}
	// A database may still be completing what a killed server had begun, so
	// faults are checked again.
	for look := 1; ; look++ {
		faults, err := t.compare(ctx)
		if err != nil {
			return err
		}
		if len(faults) == 0 || look == 4 {
			for _, f := range faults {
				t.book.fault("%s", f)
			}
			return nil
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// compare counts what the audit log has and what it lacks, and names the
// latter.
func (t *trial) compare(ctx context.Context) (faults []string, err error) {
	t.book.audit = lines{}
	fault := func(count *int, format string, args ...any) {
		*count++
		faults = append(faults, fmt.Sprintf(format, args...))
	}
	look := t.lookInFile
	if t.cluster != nil {
		look = t.lookInDatabase
	}
	own, said, faults, err := look(ctx)
	if err != nil {
		return nil, err
	}
	defer own.Close()
	told := t.told(said)
	for _, s := range t.book.sessions {
		for l, err := range own.Lines(ctx, tidemark.Key{Kind: "session", ID: string(s.id)}) {
			if err != nil {
				return nil, err
			}
			switch told[l.Batch] {
			case 0:
				fault(&t.book.audit.missing, "%s: seq %d: the audit log has no line for batch %s", s.name, l.Seq, l.Batch)
			case 1:
			default:
				fault(&t.book.audit.doubled, "%s: seq %d: the audit log has %d lines for batch %s", s.name, l.Seq, told[l.Batch], l.Batch)
			}
			delete(told, l.Batch)
		}
	}
	for _, id := range t.calm {
		for l, err := range own.Lines(ctx, tidemark.Key{Kind: "session", ID: string(id)}) {
			if err != nil {
				return nil, err
			}
			if l.Seq == 1 && told[l.Batch] != 1 { // all were written by one
				fault(&t.book.audit.missing, "%s: the audit log has %d lines for batch %s", id, told[l.Batch], l.Batch)
			}
			delete(told, l.Batch)
		}
	}
	for batch := range told {
		fault(&t.book.audit.stray, "the audit log speaks of batch %s, which wrote no entry", batch)
	}
	return faults, nil
}

// told counts the lines about entries by their batch.
func (t *trial) told(lines []tenant.AuditLine) map[string]int {
	told := make(map[string]int)
	for _, l := range lines {
		if strings.HasSuffix(l.Action, "/entries") && l.Outcome == tenant.AuditDone && l.Batch != "" {
			told[l.Batch]++
			t.book.audit.all++
			if l.Seq == 0 {
				t.book.audit.unchained++
			}
		}
	}
	return told
}

// lookInFile reads the audit log with the program, which has the key of the
// store, and verifies it. The batches that wrote entries are in the clear.
func (t *trial) lookInFile(ctx context.Context) (_ tidemark.Backend, said []tenant.AuditLine, faults []string, err error) {
	out, err := t.place.Tell(ctx, "audit", "ls", "-n", "100000000", "--json")
	if err == nil {
		err = json.Unmarshal(out, &said)
	}
	if err == nil {
		_, err = t.place.Tell(ctx, "audit", "verify")
	}
	if err != nil {
		return nil, nil, nil, err
	}
	b, err := sqlite.Open(ctx, strings.TrimPrefix(t.place.Store, "sqlite:"), nil)
	return b, said, nil, err
}

// lookInDatabase reads what servers recorded and the chain, and verifies it.
func (t *trial) lookInDatabase(ctx context.Context) (own tidemark.Backend, said []tenant.AuditLine, faults []string, err error) {
	p, err := postgres.PrincipalIn(t.place.Store)
	if err != nil {
		return nil, nil, nil, err
	}
	db, err := postgres.Connect(ctx, t.place.Store, &postgres.Options{Others: t.homes.others})
	if err != nil {
		return nil, nil, nil, err
	}
	defer db.Close()
	operator, acts := tenant.NewDirectory(records.New(db.For(tidemark.Operator()), records.Options{})), db.For(tidemark.AuditorOf(p.Tenant))
	for _, some := range []func(func(tenant.AuditLine, error) bool){operator.AuditLines(ctx, p.Tenant, tidemark.Span{}), operator.Unchained(ctx, p.Tenant, acts)} {
		for l, err := range some {
			if err != nil {
				return nil, nil, nil, err
			}
			said = append(said, l)
		}
	}
	_, wrong, err := operator.VerifyAudit(ctx, p.Tenant, []tidemark.Backend{acts})
	if err != nil {
		return nil, nil, nil, err
	}
	for _, f := range wrong {
		faults = append(faults, fmt.Sprintf("audit verify: line %d: %s", f.Seq, f.What))
	}
	own, err = postgres.Open(ctx, t.place.Store, &postgres.Options{Others: t.homes.others})
	return own, said, faults, err
}
