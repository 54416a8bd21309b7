package open

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/sqlite"
	"github.com/tidemark-sessions/tidemark/internal/durable"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/internal/sandbox"
	"github.com/tidemark-sessions/tidemark/seal"
	"github.com/tidemark-sessions/tidemark/store"
)

// Diagnosis is the result of one check of a Checkup.
type Diagnosis struct {
	What  string `json:"what"`
	State string `json:"state"` // ok, fixed, warning, broken
	Says  string `json:"says"`
	Fix   string `json:"fix,omitempty"` // what to do
}

// The states of a diagnosis.
const (
	Healthy = "ok"
	Mended  = "fixed"
	Warning = "warning"
	Broken  = "broken"
)

// Checkup examines a store, and with Fix repairs what can be repaired.
type Checkup struct {
	Fix      bool
	Environ  []string        // says where the policy of the machine is
	Holder   tidemark.Holder // who finishes purges
	Progress func(format string, args ...any)
	Found    []Diagnosis
}

// Add adds a diagnosis.
func (c *Checkup) Add(what, state, says string, args ...any) *Diagnosis {
	c.Found = append(c.Found, Diagnosis{What: what, State: state, Says: fmt.Sprintf(says, args...)})
	return &c.Found[len(c.Found)-1]
}

// Store checks everything that a store keeps.
func (c *Checkup) Store(ctx context.Context, s *store.Store) error {
	if c.Fix {
		if err := c.mend(ctx, s); err != nil {
			return err
		}
	}
	for _, check := range []func(context.Context, *store.Store) error{c.damage, c.index, c.leases, c.purges} {
		if err := check(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// Err returns ErrCorrupt when something is broken.
func (c *Checkup) Err() error {
	if !slices.ContainsFunc(c.Found, func(d Diagnosis) bool { return d.State == Broken }) {
		return nil
	}
	err := fmt.Errorf("something is broken: %w", tidemark.ErrCorrupt)
	if c.Fix {
		return hint.With(err, "everything else can be read; copy it into a new store with: tidemark migrate --to sqlite:PATH")
	}
	return hint.With(err, "tidemark doctor --fix")
}

// Recover repairs a SQLite file that cannot be opened as it is.
func (c *Checkup) Recover(ctx context.Context, url string) error {
	path, ok := strings.CutPrefix(url, "sqlite:")
	if !ok || path == "" {
		return nil
	}
	did, err := sqlite.Recover(ctx, path)
	for _, what := range did {
		c.Add("repair", Mended, "%s", what)
	}
	return err
}

// Upgrade says what an upgrade will need, before it begins: the next command that
// writes makes it.
func (c *Checkup) Upgrade(ctx context.Context, o *Opened, url string) error {
	b, ok := o.bare().(upgradable)
	if !ok {
		return nil
	}
	from, to, bytes, err := b.PendingUpgrade(ctx)
	if err != nil || from >= to {
		return err
	}
	_, path, _ := strings.Cut(url, ":")
	free, err := durable.FreeBytes(filepath.Dir(path))
	if err != nil {
		return tidemark.Storagef("store %s: %w", path, err)
	}
	state, fix := Healthy, ""
	if free < bytes {
		state, fix = Warning, "make room before the next command that writes"
	}
	const mb = 1 << 20
	c.Add("format", state, "%d; the next command that writes upgrades it to %d and keeps a copy: that takes up to %.1f MB on its disk, %.1f MB are free",
		from, to, float64(bytes)/mb, float64(free)/mb).Fix = fix
	return nil
}

// Keys checks how the store is encrypted.
func (c *Checkup) Keys(ctx context.Context, o *Opened) error {
	b, ok := o.Backend.(*seal.Backend)
	if !ok {
		c.Add("encryption", Warning, "off: everything is kept as plain text").Fix = "tidemark migrate --to sqlite:PATH"
		return nil
	}
	h, err := b.Header(ctx)
	if err != nil {
		return err
	}
	if h.Rotating {
		c.Add("keys", Warning, "a rotation was begun and not finished").Fix = "tidemark key rotate"
	}
	policy, err := PolicyOf(c.Environ)
	if err != nil {
		c.Add("escrow", Broken, "%s", err)
	}
	for _, recipient := range policy.Missing(h) {
		c.Add("escrow", Warning, "%s wants to be able to open stores on its machines, and cannot open this one", policy.Organisation).Fix =
			fmt.Sprintf("tidemark key add --recipient %s --label %q", recipient, "escrow: "+policy.Organisation)
	}
	recovery := slices.ContainsFunc(h.Slots, func(s seal.Slot) bool { return s.Label == seal.RecoveryLabel })
	if len(h.Slots) == 1 && !recovery {
		c.Add("encryption", Warning, "on; one slot alone opens the store").Fix = "tidemark key export-recovery"
		return nil
	}
	c.Add("encryption", Healthy, "on; %d slots open the store", len(h.Slots))
	return nil
}

// Sandbox reports what confines programs that run in one, layer by layer.
// offBy says who turned it off for conversations, "" when it is on.
func (c *Checkup) Sandbox(offBy string) {
	if offBy != "" {
		c.Add("sandbox", Warning, "off (%s): programs of chats run with all that you may do", offBy).Fix = "take sandbox: off out"
	}
	for _, l := range sandbox.Layers() {
		state := Healthy
		if !l.On {
			state = Warning
		}
		c.Add("sandbox: "+l.Name, state, "%s", l.Says)
	}
}

// mend lets the backend repair itself.
func (c *Checkup) mend(ctx context.Context, s *store.Store) error {
	for did, err := range s.Mend(ctx) {
		switch {
		case errors.Is(err, tidemark.ErrUnsupported):
			return nil
		case errors.Is(err, tidemark.ErrCorrupt):
			c.Add("repair", Broken, "%v", err)
		case err != nil:
			return err
		default:
			c.Add("repair", Mended, "%s", did)
		}
	}
	return nil
}

// damage reads everything and reports what is damaged.
func (c *Checkup) damage(ctx context.Context, s *store.Store) error {
	n, sessions := 0, 0
	for err := range s.VerifyAll(ctx, func(store.Info) {
		sessions++
		c.Progress("%d sessions verified", sessions)
	}) {
		if !errors.Is(err, tidemark.ErrCorrupt) {
			return err
		}
		if n++; n <= 20 {
			c.Add("damage", Broken, "%v", err)
		}
	}
	switch {
	case n > 20:
		c.Add("damage", Broken, "and %d more", n-20)
	case n == 0:
		c.Add("content", Healthy, "%d session(s) read, no damage", sessions)
	}
	return nil
}

// fewBehind is how many entries may be behind without a word: short commands leave
// some hundred to the next program that stays.
const fewBehind = 1000

// index checks whether the search index is up to date.
func (c *Checkup) index(ctx context.Context, s *store.Store) error {
	if c.Fix {
		// A complete index may still be wrong; rebuilding it is cheap compared
		// to not finding something.
		made, err := s.Reindex(ctx, func(n int64) { c.Progress("%d entries indexed", n) })
		switch {
		case errors.Is(err, tidemark.ErrUnsupported):
		case err != nil:
			return err
		case made > 0:
			c.Add("index", Mended, "made anew from %d entries", made)
		}
	}
	wrong, err := s.VerifyIndex(ctx)
	if err != nil && !errors.Is(err, tidemark.ErrUnsupported) {
		return err
	}
	for _, err := range wrong {
		c.Add("index", Broken, "%v", err).Fix = "tidemark doctor --fix"
	}
	if len(wrong) > 0 {
		return nil
	}
	behind, err := s.Unindexed(ctx, 0)
	switch {
	case errors.Is(err, tidemark.ErrUnsupported):
		c.Add("index", Healthy, "none: a search reads everything")
	case err != nil:
		return err
	case behind == 0:
		c.Add("index", Healthy, "up to date")
	case behind < fewBehind:
		c.Add("index", Healthy, "up to date but for what is new (%d), which a search reads", behind)
	default:
		c.Add("index", Warning, "%d entries are not indexed yet", behind).Fix = "tidemark doctor --fix"
	}
	return nil
}

// leases looks for writers that died.
func (c *Checkup) leases(ctx context.Context, s *store.Store) error {
	dead := 0
	for l, err := range s.Leases(ctx) {
		if err != nil {
			return err
		}
		if !l.Dead {
			continue
		}
		if dead++; c.Fix {
			if err := s.Release(ctx, l.Session(), false); err != nil && !errors.Is(err, tidemark.ErrHeld) {
				return err
			}
		}
	}
	switch {
	case dead == 0:
		c.Add("leases", Healthy, "no dead writer holds a session")
	case c.Fix:
		c.Add("leases", Mended, "let go of %d session(s) whose writer died", dead)
	default:
		c.Add("leases", Healthy, "%d session(s) whose writer died; the next one takes over", dead)
	}
	return nil
}

// purges looks for sessions whose purge was interrupted.
func (c *Checkup) purges(ctx context.Context, s *store.Store) error {
	ids, err := s.Purging(ctx)
	if err != nil || len(ids) == 0 {
		return err
	}
	if !c.Fix {
		c.Add("purge", Warning, "%d session(s) were not purged to the end", len(ids)).Fix = "tidemark doctor --fix"
		return nil
	}
	for _, id := range ids {
		if err := s.Destroy(ctx, id, c.Holder); err != nil {
			return err
		}
	}
	if err := s.RewriteIndex(ctx); err != nil {
		return err
	}
	c.Add("purge", Mended, "purged %d session(s) to the end", len(ids))
	return nil
}
