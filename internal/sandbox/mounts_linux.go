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

// mount is one step of making the root of a sandbox.
type mount struct {
	Kind mountKind
	From string // of a bind and an overlay, without symbolic links; what a link says
	To   string
}

type mountKind string

const (
	bindRead   mountKind = "read"
	bindWrite  mountKind = "write"
	bindDevice mountKind = "device"
	overlaid   mountKind = "overlay" // reads From, keeps what is written in memory
	empty      mountKind = "tmpfs"   // writable, in memory
	hidden     mountKind = "hidden"  // nothing, and nothing can be put there
	link       mountKind = "link"
	processes  mountKind = "proc"
	terminals  mountKind = "devpts"
)

// mounts returns how the root of a sandbox is made, and what is writable in it.
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
	writable = []string{"/tmp", "/var/tmp", "/dev", p.Home}
	home := func() {
		steps = append(steps, mount{empty, "", p.Home})
		for _, name := range toolchains {
			add(bindRead, filepath.Join(p.Home, name), filepath.Join(p.Home, name))
		}
		for _, name := range caches {
			if dir := filepath.Join(p.Home, name); !strings.ContainsAny(dir, `,:\`) {
				add(overlaid, dir, dir)
			}
		}
	}
	open := func() {
		for _, path := range p.Read {
			add(bindRead, path, path)
		}
		for _, path := range slices.Concat([]string{p.Root}, p.Write) {
			add(bindWrite, path, path)
			writable = append(writable, path)
			// Programs that ask the kernel where they are are told the real path.
			if real, err := filepath.EvalSymlinks(path); err == nil && real != filepath.Clean(path) {
				add(bindWrite, real, real)
				writable = append(writable, real)
			}
		}
	}
	// What lies below covers what is above, so it comes later.
	if strings.HasPrefix(filepath.Clean(p.Home), filepath.Clean(p.Root)+"/") {
		open()
		home()
	} else {
		home()
		open()
	}
	guards, folders := guarded(p.Root)
	for _, path := range p.Hide {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			guards = append(guards, mount{hidden, real, real})
		}
	}
	return append(steps, guards...), append(writable, folders...)
}

// guarded returns the mounts that keep what is Protected as it is. .git is
// mounted upon itself, so that it cannot be renamed with what is in it.
func guarded(root string) (steps []mount, writable []string) {
	real, err := filepath.EvalSymlinks(root)
	if err != nil {
		return nil, nil
	}
	tops := slices.Compact([]string{real, filepath.Clean(root)})
	for _, top := range tops {
		if git := filepath.Join(top, ".git"); isDir(git) {
			kind := bindRead // no repository: nobody makes one here unseen
			if _, err := os.Lstat(filepath.Join(git, "HEAD")); err == nil {
				kind = bindWrite
			}
			steps = append(steps, mount{kind, filepath.Join(real, ".git"), git})
		} else if dirs := worktree(real); dirs != nil {
			steps = append(steps, mount{bindRead, filepath.Join(real, ".git"), git})
			for _, dir := range dirs {
				steps = append(steps, mount{bindWrite, dir, dir})
				writable = append(writable, dir)
				for _, name := range []string{"hooks", "config", "config.worktree", "commondir", "gitdir", "modules"} {
					if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
						steps = append(steps, mount{bindRead, filepath.Join(dir, name), filepath.Join(dir, name)})
					}
				}
			}
		}
		for _, name := range Protected {
			from := filepath.Join(real, name)
			if info, err := os.Lstat(from); err != nil || info.Mode()&os.ModeSymlink != 0 && name != ".git/hooks" {
				continue
			}
			steps = append(steps, mount{bindRead, from, filepath.Join(top, name)})
		}
	}
	return steps, writable
}

// worktree returns the folders in which git keeps what belongs to a linked
// worktree: its own and the repository's. The folder has to name the worktree
// in turn, so that a .git that somebody wrote cannot open a folder of their
// choice.
func worktree(root string) []string {
	b, err := os.ReadFile(filepath.Join(root, ".git"))
	dir, ok := strings.CutPrefix(strings.TrimSpace(string(b)), "gitdir: ")
	if err != nil || !ok || !filepath.IsAbs(dir) {
		return nil
	}
	own, err := filepath.EvalSymlinks(dir)
	if err != nil || filepath.Base(filepath.Dir(own)) != "worktrees" {
		return nil
	}
	back, err := os.ReadFile(filepath.Join(own, "gitdir"))
	if err != nil || strings.TrimSpace(string(back)) != filepath.Join(root, ".git") {
		return nil
	}
	common := filepath.Dir(filepath.Dir(own))
	if _, err := os.Stat(filepath.Join(common, "HEAD")); err != nil {
		return nil
	}
	return []string{common, own}
}

// rootBase is a folder that every system has; the new root is made over it.
const rootBase = "/usr"

// makeRoot makes the root of the sandbox and goes there. Everything that is
// mounted from outside is opened first, without following symbolic links:
// another program may change the project at the same time.
func makeRoot(steps []mount) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("mount namespace: %w", err)
	}
	trees := make([]int, len(steps))
	for i, s := range steps {
		trees[i] = -1
		if s.Kind != bindRead && s.Kind != bindWrite && s.Kind != bindDevice {
			continue
		}
		tree, err := openTree(s)
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.EACCES) {
			continue // it is gone, or was never ours to read
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

// openTree opens what a bind mounts, as a tree that can be put anywhere.
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

// mountOverlays mounts the overlays upon a folder that nobody needs and takes
// them from there, because an overlay names its layers by paths of the old
// root. A kernel that has none leaves the caches out.
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

// apply makes one step below the working directory, which is the new root.
func (s mount) apply(tree int) error {
	to := "." + filepath.Clean(s.To)
	switch s.Kind {
	case link:
		if err := makeDirs(filepath.Dir(to)); err != nil {
			return err
		}
		return unix.Symlink(s.From, to)
	case processes:
		// Read-only: as root, the settings of the kernel would be writable.
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
	var what unix.Stat_t
	if err := unix.Fstat(tree, &what); err != nil {
		return err
	}
	if err := makePoint(to, what.Mode&unix.S_IFMT == unix.S_IFDIR); err != nil {
		return err
	}
	return moveOnto(tree, to)
}

// moveOnto mounts a tree, without following a symbolic link that somebody put
// in its place.
func moveOnto(tree int, to string) error {
	point, err := unix.Openat2(unix.AT_FDCWD, to, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return err
	}
	defer unix.Close(point)
	return unix.MoveMount(tree, "", point, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}

// hide covers a path that is visible, if it is.
func hide(to string) error {
	var what unix.Stat_t
	switch err := unix.Lstat(to, &what); {
	case err != nil:
		return nil // it is not there
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

// makeDirs makes a folder with those above it, where they are not there.
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

// makePoint makes what something is mounted upon, where it is not there.
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
