package main

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/server/serve"
)

// directory opens the operator's store and returns its directory of tenants, users
// and tokens.
func (a *app) directory(ctx context.Context, how open.Access) (*tenant.Directory, error) {
	if a.opened == nil {
		place, _, err := a.location()
		if err != nil {
			return nil, err
		}
		if a.opened, err = serve.OpenOperator(ctx, place, a.openOptions(how)); err != nil {
			a.opened = nil
			return nil, err
		}
	}
	return tenant.NewDirectory(a.opened.Store.Records()), nil
}

// onDirectory returns a RunE function that opens the directory and calls run.
func (a *app) onDirectory(how open.Access, run func(*cobra.Command, *tenant.Directory, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		s, err := a.directory(cmd.Context(), how)
		if err != nil {
			return err
		}
		return run(cmd, s, args)
	}
}

// auditAround calls do, and records it in the audit log of a tenant before and
// after; do returns the id of what it changed. The command line may do all this
// because its user can open the store itself.
func (a *app) auditAround(cmd *cobra.Command, s *tenant.Directory, of, action, thing string, do func() (string, error)) error {
	place, _, err := a.location()
	if err != nil {
		return err
	}
	if !open.HasAudit(place) {
		_, err = do()
		return err
	}
	return s.AuditAround(cmd.Context(), of, tenant.Audited{Who: tidemark.Operator().User, Name: "command line on " + a.host(), Action: action, Thing: thing}, do)
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
	cmd.AddCommand(tenantCreateCommand(a), tenantListCommand(a), tenantBindCommand(a), tenantRuleCommand(a), tenantMoveCommand(a), limitsCommand(a, nil),
		a.erasing(&cobra.Command{Use: "delete NAME --yes", Short: "Erase a tenant and everything in it", Example: "  tidemark tenant delete acme --yes", Args: usage(cobra.ExactArgs(1))}, "tenant.erase", nil),
		tenantStateCommand(a, "suspend", "Keep the users and tokens of a tenant out", tenant.Suspended),
		tenantStateCommand(a, "resume", "Let the users and tokens of a tenant in again", tenant.Active))
	return cmd
}

// issuerFlags are the flags that name the issuer of a tenant's users.
type issuerFlags struct{ issuer, foreign, entra string }

func (i *issuerFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&i.issuer, "issuer", "", "the `URL` of the issuer whose tokens its users bring")
	f.StringVar(&i.foreign, "foreign", "", "what that issuer calls the tenant, for one that has many")
	f.StringVar(&i.entra, "entra", "", "the `TID` of its organisation in Microsoft Entra")
}

// complete sets the issuer from --entra.
func (i *issuerFlags) complete() error {
	if i.entra == "" {
		return nil
	}
	tid, err := tidemark.ParseSessionID(i.entra)
	if err != nil || i.issuer != "" || i.foreign != "" {
		return tidemark.Invalidf("--entra %q: want the id of an organisation, and neither --issuer nor --foreign", i.entra)
	}
	i.issuer, i.foreign = tenant.EntraIssuer(string(tid)), string(tid)
	return nil
}

func tenantCreateCommand(a *app) *cobra.Command {
	var by issuerFlags
	cmd := &cobra.Command{
		Use: "create NAME", Short: "Make a tenant",
		Example: "  tidemark tenant create acme --issuer https://id.acme.example\n  tidemark tenant create globex --entra 11111111-2222-4333-8444-555555555555",
		Args:    usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := by.complete(); err != nil {
				return err
			}
			s, err := a.directory(cmd.Context(), open.Create)
			if err != nil {
				return err
			}
			var t tenant.Tenant
			err = a.auditAround(cmd, s, tidemark.TenantOf(args[0], "").Tenant, "tenant.create", args[0], func() (_ string, err error) {
				t, err = s.CreateTenant(cmd.Context(), tenant.Tenant{Name: args[0], Issuer: by.issuer, Foreign: by.foreign})
				return t.ID, err
			})
			return a.printTenant(t, err)
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
			if err := by.complete(); err != nil {
				return err
			}
			if by.issuer == "" {
				return hint.With(tidemark.Invalidf("which issuer?"), "tidemark tenant bind %s --issuer URL", args[0])
			}
			s, err := a.directory(cmd.Context(), open.Write)
			if err != nil {
				return err
			}
			t, err := s.EnsureTenant(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			err = a.auditAround(cmd, s, t.ID, "tenant.bind", t.ID, func() (_ string, err error) {
				t, err = s.BindTenant(cmd.Context(), t.ID, by.issuer, by.foreign)
				return t.ID, err
			})
			return a.printTenant(t, err)
		},
	}
	by.add(cmd)
	return cmd
}

// printTenant prints a tenant that was changed, or returns err.
func (a *app) printTenant(t tenant.Tenant, err error) error {
	if err != nil {
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
		RunE: a.onDirectory(open.Read, func(cmd *cobra.Command, s *tenant.Directory, _ []string) error {
			return printRows(a, s.Tenants(cmd.Context(), ""), []string{"NAME", "STATE", "ID", "ISSUER"}, func(r tenant.Tenant) []string {
				return []string{r.Name, r.State, r.ID, render.OrDash(r.Issuer)}
			})
		}),
	}
}

func tenantStateCommand(a *app, verb, short, state string) *cobra.Command {
	return &cobra.Command{
		Use: verb + " NAME", Short: short, Example: "  tidemark tenant " + verb + " acme",
		Args: usage(cobra.ExactArgs(1)),
		RunE: a.onDirectory(open.Write, func(cmd *cobra.Command, s *tenant.Directory, args []string) error {
			t, err := s.TenantNamed(cmd.Context(), args[0])
			if err == nil {
				err = a.auditAround(cmd, s, t.ID, "tenant."+verb, t.ID, func() (_ string, err error) {
					t, err = s.SetTenantState(cmd.Context(), t.ID, state)
					return t.ID, err
				})
			}
			if err != nil {
				return hint.With(err, "see them with: tidemark tenant ls")
			}
			a.say("Tenant %s is %s.", t.Name, t.State)
			return nil
		}),
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
		RunE: a.onDirectory(open.Read, func(cmd *cobra.Command, s *tenant.Directory, _ []string) error {
			id, err := s.TenantID(cmd.Context(), *of)
			if err != nil {
				return err
			}
			return printRows(a, s.Users(cmd.Context(), id, ""), []string{"ID", "NAME", "EMAIL", "ROLE", "STATE", "SEEN"}, func(u tenant.User) []string {
				return []string{u.ID, render.OrDash(u.Name), render.OrDash(u.Email), u.Role, u.State, a.when(u.LastSeenAt)}
			})
		}),
	}
	change := func(use, short, example string, args int, action func(args []string) (string, func(*tenant.User) error)) *cobra.Command {
		return &cobra.Command{
			Use: use, Short: short, Example: example, Args: usage(cobra.ExactArgs(args)),
			RunE: a.onDirectory(open.Write, func(cmd *cobra.Command, s *tenant.Directory, args []string) error {
				t, err := s.TenantNamed(cmd.Context(), *of)
				if err != nil {
					return hint.With(err, "see them with: tidemark tenant ls")
				}
				u, err := s.UserNamed(cmd.Context(), t, args[0])
				if err != nil {
					return err
				}
				what, how := action(args)
				err = a.auditAround(cmd, s, t.ID, what, u.ID, func() (_ string, err error) {
					u, err = s.ChangeUser(cmd.Context(), t.ID, u.ID, how)
					return u.ID, err
				})
				if err == nil {
					a.say("User %s has the role %s, and is %s.", u.ID, u.Role, u.State)
				}
				return err
			}),
		}
	}
	state := func(verb, short, state string) *cobra.Command {
		return change(verb+" USER", short, "  tidemark user "+verb+" ada@example.org --tenant acme", 1, func([]string) (string, func(*tenant.User) error) {
			return "user." + state, func(u *tenant.User) error { u.State = state; return nil }
		})
	}
	cmd.AddCommand(userLeavesCommands(a, of)...)
	cmd.AddCommand(list, limitsCommand(a, of), state("suspend", "Keep a user out", tenant.Suspended), state("resume", "Let a user in again", tenant.Active),
		change("role USER ROLE", "Give a user another role: reader, writer, admin", "  tidemark user role ada@example.org writer --tenant acme", 2, func(args []string) (string, func(*tenant.User) error) {
			return "user.role." + args[1], func(u *tenant.User) error { u.Role = args[1]; return nil }
		}))
	return cmd
}

// limitsCommand shows and sets what a user of a tenant or, where of is nil, a tenant
// may have at most.
func limitsCommand(a *app, of *string) *cobra.Command {
	cmd := &cobra.Command{Use: "limits NAME [LIMIT=VALUE]...", Short: "Show, or say, what a tenant may have at most", Args: usage(cobra.MinimumNArgs(1)),
		Long: `Without a LIMIT, says what is set by name. A LIMIT is requests (a second), streams
(at the same time), bytes (sent and answered, a minute), sessions or storage (bytes
kept); its VALUE a number such as 500 or 20G, none, or default for what serve.yaml
says. Servers go by it within seconds, without a restart.`, Example: "  tidemark tenant limits acme\n  tidemark tenant limits acme sessions=100000 storage=500G"}
	action := "tenant.limits"
	if of != nil {
		cmd.Use, cmd.Short, action = "limits USER [LIMIT=VALUE]...", "Show, or say, what a user may have at most", "user.limits"
		cmd.Example = "  tidemark user limits ada@example.org --tenant acme\n  tidemark user limits ada@example.org --tenant acme sessions=5000 bytes=default"
	}
	cmd.RunE = a.onDirectory(open.Write, func(cmd *cobra.Command, s *tenant.Directory, args []string) error {
		t, u, err := s.Named(cmd.Context(), of, args[0])
		if err != nil {
			return err
		}
		l, err := s.Limits(cmd.Context(), t.ID, u.ID)
		if err == nil && len(args) > 1 {
			err = a.auditAround(cmd, s, t.ID, action, cmp.Or(u.ID, t.ID), func() (_ string, err error) {
				l, err = s.ChangeLimits(cmd.Context(), t.ID, u.ID, func(l *tenant.UsageLimits) error { return l.SetAll(args[1:]) })
				return cmp.Or(u.ID, t.ID), err
			})
		}
		if err != nil {
			return err
		}
		return a.printf(l, "%s\n", l)
	})
	return cmd
}

// leaving makes c a command about users who leave or, where of is nil, a tenant.
func (a *app) leaving(c *cobra.Command, action string, of *string, do func(context.Context, *serve.Leaving) (fmt.Stringer, error)) *cobra.Command {
	c.RunE = a.onDirectory(open.Write, func(cmd *cobra.Command, d *tenant.Directory, args []string) error {
		place, _, _ := a.location() // the directory is open
		beside := serve.StoresBeside(cmd.Context(), a.opened, place, a.openOptions)
		defer beside.Close()
		l, err := beside.Leaving(cmd.Context(), beside.Offboarding(d, a.holder(cmd)), of, args)
		if err != nil {
			return err
		}
		var said fmt.Stringer
		err = a.auditAround(cmd, d, l.In.ID, action, l.ID(), func() (_ string, err error) {
			said, err = do(cmd.Context(), l)
			return l.ID(), err
		})
		if err == nil && said != nil {
			err = a.print(said, func(w io.Writer) error { _, err := fmt.Fprintln(w, said); return err })
		}
		return err
	})
	return c
}

// erasing makes c a command that erases, which needs --yes.
func (a *app) erasing(c *cobra.Command, action string, of *string) *cobra.Command {
	var yes, unseen bool
	c.Long = `Keeps them out at once, and erases what they have: where it is sealed the wrapped
keys first, so that nobody can read the rest from then on. Sessions on hold stay.
It says what was erased, what is on hold, and where traces may remain. Interrupted,
the same command goes on. Nothing brings back what is erased: export it first.`
	c.Flags().BoolVar(&yes, "yes", false, "really erase")
	c.Flags().BoolVar(&unseen, "unseen-holds", false, "erase what is sealed without its key, though holds cannot be seen then")
	return a.leaving(c, action, of, func(ctx context.Context, l *serve.Leaving) (fmt.Stringer, error) {
		if l.UnseenHolds = unseen; !yes {
			return nil, tidemark.Invalidf("this erases for good and needs --yes")
		}
		return l.Erase(ctx)
	})
}

func userLeavesCommands(a *app, of *string) []*cobra.Command {
	file := ""
	export := a.leaving(&cobra.Command{Use: "export USER", Short: "Write everything about one person into a ZIP file", Args: usage(cobra.ExactArgs(1)),
		Long: `Writes what is known about a user, the lines of the audit log about them, and an
archive of everything that they keep. What is sealed stays so.`, Example: "  tidemark user export ada@example.org --tenant acme -o ada.zip"}, "user.export", of,
		func(ctx context.Context, l *serve.Leaving) (fmt.Stringer, error) {
			return nil, a.toFile(file, func(w io.Writer) error { return l.Export(ctx, w, l.In, l.Who[0]) })
		})
	export.Flags().StringVarP(&file, "output", "o", "-", "the `FILE`, or - for stdout")
	return []*cobra.Command{export, a.erasing(&cobra.Command{Use: "delete USER --yes", Short: "Erase everything that a user has, and what is known about them", Args: usage(cobra.ExactArgs(1)),
		Example: "  tidemark user delete ada@example.org --tenant acme --yes"}, "user.erase", of),
		a.leaving(&cobra.Command{Use: "hand-over USER TO", Short: "Give the sessions of a user to another", Args: usage(cobra.ExactArgs(2)),
			Long: `Moves the sessions of a user: they are copied, compared, and then destroyed where they were.
What the other has under the same id stays, and so do the originals of sessions on hold.`, Example: "  tidemark user hand-over ada@example.org bob@example.org --tenant acme"}, "user.hand-over", of,
			func(ctx context.Context, l *serve.Leaving) (fmt.Stringer, error) {
				return l.HandOver(ctx, l.In, l.Who[0], l.Who[1])
			})}
}
