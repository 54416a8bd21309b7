package durable

import (
	"os"

	"golang.org/x/sys/unix"
)

// networkTypes are the file systems of macOS whose files are, or may be, on
// another machine.
var networkTypes = map[string]bool{
	"nfs": true, "smbfs": true, "afpfs": true, "webdav": true, "ftp": true, "cifs": true, "acfs": true,
	"macfuse": true, "osxfuse": true, "osxfusefs": true, "fusefs": true, "fuse-t": true,
}

// FileSystem names the file system of a folder, and says whether it is, or may be,
// on another machine.
func FileSystem(dir string) (string, bool, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return "", false, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	name := unix.ByteSliceToString(st.Fstypename[:])
	return name, networkTypes[name], nil
}
