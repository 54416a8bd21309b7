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
	cmd.AddCommand(&cobra.Command{Use: "ls", Short: "The links that you made, and when they end", Example: "  tidemark share ls\n  tidemark share ls --json=name,session,expires_at", Args: usage(cobra.NoArgs),
		RunE: a.onStore(open.Read, func(cmd *cobra.Command, s *store.Store, _ []string) error {
			at, err := a.links(cmd, s, server)
			if err != nil {
				return err
			}
			all, err := at.List(cmd.Context())
			if err != nil {
				return err
			}
			return printTable(a, all, []string{"NAME", "STATE", "EXPIRES", "BYTES", "SESSION"}, func(m link.Made) []string { return m.Row(a.when) })
		})}, &cobra.Command{Use: "revoke LINK...", Short: "End links: the copies are removed", Example: "  tidemark share revoke https://tidemark.example.org/shared/jt5…\n  tidemark share revoke jt5qk…", Args: usage(cobra.MinimumNArgs(1)),
		RunE: a.onStore(open.Read, func(cmd *cobra.Command, s *store.Store, args []string) error {
			at, err := a.links(cmd, s, server)
			for i := 0; i < len(args) && err == nil; i++ {
				var m link.Made
				if m, err = at.Revoke(cmd.Context(), args[i]); err == nil {
					err = a.printf(m, "%s\t%s\n", m.Name, m.State)
				}
			}
			return err
		})})
	return cmd
}

// links is the server that keeps the links of this user.
func (a *app) links(cmd *cobra.Command, s *store.Store, named string) (link.Server, error) {
	place, _, err := a.location()
	if err != nil {
		return link.Server{}, err
	}
	remotes, err := a.remotes(s).URLs(cmd.Context())
	if err != nil {
		return link.Server{}, err
	}
	return link.Find(named, place, remotes, open.Tokens(os.Environ()))
}

// shareCopy makes a copy of a session for whoever has its key.
func (a *app) shareCopy(cmd *cobra.Command, p store.Point, o link.Options, output, server string) error {
	var made link.Made
	var says string
	at, err := link.Server{}, error(nil)
	if output != "" {
		says = "Nobody can revoke this file. Whoever has it and the key, the part after the #, can read it: send them by two ways."
		made, err = link.WriteFile(cmd.Context(), p, o, output, func(write func(io.Writer) error) error { return a.toFile(output, write) })
	} else if at, err = a.links(cmd, p.Store(), server); err == nil {
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
