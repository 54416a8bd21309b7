package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/store"
)

// lockView is a lease as programs see it.
type lockView struct {
	Session tidemark.SessionID `json:"session"`
	Held    bool               `json:"held"`
	Holder  *tidemark.Holder   `json:"holder,omitempty"`
	Since   time.Time          `json:"since_at,omitzero"`
	HeardAt time.Time          `json:"heard_at,omitzero"`
	Dead    bool               `json:"dead"`
	Expired bool               `json:"expired"`
}

func lockCommand(a *app) *cobra.Command {
	var release, force, handOver bool
	cmd := &cobra.Command{
		Use:   "lock SESSION",
		Short: "Show who may write to a session, take it away, or ask for it",
		Example: `  tidemark lock last
  tidemark lock 7f3a --hand-over
  tidemark lock 7f3a --release`,
		Args:              usage(cobra.ExactArgs(1)),
		ValidArgsFunction: completeSession(a),
		RunE: func(cmd *cobra.Command, args []string) error {
			if release && handOver || force && !release {
				return tidemark.Invalidf("--release and --hand-over exclude each other; --force goes with --release")
			}
			how := open.Read
			if release || handOver {
				how = open.Write
			}
			s, p, err := a.resolve(cmd.Context(), how, args[0])
			if err != nil {
				return err
			}
			switch {
			case release:
				err = s.Release(cmd.Context(), p.ID, force)
				if errors.Is(err, tidemark.ErrHeld) {
					err = hint.With(err, "ask for it with: tidemark lock %.8s --hand-over; or take it by force with --release --force", p.ID)
				}
			case handOver:
				err = a.handOver(cmd, s, p.ID)
			}
			if err != nil {
				return err
			}
			return a.printLock(cmd, s, p.ID)
		},
	}
	cmd.Flags().BoolVar(&release, "release", false, "end the lease of a holder that is dead or silent")
	cmd.Flags().BoolVar(&force, "force", false, "with --release: of any holder")
	cmd.Flags().BoolVar(&handOver, "hand-over", false, "ask the holder to let go, and wait for it")
	return cmd
}

func (a *app) printLock(cmd *cobra.Command, s *store.Store, id tidemark.SessionID) error {
	l, err := s.Lease(cmd.Context(), id)
	if err != nil {
		return err
	}
	v := lockView{Session: id, Held: l.Held}
	if l.Held {
		v.Holder, v.Since, v.HeardAt, v.Dead, v.Expired = &l.Holder, l.Since, l.HeardAt, l.Dead, l.Expired
	}
	return a.print(v, func(w io.Writer) error {
		if !l.Held {
			_, err := fmt.Fprintf(w, "%s is held by nobody\n", id)
			return err
		}
		note := ""
		switch {
		case l.Dead:
			note = " (it is dead: the next writer takes over)"
		case l.Expired:
			note = " (silent for too long: the next writer takes over)"
		}
		_, err := fmt.Fprintf(w, "%s is held by %s since %s, last active %s%s\n",
			id, render.CleanLine(l.Holder.String()), a.when(l.Since), render.Ago(l.HeardAt, time.Now()), note)
		return err
	})
}

// handOver asks the holder to let go, and waits until it has.
func (a *app) handOver(cmd *cobra.Command, s *store.Store, id tidemark.SessionID) error {
	held := func(ctx context.Context) error {
		l, err := s.Lease(ctx, id)
		if err != nil || !l.Held || l.Dead || l.Expired {
			return err
		}
		return &store.HeldError{Lease: l, Now: time.Now()}
	}
	err := held(cmd.Context())
	if errors.Is(err, tidemark.ErrHeld) {
		a.say("Asking, and waiting for the holder to finish.")
		err = s.AwaitHandover(cmd.Context(), id, a.holder(cmd), held)
	}
	return err
}
