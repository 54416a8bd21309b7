package server

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/files"
	"github.com/tidemark-sessions/tidemark/internal/process"
	"github.com/tidemark-sessions/tidemark/server/auth"
	"github.com/tidemark-sessions/tidemark/server/pages/web"
	"github.com/tidemark-sessions/tidemark/store"
)

func TestADamagedEntryIsShownInItsPlaceAndTheRestIsRead(t *testing.T) {
	dir := t.TempDir()
	b, err := files.Open(t.Context(), dir, &files.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	kept := store.New(b, nil)
	t.Cleanup(func() { kept.Close() })
	w := kept.Create(tidemark.Session{Title: "tides"}, process.Self("test"))
	if _, err := w.Append(t.Context(), tidemark.Say(tidemark.User, "before it"), tidemark.Say(tidemark.Assistant, "mangoword"), tidemark.Say(tidemark.User, "after it")); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	spoil(t, dir, "mangoword", "mangoworX")
	s := newTestServer(t, func(o *Options) {
		o.SignIn = auth.Local(strings.Repeat("x", 32), people()["reader-a"].Principal)
		o.Open = func(context.Context, tidemark.Principal) (*store.Store, error) { return kept, nil }
	})
	s.call(t, "reader-a", "GET", "/sessions", nil).want(t, 200)
	page := string(s.call(t, "reader-a", "GET", "/sessions/"+string(w.ID()), nil).want(t, 200).Body)
	for _, want := range []string{"before it", "after it", "checksum does not match", `<a class="badge bad" href="#e2">damaged</a>`} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q on the page", want)
		}
	}
	if strings.Contains(page, "mangowor") {
		t.Error("what is damaged is shown")
	}
}

func TestDamageFarFromWhatIsShownIsToldOnTopAndInTheList(t *testing.T) {
	dir := t.TempDir()
	b, err := files.Open(t.Context(), dir, &files.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	kept := store.New(b, nil)
	t.Cleanup(func() { kept.Close() })
	w := kept.Create(tidemark.Session{Title: "tides"}, process.Self("test"))
	for n := range 200 {
		said := "a tide"
		if n == 2 {
			said = "mangoword"
		}
		if _, err := w.Append(t.Context(), tidemark.Say(tidemark.User, "When?"), tidemark.Say(tidemark.Assistant, said)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	spoil(t, dir, "mangoword", "mangoworX")
	s := newTestServer(t, func(o *Options) {
		o.SignIn = auth.Local(strings.Repeat("x", 32), people()["reader-a"].Principal)
		o.Open = func(context.Context, tidemark.Principal) (*store.Store, error) { return kept, nil }
	})
	badge := `<a class="badge bad" href="/sessions/` + string(w.ID()) + `?at=6#e6">damaged</a>`
	if page := s.read(t, "reader-a", "/sessions/"+string(w.ID()), 200); strings.Contains(page, `id="e6"`) || !strings.Contains(page, badge) {
		t.Errorf("the top of the page does not say that entry 6, which it does not show, is damaged")
	}
	if page := s.read(t, "reader-a", "/sessions", 200); !strings.Contains(page, `<span class="badge bad">damaged</span>`) {
		t.Error("the list does not say that the session is damaged")
	}
	// What was mended is told no more, though it was counted before.
	spoil(t, dir, "mangoworX", "mangoword")
	if page := s.read(t, "reader-a", "/sessions/"+string(w.ID()), 200); strings.Contains(page, badge) {
		t.Error("an entry that can be read again is called damaged")
	}
}

func TestADamagedSessionStaysInAListThatIsSorted(t *testing.T) {
	dir := t.TempDir()
	b, err := files.Open(t.Context(), dir, &files.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	kept := store.New(b, nil)
	t.Cleanup(func() { kept.Close() })
	for _, title := range []string{"mangoword", "whole"} {
		w := kept.Create(tidemark.Session{Title: title}, process.Self("test"))
		if _, err := w.Append(t.Context(), tidemark.Say(tidemark.User, "hi")); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	spoil(t, dir, "mangoword", "mangoworX")
	s := newTestServer(t, func(o *Options) {
		o.SignIn = auth.Local(strings.Repeat("x", 32), people()["reader-a"].Principal)
		o.Open = func(context.Context, tidemark.Principal) (*store.Store, error) { return kept, nil }
	})
	for _, path := range []string{"/sessions.json", "/sessions.json?sort=title", "/sessions.json?sort=turns", "/sessions.json?order=up"} {
		var got web.SessionsView
		s.call(t, "reader-a", "GET", path, nil).want(t, 200).into(t, &got)
		if len(got.Sessions) != 2 || (got.Sessions[0].Damage == "") == (got.Sessions[1].Damage == "") {
			t.Errorf("%s: %+v", path, got.Sessions)
		}
	}
}

// spoil changes a word wherever it is kept.
func spoil(t *testing.T, dir, from, to string) {
	t.Helper()
	changed := false
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(content, []byte(from)) {
			return err
		}
		changed = true
		return os.WriteFile(path, bytes.ReplaceAll(content, []byte(from), []byte(to)), 0o600)
	})
	if err != nil || !changed {
		t.Fatalf("nothing was spoilt: %v", err)
	}
}
