package main

import (
	"context"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// project is the folder that sessions made here belong to: the root of the
// work tree, or else the current folder.
func (a *app) project() string {
	here, err := os.Getwd()
	if err != nil {
		return ""
	}
	return projectAt(here)
}

// projectAt is the project that a folder is in, by the one path that it has
// whatever links lead to it: so does every tool record it whose sessions come
// in. A folder that is not here, as that of a session from another machine, is
// called as it is written.
func projectAt(folder string) string {
	if folder == "" || !thereIs(folder) {
		return folder
	}
	if path, err := filepath.Abs(folder); err == nil {
		folder = path
	}
	if path, err := filepath.EvalSymlinks(folder); err == nil {
		folder = path
	}
	return workTree(folder)
}

// workTree is the root of the work tree that a folder is in, or the folder
// itself.
func workTree(folder string) string {
	for dir := folder; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, ".git")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			return folder
		}
	}
}

// gitPatience bounds how long git may look for the beginning of a history. One
// that is so long that this does not suffice has an address, most likely.
const gitPatience = 300 * time.Millisecond

// projectMarks are what a project is known by wherever it lies: the address
// that it is fetched from, and the first commit of its history. A folder that
// is no work tree, or a machine without git, has none.
func projectMarks(ctx context.Context, folder string) []string {
	if _, err := os.Stat(filepath.Join(folder, ".git")); err != nil {
		return nil
	}
	ctx, stop := context.WithTimeout(ctx, gitPatience)
	defer stop()
	git := func(args ...string) string {
		cmd := exec.CommandContext(ctx, "git", append([]string{"-C", folder, "-c", "core.fsmonitor=false"}, args...)...)
		cmd.Env = gitEnviron(os.Environ())
		cmd.WaitDelay = gitPatience // what git started may keep its output open
		out, err := cmd.Output()
		if err != nil {
			return ""
		}
		first, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
		return first
	}
	var marks []string
	if remote := remoteMark(git("config", "--get", "remote.origin.url")); remote != "" {
		marks = append(marks, remote)
	}
	// The first parents lead to one root, whatever else was merged in, and that
	// is a short way through a large history.
	if root := git("rev-list", "--max-parents=0", "--first-parent", "HEAD"); root != "" {
		marks = append(marks, "root:"+root)
	}
	return marks
}

// gitEnviron is what git gets to know: nothing that leads it to another
// repository than the one that is asked about, and nothing that lets the
// configuration of that repository start a program. A repository that claims to
// be a part of another one would else be completed by a command that it names.
func gitEnviron(environ []string) []string {
	kept := slices.DeleteFunc(slices.Clone(environ), func(s string) bool {
		return strings.HasPrefix(s, "GIT_") && !strings.HasPrefix(s, "GIT_CONFIG_")
	})
	return append(kept, "GIT_ALLOW_PROTOCOL=none", "GIT_NO_LAZY_FETCH=1", "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0")
}

// remoteMark is the mark of an address: the same for all the ways to write it,
// and without a name or password that may be in it.
func remoteMark(address string) string {
	address = strings.TrimSpace(address)
	if address == "" || strings.HasPrefix(address, "/") || strings.HasPrefix(address, ".") {
		return "" // a path says nothing once things were moved
	}
	if !strings.Contains(address, "://") {
		host, path, ok := strings.Cut(address, ":")
		if !ok {
			return ""
		}
		address = "ssh://" + host + "/" + path
	}
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" {
		return ""
	}
	path := strings.TrimSuffix(strings.Trim(u.Path, "/"), ".git")
	return "remote:" + strings.ToLower(u.Hostname()+"/"+path)
}

// thereIs reports whether something lies at a path.
func thereIs(path string) bool {
	_, err := os.Stat(path)
	return !os.IsNotExist(err)
}
