package main

import (
	"cmp"
	"errors"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/transfer/link"
)

// shared is what share prints.
type shared struct {
	Session tidemark.SessionID `json:"session"`
	tidemark.Scope
	Owner string `json:"owner"`
}

func shareCommand(a *app) *cobra.Command {
	var workspace, output, expires, server string
	var makeLink, redact bool
	cmd := &cobra.Command{
		Use:   "share SESSION[@NODE] [private|workspace|tenant]",
		Short: "Let others read a session: people of the team, or whoever has a link",
		Long: `Says who else may read a session: nobody (private), the members of a workspace, or
everybody in the tenant. Only its owner can say so, and only its owner writes to
it. Without a word it tells who may read it. Stores on one machine have one
user, and cannot share.

--link makes a copy of the session as it is now, encrypted under a key of its own,
and prints a link that opens it in any browser until it expires or is revoked. A
Tidemark server keeps the copy: the one that the store or a remote is on, or
--server. The key is in the part of the link after the #, which browsers do not
send: the server cannot read the copy. Whoever has the link can.

-o FILE makes the same as a page in one file, without a server. It does not expire,
and nobody can revoke it. The key is not in the file: it is printed.`,
		Example: `  tidemark share last --link
  tidemark share 7f3a@n2 --link --expires 12h --redact
  tidemark share 7f3a -o session.html
  tidemark share last tenant
  tidemark share 7f3a workspace --workspace harbour`,
		Args:              usage(cobra.RangeArgs(1, 2)),
		ValidArgsFunction: completeSession(a),
		RunE: func(cmd *cobra.Command, args []string) error {
			how, copies := open.Read, makeLink || output != ""
			if len(args) == 2 {
				how = open.Write
			}
			life, err := store.ParseLife(expires)
			switch {
			case err != nil || life == 0:
				return tidemark.Invalidf("--expires %q: want a time like 12h or 30d", expires)
			case copies && len(args) == 2:
				return tidemark.Invalidf("a link or a file is for whoever has it, not for a team")
			case !copies && (redact || server != "") || (!makeLink || output != "") && cmd.Flags().Changed("expires"):
				return hint.With(tidemark.Invalidf("--expires and --server go with --link, --redact with --link or -o FILE"), "tidemark share %s --link", args[0])
			}
			s, p, err := a.resolve(cmd.Context(), how, args[0])
			if err != nil {
				return err
			}
			if copies {
				o := link.Options{Redact: redact, Life: life}
				_, o.Node, _ = strings.Cut(args[0], "@")
				return a.shareCopy(cmd, p, o, output, server)
			}
			place, _, err := a.location()
			if err == nil && len(args) == 2 {
				err = open.Share(cmd.Context(), s, place, p.ID, tidemark.Scope{With: args[1], Workspace: workspace})
			}
			if err != nil {
				return err
			}
			is := shared{Session: p.ID}
			if is.Scope, is.Owner, err = s.Shared(cmd.Context(), p.ID); err != nil {
				return err
			}
			return a.printf(is, "%s\t%s\n", is.Session, cmp.Or(is.With, tidemark.Private))
		},
	}
	f := cmd.Flags()
	f.StringVar(&workspace, "workspace", "", "the `NAME` or id of the workspace")
	f.BoolVar(&makeLink, "link", false, "make a link that opens a copy in any browser")
	f.StringVar(&expires, "expires", "7d", "how long the link leads somewhere, like 12h or 30d, up to 366d")
	f.BoolVar(&redact, "redact", false, "mask secrets in the copy")
	f.StringVarP(&output, "output", "o", "", "make a page in this `FILE` instead, which nobody can revoke")
	cmd.PersistentFlags().StringVar(&server, "server", "", "the `URL` of the server that keeps links, if it is neither that of the store nor of a remote")
	cmd.AddCommand(a.linksCommand(&cobra.Command{Use: "ls", Short: "The links that you made, and when they end", Args: usage(cobra.NoArgs),
		Example: "  tidemark share ls\n  tidemark share ls --json=name,session,expires_at\n  tidemark share ls --all"}, &server, func(cmd *cobra.Command, at link.Keeper, everybodys bool, _ []string) error {
		all, err := at.List(cmd.Context())
		if err != nil {
			return err
		}
		columns, row := link.Columns, link.Made.Row
		if everybodys {
			columns, row = link.OwnedColumns, link.Made.OwnedRow
		}
		return printTable(a, all, columns, func(m link.Made) []string { return row(m, a.when) })
	}), a.linksCommand(&cobra.Command{Use: "revoke LINK...", Short: "End links: the copies are removed", Args: usage(cobra.MinimumNArgs(1)),
		Example: "  tidemark share revoke https://tidemark.example.org/shared/jt5…\n  tidemark share revoke jt5qk…\n  tidemark share revoke --all jt5qk…"}, &server, func(cmd *cobra.Command, at link.Keeper, _ bool, args []string) error {
		for _, arg := range args {
			m, err := at.Revoke(cmd.Context(), arg)
			if err == nil {
				err = a.printf(m, "%s\t%s\n", m.Name, m.State)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}))
	return cmd
}

// linksCommand makes c a command about links that there are: those of this user or, for
// admins, those of everybody.
func (a *app) linksCommand(c *cobra.Command, server *string, do func(*cobra.Command, link.Keeper, bool, []string) error) *cobra.Command {
	var everybodys bool
	var of string
	c.Flags().BoolVar(&everybodys, "all", false, "those of everybody in your tenant, for its admins")
	c.Flags().StringVar(&of, "tenant", "", "those of everybody in this tenant, for operators: at a server, or where its database is the store")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		everybodys = everybodys || of != ""
		place, _, err := a.location()
		if err != nil {
			return err
		}
		if everybodys && *server == "" && open.IsPostgres(place) {
			d, err := a.directory(cmd.Context(), open.Write)
			if err != nil {
				return err
			}
			return do(cmd, link.InDirectory{Users: d, Tenant: of, Audit: func(of, action, thing string, change func() (string, error)) error {
				return a.auditAround(cmd, d, of, action, thing, change)
			}}, true, args)
		}
		at, err := a.links(cmd, place, *server)
		if everybodys {
			at = at.OfUsers(of)
		}
		if err != nil {
			return err
		}
		return do(cmd, at, everybodys, args)
	}
	return c
}

// links is the server that keeps the links of this user. The store is opened only if it
// has to say which one that is.
func (a *app) links(cmd *cobra.Command, place, named string) (link.Server, error) {
	var remotes []string
	if named == "" && !link.IsServer(place) {
		s, err := a.open(cmd.Context(), open.Read)
		if err != nil {
			return link.Server{}, err
		}
		if remotes, err = a.remotes(s).URLs(cmd.Context()); err != nil {
			return link.Server{}, err
		}
	}
	return link.Find(named, place, remotes, open.Tokens(os.Environ()))
}

// shareCopy makes a copy of a session for whoever has its key.
func (a *app) shareCopy(cmd *cobra.Command, p store.Point, o link.Options, output, server string) error {
	var made link.Made
	var says string
	var at link.Server
	place, _, err := a.location()
	if err != nil {
		return err
	}
	if output != "" {
		says = "Nobody can revoke this file. Whoever has it and the key, the part after the #, can read it: send them by two ways."
		made, err = link.WriteFile(cmd.Context(), p, o, output, func(write func(io.Writer) error) error { return a.toFile(output, write) })
	} else if at, err = a.links(cmd, place, server); err == nil {
		made, err = at.Make(cmd.Context(), p, o)
		says = "Whoever has this link can read the copy until " + a.when(made.ExpiresAt) + ". End it with: tidemark share revoke " + made.Name
		if server != "" {
			says += " --server " + server
		}
	}
	if err != nil && made.URL == "" {
		return err
	}
	a.say("%s", says)
	return errors.Join(a.printf(made, "%s\n", made.URL), err)
}
