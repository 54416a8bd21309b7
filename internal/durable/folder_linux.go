package durable

import "golang.org/x/sys/unix"

// timesFolders knows the file systems that people have on disks of their own. On others
// a process may see the names of another one late, or their time.
func timesFolders(st *unix.Statfs_t) bool {
	switch uint32(st.Type) {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC, unix.TMPFS_MAGIC, zfsMagic:
		return true
	}
	return false
}

const zfsMagic = 0x2fc12fc1
