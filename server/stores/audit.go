package stores

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/server/auth"
	"github.com/tidemark-sessions/tidemark/server/request"
)

const (
	// auditLinger is how long a line of the audit log waits for others: so
	// many writers of a tenant cost a few commits a second, not one each.
	auditLinger = 200 * time.Millisecond
	// maxAuditQueue bounds what waits. Beyond it, callers wait until their
	// line is written.
	maxAuditQueue = 10_000
	maxAuditBatch = 500
	// auditTimeout bounds one try to write.
	auditTimeout = 30 * time.Second
)

// auditQueue is what is not in the audit log yet, by tenant. Each tenant with
// waiting lines has one goroutine that writes them.
type auditQueue struct {
	failed  atomic.Int64
	mu      sync.Mutex
	waiting map[string]*waitingAudits
}

// waitingAudits is what waits for a tenant: lines that are kept nowhere else,
// and recorded acts that wait to be chained.
type waitingAudits struct {
	lines []tenant.Audited
	acts  acts
	n     int // all of it
}

// Operators is the store that says who may do what.
func (s *Stores) Operators(ctx context.Context) (*tenant.Directory, error) {
	st, err := s.Of(ctx, tidemark.Operator())
	if err != nil {
		return nil, err
	}
	return tenant.NewDirectory(st.Records()), nil
}

// auditedBy describes what a caller did.
func (s *Stores) auditedBy(ctx context.Context, action, thing, outcome string) tenant.Audited {
	c := request.CallerOf(ctx)
	return tenant.Audited{At: s.o.Now(), Who: c.User, Name: c.Name, Token: c.Token, Action: action, Thing: thing, Outcome: outcome, Request: request.ID(ctx)}
}

// AuditIn records what the caller of ctx did in the log of a tenant that may
// not be the caller's own, and returns when that is durable. thing is an id or
// a path, never content.
func (s *Stores) AuditIn(ctx context.Context, tenant, action, thing, outcome string) error {
	if s.o.NoAudit {
		return nil
	}
	users, err := s.Operators(ctx)
	if err != nil {
		return err
	}
	err = users.Audit(ctx, tenant, s.auditedBy(ctx, action, thing, outcome))
	s.o.Chained(tenant)
	return err
}

// AuditLater records soon what changed nothing, or what was announced by a
// line written ahead.
func (s *Stores) AuditLater(ctx context.Context, action, thing, outcome string) {
	if s.o.NoAudit {
		return
	}
	of, did := request.CallerOf(ctx).Tenant, s.auditedBy(ctx, action, thing, outcome)
	queued := s.queueAudit(of, func(w *waitingAudits) bool {
		if w.n >= maxAuditQueue {
			return false
		}
		w.lines = append(w.lines, did)
		return true
	})
	if !queued {
		if err := s.writeAudit(ctx, of, waitingAudits{lines: []tenant.Audited{did}}); err != nil {
			request.Note(ctx, "audit", err.Error())
		}
	}
}

// queueAudit adds to what waits for a tenant, and makes sure that somebody
// writes it.
func (s *Stores) queueAudit(tenant string, add func(*waitingAudits) bool) bool {
	q := &s.audits
	q.mu.Lock()
	defer q.mu.Unlock()
	w := q.waiting[tenant]
	writes := w != nil
	if !writes {
		w = new(waitingAudits)
	}
	if !add(w) {
		return false
	}
	w.n++
	if !writes {
		if q.waiting == nil {
			q.waiting = make(map[string]*waitingAudits)
		}
		q.waiting[tenant] = w
		go s.writeAudits(tenant)
	}
	return true
}

// writeAudits writes what waits for a tenant until nothing does.
func (s *Stores) writeAudits(tenant string) {
	pause := auditLinger
	for {
		select {
		case <-time.After(pause):
		case <-s.shutdown.Begun():
			if pause > auditLinger {
				time.Sleep(auditLinger) // the store is unreachable: do not spin
			}
		}
		batch := s.nextAudits(tenant)
		if batch.n == 0 {
			return
		}
		if err := s.writeAudit(context.Background(), tenant, batch); err != nil {
			s.audits.failed.Add(1)
			s.o.Log.Error("audit", "tenant", tenant, "error", err.Error(), "waiting", batch.n)
			pause = min(2*pause, 10*time.Second)
			continue
		}
		pause = auditLinger
		s.wroteAudits(tenant, batch)
		s.o.Chained(tenant)
	}
}

// nextAudits returns what to write next. When there is nothing, the next
// caller of queueAudit starts writing again.
func (s *Stores) nextAudits(tenant string) waitingAudits {
	s.audits.mu.Lock()
	defer s.audits.mu.Unlock()
	w := s.audits.waiting[tenant]
	if w.n == 0 {
		delete(s.audits.waiting, tenant)
		return waitingAudits{}
	}
	next := waitingAudits{lines: slices.Clone(w.lines[:min(len(w.lines), maxAuditBatch)]), acts: make(acts), n: w.n}
	for boot, all := range w.acts {
		next.acts[boot] = slices.Clone(all[:min(len(all), maxAuditBatch)])
	}
	return next
}

// wroteAudits removes what was written from what waits.
func (s *Stores) wroteAudits(tenant string, batch waitingAudits) {
	s.audits.mu.Lock()
	defer s.audits.mu.Unlock()
	w := s.audits.waiting[tenant]
	w.lines = w.lines[len(batch.lines):]
	w.n -= len(batch.lines)
	for boot, done := range batch.acts {
		w.n -= len(done)
		if w.acts[boot] = w.acts[boot][len(done):]; len(w.acts[boot]) == 0 {
			delete(w.acts, boot)
		}
	}
}

func (s *Stores) writeAudit(ctx context.Context, tenant string, w waitingAudits) error {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), auditTimeout)
	defer stop()
	for boot, acts := range w.acts {
		if err := boot.Chain(ctx, acts...); err != nil {
			return err
		}
	}
	users, err := s.Operators(ctx)
	if err != nil {
		return err
	}
	return users.Audit(ctx, tenant, w.lines...)
}

// FlushAudit returns when everything that was done is in the audit log, or
// with the error of ctx. It is called after the last request, before the
// server ends.
func (s *Stores) FlushAudit(ctx context.Context) error {
	for {
		s.audits.mu.Lock()
		waits := len(s.audits.waiting)
		s.audits.mu.Unlock()
		if waits == 0 {
			return s.endBoots(ctx)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(auditLinger / 4):
		}
	}
}

// AnchorAudit chains what servers did not live to chain, stores the head of every tenant's audit log, and returns the
// heads. It is called from time to time, and its result put out of the store's reach: in a file, on another machine.
func (s *Stores) AnchorAudit(ctx context.Context) ([]tenant.Anchor, error) {
	if s.o.NoAudit {
		return nil, nil
	}
	users, err := s.Operators(ctx)
	if err != nil {
		return nil, err
	}
	tenants, err := s.AuditedTenants(ctx)
	if err != nil {
		return nil, err
	}
	var heads []tenant.Anchor
	for _, id := range tenants {
		if err := s.chainLeft(ctx, users, id); err != nil {
			return heads, err
		}
		if err := s.trimAudit(ctx, users, id); err != nil {
			return heads, err
		}
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

// AuditedTenants returns the ids of the tenants that may have an audit log.
func (s *Stores) AuditedTenants(ctx context.Context) ([]string, error) {
	users, err := s.Operators(ctx)
	if err != nil {
		return nil, err
	}
	tenants := []string{tidemark.TenantOf(tenant.DefaultTenant, "").Tenant}
	for t, err := range users.Tenants(ctx, "") {
		if err != nil {
			return nil, err
		}
		if t.ID != tenants[0] {
			tenants = append(tenants, t.ID)
		}
	}
	return tenants, nil
}

// trimAudit drops what is old enough of an audit log, and says so in it.
func (s *Stores) trimAudit(ctx context.Context, users *tenant.Directory, of string) error {
	if s.o.AuditKeep <= 0 {
		return nil
	}
	n, err := users.TrimAudit(ctx, of, s.o.Now().Add(-s.o.AuditKeep))
	if err != nil || n == 0 {
		return err
	}
	return users.Audit(ctx, of, tenant.Audited{At: s.o.Now(), Who: tidemark.Operator().User, Name: "retention", Action: "audit.trim", Thing: strconv.FormatInt(n, 10) + " lines", Outcome: tenant.AuditDone})
}

// Audited makes sure that every call that changes something has a line, and every
// refusal of a known caller. A change carries its line; the rest is recorded
// here. routes names the calls; nil: they have the route of the request.
func (s *Stores) Audited(routes *http.ServeMux, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out, ok := w.(*request.Recorder)
		if !ok {
			out = &request.Recorder{ResponseWriter: w}
		}
		route := request.Route(r.Context())
		if routes != nil {
			_, route = routes.Handler(r)
		}
		action := route
		if route == "" {
			action = r.Method
		} else if !strings.Contains(route, " ") {
			action = r.Method + " " + route
		}
		r = r.WithContext(Doing(r.Context(), action, r.URL.Path))
		ctx := r.Context()
		defer func() {
			if out.Status < 400 && changes(r, route) && changesAccess(r) {
				s.access.Changed()
			}
		}()
		if s.o.NoAudit || request.CallerOf(ctx).Tenant == "" {
			next.ServeHTTP(out, r)
			return
		}
		ahead := isAhead(r, route)
		if ahead {
			if err := s.writeAhead(ctx, DeedOf(ctx), r); err != nil {
				request.Note(ctx, "audit", err.Error())
				request.AnswerProblem(out, request.Unavailable("what you ask for is written down first, and that failed: nothing was done"))
				return
			}
		}
		out.Before(func(status int) {
			if status == http.StatusForbidden {
				s.auditRefused(ctx, action, r.URL.Path)
			}
		})
		defer func() {
			failed := out.Status == 0 || out.Status >= 400
			switch {
			case out.Status == http.StatusForbidden, !ahead && !changes(r, route), Carried(ctx) && !failed:
			case failed && changes(r, route):
				s.AuditLater(ctx, action, r.URL.Path, tenant.AuditFailed)
			case !failed && !auditsItself(r) && !readsAudit(r.URL.Path):
				s.AuditLater(ctx, action, r.URL.Path, tenant.AuditDone)
			}
		}()
		next.ServeHTTP(out, r)
	})
}

// auditRefused records a refusal before the caller gets it.
func (s *Stores) auditRefused(ctx context.Context, action, thing string) {
	within, stop := context.WithTimeout(context.WithoutCancel(ctx), auditTimeout)
	defer stop()
	if err := s.AuditIn(within, request.CallerOf(ctx).Tenant, action, thing, tenant.AuditRefused); err != nil {
		request.Note(ctx, "audit", err.Error())
	}
}

// changes reports whether a call changes something. Some calls that only
// read have a body. The route decides: a file may be called export.
func changes(r *http.Request, route string) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return false
	}
	if call, ok := strings.CutPrefix(r.URL.Path, "/api/v1/backend/"); ok {
		return call == "commit" || call == "share"
	}
	if r.URL.Path == request.MCPPath {
		return false // its tools report what they changed
	}
	if r.URL.Path == "/sessions/several" {
		return false // each session that it changes has a line of its own
	}
	return route != "POST "+request.SessionsPath+"/{id}/export"
}

// auditsItself reports whether the handler of a call records it, with its
// outcome, before it answers.
func auditsItself(r *http.Request) bool {
	if strings.HasPrefix(r.URL.Path, "/store/") {
		return true // the pages of the same calls
	}
	return slices.Contains([]string{"tokens", "tenants", "users", "workspaces", "scim"}, auth.ScopeOf(r.URL.Path))
}

// changesAccess reports whether a completed call may have changed who may do
// what.
func changesAccess(r *http.Request) bool {
	return auditsItself(r) || r.URL.Path == "/signout"
}
