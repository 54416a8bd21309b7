package tool

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark/internal/expression"
)

// Git runs programs that the configuration of a repository names: a file
// system monitor, hooks, pagers, filters, diff drivers. So in a repository
// that somebody packed, git status can run code. A git command is vetted only
// where the configuration contains nothing but settings known to be data, and
// it runs with the rest turned off.

// dataSettings are settings of a repository that name neither a program nor a
// file with more settings.
var dataSettings = []string{
	"core.repositoryformatversion", "core.filemode", "core.bare", "core.logallrefupdates", "core.ignorecase", "core.precomposeunicode", "core.symlinks",
	"core.autocrlf", "core.eol", "core.safecrlf", "core.quotepath", "core.abbrev",
	"remote.url", "remote.fetch", "remote.pushurl", "remote.tagopt", "remote.prune", "remote.gh-resolved",
	"branch.remote", "branch.merge", "branch.rebase", "branch.description", "branch.vscode-merge-base", "branch.gh-merge-base",
	"user.name", "user.email", "pull.rebase", "pull.ff", "push.default", "push.autosetupremote", "init.defaultbranch", "color.ui",
	"extensions.worktreeconfig", "lfs.repositoryformatversion", "gc.auto",
}

// maxGitConfig bounds a configuration that is read.
const maxGitConfig = 256 << 10

var (
	gitSection = expression.WhenNeeded(`^\[([A-Za-z0-9-]+)( "[^"\\]*")?\]$`)
	gitSetting = expression.WhenNeeded(`^([A-Za-z][A-Za-z0-9-]*)[ \t]*(=[^\x00-\x08\x0b-\x1f]*)?$`)
)

// safeRepository reports whether git, started in the shell's directory,
// finds no configuration that could name a program, and no history but that
// of the workspace. Every repository above counts, because git skips those
// that it considers broken.
func (s surroundings) safeRepository() bool {
	ours, above := false, false
	for dir := s.dir; ; dir = filepath.Dir(dir) {
		if bareRepository(dir) || exists(dir, ".gitmodules") {
			return false
		}
		if exists(dir, ".git") {
			if !safeGitDir(filepath.Join(dir, ".git")) {
				return false
			}
			_, in := below(s.root, dir)
			ours, above = ours || in, above || !in
		}
		if dir == filepath.Dir(dir) {
			return ours || !above
		}
	}
}

func exists(dir, name string) bool {
	_, err := os.Lstat(filepath.Join(dir, name))
	return err == nil
}

// bareRepository reports whether git may take a folder itself for a
// repository. Not all versions know the setting that prevents it.
func bareRepository(dir string) bool {
	return exists(dir, "HEAD") && exists(dir, "objects") && exists(dir, "refs")
}

// safeGitDir is safeRepository for one .git, a folder or a file that names one.
// Another place is read only when it names this one as its worktree; otherwise
// a file that was unpacked here would show another project.
func safeGitDir(at string) bool {
	info, err := os.Lstat(at)
	if err != nil {
		return false
	}
	if info.IsDir() {
		return !exists(at, "commondir") && safeGitFolder(at)
	}
	to, ok := pointer(at, "gitdir: ")
	if !info.Mode().IsRegular() || !ok {
		return false
	}
	back, known := pointer(filepath.Join(to, "gitdir"), "")
	common, shared := pointer(filepath.Join(to, "commondir"), "")
	trees := filepath.Dir(to)
	return known && shared && samePlace(back, at) && filepath.Base(trees) == "worktrees" && samePlace(common, filepath.Dir(trees)) && safeGitFolder(to) && safeGitFolder(common)
}

// samePlace reports whether two paths are the same file.
func samePlace(a, b string) bool {
	x, err := filepath.EvalSymlinks(a)
	y, err2 := filepath.EvalSymlinks(b)
	return err == nil && err2 == nil && x == y
}

// safeGitFolder reports whether a git folder is complete by itself and
// contains nothing that runs: no submodules, which have their own
// configuration, no objects of other repositories, no links.
func safeGitFolder(dir string) bool {
	// An empty one belongs to a sandbox that reserves the name.
	if has, err := os.ReadDir(filepath.Join(dir, "modules")); len(has) > 0 || err != nil && !os.IsNotExist(err) {
		return false
	}
	return !exists(dir, filepath.Join("objects", "info", "alternates")) && !exists(dir, filepath.Join("objects", "info", "http-alternates")) &&
		safeGitConfig(filepath.Join(dir, "config")) && safeGitConfig(filepath.Join(dir, "config.worktree")) && safeIndex(filepath.Join(dir, "index")) && linkless(dir)
}

// maxGitEntries bounds how much of a git folder is examined.
const maxGitEntries = 50_000

// linkless reports whether no link leads out of a git folder: git status
// prints parts of files in it. Single objects are named by their content, so
// whoever links to one knows it already; hooks are turned off.
func linkless(dir string) bool {
	n := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if n++; err != nil || n > maxGitEntries || !d.IsDir() && !d.Type().IsRegular() && d.Type()&fs.ModeSocket == 0 {
			return cmp.Or(err, fs.ErrInvalid)
		}
		if rel, _ := filepath.Rel(dir, path); d.IsDir() && (rel == "hooks" || rel == "lfs" || filepath.Dir(rel) == "objects" && len(d.Name()) == 2) {
			return fs.SkipDir
		}
		return nil
	})
	return err == nil
}

// pointer reads a file that contains the path of a folder.
func pointer(file, prefix string) (string, bool) {
	data, ok := smallFile(file)
	to, has := strings.CutPrefix(strings.TrimRight(data, "\r\n"), prefix)
	if !ok || !has || to == "" || strings.Contains(to, "\n") {
		return "", false
	}
	if !filepath.IsAbs(to) {
		to = filepath.Join(filepath.Dir(file), to)
	}
	return to, true
}

func smallFile(name string) (string, bool) {
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxGitConfig {
		return "", false
	}
	data, err := os.ReadFile(name)
	return string(data), err == nil
}

// safeGitConfig reports whether all settings of a file are known to be data.
// A line that git might read differently makes it unsafe.
func safeGitConfig(name string) bool {
	if _, err := os.Lstat(name); os.IsNotExist(err) {
		return true
	}
	text, ok := smallFile(name)
	if !ok {
		return false
	}
	section := ""
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.Trim(line, " \t\r")
		switch {
		case strings.HasSuffix(line, `\`):
			return false
		case line == "" || line[0] == '#' || line[0] == ';':
		case line[0] == '[':
			m := gitSection().FindStringSubmatch(line)
			if m == nil {
				return false
			}
			section = strings.ToLower(m[1])
		default:
			m := gitSetting().FindStringSubmatch(line)
			if m == nil || !slices.Contains(dataSettings, section+"."+strings.ToLower(m[1])) {
				return false
			}
		}
	}
	return true
}

// gitOff turns off what git runs by itself, also where a file has changed
// since it was checked.
var gitOff = [][2]string{
	{"core.fsmonitor", "false"}, {"core.hooksPath", os.DevNull}, {"core.pager", "cat"}, {"safe.bareRepository", "explicit"}, {"diff.ignoreSubmodules", "all"}, {"diff.submodule", "short"},
	{"diff.autoRefreshIndex", "false"}, {"status.submoduleSummary", "false"}, {"submodule.recurse", "false"}, {"log.showSignature", "false"}, {"protocol.allow", "never"},
}

// vettedVariables are the only variables that vetted programs get. Any other
// may be read as a program, an option or a place to load code from.
var vettedVariables = []string{"HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TERM", "TZ", "TMPDIR", "XDG_CONFIG_HOME", "SYSTEMROOT", "USERPROFILE", "TEMP", "TMP", "PATHEXT"}

// plainPath is the PATH when the environment has none.
const plainPath = "/usr/local/bin:/usr/bin:/bin"

// vettedEnviron is the environment of a vetted command: no PATH into the
// workspace, and nothing that a shell, a loader or git runs as code.
func (s surroundings) vettedEnviron(base []string) []string {
	path, _ := getenv(base, "PATH")
	// Without a PATH, or with an empty one, bash looks in the current folder.
	env := []string{"PATH=" + cmp.Or(s.outerPath(path), plainPath)}
	for _, kv := range base {
		name, value, _ := strings.Cut(kv, "=")
		upper := strings.ToUpper(name)
		if !slices.Contains(vettedVariables, upper) && !strings.HasPrefix(upper, "LC_") || filepath.IsAbs(value) && s.within(value) {
			continue // git would read settings from the workspace
		}
		env = append(env, kv)
	}
	env = append(env, "PAGER=cat", "GIT_PAGER=cat", "GIT_OPTIONAL_LOCKS=0", "GIT_NO_LAZY_FETCH=1", "GIT_TERMINAL_PROMPT=0", "GIT_CEILING_DIRECTORIES="+filepath.Dir(s.root),
		fmt.Sprintf("GIT_CONFIG_COUNT=%d", len(gitOff)))
	for i, c := range gitOff {
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, c[0]), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, c[1]))
	}
	return env
}

// outerPath is a PATH without folders of the workspace, where the agent could
// have put a program with the name of a vetted one.
func (s surroundings) outerPath(path string) string {
	kept := slices.DeleteFunc(filepath.SplitList(path), func(dir string) bool {
		return !filepath.IsAbs(dir) || s.within(dir)
	})
	return strings.Join(kept, string(os.PathListSeparator))
}

// within reports whether a folder is in the workspace, or cannot be examined.
func (s surroundings) within(dir string) bool {
	real, err := filepath.EvalSymlinks(dir)
	root, rootErr := filepath.EvalSymlinks(s.root)
	_, in := below(root, real)
	return err != nil || rootErr != nil || in
}
