package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// mount is one step in making the root of a sandbox.
type mount struct {
	Kind mountKind
	From string // source of a bind and an overlay, without symbolic links; target of a link
	To   string
}

type mountKind string

const (
	bindRead   mountKind = "read"
	bindWrite  mountKind = "write"
	bindDevice mountKind = "device"
	overlaid   mountKind = "overlay" // reads From, holds writes in memory
	copied     mountKind = "copy"    // a file; writes to it stay in memory
	empty      mountKind = "tmpfs"   // writable, in memory
	hidden     mountKind = "hidden"  // nothing, and nothing can be put there
	link       mountKind = "link"
	processes  mountKind = "proc"
	terminals  mountKind = "devpts"
)

// mounts returns how to make the root of a sandbox, and what is writable in it.
func (p Policy) mounts() (steps []mount, writable []string) {
	add := func(kind mountKind, from, to string) {
		if real, err := filepath.EvalSymlinks(from); err == nil {
			steps = append(steps, mount{kind, real, to})
		}
	}
	for _, path := range systemPaths {
		if target, err := os.Readlink(path); err == nil {
			steps = append(steps, mount{link, target, path})
		} else {
			add(bindRead, path, path)
		}
	}
	for _, name := range etcPaths {
		add(bindRead, "/etc/"+name, "/etc/"+name)
	}
	for _, name := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
		add(bindDevice, "/dev/"+name, "/dev/"+name)
	}
	for name, target := range map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx"} {
		steps = append(steps, mount{link, target, "/dev/" + name})
	}
	steps = append(steps, mount{terminals, "", "/dev/pts"}, mount{empty, "", "/dev/shm"}, mount{processes, "", "/proc"}, mount{empty, "", "/tmp"}, mount{empty, "", "/var/tmp"})
	opened, writable := p.opened()
	steps = append(steps, opened...)
	guards, folders := guarded(p.Root)
	for _, path := range p.Hide {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			guards = append(guards, mount{hidden, real, real})
		}
	}
	return append(steps, guards...), slices.Concat([]string{"/tmp", "/var/tmp", "/dev", p.Home}, writable, folders)
}

// opened returns the mounts of what a policy names. A mount further down covers
// the one above, so it comes later; what is named twice is read-only.
func (p Policy) opened() (steps []mount, writable []string) {
	steps = append(steps, mount{empty, "", filepath.Clean(p.Home)})
	add := func(kind mountKind, path string) {
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			return
		}
		switch info, err := os.Stat(real); {
		case err == nil && kind == overlaid && !info.IsDir():
			kind = copied
		case kind == overlaid && strings.ContainsAny(real, `,:\`): // its name cannot be passed to an overlay
			kind = bindRead
		}
		steps = append(steps, mount{kind, real, real})
		if kind == bindWrite {
			writable = append(writable, real)
		}
		// Programs that ask the kernel for their working directory get the real
		// path.
		if clean := filepath.Clean(path); clean != real {
			steps = append(steps, mount{link, real, clean})
		}
	}
	for _, path := range p.Forget {
		add(overlaid, path)
	}
	for _, path := range slices.Concat([]string{p.Root}, p.Write) {
		add(bindWrite, path)
	}
	for _, path := range p.Read {
		add(bindRead, path)
	}
	slices.SortStableFunc(steps, func(a, b mount) int { return strings.Compare(a.To+"/", b.To+"/") })
	at := slices.IndexFunc(steps, func(s mount) bool { return s.Kind == empty })
	return slices.Insert(steps, at+1, p.belowHome()...), writable
}

// belowHome returns the mounts in the otherwise empty home.
func (p Policy) belowHome() (steps []mount) {
	for kind, names := range map[mountKind][]string{bindRead: toolchains, overlaid: caches} {
		for _, name := range names {
			to := filepath.Join(p.Home, name)
			if real, err := filepath.EvalSymlinks(to); err == nil && (kind == bindRead || !strings.ContainsAny(real, `,:\`)) {
				steps = append(steps, mount{kind, real, to})
			}
		}
	}
	return steps
}

// guarded returns the mounts that keep what is Protected unchanged. .git is
// mounted onto itself, so that it cannot be renamed together with its content.
func guarded(root string) (steps []mount, writable []string) {
	root, err := filepath.EvalSymlinks(root)
	if err != nil {
		return nil, nil
	}
	keep := func(path string) { steps = append(steps, mount{bindRead, path, path}) }
	if git := filepath.Join(root, ".git"); isDir(git) {
		kind := bindRead // no repository: none can be made here unseen
		if _, err := os.Lstat(filepath.Join(git, "HEAD")); err == nil {
			kind = bindWrite
		}
		steps = append(steps, mount{kind, git, git})
	} else if dirs := gitDirs(root); dirs != nil {
		keep(git)
		for _, dir := range dirs {
			steps = append(steps, mount{bindWrite, dir, dir})
			writable = append(writable, dir)
			for _, name := range gitGuarded {
				if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
					keep(filepath.Join(dir, name))
				}
			}
		}
	}
	for _, name := range Protected {
		path := filepath.Join(root, name)
		if info, err := os.Lstat(path); err != nil || info.Mode()&os.ModeSymlink != 0 && name != ".git/hooks" {
			continue
		}
		keep(path)
	}
	return steps, writable
}

// gitGuarded are the parts of a git folder outside the project that must stay
// unchanged: what git runs, and where it looks for that.
var gitGuarded = []string{"hooks", "config", "config.worktree", "commondir", "gitdir", "modules", "worktrees"}

// gitDirs returns the folders in which git keeps what belongs to a project whose
// .git is a file: the repository's and its own for a linked worktree, its own
// for a submodule. The folder has to name the project in turn, so that a forged
// .git cannot open an arbitrary folder.
func gitDirs(root string) []string {
	b, err := os.ReadFile(filepath.Join(root, ".git"))
	dir, ok := strings.CutPrefix(strings.TrimSpace(string(b)), "gitdir: ")
	if err != nil || !ok {
		return nil
	}
	own, err := filepath.EvalSymlinks(from(root, dir))
	if err != nil {
		return nil
	}
	if _, err := os.Stat(filepath.Join(own, "HEAD")); err != nil {
		return nil
	}
	if filepath.Base(filepath.Dir(own)) != "worktrees" {
		if names, err := os.ReadFile(filepath.Join(own, "config")); err == nil && isWorktreeOf(string(names), own, root) {
			return []string{own}
		}
		return nil
	}
	back, err := os.ReadFile(filepath.Join(own, "gitdir"))
	if err != nil || !isSame(from(own, strings.TrimSpace(string(back))), filepath.Join(root, ".git")) {
		return nil
	}
	common := filepath.Dir(filepath.Dir(own))
	if _, err := os.Stat(filepath.Join(common, "HEAD")); err != nil {
		return nil
	}
	return []string{common, own}
}

// isWorktreeOf reports whether the configuration of a git folder says that its
// work tree is root, as that of a submodule does.
func isWorktreeOf(config, dir, root string) bool {
	for line := range strings.Lines(config) {
		name, value, _ := strings.Cut(line, "=")
		if strings.EqualFold(strings.TrimSpace(name), "worktree") {
			return isSame(from(dir, strings.TrimSpace(value)), root)
		}
	}
	return false
}

// from returns a path as seen from a folder.
func from(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// isSame reports whether two paths lead to the same file.
func isSame(a, b string) bool {
	x, err := filepath.EvalSymlinks(a)
	y, err2 := filepath.EvalSymlinks(b)
	return err == nil && err2 == nil && x == y
}

// rootBase is a folder that every system has; the new root is made over it.
const rootBase = "/usr"

// makeRoot makes the root of the sandbox and enters it. Everything that is
// mounted from outside is opened first, without following symbolic links:
// another program may change the project at the same time.
func makeRoot(steps []mount) error {
	err := makePrivate()
	if errors.Is(err, unix.EINVAL) {
		err = leaveChroot()
	}
	if err != nil {
		return fmt.Errorf("mount namespace: %w", err)
	}
	trees := make([]int, len(steps))
	for i, s := range steps {
		trees[i] = -1
		open := openTree
		switch s.Kind {
		case copied:
			open = openFile
		case bindRead, bindWrite, bindDevice:
		default:
			continue
		}
		tree, err := open(s)
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.EACCES) {
			continue // it is gone, or was never readable
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s.From, err)
		}
		trees[i] = tree
	}
	uppers, err := mountOverlays(steps)
	if err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", rootBase, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755"); err != nil {
		return fmt.Errorf("tmpfs: %w", err)
	}
	if err := unix.Chdir(rootBase); err != nil {
		return err
	}
	for i, s := range steps {
		if tree, ok := uppers[i]; ok {
			trees[i] = tree
		}
		if err := s.apply(trees[i]); err != nil {
			return fmt.Errorf("%s %s: %w", s.Kind, s.To, err)
		}
		if trees[i] >= 0 {
			unix.Close(trees[i])
		}
	}
	if err := unix.MountSetattr(unix.AT_FDCWD, ".", 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
		return fmt.Errorf("read-only root: %w", err)
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot_root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("old root: %w", err)
	}
	return unix.Chdir("/")
}

// makePrivate keeps mounts made here from spreading to other namespaces.
func makePrivate() error { return unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") }

// leaveChroot handles a chroot whose root is a folder of some mount: only mounts
// can be made private, and only a mount can be the old root. So it goes up to
// the true root of this namespace for a moment, mounts the folder onto itself
// and enters it.
func leaveChroot() error {
	folder, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(folder)
	// A process that is outside its root is not stopped by it on the way up.
	if err := errors.Join(unix.Chroot(rootBase), unix.Fchdir(folder)); err != nil {
		return err
	}
	for {
		var here, above unix.Stat_t
		if err := errors.Join(unix.Stat(".", &here), unix.Stat("..", &above)); err != nil {
			return err
		}
		if here.Dev == above.Dev && here.Ino == above.Ino {
			break
		}
		if err := unix.Chdir(".."); err != nil {
			return err
		}
	}
	if err := errors.Join(unix.Chroot("."), makePrivate(), unix.Fchdir(folder), unix.Chroot(".")); err != nil {
		return err
	}
	tree, err := unix.OpenTree(unix.AT_FDCWD, "/", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	return errors.Join(unix.MoveMount(tree, "", unix.AT_FDCWD, "/", unix.MOVE_MOUNT_F_EMPTY_PATH), unix.Fchdir(tree), unix.Chroot("."))
}

// openTree opens the source of a bind mount, as a tree that can be mounted
// anywhere.
func openTree(s mount) (int, error) {
	fd, err := unix.Openat2(unix.AT_FDCWD, s.From, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return -1, err
	}
	defer unix.Close(fd)
	tree, err := unix.OpenTree(fd, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH|unix.AT_RECURSIVE)
	if err != nil {
		return -1, err
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
	switch s.Kind {
	case bindRead:
		attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
	case bindDevice:
		attr.Attr_set = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NOEXEC
	}
	return tree, unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr)
}

// openFile opens the source of a copy.
func openFile(s mount) (int, error) {
	return unix.Openat2(unix.AT_FDCWD, s.From, &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK, Resolve: unix.RESOLVE_NO_SYMLINKS})
}

// mountOverlays mounts the overlays on an unused folder and detaches them from
// there, because an overlay names its layers by paths of the old root. On a
// kernel without overlays the caches are left out.
func mountOverlays(steps []mount) (map[int]int, error) {
	made := make(map[int]int)
	if !slices.ContainsFunc(steps, func(s mount) bool { return s.Kind == overlaid }) {
		return made, nil
	}
	if err := unix.Mount("tmpfs", rootBase, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0700"); err != nil {
		return nil, fmt.Errorf("tmpfs: %w", err)
	}
	defer unix.Unmount(rootBase, unix.MNT_DETACH)
	for i, s := range steps {
		if s.Kind != overlaid {
			continue
		}
		top := fmt.Sprintf("%s/%d", rootBase, i)
		for _, dir := range []string{top, top + "/upper", top + "/work", top + "/all"} {
			if err := unix.Mkdir(dir, 0o700); err != nil {
				return nil, err
			}
		}
		options := fmt.Sprintf("userxattr,lowerdir=%s,upperdir=%s/upper,workdir=%s/work", s.From, top, top)
		if unix.Mount("overlay", top+"/all", "overlay", unix.MS_NOSUID|unix.MS_NODEV, options) != nil {
			continue
		}
		tree, err := unix.OpenTree(unix.AT_FDCWD, top+"/all", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
		if err == nil {
			made[i] = tree
		}
	}
	return made, nil
}

// apply carries out one step below the working directory, which is the new root.
func (s mount) apply(tree int) error {
	to := "." + filepath.Clean(s.To)
	switch s.Kind {
	case link:
		if err := makeDirs(filepath.Dir(to)); err != nil {
			return err
		}
		if err := unix.Symlink(s.From, to); err != nil && !errors.Is(err, unix.EEXIST) && !errors.Is(err, unix.EROFS) {
			return err
		}
		return nil // what exists leads to the same place
	case processes:
		// Read-only: for root, the kernel's settings would be writable.
		if err := makeDirs(to); err != nil {
			return err
		}
		return unix.Mount("proc", to, "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC|unix.MS_RDONLY, "")
	case terminals:
		if err := makeDirs(to); err != nil {
			return err
		}
		return unix.Mount("devpts", to, "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620")
	case empty:
		if err := makeDirs(to); err != nil {
			return err
		}
		return unix.Mount("tmpfs", to, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0700")
	case hidden:
		return hide(to)
	}
	if tree < 0 {
		return nil
	}
	if s.Kind == copied {
		return copyFile(tree, to)
	}
	var what unix.Stat_t
	if err := unix.Fstat(tree, &what); err != nil {
		return err
	}
	if err := makePoint(to, what.Mode&unix.S_IFMT == unix.S_IFDIR); err != nil {
		return err
	}
	return moveOnto(tree, to)
}

// copyFile makes a file in memory with the content of another.
func copyFile(source int, to string) error {
	if err := makeDirs(filepath.Dir(to)); err != nil {
		return err
	}
	fd, err := unix.Open(to, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return &os.PathError{Op: "create", Path: to, Err: err}
	}
	defer unix.Close(fd)
	buf := make([]byte, 64<<10)
	for {
		n, err := unix.Read(source, buf)
		if err != nil || n == 0 {
			return err
		}
		for b := buf[:n]; len(b) > 0; b = b[n:] {
			if n, err = unix.Write(fd, b); err != nil {
				return err
			}
		}
	}
}

// moveOnto mounts a tree, without following a symbolic link that somebody put in
// its place.
func moveOnto(tree int, to string) error {
	point, err := unix.Openat2(unix.AT_FDCWD, to, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return err
	}
	defer unix.Close(point)
	return unix.MoveMount(tree, "", point, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}

// hide covers a path, if it is visible.
func hide(to string) error {
	var what unix.Stat_t
	switch err := unix.Lstat(to, &what); {
	case err != nil:
		return nil // it does not exist
	case what.Mode&unix.S_IFMT == unix.S_IFDIR:
		return unix.Mount("tmpfs", to, "tmpfs", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV, "mode=0500")
	}
	tree, err := unix.OpenTree(unix.AT_FDCWD, "./dev/null", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	return moveOnto(tree, to)
}

// makeDirs makes a folder and its parents, as far as they are missing.
func makeDirs(path string) error {
	if path == "." || path == "/" {
		return nil
	}
	var what unix.Stat_t
	if unix.Stat(path, &what) == nil {
		return nil
	}
	if err := makeDirs(filepath.Dir(path)); err != nil {
		return err
	}
	if err := unix.Mkdir(path, 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
		return &os.PathError{Op: "mkdir", Path: path, Err: err}
	}
	return nil
}

// makePoint makes a mount point if it is missing.
func makePoint(path string, dir bool) error {
	if dir {
		return makeDirs(path)
	}
	var what unix.Stat_t
	if unix.Stat(path, &what) == nil {
		return nil
	}
	if err := makeDirs(filepath.Dir(path)); err != nil {
		return err
	}
	fd, err := unix.Open(path, unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return &os.PathError{Op: "create", Path: path, Err: err}
	}
	return unix.Close(fd)
}
