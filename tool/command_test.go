package tool

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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

// escapes are commands that begin like harmless ones and run, write or read
// something else.
var escapes = []string{
	// options that run programs
	"git -c core.fsmonitor=./x status", "git -c core.pager=./x log", "git --exec-path=. status", "git -p log", "git --paginate log", "git -C /tmp status",
	"git --git-dir=x status", "git --work-tree=/ status", "git --config-env=core.pager=X log", "git diff --ext-diff", "git log --textconv", "git show --textconv HEAD",
	"git log --show-signature", "git log --format=%G?", "git log --pretty=%GK", "git grep -O./x a", "git grep --open-files-in-pager=x a", "git bisect run ./x",
	"git rebase -x ./x HEAD", "git submodule foreach ./x", "git difftool -x ./x", "git ls-remote ext::sh", "git fetch --upload-pack=./x", "git clone x", "git help -w",
	"git config core.pager x", "git config alias.status '!x'", "git status2", "git archive --exec=x HEAD", "git send-email x", "git filter-branch x", "git stash", "git hook run x",
	"tar --checkpoint=1 --checkpoint-action=exec=./x -cf a b", "tar -I ./x -xf a", "tar --to-command=./x -xf a", "tar -cf a --use-compress-program=./x b",
	"find . -exec ./x ;", "find . -delete", "find . -fprint x", "env ./x", "xargs ./x", "awk 'BEGIN{system(\"x\")}'", "sed -n '1e x' a", "sed 's/a/x/e' a", "sed -i s/a/b/ c", "sed 'w x' a",
	"sort --compress-program=./x -S1 a", "sort --compress-pro=./x a", "sort -o x a", "sort -T . a", "sort --files0-from=a", "rg --pre ./x a", "rg --pre=./x a", "rg --hostname-bin ./x a", "rg -z a",
	"man -P ./x ls", "less a", "vim -c '!x' a", "python3 -c 'x'", "node -e x", "perl -e x", "ruby -e x", "make", "npm run x", "npx x", "go vet -vettool=./x", "go build -toolexec=./x", "go version", "go env -w A=b",
	"ssh -o ProxyCommand=x h", "scp -S ./x a b", "rsync -e ./x a b", "curl -o x u", "wget u", "docker run x", "time ls", "nohup ls", "timeout 1 ls", "nice ls", "stdbuf -o0 ls", "watch ls", "script x", "strace ls",
	"sudo ls", "su -c ls", "busybox ls", "sh -c ls", "bash -c ls", "bash x", "./ls", "/bin/ls", "../ls", "zip a b -TT x", "ed a", "dd of=x", "tee x", "cp a b", "mv a b", "ln -s a b", "touch a", "install a b",
	// builtins that evaluate, and those that change the shell
	"printf -v 'a[$(x)]' 1", "printf %s x", "test -v 'a[$(x)]'", "[ -v 'a[$(x)]' ]", "[[ -v a[0] ]]", "read x", "mapfile -C x a", "eval ls", "source a", ". a", "exec ls", "command ls", "builtin echo x", "trap x EXIT",
	"alias ls=x", "unset a", "declare a=1", "export PATH=.", "let 'a[$(x)]=1'", "set -x", "shopt -s extglob", "enable -f x y", "hash -p ./x ls", "cd x", "cd x && git status", "pushd x", "wait -n", "complete -C x", "compgen -C x",
	"ulimit -c 1", "umask 0", "getopts a b", "type ls", "times", "history -r a", "fc -s", "bind -x a", "coproc ls", "ls() { x; }", "function ls { x; }",
	// what the shell expands
	"ls $(x)", "ls `x`", `ls "$(x)"`, "ls \"`x`\"", "ls $x", `ls "$x"`, "ls ${x}", "ls $((1))", "ls $'x'", `ls $"x"`, "ls <(x)", "ls >(x)", "ls *", "ls ?", "ls [a]", "ls {a,b}", "ls {1..2}", "ls ~", "ls ~root", "ls a=~", `ls \*`, `l\s`,
	"'ls'", `"ls"`, "l's'", "$x", "ls !x", "ls @(a)", "cat -- *",
	// redirections, assignments, lists, jobs, comments, control characters
	"ls > x", "ls >> x", "ls >| x", "ls &> x", "ls 2> x", "ls >& x", "ls < /etc/passwd", "cat << E\nx\nE", "cat <<< x", "ls 3>x", "ls {a}>x", "ls > /dev/tcp/h/1", "ls <> x",
	"PATH=. ls", "A=1 ls", "LD_PRELOAD=x ls", "A[$(x)]=1 ls", "A=1", "ls; x", "ls && x", "ls || x", "ls | x", "ls |& cat", "ls & cat", "ls &", "! ls", "(ls)", "{ ls; }", "if ls; then ls; fi", "while ls; do ls; done", "for a in b; do ls; done",
	"case a in a) ls;; esac", "select a in b; do ls; done", "((a=1))", "ls\nx", "ls\rx", "ls\x00x", "ls \x1b[2K", "ls \u007f", "ls\u00a0-l", "ls \u202ex", "ls # x", "# x", "ls '", `ls "`, "ls \\\nx", "ls ;; x",
	// files that are not of the workspace, and options by their beginning
	"cat /etc/passwd", "cat ../x", "cat a/../../x", "cat ~/.ssh/id", "cat link", "cat link/passwd", "ls /", "head -c 9 /etc/shadow", "grep -r a /etc", "grep -f /etc/passwd a", "grep -R a", "wc --files0-from=x", "git diff /etc/passwd a", "git diff --no-index a b",
	"git log --output=x", "git log --outpu=x", "git diff --outp=x", "git blame --contents /etc/passwd a", "git branch x", "git branch -D x", "git tag x", "git tag -d x", "git remote add a b", "git remote update", "date 01010000", "date -s x", "hostname x",
	"uniq a b", "uname -x", "tail -f a", "ls -L", "stat -L a", "file -m x a", "file -f x", "du --files0-from=x", "sha256sum -c a", "rg --files /etc", "rg -f x", "tr", "cat -z", "nl -", "ls --color=always -Z",
}

func TestNoEscapeHasAVettedForm(t *testing.T) {
	b := newBox(t, Options{Shell: "/bin/bash"})
	if err := os.Symlink("/etc", filepath.Join(b.o.Root, "link")); err != nil {
		t.Fatal(err)
	}
	harmless := map[string]bool{"tr": true, "nl -": true} // they wait for a pipe, and are no escapes
	for _, command := range escapes {
		if scope, _ := b.Find("bash").Asks(commandInput(command)); len(Forms(scope)) > 0 && !harmless[command] {
			t.Errorf("%q is vetted as %q", command, scope)
		}
	}
	t.Logf("%d escapes", len(escapes))
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
		t.Skip("there is no git here")
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
	if _, err := try(t, t.Context(), b, "bash", m{"command": "git status"}); err != nil {
		t.Error(err)
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
	if scope, _ := b.Find("bash").Asks(commandInput("make")); scope != "exactly: in "+filepath.Join(b.o.Root, "sub")+": make" {
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
	if vetted == 0 {
		t.Error("nothing was vetted, so nothing was tried")
	}
}

func FuzzVettedCommand(f *testing.F) {
	for _, command := range escapes {
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
