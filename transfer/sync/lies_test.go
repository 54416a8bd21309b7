package sync

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"filippo.io/age"
	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/seal"
)

// files returns the content of every blob of a remote, by path.
func files(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	all := make(map[string][]byte)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && d.Name() != "lock" {
			all[path], err = os.ReadFile(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestALyingRemoteHarmsNobody changes, cuts, empties, swaps and removes each blob. Each
// is noticed or waits, nothing false comes in, and all is well when the blob is back.
func TestALyingRemoteHarmsNobody(t *testing.T) {
	dir := t.TempDir()
	a := newHome(t, "a")
	a.join(dir, nil)
	first, second := a.create("first", "one", "two"), a.create("second", "three")
	a.sync()
	b := newHome(t, "b")
	b.join(dir, a)
	all := files(t, dir)
	var paths []string
	for path := range all {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	lies := map[string]func(path string, data []byte) []byte{
		"changed":  func(_ string, data []byte) []byte { data[len(data)/2] ^= 1; return data },
		"cut":      func(_ string, data []byte) []byte { return data[:len(data)/2] },
		"emptied":  func(string, []byte) []byte { return nil },
		"extended": func(_ string, data []byte) []byte { return append(data, 0) },
		"swapped": func(path string, _ []byte) []byte {
			return slices.Clone(all[paths[(slices.Index(paths, path)+1)%len(paths)]])
		},
		"missing": nil,
	}
	clone := copyOf(t, b)
	for name, lie := range lies {
		for _, path := range paths {
			if strings.Contains(path, "/machines/") && name != "missing" {
				continue // it says nothing
			}
			h := copyOf(t, clone)
			var err error
			if lie == nil {
				err = os.Remove(path)
			} else {
				err = os.WriteFile(path, lie(path, slices.Clone(all[path])), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			r, err := Run(context.Background(), h.s, "r", Options{Holder: h.holder(), Host: h.name, Pull: true})
			came := 0
			for _, id := range []tidemark.SessionID{first, second} {
				if _, err := h.s.Session(t.Context(), id); err == nil {
					came++
					if d := cmp.Diff(a.told(id), h.told(id)); d != "" {
						t.Errorf("%s %s: something false came in:\n%s", path, name, d)
					}
				}
			}
			if err == nil && len(r.Problems) == 0 && came < 2 && !strings.Contains(path, "/machines/") {
				t.Errorf("%s %s: nobody noticed", path, name)
			}
			if err := os.WriteFile(path, all[path], 0o600); err != nil {
				t.Fatal(err)
			}
			h.sync()
			same2(t, first, a, h)
			same2(t, second, a, h)
			for path := range files(t, dir) { // what it pushed
				if _, had := all[path]; !had {
					os.Remove(path)
				}
			}
		}
	}
}

func TestARemoteThatWasPutBackIsNoticed(t *testing.T) {
	dir := t.TempDir()
	a, b := newHome(t, "a"), newHome(t, "b")
	a.join(dir, nil)
	b.join(dir, a)
	id := a.create("plan", "one")
	a.sync()
	old := files(t, dir)
	a.add(id, "two")
	a.sync()
	b.sync()
	for path := range files(t, dir) {
		os.Remove(path)
	}
	for path, data := range old {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if r := b.run(Options{Push: true, Pull: true}); r.Faults() == 0 {
		t.Error("b did not notice")
	}
	if r := a.run(Options{Push: true, Pull: true}); r.Faults() == 0 {
		t.Error("a did not notice")
	}
	b.sync()
	a.sync()
	same2(t, id, a, b)
	c := newHome(t, "c")
	c.join(dir, a)
	c.sync()
	same2(t, id, a, c)
}

// TestACutAnywhereLosesNothing ends a sync at each call of the remote and at each
// commit, and lets the next one finish.
func TestACutAnywhereLosesNothing(t *testing.T) {
	for at := range 24 {
		dir := t.TempDir()
		a, b := newHome(t, "a"), newHome(t, "b")
		a.join(dir, nil)
		b.join(dir, a)
		id := a.create("plan", "one")
		a.runCut(at, -1)
		a.sync()
		b.runCut(-1, at)
		b.sync()
		b.add(id, "two")
		b.runCut(at, -1)
		a.add(id, "three")
		a.runCut(-1, at)
		b.sync()
		a.sync()
		b.sync()
		same2(t, id, a, b)
		if r := a.sync(); r.Pulled.Sessions+r.Pushed.Sessions != 0 || r.Renamed != "" {
			t.Errorf("cut at %d: it does not come to rest: %+v", at, r)
		}
	}
}

func TestACheckFindsWhatIsDamagedAndTheNextPushRepairsIt(t *testing.T) {
	dir := t.TempDir()
	a := newHome(t, "a")
	a.join(dir, nil)
	id := a.create("plan", "one")
	a.sync()
	check := func() Checked {
		c, err := Check(t.Context(), a.s, "r", Options{Holder: a.holder(), Host: "a"})
		a.must(err)
		return c
	}
	if c := check(); c.Sessions != 1 || len(c.Problems) != 0 {
		t.Errorf("a sound remote: %+v", c)
	}
	for path := range files(t, dir) {
		if strings.Contains(path, "/b/") {
			os.WriteFile(path, []byte("no"), 0o600)
		}
	}
	if c := check(); len(c.Problems) == 0 {
		t.Errorf("a damaged remote: %+v", c)
	}
	a.run(Options{Push: true})
	b := newHome(t, "b")
	b.join(dir, a)
	b.sync()
	same2(t, id, a, b)
	if c := check(); len(c.Problems) != 0 || c.Removed == 0 {
		t.Errorf("a repaired remote: %+v", c)
	}
}

func TestACodeLetsOneMachineIn(t *testing.T) {
	dir := t.TempDir()
	a, b := newHome(t, "a"), newHome(t, "b")
	a.join(dir, nil)
	if err := b.remotes().Add(t.Context(), "r", "file:"+dir, ""); !errors.Is(err, tidemark.ErrSealed) {
		t.Errorf("without a code: %v", err)
	}
	other, _, err := seal.NewIdentity("")
	a.must(err)
	if err := b.remotes().Add(t.Context(), "r", "file:"+dir, other); !errors.Is(err, tidemark.ErrSealed) {
		t.Errorf("with another code: %v", err)
	}
	code, err := a.remotes().Pair(t.Context(), "r", a.s.Records().Clock().AddDate(0, 0, 1))
	a.must(err)
	b.must(b.remotes().Add(t.Context(), "r", "file:"+dir, code))
	if err := newHome(t, "c").remotes().Add(t.Context(), "r", "file:"+dir, code); !errors.Is(err, tidemark.ErrSealed) {
		t.Errorf("a second time: %v", err)
	}
	late, err := a.remotes().Pair(t.Context(), "r", a.s.Records().Clock().AddDate(0, 0, -1))
	a.must(err)
	if err := newHome(t, "c").remotes().Add(t.Context(), "r", "file:"+dir, late); !errors.Is(err, tidemark.ErrSealed) {
		t.Errorf("after its time: %v", err)
	}
}

func TestAnAgeIdentityAndARecoveryKeyLetMachinesInUntilTheyAreForgotten(t *testing.T) {
	dir := t.TempDir()
	a := newHome(t, "a")
	a.join(dir, nil)
	id := a.create("plan", "one")
	a.sync()
	identity, err := age.GenerateX25519Identity()
	a.must(err)
	recipient := identity.Recipient().String()
	a.must(a.remotes().LetIn(t.Context(), "r", recipient))
	recovery, err := a.remotes().Recovery(t.Context(), "r")
	a.must(err)
	if err := a.remotes().LetIn(t.Context(), "r", "age1nobody"); !errors.Is(err, tidemark.ErrInvalid) {
		t.Errorf("no recipient: %v", err)
	}
	for n, code := range []string{identity.String(), identity.String(), recovery} {
		h := newHome(t, fmt.Sprint("h", n))
		h.must(h.remotes().Add(t.Context(), "r", "file:"+dir, code))
		h.sync()
		same2(t, id, a, h)
	}
	for _, who := range []string{recipient[:12], "recovery"} {
		a.must(a.remotes().Forget(t.Context(), "r", who))
	}
	for _, code := range []string{identity.String(), recovery} {
		h := newHome(t, "late")
		if err := h.remotes().Add(t.Context(), "r", "file:"+dir, code); !errors.Is(err, tidemark.ErrSealed) {
			t.Errorf("who was forgotten: %v", err)
		}
	}
}

func FuzzUnpack(f *testing.F) {
	good, err := pack([]item{{Line: &line{Kind: "user", Body: []byte(`{"blocks":[]}`)}}, {Same: &same{Machine: "0011223344556677", Line: 3, Count: 2}}, {Local: 1}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good, int64(4))
	f.Add(compress([]byte("{}\n")), int64(1))
	f.Add(compress([]byte(`{"local":9223372036854775807}`+"\n"+`{"local":9223372036854775807}`)), int64(3))
	f.Fuzz(func(t *testing.T, data []byte, count int64) {
		items, err := unpack(data, count)
		if err != nil {
			if !errors.Is(err, tidemark.ErrCorrupt) {
				t.Errorf("%v", err)
			}
			return
		}
		total := int64(0)
		for _, i := range items {
			total += i.count()
		}
		if total != count {
			t.Errorf("%d lines, not %d", total, count)
		}
	})
}

func FuzzShard(f *testing.F) {
	f.Add([]byte(`{"sessions":[{"id":"7f3a0000-0000-4000-8000-000000000000","purged":true}]}`), 0)
	f.Add([]byte(`{"sessions":[null]}`), 1)
	f.Fuzz(func(t *testing.T, data []byte, n int) {
		var s shard
		if decode(compress(data), &s) != nil || s.check(n) != nil {
			return
		}
		for _, k := range s.Sessions {
			if shardOf(k.ID) != n {
				t.Errorf("session %s is not of shard %d", k.ID, n)
			}
			for i := range k.Logs {
				k.Logs[i].to()
			}
			k.blobs()
		}
		var h head
		if decode(compress(data), &h) == nil && h.check(h.Machine) == nil && h.Generation < 1 {
			t.Error("a head of no generation")
		}
		var a about
		if decode(compress(data), &a) == nil && checkRegisters(a.Registers) == nil {
			wanted(a.Registers)
		}
	})
}
