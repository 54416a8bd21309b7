package sync

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/transfer/remote"
)

// cutRemote fails from a call on: as if the process ended there, or the place went away.
type cutRemote struct {
	remote.Blobs
	left int // calls that succeed; below 0: all
}

var errCut = tidemark.Storagef("the remote went away")

func (c *cutRemote) call() error {
	if c.left == 0 {
		return errCut
	}
	c.left--
	return nil
}

func (c *cutRemote) Get(ctx context.Context, name string) ([]byte, error) {
	if err := c.call(); err != nil {
		return nil, err
	}
	return c.Blobs.Get(ctx, name)
}

func (c *cutRemote) PutNew(ctx context.Context, name string, data []byte) error {
	if err := c.call(); err != nil {
		return err
	}
	return c.Blobs.PutNew(ctx, name, data)
}

func (c *cutRemote) Replace(ctx context.Context, name string, data []byte) error {
	if err := c.call(); err != nil {
		return err
	}
	err := c.Blobs.Replace(ctx, name, data)
	if c.left == 0 && err == nil {
		return errCut // it was written, and nobody heard of it
	}
	return err
}

func (c *cutRemote) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	if err := c.call(); err != nil {
		return func(yield func(string, error) bool) { yield("", err) }
	}
	return c.Blobs.List(ctx, prefix)
}

func (c *cutRemote) Delete(ctx context.Context, name string) error {
	if err := c.call(); err != nil {
		return err
	}
	return c.Blobs.Delete(ctx, name)
}

// runCut syncs until a call of the remote or a commit of the store fails.
func (h *home) runCut(calls, commits int) {
	h.t.Helper()
	o := Options{Holder: h.holder(), Host: h.name, Push: true, Pull: true}
	o.open = func(ctx context.Context, url string) (remote.Blobs, error) {
		b, err := remote.Open(ctx, url, h.places)
		return &cutRemote{b, calls}, err
	}
	s := store.New(&cutBackend{h.b, commits}, nil)
	_, err := Run(context.Background(), s, "r", o)
	if err != nil && !errors.Is(err, tidemark.ErrStorage) {
		h.t.Errorf("%s: cut after %d calls and %d commits: %v", h.name, calls, commits, err)
	}
	// The lease of a process that was killed is free at once.
	k := h.s.Records()
	h.must(k.Release(context.Background(), machineKey, true))
	for _, state := range []string{store.Live, store.Trash} {
		for i, err := range h.s.Sessions(context.Background(), store.Filter{State: state}) {
			h.must(err)
			h.must(h.s.Release(context.Background(), i.ID, true))
		}
	}
}

// cutBackend fails from a commit on.
type cutBackend struct {
	tidemark.Backend
	left int
}

func (c *cutBackend) Commit(ctx context.Context, b tidemark.Batch) (tidemark.Receipt, error) {
	if c.left == 0 {
		return tidemark.Receipt{}, errCut
	}
	c.left--
	return c.Backend.Commit(ctx, b)
}

// TestRandomHistoriesConverge has three homes do what people do, in any order, with
// syncs that end anywhere, and compares them when all have met.
func TestRandomHistoriesConverge(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) { converge(t, rt, 40, "file:"+t.TempDir(), nil) })
}

// converge is one history of at most so many steps, by an empty remote.
func converge(t *testing.T, rt *rapid.T, steps int, url string, places *remote.Options) {
	homes := []*home{newHome(t, "ada"), newHome(t, "bob"), newHome(t, "eve")}
	var before *home
	for _, h := range homes {
		h.places = places
		h.joinAt(url, before)
		before = h
	}
	said := make(map[string]tidemark.SessionID) // what was acknowledged, and where
	purged := make(map[tidemark.SessionID]bool)
	n := 0
	word := func() string { n++; return fmt.Sprintf("text %d", n) }
	ctx := context.Background()
	for range rapid.IntRange(5, steps).Draw(rt, "steps") {
		h := rapid.SampledFrom(homes).Draw(rt, "home")
		var ids []tidemark.SessionID
		for _, state := range []string{store.Live, store.Trash} {
			for i, err := range h.s.Sessions(ctx, store.Filter{State: state}) {
				h.must(err)
				ids = append(ids, i.ID)
			}
		}
		slices.Sort(ids)
		what := rapid.SampledFrom([]string{"new", "say", "say", "say", "branch", "fork", "label", "tag", "untag", "rename", "trash", "restore", "hold", "unhold", "pin", "purge", "worker", "sync", "sync", "cut", "cut"}).Draw(rt, "what")
		switch {
		case what == "sync":
			h.run(Options{Push: true, Pull: true})
			continue
		case what == "cut":
			h.runCut(rapid.IntRange(0, 30).Draw(rt, "calls"), rapid.IntRange(0, 30).Draw(rt, "commits"))
			continue
		case what == "new" || len(ids) == 0:
			if len(said) < 60 {
				text := word()
				said[text] = h.create("title "+text, text)
			}
			continue
		}
		id := ids[rapid.IntRange(0, len(ids)-1).Draw(rt, "session")]
		i, err := h.s.Session(ctx, id)
		h.must(err)
		ignore := func(err error) {
			if err != nil && !errors.Is(err, tidemark.ErrTrashed) && !errors.Is(err, tidemark.ErrOnHold) && !errors.Is(err, tidemark.ErrInvalid) && !errors.Is(err, tidemark.ErrNotFound) {
				h.t.Fatalf("%s: %s: %v", h.name, what, err)
			}
		}
		switch what {
		case "say", "branch", "worker":
			w, err := h.s.Attach(ctx, id, h.holder())
			if err != nil {
				ignore(err)
				continue
			}
			text := word()
			switch what {
			case "branch":
				ignore(w.Branch(ctx, rapid.Int64Range(1, i.Entries).Draw(rt, "to")))
			case "worker":
				_, err := w.AppendTo(ctx, "helper", tidemark.Say(tidemark.Assistant, text))
				h.must(err)
			}
			if what != "worker" {
				h.append(w, text)
			}
			said[text] = id
			h.must(w.Close(ctx))
		case "fork":
			if len(ids) < 6 {
				_, err := h.s.Fork(ctx, id, 0, "fork "+word())
				ignore(err)
			}
		case "label":
			ignore(h.s.Label(ctx, id, rapid.Int64Range(1, i.Entries).Draw(rt, "entry"), rapid.SampledFrom([]string{"x", "y"}).Draw(rt, "label")))
		case "tag":
			ignore(h.s.Tag(ctx, id, []string{rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "tag")}, nil))
		case "untag":
			ignore(h.s.Tag(ctx, id, nil, []string{rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "tag")}))
		case "rename":
			ignore(h.s.Rename(ctx, id, word()))
		case "trash":
			ignore(h.s.Trash(ctx, id))
		case "restore":
			ignore(h.s.Restore(ctx, id))
		case "hold", "unhold":
			ignore(h.s.Hold(ctx, id, what == "hold"))
		case "pin":
			ignore(h.s.Pin(ctx, id, !i.Pinned))
		case "purge":
			if err := h.s.Purge(ctx, id, h.holder()); err == nil {
				purged[id] = true
			} else {
				ignore(err)
			}
		}
	}
	// A hold that another machine does not know of yet is told apart below.
	for range 4 {
		for _, h := range homes {
			h.run(Options{Push: true, Pull: true})
		}
	}
	for _, h := range homes {
		if r := h.run(Options{Push: true, Pull: true}); r.Pushed.Sessions+r.Pulled.Sessions+r.Purged+r.Faults() != 0 {
			rt.Errorf("%s does not come to rest: %+v", h.name, r)
		}
	}
	compareHomes(rt, homes, said, purged)
}

// compareHomes wants every session that nobody purged to be the same on all homes, and
// all that was said in it to be there.
func compareHomes(t *rapid.T, homes []*home, said map[string]tidemark.SessionID, purged map[tidemark.SessionID]bool) {
	ctx := context.Background()
	all := make(map[tidemark.SessionID]bool)
	for _, h := range homes {
		for _, state := range []string{store.Live, store.Trash} {
			for i, err := range h.s.Sessions(ctx, store.Filter{State: state}) {
				h.must(err)
				all[i.ID] = true
			}
		}
	}
	for id := range all {
		if purged[id] {
			for _, h := range homes {
				if i, err := h.s.Session(ctx, id); err == nil && !i.OnHold {
					t.Errorf("%s has session %s, which was purged", h.name, id)
				}
			}
			continue
		}
		for _, h := range homes {
			if _, err := h.s.Session(ctx, id); err != nil {
				t.Fatalf("%s: %v", h.name, err)
			}
			if d := cmp.Diff(homes[0].told(id), h.told(id)); d != "" {
				t.Fatalf("session %s on %s and %s:\n%s", id, homes[0].name, h.name, d)
			}
		}
		told := fmt.Sprint(homes[0].told(id))
		for text, in := range said {
			if in == id && !strings.Contains(told, text) {
				t.Errorf("session %s lost %q", id, text)
			}
		}
	}
}
