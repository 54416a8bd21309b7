package transfer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/store"
)

// stateKeeper keeps the state of a session besides its conversation. An
// import replaces it and never merges: the old state would leak into another
// one.
type stateKeeper struct {
	s    *store.Store       // nil if there is none yet
	id   tidemark.SessionID // "" if it does not exist yet
	from string             // its name where it comes from
	// write returns the writer of the session once something differs; nil in a
	// dry run.
	write func(context.Context) (*store.Writer, error)
	skip  func(error)
}

// state keeps the session's state besides the conversation.
func (g *sessionImport) state(ctx context.Context) error {
	if err := g.about(ctx); err != nil {
		return err
	}
	k := stateKeeper{s: g.s, id: g.result.Session, from: g.from.ForeignID, write: g.changed, skip: g.skip}
	return k.keep(ctx, g.from.Checkpoint, g.from.Files)
}

// changed records that something other than entries is new, and returns
// the writer for it; nil in a dry run.
func (g *sessionImport) changed(ctx context.Context) (*store.Writer, error) {
	if g.result.State == "known" {
		g.result.State = "changed"
	}
	if g.DryRun {
		return nil, nil
	}
	err := g.attach(ctx)
	return g.w, err
}

// about updates what the tool says about the session: it may have got a title and
// a model since it was first imported, and keeps those that it was given here.
func (g *sessionImport) about(ctx context.Context) error {
	have := g.made
	if g.here != nil {
		have = g.here.Session
	}
	if g.s == nil || g.result.Session == "" {
		return nil
	}
	now, err := g.said(ctx)
	if err != nil {
		return err
	}
	if g.here == nil && now.Title == "" {
		now.Title = have.Title
	}
	if !have.Gone.IsZero() {
		if w, err := g.changed(ctx); err != nil || w == nil {
			return err
		}
		if err := g.s.SetGone(ctx, g.result.Session, time.Time{}); err != nil {
			return err
		}
	}
	want, was := have, originOf(have).Said
	for _, field := range []struct {
		is       *string
		was, now string
	}{{&want.Model, was.Model, now.Model}, {&want.Mode, was.Mode, now.Mode}, {&want.Project, was.Project, now.Project}} {
		if field.now != "" && (*field.is == "" || *field.is == field.was) {
			*field.is = field.now
		}
	}
	if now.Title != "" && now.Title != have.Title {
		given := false
		if g.here != nil {
			if given, err = g.here.Renamed(ctx); err != nil {
				return err
			}
		}
		if !given {
			want.Title = now.Title
		}
	}
	if !g.from.CreatedAt.IsZero() {
		want.CreatedAt = g.from.CreatedAt.UTC().Truncate(time.Microsecond)
	}
	want.Tool = g.tool.Name
	if want.Extra, err = g.origin(now); err != nil || sameAbout(have, want) || sameAbout(have, g.s.MaskSession(want)) {
		return err
	}
	w, err := g.changed(ctx)
	if err != nil || w == nil {
		return err
	}
	g.result.Title = want.Title
	return g.s.SetOrigin(ctx, g.result.Session, want)
}

// sameAbout reports whether a session has what its tool says about it.
func sameAbout(have, want tidemark.Session) bool {
	return have.Tool == want.Tool && have.Title == want.Title && have.Model == want.Model && have.Mode == want.Mode && have.Project == want.Project &&
		have.CreatedAt.Equal(want.CreatedAt) && convert.SameJSON(have.Extra, want.Extra)
}

// keep replaces the checkpoint, and the files; nil leaves the existing ones.
func (k stateKeeper) keep(ctx context.Context, checkpoint json.RawMessage, files map[string][]byte) error {
	if checkpoint != nil {
		if err := k.checkpoint(ctx, checkpoint); err != nil {
			return err
		}
	}
	if files != nil {
		return k.files(ctx, files)
	}
	return nil
}

func (k stateKeeper) checkpoint(ctx context.Context, raw json.RawMessage) error {
	var c store.Checkpoint
	if err := json.Unmarshal(raw, &c); err != nil {
		return convert.Skipf(k.from, "its checkpoint: %v", err)
	}
	if k.s != nil && k.id != "" {
		have, err := k.s.Checkpoint(ctx, k.id, "")
		if err == nil && sameState(have, c) {
			return nil
		}
		if err != nil && !errors.Is(err, tidemark.ErrNotFound) && !errors.Is(err, tidemark.ErrCorrupt) {
			return err
		}
	}
	w, err := k.write(ctx)
	if err != nil || w == nil {
		return err
	}
	return w.SaveCheckpoint(ctx, c)
}

// sameState reports whether two checkpoints restore the same.
func sameState(have, c store.Checkpoint) bool {
	for _, c := range []*store.Checkpoint{&have, &c} {
		c.SavedAt, c.Seq = time.Time{}, 0
		maps.DeleteFunc(c.CoreMemory, func(_, text string) bool { return text == "" })
	}
	a, errA := json.Marshal(have)
	b, errB := json.Marshal(c)
	return errA == nil && errB == nil && convert.SameJSON(a, b)
}

func (k stateKeeper) files(ctx context.Context, files map[string][]byte) error {
	have := make(map[string]string)
	if k.s != nil && k.id != "" {
		all, err := k.s.Files(ctx, k.id)
		if err != nil {
			return err
		}
		for _, f := range all {
			have[f.Name] = f.SHA256
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		sum := sha256.Sum256(files[name])
		same := have[name] == hex.EncodeToString(sum[:])
		delete(have, name)
		if same {
			continue
		}
		if err := store.CheckFile(name); err != nil {
			k.skip(&convert.Skip{What: k.from, Why: err})
			continue
		}
		w, err := k.write(ctx)
		if err == nil && w != nil {
			_, err = w.PutFile(ctx, name, bytes.NewReader(files[name]))
		}
		if err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(have)) {
		w, err := k.write(ctx)
		if err == nil && w != nil {
			err = w.RemoveFile(ctx, name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// renewEvery is how often the lease of a long import is renewed: well before
// it expires.
const renewEvery = 5 * time.Second

// renew renews the lease while much is read and nothing is appended.
func (g *sessionImport) renew(ctx context.Context) error {
	now := time.Now()
	if now.Sub(g.renewed) < renewEvery {
		return nil
	}
	g.renewed = now
	return g.w.Renew(ctx)
}
