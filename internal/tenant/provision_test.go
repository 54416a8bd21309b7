package tenant

import (
	"errors"
	"slices"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/internal/records"
)

// provisioning is a tenant with two users of a group that is called like a workspace.
func provisioning(t *testing.T) (d *Directory, acme Tenant, space Workspace, users []User, group Group) {
	t.Helper()
	ctx := t.Context()
	d = NewDirectory(records.New(memory.New(), records.Options{}))
	acme, err := d.CreateTenant(ctx, Tenant{Name: "acme", Issuer: "https://id.example"})
	if err != nil {
		t.Fatal(err)
	}
	if space, err = d.CreateWorkspace(ctx, acme.ID, "tide-watch"); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, name := range []string{"ada", "bob"} {
		u, err := d.Provision(ctx, acme, User{State: Active, Provisioned: &Provisioned{UserName: name}})
		if err != nil {
			t.Fatal(err)
		}
		users, ids = append(users, u), append(ids, u.ID)
	}
	if group, err = d.CreateGroup(ctx, acme, Group{Name: "Tide Watch", Members: ids}); err != nil {
		t.Fatal(err)
	}
	return d, acme, space, users, group
}

func TestWhoIsErasedLeavesTheirGroupsAndNobodyElseDoes(t *testing.T) {
	d, acme, space, users, group := provisioning(t)
	ctx := t.Context()
	if _, err := d.Depart(ctx, acme.ID, users[0].ID, true); err != nil {
		t.Fatal(err)
	}
	if g, err := d.Group(ctx, acme.ID, group.ID); err != nil || !slices.Equal(g.Members, []string{users[1].ID}) {
		t.Errorf("%+v, %v", g, err)
	}
	if u, err := d.User(ctx, acme.ID, users[1].ID); err != nil || !slices.Equal(u.Workspaces, []string{space.ID}) {
		t.Errorf("who stays: %+v, %v", u, err)
	}
	if u, err := d.User(ctx, acme.ID, users[0].ID); err != nil || u.Provisioned != nil || u.Workspaces != nil || u.State != Suspended {
		t.Errorf("who is erased: %+v, %v", u, err)
	}
	// The provider does not make them anew.
	if _, err := d.Provision(ctx, acme, User{State: Active, Provisioned: &Provisioned{UserName: "ada"}}); !errors.Is(err, tidemark.ErrExists) {
		t.Errorf("who was erased is provisioned: %v", err)
	}
}

func TestARemovedTenantLeavesNoGroup(t *testing.T) {
	d, acme, _, _, _ := provisioning(t)
	if err := d.RemoveTenant(t.Context(), acme); err != nil {
		t.Fatal(err)
	}
	for k, err := range d.Backend().Walk(t.Context(), tidemark.Key{}) {
		if k.Kind != "plain" || err != nil { // the mark of a store that is not sealed
			t.Errorf("left: %v, %v", k, err)
		}
	}
}

func TestAProvisionedTenantLetsOnlyThoseInWhomItsProviderNamed(t *testing.T) {
	ctx := t.Context()
	d := NewDirectory(records.New(memory.New(), records.Options{}))
	acme, err := d.CreateTenant(ctx, Tenant{Name: "acme", Issuer: "https://id.example"})
	if err != nil {
		t.Fatal(err)
	}
	comes := func(subject string) (User, error) {
		in, err := d.Tenant(ctx, acme.ID)
		if err != nil {
			t.Fatal(err)
		}
		u, _, err := d.UpsertUser(ctx, Claims{Tenant: in, Issuer: "https://id.example", Subject: subject, Role: RoleReader})
		return u, err
	}
	old, err := comes("old")
	if err != nil {
		t.Fatal(err)
	}
	made, err := d.Provision(ctx, acme, User{State: Active, Provisioned: &Provisioned{UserName: "ada@example.org", ExternalID: "u1"}})
	if err != nil {
		t.Fatal(err)
	}
	if u, err := comes("u1"); err != nil || u.ID != made.ID {
		t.Errorf("who was named: %+v, %v", u, err)
	}
	if u, err := comes("old"); err != nil || u.ID != old.ID {
		t.Errorf("who was there before: %+v, %v", u, err)
	}
	if _, err := comes("stranger"); !errors.Is(err, tidemark.ErrDenied) {
		t.Errorf("a stranger: %v", err)
	}
	// The provider takes up one who was there, by the name that they have.
	u, err := d.Reprovision(ctx, acme, old.ID, func(u *User) error { u.State = Suspended; return nil })
	if err != nil || u.Provisioned.UserName != "old" {
		t.Errorf("%+v, %v", u, err)
	}
	if u, err := comes("old"); err != nil || u.State != Suspended {
		t.Errorf("who was deactivated comes as %+v, %v", u, err)
	}
}
