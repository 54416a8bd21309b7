package sandbox_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark/internal/sandbox"
)

// gitIn runs git outside, as the person does.
func gitIn(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always", "-c", "init.defaultBranch=main"}, args...)...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// TestGitWorksAndWhatItRunsStays does in the sandbox what people do with git, in
// each kind of place that git has, and tries to leave there what git would run
// for the person later.
func TestGitWorksAndWhatItRunsStays(t *testing.T) {
	needSandbox(t)
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	home, lib, repo := base+"/home", base+"/lib", base+"/repo"
	for _, dir := range []string{home, lib, repo} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{lib, repo} {
		gitIn(t, dir, "init", "-q")
		gitIn(t, dir, "commit", "-q", "--allow-empty", "-m", "first")
	}
	gitIn(t, repo, "submodule", "add", "-q", lib, "lib")
	gitIn(t, repo, "commit", "-q", "-m", "with a submodule")
	gitIn(t, repo, "worktree", "add", "-q", base+"/tree")
	gitIn(t, repo, "worktree", "add", "-q", base+"/other")
	for _, c := range []struct{ name, root, git string }{
		{"a repository", repo, repo + "/.git"},
		{"a linked worktree", base + "/tree", repo + "/.git"},
		{"a submodule", repo + "/lib", repo + "/.git/modules/lib"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := sandbox.Policy{Root: c.root, Home: home}
			out, code := confined(t, p, "/bin/sh", "-c", `set -e; echo x >x; git add x; git -c user.name=a -c user.email=a@b commit -qm second; git status --porcelain; git branch -f topic; git log --format=%s -1`)
			if code != 0 || out != "second\n" {
				t.Errorf("exit code %d: %s", code, out)
			}
			for _, attack := range []string{
				"echo evil >" + c.git + "/hooks/pre-commit",
				"echo evil >>" + c.git + "/config",
				"git config core.fsmonitor evil",
				"mkdir -p " + c.git + "/modules/x && echo evil >" + c.git + "/modules/x/config",
				"echo evil >" + repo + "/.git/worktrees/other/commondir",
				"echo evil >" + repo + "/.git/worktrees/other/gitdir",
				"echo gitdir: /tmp/evil >.git",
				"mkdir -p " + c.git + "/worktrees/x && echo evil >" + c.git + "/worktrees/x/commondir",
			} {
				if out, code := confined(t, p, "/bin/sh", "-c", attack); code == 0 {
					t.Errorf("%s: %s", attack, out)
				}
			}
			for _, name := range []string{"modules/x", "worktrees/x"} {
				if _, err := os.Lstat(filepath.Join(c.git, name)); err == nil {
					t.Errorf("%s is there", name)
				}
			}
			if got := gitIn(t, c.root, "log", "--format=%s", "-1"); got != "second\n" {
				t.Errorf("outside, the last commit is %q", got)
			}
		})
	}
}

// TestAGitFileOpensNoFolderOfItsChoice: the folder that a .git names has to be
// the project's.
func TestAGitFileOpensNoFolderOfItsChoice(t *testing.T) {
	needSandbox(t)
	w, _ := newWorld(t)
	project := w.Base + "/stranger"
	for name, text := range map[string]string{"work/victim/.git/worktrees/x/HEAD": "", "work/victim/.git/worktrees/x/gitdir": w.Base + "/work/victim2/.git\n", "work/victim/.git/HEAD": "",
		"work/victim/.git/config": "[core]\n\tworktree = ../../victim\n", "stranger/x": ""} {
		path := filepath.Join(w.Base, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{w.Home + "/.ssh", w.Base + "/work/victim/.git/worktrees/x", w.Base + "/work/victim/.git", "../work/victim/.git"} {
		if err := os.WriteFile(project+"/.git", []byte("gitdir: "+dir+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		p := sandbox.Policy{Root: project, Home: w.Home}
		if out, code := confined(t, p, "/bin/sh", "-c", "ls -A "+w.Home+"/.ssh "+w.Base+"/work/victim"); code == 0 {
			t.Errorf("gitdir: %s opened it: %s", dir, out)
		}
	}
}
