package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/cold"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/server/serve"
	"github.com/tidemark-sessions/tidemark/store/upkeep"
	"github.com/tidemark-sessions/tidemark/transfer/remote"
)

func coldCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cold",
		Short: "Keep the older lines of quiet sessions in a folder or in storage",
		Long: `Moves the older lines of sessions that nobody touched for some time out of the
store, as compressed segments in a folder (file:/srv/cold) or in storage that
speaks S3 (s3://BUCKET/PREFIX); or packs them in the store itself (store:), where
they need a fraction of the room and no other place. What is encrypted stays encrypted. Lists, searches
and the newest 64 lines of each session stay here; older ones are read from their
segments when somebody asks for them, and all come back when somebody goes on with
the session. Only the store knows which segments there are: keep both.`,
	}
	cmd.AddCommand(coldStatus(a), coldMove(a), coldBack(a))
	return cmd
}

func coldStatus(a *app) *cobra.Command {
	var everyone bool
	cmd := &cobra.Command{
		Use: "status", Short: "What is at cold places",
		Example: "  tidemark cold status --json\n  tidemark --store postgres://tidemark@db/tidemark cold status --everyone",
		Args:    usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			st, err := a.coldStatus(cmd.Context(), everyone)
			if err != nil {
				return err
			}
			return a.print(st, func(w io.Writer) error {
				if st.Left > 0 {
					a.say("%d object(s) are still to be deleted: tidemark gc", st.Left)
				}
				_, err := fmt.Fprintf(w, "%d logs, %d lines, %d segments, %s\n", st.Logs, st.Lines, st.Segments, megabytes(st.Packed))
				return err
			})
		},
	}
	everyoneFlag(cmd, &everyone)
	return cmd
}

// coldStatus says what is at places: of this store, or of everyone in its database.
func (a *app) coldStatus(ctx context.Context, everyone bool) (all cold.Status, err error) {
	if !everyone {
		if _, err := a.open(ctx, open.Read); err != nil {
			return all, err
		}
		b, err := a.opened.Cold()
		if err != nil {
			return all, err
		}
		return b.Status(ctx)
	}
	t, users, err := a.everyone(ctx)
	if err != nil {
		return all, err
	}
	defer t.Close()
	for b, err := range t.Cold(ctx, users) {
		if err != nil {
			return all, err
		}
		st, err := b.Status(ctx)
		if err != nil {
			return all, err
		}
		all.Add(st)
	}
	return all, nil
}

func coldMove(a *app) *cobra.Command {
	var older, to string
	var everyone bool
	how := open.ColdMove{}
	cmd := &cobra.Command{
		Use: "move", Short: "Move the older lines of quiet sessions there",
		Long: `Each segment is read back from the place before its lines leave the store. What
dies in between loses nothing. Sessions on hold are moved like others: they stay
readable. Objects that nothing needs any more are deleted a day later.`,
		Example: "  tidemark cold move --to s3://bucket/cold --older 90d --dry-run\n  TIDEMARK_COLD=file:/srv/cold tidemark cold move",
		Args:    usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if how.Older, err = upkeep.ParseAge(older); err != nil {
				return err
			}
			if to != "" {
				dir, err := os.Getwd()
				if err != nil {
					return err
				}
				a.coldTo = remote.Clean(to, dir)
			}
			access := open.Write
			if how.DryRun {
				access = open.Read
			}
			if !everyone {
				if _, err := a.open(cmd.Context(), access); err != nil {
					return err
				}
			}
			skipped := 0
			how.Progress, how.Skipped = a.progress, func(err error) { skipped++; a.complain(err) }
			var did open.ColdMoved
			if everyone {
				t, users, failed := a.everyone(cmd.Context())
				if failed != nil {
					return failed
				}
				defer t.Close()
				did, err = t.MoveCold(cmd.Context(), users, a.holder(cmd), how, true)
			} else {
				did, err = a.opened.MoveQuiet(cmd.Context(), how)
			}
			a.progressDone()
			if err != nil && did.Logs == 0 {
				return err
			}
			err = errors.Join(err, a.print(did, func(w io.Writer) error {
				said := "would be moved"
				if !did.DryRun {
					said = fmt.Sprintf("moved, %s became %s", megabytes(did.Bytes), megabytes(did.Packed))
				}
				_, err := fmt.Fprintf(w, "%d lines of %d logs %s\n", did.Lines, did.Logs, said)
				return err
			}))
			if err == nil && skipped > 0 {
				return &partly{skipped}
			}
			return err
		},
	}
	cmd.Flags().StringVar(&older, "older", "90d", "sessions that nobody touched for so long, like 90d or 36h")
	cmd.Flags().StringVar(&to, "to", "", "where to: file:/DIR, s3://BUCKET/PREFIX or store: ($TIDEMARK_COLD)")
	everyoneFlag(cmd, &everyone)
	cmd.Flags().BoolVar(&how.DryRun, "dry-run", false, "say what would be moved, and move nothing")
	return cmd
}

func everyoneFlag(cmd *cobra.Command, everyone *bool) {
	cmd.Flags().BoolVar(everyone, "everyone", false, "of all tenants and users in this database")
}

// everyone returns what everybody keeps in the store of a server.
func (a *app) everyone(ctx context.Context) (*serve.Opener, *tenant.Directory, error) {
	place, _, err := a.location()
	if err == nil && !open.IsPostgres(place) {
		err = hint.With(tidemark.Invalidf("--everyone: this store has one user"), "leave it out")
	}
	if err != nil {
		return nil, nil, err
	}
	users, err := a.directory(ctx, open.Write)
	if err != nil {
		return nil, nil, err
	}
	return serve.StoresBeside(ctx, a.opened, place, a.openOptions), users, nil
}

func coldBack(a *app) *cobra.Command {
	var all, everyone bool
	cmd := &cobra.Command{
		Use: "bring-back [SESSION…]", Short: "Put lines back into the store",
		Example:           "  tidemark cold bring-back 7f3a\n  tidemark cold bring-back --all",
		ValidArgsFunction: completeSession(a),
		RunE: func(cmd *cobra.Command, args []string) error {
			if everyone && all {
				return a.bringEveryone(cmd.Context())
			}
			if all == (len(args) > 0) || everyone {
				return hint.With(tidemark.Invalidf("which sessions?"), "name some, or all of them with --all, of everyone with --all --everyone")
			}
			var ids []tidemark.SessionID
			for _, ref := range args {
				_, p, err := a.resolve(cmd.Context(), open.Write, ref)
				if err != nil {
					return err
				}
				ids = append(ids, p.ID)
			}
			if all {
				if _, err := a.open(cmd.Context(), open.Write); err != nil {
					return err
				}
				ids = append(ids, "")
			}
			logs := 0
			for _, id := range ids {
				n, err := a.opened.BringBack(cmd.Context(), id)
				if logs += n; err != nil {
					return err
				}
			}
			return errors.Join(a.printf(map[string]int{"logs": logs}, "%d logs brought back\n", logs), a.opened.ColdLeft(cmd.Context()))
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "all sessions")
	everyoneFlag(cmd, &everyone)
	return cmd
}

// bringEveryone puts back what was moved of anybody in a database.
func (a *app) bringEveryone(ctx context.Context) error {
	t, users, err := a.everyone(ctx)
	if err != nil {
		return err
	}
	defer t.Close()
	logs, left := 0, error(nil)
	for b, err := range t.Cold(ctx, users) {
		if err != nil {
			return err
		}
		n, err := open.BringBack(ctx, b, "")
		if logs += n; err != nil {
			return err
		}
		left = errors.Join(left, b.Left(ctx))
	}
	return errors.Join(a.printf(map[string]int{"logs": logs}, "%d logs brought back\n", logs), left)
}

// coldPlaces opens places with the keys that an environment names.
func coldPlaces(environ []string) func(context.Context, string) (cold.Place, error) {
	return func(ctx context.Context, url string) (cold.Place, error) {
		return remote.Open(ctx, url, &remote.Options{Environ: environ})
	}
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }
