package sync

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/transfer/remote"
	"github.com/tidemark-sessions/tidemark/workshop/placetest"
)

// aroundRemote has each call of a place made by a function.
type aroundRemote struct {
	remote.Blobs
	around func(do func() error) error
}

func (a *aroundRemote) Get(ctx context.Context, name string) (data []byte, err error) {
	err = a.around(func() error { data, err = a.Blobs.Get(ctx, name); return err })
	return data, err
}

func (a *aroundRemote) PutNew(ctx context.Context, name string, data []byte) error {
	return a.around(func() error { return a.Blobs.PutNew(ctx, name, data) })
}

func (a *aroundRemote) Replace(ctx context.Context, name string, data []byte) error {
	return a.around(func() error { return a.Blobs.Replace(ctx, name, data) })
}

func (a *aroundRemote) List(ctx context.Context, prefix string) (all iter.Seq2[string, error]) {
	if err := a.around(func() error { all = a.Blobs.List(ctx, prefix); return nil }); err != nil {
		return func(yield func(string, error) bool) { yield("", err) }
	}
	return all
}

func (a *aroundRemote) Delete(ctx context.Context, name string) error {
	return a.around(func() error { return a.Blobs.Delete(ctx, name) })
}

// aroundBackend has each commit made by a function.
type aroundBackend struct {
	tidemark.Backend
	around func(do func() error) error
}

func (a *aroundBackend) Commit(ctx context.Context, b tidemark.Batch) (r tidemark.Receipt, err error) {
	err = a.around(func() error { r, err = a.Backend.Commit(ctx, b); return err })
	return r, err
}

var errCut = tidemark.Storagef("it went away")

// cutAfter lets so many calls succeed, below 0 all; as if the process ended there, or
// the place went away. The last one that is made may not be heard of.
func cutAfter(calls int, heard bool) func(func() error) error {
	if calls < 0 {
		return func(do func() error) error { return do() }
	}
	var left atomic.Int64
	left.Store(int64(calls))
	return func(do func() error) error {
		n := left.Add(-1)
		if n < 0 {
			return errCut
		}
		if err := do(); err != nil || n > 0 || heard {
			return err
		}
		return errCut
	}
}

// runCut syncs until a call of the remote or a commit of the store fails.
func (h *home) runCut(calls, commits int) {
	h.t.Helper()
	o := Options{Holder: h.holder(), Host: h.name, Push: true, Pull: true}
	o.open = func(ctx context.Context, url string) (remote.Blobs, error) {
		b, err := remote.Open(ctx, url, h.places)
		return &aroundRemote{b, cutAfter(calls, calls%2 == 0)}, err
	}
	s := h.over(&aroundBackend{h.b, cutAfter(commits, true)})
	_, err := Run(context.Background(), s, "r", o)
	if err != nil && !errors.Is(err, tidemark.ErrStorage) {
		h.t.Errorf("%s: cut after %d calls and %d commits: %v", h.name, calls, commits, err)
	}
	// The lease of a process that was killed is free at once.
	k := h.s.Records()
	h.must(k.Release(context.Background(), machineKey, true))
	for _, i := range h.sessions() {
		h.must(h.s.Release(context.Background(), i.ID, true))
	}
}

// sessions returns those that are live or in the trash, by id.
func (h *home) sessions() (all []store.Info) {
	h.t.Helper()
	for _, state := range []string{store.Live, store.Trash} {
		for i, err := range h.s.Sessions(context.Background(), store.Filter{State: state}) {
			h.must(err)
			all = append(all, i)
		}
	}
	slices.SortFunc(all, func(a, b store.Info) int { return compareIDs(a.ID, b.ID) })
	return all
}

// TestRandomHistoriesConverge has three homes do what people do, in any order, with
// syncs that end anywhere, and compares them when all have met.
func TestRandomHistoriesConverge(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		draw := func(what string, n int) int { return rapid.IntRange(0, n-1).Draw(rt, what) }
		(&history{t: t, failed: rt, draw: draw, steps: 5 + draw("steps", 36), url: "file:" + t.TempDir()}).converge()
	})
}

// history is what three homes do that meet at an empty remote.
type history struct {
	t      *testing.T
	failed interface { // what is told that the homes differ
		Errorf(string, ...any)
		Fatalf(string, ...any)
	}
	draw   func(what string, n int) int // a number below n
	steps  int
	url    string
	places *remote.Options
	token  string            // for a server
	onDisk bool              // the homes, so that processes of their own can sync them
	cutter *placetest.Cutter // stands before the place; nil: nothing does

	homes   []*home
	backups map[*home]*backup
	said    map[string]*fact             // what was acknowledged
	purged  map[tidemark.SessionID]*fact // what was purged, and stays so
	parted  map[tidemark.SessionID]bool  // what was purged by a home that was restored since: either counts
	pushed  map[tidemark.SessionID]bool  // sessions that are at the remote
	copies  map[*home]bool               // homes that were restored and have not met the remote since
	shown   map[string][]byte            // what heads and keyrings once were
	done    map[string]int               // how often each thing was done; nil: nobody asks
	n       int
	trace   []string // what was done
}

// fact is something that a home did.
type fact struct {
	session tidemark.SessionID
	by      *home
	n       int
	safe    bool // it was pushed
}

// backup is a copy of a home, and what the home had done when it was made.
type backup struct {
	b tidemark.Backend
	n int
}

func (g *history) pick(what string, from ...string) string { return from[g.draw(what, len(from))] }

func (g *history) word() string { g.n++; return fmt.Sprintf("text %05d", g.n) }

func (g *history) say(h *home, text string, id tidemark.SessionID) {
	g.said[text] = &fact{session: id, by: h, n: g.n}
}

func (g *history) converge() {
	g.backups, g.said, g.purged = make(map[*home]*backup), make(map[string]*fact), make(map[tidemark.SessionID]*fact)
	g.pushed = make(map[tidemark.SessionID]bool)
	g.parted, g.copies, g.shown = make(map[tidemark.SessionID]bool), make(map[*home]bool), make(map[string][]byte)
	var before *home
	for _, name := range []string{"ada", "bob", "eve"} {
		h := newHome(g.t, name)
		h.moveToNewStore(g.onDisk)
		h.places = g.places
		h.joinAt(g.url, before)
		g.homes, before = append(g.homes, h), h
	}
	for range g.steps {
		g.step(g.homes[g.draw("home", len(g.homes))])
	}
	g.rest()
	g.compare()
}

// rest has the homes meet until nothing is new to anybody, which is soon.
func (g *history) rest() {
	for range 6 {
		news := 0
		for _, h := range g.homes {
			r := h.run(Options{Push: true, Pull: true})
			news += r.Pushed.Sessions + r.Pulled.Sessions + r.Purged + r.Faults()
		}
		if news == 0 {
			return
		}
	}
	for _, h := range g.homes {
		if r := h.run(Options{Push: true, Pull: true}); r.Pushed.Sessions+r.Pulled.Sessions+r.Purged+r.Faults() != 0 {
			g.failed.Errorf("%s does not come to rest: %+v", h.name, r)
		}
	}
}

// step has a home do one thing.
func (g *history) step(h *home) {
	all := []string{"new", "say", "say", "say", "branch", "fork", "label", "tag", "untag", "rename", "trash", "restore", "hold", "unhold", "pin", "purge", "worker", "sync", "sync"}
	if g.draw("trouble", 3) == 0 {
		if all = []string{"cut", "clock", "from backup", "lie"}; g.onDisk {
			all = append(all, "kill")
		}
		if g.cutter != nil {
			all = append(all, "break")
		}
	}
	what := g.pick("what", all...)
	g.trace = append(g.trace, h.name+" "+what)
	if g.done != nil {
		g.done[what]++
	}
	switch what {
	case "sync":
		g.sync(h)
	case "cut":
		h.runCut(g.draw("calls", 21), g.draw("commits", 21))
	case "kill":
		calls, commits := 1+g.draw("calls", 14), -1
		if g.draw("at a commit", 2) == 1 {
			calls, commits = -1, calls
		}
		if h.runKilled(killing{Calls: calls, Commits: commits, Token: g.token, Moment: g.pick("moment", "before", "during", "after")}) {
			g.done["killed"]++
		}
	case "break":
		g.cutter.After(int64(g.draw("bytes", 40_000)), int64(g.draw("refused", 4)))
		_, err := Run(context.Background(), h.s, "r", Options{Holder: h.holder(), Host: h.name, Places: h.places, Push: true, Pull: true})
		if g.cutter.Heal(); err != nil && !errors.Is(err, tidemark.ErrStorage) {
			g.t.Errorf("%s, with a connection that was cut: %v", h.name, err)
		}
	case "clock":
		h.ahead.Store(int64(time.Duration(g.draw("hours", 19)-9) * time.Hour))
	case "from backup":
		if g.backups[h] == nil || g.draw("another", 2) == 0 {
			g.backup(h)
		} else {
			g.restore(h)
		}
	case "lie":
		g.lie(h)
	default:
		g.work(h, what)
	}
}

// sync has a home push and pull, and notes what is safe from then on.
func (g *history) sync(h *home) {
	if r := h.run(Options{Push: true, Pull: true}); len(r.Problems) > 0 {
		return
	}
	delete(g.copies, h)
	for _, i := range h.sessions() {
		g.pushed[i.ID] = true
	}
	for _, f := range g.said {
		f.safe = f.safe || f.by == h
	}
	for id, f := range g.purged { // nobody is told of what nobody had
		f.safe = f.safe || f.by == h && g.pushed[id]
	}
}

func (g *history) backup(h *home) {
	b := &backup{memory.New(), g.n}
	h.copyTo(b.b)
	g.backups[h] = b
}

// restore puts a home back to its backup. What it did since is gone, unless it had
// pushed it.
func (g *history) restore(h *home) {
	b := g.backups[h]
	from := &home{t: h.t, name: h.name, b: b.b}
	h.moveToNewStore(g.onDisk)
	from.copyTo(h.b)
	g.copies[h] = true
	maps.DeleteFunc(g.said, func(_ string, f *fact) bool { return f.by == h && f.n > b.n && !f.safe })
	for id, f := range g.purged {
		if f.by == h && f.n > b.n && !f.safe {
			delete(g.purged, id)
			g.parted[id] = true
		}
	}
}

// lie changes one blob of the place while a home syncs, and then puts back what the
// home has not written again. Nothing is promised about that sync, but that it does no
// harm.
func (g *history) lie(h *home) {
	ctx := context.Background()
	p, err := remote.Open(ctx, g.url, g.places)
	h.must(err)
	defer p.Close()
	me, err := h.remotes().machine(ctx)
	h.must(err)
	var names []string
	for name, err := range p.List(ctx, "") {
		h.must(err)
		// A store from a backup knows by its own head that it is one. It cannot know
		// while the place hides that.
		if !strings.HasPrefix(name, "machines/") && (!g.copies[h] || name != headName(me.ID)) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	name := g.pick("blob", names...)
	data, err := p.Get(ctx, name)
	h.must(err)
	older := g.shown[name]
	if g.shown[name] == nil || g.draw("remember", 2) == 1 {
		g.shown[name] = data
	}
	var lie []byte
	how := g.pick("lie", "old", "missing", "swapped", "truncated", "changed", "foreign")
	switch how {
	case "old":
		lie = older
	case "swapped":
		lie, err = p.Get(ctx, g.pick("other", names...))
		h.must(err)
	case "truncated":
		lie = data[:len(data)/2]
	case "changed":
		lie = slices.Clone(data)
		lie[len(lie)/2] ^= 1
	case "foreign":
		lie = foreign()[shape(name)]
	}
	if lie == nil {
		err = p.Delete(ctx, name)
	} else {
		err = p.Replace(ctx, name, lie)
	}
	h.must(err)
	g.trace = append(g.trace, fmt.Sprintf("(%s about %.10s)", how, name))
	// Whatever is wrong with the place is named, and is no fault of the store.
	_, err = Run(ctx, h.s, "r", Options{Holder: h.holder(), Host: h.name, Places: h.places, Push: true, Pull: true})
	if errors.Is(err, tidemark.ErrConflict) || errors.Is(err, tidemark.ErrHeld) || errors.Is(err, tidemark.ErrInvalid) {
		g.t.Errorf("%s, with a lie about %s: %v", h.name, name, err)
	}
	now, err := p.Get(ctx, name)
	if isAbsent(err) {
		now, err = nil, nil
	}
	if h.must(err); bytes.Equal(now, lie) && (now == nil) == (lie == nil) {
		h.must(p.Replace(ctx, name, data))
	}
}

// shape is what a blob of a name is.
func shape(name string) string {
	switch parts := strings.Split(name, "/"); {
	case parts[0] == "ring":
		return "ring"
	case parts[len(parts)-1] == "head":
		return "head"
	}
	return "blob"
}

// foreign returns blobs of somebody else's remote, by their shape.
var foreign = sync.OnceValue(func() map[string][]byte {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	ctx, s := context.Background(), store.New(memory.New(), nil)
	_, err = s.Create(tidemark.Session{Title: "of somebody else"}, store.Self("test")).Append(ctx, tidemark.Say(tidemark.User, "not for you"))
	if err == nil {
		err = Of(s.Records(), "mallory", nil).Add(ctx, "r", "file:"+dir, "")
	}
	if err == nil {
		_, err = Run(ctx, s, "r", Options{Holder: store.Self("test"), Host: "mallory", Push: true})
	}
	p, err2 := remote.Open(ctx, "file:"+dir, nil)
	if err = errors.Join(err, err2); err != nil {
		panic(err)
	}
	defer p.Close()
	all := make(map[string][]byte)
	for name, err := range p.List(ctx, "") {
		if err == nil {
			all[shape(name)], err = p.Get(ctx, name)
		}
		if err != nil {
			panic(err)
		}
	}
	return all
})

// work has a home do something with one of its sessions.
func (g *history) work(h *home, what string) {
	ctx := context.Background()
	all := h.sessions()
	if what == "new" || len(all) == 0 {
		if len(g.said) < 60 {
			text := g.word()
			g.say(h, text, h.create("title "+text, text))
		}
		return
	}
	i := all[g.draw("session", len(all))]
	id := i.ID
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
			return
		}
		text := g.word()
		switch what {
		case "branch":
			ignore(w.Branch(ctx, 1+int64(g.draw("to", int(i.Entries)))))
		case "worker":
			_, err := w.AppendTo(ctx, "helper", tidemark.Say(tidemark.Assistant, text))
			h.must(err)
		}
		if what != "worker" {
			h.append(w, text)
		}
		g.say(h, text, id)
		h.must(w.Close(ctx))
	case "fork":
		if len(all) < 6 {
			_, err := h.s.Fork(ctx, id, 0, "fork "+g.word())
			ignore(err)
		}
	case "label":
		ignore(h.s.Label(ctx, id, 1+int64(g.draw("entry", int(i.Entries))), g.pick("label", "x", "y")))
	case "tag":
		ignore(h.s.Tag(ctx, id, []string{g.pick("tag", "a", "b")}, nil))
	case "untag":
		ignore(h.s.Tag(ctx, id, nil, []string{g.pick("tag", "a", "b")}))
	case "rename":
		ignore(h.s.Rename(ctx, id, g.word()))
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
			g.n++
			g.purged[id] = &fact{session: id, by: h, n: g.n}
		} else {
			ignore(err)
		}
	}
}

// compare wants every session that nobody purged to be the same on all homes, and all
// that was said in it to be there.
func (g *history) compare() {
	ctx := context.Background()
	all := make(map[tidemark.SessionID]bool)
	for _, h := range g.homes {
		for _, i := range h.sessions() {
			all[i.ID] = true
		}
	}
	for text, f := range g.said {
		if !all[f.session] && g.purged[f.session] == nil && !g.parted[f.session] {
			g.failed.Errorf("session %s, in which %s said %q, is nowhere", f.session, f.by.name, text)
		}
	}
	for id := range all {
		missing := slices.ContainsFunc(g.homes, func(h *home) bool { _, err := h.s.Session(ctx, id); return isAbsent(err) })
		if g.purged[id] != nil || g.parted[id] && missing {
			for _, h := range g.homes {
				if i, err := h.s.Session(ctx, id); err == nil && !i.OnHold {
					g.failed.Errorf("%s has session %s, which was purged", h.name, id)
				}
			}
			continue
		}
		for _, h := range g.homes {
			if _, err := h.s.Session(ctx, id); err != nil {
				g.failed.Fatalf("%s: %v", h.name, err)
			}
			if d := cmp.Diff(g.homes[0].told(id), h.told(id)); d != "" {
				g.failed.Fatalf("session %s on %s and %s:\n%s", id, g.homes[0].name, h.name, d)
			}
		}
		told := fmt.Sprint(g.homes[0].told(id))
		for text, f := range g.said {
			if f.session == id && !strings.Contains(told, text) {
				g.failed.Errorf("session %s lost %q", id, text)
			}
		}
	}
}
