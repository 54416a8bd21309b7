package sync

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/transfer/remote"
)

// home is the store of one machine.
type home struct {
	t    testing.TB
	name string
	b    tidemark.Backend
	s    *store.Store

	places *remote.Options // what its remote needs
	file   string          // of its store; "": in memory
	ahead  atomic.Int64    // by how much its clock is wrong, in nanoseconds
}

func newHome(t testing.TB, name string) *home {
	h := &home{t: t, name: name, b: memory.New()}
	h.s = h.over(h.b)
	return h
}

// over returns the store of the home over a backend.
func (h *home) over(b tidemark.Backend) *store.Store {
	return store.New(b, &store.Options{Now: func() time.Time { return time.Now().Add(time.Duration(h.ahead.Load())) }})
}

func (h *home) holder() tidemark.Holder { return store.Self("test") }

func (h *home) remotes() *Remotes { return Of(h.s.Records(), h.name, h.places) }

func (h *home) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatalf("%s: %v", h.name, err)
	}
}

// join adds a remote, with a code of another home if there is one.
func (h *home) join(dir string, other *home) {
	h.t.Helper()
	h.joinAt("file:"+dir, other)
}

func (h *home) joinAt(url string, other *home) {
	h.t.Helper()
	code := ""
	if other != nil {
		var err error
		code, err = other.remotes().Pair(h.t.Context(), "r", time.Now().Add(time.Hour))
		h.must(err)
	}
	h.must(h.remotes().Add(h.t.Context(), "r", url, code))
}

func (h *home) run(o Options) Report {
	h.t.Helper()
	o.Holder, o.Host, o.Places = h.holder(), h.name, h.places
	r, err := Run(context.Background(), h.s, "r", o)
	h.must(err)
	return r
}

// sync pulls and pushes, and wants no problems.
func (h *home) sync() Report {
	h.t.Helper()
	r := h.run(Options{Push: true, Pull: true})
	for _, p := range r.Problems {
		h.t.Errorf("%s: %s", h.name, p)
	}
	return r
}

func (h *home) create(title string, texts ...string) tidemark.SessionID {
	h.t.Helper()
	w := h.s.Create(tidemark.Session{Title: title}, h.holder())
	h.append(w, texts...)
	h.must(w.Close(context.Background()))
	return w.ID()
}

func (h *home) append(w *store.Writer, texts ...string) {
	h.t.Helper()
	for _, text := range texts {
		_, err := w.Append(context.Background(), tidemark.Say(tidemark.User, text))
		h.must(err)
	}
}

func (h *home) add(id tidemark.SessionID, texts ...string) {
	h.t.Helper()
	w, err := h.s.Attach(context.Background(), id, h.holder())
	h.must(err)
	h.append(w, texts...)
	h.must(w.Close(context.Background()))
}

// path returns what is said on the way to the head.
func (h *home) path(id tidemark.SessionID) (texts []string) {
	h.t.Helper()
	v, err := h.s.View(context.Background(), id)
	h.must(err)
	head, err := v.Head(context.Background())
	h.must(err)
	for e, err := range v.Path(context.Background(), head) {
		h.must(err)
		if e.Kind == tidemark.KindMessage {
			texts = append(texts, e.Text())
		}
	}
	return texts
}

// counting counts the records that are asked for one by one.
type counting struct {
	*memory.Backend
	gets atomic.Int64
}

func (c *counting) Get(ctx context.Context, key tidemark.Key) (tidemark.Record, error) {
	c.gets.Add(1)
	return c.Backend.Get(ctx, key)
}

func TestUnchangedSessionsAreNotReadOneByOne(t *testing.T) {
	a := newHome(t, "a")
	c := &counting{Backend: memory.New()}
	a.s = a.over(c)
	a.join(t.TempDir(), nil)
	gets := func() int64 {
		a.sync()
		before := c.gets.Load()
		if r := a.sync(); r.Pushed.Sessions != 0 {
			t.Errorf("%d sessions were pushed again", r.Pushed.Sessions)
		}
		return c.gets.Load() - before
	}
	noted := a.create("noted", "a line")
	a.must(a.s.Label(t.Context(), noted, 1, "here"))
	few := gets()
	for range 40 {
		a.create("more", "a line")
	}
	if many := gets(); many != few {
		t.Errorf("a sync with 41 unchanged sessions asks for %d records, with one %d", many, few)
	}
}

// told is a session as every machine has to have it: its entries by name, each with
// what it follows, and what is said about it.
func (h *home) told(id tidemark.SessionID) map[string]string {
	h.t.Helper()
	ctx := context.Background()
	y := &syncer{s: h.s, k: h.s.Records()}
	i, err := h.s.Session(ctx, id)
	h.must(err)
	o, err := loadOrigins(ctx, y.k, id, "")
	h.must(err)
	v, err := h.s.ViewOf(i)
	h.must(err)
	out := make(map[string]string)
	called := make(map[int64]string)
	name := func(seq int64) string {
		if seq == 0 {
			return "root"
		}
		if to, is := o.Markers[seq-offsetOf(i.Base)]; is {
			seq = to
		}
		if n := called[seq]; n != "" {
			return n
		}
		n, err := y.nameOf(ctx, id, seq)
		if isAbsent(err) && seq <= offsetOf(i.Base) {
			return "root"
		}
		h.must(err)
		return fmt.Sprintf("%s:%d:%d", n.Machine, n.Line, n.Past)
	}
	for e, err := range v.LogRange(ctx, offsetOf(i.Base)+1, 0) {
		h.must(err)
		if e.Key != "" {
			called[e.Seq] = e.Key
		}
		if _, is := o.Markers[e.Seq-offsetOf(i.Base)]; is {
			continue
		}
		out[name(e.Seq)] = fmt.Sprintf("%s %s %q after %s at %s", e.Kind, e.Role, e.Text(), name(e.Parent), e.At)
	}
	past, n := v.Path(ctx, offsetOf(i.Base)), 0
	if i.Base == nil {
		past = func(func(tidemark.Entry, error) bool) {}
	}
	for e, err := range past {
		h.must(err)
		n++
		out[fmt.Sprintf("past %d", n)] = fmt.Sprintf("%s %s %q at %s", e.Kind, e.Role, e.Text(), e.At)
	}
	workers, err := v.Workers(ctx)
	h.must(err)
	for _, worker := range workers {
		wv, err := v.Worker(ctx, worker)
		h.must(err)
		var texts []string
		for e, err := range wv.Log(ctx) {
			h.must(err)
			texts = append(texts, e.Text())
		}
		slices.Sort(texts)
		out["worker "+worker] = strings.Join(texts, "|")
	}
	said, err := y.said(ctx, i, o)
	h.must(err)
	for key, value := range said {
		if text, is := strings.CutPrefix(key, regLabel); is {
			var n Name
			h.must(json.Unmarshal(value, &n))
			seq, err := y.seqOf(ctx, n)
			h.must(err)
			value = []byte(name(seq))
			key = "label " + text
		}
		out["said "+key] = string(value)
	}
	return out
}

func same2(t testing.TB, id tidemark.SessionID, homes ...*home) {
	t.Helper()
	for _, h := range homes[1:] {
		if d := cmp.Diff(homes[0].told(id), h.told(id)); d != "" {
			t.Errorf("session %s on %s and %s:\n%s", id, homes[0].name, h.name, d)
		}
	}
}

func TestASessionGoesOnOnAnotherMachine(t *testing.T) {
	dir := t.TempDir()
	a, b := newHome(t, "laptop"), newHome(t, "desktop")
	a.join(dir, nil)
	id := a.create("plan", "one", "two")
	a.sync()
	b.join(dir, a)
	if r := b.sync(); r.Pulled.Sessions != 1 || r.Pulled.Entries != 2 {
		t.Errorf("pulled %+v", r.Pulled)
	}
	b.add(id, "three")
	b.sync()
	if r := a.sync(); r.Pulled.Entries != 1 {
		t.Errorf("pulled %+v", r.Pulled)
	}
	if d := cmp.Diff([]string{"one", "two", "three"}, a.path(id)); d != "" {
		t.Error(d)
	}
	same2(t, id, a, b)
	for _, h := range []*home{a, b, a} {
		if r := h.sync(); r.Pushed.Sessions+r.Pulled.Sessions != 0 || r.Pushed.Bytes != 0 {
			t.Errorf("%s: nothing is new, and %+v", h.name, r)
		}
	}
}

func TestMachinesThatBothWentOnBecomeBranches(t *testing.T) {
	dir := t.TempDir()
	a, b := newHome(t, "laptop"), newHome(t, "desktop")
	a.join(dir, nil)
	b.join(dir, a)
	id := a.create("plan", "one")
	a.sync()
	b.sync()
	a.add(id, "by a")
	b.add(id, "by b")
	a.sync()
	b.sync()
	a.sync()
	same2(t, id, a, b)
	for h, want := range map[*home][]string{a: {"one", "by a"}, b: {"one", "by b"}} {
		if d := cmp.Diff(want, h.path(id)); d != "" {
			t.Errorf("%s is somewhere else:\n%s", h.name, d)
		}
	}
	p, err := a.s.Resolve(t.Context(), string(id)+"@desktop", "")
	if err != nil {
		t.Fatal(err)
	}
	v, _ := a.s.View(t.Context(), id)
	for e, err := range v.Path(t.Context(), p.Seq) {
		if err != nil || e.Seq == p.Seq && e.Text() != "by b" {
			t.Errorf("the branch of desktop ends with %q, %v", e.Text(), err)
		}
	}
	a.add(id, "more by a")
	for range 2 {
		a.sync()
		b.sync()
	}
	same2(t, id, a, b)
	if r := a.sync(); r.Pulled.Sessions+r.Pushed.Sessions != 0 {
		t.Errorf("it does not come to rest: %+v", r)
	}
}

func TestWhatIsSaidAboutASessionIsMergedByVersions(t *testing.T) {
	dir := t.TempDir()
	a, b, c := newHome(t, "a"), newHome(t, "b"), newHome(t, "c")
	a.join(dir, nil)
	b.join(dir, a)
	c.join(dir, a)
	id := a.create("plan", "one", "two")
	all := func() {
		for range 3 {
			for _, h := range []*home{a, b, c} {
				h.sync()
			}
		}
		same2(t, id, a, b, c)
	}
	all()
	a.must(a.s.Rename(t.Context(), id, "by a"))
	a.must(a.s.Tag(t.Context(), id, []string{"x"}, nil))
	b.must(b.s.Tag(t.Context(), id, []string{"y"}, nil))
	b.must(b.s.Label(t.Context(), id, 2, "here"))
	c.must(c.s.Pin(t.Context(), id, true))
	all()
	i, err := c.s.Session(t.Context(), id)
	if slices.Sort(i.Tags); err != nil || i.Title != "by a" || !slices.Equal(i.Tags, []string{"x", "y"}) || !i.Pinned {
		t.Errorf("%+v, %v", i, err)
	}
	b.must(b.s.Tag(t.Context(), id, nil, []string{"x"}))
	c.must(c.s.Hold(t.Context(), id, true))
	a.must(a.s.Trash(t.Context(), id))
	all()
	if i, _ := a.s.Session(t.Context(), id); i.State != store.Live || !i.OnHold {
		t.Errorf("a hold does not beat the trash: %s", i.State)
	}
	b.must(b.s.Hold(t.Context(), id, false))
	all()
	if i, _ := c.s.Session(t.Context(), id); i.State != store.Trash {
		t.Errorf("without a hold it is in the trash: %s", i.State)
	}
}

// A machine that says something about a session of another keeps none of its lines. Who
// meets it before the other one has to read that again.
func TestWhatIsSaidAboutASessionThatDidNotComeYetIsNotForgotten(t *testing.T) {
	dir := t.TempDir()
	a, b, c := newHome(t, "a"), newHome(t, "b"), newHome(t, "c")
	a.join(dir, nil)
	b.join(dir, a)
	c.join(dir, b)
	id := a.create("title", "one")
	a.sync()
	b.sync()
	b.must(b.s.Label(t.Context(), id, 1, "best"))
	b.sync()
	me, err := a.remotes().machine(t.Context())
	a.must(err)
	head := filepath.Join(dir, filepath.FromSlash(headName(me.ID)))
	data, err := os.ReadFile(head)
	a.must(err)
	a.must(os.Remove(head))
	c.run(Options{Push: true, Pull: true})
	if len(c.sessions()) > 0 {
		t.Fatal("the session came although its lines were not there")
	}
	a.must(os.WriteFile(head, data, 0o600))
	c.sync()
	if d := cmp.Diff(b.told(id), c.told(id)); d != "" {
		t.Error(d)
	}
}

func TestAPurgeReachesEveryMachineAndStays(t *testing.T) {
	dir := t.TempDir()
	a, b, c := newHome(t, "a"), newHome(t, "b"), newHome(t, "c")
	a.join(dir, nil)
	b.join(dir, a)
	c.join(dir, a)
	id := a.create("plan", "secret canary")
	other := a.create("other", "stays")
	for _, h := range []*home{a, b, c} {
		h.sync()
	}
	c.add(id, "never seen by b")
	b.must(b.s.Purge(t.Context(), id, b.holder()))
	for range 2 {
		for _, h := range []*home{b, c, a} {
			h.sync()
		}
	}
	for _, h := range []*home{a, b, c} {
		if _, err := h.s.Session(t.Context(), id); !errors.Is(err, tidemark.ErrNotFound) {
			t.Errorf("%s still has it: %v", h.name, err)
		}
	}
	same2(t, other, a, b, c)
	d := newHome(t, "d")
	d.join(dir, b)
	d.sync()
	if _, err := d.s.Session(t.Context(), id); !errors.Is(err, tidemark.ErrNotFound) {
		t.Errorf("a new machine gets it: %v", err)
	}
}

// TestAPurgeAfterARunThatWasCutReachesEveryMachine cuts a run anywhere, on the machine
// that has the session and on one that is given it, and purges the session there.
func TestAPurgeAfterARunThatWasCutReachesEveryMachine(t *testing.T) {
	t.Parallel()
	for calls := 18; calls < 30; calls++ { // each number for both
		for _, commits := range []int{-1, 4, 7} {
			dir := t.TempDir()
			ada, bob := newHome(t, "ada"), newHome(t, "bob")
			ada.join(dir, nil)
			bob.join(dir, ada)
			where := bob
			id := ada.create("tides", "one")
			if calls%2 == 0 {
				where = ada
			} else {
				ada.sync()
				bob.create("other", "two")
			}
			where.runCut(calls/2, commits)
			if err := where.s.Purge(t.Context(), id, where.holder()); isAbsent(err) {
				continue // it did not come so far
			} else if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				ada.run(Options{Push: true, Pull: true})
				bob.run(Options{Push: true, Pull: true})
			}
			for _, h := range []*home{ada, bob} {
				if _, err := h.s.Session(t.Context(), id); !isAbsent(err) {
					t.Errorf("%s, cut after %d calls and %d commits: %s has it: %v", where.name, calls/2, commits, h.name, err)
				}
			}
		}
	}
}

func TestAHoldBeatsAPurge(t *testing.T) {
	dir := t.TempDir()
	a, b := newHome(t, "a"), newHome(t, "b")
	a.join(dir, nil)
	b.join(dir, a)
	id := a.create("plan", "one")
	a.sync()
	b.sync()
	b.must(b.s.Hold(t.Context(), id, true))
	a.must(a.s.Purge(t.Context(), id, a.holder()))
	a.sync()
	if r := b.run(Options{Push: true, Pull: true}); len(r.Problems) != 1 || !r.Problems[0].Waits {
		t.Errorf("problems %v", r.Problems)
	}
	if _, err := b.s.Session(t.Context(), id); err != nil {
		t.Errorf("it is gone: %v", err)
	}
	b.must(b.s.Hold(t.Context(), id, false))
	b.sync()
	if _, err := b.s.Session(t.Context(), id); !errors.Is(err, tidemark.ErrNotFound) {
		t.Errorf("without the hold it is there: %v", err)
	}
}

func TestForksAndWorkersTravel(t *testing.T) {
	dir := t.TempDir()
	a, b := newHome(t, "a"), newHome(t, "b")
	a.join(dir, nil)
	b.join(dir, a)
	id := a.create("plan", "one", "two", "three")
	fork, err := a.s.Fork(t.Context(), id, 2, "other way")
	a.must(err)
	a.add(fork.ID, "instead of three")
	w, err := a.s.Attach(t.Context(), id, a.holder())
	a.must(err)
	_, err = w.AppendTo(t.Context(), "helper", tidemark.Say(tidemark.Assistant, "found it"))
	a.must(err)
	a.must(w.Close(t.Context()))
	dry(t, a, Options{Push: true})
	dry(t, b, Options{Pull: true})
	same2(t, id, a, b)
	same2(t, fork.ID, a, b)
	if d := cmp.Diff([]string{"one", "two", "instead of three"}, b.path(fork.ID)); d != "" {
		t.Error(d)
	}
	b.add(fork.ID, "and more")
	dry(t, b, Options{Push: true})
	dry(t, a, Options{Pull: true})
	same2(t, fork.ID, a, b)
	i, err := b.s.Session(t.Context(), fork.ID)
	if err != nil || i.Base == nil || i.Base.Session != id {
		t.Errorf("it is no fork there: %+v, %v", i.Base, err)
	}
}

// dry does what a dry run said would be done.
func dry(t *testing.T, h *home, o Options) {
	t.Helper()
	o.DryRun = true
	would := h.run(o)
	o.DryRun = false
	did := h.run(o)
	for _, c := range [][2]Count{{would.Pulled, did.Pulled}, {would.Pushed, did.Pushed}} {
		if c[0].Sessions != c[1].Sessions || c[0].Entries != c[1].Entries {
			t.Errorf("%s: %+v was said, %+v done", h.name, c[0], c[1])
		}
	}
	if did.Pulled.Entries+did.Pushed.Entries == 0 {
		t.Errorf("%s: nothing was done", h.name)
	}
}

// TestForksOfAPurgedSessionTravel has forks, and forks of them, whose source was purged
// before anybody else had it, with a branch and a label in what they share.
func TestForksOfAPurgedSessionTravel(t *testing.T) {
	for _, pushed := range []bool{false, true} {
		dir := t.TempDir()
		ada, bob := newHome(t, "ada"), newHome(t, "bob")
		ada.join(dir, nil)
		bob.join(dir, ada)
		ctx := t.Context()
		id := ada.create("tides", "one", "two", "three")
		fork, err := ada.s.Fork(ctx, id, 3, "first")
		ada.must(err)
		ada.add(fork.ID, "four")
		if pushed {
			ada.sync()
		}
		ada.must(ada.s.Purge(ctx, id, ada.holder()))
		second, err := ada.s.Fork(ctx, fork.ID, 2, "second")
		ada.must(err)
		ada.must(ada.s.Label(ctx, fork.ID, 1, "start"))
		w, err := ada.s.Attach(ctx, fork.ID, ada.holder())
		ada.must(err)
		ada.must(w.Branch(ctx, 1))
		ada.append(w, "five")
		ada.must(w.Close(ctx))
		for range 2 {
			ada.sync()
			bob.sync()
		}
		same2(t, fork.ID, ada, bob)
		same2(t, second.ID, ada, bob)
		for id, want := range map[tidemark.SessionID][]string{fork.ID: {"one", "five"}, second.ID: {"one", "two"}} {
			if got := bob.path(id); !slices.Equal(got, want) {
				t.Errorf("pushed before %v: bob reads %q, not %q", pushed, got, want)
			}
		}
		bob.add(second.ID, "six")
		bob.sync()
		ada.sync()
		same2(t, second.ID, ada, bob)
	}
}

func TestASessionThatTwoMachinesImportedIsOne(t *testing.T) {
	dir := t.TempDir()
	a, b := newHome(t, "a"), newHome(t, "b")
	a.join(dir, nil)
	b.join(dir, a)
	id := tidemark.NewSessionID()
	for n, h := range []*home{a, b} {
		w := h.s.Create(tidemark.Session{ID: id, Title: "from a tool", Tool: "claude-code", ForeignID: "f1"}, h.holder())
		for _, key := range []string{"k1", "k2", "k3"}[:2+n] {
			e := tidemark.Say(tidemark.User, "text of "+key)
			e.Key, e.At = key, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
			_, err := w.Append(t.Context(), e)
			h.must(err)
		}
		h.must(w.Close(t.Context()))
		h.must(h.s.Label(t.Context(), id, 1, "start"))
	}
	for range 3 {
		a.sync()
		b.sync()
	}
	same2(t, id, a, b)
	if d := cmp.Diff([]string{"text of k1", "text of k2", "text of k3"}, a.path(id)); d != "" {
		t.Error(d)
	}
	if r := a.sync(); r.Pulled.Sessions+r.Pushed.Sessions != 0 {
		t.Errorf("it does not come to rest: %+v", r)
	}
}

// Programs that append count from 1, on each machine.
func TestOneKeyOfTwoEntriesLosesNeither(t *testing.T) {
	dir := t.TempDir()
	a, b := newHome(t, "a"), newHome(t, "b")
	a.join(dir, nil)
	b.join(dir, a)
	id := a.create("plan", "one")
	a.sync()
	b.sync()
	for _, h := range []*home{a, b} {
		w, err := h.s.Attach(t.Context(), id, h.holder())
		h.must(err)
		e := tidemark.Say(tidemark.User, "by "+h.name)
		e.Key = "1"
		_, err = w.Append(t.Context(), e)
		h.must(err)
		h.must(w.Close(t.Context()))
	}
	for range 2 {
		a.sync()
		b.sync()
	}
	for _, h := range []*home{a, b} {
		if told := fmt.Sprint(h.told(id)); !strings.Contains(told, "by a") || !strings.Contains(told, "by b") {
			t.Errorf("%s lost one: %s", h.name, told)
		}
	}
}

// blobsOf reads every file of a remote.
func blobsOf(t *testing.T, dir string) (all []byte) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		all = append(append(all, path...), data...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestARemoteReadsNothing(t *testing.T) {
	dir := t.TempDir()
	a, b := newHome(t, "a-canary-host"), newHome(t, "b")
	a.join(dir, nil)
	b.join(dir, a)
	id := a.create("canary-title", "canary-text")
	a.must(a.s.Tag(t.Context(), id, []string{"canary-tag"}, nil))
	a.must(a.s.Label(t.Context(), id, 1, "canary-label"))
	private := a.create("canary-private", "canary-private")
	a.must(a.s.Tag(t.Context(), private, []string{Private}, nil))
	a.sync()
	b.sync()
	all := blobsOf(t, dir)
	if bytes.Contains(all, []byte("canary")) || bytes.Contains(all, []byte(id)) {
		t.Error("the remote holds plain text")
	}
	if _, err := b.s.Session(t.Context(), private); !errors.Is(err, tidemark.ErrNotFound) {
		t.Errorf("what is private left the machine: %v", err)
	}
}

func TestAStoreFromABackupTakesAnotherID(t *testing.T) {
	dir := t.TempDir()
	a, b := newHome(t, "a"), newHome(t, "b")
	a.join(dir, nil)
	b.join(dir, a)
	id := a.create("plan", "one")
	a.sync()
	backup := copyOf(t, a)
	a.add(id, "two")
	a.sync()
	b.sync()
	backup.add(id, "other two")
	if r := backup.run(Options{Push: true, Pull: true}); r.Renamed == "" {
		t.Error("it goes on under the id of the other")
	}
	for range 2 {
		for _, h := range []*home{b, a, backup} {
			h.sync()
		}
	}
	same2(t, id, a, b, backup)
	texts := fmt.Sprint(a.told(id))
	if strings.Count(texts, `"one"`) != 1 || strings.Count(texts, `"two"`) != 1 || strings.Count(texts, `"other two"`) != 1 {
		t.Errorf("not each entry once: %s", texts)
	}
}

// copyOf returns a home with all that another one has.
func copyOf(t *testing.T, h *home) *home {
	t.Helper()
	to := newHome(t, h.name+" restored")
	h.copyTo(to.b)
	return to
}

// copyTo brings all that a home has into an empty store.
func (h *home) copyTo(to tidemark.Backend) {
	h.t.Helper()
	ctx := context.Background()
	b := tidemark.Batch{ID: tidemark.NewBatchID(), At: time.Now().UTC().Truncate(time.Microsecond), Adopt: true}
	for k, err := range h.b.Walk(ctx, tidemark.Key{}) {
		h.must(err)
		r, err := h.b.Get(ctx, k)
		h.must(err)
		if r.Version > 0 {
			r.Head = tidemark.Head{}
			b.Puts = append(b.Puts, r)
		}
		var lines []tidemark.Line
		for l, err := range h.b.Lines(ctx, k) {
			h.must(err)
			lines = append(lines, l)
		}
		if len(lines) > 0 {
			b.Appends = append(b.Appends, tidemark.Append{Log: k, Lines: lines, At: b.At})
		}
	}
	_, err := to.Commit(ctx, b)
	h.must(err)
}

func TestAMachineThatWasLetOutReadsNothingMore(t *testing.T) {
	dir := t.TempDir()
	a, b := newHome(t, "a"), newHome(t, "b")
	a.join(dir, nil)
	b.join(dir, a)
	id := a.create("plan", "one")
	a.sync()
	b.sync()
	a.sync()
	old, err := b.remotes().load(t.Context(), "r")
	b.must(err)
	blobs, err := remote.Open(t.Context(), old.URL, nil)
	b.must(err)
	defer blobs.Close()
	ring, err := old.openRing(t.Context(), blobs)
	b.must(err)
	a.must(a.remotes().Forget(t.Context(), "r", "b"))
	a.add(id, "two")
	a.sync()
	if _, err := Run(t.Context(), b.s, "r", Options{Holder: b.holder(), Push: true, Pull: true}); !errors.Is(err, tidemark.ErrSealed) {
		t.Errorf("it is still let in: %v", err)
	}
	y := &syncer{s: b.s, k: b.s.Records(), c: old, blobs: blobs, ring: ring}
	m, err := a.remotes().machine(t.Context())
	a.must(err)
	if _, _, err := y.readHead(t.Context(), m.ID); !errors.Is(err, tidemark.ErrSealed) {
		t.Errorf("its old keys open the head: %v", err)
	}
}

func TestTwoRemotesCarryEachEntryOnce(t *testing.T) {
	homes := map[string]*home{"a": newHome(t, "a"), "b": newHome(t, "b"), "c": newHome(t, "c")}
	a, b, c := homes["a"], homes["b"], homes["c"]
	add := func(h *home, name, dir string, other *home) { h.joinAs(name, dir, other) }
	sync := func(h *home, name string) { h.syncWith(name) }
	one, two := t.TempDir(), t.TempDir()
	add(a, "one", one, nil)
	add(b, "one", one, a)
	add(b, "two", two, nil)
	add(c, "two", two, b)
	id := a.create("plan", "by a")
	around := func() {
		for range 2 {
			sync(a, "one")
			sync(b, "one")
			sync(b, "two")
			sync(c, "two")
		}
	}
	around()
	same2(t, id, a, b, c)
	c.add(id, "by c")
	a.must(a.s.Rename(t.Context(), id, "renamed by a"))
	around()
	sync(b, "one")
	sync(a, "one")
	add(a, "two", two, c) // now it meets all of them directly, too
	a.add(id, "more by a")
	for range 2 {
		sync(a, "two")
		sync(c, "two")
		sync(b, "two")
		sync(b, "one")
		sync(a, "one")
	}
	same2(t, id, a, b, c)
	if d := cmp.Diff([]string{"by a", "by c", "more by a"}, c.path(id)); d != "" {
		t.Error(d)
	}
	i, err := c.s.Session(t.Context(), id)
	if err != nil || i.Entries != 3 || i.Title != "renamed by a" {
		t.Errorf("%d entries, title %q, %v", i.Entries, i.Title, err)
	}
}

// What one machine does not mask and another does is kept nowhere by the other.
func TestWhatIsMaskedHereIsNotKeptFromElsewhere(t *testing.T) {
	const secret = "sesame-0123"
	a, b := newHome(t, "a"), newHome(t, "b")
	b.s = store.New(b.b, &store.Options{Redact: store.RedactMask, Secrets: func(e tidemark.Entry) (found []store.Secret) {
		e.EachText(func(i int, text string, _ bool) string {
			if at := strings.Index(text, secret); at >= 0 {
				found = append(found, store.Secret{Text: i, From: at, To: at + len(secret), Rule: "sesame"})
			}
			return text
		})
		return found
	}})
	dir := t.TempDir()
	a.join(dir, nil)
	id := a.create("open "+secret, "hello")
	a.must(a.s.Tag(t.Context(), id, []string{secret}, nil))
	a.must(a.s.Label(t.Context(), id, 1, "at "+secret))
	a.sync()
	b.join(dir, a)
	for range 3 {
		b.sync()
		a.sync()
	}
	i, err := b.s.Session(t.Context(), id)
	b.must(err)
	if !strings.HasPrefix(i.Title, "open ") || strings.Contains(i.Title, secret) {
		t.Errorf("the title is %q", i.Title)
	}
	for k, err := range b.b.Walk(t.Context(), tidemark.Key{}) {
		b.must(err)
		r, err := b.b.Get(t.Context(), k)
		if errors.Is(err, tidemark.ErrNotFound) {
			continue
		}
		b.must(err)
		if strings.Contains(string(r.Body), secret) {
			t.Errorf("%s holds the secret: %s", k, r.Body)
		}
	}
	if i, err = a.s.Session(t.Context(), id); err != nil || strings.Contains(i.Title, secret) {
		t.Errorf("the machines do not agree on the title: %q, %v", i.Title, err)
	}
}
