package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/server/pages"
	"github.com/tidemark-sessions/tidemark/store"
)

// newToken is a token with its text, which is shown once.
type newToken struct {
	tenant.Token
	Text string `json:"text"`
}

func tokenCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use: "token", Short: "Service tokens: how programs sign in to tidemark serve",
		Long: `A program sends its token as Authorization: Bearer TOKEN; for --store https://… it
is in $TIDEMARK_TOKEN, or in the file that $TIDEMARK_TOKEN_FILE names.

Run this where the store of the server can be opened, with the same --store.`,
		Args: usage(cobra.NoArgs), RunE: help,
	}
	cmd.AddCommand(tokenCreateCommand(a), tokenListCommand(a), tokenRevokeCommand(a))
	return cmd
}

func tokenCreateCommand(a *app) *cobra.Command {
	var of, role, as, expires string
	var scopes []string
	cmd := &cobra.Command{
		Use: "create NAME", Short: "Make a service token and print it once",
		Long: `Make a service token and print it. Only its hash is kept: it cannot be shown
again. It acts on behalf of the tenant, or with --as of one user of it, and then
may never do more than that user may. For --store https://… a token needs the
scope backend, or none.`,
		Example: "  tidemark token create ci --role writer --expires 30d\n  tidemark token create reports --role reader --scope sessions --scope search --tenant acme",
		Args:    usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			life, err := store.ParseLife(expires)
			if err == nil {
				err = tenant.CheckRole(role)
			}
			if err != nil {
				return err
			}
			if err := pages.CheckScopes(scopes); err != nil {
				return err
			}
			s, err := a.directory(cmd.Context(), open.Create)
			if err != nil {
				return err
			}
			t, err := s.EnsureTenant(cmd.Context(), of)
			if err != nil {
				return err
			}
			token := tenant.Token{Tenant: t.ID, Name: args[0], Role: role, Scopes: scopes, CreatedBy: "command line"}
			if as != "" {
				u, err := s.UserNamed(cmd.Context(), t, as)
				if err != nil {
					return err
				}
				token.User = u.ID
			}
			if life > 0 {
				token.ExpiresAt = time.Now().Add(life)
			}
			var made newToken
			err = a.auditAround(cmd, s, t.ID, "token.create", token.Name, func() (_ string, err error) {
				made.Token, made.Text, err = s.CreateToken(cmd.Context(), token)
				return made.ID, err
			})
			if err != nil {
				return err
			}
			return a.print(made, func(w io.Writer) error {
				a.say("Token %s of %s. It is shown now and never again:", made.ID, t.Name)
				_, err := fmt.Fprintln(w, made.Text)
				return err
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&of, "tenant", tenant.DefaultTenant, "whose token it is")
	f.StringVar(&role, "role", tenant.RoleReader, "what it may do: reader, writer, admin")
	f.StringArrayVar(&scopes, "scope", nil, "a `PART` of the server that it is for, as in /api/v1/PART: sessions, jobs, backend; again for more; the default is all")
	f.StringVar(&as, "as", "", "the `USER` on whose behalf it acts: an id or an email; the default is the tenant itself")
	f.StringVar(&expires, "expires", "90d", "how long it works, like 12h or 30d; never")
	return cmd
}

func tokenListCommand(a *app) *cobra.Command {
	var of string
	cmd := &cobra.Command{
		Use: "ls", Short: "List the service tokens", Example: "  tidemark token ls\n  tidemark token ls --tenant acme --json=id,name,expires_at",
		Args: usage(cobra.NoArgs),
		RunE: a.onDirectory(open.Read, func(cmd *cobra.Command, s *tenant.Directory, _ []string) error {
			id := ""
			if of != "" {
				t, err := s.EnsureTenant(cmd.Context(), of)
				if err != nil {
					return err
				}
				id = t.ID
			}
			return printRows(a, s.Tokens(cmd.Context(), id, ""), []string{"ID", "NAME", "ROLE", "SCOPES", "STATE", "EXPIRES", "USED"}, func(r tenant.Token) []string {
				state := r.State
				if state == tenant.Active && !r.ExpiresAt.IsZero() && time.Now().After(r.ExpiresAt) {
					state = "expired"
				}
				return []string{r.ID, r.Name, r.Role, render.OrDash(strings.Join(r.Scopes, ",")), state, render.TimeOrDash(r.ExpiresAt), render.TimeOrDash(r.UsedAt)}
			})
		}),
	}
	cmd.Flags().StringVar(&of, "tenant", "", "those of this tenant")
	return cmd
}

func tokenRevokeCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "revoke ID", Short: "End a service token for ever", Example: "  tidemark token revoke k3vq7x2mzp4a6tnb",
		Args: usage(cobra.ExactArgs(1)),
		RunE: a.onDirectory(open.Write, func(cmd *cobra.Command, s *tenant.Directory, args []string) error {
			t, err := s.Token(cmd.Context(), "", args[0])
			if err == nil {
				err = a.auditAround(cmd, s, t.Tenant, "token.revoke", t.ID, func() (_ string, err error) {
					t, err = s.RevokeToken(cmd.Context(), "", args[0])
					return t.ID, err
				})
			}
			if err != nil {
				return hint.With(err, "see them with: tidemark token ls")
			}
			a.say("Token %s (%s) works no more.", t.ID, t.Name)
			return nil
		}),
	}
}
