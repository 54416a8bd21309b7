package tenant

import (
	"cmp"
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

// An identity provider may tell who belongs to a tenant before they come, and when they
// leave: it provisions users and groups. From the first one on, the tenant lets nobody
// in whom it did not name, but for those who were there before.

// GroupsClaim is the claim under which the rules of an issuer see the groups of a
// provisioned user, by name and by the provider's id.
const GroupsClaim = "groups"

const (
	// maxProvisionedText bounds a name of a user or a group.
	maxProvisionedText = 256
	// maxGroupMembers bounds a group: it is one record.
	maxGroupMembers = 10_000
)

// Provisioned is what an identity provider keeps about a user.
type Provisioned struct {
	UserName   string    `json:"user_name"`
	ExternalID string    `json:"external_id,omitempty"`
	GivenName  string    `json:"given_name,omitempty"`
	FamilyName string    `json:"family_name,omitempty"`
	Gone       bool      `json:"gone,omitempty"` // deleted there: what the user has waits to be handed over or erased
	ChangedAt  time.Time `json:"changed_at"`
	// Role and Workspaces are what the user has because of groups.
	Role       string   `json:"role,omitempty"`
	Workspaces []string `json:"workspaces,omitempty"`
}

// Group is a group of an identity provider.
type Group struct {
	ID         string    `json:"id"`
	Tenant     string    `json:"tenant"`
	Name       string    `json:"name"`
	ExternalID string    `json:"external_id,omitempty"`
	Members    []string  `json:"members"` // ids of users, sorted
	CreatedAt  time.Time `json:"created_at"`
	ChangedAt  time.Time `json:"changed_at"`
}

func groupKey(tenant, id string) tidemark.Key {
	return tidemark.Key{Kind: kindGroup, ID: tenant + "." + id}
}

// ProvisionedName is the name under which an identity provider looks for a user, ""
// for one that it is not told of.
func (u User) ProvisionedName() string {
	switch {
	case u.Provisioned == nil:
		return cmp.Or(u.Email, u.Subject)
	case u.Provisioned.Gone:
		return ""
	}
	return u.Provisioned.UserName
}

// checkProvisioned returns ErrInvalid for names that are too long, or missing.
func checkProvisioned(u User) error {
	p := u.Provisioned
	if strings.TrimSpace(p.UserName) == "" {
		return tidemark.Invalidf("userName: required")
	}
	for what, said := range map[string]string{"userName": p.UserName, "externalId": p.ExternalID, "name.givenName": p.GivenName, "name.familyName": p.FamilyName, "displayName": u.Name, "emails": u.Email} {
		if len(said) > maxProvisionedText {
			return tidemark.Invalidf("%s: %d bytes, at most %d", what, len(said), maxProvisionedText)
		}
	}
	return nil
}

// issuerOf returns the issuer of the people of a tenant: the one that is bound to it,
// or the only one with rules that lead to it. ErrInvalid when there are several.
func (d *Directory) issuerOf(ctx context.Context, t Tenant) (string, error) {
	if t.Issuer != "" {
		return t.Issuer, nil
	}
	found := ""
	for of, err := range records.List[issuerRules](ctx, d.k, tidemark.Query{Kind: kindRules, Order: tidemark.ByID}) {
		if err != nil {
			return "", err
		}
		if !slices.ContainsFunc(of.Rules, func(r Rule) bool { return r.leadsTo(t) }) {
			continue
		}
		if found != "" {
			return "", tidemark.Invalidf("the rules of several issuers lead to tenant %s: bind one to it", t.Name)
		}
		found = of.Issuer
	}
	return found, nil
}

func (r Rule) leadsTo(t Tenant) bool { return r.Tenant == t.Name || r.Tenant == t.ID }

// Provision keeps a user whom an identity provider creates. The user's id is the one
// that they have when they come with a token whose subject is the provider's id, or
// without one the user name; one who has been there is taken up. ErrExists when the
// user is there, or the user name is another's; ErrInvalid.
func (d *Directory) Provision(ctx context.Context, t Tenant, u User) (User, error) {
	if err := checkProvisioned(u); err != nil {
		return u, err
	}
	issuer, err := d.issuerOf(ctx, t)
	if err != nil {
		return u, err
	}
	subject := cmp.Or(u.Provisioned.ExternalID, u.Provisioned.UserName)
	id := UserID(t.Name, issuer, subject)
	if err := d.freeName(ctx, t, u.Provisioned.UserName, id); err != nil {
		return u, err
	}
	if !t.Provisioned {
		if _, err := d.changeTenant(ctx, t.ID, func(t *Tenant, _ *tidemark.Batch) error { t.Provisioned = true; return nil }); err != nil {
			return u, err
		}
	}
	made := u
	err = records.Retry(ctx, func() error {
		var have User
		r, err := d.k.Get(ctx, userKey(t.ID, id), &have)
		if err != nil {
			return err
		}
		now := d.k.Now()
		switch {
		case r.Version > 0 && have.Subject == "":
			return tidemark.Existsf("user %s was erased", id)
		case r.Version > 0 && have.Provisioned != nil && !have.Provisioned.Gone:
			return tidemark.Existsf("user %s: already there", text.Shorten(u.Provisioned.UserName, maxNameBytes))
		}
		made = User{ID: id, Tenant: t.ID, Issuer: issuer, Subject: subject, Role: RoleReader, FirstSeenAt: now}
		if r.Version > 0 {
			made = have
		}
		d.putProvisioned(&made, u, now)
		p, err := records.Put(r.Key, r.Version, made)
		if err != nil {
			return err
		}
		p.State = made.State
		_, err = d.k.Commit(ctx, tidemark.Batch{Puts: []tidemark.Record{p}})
		return err
	})
	return made, err
}

// putProvisioned changes what an identity provider says about a user.
func (d *Directory) putProvisioned(u *User, said User, now time.Time) {
	p := *said.Provisioned
	p.ChangedAt, p.Role, p.Workspaces = now, "", nil
	if u.Provisioned != nil {
		p.Role, p.Workspaces = u.Provisioned.Role, u.Provisioned.Workspaces
	}
	u.Provisioned, u.State = &p, said.State
	u.Name, u.Email = d.k.Mask(auditText(said.Name)), d.k.Mask(auditText(said.Email))
}

// freeName returns ErrExists when another user has a name.
func (d *Directory) freeName(ctx context.Context, t Tenant, name, id string) error {
	for u, err := range d.Users(ctx, t.ID, "") {
		if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
			return err
		}
		if u.ID != id && strings.EqualFold(u.ProvisionedName(), name) {
			return tidemark.Existsf("userName %s: it is another user's", text.Shorten(name, maxNameBytes))
		}
	}
	return nil
}

// Reprovision changes what an identity provider says about a user: ErrNotFound, also
// for one that it deleted; ErrExists, ErrInvalid.
func (d *Directory) Reprovision(ctx context.Context, t Tenant, id string, change func(*User) error) (User, error) {
	return d.ChangeUser(ctx, t.ID, id, func(u *User) error {
		if u.ProvisionedName() == "" {
			return tidemark.NotFoundf("user %s: not found", text.Shorten(id, maxNameBytes))
		}
		said := *u
		said.Provisioned = &Provisioned{UserName: u.ProvisionedName()}
		if u.Provisioned != nil {
			p := *u.Provisioned
			said.Provisioned = &p
		}
		if err := change(&said); err != nil {
			return err
		}
		if err := checkProvisioned(said); err != nil {
			return err
		}
		if !strings.EqualFold(said.Provisioned.UserName, u.ProvisionedName()) {
			if err := d.freeName(ctx, t, said.Provisioned.UserName, u.ID); err != nil {
				return err
			}
		}
		d.putProvisioned(u, said, d.k.Now())
		return nil
	})
}

// Deprovision keeps a user out whom an identity provider deleted: suspended, without
// tokens and groups. What they have stays.
func (d *Directory) Deprovision(ctx context.Context, t Tenant, id string) error {
	if _, err := d.Reprovision(ctx, t, id, func(u *User) error {
		u.State, u.Provisioned.Gone = Suspended, true
		return nil
	}); err != nil {
		return err
	}
	if _, err := d.Depart(ctx, t.ID, id, false); err != nil {
		return err
	}
	return d.leaveGroups(ctx, t, id)
}

// leaveGroups takes a user out of all groups.
func (d *Directory) leaveGroups(ctx context.Context, t Tenant, id string) error {
	for g, err := range d.Groups(ctx, t.ID) {
		if err != nil {
			return err
		}
		if slices.Contains(g.Members, id) {
			if _, err := d.ChangeGroup(ctx, t, g.ID, func(g *Group) error {
				g.Members = slices.DeleteFunc(slices.Clone(g.Members), func(m string) bool { return m == id })
				return nil
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

// Groups lists the groups of a tenant by id.
func (d *Directory) Groups(ctx context.Context, tenant string) iter.Seq2[Group, error] {
	return records.List[Group](ctx, d.k, within(kindGroup, tenant, ""))
}

// Group returns a group of a tenant, or ErrNotFound.
func (d *Directory) Group(ctx context.Context, tenant, id string) (Group, error) {
	g, _, err := d.group(ctx, tenant, id)
	return g, err
}

func (d *Directory) group(ctx context.Context, tenant, id string) (g Group, version int64, err error) {
	missing := tidemark.NotFoundf("group %s: not found", text.Shorten(id, maxNameBytes))
	key := groupKey(tenant, id)
	if key.Check() != nil {
		return g, 0, missing
	}
	r, err := d.k.Get(ctx, key, &g)
	if err == nil && r.Version == 0 {
		err = missing
	}
	return g, r.Version, err
}

// checkGroup returns ErrInvalid for a group that cannot be kept, and ErrExists when
// another has its name.
func (d *Directory) checkGroup(ctx context.Context, t Tenant, g *Group) error {
	if strings.TrimSpace(g.Name) == "" || len(g.Name) > maxProvisionedText || len(g.ExternalID) > maxProvisionedText {
		return tidemark.Invalidf("displayName: want 1 to %d bytes", maxProvisionedText)
	}
	if len(g.Members) > maxGroupMembers {
		return tidemark.Invalidf("members: %d, at most %d", len(g.Members), maxGroupMembers)
	}
	slices.Sort(g.Members)
	g.Members = slices.Compact(g.Members)
	for other, err := range d.Groups(ctx, t.ID) {
		if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
			return err
		}
		if other.ID != g.ID && strings.EqualFold(other.Name, g.Name) {
			return tidemark.Existsf("group %s: already there", text.Shorten(g.Name, maxNameBytes))
		}
	}
	return nil
}

// checkMembers returns ErrInvalid for a member who is no user of the tenant.
func (d *Directory) checkMembers(ctx context.Context, t Tenant, ids []string) error {
	for _, id := range ids {
		u, err := d.User(ctx, t.ID, id)
		if errors.Is(err, tidemark.ErrNotFound) || err == nil && u.ProvisionedName() == "" {
			return tidemark.Invalidf("members: there is no user %s", text.Shorten(id, maxNameBytes))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// CreateGroup keeps a new group, and gives its members what the rules give them.
// Errors: ErrExists, ErrInvalid.
func (d *Directory) CreateGroup(ctx context.Context, t Tenant, g Group) (Group, error) {
	now := d.k.Now()
	g.ID, g.Tenant, g.CreatedAt, g.ChangedAt = string(tidemark.NewSessionID()), t.ID, now, now
	if err := d.checkGroup(ctx, t, &g); err != nil {
		return g, err
	}
	if err := d.checkMembers(ctx, t, g.Members); err != nil {
		return g, err
	}
	p, err := records.Put(groupKey(t.ID, g.ID), 0, g)
	if err == nil {
		_, err = d.k.Commit(ctx, tidemark.Batch{Puts: []tidemark.Record{p}})
	}
	if err != nil {
		return g, err
	}
	return g, d.regroup(ctx, t, g.Members)
}

// ChangeGroup changes a group, and what its members have because of it, also those who
// leave it. Errors: ErrNotFound, ErrExists, ErrInvalid.
func (d *Directory) ChangeGroup(ctx context.Context, t Tenant, id string, change func(*Group) error) (Group, error) {
	var g Group
	var touched []string
	err := records.Retry(ctx, func() error {
		had, version, err := d.group(ctx, t.ID, id)
		if err != nil {
			return err
		}
		g = had
		g.Members = slices.Clone(had.Members)
		if err := change(&g); err != nil {
			return err
		}
		if err := d.checkGroup(ctx, t, &g); err != nil {
			return err
		}
		fresh := slices.DeleteFunc(slices.Clone(g.Members), func(m string) bool { return slices.Contains(had.Members, m) })
		if err := d.checkMembers(ctx, t, fresh); err != nil {
			return err
		}
		touched = append(fresh, had.Members...)
		g.ChangedAt = d.k.Now()
		p, err := records.Put(groupKey(t.ID, id), version, g)
		if err == nil {
			_, err = d.k.Commit(ctx, tidemark.Batch{Puts: []tidemark.Record{p}})
		}
		return err
	})
	if err != nil {
		return g, err
	}
	return g, d.regroup(ctx, t, touched)
}

// DeleteGroup removes a group, and what its members had because of it: ErrNotFound.
func (d *Directory) DeleteGroup(ctx context.Context, t Tenant, id string) error {
	g, err := d.Group(ctx, t.ID, id)
	if err != nil {
		return err
	}
	// What the members have is taken first: whoever is interrupted deletes again.
	if _, err := d.ChangeGroup(ctx, t, id, func(g *Group) error { g.Members = nil; return nil }); err != nil {
		return err
	}
	return d.remove(ctx, groupKey(t.ID, g.ID))
}

// regroup gives users what their groups give them, and takes what those gave them
// before: the role and the workspaces of the first rule of the issuer that fits, and
// the workspaces that are called like a group. What admins gave stays.
func (d *Directory) regroup(ctx context.Context, t Tenant, users []string) error {
	issuer, err := d.issuerOf(ctx, t)
	if err != nil {
		return err
	}
	rules, err := d.Rules(ctx, issuer)
	if err != nil {
		return err
	}
	rules = slices.DeleteFunc(slices.Clone(rules), func(r Rule) bool { return r.Claim != GroupsClaim || !r.leadsTo(t) })
	spaces := make(map[string]string)
	for w, err := range d.Workspaces(ctx, t.ID, "") {
		if err != nil {
			return err
		}
		spaces[w.Name] = w.ID
	}
	var groups []Group
	for g, err := range d.Groups(ctx, t.ID) {
		if err != nil {
			return err
		}
		groups = append(groups, g)
	}
	slices.Sort(users)
	for _, id := range slices.Compact(users) {
		role, given := grantedBy(t, rules, spaces, groups, id)
		if err := d.grant(ctx, t, id, role, given); err != nil && !errors.Is(err, tidemark.ErrNotFound) {
			return err
		}
	}
	return nil
}

// grantedBy is what a user has because of groups.
func grantedBy(t Tenant, rules []Rule, spaces map[string]string, groups []Group, user string) (role string, given []string) {
	var names []string
	for _, g := range groups {
		if !slices.Contains(g.Members, user) {
			continue
		}
		names = append(names, g.Name)
		if g.ExternalID != "" {
			names = append(names, g.ExternalID)
		}
		if id := spaces[workspaceName(g.Name)]; id != "" {
			given = append(given, id)
		}
	}
	for _, r := range rules {
		if r.Fits(func(string) []string { return names }) {
			role, given = r.Role, append(given, r.WorkspacesOf(t)...)
			break
		}
	}
	slices.Sort(given)
	return role, slices.Compact(given)
}

// workspaceName is the name of the workspace that a group is called like: its words in
// lower case, with dashes.
func workspaceName(group string) string {
	return strings.Join(strings.Fields(strings.ToLower(group)), "-")
}

// grant gives a user a role and workspaces because of groups.
func (d *Directory) grant(ctx context.Context, t Tenant, id, role string, given []string) error {
	u, err := d.User(ctx, t.ID, id)
	if err != nil {
		return err
	}
	if u.Provisioned == nil && role == "" && len(given) == 0 {
		return nil
	}
	if had := u.Provisioned; had != nil && had.Role == role && slices.Equal(had.Workspaces, given) {
		return nil
	}
	_, err = d.ChangeUser(ctx, t.ID, id, func(u *User) error {
		p := Provisioned{UserName: u.ProvisionedName(), ChangedAt: d.k.Now()}
		if u.Provisioned != nil {
			p = *u.Provisioned
		}
		switch {
		case role != "":
			u.Role = role
		case p.Role != "":
			u.Role = RoleReader
		}
		u.Workspaces = slices.DeleteFunc(slices.Clone(u.Workspaces), func(w string) bool { return slices.Contains(p.Workspaces, w) })
		u.Workspaces = append(u.Workspaces, given...)
		slices.Sort(u.Workspaces)
		u.Workspaces = slices.Compact(u.Workspaces)
		p.Role, p.Workspaces = role, given
		u.Provisioned = &p
		return nil
	})
	return err
}
