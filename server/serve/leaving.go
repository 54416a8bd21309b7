package serve

import (
	"context"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/transfer"
)

// Leaving is somebody who leaves, as the operator names them: users of a tenant, or
// with none the tenant.
type Leaving struct {
	*transfer.Offboarding
	In  tenant.Tenant
	Who []tenant.User
}

// Leaving finds those who leave: users by what args name, of the tenant with the name
// of; where that is nil, args name the tenant.
func (t *Opener) Leaving(ctx context.Context, x *transfer.Offboarding, of *string, args []string) (l *Leaving, err error) {
	x.By = tidemark.Operator().User
	l = &Leaving{Offboarding: x}
	name := args[0]
	if of != nil {
		name = *of
	}
	if l.In, err = x.Users.TenantNamed(ctx, name); err != nil {
		return nil, hint.With(err, "see them with: tidemark tenant ls")
	}
	for _, person := range args {
		if of == nil {
			break
		}
		u, err := x.Users.UserNamed(ctx, l.In, person)
		if err != nil {
			return nil, err
		}
		l.Who = append(l.Who, u)
	}
	return l, nil
}

// ID is the id of who leaves.
func (l *Leaving) ID() string {
	if len(l.Who) > 0 {
		return l.Who[0].ID
	}
	return l.In.ID
}

// Erase erases what they have.
func (l *Leaving) Erase(ctx context.Context) (tenant.Erasure, error) {
	if len(l.Who) > 0 {
		return l.User(ctx, l.In, l.Who[0])
	}
	return l.Tenant(ctx, l.In)
}
