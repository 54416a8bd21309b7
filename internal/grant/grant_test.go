package grant_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/grant"
	"github.com/tidemark-sessions/tidemark/internal/sandbox"
)

type approval struct {
	Tool  string `json:"tool"`
	Scope string `json:"scope,omitempty"`
}

func TestAThingIsWhatItsJSONSays(t *testing.T) {
	a := grant.Of(grant.Tool, map[string]any{"b": 1.0, "a": []int{1}})
	b := grant.Of(grant.Tool, struct {
		A []int `json:"a"`
		B int   `json:"b"`
	}{[]int{1}, 1})
	if a != b {
		t.Errorf("%v and %v are two things", a, b)
	}
	for _, other := range []grant.Thing{grant.Of(grant.Loop, map[string]any{"b": 1, "a": []int{1}}), grant.Of(grant.Tool, map[string]any{"b": 1, "a": []int{1, 1}}),
		grant.Of(grant.Tool, func() {})} {
		if a == other {
			t.Errorf("%v is the same thing", other)
		}
	}
}

func TestAGrantIsForOneUserProjectSessionAndThing(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	session, other := tidemark.NewSessionID(), tidemark.NewSessionID()
	git, rm := grant.Of(grant.Approval, approval{"bash", "git"}), grant.Of(grant.Approval, approval{"bash", "rm"})
	tide := grant.Open(dir, "1000").For("/src/tide")
	if err := tide.Add(ctx, session, git); err != nil {
		t.Fatal(err)
	}
	for name, held := range map[string]bool{
		"itself":          grant.Open(dir, "1000").For("/src/tide/").Holds(session, git),
		"another thing":   !tide.Holds(session, rm),
		"another session": !tide.Holds(other, git),
		"another project": !grant.Open(dir, "1000").For("/src").Holds(session, git),
		"another user":    !grant.Open(dir, "1001").For("/src/tide").Holds(session, git),
		"no project":      grant.Open(dir, "1000").For("src/tide") == nil && !grant.Open(dir, "1000").For("").Holds(session, git),
	} {
		if !held {
			t.Errorf("%s: wrong", name)
		}
	}
	if err := tide.Decline(ctx, session, git, rm); err != nil {
		t.Fatal(err)
	}
	said, err := tide.Of(session)
	if err != nil || said[git] || said[rm] || len(said) != 2 {
		t.Errorf("after declining: %v, %v", said, err)
	}
	if err := tide.Add(ctx, session, git); err != nil || !tide.Holds(session, git) {
		t.Errorf("granted after it was declined: %v", err)
	}
	gone, err := grant.Open(dir, "1000").Revoke(ctx, func(g grant.Grant) bool { return g.Session == session })
	if err != nil || len(gone) != 2 || tide.Holds(session, git) {
		t.Errorf("Revoke = %v, %v", gone, err)
	}
}

// TestConcurrentBooksLoseNothing has many books, as many processes have, write
// to one file.
func TestConcurrentBooksLoseNothing(t *testing.T) {
	dir := t.TempDir()
	session := tidemark.NewSessionID()
	var each sync.WaitGroup
	for n := range 16 {
		each.Go(func() {
			s := grant.Open(dir, "1000").For(fmt.Sprintf("/p%d", n%4))
			for i := range 4 {
				if err := s.Add(context.Background(), session, grant.Of(grant.Limit, n*100+i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	each.Wait()
	all, err := grant.Open(dir, "1000").All()
	if err != nil || len(all) != 64 {
		t.Errorf("%d grants, %v", len(all), err)
	}
	info, err := os.Stat(filepath.Join(dir, "grants.json"))
	if err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

// twice puts the content of a file behind itself.
func twice(file string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(b, b...), 0o600)
}

// A program that died while it wrote leaves its own file beside the grants, and
// somebody may put one there: neither counts.
func TestAFileBesideTheGrantsGrantsNothing(t *testing.T) {
	dir, session := t.TempDir(), tidemark.NewSessionID()
	book := grant.Open(dir, "1000")
	s := book.For("/src")
	thing, other := grant.Of(grant.Approval, approval{"bash", "git"}), grant.Of(grant.Approval, approval{"bash", "ls"})
	if err := s.Add(t.Context(), session, thing); err != nil {
		t.Fatal(err)
	}
	kept, err := os.ReadFile(book.File())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{fmt.Sprintf(".%d.tmp", os.Getpid()), ".1.tmp", ".refused"} {
		if err := os.WriteFile(book.File()+name, kept, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Revoke(t.Context(), session, thing); err != nil {
		t.Fatal(err)
	}
	if err := s.Add(t.Context(), session, other); err != nil {
		t.Fatal(err)
	}
	if s.Holds(session, thing) || !s.Holds(session, other) {
		t.Error("what lay beside the grants counts")
	}
	if info, err := os.Stat(book.File()); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

func TestAFileThatIsNotTrustedGrantsNothing(t *testing.T) {
	session := tidemark.NewSessionID()
	thing := grant.Of(grant.Approval, approval{"bash", "git"})
	for name, spoil := range map[string]func(dir, file string) error{
		"damaged":       func(_, f string) error { return os.WriteFile(f, []byte(`{"version":1,"grants":[{`), 0o600) },
		"empty":         func(_, f string) error { return os.WriteFile(f, nil, 0o600) },
		"huge":          func(_, f string) error { return os.Truncate(f, 65<<20) },
		"torn":          func(_, f string) error { return os.Truncate(f, 100) },
		"of two":        func(_, f string) error { return twice(f) },
		"newer":         func(_, f string) error { return os.WriteFile(f, []byte(`{"version":2}`), 0o600) },
		"too wide":      func(_, f string) error { return os.Chmod(f, 0o640) },
		"a wide folder": func(dir, _ string) error { return os.Chmod(dir, 0o777) },
		"a link": func(dir, f string) error {
			return errors.Join(os.Rename(f, dir+"/elsewhere"), os.Symlink(dir+"/elsewhere", f))
		},
		"a folder": func(_, f string) error { return errors.Join(os.Remove(f), os.Mkdir(f, 0o700)) },
		"another's": func(_, f string) error {
			if os.Geteuid() != 0 {
				return os.Chmod(f, 0o606) // only root can give a file away
			}
			return os.Chown(f, 4711, 4711)
		},
	} {
		t.Run(name, func(t *testing.T) {
			if runtime.GOOS == "windows" && strings.Contains("too wide, a wide folder, a link, another's", name) {
				t.Skip("modes, owners and links say nothing here")
			}
			dir := t.TempDir()
			book := grant.Open(dir, "1000")
			s := book.For("/src")
			if err := s.Add(t.Context(), session, thing); err != nil || !s.Holds(session, thing) {
				t.Fatal(err)
			}
			if err := spoil(dir, book.File()); err != nil {
				t.Fatal(err)
			}
			if _, err := book.All(); !errors.Is(err, grant.ErrUntrusted) {
				t.Errorf("All: %v", err)
			}
			if s.Holds(session, thing) {
				t.Error("it grants something")
			}
			// The next grant begins anew, and what was not trusted does not come back.
			again := grant.Of(grant.Approval, approval{"bash", "ls"})
			if err := s.Add(t.Context(), session, again); err != nil {
				t.Fatal(err)
			}
			if !s.Holds(session, again) || name != "a wide folder" && s.Holds(session, thing) {
				t.Error("not what was granted since")
			}
		})
	}
}

func TestAWideningIsForAllSessionsOfOneProject(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	w := sandbox.Widening{Hosts: []string{"modules.example.org"}, Write: []string{"/data"}}
	tide := grant.Open(dir, "1000").For("/src/tide")
	for range 2 {
		if err := tide.Widen(ctx, w); err != nil {
			t.Fatal(err)
		}
	}
	if got := tide.Widenings(); len(got) != 1 || got[0].String() != w.String() {
		t.Errorf("granted %v", got)
	}
	for name, other := range map[string]*grant.Scope{"another project": grant.Open(dir, "1000").For("/src"), "another user": grant.Open(dir, "1001").For("/src/tide"), "no project": nil} {
		if got := other.Widenings(); len(got) != 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
	// A text that is not what the hash says grants nothing.
	file := filepath.Join(dir, "grants.json")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(string(b), "modules.example.org", "evil.example.org")), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := tide.Widenings(); len(got) != 0 {
		t.Errorf("a changed text grants %v", got)
	}
}
