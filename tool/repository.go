package tool

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Git runs programs that the configuration of a repository names: a file
// system monitor, hooks, pagers, filters, drivers for differences. So a
// repository that somebody packed runs code at git status. A command of git is
// vetted only where the configuration has nothing but what is known to be
// data, and it runs with the rest turned off.

// dataSettings are settings of a repository that name no program, and no file
// with more settings.
var dataSettings = []string{
	"core.repositoryformatversion", "core.filemode", "core.bare", "core.logallrefupdates", "core.ignorecase", "core.precomposeunicode", "core.symlinks",
	"core.autocrlf", "core.eol", "core.safecrlf", "core.quotepath", "core.abbrev",
	"remote.url", "remote.fetch", "remote.pushurl", "remote.tagopt", "remote.prune", "remote.gh-resolved",
	"branch.remote", "branch.merge", "branch.rebase", "branch.description", "branch.vscode-merge-base", "branch.gh-merge-base",
	"user.name", "user.email", "pull.rebase", "pull.ff", "push.default", "push.autosetupremote", "init.defaultbranch", "color.ui",
	"extensions.worktreeconfig", "extensions.objectformat", "lfs.repositoryformatversion", "gc.auto",
}

// maxGitConfig bounds a configuration that is read.
const maxGitConfig = 256 << 10

var (
	gitSection = regexp.MustCompile(`^\[([A-Za-z0-9-]+)( "[^"\\]*")?\]$`)
	gitSetting = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9-]*)[ \t]*(=[^\x00-\x08\x0b-\x1f]*)?$`)
)

// safeRepository reports whether git, started in a folder, finds no
// configuration that could name a program. Every repository above counts,
// because git skips those that it takes for broken, and so do submodules,
// which have a configuration of their own.
func safeRepository(dir string) bool {
	for {
		at := filepath.Join(dir, ".git")
		if _, err := os.Lstat(at); err == nil && !safeGitDir(at) {
			return false
		}
		if _, err := os.Lstat(filepath.Join(dir, ".gitmodules")); err == nil {
			return false
		}
		if parent := filepath.Dir(dir); parent != dir {
			dir = parent
			continue
		}
		return true
	}
}

// safeGitDir is safeRepository for one .git, a folder or a file that names one.
func safeGitDir(at string) bool {
	info, err := os.Stat(at)
	if err != nil {
		return false
	}
	if !info.IsDir() {
		to, ok := pointer(at, "gitdir: ")
		if !ok {
			return false
		}
		at = to
	}
	dirs := []string{at}
	if _, err := os.Lstat(filepath.Join(at, "commondir")); err == nil {
		common, ok := pointer(filepath.Join(at, "commondir"), "")
		if !ok {
			return false
		}
		dirs = append(dirs, common)
	}
	for _, dir := range dirs {
		// An empty one is a sandbox's, which keeps the name from being taken.
		if has, err := os.ReadDir(filepath.Join(dir, "modules")); err == nil && len(has) > 0 || err != nil && !os.IsNotExist(err) {
			return false
		}
		for _, name := range []string{"config", "config.worktree"} {
			if !safeGitConfig(filepath.Join(dir, name)) {
				return false
			}
		}
	}
	return true
}

// pointer reads a file that holds the path of a folder.
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
// A line that git might read otherwise makes it unsafe.
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
			m := gitSection.FindStringSubmatch(line)
			if m == nil {
				return false
			}
			section = strings.ToLower(m[1])
		default:
			m := gitSetting.FindStringSubmatch(line)
			if m == nil || !slices.Contains(dataSettings, section+"."+strings.ToLower(m[1])) {
				return false
			}
		}
	}
	return true
}

// gitOff turns off what git runs by itself, also where a file was changed
// since it was looked at.
var gitOff = [][2]string{
	{"core.fsmonitor", "false"}, {"core.hooksPath", os.DevNull}, {"core.pager", "cat"}, {"safe.bareRepository", "explicit"},
	{"diff.ignoreSubmodules", "all"}, {"status.submoduleSummary", "false"}, {"log.showSignature", "false"}, {"protocol.allow", "never"},
}

// vettedEnviron is the environment of a vetted command: nothing that a shell,
// a loader or git takes programs from, and no PATH into the workspace.
func (s surroundings) vettedEnviron(base []string) []string {
	var env []string
	for _, kv := range base {
		name, value, _ := strings.Cut(kv, "=")
		upper := strings.ToUpper(name)
		switch {
		case upper == "PATH":
			env = append(env, name+"="+s.outerPath(value))
		case upper == "ENV", upper == "PAGER", upper == "RIPGREP_CONFIG_PATH", strings.HasPrefix(upper, "BASH"), strings.HasPrefix(upper, "GIT_"),
			strings.HasPrefix(upper, "LD_"), strings.HasPrefix(upper, "DYLD_"), strings.HasPrefix(upper, "GREP_"), upper == "SHELLOPTS", !isVariable(name) && strings.Contains(name, "%"):
		default:
			env = append(env, kv)
		}
	}
	env = append(env, "PAGER=cat", "GIT_PAGER=cat", "GIT_OPTIONAL_LOCKS=0", "GIT_NO_LAZY_FETCH=1", "GIT_TERMINAL_PROMPT=0", fmt.Sprintf("GIT_CONFIG_COUNT=%d", len(gitOff)))
	for i, c := range gitOff {
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, c[0]), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, c[1]))
	}
	return env
}

// outerPath is a PATH without folders of the workspace, where the agent could
// have put a program with the name of a vetted one.
func (s surroundings) outerPath(path string) string {
	var kept []string
	for _, dir := range filepath.SplitList(path) {
		real, err := filepath.EvalSymlinks(dir)
		if err != nil || !filepath.IsAbs(dir) {
			continue
		}
		root, err := filepath.EvalSymlinks(s.root)
		if _, in := below(root, real); err != nil || in {
			continue
		}
		kept = append(kept, dir)
	}
	return strings.Join(kept, string(os.PathListSeparator))
}
