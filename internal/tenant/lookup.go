package tenant

import (
	"context"
	"errors"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/hint"
)

// EntraIssuer is the issuer of one organisation in Microsoft Entra.
func EntraIssuer(organisation string) string {
	return "https://login.microsoftonline.com/" + organisation + "/v2.0"
}

// EnsureTenant finds a tenant by its name. The default one is created when it
// is first needed; any other missing one is ErrNotFound.
func (d *Directory) EnsureTenant(ctx context.Context, name string) (Tenant, error) {
	t, err := d.TenantNamed(ctx, name)
	if errors.Is(err, tidemark.ErrNotFound) && name == DefaultTenant {
		if t, err = d.CreateTenant(ctx, Tenant{Name: name}); errors.Is(err, tidemark.ErrExists) {
			t, err = d.TenantNamed(ctx, name)
		}
	}
	return t, hint.With(err, "see them with: tidemark tenant ls")
}

// TenantID is the id of a tenant by its name, without creating one: the
// default tenant has an id even before it is created.
func (d *Directory) TenantID(ctx context.Context, name string) (string, error) {
	if name == DefaultTenant {
		return tidemark.TenantOf(DefaultTenant, "").Tenant, nil
	}
	t, err := d.TenantNamed(ctx, name)
	if errors.Is(err, tidemark.ErrNotFound) {
		// Of a tenant that was erased the audit log is left.
		if e, gone := d.Erasure(ctx, tidemark.TenantOf(name, "").Tenant, ""); gone == nil {
			return e.Tenant, nil
		}
	}
	return t.ID, hint.With(err, "see them with: tidemark tenant ls")
}

// UserNamed finds a user of a tenant by id, email or subject. Errors:
// ErrNotFound; ErrInvalid if several match.
func (d *Directory) UserNamed(ctx context.Context, t Tenant, name string) (User, error) {
	if u, err := d.User(ctx, t.ID, name); !errors.Is(err, tidemark.ErrNotFound) {
		return u, err
	}
	var found []User
	for u, err := range d.Users(ctx, t.ID, "") {
		if errors.Is(err, tidemark.ErrCorrupt) {
			continue
		}
		if err != nil {
			return u, err
		}
		if u.Subject == name || strings.EqualFold(u.Email, name) {
			found = append(found, u)
		}
	}
	switch len(found) {
	case 0:
		return User{}, hint.With(tidemark.NotFoundf("user %q: not found", name), "see them with: tidemark user ls --tenant %s", t.Name)
	case 1:
		return found[0], nil
	}
	return User{}, tidemark.Invalidf("user %q: there are several; name one by its id", name)
}

// Named finds a tenant by its name or, where of names one, a user of it.
func (d *Directory) Named(ctx context.Context, of *string, name string) (t Tenant, u User, err error) {
	if of == nil {
		t, err = d.EnsureTenant(ctx, name)
		return t, u, err
	}
	if t, err = d.EnsureTenant(ctx, *of); err == nil {
		u, err = d.UserNamed(ctx, t, name)
	}
	return t, u, err
}

// AuditAround records that something is begun, does it, and records that it is
// done; do returns the id of what it was done to. A failure shows as a begun
// line without a done one.
func (d *Directory) AuditAround(ctx context.Context, tenant string, did Audited, do func() (thing string, err error)) error {
	did.Outcome = AuditBegun
	err := d.Audit(ctx, tenant, did)
	if err == nil {
		did.Thing, err = do()
	}
	if err != nil {
		return err
	}
	did.Outcome = AuditDone
	return d.Audit(ctx, tenant, did)
}
