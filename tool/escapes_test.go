package tool

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

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

// moreEscapes came of reading the table and the matcher as an attacker.
var moreEscapes = map[string][]string{
	"what bash expands or reads differently": {
		"ls {a..c}", "ls a{,b}", "ls {a,--color=auto}", "ls !(a)", "ls ?(a)", "ls +(a)", "ls *(a)", "ls a*", "ls [!a]", "ls [[:alpha:]]", "ls ~+", "ls ~-", "ls ~1", "ls ~nobody", "ls a:~", "ls --x=~/y",
		"ls !!", "ls !$", "ls !-1", "^ls^rm", "ls $'\\x2d\\x6c'", "ls $'\\055o'", `ls $"a"`, "ls \"$'x'\"", `ls "\$x"`, `ls "a\"b"`, `ls a\ b`, `ls \-l`, "ls -\\l", "ls ${IFS}x", "ls${IFS}-l", "ls $IFS", "ls $@", "ls $*", "ls $#", "ls $?", "ls $-", "ls $$", "ls $!", "ls $0", "ls $1", "ls $_",
		"ls ${x:-$(y)}", "ls ${!x}", "ls ${x@P}", "ls ${x[$(y)]}", "ls $[1+1]", "ls $((a[$(x)]))", "ls \"${x}\"", "ls \"$((1))\"", "ls $(<a)", "ls `<a`", "ls <(ls)", "cat =(ls)", "ls >(cat)", "ls \"`x`\"", "ls '$x'\"$x\"",
		"ls\\\n-l", "ls\r\n", "ls\r", "ls \r-l", "ls\v-l", "ls\f-l", "ls\x85-l", "ls\u2003-l", "ls\u200b", "ls \ufeffa", "\ufeffls", "ls \xff", "ls '\xff'", "ls \"\xc3\"", "ls \x00", "ls 'a\x00b'", "ls 'a\nb'", "ls \"a\nb\"", "ls 'a\x1bb'", "ls \u2028rm", "ls \uff0d\uff4f", "ѕort a", "1s", "Ls", "LS",
	},
	"other commands of the shell": {
		"time -p ls", "! ls | cat", "coproc x { ls; }", "x() ls", "function x() (ls)", "ls;;", "ls |", "| ls", "&& ls", "ls &&", "ls ||| cat", "ls ; ; ls", "ls & ls &", "ls & disown", "(ls)", "( ls ) | cat", "{ ls; } | cat", "[[ -f a ]] && ls", "[[ -v a[$(x)] ]]", "((1)) && ls", "let a=1 && ls", "until ls; do ls; done", "for ((;;)); do ls; done",
		"case x in *) ls;; esac", "if ls; then cat a; fi", "ls | while read x; do ls; done", "ls | (cat)", "ls | { cat; }", "ls | xargs cat", "ls | sh", "ls | tee x", "ls && eval x", "ls && . a", "ls && exec cat", "ls && cd ..", "ls && export A=b", "ls && unset PATH", "ls && shift", "ls && return", "ls && exit", "ls && kill 1", "ls && bg", "ls && fg", "ls && jobs -x ls", "ls && suspend", "ls && logout",
		"a=b", "a=(b c) ls", "a+=b ls", "a[0]=b ls", "a[$(x)]=b ls", "a=$(x) ls", "declare -n a=b", "typeset a", "local a", "readonly a=b", "export -f ls", "readarray -C x -c 1 a", "mapfile a", "read -r -p x a", "exec -a x ls", "builtin ls", "command -p ls", "command -v ls", "env -S ls", "caller", "dirs", "popd", "disown -a", "help -m", "variables", "-ls", "--", "-", "%1", "%ls", ":", ": $(x)", "[ a ]", "test -e a",
	},
	"redirections": {
		"ls >/dev/tty", "ls >/dev/stdout", "ls >/dev/fd/1", "ls >/dev/nullx", "ls > /dev/null/../x", "ls >'/dev/null'x", "ls >\"/dev/null\"", "ls >$x", "ls >&2", "ls 2>&3", "ls 1>&2", "ls 3>&1", "ls 2>&-", "ls <&-", "ls >&-", "ls <&0", "ls </dev/null", "ls 0</dev/null", "cat </dev/tcp/127.0.0.1/80", "cat 3<>/dev/tcp/127.0.0.1/80", "cat >/dev/udp/127.0.0.1/53",
		"ls &>>x", "ls >!x", "ls 2>>x", "ls 10>/dev/null", "ls {fd}>/dev/null", "cat <<x\n$(y)\nx", "cat <<'x'\ny\nx", "cat <<-x\n\ty\n\tx", "cat <<<$(x)", "cat <<<'x'", "cat <a", "> x", "2>&1", ">/dev/null", "ls 2>&1 >x", "ls >/dev/null >x",
	},
	"options by beginnings, values, places and clusters": {
		"git diff -U --output=x", "git log -U --output=x", "git show -U --ext-diff", "git diff -U", "git diff -wU --output=x", "git diff -pU --textconv", "git log --format=%+G?", "git log --format='% G?'", "git log --pretty=%-GK", "git show --format='%<(9)%GG'", "git log --pretty=format:%h%+GS", "git log --date=format:%G", "git show --pretty='%+GF'",
		"git diff --ext", "git diff --text", "git diff --no-ind a b", "git diff --outpu=x", "git diff --output x", "git log --output-directory=x", "git diff -o x", "git diff -O x", "git diff -Ox", "git log -Ox", "git log --stdin", "git log --show-sig", "git show --show-signature", "git log -g", "git log --walk-reflogs", "git log --remerge-diff", "git log --submodule=diff", "git diff --submodule=log", "git diff --ignore-submodules=none", "git status --ignore-submodules=none", "git status -u", "git status --column", "git status -z", "git status --find-renames",
		"git blame --cont=/etc/passwd a", "git blame --ignore-revs-file=/etc/passwd a", "git blame -S /etc/passwd a", "git ls-files -X /etc/passwd", "git ls-files --exclude-from=/etc/passwd -o", "git ls-files --recurse-submodules", "git ls-files --with-tree=x", "git rev-parse --parseopt", "git rev-parse --sq-quote x", "git rev-parse --resolve-git-dir /x", "git describe --dirty", "git describe --broken", "git shortlog --output=x", "git tag -v x", "git tag --verify x", "git tag -l --format=%x", "git branch --edit-description", "git branch -d x", "git branch --list x", "git branch -vD x", "git remote show origin", "git remote -v update", "git remote prune x", "git status --no-optional-locks x/../..",
		"sort -ro x a", "sort a -o x", "sort -ox a", "sort --output=x a", "sort --out=x a", "sort -no x", "sort -S 1 a", "sort --parallel=9 a", "sort --random-source=/etc/passwd a", "sort --batch-size=2 a", "sort -c a", "sort -m a", "sort -z a", "sort --debug a", "uniq - x", "uniq -c a x", "uniq -f 1 a b", "tail -5f a", "tail -nf a -F", "tail --follow=name a", "tail --fol a", "tail --pid=1 a", "tail -F a", "tail --retry a", "head --lin=1 a", "cat --show-all a", "cat -u a", "wc --files0-from=- a", "wc --files0=x", "ls --dereference", "ls --deref x", "ls -H x", "ls -lL", "ls -laLR", "ls --hyperlink", "ls --time-style=+x", "du -L", "du -D x", "du -X /etc/passwd", "du --exclude-from=/etc/passwd", "stat --printf=x a", "stat -f a", "stat -Lc %n a", "file -z a", "file -S a", "file -C -m x", "file -M x", "file -p a", "file --mime a", "sha256sum --check a", "md5sum -c a", "cmp -i 1 a b", "cut -z a", "cut --output-delimiter=x a", "nl -d x a", "tr -dC a", "date -f a", "date --file=/etc/passwd", "date -r /etc/passwd", "date +%s", "date -d x", "uname --help", "nproc --all", "which -s x", "echo -e x", "echo -ne x", "pwd -P", "pwd x", "true x", "basename -a x", "dirname -z x", "whoami x",
		"grep -e a /etc/passwd", "grep -ea /etc/passwd", "grep --file=/etc/passwd a", "grep -rf/etc/passwd a", "grep -nf /etc/passwd a", "grep -Rn a", "grep -nR a .", "grep --dereference-recursive a", "grep -P '(?{x})' a", "grep --include-from=x a", "grep --exclude-from=/etc/passwd a b", "grep -D read a b", "grep -U a b", "grep a - /etc/passwd", "grep a -- /etc/passwd", "grep -- a /etc/passwd", "grep -A 1 a /etc/passwd", "rg -e a /etc", "rg --pre-glob x a", "rg --search-zip a", "rg -uuu a /", "rg --follow a", "rg -nL a", "rg --ignore-file /etc/passwd a", "rg --type-add x a", "rg --debug a", "rg --files", "rg -0l a", "rg -r x a", "rg -P a", "rg --passthru a /etc/passwd", "rg --path-separator x a", "rg --generate man", "rg --engine=pcre2 a",
	},
	"programs and subcommands that are not in the table": {
		"git", "git a", "git -- status", "git --no-pager log", "git --version", "git -v", "git --bare status", "git --namespace=x log", "git --super-prefix=x status", "git --literal-pathspecs status", "git add a", "git apply a", "git am a", "git annotate a", "git archive HEAD", "git bundle create x HEAD", "git cat-file --textconv HEAD:a", "git cat-file --filters HEAD:a", "git cat-file -p HEAD", "git check-attr x a", "git checkout .", "git cherry-pick x", "git clean -fd", "git column x", "git commit-tree x", "git config -l", "git config --get x", "git credential fill", "git daemon", "git diff-files", "git diff-index HEAD", "git diff-tree HEAD", "git difftool", "git fast-export --all", "git fetch", "git for-each-ref --shell", "git for-each-repo --config=x status", "git format-patch HEAD~1", "git fsck", "git gc", "git grep a", "git gui", "git hash-object -w a", "git init x", "git instaweb", "git interpret-trailers a", "git maintenance run", "git merge x", "git mergetool", "git mv a b", "git notes add", "git pack-objects x", "git pull", "git push", "git range-diff a b", "git reflog", "git remote-ext x y", "git replace a b", "git request-pull a b", "git reset", "git restore a", "git revert x", "git rm a", "git shell -c x", "git show-ref", "git sh-i18n--envsubst x", "git sparse-checkout list", "git stash list", "git submodule status", "git switch x", "git symbolic-ref HEAD", "git update-index --refresh", "git update-ref x y", "git upload-pack .", "git var GIT_EDITOR", "git verify-commit x", "git web--browse x", "git whatchanged", "git worktree list", "git write-tree",
		"bat a", "less -f a", "more a", "most a", "view a", "vi a", "nano a", "emacs a", "ex a", "man ls", "info ls", "tree", "fd -x ls", "fdfind a -X x", "locate a", "ag a", "ack a", "jq . a", "jq -n env", "yq . a", "xxd a x", "od a", "hexdump a", "strings a", "base64 a", "diff a b", "diff --to-file=/etc/passwd a", "comm a b", "join a b", "paste a b", "split a", "csplit a", "fold a", "column a", "pr a", "tac a", "rev a", "shuf a -o x", "tsort a", "expand a", "readlink -f a", "realpath a", "df", "mount", "ps e", "env", "printenv", "id", "w", "who", "last", "hostname", "ip a", "ss", "netstat", "ping h", "nc h 1", "socat a b", "telnet h", "ftp h", "crontab -l", "at now", "systemctl status", "journalctl", "dmesg", "lsof", "fuser a", "gdb a", "ldd a", "nm a", "objdump -d a", "readelf -a a", "openssl version", "gpg --version", "ssh-add -l", "ssh-keygen -y", "npm ls", "npm -v", "yarn -v", "pip list", "python3 --version", "python3 -V", "node -v", "ruby -v", "cargo --version", "rustc -V", "go list", "go env", "gofmt -d a", "go doc x", "java -version", "mvn -v", "gradle -v", "cmake --version", "gcc --version", "make -n", "terraform version", "kubectl version", "docker ps", "podman ps", "gh pr list", "code .", "xdg-open a", "open a",
	},
	"files that are not of the workspace": {
		"cat /proc/self/environ", "cat /proc/1/environ", "cat /dev/stdin", "cat /dev/fd/0", "head -c 99 /dev/urandom", "cat //etc/passwd", "cat ./../x", "cat .//..//x", "cat a/b/../../../x", "cat ..", "ls ..", "ls ../", "ls -la ../..", "ls -- ..", "du -sh ..", "cat -- /etc/passwd", "cat - /etc/passwd", "cat a /etc/passwd", "cat link/../passwd", "cat ./link/passwd", "ls link", "ls link/", "ls ./link/.", "head -n1 link/passwd", "wc -l link/passwd", "grep -r a link", "grep -r a link/", "rg a link", "stat link", "file link", "du link", "sha256sum link/passwd", "sort link/passwd", "cut -c1 link/passwd", "nl link/passwd", "cmp a link/passwd", "cat file", "cat deep/file", "tail deep/../file",
		"git diff -- link/passwd", "git diff HEAD:a /etc/passwd", "git log -- ../x", "git status ..", "git ls-files ../", "git blame ../x", "git show HEAD:../x /etc/passwd", "git diff link/passwd a", "cat '../x'", `cat "../x"`, "cat '/etc/passwd'", `cat "/etc/passwd"`, "cat '~/x'/../../../x", "cat '~root/x'",
	},
}

func everyEscape() []string {
	all := slices.Clone(escapes)
	for _, class := range slices.Sorted(maps.Keys(moreEscapes)) {
		all = append(all, moreEscapes[class]...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// alike are commands of the lists that do nothing but look at a pipe or at a
// folder that is not there: they show that a list is tried, and are no escapes.
var alike = []string{"tr", "nl -"}

func TestNoEscapeHasAVettedForm(t *testing.T) {
	b := newBox(t, Options{Shell: "/bin/bash"})
	for name, to := range map[string]string{"link": "/etc", "file": "/etc/passwd", "deep/file": "/etc/passwd"} {
		at := filepath.Join(b.o.Root, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, at); err != nil {
			t.Fatal(err)
		}
	}
	all := everyEscape()
	for _, command := range all {
		if scope, _ := b.Find("bash").Asks(commandInput(command)); len(Forms(scope)) > 0 && !slices.Contains(alike, command) {
			t.Errorf("%q is vetted as %q", command, scope)
		}
	}
	t.Logf("%d escapes", len(all)-len(alike))
}

func TestNoScopeOfOneCommandReadsLikeThatOfAnother(t *testing.T) {
	s := surroundings{root: "/r", dir: "/r"}
	long := strings.Repeat("x", 501)
	sub := func(dir string) surroundings { return surroundings{root: "/r", dir: dir} }
	scopes := make(map[string]string)
	for what, scope := range map[string]string{
		"a long command":                   s.scopeIn(long),
		"a command that reads like it":     s.scopeIn(strings.TrimPrefix(s.scopeIn(long), "exactly: ")),
		"make in a folder":                 sub("/r/a").scopeIn("make"),
		"a command that reads like that":   s.scopeIn(strings.TrimPrefix(sub("/r/a").scopeIn("make"), "exactly: ")),
		"another folder, another command":  sub(`/r/a": b`).scopeIn("make"),
		"that folder and the rest of both": sub("/r/a").scopeIn(`b": make`),
		"a folder with a colon":            sub("/r/a: b").scopeIn("c"),
		"a folder without":                 sub("/r/a").scopeIn("b: c"),
		"of a form in its text":            s.scopeIn("vetted: ls"),
	} {
		if other, there := scopes[scope]; there || len(Forms(scope)) > 0 {
			t.Errorf("%s and %s: %s", what, other, scope)
		}
		scopes[scope] = what
	}
}
