package auth

import (
	"context"
	"sync"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/server/request"
)

// Seldom reports what came for the first time in a while.
type Seldom struct {
	mu   sync.Mutex
	last map[Refusal]time.Time
}

// First reports whether it is the first time in a minute.
func (s *Seldom) First(what Refusal, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.last[what]) < refusalEvery {
		return false
	}
	if s.last == nil || len(s.last) >= maxRemembered {
		s.last = make(map[Refusal]time.Time)
	}
	s.last[what] = now
	return true
}

// refusalTimeout bounds one attempt to record a refusal.
const refusalTimeout = 30 * time.Second

// refusalEvery is how often a refusal of the same caller is recorded:
// repeated attempts should not fill the log.
const refusalEvery = time.Minute

// AuditRefusals returns a function that records refused callers whose tenant is
// known in the audit log.
func AuditRefusals(users *tenant.Directory) func(context.Context, Refusal) {
	var told Seldom
	return func(ctx context.Context, why Refusal) {
		if why.Tenant == "" || !told.First(why, time.Now()) {
			return
		}
		ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), refusalTimeout)
		defer stop()
		did := tenant.Audited{Who: why.User, Token: why.Token, Action: "sign-in", Thing: why.Why, Outcome: tenant.AuditRefused, Request: request.ID(ctx)}
		if err := users.Audit(ctx, why.Tenant, did); err != nil {
			request.Note(ctx, "audit", err.Error())
		}
	}
}

// Refusal is why somebody was not admitted. It is ErrDenied under errors.Is.
// The caller is never told more than that; the rest is for the operator.
type Refusal struct {
	Why    string // a word or two: expired, issuer, revoked
	Tenant string // what is known about the caller, only ids
	User   string
	Token  string
}

func (r *Refusal) Error() string { return "not let in: " + r.Why }

// Is makes a Refusal match ErrDenied.
func (r *Refusal) Is(target error) bool { return target == tidemark.ErrDenied }

func refuse(why string) error { return &Refusal{Why: why} }
