package tenant

import (
	"context"
	"errors"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
)

// forwarded is how far the audit log of a tenant was sent to some place, and who does
// that for now.
type forwarded struct {
	Seq   int64     `json:"seq"`
	By    string    `json:"by,omitempty"`
	Until time.Time `json:"until,omitzero"`
}

const (
	// forwardLines bounds what is sent at once.
	forwardLines = 200
	// forwardClaim is how long a server has the sending to itself: longer than sending
	// some lines takes.
	forwardClaim = 2 * time.Minute
)

// ForwardAudit sends the lines of the audit log of a tenant that a place does not have
// yet, some at a time, and keeps how far it came. by names who sends: of several
// servers one does it at a time, and when it dies another takes over. What was sent
// when it died is sent again, so every line arrives at least once. It returns how many
// lines were sent; 0: there are none, or somebody else sends them.
func (d *Directory) ForwardAudit(ctx context.Context, place, tenant, by string, send func([]AuditLine) error) (sent int, err error) {
	key := tidemark.Key{Kind: kindForwarded, ID: tenant + "." + tidemark.IDOf("forwarded", place)}
	var f forwarded
	r, err := d.k.Get(ctx, key, &f)
	if err != nil || f.By != by && d.k.Clock().Before(f.Until) {
		return 0, err
	}
	s, _, err := d.segments(ctx, tenant)
	if err != nil {
		return 0, err
	}
	head, _, err := d.openHead(ctx, tenant, s)
	if err != nil && !errors.Is(err, tidemark.ErrCorrupt) || head.Length == f.Seq {
		return 0, err
	}
	// What was dropped before it was sent is gone, and after the log went back what
	// comes is new.
	f.Seq = min(max(f.Seq, s.Base.Length), head.Length)
	note := func() error {
		f.By, f.Until = by, d.k.Clock().Add(forwardClaim)
		p, err := records.Put(key, r.Version, f)
		if err == nil {
			_, err = d.k.Commit(ctx, tidemark.Batch{Puts: []tidemark.Record{p}})
		}
		r.Version++
		return err
	}
	if err := note(); err != nil {
		if errors.Is(err, tidemark.ErrConflict) {
			return 0, nil // another server was faster
		}
		return 0, err
	}
	var lines []AuditLine
	for l, err := range d.AuditLines(ctx, tenant, tidemark.Span{From: f.Seq + 1, To: f.Seq + forwardLines}) {
		switch {
		case errors.Is(err, tidemark.ErrCorrupt):
			l.Action, l.Outcome = "damaged", "damaged"
		case err != nil:
			return 0, err
		}
		lines = append(lines, l)
	}
	if len(lines) > 0 {
		if err := send(lines); err != nil {
			return 0, err
		}
	}
	f.Seq = min(f.Seq+forwardLines, head.Length)
	if n := len(lines); n > 0 {
		f.Seq = max(f.Seq, lines[n-1].Seq)
	}
	return max(len(lines), 1), note()
}
