package serve

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/server"
	"github.com/tidemark-sessions/tidemark/server/forward"
	"github.com/tidemark-sessions/tidemark/store/upkeep"
)

// everyMinute is how often the head of the audit log is written elsewhere, and how
// often what has expired is removed.
const everyMinute = time.Minute

// auditPlaces returns how long the audit log is kept, and which places get it.
func (c *Config) auditPlaces(version string) (keep time.Duration, to []forward.Sink, err error) {
	if c.AuditKeep != "" {
		if keep, err = upkeep.ParseAge(c.AuditKeep); err != nil {
			return 0, nil, tidemark.Invalidf("audit_keep: %w", err)
		}
	}
	if c.AuditSyslog != "" {
		s, err := forward.Syslog(c.AuditSyslog, version)
		if err != nil {
			return 0, nil, err
		}
		to = append(to, s)
	}
	if c.AuditWebhook != "" {
		s, err := forward.Webhook(c.AuditWebhook, c.webhookSecret)
		if err != nil {
			return 0, nil, err
		}
		to = append(to, s)
	}
	return keep, to, nil
}

// keepAnchors writes the heads of audit logs to a file, and returns a
// function that ends that. Whoever changes the log would have to change the
// file as well.
func (v *running) keepAnchors(ctx context.Context, s *server.Server) (end func()) {
	stop := v.repeatedly(ctx, func(ctx context.Context) error { return v.anchor(ctx, s) })
	return func() {
		stop()
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
		defer cancel()
		if err := errors.Join(s.FlushAudit(late), v.anchor(late, s)); err != nil {
			v.Complain(err)
		}
	}
}

// repeatedly does something now and every minute, and returns a function that ends
// that.
func (v *running) repeatedly(ctx context.Context, do func(context.Context) error) (end func()) {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			if err := do(ctx); err != nil && ctx.Err() == nil {
				v.Complain(err)
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(everyMinute):
			}
		}
	}()
	return func() {
		stop()
		<-done
	}
}

func (v *running) anchor(ctx context.Context, s *server.Server) error {
	heads, err := s.AnchorAudit(ctx)
	if err != nil || v.AnchorFile == "" || len(heads) == 0 {
		return err
	}
	return v.appendAnchors(heads)
}

// appendAnchors adds heads to the file that keeps them, one JSON object a line.
func (v *running) appendAnchors(heads []tenant.Anchor) error {
	old, err := os.ReadFile(v.AnchorFile)
	if err != nil && !os.IsNotExist(err) {
		return tidemark.Storagef("%w", err)
	}
	return v.ToFile(v.AnchorFile, func(w io.Writer) error {
		if _, err := w.Write(old); err != nil {
			return err
		}
		enc := json.NewEncoder(w)
		for _, h := range heads {
			if err := enc.Encode(h); err != nil {
				return err
			}
		}
		return nil
	})
}
