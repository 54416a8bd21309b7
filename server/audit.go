package server

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/store"
)

const (
	// auditLinger is how long a line of the audit log waits for others: so
	// many writers of a tenant cost a few commits a second, not one each.
	auditLinger = 200 * time.Millisecond
	// maxAuditQueue bounds what waits. Beyond it, who does something waits
	// until it is written down.
	maxAuditQueue = 10_000
	maxAuditBatch = 500
	// auditPatience bounds one try to write.
	auditPatience = 30 * time.Second
)

// auditQueue are the lines that are not written yet, by tenant. A tenant that
// has some has one goroutine that writes them.
type auditQueue struct {
	mu      sync.Mutex
	waiting map[string][]store.Audited
}

// operators is the store that says who may do what.
func (s *Server) operators(ctx context.Context) (*store.Store, error) {
	return s.storeOf(ctx, tidemark.Operator())
}

// auditedBy is what a caller did.
func (s *Server) auditedBy(ctx context.Context, action, thing, outcome string) store.Audited {
	c := CallerOf(ctx)
	return store.Audited{At: s.o.Now(), Who: c.User, Name: c.Name, Token: c.Token, Action: action, Thing: thing, Outcome: outcome, Request: requestID(ctx)}
}

// auditIn writes down what the caller of ctx did to the log of a tenant that
// may not be the caller's own, and returns when that is durable. Thing is an id
// or a path, never content.
func (s *Server) auditIn(ctx context.Context, tenant, action, thing, outcome string) error {
	users, err := s.operators(ctx)
	if err != nil {
		return err
	}
	return users.Audit(ctx, tenant, s.auditedBy(ctx, action, thing, outcome))
}

// auditLater writes it down soon: what was done is durable itself, and says
// when and by whose lease.
func (s *Server) auditLater(ctx context.Context, action, thing, outcome string) {
	tenant, did := CallerOf(ctx).Tenant, s.auditedBy(ctx, action, thing, outcome)
	q := &s.audits
	q.mu.Lock()
	if q.waiting == nil {
		q.waiting = make(map[string][]store.Audited)
	}
	waiting, writes := q.waiting[tenant]
	full := len(waiting) >= maxAuditQueue
	if !full {
		q.waiting[tenant] = append(waiting, did)
	}
	q.mu.Unlock()
	switch {
	case full:
		if err := s.writeAudit(ctx, tenant, []store.Audited{did}); err != nil {
			note(ctx, "audit", err.Error())
		}
	case !writes:
		go s.writeAudits(tenant)
	}
}

// writeAudits writes what waits for a tenant until nothing does.
func (s *Server) writeAudits(tenant string) {
	pause := auditLinger
	for {
		select {
		case <-time.After(pause):
		case <-s.draining:
			if pause > auditLinger {
				time.Sleep(auditLinger) // the store is away: do not spin
			}
		}
		batch := s.nextAudits(tenant)
		if len(batch) == 0 {
			return
		}
		if err := s.writeAudit(context.Background(), tenant, batch); err != nil {
			s.o.Log.Error("audit", "tenant", tenant, "error", err.Error(), "waiting", len(batch))
			pause = min(2*pause, 10*time.Second)
			continue
		}
		pause = auditLinger
		s.audits.mu.Lock()
		s.audits.waiting[tenant] = s.audits.waiting[tenant][len(batch):]
		s.audits.mu.Unlock()
	}
}

// nextAudits returns what to write next. When there is nothing, whoever comes
// next starts the writing again.
func (s *Server) nextAudits(tenant string) []store.Audited {
	s.audits.mu.Lock()
	defer s.audits.mu.Unlock()
	waiting := s.audits.waiting[tenant]
	if len(waiting) == 0 {
		delete(s.audits.waiting, tenant)
	}
	return slices.Clone(waiting[:min(len(waiting), maxAuditBatch)])
}

func (s *Server) writeAudit(ctx context.Context, tenant string, did []store.Audited) error {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), auditPatience)
	defer stop()
	users, err := s.operators(ctx)
	if err != nil {
		return err
	}
	return users.Audit(ctx, tenant, did...)
}

// FlushAudit returns when everything that was done is in the audit log, or
// with the error of ctx. Whoever ends the server calls it after the last
// request.
func (s *Server) FlushAudit(ctx context.Context) error {
	for {
		s.audits.mu.Lock()
		waits := len(s.audits.waiting)
		s.audits.mu.Unlock()
		if waits == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(auditLinger / 4):
		}
	}
}

// AnchorAudit keeps the head of every tenant's audit log beside it, and returns
// the heads. Whoever runs the server calls it now and then, and puts what it
// returns where the store does not reach: a file, another machine.
func (s *Server) AnchorAudit(ctx context.Context) ([]store.Anchor, error) {
	users, err := s.operators(ctx)
	if err != nil {
		return nil, err
	}
	tenants := []string{tidemark.TenantOf(store.DefaultTenant, "").Tenant}
	for t, err := range users.Tenants(ctx, "") {
		if err != nil {
			return nil, err
		}
		if t.ID != tenants[0] {
			tenants = append(tenants, t.ID)
		}
	}
	var heads []store.Anchor
	for _, id := range tenants {
		head, err := users.KeepAnchor(ctx, id)
		if err != nil {
			return heads, err
		}
		if head.Length > 0 {
			heads = append(heads, head)
		}
	}
	return heads, nil
}

// audited writes down every call that changes something, and every one that a
// known caller was refused. routes knows what calls are called.
func (s *Server) audited(routes *http.ServeMux, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out, ok := w.(*recorder)
		if !ok {
			out = &recorder{ResponseWriter: w}
		}
		defer func() {
			refusal := out.status == http.StatusForbidden
			_, route := routes.Handler(r)
			if out.status < 400 && changes(r, route) && changesAccess(r) {
				s.accessChanged()
			}
			if CallerOf(r.Context()).Tenant == "" || !refusal && (!changes(r, route) || auditsItself(r) && out.status < 400) {
				return
			}
			outcome := store.AuditDone
			switch {
			case refusal:
				outcome = store.AuditRefused
			case out.status == 0 || out.status >= 400:
				outcome = store.AuditFailed
			}
			if route == "" {
				route = r.Method
			} else if !strings.Contains(route, " ") {
				route = r.Method + " " + route
			}
			s.auditLater(r.Context(), route, r.URL.Path, outcome)
		}()
		next.ServeHTTP(out, r)
	})
}

// changes reports whether a call is one that changes something. Some that
// only read are sent with a body. The route decides: a file may be called
// export.
func changes(r *http.Request, route string) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return false
	}
	if call, ok := strings.CutPrefix(r.URL.Path, "/api/v1/backend/"); ok {
		return call == "commit" || call == "share"
	}
	if r.URL.Path == mcpPath {
		return false // its tools say what they changed
	}
	return route != "POST "+sessionsPath+"/{id}/export"
}

// auditsItself reports whether the handler of a call writes it down, with what
// came of it, before it answers.
func auditsItself(r *http.Request) bool {
	if strings.HasPrefix(r.URL.Path, "/store/") {
		return true // the pages of the same calls
	}
	return slices.Contains([]string{"tokens", "tenants", "users", "workspaces"}, partOf(r.URL.Path))
}

// refusalEvery is how often it is written down that one and the same caller
// was refused: whoever tries on should not fill the log.
const refusalEvery = time.Minute

// AuditRefusals returns what a Gate tells of those who were not let in and
// whose tenant is known: it writes them to the audit log.
func AuditRefusals(users *store.Store) func(context.Context, Refusal) {
	var mu sync.Mutex
	told := make(map[Refusal]time.Time)
	return func(ctx context.Context, why Refusal) {
		if why.Tenant == "" {
			return
		}
		mu.Lock()
		now := time.Now()
		again := now.Sub(told[why]) < refusalEvery
		if !again {
			if len(told) >= maxRemembered {
				clear(told)
			}
			told[why] = now
		}
		mu.Unlock()
		if again {
			return
		}
		ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), auditPatience)
		defer stop()
		did := store.Audited{Who: why.User, Token: why.Token, Action: "sign-in", Thing: why.Why, Outcome: store.AuditRefused, Request: requestID(ctx)}
		if err := users.Audit(ctx, why.Tenant, did); err != nil {
			note(ctx, "audit", err.Error())
		}
	}
}
