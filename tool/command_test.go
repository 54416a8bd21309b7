package tool

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestAnApprovalCoversAVettedFormOrThisVeryCommand(t *testing.T) {
	b := newBox(t, Options{Shell: "/bin/bash"})
	long := "echo " + strings.Repeat("$", 600)
	for command, want := range map[string]string{
		"git status":                          "vetted: git status",
		"  git   status -sb --  a.go":         "vetted: git status",
		"git log --oneline -5 HEAD~2":         "vetted: git log",
		`git log --grep="a; b" --format='%h'`: "vetted: git log",
		"git diff main..feature/x -- a.go":    "vetted: git diff",
		"git status && git log | head -n 3":   "vetted: git log, git status, head",
		"ls -la 2>/dev/null":                  "vetted: ls",
		"grep -rn 'a$(b)' . 2>&1 | wc -l":     "vetted: grep, wc",
		"sort -k2,2 -t: a.txt":                "vetted: sort",
		"ls -1":                               "vetted: ls",
		"git diff -U5 --unified=3 -- a.go":    "vetted: git diff",
		"git show 'HEAD^{tree}' HEAD:a.go":    "vetted: git show",
		"head -20 a.go && tail -n +3 -- -a":   "vetted: head, tail",
		"git commit -m x":                     "exactly: git commit -m x",
		"make test":                           "exactly: make test",
		"go test ./...":                       "exactly: go test ./...",
		" make":                               "exactly:  make",
		"git\nrm x":                           "exactly: git\nrm x",
		"":                                    "exactly: ",
		long:                                  ExactScope(long),
	} {
		if got, ask := b.Find("bash").Asks(commandInput(command)); got != want || !ask {
			t.Errorf("%q: scope %q, ask %v; want %q", command, got, ask, want)
		}
	}
	if s := ExactScope(long); len(s) > 200 || s == ExactScope(long+" ") {
		t.Error(s)
	}
}

func commandInput(command string) json.RawMessage {
	input, _ := json.Marshal(m{"command": command})
	return input
}

func TestEveryRowOfTheTableHasAReasonAndWorks(t *testing.T) {
	s := surroundings{root: t.TempDir()}
	s.dir = s.root
	for _, f := range forms {
		if f.reason == "" || s.formOf(strings.Fields(f.name)) != f.name {
			t.Errorf("%+v", f)
		}
		for _, option := range []string{"--exec=x", "--output=x", "--pre=x", "--config=x", "--help", "-@"} {
			if s.formOf(append(strings.Fields(f.name), option)) != "" {
				t.Errorf("%s %s is vetted", f.name, option)
			}
		}
	}
}

// hostileConfigs are configurations of a repository that make git run
// something, or that git might read otherwise than we do.
var hostileConfigs = []string{
	"[core]\n\tfsmonitor = ./x", "[core] fsmonitor = ./x", "[CORE]\nFSMonitor=./x", "[core]\nhooksPath = .", "[core]\npager = ./x", "[core]\nsshCommand = ./x", "[core]\nworktree = /",
	"[core]\nbare = false\\\n\n", "[diff]\nexternal = ./x", "[diff \"a\"]\ntextconv = ./x", "[diff \"a\"]\ncommand = ./x", "[filter \"a\"]\nclean = ./x", "[filter \"a\"]\nprocess = ./x", "[include]\npath = ../x",
	"[includeIf \"gitdir:/\"]\npath = x", "[alias]\nstatus = !x", "[pager]\nlog = ./x", "[gpg]\nprogram = ./x", "[log]\nshowSignature = true", "[remote \"a\"]\npromisor = true", "[extensions]\npartialClone = a",
	"[credential]\nhelper = ./x", "[core.a]\nb = c", "[core\n]", "\ufeff[core]\nfsmonitor = ./x", "[submodule \"a\"]\nupdate = !x", "[remote \"a\"]\nuploadpack = ./x", "[core]\n\teditor = x", "[interactive]\ndiffFilter = x",
}

func TestGitIsVettedOnlyWhereTheRepositoryNamesNoProgram(t *testing.T) {
	asks := func(b *Box) string {
		scope, _ := b.Find("bash").Asks(commandInput("git status"))
		return scope
	}
	write := func(name, text string) {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	fine := "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n[remote \"origin\"]\n\turl = git@example.org:a/b.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n; a comment\n[branch \"main\"]\n\tremote = origin\n"
	b := newBox(t, Options{Shell: "/bin/bash"})
	config := filepath.Join(b.o.Root, ".git", "config")
	write(config, fine)
	if got := asks(b); got != "vetted: git status" {
		t.Error(got)
	}
	for _, hostile := range hostileConfigs {
		write(config, fine+hostile+"\n")
		if got := asks(b); got != "exactly: git status" {
			t.Errorf("%q: %s", hostile, got)
		}
	}
	write(config, fine)
	write(filepath.Join(b.o.Root, ".gitmodules"), "")
	if got := asks(b); got != "exactly: git status" {
		t.Error("with submodules:", got)
	}
	// A worktree has its configuration elsewhere.
	b = newBox(t, Options{Shell: "/bin/bash"})
	main := t.TempDir()
	write(filepath.Join(b.o.Root, ".git"), "gitdir: "+filepath.Join(main, "worktrees", "a")+"\n")
	write(filepath.Join(main, "worktrees", "a", "commondir"), "../..\n")
	write(filepath.Join(main, "config"), fine)
	if got := asks(b); got != "exactly: git status" {
		t.Error("a repository that does not know of this folder:", got)
	}
	write(filepath.Join(main, "worktrees", "a", "gitdir"), filepath.Join(b.o.Root, ".git")+"\n")
	if got := asks(b); got != "vetted: git status" {
		t.Error(got)
	}
	write(filepath.Join(main, "config"), hostileConfigs[0])
	if got := asks(b); got != "exactly: git status" {
		t.Error(got)
	}
}

// A folder that is a repository by itself, without .git, is found by git as
// well; its monitor must not run.
func TestVettedGitRunsNothingOfABareRepositoryInTheTree(t *testing.T) {
	b := shellBox(t, Options{})
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("git is not installed")
	}
	if out, err := exec.CommandContext(t.Context(), git, "init", "-q", "--bare", b.o.Root).CombinedOutput(); err != nil {
		t.Fatal(err, string(out))
	}
	ran := filepath.Join(t.TempDir(), "ran")
	if out, err := exec.CommandContext(t.Context(), git, "-C", b.o.Root, "config", "core.fsmonitor", "touch "+ran+";false").CombinedOutput(); err != nil {
		t.Fatal(err, string(out))
	}
	if out, err := exec.CommandContext(t.Context(), git, "-C", b.o.Root, "config", "core.bare", "false").CombinedOutput(); err != nil {
		t.Fatal(err, string(out))
	}
	if scope, _ := b.Find("bash").Asks(commandInput("git status")); len(Forms(scope)) > 0 {
		t.Error(scope)
	}
	// Also when it became one after it was looked at.
	cmd := exec.CommandContext(t.Context(), git, "status")
	cmd.Dir, cmd.Env = b.o.Root, b.shell.surroundings().vettedEnviron(os.Environ())
	if out, err := cmd.CombinedOutput(); err == nil {
		t.Errorf("%s", out)
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("the monitor ran")
	}
}

func TestAVettedCommandIsNotWhatAnEarlierOneMadeOfIt(t *testing.T) {
	b := shellBox(t, Options{})
	if err := os.WriteFile(filepath.Join(b.o.Root, "cat"), []byte("#!/bin/sh\necho planted\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	res, err := try(t, t.Context(), b, "bash", m{"command": `ls() { echo planted; }; shopt -s expand_aliases; alias wc='echo planted'; export PATH="$PWD:$PATH" BASH_ENV="$PWD/cat"; mkdir sub; echo hello > sub/a; cd sub`})
	if err != nil || res.IsError {
		t.Fatal(res, err)
	}
	for command, want := range map[string]string{"ls": "a\n", "cat a": "hello\n", "cat a | wc -l": "1\n"} {
		if res, err := try(t, t.Context(), b, "bash", m{"command": command}); err != nil || strings.TrimLeft(res.Text, " ") != want {
			t.Errorf("%s: %v %q", command, err, res.Text)
		}
	}
	if res, err := try(t, t.Context(), b, "bash", m{"command": "cat none"}); err != nil || !res.IsError || !strings.Contains(res.Text, "[exit code 1]") {
		t.Errorf("%v %+v", err, res)
	}
	if scope, _ := b.Find("bash").Asks(commandInput("make")); scope != "exactly: in "+strconv.Quote(filepath.Join(b.o.Root, "sub"))+": make" {
		t.Error(scope)
	}
}

func TestPythonIsApprovedByItsCode(t *testing.T) {
	b := newBox(t, Options{Python: "/usr/bin/python3"})
	python := b.Find("python")
	one, _ := python.Asks(json.RawMessage(`{"code":"print(1)"}`))
	two, _ := python.Asks(json.RawMessage(`{"code":"print(2)"}`))
	if one != "exactly: print(1)" || one == two {
		t.Error(one, two)
	}
}

// shim is a folder with a program for each name, all of which only write down
// that they ran.
type shim struct{ bash, dir, work, log string }

func newShim(t testing.TB) shim {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash here")
	}
	s := shim{bash: bash, dir: t.TempDir(), work: t.TempDir()}
	s.log = filepath.Join(s.dir, "log")
	names := strings.Fields("x sh env xargs awk sed find tar rm touch tee python3 node make go sudo sort2 a b")
	for _, f := range forms {
		names = append(names, strings.Fields(f.name)[0])
	}
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte("#!"+bash+"\nbuiltin printf '%s\\n' \"${0##*/}\" >> "+s.log+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"a", "--checkpoint-action=exec=x", "-o"} {
		if err := os.WriteFile(filepath.Join(s.work, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// check runs a command that is vetted, and reports every program that ran
// without being one of its forms, and every file that appeared.
func (s shim) check(t interface {
	Errorf(string, ...any)
	Fatal(...any)
}, command string) (vetted bool) {
	forms := surroundings{root: s.work, dir: s.work}.vetted(command)
	if forms == nil {
		return false
	}
	if err := os.WriteFile(s.log, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	before, _ := os.ReadDir(s.work)
	cmd := exec.Command(s.bash, "--noprofile", "--norc", "-c", command)
	cmd.Dir, cmd.Env = s.work, []string{"PATH=" + s.dir, "x=$(x)"}
	_ = cmd.Run() // how it ends does not matter, only what it ran
	ran, err := os.ReadFile(s.log)
	if err != nil {
		t.Fatal(err)
	}
	for _, program := range strings.Fields(string(ran)) {
		if !slices.ContainsFunc(forms, func(f string) bool { return strings.Fields(f)[0] == program }) {
			t.Errorf("%q is vetted as %q and ran %s", command, forms, program)
		}
	}
	if after, _ := os.ReadDir(s.work); len(after) != len(before) {
		t.Errorf("%q is vetted as %q and made a file", command, forms)
	}
	return true
}

func TestOnlyVettedProgramsRun(t *testing.T) {
	s := newShim(t)
	pieces := []string{"git status", "git log", "git", "ls", "cat", "sort", "head", "echo", "x", "a", "-l", "-n", "1", "-o", "--", "-", "|", "&&", "||", ";", "&", ">", "2>&1", "2>/dev/null", "'x'", `"x"`, `"$(x)"`, "$(x)", "`x`",
		"$x", "*", "~", "HEAD~1", "a=b", "\\", "\n", "#", "(", ")", "{", "}", "!", "<(x)", "'$(x)'", "'", `"`, "\t", "env", "--format=%h", "@{u}", "a{b,c}"}
	vetted := 0
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.SampledFrom(pieces), 1, 7).Draw(t, "words")
		if s.check(t, strings.Join(words, rapid.SampledFrom([]string{" ", " ", " ", ""}).Draw(t, "between"))) {
			vetted++
		}
	})
	if vetted == 0 && !testing.Short() { // the two trials of make quick may both miss
		t.Error("nothing was vetted, so nothing was tried")
	}
}

func FuzzVettedCommand(f *testing.F) {
	for _, command := range everyEscape() {
		f.Add(command)
	}
	for _, command := range []string{"git status && ls -l | head -n 3", `echo "a b" 'c;d' 2>&1`, "cat a 2>/dev/null || true"} {
		f.Add(command)
	}
	s := newShim(f)
	f.Fuzz(func(t *testing.T, command string) { s.check(t, command) })
}

func TestTheProgramsOfACommandAreKnownOnlyWhenItIsOne(t *testing.T) {
	for command, want := range map[string]string{"rm -r x": "rm, all", "/bin/rm x": "rm, all", "rm x; ls": "rm ls", "$x": "", "env rm": "env", "A=1 rm": "rm", "rm $x": "rm", "ls | rm": "ls rm", "": "", "'": "",
		"if true; then rm x; fi": "true rm", "ls $(rm x)": "ls rm", "rm > x": "rm"} {
		names, all := Programs(command)
		got := strings.Join(names, " ")
		if all {
			got += ", all"
		}
		if got != want {
			t.Errorf("%q: %q, want %q", command, got, want)
		}
	}
}
