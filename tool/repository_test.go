package tool

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// gitWorld is a workspace with a repository, and a private one beside it, as
// somebody who packs a folder for others would prepare them.
type gitWorld struct {
	t                     *testing.T
	git                   string
	work, private, canary string
}

func newGitWorld(t *testing.T) *gitWorld {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("git is not installed")
	}
	dir := t.TempDir()
	w := &gitWorld{t: t, git: git, work: filepath.Join(dir, "work"), private: filepath.Join(dir, "private"), canary: filepath.Join(dir, "ran")}
	for _, repo := range []string{w.work, w.private} {
		w.run(dir, "init", "-q", repo)
		w.put(filepath.Join(repo, "a"), "what "+filepath.Base(repo)+" has\n")
		w.commit(repo)
	}
	return w
}

func (w *gitWorld) run(dir string, args ...string) {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), w.git, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		w.t.Fatalf("git %v: %v: %s", args, err, out)
	}
}

func (w *gitWorld) commit(repo string) {
	w.t.Helper()
	w.run(repo, "add", "-A")
	w.run(repo, "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-q", "-m", "x")
}

func (w *gitWorld) put(name, text string) {
	w.t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

func (w *gitWorld) link(to, name string) {
	w.t.Helper()
	if err := os.RemoveAll(name); err != nil {
		w.t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		w.t.Fatal(err)
	}
	if err := os.Symlink(to, name); err != nil {
		w.t.Fatal(err)
	}
}

// runVetted runs git as a vetted command runs, and returns what it says.
func (w *gitWorld) runVetted(args ...string) string {
	s := surroundings{root: w.work, dir: w.work}
	cmd := exec.CommandContext(w.t.Context(), w.git, args...)
	cmd.Dir, cmd.Env = s.dir, s.vettedEnviron(os.Environ())
	out, _ := cmd.CombinedOutput() // how it ends does not matter
	return string(out)
}

// hostileRepositories are folders that somebody packed. Those with a command
// run something or show what is elsewhere when git is let loose on them, which
// the test looks at: an attack that does not work proves nothing.
var hostileRepositories = []struct {
	name    string
	make    func(*gitWorld)
	command string // of git
}{
	{"a repository inside, which only the index knows of", func(w *gitWorld) {
		sub := filepath.Join(w.work, "sub")
		w.run(w.work, "init", "-q", sub)
		w.put(sub+"/f", "x\n")
		w.commit(sub)
		w.put(w.work+"/.gitmodules", "[submodule \"sub\"]\n\tpath = sub\n\turl = x\n\tignore = none\n")
		w.run(w.work, "-c", "advice.addEmbeddedRepo=false", "add", "-A")
		w.commit(w.work)
		if err := os.Remove(w.work + "/.gitmodules"); err != nil {
			w.t.Fatal(err)
		}
		w.run(sub, "config", "filter.x.clean", "touch "+w.canary+"; cat")
		w.put(sub+"/.gitattributes", "f filter=x\n")
		w.put(sub+"/f", "y\n")
	}, "status"},
	{"a file that names another repository", func(w *gitWorld) {
		w.remove(".git")
		w.put(w.work+"/.git", "gitdir: ../private/.git\n")
	}, "log -p"},
	{"a link to another repository", func(w *gitWorld) { w.link("../private/.git", w.work+"/.git") }, "log -p"},
	{"another repository as the common one", func(w *gitWorld) { w.put(w.work+"/.git/commondir", w.private+"/.git\n") }, "log -p --all"},
	{"objects of another repository", func(w *gitWorld) {
		w.put(w.work+"/.git/objects/info/alternates", w.private+"/.git/objects\n")
		head, err := os.ReadFile(w.private + "/.git/refs/heads/" + w.branch())
		if err != nil {
			w.t.Fatal(err)
		}
		w.put(w.work+"/.git/refs/heads/other", string(head))
	}, "log -p --all"},
	{"packs of another repository", func(w *gitWorld) {
		w.run(w.private, "gc", "-q")
		w.link(w.private+"/.git/objects/pack", w.work+"/.git/objects/pack")
		w.link(w.private+"/.git/packed-refs", w.work+"/.git/packed-refs")
		w.remove(".git/refs/heads/" + w.branch())
	}, "log -p --all"},
	{"a file of elsewhere as the last step of a rebase", func(w *gitWorld) {
		w.put(w.work+"/.git/rebase-merge/git-rebase-todo", "")
		w.put(w.work+"/.git/rebase-merge/interactive", "")
		w.link(w.private+"/a", w.work+"/.git/rebase-merge/done")
	}, "status"},
	{"a repository above the workspace", func(w *gitWorld) {
		w.remove(".git")
		w.work = filepath.Join(w.private, "deep")
		w.put(w.work+"/b", "")
	}, ""},
	{"a split index", func(w *gitWorld) { w.run(w.work, "update-index", "--split-index") }, ""},
	{"an index that is cut", func(w *gitWorld) { w.put(w.work+"/.git/index", "DIRC\x00\x00\x00\x02\x00\x00\x00\x01") }, ""},
	{"a worktree of another repository", func(w *gitWorld) {
		w.run(w.private, "worktree", "add", "-q", "../tree")
		w.remove(".git")
		w.put(w.work+"/.git", "gitdir: "+w.private+"/.git/worktrees/tree\n")
	}, "log -p"},
}

func (w *gitWorld) remove(name string) {
	w.t.Helper()
	if err := os.RemoveAll(filepath.Join(w.work, name)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *gitWorld) branch() string {
	out, err := exec.CommandContext(w.t.Context(), w.git, "-C", w.private, "branch", "--show-current").Output()
	if err != nil {
		w.t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func TestNoRepositoryThatSomebodyPackedRunsOrShowsAnythingElse(t *testing.T) {
	for _, c := range hostileRepositories {
		t.Run(c.name, func(t *testing.T) {
			w := newGitWorld(t)
			c.make(w)
			for _, command := range []string{"git status", "git log -p", "git diff", "git show HEAD:a", "git ls-files -o"} {
				if forms := (surroundings{root: w.work, dir: w.work}).vetted(command); forms != nil {
					t.Errorf("%s is vetted", command)
				}
			}
			if c.command == "" {
				return
			}
			said := w.runVetted(strings.Fields(c.command)...)
			if _, err := os.Stat(w.canary); err != nil && !strings.Contains(said, "what private has") {
				t.Errorf("git %s is no attack: %s", c.command, said)
			}
		})
	}
}

func TestGitIsVettedInOrdinaryRepositories(t *testing.T) {
	w := newGitWorld(t)
	for name, make := range map[string]func(){
		"as it is made":           func() {},
		"the fourth index format": func() { w.run(w.work, "update-index", "--index-version", "4") },
		"many files": func() {
			for _, name := range []string{"x/y/z", "x/y/zz", "x/yy", "long-" + strings.Repeat("n", 200)} {
				w.put(filepath.Join(w.work, name), name)
			}
			w.commit(w.work)
		},
		"packed": func() { w.run(w.work, "gc", "-q") },
	} {
		make()
		if got := (surroundings{root: w.work, dir: w.work}).vetted("git status && git log -p"); len(got) != 2 {
			t.Errorf("%s: %q", name, got)
		}
	}
	if said := w.runVetted("status", "--short"); said != "" {
		t.Error(said)
	}
	// A worktree of this very repository, and a folder below.
	w.run(w.work, "worktree", "add", "-q", "../tree")
	tree := filepath.Join(filepath.Dir(w.work), "tree")
	for _, s := range []surroundings{{root: tree, dir: tree}, {root: w.work, dir: filepath.Join(w.work, "x")}} {
		if got := s.vetted("git status"); got == nil {
			t.Errorf("%+v", s)
		}
	}
}

func TestNothingIsVettedOutsideOfTheWorkspace(t *testing.T) {
	root, other := t.TempDir(), t.TempDir()
	if err := os.Symlink(other, filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{other, filepath.Dir(root), "/", filepath.Join(root, "link")} {
		for _, command := range []string{"ls", "grep -r a", "rg a", "du", "git status", "cat a"} {
			if forms := (surroundings{root: root, dir: dir}).vetted(command); forms != nil {
				t.Errorf("%s in %s is vetted", command, dir)
			}
		}
	}
}

func TestAVettedCommandHasAnEnvironmentOfItsOwn(t *testing.T) {
	root, outer := t.TempDir(), t.TempDir()
	s := surroundings{root: root, dir: root}
	for path, want := range map[string]string{"": plainPath, root: plainPath, ".": plainPath, root + "/bin:" + outer + "::rel": outer} {
		env := s.vettedEnviron([]string{"PATH=" + path})
		if got, _ := getenv(env, "PATH"); got != want {
			t.Errorf("%q: %q", path, got)
		}
	}
	for _, kv := range []string{"BASH_ENV=x", "ENV=x", "LD_PRELOAD=x", "GIT_DIR=x", "GIT_EXTERNAL_DIFF=x", "RIPGREP_CONFIG_PATH=x", "LESSOPEN=x", "GCONV_PATH=x", "LOCPATH=x", "MAGIC=x", "GREP_OPTIONS=x", "POSIXLY_CORRECT=1",
		"BASH_FUNC_ls%%=() { x; }", "SHELLOPTS=x", "TAR_OPTIONS=x", "API_KEY=x", "HOME=" + root, "XDG_CONFIG_HOME=" + root} {
		if slices.Contains(s.vettedEnviron([]string{kv}), kv) {
			t.Errorf("%s is there", kv)
		}
	}
	for _, kv := range []string{"HOME=" + outer, "LANG=C.UTF-8", "LC_ALL=C", "TERM=xterm"} {
		if !slices.Contains(s.vettedEnviron([]string{kv}), kv) {
			t.Errorf("%s is not there", kv)
		}
	}
}

func FuzzIndex(f *testing.F) {
	f.Add([]byte("DIRC\x00\x00\x00\x02\x00\x00\x00\x00" + strings.Repeat("\x00", 20)))
	f.Add([]byte("DIRC\x00\x00\x00\x04\x00\x00\x00\x01" + strings.Repeat("\x00", 100)))
	f.Fuzz(func(t *testing.T, data []byte) { plainIndex(data) })
}
