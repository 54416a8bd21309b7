package project

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func put(t testing.TB, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFilesOfAWorkTreeAreWhatGitHasOrWouldTake(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "main.go", "new\nline.txt", "build/out.o", "sub/.hidden/x", "sub/deep.go")
	if err := os.WriteFile(filepath.Join(dir, ".gitignore"), []byte("build/\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	// A repository that would start a program, if it could.
	for _, args := range [][]string{{"init", "-q"}, {"config", "core.fsmonitor", "touch " + dir + "/started; false"}, {"-c", "core.fsmonitor=false", "add", "main.go"}} {
		if out, err := exec.Command("git", append([]string{"-C", dir}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v %s", args, err, out)
		}
	}
	got := Files(t.Context(), dir, os.Environ())
	slices.Sort(got)
	if want := []string{".gitignore", "main.go", "new\nline.txt", "sub/.hidden/x", "sub/deep.go"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if Exists(filepath.Join(dir, "started")) {
		t.Error("the repository started a program")
	}
}

func TestFilesOfAnyOtherFolderAreThoseInSight(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "a.txt", ".env", "sub/b.txt", ".cache/c.txt", "sub/.d/e.txt")
	got := Files(t.Context(), dir, nil)
	if want := []string{".env", "a.txt", "sub/b.txt"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	over, stop := context.WithCancel(t.Context())
	stop()
	if got := Files(over, dir, nil); len(got) != 0 {
		t.Errorf("after the end: %q", got)
	}
}

func TestTheBestMatchComesFirst(t *testing.T) {
	paths := []string{"internal/terminal/console.go", "cmd/main.go", "internal/terminal/console_test.go", "docs/CONSOLE.md", "agent/repl/conversation.go", "go.mod"}
	for query, want := range map[string]string{
		"console":  "docs/CONSOLE.md internal/terminal/console.go internal/terminal/console_test.go",
		"main":     "cmd/main.go",
		"itcon":    "internal/terminal/console.go internal/terminal/console_test.go",
		"ct":       "internal/terminal/console_test.go agent/repl/conversation.go",
		"nosuch":   "",
		"term/con": "internal/terminal/console.go internal/terminal/console_test.go",
	} {
		if got := strings.Join(Match(paths, query, 3), " "); got != want && !strings.HasPrefix(got, want+" ") {
			t.Errorf("%q matches %q, want %q", query, got, want)
		}
	}
	if got := Match(paths, "", 2); len(got) != 2 {
		t.Errorf("an empty query matches %q", got)
	}
}

func TestTheBranchOfAWorkTree(t *testing.T) {
	dir := t.TempDir()
	if got := Branch(dir); got != "" {
		t.Errorf("no work tree is on %q", got)
	}
	put(t, dir, ".git/HEAD")
	for head, want := range map[string]string{
		"ref: refs/heads/feature/x\n":   "feature/x",
		strings.Repeat("a1", 20) + "\n": "a1a1a1a1",
		"nonsense":                      "",
	} {
		if err := os.WriteFile(filepath.Join(dir, ".git/HEAD"), []byte(head), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := Branch(dir); got != want {
			t.Errorf("HEAD %q is on %q, want %q", head, got, want)
		}
	}
}

func FuzzMatch(f *testing.F) {
	f.Add("a/b.go\nc/d.go", "bd", 3)
	f.Fuzz(func(t *testing.T, joined, query string, most int) {
		paths := strings.Split(joined, "\n")
		most = max(most%100, 0)
		found := Match(paths, query, most)
		if len(found) > most {
			t.Fatalf("%d of %d", len(found), most)
		}
		for _, p := range found {
			if !slices.Contains(paths, p) {
				t.Fatalf("%q was not given", p)
			}
		}
		if query == joined && len(paths) == 1 && most > 0 && strings.ToLower(query) == query && len(found) != 1 {
			t.Fatalf("a path does not match itself: %q", query)
		}
	})
}

// BenchmarkMatch is one key of a completion among 10,000 files.
func BenchmarkMatch(b *testing.B) {
	var paths []string
	for i := range 10_000 {
		paths = append(paths, fmt.Sprintf("internal/room%d/floor%d/window_%d_test.go", i%37, i%11, i))
	}
	for b.Loop() {
		Match(paths, "rofl77", 20)
	}
}

// BenchmarkFiles is the first key: the files of a work tree of 10,000 are listed
// and matched.
func BenchmarkFiles(b *testing.B) {
	dir := b.TempDir()
	for i := range 10_000 {
		put(b, dir, fmt.Sprintf("room%d/floor%d/window_%d_test.go", i%37, i%11, i))
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}} {
		if out, err := exec.Command("git", append([]string{"-C", dir}, args...)...).CombinedOutput(); err != nil {
			b.Fatalf("git %v: %v %s", args, err, out)
		}
	}
	for b.Loop() {
		if found := Match(Files(b.Context(), dir, os.Environ()), "rofl77", 20); len(found) == 0 {
			b.Fatal("nothing was found")
		}
	}
}
