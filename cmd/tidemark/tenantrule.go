package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/render"
)

func tenantRuleCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use: "rule", Short: "Where people of an issuer with many tenants belong",
		Long: `An issuer that has rules speaks for many tenants: its rules say by the claims of a
token where a person belongs. They are tried in their order, and the first that fits
decides; whom none fits is not let in. A change counts within seconds, without a
restart; who is signed in with a browser has to sign in again.

A rule may also say the role and the workspaces of those people, each time they come.
Where it does not, the admins of the tenant give them.`,
		Args: usage(cobra.NoArgs), RunE: help,
	}
	issuer := cmd.PersistentFlags().String("issuer", "", "the `URL` of the issuer")
	var r tenant.Rule
	var claim string
	var first bool
	change := func(use, short, example string, args int, done string, to func(rules []tenant.Rule, args []string) ([]tenant.Rule, error)) *cobra.Command {
		c := &cobra.Command{
			Use: use, Short: short, Example: example, Args: usage(cobra.ExactArgs(args)),
			RunE: a.onDirectory(open.Write, func(cmd *cobra.Command, s *tenant.Directory, args []string) error {
				if *issuer == "" {
					return hint.With(tidemark.Invalidf("the rules of which issuer?"), "name it with --issuer URL")
				}
				r.Claim, r.Value, _ = strings.Cut(claim, "=")
				return a.auditAround(cmd, s, tidemark.TenantOf(tenant.DefaultTenant, "").Tenant, "tenant.rule."+cmd.Name(), claim, func() (string, error) {
					_, err := s.ChangeRules(cmd.Context(), *issuer, func(rules []tenant.Rule) ([]tenant.Rule, error) { return to(rules, args) })
					if err == nil {
						a.say("%s", done)
					}
					return claim, err
				})
			}),
		}
		c.Flags().StringVar(&claim, "claim", "", "`NAME=VALUE` that a token has to have; VALUE may be *; without it, everybody")
		return c
	}
	add := change("add TENANT", "Add a rule after the others", "  tidemark tenant rule add legal --issuer https://id.example.com --claim department=legal\n  tidemark tenant rule add lab --issuer https://id.example.com --claim groups=lab --role writer --workspace bench",
		1, "Added.", func(rules []tenant.Rule, args []string) ([]tenant.Rule, error) {
			r.Tenant = args[0]
			return r.Into(rules, first), nil
		})
	add.Flags().StringVar(&r.Role, "role", "", "the `ROLE` of these people: reader, writer or admin")
	add.Flags().StringSliceVar(&r.Workspaces, "workspace", nil, "a `WORKSPACE` that they are in, made when it is not there; again for more")
	add.Flags().BoolVar(&r.Operator, "operator", false, "these people, who are admins, also see to all tenants, as a token of the scope operator does")
	add.Flags().BoolVar(&first, "first", false, "try it before the others")
	list := &cobra.Command{
		Use: "ls", Short: "List the rules of an issuer, in the order in which they are tried", Example: "  tidemark tenant rule ls --issuer https://id.example.com --json",
		Args: usage(cobra.NoArgs),
		RunE: a.onDirectory(open.Read, func(cmd *cobra.Command, s *tenant.Directory, _ []string) error {
			rules, err := s.Rules(cmd.Context(), *issuer)
			if err != nil {
				return err
			}
			return printTable(a, rules, []string{"CLAIM", "VALUE", "TENANT", "ROLE", "WORKSPACES"}, func(r tenant.Rule) []string {
				return []string{render.OrDash(r.Claim), render.OrDash(r.Value), r.Tenant, render.OrDash(r.Role), render.OrDash(strings.Join(r.Workspaces, " "))}
			})
		}),
	}
	cmd.AddCommand(add, list, change("rm", "Remove the rule with a claim", "  tidemark tenant rule rm --issuer https://id.example.com --claim department=legal", 0, "Removed.",
		func(rules []tenant.Rule, _ []string) ([]tenant.Rule, error) {
			rules, err := r.OutOf(rules)
			return rules, hint.With(err, "see them with: tidemark tenant rule ls --issuer %s", *issuer)
		}))
	return cmd
}
