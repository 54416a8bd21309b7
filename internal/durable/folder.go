package durable

import "time"

// Folder tells a directory from the same one with other names in it: whoever makes,
// removes or renames something in it changes this, and nobody can set it back.
type Folder struct {
	ID      uint64
	Changed int64 // nanoseconds since 1970
}

// FolderSettles is how long after its last change a directory tells: more than two
// ticks of the slowest clock by which these file systems stamp, in which it can change
// again and look the same.
const FolderSettles = 25 * time.Millisecond

// Tells reports whether the file system is one that is known to say at once, to every
// process, what changed in a file or a directory.
func Tells(fsys FS) bool {
	d := dirOf(fsys)
	return d != nil && d.tellsFolders()
}

// FolderOf returns what is known of a directory, the zero Folder where there is none. It
// is false where that does not tell whether names changed: the file system is not one
// that is known to say so at once, or they changed a moment ago.
func FolderOf(fsys FS, dir string) (f Folder, tells bool) {
	d := dirOf(fsys)
	if d == nil || !d.tellsFolders() {
		return f, false
	}
	f, err := d.folder(dir)
	return f, err == nil && (f == Folder{} || time.Since(time.Unix(0, f.Changed)) > FolderSettles)
}
