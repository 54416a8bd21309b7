package store_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/files"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/seal"
	"github.com/tidemark-sessions/tidemark/store"
)

func fileOf(content string) tidemark.FileVersion {
	return tidemark.FileVersion{Kind: tidemark.VersionFile, Mode: 0o644, Data: []byte(content)}
}

// snap keeps that a file changed, and returns the snapshot as it is kept.
func snap(t *testing.T, w *store.Writer, path, before, after string) tidemark.Snapshot {
	t.Helper()
	e, err := w.KeepSnapshot(t.Context(), tidemark.Snapshot{Root: "/p", Files: []tidemark.FileChange{{Path: path, Before: fileOf(before), After: fileOf(after)}}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	s, ok := tidemark.SnapshotOf(e)
	if !ok {
		t.Fatalf("entry %+v is no snapshot", e)
	}
	return s
}

func contentOf(t *testing.T, v *store.View, f tidemark.FileVersion) string {
	t.Helper()
	b, err := v.Content(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestASnapshotKeepsWhatAFileWasAndBecomes(t *testing.T) {
	disk, err := files.Open(t.Context(), t.TempDir(), &files.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	slot, err := seal.FileSlot("", seal.NewKeyFile())
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := seal.Create(t.Context(), memory.New(), slot)
	if err != nil {
		t.Fatal(err)
	}
	large := strings.Repeat("0123456789abcdef", 70_000) // five lines of the log
	for name, b := range map[string]tidemark.Backend{"memory": memory.New(), "files": disk, "sealed": sealed} {
		t.Run(name, func(t *testing.T) {
			s := store.New(b, nil)
			defer s.Close()
			w := begin(t, s, user("hello"))
			for _, c := range [][2]string{{"one\n", "two\n"}, {"", large}, {large, "\x00\xff binary"}} {
				kept := snap(t, w, "a.txt", c[0], c[1]).Files[0]
				v := view(t, s, w.ID())
				if contentOf(t, v, kept.Before) != c[0] || contentOf(t, v, kept.After) != c[1] {
					t.Errorf("%.10q to %.10q came back differently", c[0], c[1])
				}
			}
			if all, err := s.Files(t.Context(), w.ID()); err != nil || len(all) != 0 {
				t.Errorf("snapshots are listed as files of the session: %v, %v", all, err)
			}
			healthy(t, s)
		})
	}
}

func TestEqualContentsAreKeptOnce(t *testing.T) {
	b := memory.New()
	s := store.New(b, nil)
	w := begin(t, s, user("hello"))
	snap(t, w, "a", "one", "two")
	had := keys(t, b, "file")
	for range 5 {
		snap(t, w, "a", "two", "one")
		snap(t, w, "b", "one", "two")
	}
	if now := keys(t, b, "file"); now != had {
		t.Errorf("%d keys, then %d", had, now)
	}
}

func TestASessionKeepsSoMuchAndSaysWhatIsLeftOut(t *testing.T) {
	s := store.New(memory.New(), nil)
	w := begin(t, s, user("hello"))
	change := func(before, after string) tidemark.FileChange {
		e, err := w.KeepSnapshot(t.Context(), tidemark.Snapshot{Root: "/p", Files: []tidemark.FileChange{{Path: "a", Before: fileOf(before), After: fileOf(after)}}}, 100)
		if err != nil {
			t.Fatal(err)
		}
		kept, _ := tidemark.SnapshotOf(e)
		return kept.Files[0]
	}
	if c := change(strings.Repeat("a", 60), strings.Repeat("b", 40)); c.Before.Lost+c.After.Lost != "" {
		t.Errorf("%+v", c)
	}
	c := change(strings.Repeat("b", 40), "one more")
	if c.Before.Lost != "" || c.After.Lost != "the snapshots of this session have 100 bytes, and at most 100 are kept" {
		t.Errorf("%+v", c)
	}
	if c.After.SHA256 == "" {
		t.Error("what is not kept cannot be recognised")
	}
	_, err := view(t, s, w.ID()).Content(t.Context(), c.After)
	wants(t, err, tidemark.ErrNotFound)
	// Another process goes on with the same count.
	w.Close(t.Context())
	w = attach(t, s, w.ID(), "again")
	if c := change(strings.Repeat("a", 60), "x"); c.Before.Lost != "" || c.After.Lost == "" {
		t.Errorf("%+v", c)
	}
}

func TestAContentThatAWriterDiedInIsCompleted(t *testing.T) {
	b := memory.New()
	s := store.New(b, nil)
	w := begin(t, s, user("hello"))
	content := strings.Repeat("x", 5<<20) // more than one commit
	dying, die := context.WithCancel(t.Context())
	broken := store.New(&stopping{Backend: b, after: 1, stop: die}, nil)
	w.Close(t.Context())
	half := attach(t, broken, w.ID(), "dies")
	_, err := half.KeepSnapshot(dying, tidemark.Snapshot{Root: "/p", Files: []tidemark.FileChange{{Path: "a", Before: fileOf(content), After: fileOf("y")}}}, 0)
	if err == nil {
		t.Fatal("it lived")
	}
	w = attach(t, store.New(b, &store.Options{Dead: func(tidemark.Holder) bool { return true }}), w.ID(), "next")
	kept := snap(t, w, "a", content, "y").Files[0]
	if contentOf(t, view(t, s, w.ID()), kept.Before) != content {
		t.Error("the content is not whole")
	}
}

// stopping fails after some commits of contents.
type stopping struct {
	tidemark.Backend
	after int
	stop  func()
}

func (s *stopping) Commit(ctx context.Context, b tidemark.Batch) (tidemark.Receipt, error) {
	if len(b.Appends) > 0 && b.Appends[0].Log.Kind == "file" {
		if s.after == 0 {
			s.stop()
			return tidemark.Receipt{}, tidemark.Storagef("the disk is gone")
		}
		s.after--
	}
	return s.Backend.Commit(ctx, b)
}

func TestAForkReadsTheSnapshotsThatItSharesAndOwnsThemAfterAPurge(t *testing.T) {
	b := memory.New()
	s := store.New(b, nil)
	w := begin(t, s, user("hello"))
	shared := snap(t, w, "a", "one", "two").Files[0]
	add(t, w, assistant("done"))
	inner, err := s.Fork(t.Context(), w.ID(), 0, "inner")
	if err != nil {
		t.Fatal(err)
	}
	outer, err := s.Fork(t.Context(), inner.ID, 0, "outer")
	if err != nil {
		t.Fatal(err)
	}
	later := snap(t, w, "a", "two", "only of the source").Files[0]
	w.Close(t.Context())
	if contentOf(t, view(t, s, outer.ID), shared.Before) != "one" {
		t.Error("the fork has another content")
	}
	if err := s.Purge(t.Context(), w.ID(), who("purge")); err != nil {
		t.Fatal(err)
	}
	for _, id := range []tidemark.SessionID{inner.ID, outer.ID} {
		v := view(t, s, id)
		if contentOf(t, v, shared.Before) != "one" || contentOf(t, v, shared.After) != "two" {
			t.Error("the fork lost what it shared")
		}
		_, err := v.Content(t.Context(), later.After)
		wants(t, err, tidemark.ErrNotFound)
		if err := s.Purge(t.Context(), id, who("purge")); err != nil {
			t.Fatal(err)
		}
	}
	if n := keys(t, b, "file"); n != 0 {
		t.Errorf("a purge left %d contents", n)
	}
}

func TestSecretsInSnapshotsAreMaskedAndComeBack(t *testing.T) {
	const secret = "open sesame-abcd please\n"
	for mode, comes := range map[store.Redaction]bool{store.RedactVault: true, store.RedactWarn: true, store.RedactMask: false} {
		t.Run(string(mode), func(t *testing.T) {
			s, b := redacting(mode)
			w := begin(t, s, user("hello"))
			c := snap(t, w, "a", secret, "plain").Files[0]
			data, err := view(t, s, w.ID()).Content(t.Context(), c.Before)
			if comes && (err != nil || string(data) != secret) {
				t.Errorf("%q, %v", data, err)
			}
			if !comes && (!errors.Is(err, tidemark.ErrNotFound) || c.Before.Lost == "") {
				t.Errorf("%v, %+v", err, c.Before)
			}
			if mode != store.RedactWarn {
				for k, err := range b.Walk(t.Context(), tidemark.Key{}) {
					if err != nil {
						t.Fatal(err)
					}
					for l, err := range b.Lines(t.Context(), k) {
						if err != nil || bytes.Contains(l.Body, []byte("sesame-abcd")) {
							t.Errorf("%s has the secret, %v", k, err)
						}
					}
				}
			}
		})
	}
}

func FuzzSnapshotOf(f *testing.F) {
	for _, extra := range []string{`{"snapshot":{"root":"/p","files":[{"path":"a","before":{"kind":"absent"},"after":{"kind":"file","size":1,"content":"../x"}}]}}`, `{"snapshot":null}`, `{}`, `[]`, ``} {
		f.Add([]byte(extra))
	}
	s := store.New(memory.New(), nil)
	w := s.Create(tidemark.Session{}, who("fuzz"))
	if _, err := w.Append(context.Background(), user("x")); err != nil {
		f.Fatal(err)
	}
	v, err := s.View(context.Background(), w.ID())
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, extra []byte) {
		snapshot, ok := tidemark.SnapshotOf(tidemark.Entry{Kind: tidemark.KindSnapshot, Extra: extra})
		if !ok {
			return
		}
		if !json.Valid(extra) {
			t.Errorf("%q was understood", extra)
		}
		for _, c := range snapshot.Files {
			for _, version := range []tidemark.FileVersion{c.Before, c.After} {
				data, err := v.Content(t.Context(), version)
				if err == nil && len(data) > 0 {
					t.Errorf("%+v has the content %q", version, data)
				}
				if err != nil && !errors.Is(err, tidemark.ErrNotFound) {
					t.Error(fmt.Errorf("%+v: %w", version, err))
				}
			}
		}
	})
}

func TestTheExampleOfTheFormatIsReadAsItStands(t *testing.T) {
	page, err := os.ReadFile("../docs/formats/snapshot.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```json\n")
	example, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("the page has no example")
	}
	s, ok := tidemark.SnapshotOf(tidemark.Entry{Kind: tidemark.KindSnapshot, Extra: json.RawMessage(example)})
	if !ok || s.Files[0].Path != "notes/tides.txt" {
		t.Fatalf("%+v", s)
	}
	again, err := json.Marshal(map[string]any{"snapshot": s})
	if err != nil {
		t.Fatal(err)
	}
	var want, got any
	if json.Unmarshal([]byte(example), &want) != nil || json.Unmarshal(again, &got) != nil {
		t.Fatal("no JSON")
	}
	same(t, got, want)
}
