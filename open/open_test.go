package open_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/redact"
	"github.com/tidemark-sessions/tidemark/store"
)

// home is an environment with a home folder of its own.
func home(t *testing.T) (dir string, environ []string) {
	t.Helper()
	dir = t.TempDir()
	return dir, []string{"HOME=" + dir, "USERPROFILE=" + dir, "AppData=" + filepath.Join(dir, "AppData")}
}

func TestTheUsersOwnStoreIsWhereTheirConfigurationSays(t *testing.T) {
	dir, environ := home(t)
	config, err := open.ConfigDir(environ)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(config, 0o700); err != nil {
		t.Fatal(err)
	}
	text := "store: sqlite:" + filepath.Join(dir, "mine.db") + "\nredact: mask\nchat:\n  model: m\n"
	if err := os.WriteFile(filepath.Join(config, "config.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := open.Store(t.Context(), "", &open.Options{Access: open.Create, Environ: environ})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := os.Stat(filepath.Join(dir, "mine.db")); err != nil {
		t.Error(err)
	}
	w := s.Create(tidemark.Session{}, store.Self("test"))
	if _, err := w.Append(t.Context(), tidemark.Say(tidemark.User, "AKIA"+strings.Repeat("Q", 3)+"2E4XYZ7LMNOP5")); err != nil {
		t.Fatal(err)
	}
	w.Close(t.Context())
}

func TestAStoreNeedsTheKeyThatItWasMadeWith(t *testing.T) {
	dir, environ := home(t)
	url := "sqlite:" + filepath.Join(dir, "a.db")
	if _, err := open.Store(t.Context(), url, &open.Options{Environ: environ}); !errors.Is(err, tidemark.ErrNoStore) {
		t.Errorf("a store that is not there: %v", err)
	}
	made := ""
	s, err := open.Store(t.Context(), url, &open.Options{Access: open.Create, Environ: environ, KeyMade: func(f string) { made = f }})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if again, err := open.Store(t.Context(), url, &open.Options{Environ: environ}); err != nil {
		t.Errorf("with the key where it lies: %v", err)
	} else {
		again.Close()
	}
	_, elsewhere := home(t)
	_, err = open.Store(t.Context(), url, &open.Options{Environ: elsewhere})
	if !errors.Is(err, tidemark.ErrSealed) || !strings.Contains(open.Hint(err), "--key-file") {
		t.Errorf("without the key: %v; %q", err, open.Hint(err))
	}
	if by, err := open.Store(t.Context(), url, &open.Options{Environ: elsewhere, Key: open.Key{File: made, Origin: "test"}}); err != nil {
		t.Errorf("with the key by name: %v", err)
	} else {
		by.Close()
	}
}

func TestNothingIsMadeForAKeyThatIsNone(t *testing.T) {
	dir, environ := home(t)
	key := filepath.Join(dir, "key")
	if err := os.WriteFile(key, []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	url := "sqlite:" + filepath.Join(dir, "a.db")
	if _, err := open.Store(t.Context(), url, &open.Options{Access: open.Create, Environ: environ, Key: open.Key{File: key}}); err == nil {
		t.Error("it was opened")
	}
	if !open.IsAbsent(url) {
		t.Error("a store was made")
	}
}

// The ids of names end with their groups, as the folder of a store is told: whoever
// changes that finds nothing by its name any more.
func TestSessionsInAFolderAreFoundByTheirNames(t *testing.T) {
	dir, environ := home(t)
	for _, of := range []struct {
		name    string
		options open.Options
	}{{"plain", open.Options{Plain: true}}, {"sealed", open.Options{}}} {
		o := of.options
		o.Access, o.Environ = open.Create, environ
		url := "files:" + filepath.Join(dir, of.name)
		s, err := open.Store(t.Context(), url, &o)
		if err != nil {
			t.Fatal(err)
		}
		for _, title := range []string{"Harbour", "Tide"} {
			w := s.Create(tidemark.Session{Title: title, ForeignID: "Foreign-of-" + title}, store.Self("test"))
			if _, err := w.Append(t.Context(), tidemark.Say(tidemark.User, title)); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(w.Close(t.Context()), s.Close()); err != nil {
				t.Fatal(err)
			}
			if s, err = open.Store(t.Context(), url, &o); err != nil {
				t.Fatal(err)
			}
			for _, ref := range []string{title, "Foreign-of-" + title, "foreign-of-" + title[:2]} {
				if _, err := s.Resolve(t.Context(), ref, ""); err != nil {
					t.Errorf("%s: %q leads to %v", of.name, ref, err)
				}
			}
		}
		s.Close()
	}
}

func TestWhatFindsSecretsIsMadeWhenItIsNeeded(t *testing.T) {
	b := memory.New()
	for name, o := range map[string]*open.Options{"without rules": {}, "with a rule": {RedactRules: []redact.Rule{{ID: "house", Regexp: "hush-[0-9]+", Keywords: []string{"hush"}}}}} {
		rules, err := open.Rules(b, o)
		if err != nil {
			t.Fatal(err)
		}
		secret := "sk-ant-api03-" + strings.Repeat("aB3dE5gH7j", 9)
		found := rules.Secrets(tidemark.Say(tidemark.User, "the key is "+secret+", and hush-42"))
		if len(found) != 1+len(o.RedactRules) {
			t.Errorf("%s: %d secrets are found, want %d", name, len(found), 1+len(o.RedactRules))
		}
	}
	if _, err := open.Rules(b, &open.Options{RedactRules: []redact.Rule{{ID: "bad", Regexp: "("}}}); !errors.Is(err, tidemark.ErrInvalid) {
		t.Errorf("Rules with a rule that cannot be used = %v, want ErrInvalid", err)
	}
	if n := testing.AllocsPerRun(10, func() { _, _ = open.Rules(b, nil) }); n > 20 {
		t.Errorf("Rules makes %.0f pieces of memory: something is prepared that most commands do not need", n)
	}
}
