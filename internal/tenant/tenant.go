package tenant

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
	"github.com/tidemark-sessions/tidemark/internal/text"
)

// Tenants, their users and workspaces are records of the operator's store. The
// ids are derived from names, so that two callers that create the same thing
// at once create one.

// The states of a tenant and of a user.
const (
	Active    = "active"
	Suspended = "suspended"
)

// The roles of a user and of a service token: each includes the one before.
const (
	RoleReader = "reader"
	RoleWriter = "writer"
	RoleAdmin  = "admin"
)

// DefaultTenant owns what was created without naming a tenant.
const DefaultTenant = "default"

var userRoles = []string{RoleReader, RoleWriter, RoleAdmin}

// CheckRole returns ErrInvalid for an unknown role.
func CheckRole(role string) error {
	if !slices.Contains(userRoles, role) {
		return tidemark.Invalidf("role %q: want %s", role, strings.Join(userRoles, ", "))
	}
	return nil
}

// RoleWithin reports whether role allows no more than most.
func RoleWithin(role, most string) bool {
	i := slices.Index(userRoles, role)
	return i >= 0 && i <= slices.Index(userRoles, most)
}

// Tenant is a group of users whose rows nobody else sees.
type Tenant struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	State     string    `json:"state"`
	Issuer    string    `json:"issuer,omitempty"`  // the issuer of its users' tokens
	Foreign   string    `json:"foreign,omitempty"` // the issuer's name for the tenant
	CreatedAt time.Time `json:"created_at"`
	// Provisioned means that an identity provider says who belongs to it: nobody else
	// comes in.
	Provisioned bool `json:"provisioned,omitempty"`
}

// User is a person who was seen with a valid token of the tenant's issuer, or was
// provisioned.
type User struct {
	ID          string    `json:"id"`
	Tenant      string    `json:"tenant"`
	Issuer      string    `json:"issuer,omitempty"`
	Subject     string    `json:"subject"` // the issuer's name for the user
	Name        string    `json:"name,omitempty"`
	Email       string    `json:"email,omitempty"`
	Role        string    `json:"role"`
	State       string    `json:"state"`
	Workspaces  []string  `json:"workspaces,omitempty"`
	Operator    bool      `json:"operator,omitempty"` // by a rule of the issuer
	FirstSeenAt time.Time `json:"first_seen_at"`
	LastSeenAt  time.Time `json:"last_seen_at"`
	// Provisioned is what an identity provider keeps about the user; nil: nothing.
	Provisioned *Provisioned `json:"provisioned,omitempty"`
}

// Workspace is a named group of users of one tenant.
type Workspace struct {
	ID        string    `json:"id"`
	Tenant    string    `json:"tenant"`
	Name      string    `json:"name"`
	CreatedAt time.Time `json:"created_at"`
}

// issued says which tenant an issuer means.
type issued struct {
	Issuer  string `json:"issuer"`
	Foreign string `json:"foreign,omitempty"`
	Tenant  string `json:"tenant"`
}

// seenEvery is how often it is recorded that a user was seen: more often
// would be a write for each request.
const seenEvery = time.Hour

// maxNameBytes bounds the names of tenants and workspaces.
const maxNameBytes = 64

// maxSubjectBytes bounds an issuer's name for a user.
const maxSubjectBytes = 512

func tenantKey(id string) tidemark.Key { return tidemark.Key{Kind: kindTenant, ID: id} }

func issuerKey(issuer, foreign string) tidemark.Key {
	return tidemark.Key{Kind: kindIssuer, ID: tidemark.IDOf("issuer", issuer, foreign)}
}

func userKey(tenant, id string) tidemark.Key {
	return tidemark.Key{Kind: kindUser, ID: tenant + "." + id}
}

func workspaceKey(tenant, id string) tidemark.Key {
	return tidemark.Key{Kind: kindWorkspace, ID: tenant + "." + id}
}

// IsOperators reports whether a record or log says who may do what: where one
// store serves the operator and others, nobody else may touch it.
func IsOperators(k tidemark.Key) bool {
	return slices.Contains([]string{kindTenant, kindIssuer, kindRules, kindUser, kindWorkspace, kindToken, kindAudit, kindAuditState, kindAnchor, kindBoot, tidemark.ActKind, tidemark.SealedActKind, kindServerKey, kindSignOut, kindLink, kindLinkData, kindErasure, kindDeparture, kindGroup, kindLimits, kindKept, kindForwarded}, k.Kind)
}

// checkName returns ErrInvalid for an invalid name of a tenant or a workspace.
func checkName(what, name string) error {
	ok := name != "" && len(name) <= maxNameBytes
	for i := range len(name) {
		c := name[i]
		ok = ok && ('a' <= c && c <= 'z' || '0' <= c && c <= '9' || i > 0 && (c == '-' || c == '_' || c == '.'))
	}
	if !ok {
		return tidemark.Invalidf("%s %q: want 1 to %d lower-case letters, digits, dots, dashes, underscores, a letter or digit first", what, text.Shorten(name, maxNameBytes), maxNameBytes)
	}
	return nil
}

// CreateTenant keeps a new tenant. ErrExists when the name, or the issuer
// with its name for the tenant, is taken; ErrInvalid.
func (d *Directory) CreateTenant(ctx context.Context, t Tenant) (Tenant, error) {
	if err := checkName("tenant", t.Name); err != nil {
		return t, err
	}
	t.ID, t.State, t.CreatedAt = tidemark.TenantOf(t.Name, "").Tenant, Active, d.k.Now()
	err := records.Retry(ctx, func() error {
		if r, err := d.k.Get(ctx, tenantKey(t.ID), &Tenant{}); err != nil || r.Version > 0 {
			return orExists(err, "tenant %s: already there", t.Name)
		}
		b, err := d.tenantBatch(ctx, t, 0)
		if err == nil {
			_, err = d.k.Commit(ctx, b)
		}
		return err
	})
	return t, err
}

func orExists(err error, format string, args ...any) error {
	if err != nil {
		return err
	}
	return tidemark.Existsf(format, args...)
}

// tenantBatch is the batch that keeps a tenant and the issuer's name for it.
func (d *Directory) tenantBatch(ctx context.Context, t Tenant, version int64) (tidemark.Batch, error) {
	var b tidemark.Batch
	if t.Issuer != "" {
		key := issuerKey(t.Issuer, t.Foreign)
		have := issued{Tenant: t.ID}
		r, err := d.k.Get(ctx, key, &have)
		if err != nil {
			return b, err
		}
		if have.Tenant != t.ID {
			return b, tidemark.Existsf("issuer %s: it speaks for another tenant already", text.Shorten(t.Issuer, maxNameBytes))
		}
		p, err := records.Put(key, r.Version, issued{Issuer: t.Issuer, Foreign: t.Foreign, Tenant: t.ID})
		if err != nil {
			return b, err
		}
		b.Puts = append(b.Puts, p)
	}
	p, err := records.Put(tenantKey(t.ID), version, t)
	p.State = t.State
	b.Puts = append(b.Puts, p)
	return b, err
}

// BindTenant sets the issuer of a tenant, and the issuer's name for it.
// Errors: ErrNotFound, ErrExists.
func (d *Directory) BindTenant(ctx context.Context, id, issuer, foreign string) (Tenant, error) {
	return d.changeTenant(ctx, id, func(t *Tenant, b *tidemark.Batch) error {
		if t.Issuer != "" && (t.Issuer != issuer || t.Foreign != foreign) {
			old, err := d.k.Get(ctx, issuerKey(t.Issuer, t.Foreign), &issued{})
			if err != nil {
				return err
			}
			if old.Version > 0 {
				b.Deletes = append(b.Deletes, tidemark.Precondition{Key: old.Key, Version: old.Version})
			}
		}
		t.Issuer, t.Foreign = issuer, foreign
		return nil
	})
}

// SetTenantState suspends a tenant or reactivates it, or returns ErrNotFound.
func (d *Directory) SetTenantState(ctx context.Context, id, state string) (Tenant, error) {
	if err := checkState(state); err != nil {
		return Tenant{}, err
	}
	return d.changeTenant(ctx, id, func(t *Tenant, _ *tidemark.Batch) error { t.State = state; return nil })
}

func checkState(state string) error {
	if state != Active && state != Suspended {
		return tidemark.Invalidf("state %q: want %s or %s", text.Shorten(state, maxNameBytes), Active, Suspended)
	}
	return nil
}

func (d *Directory) changeTenant(ctx context.Context, id string, change func(*Tenant, *tidemark.Batch) error) (Tenant, error) {
	var t Tenant
	err := records.Retry(ctx, func() error {
		t = Tenant{}
		r, err := d.k.Get(ctx, tenantKey(id), &t)
		if err == nil && r.Version == 0 {
			err = tidemark.NotFoundf("tenant %s: not found", text.Shorten(id, maxNameBytes))
		}
		if err != nil {
			return err
		}
		var changes tidemark.Batch
		if err := change(&t, &changes); err != nil {
			return err
		}
		b, err := d.tenantBatch(ctx, t, r.Version)
		if err != nil {
			return err
		}
		b.Deletes = changes.Deletes
		_, err = d.k.Commit(ctx, b)
		return err
	})
	return t, err
}

// Tenant returns a tenant by its id, or ErrNotFound.
func (d *Directory) Tenant(ctx context.Context, id string) (Tenant, error) {
	var t Tenant
	if tidemark.CheckID(id) != nil {
		return t, tidemark.NotFoundf("tenant %s: not found", text.Shorten(id, maxNameBytes))
	}
	r, err := d.k.Get(ctx, tenantKey(id), &t)
	if err == nil && r.Version == 0 {
		err = tidemark.NotFoundf("tenant %s: not found", text.Shorten(id, maxNameBytes))
	}
	return t, err
}

// TenantNamed returns a tenant by its name or its id, or ErrNotFound.
func (d *Directory) TenantNamed(ctx context.Context, name string) (Tenant, error) {
	t, err := d.Tenant(ctx, tidemark.TenantOf(name, "").Tenant)
	if errors.Is(err, tidemark.ErrNotFound) {
		if byID, err := d.Tenant(ctx, name); !errors.Is(err, tidemark.ErrNotFound) {
			return byID, err
		}
		err = tidemark.NotFoundf("tenant %s: not found", text.Shorten(name, maxNameBytes))
	}
	return t, err
}

// TenantOfIssuer returns the tenant that an issuer calls foreign, or
// ErrNotFound.
func (d *Directory) TenantOfIssuer(ctx context.Context, issuer, foreign string) (Tenant, error) {
	var i issued
	r, err := d.k.Get(ctx, issuerKey(issuer, foreign), &i)
	if err != nil {
		return Tenant{}, err
	}
	if r.Version == 0 {
		return Tenant{}, tidemark.NotFoundf("no tenant has this issuer")
	}
	return d.Tenant(ctx, i.Tenant)
}

// Tenants lists the tenants by id, starting after after.
func (d *Directory) Tenants(ctx context.Context, after string) iter.Seq2[Tenant, error] {
	return records.List[Tenant](ctx, d.k, startingAfter(tidemark.Query{Kind: kindTenant}, after))
}

// startingAfter makes q a listing by id that starts after one.
func startingAfter(q tidemark.Query, after string) tidemark.Query {
	q.Order = tidemark.ByID
	if after != "" {
		q.After = &tidemark.Record{Key: tidemark.Key{Kind: q.Kind, ID: after}}
	}
	return q
}

// Claims is what a valid token says about a user.
type Claims struct {
	Tenant  Tenant
	Issuer  string
	Subject string
	Name    string
	Email   string
	// Role is the role of a new user; with Decides, also that of an existing
	// one: the issuer then assigns the roles.
	Role    string
	Decides bool
	// Workspaces are those of the user, by id, if Places is set: then the issuer
	// assigns them, too.
	Workspaces []string
	Places     bool
	Operator   bool // see Rule
}

// UserID is the id of a user of a tenant, derived from the issuer and its name
// for the user. No two of them are ever equal, nor equal to one of
// tidemark.TenantOf.
func UserID(tenant, issuer, subject string) string {
	return tidemark.IDOf("user", tenant, issuer, subject)
}

// UpsertUser returns the user of a token, created now if this is the first
// time, and reports whether it is. It does not check the state: a suspended
// user is returned as such. ErrDenied: an identity provider says who belongs to the
// tenant, and did not name the user.
func (d *Directory) UpsertUser(ctx context.Context, c Claims) (User, bool, error) {
	if err := CheckRole(c.Role); err != nil {
		return User{}, false, err
	}
	if c.Subject == "" || len(c.Subject) > maxSubjectBytes {
		return User{}, false, tidemark.Invalidf("subject of %d bytes: want 1 to %d", len(c.Subject), maxSubjectBytes)
	}
	id := UserID(c.Tenant.Name, c.Issuer, c.Subject)
	var u User
	fresh := false
	err := records.Retry(ctx, func() error {
		u = User{}
		r, err := d.k.Get(ctx, userKey(c.Tenant.ID, id), &u)
		if err != nil {
			return err
		}
		now := d.k.Now()
		if fresh = r.Version == 0; fresh && c.Tenant.Provisioned {
			return tidemark.Deniedf("the identity provider of the tenant did not name the user")
		}
		if fresh {
			u = User{ID: id, Tenant: c.Tenant.ID, Issuer: c.Issuer, Subject: c.Subject, Role: c.Role, State: Active, FirstSeenAt: now}
		}
		moved := u.Operator != c.Operator || c.Decides && u.Role != c.Role || c.Places && !slices.Equal(u.Workspaces, c.Workspaces)
		if !fresh && !moved && now.Sub(u.LastSeenAt) < seenEvery {
			return nil
		}
		if c.Decides {
			u.Role = c.Role
		}
		if c.Places {
			u.Workspaces = c.Workspaces
		}
		u.Operator = c.Operator
		u.Name, u.Email, u.LastSeenAt = d.k.Mask(auditText(c.Name)), d.k.Mask(auditText(c.Email)), now
		p, err := records.Put(r.Key, r.Version, u)
		if err != nil {
			return err
		}
		p.State = u.State
		_, err = d.k.Commit(ctx, tidemark.Batch{Puts: []tidemark.Record{p}})
		return err
	})
	return u, fresh, err
}

// User returns a user of a tenant, or ErrNotFound.
func (d *Directory) User(ctx context.Context, tenant, id string) (User, error) {
	var u User
	key := userKey(tenant, id)
	if key.Check() != nil {
		return u, tidemark.NotFoundf("user %s: not found", text.Shorten(id, maxNameBytes))
	}
	r, err := d.k.Get(ctx, key, &u)
	if err == nil && r.Version == 0 {
		err = tidemark.NotFoundf("user %s: not found", text.Shorten(id, maxNameBytes))
	}
	return u, err
}

// Users lists the users of a tenant by id, starting after after.
func (d *Directory) Users(ctx context.Context, tenant, after string) iter.Seq2[User, error] {
	return records.List[User](ctx, d.k, within(kindUser, tenant, after))
}

// within lists what belongs to a tenant.
func within(kind, tenant, after string) tidemark.Query {
	if after != "" {
		after = tenant + "." + after
	}
	return startingAfter(tidemark.Query{Kind: kind, Prefix: tenant + "."}, after)
}

// ChangeUser changes the role, the state or the workspaces of a user.
// Errors: ErrNotFound, ErrInvalid.
func (d *Directory) ChangeUser(ctx context.Context, tenant, id string, change func(*User) error) (User, error) {
	var u User
	key := userKey(tenant, id)
	if key.Check() != nil {
		return u, tidemark.NotFoundf("user %s: not found", text.Shorten(id, maxNameBytes))
	}
	err := records.Retry(ctx, func() error {
		u = User{}
		r, err := d.k.Get(ctx, key, &u)
		if err == nil && r.Version == 0 {
			err = tidemark.NotFoundf("user %s: not found", text.Shorten(id, maxNameBytes))
		}
		if err != nil {
			return err
		}
		if err := change(&u); err != nil {
			return err
		}
		if err := errors.Join(CheckRole(u.Role), checkState(u.State)); err != nil {
			return err
		}
		p, err := records.Put(r.Key, r.Version, u)
		if err != nil {
			return err
		}
		p.State = u.State
		_, err = d.k.Commit(ctx, tidemark.Batch{Puts: []tidemark.Record{p}})
		return err
	})
	return u, err
}

// workspaceID is the id of the workspace of a tenant with a name.
func workspaceID(t Tenant, name string) string { return tidemark.IDOf("workspace", t.Name, name) }

// CreateWorkspace keeps a new workspace of a tenant. Errors: ErrExists,
// ErrNotFound, ErrInvalid.
func (d *Directory) CreateWorkspace(ctx context.Context, tenant, name string) (Workspace, error) {
	if err := checkName("workspace", name); err != nil {
		return Workspace{}, err
	}
	t, err := d.Tenant(ctx, tenant)
	if err != nil {
		return Workspace{}, err
	}
	w := Workspace{ID: workspaceID(t, name), Tenant: t.ID, Name: name, CreatedAt: d.k.Now()}
	err = records.Retry(ctx, func() error {
		r, err := d.k.Get(ctx, workspaceKey(t.ID, w.ID), &Workspace{})
		if err != nil || r.Version > 0 {
			return orExists(err, "workspace %s: already there", name)
		}
		p, err := records.Put(r.Key, 0, w)
		if err == nil {
			_, err = d.k.Commit(ctx, tidemark.Batch{Puts: []tidemark.Record{p}})
		}
		return err
	})
	return w, err
}

// Workspaces lists the workspaces of a tenant by id, starting after after.
func (d *Directory) Workspaces(ctx context.Context, tenant, after string) iter.Seq2[Workspace, error] {
	return records.List[Workspace](ctx, d.k, within(kindWorkspace, tenant, after))
}

// Join adds a user to a workspace, or removes the user from it. It may return
// ErrNotFound.
func (d *Directory) Join(ctx context.Context, tenant, workspace, user string, member bool) (User, error) {
	key := workspaceKey(tenant, workspace)
	if key.Check() != nil {
		return User{}, tidemark.NotFoundf("workspace %s: not found", text.Shorten(workspace, maxNameBytes))
	}
	r, err := d.k.Get(ctx, key, &Workspace{})
	if err == nil && r.Version == 0 {
		err = tidemark.NotFoundf("workspace %s: not found", text.Shorten(workspace, maxNameBytes))
	}
	if err != nil {
		return User{}, err
	}
	return d.ChangeUser(ctx, tenant, user, func(u *User) error {
		u.Workspaces = slices.DeleteFunc(slices.Clone(u.Workspaces), func(w string) bool { return w == workspace })
		if member {
			u.Workspaces = append(u.Workspaces, workspace)
			slices.Sort(u.Workspaces)
		}
		return nil
	})
}
