// Package project finds which project a folder belongs to, and what identifies a
// project wherever it is. It reads folders and runs git; it changes nothing, and
// it lets no repository start a program.
//
//	folder = project.At(folder, home)
package project

import (
	"context"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark/internal/durable"
	"github.com/tidemark-sessions/tidemark/internal/expression"
)

// At is the project of a folder: the root of the work tree, or else the folder
// itself. It is named by its real path, whatever links lead to it, as the
// imported tools record it. A folder that is not on this machine keeps its name
// as written. home is the home folder of the user, "" if unknown.
func At(folder, home string) string {
	if folder == "" || !Exists(folder) {
		return folder
	}
	if path, err := filepath.Abs(folder); err == nil {
		folder = path
	}
	if path, err := filepath.EvalSymlinks(folder); err == nil {
		folder = path
	}
	return WorkTree(folder, home)
}

// WorkTree is the root of the work tree that contains a folder, or the folder
// itself. A .git above it that belongs to somebody else, or is not a repository,
// does not count; and a home folder, / or a folder that everybody may write to
// is too wide to be a work tree, whatever is in it.
func WorkTree(folder, home string) string {
	for dir := folder; ; dir = filepath.Dir(dir) {
		if IsWorkTree(dir, home) {
			return dir
		}
		if dir == filepath.Dir(dir) {
			return folder
		}
	}
}

// Allowed reports whether a folder may be a project at all: not /, not the home
// folder, and not one that everybody may write to.
func Allowed(dir, home string) bool {
	if dir == filepath.Dir(dir) {
		return false
	}
	if home != "" {
		if real, err := filepath.EvalSymlinks(home); err == nil {
			home = real
		}
		if dir == home {
			return false
		}
	}
	info, err := os.Stat(dir)
	return err == nil && info.Mode()&os.ModeSticky == 0
}

// IsWorkTree reports whether a folder is the root of a work tree of this user, and
// may be a project.
func IsWorkTree(dir, home string) bool { return Allowed(dir, home) && hasGit(dir) }

// gitHead matches the content of git's HEAD: a branch, or a commit.
var gitHead = expression.WhenNeeded(`^(ref: refs/\S+|[0-9a-f]{40}|[0-9a-f]{64})\s*$`)

// hasGit reports whether a folder is the root of a work tree of this user.
func hasGit(dir string) bool { return headOf(dir) != "" }

// headOf is the HEAD of the work tree whose root a folder is: refs/… for a branch,
// or the hash of a commit; "" for any other folder.
func headOf(dir string) string {
	git := filepath.Join(dir, ".git")
	info, err := os.Lstat(git)
	if err != nil || !durable.OwnedByUs(info) {
		return ""
	}
	if info.Mode().IsRegular() { // a linked work tree, or a submodule
		to, ok := strings.CutPrefix(readShort(git), "gitdir: ")
		if !ok {
			return ""
		}
		if git = strings.TrimSpace(to); !filepath.IsAbs(git) {
			git = filepath.Join(dir, git)
		}
		if info, err = os.Stat(git); err != nil || !durable.OwnedByUs(info) {
			return ""
		}
	}
	head := filepath.Join(git, "HEAD")
	info, err = os.Lstat(head)
	if err == nil && info.Mode()&os.ModeSymlink != 0 { // as old versions of git made it
		to, err := os.Readlink(head)
		if err != nil || !strings.HasPrefix(to, "refs/") {
			return ""
		}
		return to
	}
	if err != nil || !info.Mode().IsRegular() {
		return ""
	}
	text := readShort(head)
	if !gitHead().MatchString(text) {
		return ""
	}
	return strings.TrimPrefix(strings.TrimSpace(text), "ref: ")
}

// Branch is the branch that a work tree is on, the beginning of a hash when it is
// on none, and "" for a folder that is not a work tree.
func Branch(folder string) string {
	head := headOf(folder)
	if name, ok := strings.CutPrefix(head, "refs/heads/"); ok {
		return name
	}
	return head[:min(len(head), 8)]
}

// readShort is the beginning of a small file, "" when it cannot be read.
func readShort(name string) string {
	f, err := os.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	b, _ := io.ReadAll(io.LimitReader(f, 4<<10))
	return string(b)
}

// gitTimeout bounds how long git may search for the beginning of a history: longer
// than a busy machine needs to start it, and than the longest histories take.
const gitTimeout = 3 * time.Second

// Marks are what identifies a project wherever it is: its remote, and the first
// commit of its history. A folder that is not a work tree, or a machine without
// git, has none. An error says that there was no time to find out. environ is passed
// to git, without variables that would point it elsewhere.
func Marks(ctx context.Context, folder string, environ []string) ([]string, error) {
	if !hasGit(folder) {
		return nil, nil
	}
	ctx, stop := context.WithTimeout(ctx, gitTimeout)
	defer stop()
	git := func(args ...string) string {
		out, err := gitCommand(ctx, folder, environ, args...).Output()
		if err != nil {
			return ""
		}
		first, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
		return first
	}
	var marks []string
	if remote := RemoteMark(git("config", "--get", "remote.origin.url")); remote != "" {
		marks = append(marks, remote)
	}
	// First parents lead to one root, whatever else was merged, which is a short
	// way through a large history.
	if root := git("rev-list", "--max-parents=0", "--first-parent", "HEAD"); root != "" {
		marks = append(marks, "root:"+root)
	}
	return marks, ctx.Err()
}

// gitCommand is git in a folder, so that nothing in the repository can start a
// program.
func gitCommand(ctx context.Context, folder string, environ []string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", folder, "-c", "core.fsmonitor=false"}, args...)...)
	cmd.Env = gitEnviron(environ)
	cmd.WaitDelay = gitTimeout // a child of git may keep its output open
	return cmd
}

// gitEnviron is the environment of git: nothing that points it to another
// repository, and nothing that lets the configuration of the repository start a
// program. A repository that claims to be a partial clone would otherwise be
// completed by a command that it names.
func gitEnviron(environ []string) []string {
	kept := slices.DeleteFunc(slices.Clone(environ), func(s string) bool {
		return strings.HasPrefix(s, "GIT_") && !strings.HasPrefix(s, "GIT_CONFIG_")
	})
	return append(kept, "GIT_ALLOW_PROTOCOL=none", "GIT_NO_LAZY_FETCH=1", "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0")
}

// RemoteMark is the mark of a remote: the same for all the ways to write its
// address, and without a name or password in it.
func RemoteMark(address string) string {
	address = strings.TrimSpace(address)
	if address == "" || strings.HasPrefix(address, "/") || strings.HasPrefix(address, ".") {
		return "" // a path means nothing once things were moved
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

// Real is a path without links, as tools name their folders; unchanged where that is
// not known.
func Real(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

// Exists reports whether there is something at a path.
func Exists(path string) bool {
	_, err := os.Stat(path)
	return !os.IsNotExist(err)
}
