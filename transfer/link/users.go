package link

import (
	"cmp"
	"context"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
)

// Keeper lists and ends links.
type Keeper interface {
	List(context.Context) ([]Made, error)
	Revoke(ctx context.Context, link string) (Made, error)
}

// InDirectory sees to the links of all users of a tenant, or of all tenants where none
// is named, for who can open the store of the server itself.
type InDirectory struct {
	Users  *tenant.Directory
	Tenant string // its name; "": all
	// Audit calls do, and records it in the audit log of a tenant before and after; do
	// returns what was changed.
	Audit func(of, action, thing string, do func() (string, error)) error
}

// List returns the links, as that of a Server does.
func (k InDirectory) List(ctx context.Context) ([]Made, error) {
	of := ""
	if k.Tenant != "" {
		id, err := k.Users.TenantID(ctx, k.Tenant)
		if err != nil {
			return nil, err
		}
		of = id
	}
	all := []Made{}
	for l, err := range k.Users.TenantLinks(ctx, of, "") {
		if err != nil {
			return nil, err
		}
		m := Server{users: true}.made(l, "")
		if m.URL = ""; l.User != l.Tenant {
			if u, err := k.Users.User(ctx, l.Tenant, l.User); err == nil {
				m.Owner = cmp.Or(u.Email, u.Name, u.Subject)
			}
		}
		all = append(all, m)
	}
	return newestFirst(all), nil
}

// Revoke ends a link, as that of a Server does.
func (k InDirectory) Revoke(ctx context.Context, link string) (Made, error) {
	_, name := split(link)
	l, err := k.Users.Link(ctx, name)
	if err == nil && k.Tenant != "" {
		var id string
		if id, err = k.Users.TenantID(ctx, k.Tenant); err == nil && id != l.Tenant {
			l, err = tenant.Link{}, tidemark.NotFoundf("link %s: not one of tenant %s", name, k.Tenant)
		}
	}
	if err == nil {
		err = k.Audit(l.Tenant, "link.revoke", l.Thing(), func() (string, error) {
			l, err = k.Users.RevokeTenantLink(ctx, l.Tenant, tidemark.Operator().User, name)
			return l.Thing(), err
		})
	}
	m := Server{users: true}.made(l, "")
	m.URL = ""
	return m, hint.With(err, "see the links with: tidemark share ls --all")
}
