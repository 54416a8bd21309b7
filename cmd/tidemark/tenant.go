package main

import (
	"context"
	"errors"
	"io"
	"iter"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
)

// entraIssuer is the issuer of one organisation in Microsoft Entra.
func entraIssuer(tid string) string { return "https://login.microsoftonline.com/" + tid + "/v2.0" }

// tenantNamed finds a tenant. The default one is made when it is first needed.
func tenantNamed(ctx context.Context, s *tenant.Directory, name string) (tenant.Tenant, error) {
	t, err := s.TenantNamed(ctx, name)
	if errors.Is(err, tidemark.ErrNotFound) && name == tenant.DefaultTenant {
		if t, err = s.CreateTenant(ctx, tenant.Tenant{Name: name}); errors.Is(err, tidemark.ErrExists) {
			t, err = s.TenantNamed(ctx, name)
		}
	}
	return t, withHint(err, "see them with: tidemark tenant ls")
}

// userNamed finds a user of a tenant by id, email or subject.
func userNamed(ctx context.Context, s *tenant.Directory, t tenant.Tenant, name string) (tenant.User, error) {
	if u, err := s.User(ctx, t.ID, name); !errors.Is(err, tidemark.ErrNotFound) {
		return u, err
	}
	var found []tenant.User
	for u, err := range s.Users(ctx, t.ID, "") {
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
		return tenant.User{}, withHint(tidemark.NotFoundf("user %q: not found", name), "see them with: tidemark user ls --tenant %s", t.Name)
	case 1:
		return found[0], nil
	}
	return tenant.User{}, tidemark.Invalidf("user %q: there are several; name one by its id", name)
}

// readable collects what a list holds and can be read.
func readable[T any](a *app, list iter.Seq2[T, error]) ([]T, error) {
	rows := []T{}
	for v, err := range list {
		if errors.Is(err, tidemark.ErrCorrupt) {
			a.say("tidemark: %s: skipped", err)
			continue
		}
		if err != nil {
			return rows, err
		}
		rows = append(rows, v)
	}
	return rows, nil
}

func tenantCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use: "tenant", Short: "Tenants: groups of users whose sessions nobody else sees",
		Long: `A tenant is a group of users whose sessions nobody else sees. People get in with a
token of the issuer that the tenant names, programs with one of tidemark token
create. Who is suspended is kept out within seconds; what they keep stays.

Run this where the store of the server can be opened, with the same --store.`,
		Args: usage(cobra.NoArgs), RunE: help,
	}
	cmd.AddCommand(tenantCreateCommand(a), tenantListCommand(a), tenantBindCommand(a),
		tenantStateCommand(a, "suspend", "Keep the users and tokens of a tenant out", tenant.Suspended),
		tenantStateCommand(a, "resume", "Let the users and tokens of a tenant in again", tenant.Active))
	return cmd
}

// issuerFlags say who vouches for the users of a tenant.
type issuerFlags struct{ issuer, foreign, entra string }

func (i *issuerFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&i.issuer, "issuer", "", "the `URL` of the issuer whose tokens its users bring")
	f.StringVar(&i.foreign, "foreign", "", "what that issuer calls the tenant, for one that has many")
	f.StringVar(&i.entra, "entra", "", "the `TID` of its organisation in Microsoft Entra")
}

// settle makes an issuer of an organisation.
func (i *issuerFlags) settle() error {
	if i.entra == "" {
		return nil
	}
	tid, err := tidemark.ParseSessionID(i.entra)
	if err != nil || i.issuer != "" || i.foreign != "" {
		return tidemark.Invalidf("--entra %q: want the id of an organisation, and neither --issuer nor --foreign", i.entra)
	}
	i.issuer, i.foreign = entraIssuer(string(tid)), string(tid)
	return nil
}

func tenantCreateCommand(a *app) *cobra.Command {
	var by issuerFlags
	cmd := &cobra.Command{
		Use: "create NAME", Short: "Make a tenant",
		Example: "  tidemark tenant create acme --issuer https://id.acme.example\n  tidemark tenant create globex --entra 11111111-2222-4333-8444-555555555555",
		Args:    usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := by.settle(); err != nil {
				return err
			}
			s, err := a.directory(cmd.Context(), creates)
			if err != nil {
				return err
			}
			if err := a.begin(cmd, s, tidemark.TenantOf(args[0], "").Tenant, "tenant.create", args[0]); err != nil {
				return err
			}
			t, err := s.CreateTenant(cmd.Context(), tenant.Tenant{Name: args[0], Issuer: by.issuer, Foreign: by.foreign})
			if err != nil {
				return err
			}
			return a.tenantChanged(cmd, s, t, "tenant.create")
		},
	}
	by.add(cmd)
	return cmd
}

func tenantBindCommand(a *app) *cobra.Command {
	var by issuerFlags
	cmd := &cobra.Command{
		Use: "bind NAME", Short: "Say who vouches for the users of a tenant",
		Long: `Says which issuer's tokens the users of a tenant bring, in place of the one that
was said before. Users whom another issuer vouched for are others: what they
have stays theirs.`,
		Example: "  tidemark tenant bind acme --issuer https://id.acme.example",
		Args:    usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := by.settle(); err != nil {
				return err
			}
			if by.issuer == "" {
				return withHint(tidemark.Invalidf("which issuer?"), "tidemark tenant bind %s --issuer URL", args[0])
			}
			s, err := a.directory(cmd.Context(), writes)
			if err != nil {
				return err
			}
			t, err := tenantNamed(cmd.Context(), s, args[0])
			if err != nil {
				return err
			}
			if err := a.begin(cmd, s, t.ID, "tenant.bind", t.ID); err != nil {
				return err
			}
			if t, err = s.BindTenant(cmd.Context(), t.ID, by.issuer, by.foreign); err != nil {
				return err
			}
			return a.tenantChanged(cmd, s, t, "tenant.bind")
		},
	}
	by.add(cmd)
	return cmd
}

// tenantChanged writes down and says what was done to a tenant.
func (a *app) tenantChanged(cmd *cobra.Command, s *tenant.Directory, t tenant.Tenant, action string) error {
	if err := a.audit(cmd, s, t.ID, action, t.ID); err != nil {
		return err
	}
	return a.print(t, func(io.Writer) error {
		a.say("Tenant %s (%s).", t.Name, t.ID)
		return nil
	})
}

func tenantListCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "ls", Short: "List the tenants", Example: "  tidemark tenant ls\n  tidemark tenant ls --json=name,state",
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.directory(cmd.Context(), reads)
			if err != nil {
				return err
			}
			rows, err := readable(a, s.Tenants(cmd.Context(), ""))
			if err != nil {
				return err
			}
			return a.print(rows, func(w io.Writer) error {
				t := a.table("NAME", "STATE", "ID", "ISSUER")
				for _, r := range rows {
					t.row(r.Name, r.State, r.ID, orDash(r.Issuer))
				}
				return t.print(w)
			})
		},
	}
}

func tenantStateCommand(a *app, verb, short, state string) *cobra.Command {
	return &cobra.Command{
		Use: verb + " NAME", Short: short, Example: "  tidemark tenant " + verb + " acme",
		Args: usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.directory(cmd.Context(), writes)
			if err != nil {
				return err
			}
			t, err := s.TenantNamed(cmd.Context(), args[0])
			if err == nil {
				err = a.begin(cmd, s, t.ID, "tenant."+verb, t.ID)
			}
			if err == nil {
				t, err = s.SetTenantState(cmd.Context(), t.ID, state)
			}
			if err != nil {
				return withHint(err, "see them with: tidemark tenant ls")
			}
			if err := a.audit(cmd, s, t.ID, "tenant."+verb, t.ID); err != nil {
				return err
			}
			a.say("Tenant %s is %s.", t.Name, t.State)
			return nil
		},
	}
}

func userCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use: "user", Short: "Users of a tenant, made when they first sign in",
		Long: `Users are made when they first come with a valid token of their tenant's issuer. A
USER is named by id, by email or by what the issuer calls them. A reader reads, a
writer also changes what is theirs and runs jobs, an admin also looks after the
users, workspaces and tokens of the tenant.

Run this where the store of the server can be opened, with the same --store.`,
		Args: usage(cobra.NoArgs), RunE: help,
	}
	of := cmd.PersistentFlags().String("tenant", tenant.DefaultTenant, "whose users they are")
	list := &cobra.Command{
		Use: "ls", Short: "List the users of a tenant", Example: "  tidemark user ls --tenant acme\n  tidemark user ls --tenant acme --json=id,email,role",
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.directory(cmd.Context(), reads)
			if err != nil {
				return err
			}
			// Reading makes no tenant: that of nobody has no users.
			id := tidemark.TenantOf(tenant.DefaultTenant, "").Tenant
			if *of != tenant.DefaultTenant {
				t, err := tenantNamed(cmd.Context(), s, *of)
				if err != nil {
					return err
				}
				id = t.ID
			}
			rows, err := readable(a, s.Users(cmd.Context(), id, ""))
			if err != nil {
				return err
			}
			return a.print(rows, func(w io.Writer) error {
				t := a.table("ID", "NAME", "EMAIL", "ROLE", "STATE", "SEEN")
				for _, u := range rows {
					t.row(u.ID, orDash(u.Name), orDash(u.Email), u.Role, u.State, a.when(u.LastSeenAt))
				}
				return t.print(w)
			})
		},
	}
	change := func(use, short, example string, args int, action func(args []string) (string, func(*tenant.User) error)) *cobra.Command {
		return &cobra.Command{
			Use: use, Short: short, Example: example, Args: usage(cobra.ExactArgs(args)),
			RunE: func(cmd *cobra.Command, args []string) error {
				s, err := a.directory(cmd.Context(), writes)
				if err != nil {
					return err
				}
				t, err := s.TenantNamed(cmd.Context(), *of)
				if err != nil {
					return withHint(err, "see them with: tidemark tenant ls")
				}
				u, err := userNamed(cmd.Context(), s, t, args[0])
				if err != nil {
					return err
				}
				what, how := action(args)
				if err := a.begin(cmd, s, t.ID, what, u.ID); err != nil {
					return err
				}
				if u, err = s.ChangeUser(cmd.Context(), t.ID, u.ID, how); err != nil {
					return err
				}
				if err := a.audit(cmd, s, t.ID, what, u.ID); err != nil {
					return err
				}
				a.say("User %s has the role %s, and is %s.", u.ID, u.Role, u.State)
				return nil
			},
		}
	}
	state := func(verb, short, state string) *cobra.Command {
		return change(verb+" USER", short, "  tidemark user "+verb+" ada@example.org --tenant acme", 1, func([]string) (string, func(*tenant.User) error) {
			return "user." + state, func(u *tenant.User) error { u.State = state; return nil }
		})
	}
	cmd.AddCommand(list, state("suspend", "Keep a user out", tenant.Suspended), state("resume", "Let a user in again", tenant.Active),
		change("role USER ROLE", "Give a user another role: reader, writer, admin", "  tidemark user role ada@example.org writer --tenant acme", 2, func(args []string) (string, func(*tenant.User) error) {
			return "user.role." + args[1], func(u *tenant.User) error { u.Role = args[1]; return nil }
		}))
	return cmd
}
