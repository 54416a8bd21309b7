package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/agent"
	"github.com/tidemark-sessions/tidemark/backend/sqlite"
	"github.com/tidemark-sessions/tidemark/internal/sandbox"
	"github.com/tidemark-sessions/tidemark/seal"
	"github.com/tidemark-sessions/tidemark/store"
)

// diagnosis is one thing that doctor looked at.
type diagnosis struct {
	What  string `json:"what"`
	State string `json:"state"` // ok, fixed, warning, broken
	Says  string `json:"says"`
	Fix   string `json:"fix,omitempty"` // what helps
}

// The states of a diagnosis.
const (
	healthy = "ok"
	mended  = "fixed"
	warning = "warning"
	broken  = "broken"
)

func doctorCommand(a *app) *cobra.Command {
	var fix bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look the store over, and repair what can be repaired",
		Long: `Looks at the store, its keys, its search index, its leases and purges that were
interrupted, and says what a sandbox on this machine can enforce. With --fix it repairs what can be repaired without losing anything
that can still be read: it completes what was cut off, makes the index anew,
narrows modes, lets go of what dead writers hold. What it cannot keep in place
it sets aside; it deletes nothing. A store on sqlite whose schema or whose first
bytes are damaged is repaired after a copy of it was kept beside it.

The exit code is 13 while something is broken.`,
		Example: "  tidemark doctor\n  tidemark doctor --fix",
		Args:    usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			d := &doctor{app: a, cmd: cmd, fix: fix}
			err := d.examine(cmd.Context())
			a.progressDone()
			return errors.Join(a.print(d.found, d.print), err, d.err())
		},
	}
	cmd.Flags().BoolVar(&fix, "fix", false, "repair what can be repaired")
	return cmd
}

type doctor struct {
	*app
	cmd   *cobra.Command
	fix   bool
	found []diagnosis
}

func (d *doctor) add(what, state, says string, args ...any) *diagnosis {
	d.found = append(d.found, diagnosis{What: what, State: state, Says: fmt.Sprintf(says, args...)})
	return &d.found[len(d.found)-1]
}

func (d *doctor) examine(ctx context.Context) error {
	url, origin, err := d.location()
	if err != nil {
		return err
	}
	how := reads
	if d.fix {
		how = writes
		if err := d.recover(ctx, url); err != nil {
			return err
		}
	}
	s, err := d.open(ctx, how)
	if err != nil {
		return err
	}
	d.add("store", healthy, "%s (%s)", url, origin)
	if err := d.keys(ctx); err != nil {
		return err
	}
	d.sandbox()
	if d.fix {
		if err := d.mend(ctx, s); err != nil {
			return err
		}
	}
	for _, look := range []func(context.Context, *store.Store) error{d.damage, d.index, d.leases, d.purges} {
		if err := look(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// recover repairs a file that could not be opened as it is.
func (d *doctor) recover(ctx context.Context, url string) error {
	path, ok := strings.CutPrefix(url, "sqlite:")
	if !ok || path == "" {
		return nil
	}
	did, err := sqlite.Recover(ctx, path)
	for _, what := range did {
		d.add("repair", mended, "%s", what)
	}
	return err
}

// keys looks at how the store is encrypted.
func (d *doctor) keys(ctx context.Context) error {
	b, ok := d.opened.Backend.(*seal.Backend)
	if !ok {
		d.add("encryption", warning, "off: everything is kept as plain text").Fix = "tidemark migrate --to sqlite:PATH"
		return nil
	}
	h, err := b.Header(ctx)
	if err != nil {
		return err
	}
	if h.Rotating {
		d.add("keys", warning, "a rotation was begun and not finished").Fix = "tidemark key rotate"
	}
	recovery := slices.ContainsFunc(h.Slots, func(s seal.Slot) bool { return s.Label == seal.RecoveryLabel })
	if len(h.Slots) == 1 && !recovery {
		d.add("encryption", warning, "on; one slot alone opens the store").Fix = "tidemark key export-recovery"
		return nil
	}
	d.add("encryption", healthy, "on; %d slots open the store", len(h.Slots))
	return nil
}

// sandbox says what holds the programs that are run in one, layer by layer.
func (d *doctor) sandbox() {
	if mode, origin := sandboxMode(d.config); mode == agent.SandboxOff {
		d.add("sandbox", warning, "off (%s): programs of chats run with all that you may do", origin).Fix = "take sandbox: off out"
	}
	for _, l := range sandbox.Layers() {
		state := healthy
		if !l.On {
			state = warning
		}
		d.add("sandbox: "+l.Name, state, "%s", l.Says)
	}
}

// mend lets the backend repair itself.
func (d *doctor) mend(ctx context.Context, s *store.Store) error {
	for did, err := range s.Mend(ctx) {
		switch {
		case errors.Is(err, tidemark.ErrUnsupported):
			return nil
		case errors.Is(err, tidemark.ErrCorrupt):
			d.add("repair", broken, "%v", err)
		case err != nil:
			return err
		default:
			d.add("repair", mended, "%s", did)
		}
	}
	return nil
}

// damage reads everything.
func (d *doctor) damage(ctx context.Context, s *store.Store) error {
	n, sessions := 0, 0
	for err := range s.VerifyAll(ctx, func(store.Info) {
		sessions++
		d.progress("%d sessions verified", sessions)
	}) {
		if !errors.Is(err, tidemark.ErrCorrupt) {
			return err
		}
		if n++; n <= 20 {
			d.add("damage", broken, "%v", err)
		}
	}
	switch {
	case n > 20:
		d.add("damage", broken, "and %d more", n-20)
	case n == 0:
		d.add("content", healthy, "%d session(s) read, no damage", sessions)
	}
	return nil
}

// index looks at how far the search index is.
func (d *doctor) index(ctx context.Context, s *store.Store) error {
	if d.fix {
		// An index that is whole may still be wrong; making it is cheap beside
		// not finding something.
		made, err := s.Reindex(ctx, func(n int64) { d.progress("%d entries indexed", n) })
		switch {
		case errors.Is(err, tidemark.ErrUnsupported):
		case err != nil:
			return err
		case made > 0:
			d.add("index", mended, "made anew from %d entries", made)
		}
	}
	behind, err := s.Unindexed(ctx)
	switch {
	case errors.Is(err, tidemark.ErrUnsupported):
		d.add("index", healthy, "none: a search reads everything")
	case err != nil:
		return err
	case behind == 0:
		d.add("index", healthy, "up to date")
	default:
		d.add("index", warning, "%d entries are not indexed yet", behind).Fix = "tidemark doctor --fix"
	}
	return nil
}

// leases looks for writers that died.
func (d *doctor) leases(ctx context.Context, s *store.Store) error {
	dead := 0
	for l, err := range s.Leases(ctx) {
		if err != nil {
			return err
		}
		if !l.Dead {
			continue
		}
		if dead++; d.fix {
			if err := s.Release(ctx, l.Session(), false); err != nil && !errors.Is(err, tidemark.ErrHeld) {
				return err
			}
		}
	}
	switch {
	case dead == 0:
		d.add("leases", healthy, "no dead writer holds a session")
	case d.fix:
		d.add("leases", mended, "let go of %d session(s) whose writer died", dead)
	default:
		d.add("leases", healthy, "%d session(s) whose writer died; the next one takes over", dead)
	}
	return nil
}

// purges looks for sessions that were being destroyed.
func (d *doctor) purges(ctx context.Context, s *store.Store) error {
	ids, err := s.Purging(ctx)
	if err != nil || len(ids) == 0 {
		return err
	}
	if !d.fix {
		d.add("purge", warning, "%d session(s) were not purged to the end", len(ids)).Fix = "tidemark doctor --fix"
		return nil
	}
	for _, id := range ids {
		if err := s.Purge(ctx, id, d.holder(d.cmd)); err != nil {
			return err
		}
	}
	d.add("purge", mended, "purged %d session(s) to the end", len(ids))
	return nil
}

func (d *doctor) print(w io.Writer) error {
	t := d.table("STATE", "WHAT", "SAYS")
	for _, f := range d.found {
		says := f.Says
		if f.Fix != "" {
			says += " (" + f.Fix + ")"
		}
		t.row(f.State, f.What, says)
	}
	return t.print(w)
}

func (d *doctor) err() error {
	for _, f := range d.found {
		if f.State != broken {
			continue
		}
		err := fmt.Errorf("something is broken: %w", tidemark.ErrCorrupt)
		if d.fix {
			return withHint(err, "everything else can be read; copy it into a new store with: tidemark migrate --to sqlite:PATH")
		}
		return withHint(err, "tidemark doctor --fix")
	}
	return nil
}

// supported makes the lack of an ability no error.
func supported(err error) error {
	if errors.Is(err, tidemark.ErrUnsupported) {
		return nil
	}
	return err
}
