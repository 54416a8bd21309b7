package seal_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/archive"
	"github.com/tidemark-sessions/tidemark/backend/files"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/backend/sqlite"
	"github.com/tidemark-sessions/tidemark/seal"
	"github.com/tidemark-sessions/tidemark/store"
)

// disks are the ways to keep a store in a directory.
var disks = map[string]func(dir string, create bool) (tidemark.Backend, error){
	"files": func(dir string, create bool) (tidemark.Backend, error) {
		return files.Open(ctx, filepath.Join(dir, "store"), &files.Options{Create: create, ReadOnly: !create})
	},
	"sqlite": func(dir string, create bool) (tidemark.Backend, error) {
		return sqlite.Open(ctx, filepath.Join(dir, "store.db"), &sqlite.Options{Create: create, ReadOnly: !create})
	},
}

func wordPlaces(e tidemark.Entry, yield func([]byte, int)) bool {
	for i, word := range strings.Fields(strings.ToLower(e.Text())) {
		yield([]byte(word), i)
	}
	return true
}

// sealedStore seals a new place in dir.
func sealedStore(t *testing.T, dir string, open func(string, bool) (tidemark.Backend, error)) (*store.Store, tidemark.Backend, seal.Unlocker) {
	t.Helper()
	slot, key := fileKey(t)
	inner := must[tidemark.Backend](t)(open(dir, true))
	b := must[*seal.Backend](t)(seal.Create(ctx, inner, slot))
	return store.New(b, &store.Options{Places: wordPlaces}), inner, key
}

var somebody = tidemark.Holder{Program: "test", PID: 1, Host: "here"}

// everything reads what a store says of its sessions, and which errors it met.
func everything(s *store.Store, ids []tidemark.SessionID) (texts map[string]string, errs []error) {
	texts = make(map[string]string)
	for _, id := range ids {
		v, err := s.View(ctx, id)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		texts[string(id)] = v.Title
		for e, err := range v.Log(ctx) {
			if err != nil {
				errs = append(errs, err)
				continue
			}
			texts[fmt.Sprintf("%s@%d", id, e.Seq)] = e.Text()
		}
	}
	for err := range s.VerifyAll(ctx, nil) {
		errs = append(errs, err)
	}
	return texts, errs
}

// TestEveryByteOnDiskIsNoticedOrHarmless changes one byte of one file after
// the other. What is read then is what was written, or it is missing and an
// error says so. All bytes take minutes, so only some are changed unless
// TIDEMARK_EVERY_BYTE is set.
func TestEveryByteOnDiskIsNoticedOrHarmless(t *testing.T) {
	stride := map[string]int{"files": 29, "sqlite": 769}
	if os.Getenv("TIDEMARK_EVERY_BYTE") != "" {
		stride = map[string]int{"files": 1, "sqlite": 1}
	}
	for name, open := range disks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s, _, key := sealedStore(t, dir, open)
			var ids []tidemark.SessionID
			for i := range 2 {
				w := s.Create(tidemark.Session{Title: fmt.Sprintf("session %d", i)}, somebody)
				for n := range 4 {
					if _, err := w.Append(ctx, tidemark.Say(tidemark.User, fmt.Sprintf("entry %d of %d", n, i))); err != nil {
						t.Fatal(err)
					}
				}
				if err := s.Label(ctx, w.ID(), 2, "here"); err != nil {
					t.Fatal(err)
				}
				ids = append(ids, w.ID())
			}
			want, errs := everything(s, ids)
			if len(errs) > 0 || len(want) != 10 {
				t.Fatalf("before any change: %d texts, %v", len(want), errs)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			var noticed, harmless int
			for _, file := range filesIn(t, dir) {
				data := must[[]byte](t)(os.ReadFile(file))
				for at := 0; at < len(data); at += stride[name] {
					data[at] ^= 0x5a
					if err := os.WriteFile(file, data, 0o600); err != nil {
						t.Fatal(err)
					}
					if sees(t, dir, open, key, ids, want, fmt.Sprintf("%s at %d", filepath.Base(file), at)) {
						noticed++
					} else {
						harmless++
					}
					data[at] ^= 0x5a
				}
				if err := os.WriteFile(file, data, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			t.Logf("%d changes noticed, %d harmless", noticed, harmless)
			if noticed == 0 {
				t.Error("no change was noticed")
			}
		})
	}
}

// sees opens a store in which a byte was changed, and reports whether that was
// noticed.
func sees(t *testing.T, dir string, open func(string, bool) (tidemark.Backend, error), key seal.Unlocker, ids []tidemark.SessionID, want map[string]string, where string) bool {
	t.Helper()
	inner, err := open(dir, false)
	if err != nil {
		return true
	}
	b, err := seal.Open(ctx, inner, key)
	if err != nil {
		inner.Close()
		return true
	}
	s := store.New(b, &store.Options{Places: wordPlaces})
	defer s.Close()
	got, errs := everything(s, ids)
	for place, text := range got {
		if want[place] != text {
			t.Errorf("%s: %s reads %q, and %q was written", where, place, text, want[place])
		}
	}
	if len(errs) == 0 && len(got) != len(want) {
		t.Errorf("%s: something is missing and nobody says so:\n%s", where, cmp.Diff(want, got))
	}
	return len(errs) > 0
}

func filesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestTenThousandSealedEntriesLeaveNoCanary scans every file of a store while
// it is written, after it was, and what an archive of it holds.
func TestTenThousandSealedEntriesLeaveNoCanary(t *testing.T) {
	const canary = "canary"
	scan := func(t *testing.T, dir, when string) {
		t.Helper()
		for _, name := range filesIn(t, dir) {
			data, err := os.ReadFile(name)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(bytes.ToLower(data), []byte(canary)) || strings.Contains(name, canary) {
				t.Errorf("%s: %s holds the canary", when, name)
			}
		}
	}
	for name, open := range disks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s, inner, _ := sealedStore(t, filepath.Join(dir), open)
			defer s.Close()
			var ids []tidemark.SessionID
			for i := range 10 {
				w := s.Create(tidemark.Session{Title: "canary title", Agent: "canary-agent", Project: "/canary", Tags: []string{"canary"}}, somebody)
				for n := range 10 {
					entries := make([]tidemark.Entry, 100)
					for k := range entries {
						entries[k] = tidemark.Say(tidemark.User, "the canary sings of CANARY_"+fmt.Sprint(i, n, k))
						entries[k].Key = fmt.Sprintf("canary-%d-%d-%d", i, n, k)
						entries[k].Model = "canary-model"
					}
					if _, err := w.Append(ctx, entries...); err != nil {
						t.Fatal(err)
					}
				}
				if err := errors.Join(s.Label(ctx, w.ID(), 3, "canary label"), w.SaveCheckpoint(ctx, store.Checkpoint{Name: "canary", Reason: "canary"}), w.Close(ctx)); err != nil {
					t.Fatal(err)
				}
				ids = append(ids, w.ID())
			}
			scan(t, dir, "while it is open")
			if _, err := s.CatchUp(ctx, nil); err != nil && !errors.Is(err, tidemark.ErrUnsupported) {
				t.Fatal(err)
			}
			scan(t, dir, "indexed")
			for _, id := range ids[:5] {
				if err := s.Purge(ctx, id, somebody); err != nil {
					t.Fatal(err)
				}
			}
			scan(t, dir, "after a purge")
			var packed bytes.Buffer
			if _, err := archive.Write(ctx, &packed, inner, nil); err != nil {
				t.Fatal(err)
			}
			out := memory.New()
			if _, err := archive.Read(ctx, &packed, out, nil); err != nil {
				t.Fatal(err)
			}
			for k, err := range out.Walk(ctx, tidemark.Key{}) {
				if err != nil {
					t.Fatal(err)
				}
				r := must[tidemark.Record](t)(out.Get(ctx, k))
				all := fmt.Sprintf("%s %+v %s", k, r, r.Body)
				for l := range out.Lines(ctx, k) {
					all += fmt.Sprintf(" %+v %s", l, l.Body)
				}
				if strings.Contains(strings.ToLower(all), canary) {
					t.Errorf("the archive holds the canary under %s", k)
				}
			}
			for _, id := range ids[:5] {
				if _, err := out.Get(ctx, tidemark.Key{Kind: "datakey", ID: string(id)}); !errors.Is(err, tidemark.ErrNotFound) {
					t.Errorf("the archive has the key of a purged session: %v", err)
				}
			}
		})
	}
}
