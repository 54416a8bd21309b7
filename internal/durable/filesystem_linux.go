package durable

import (
	"bufio"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// networkMagics are the file systems of Linux whose files are, or may be, on
// another machine.
var networkMagics = map[uint32]string{
	0x6969:     "nfs",
	0x517b:     "smb",
	0xff534d42: "cifs",
	0xfe534d42: "smb2",
	0x01021997: "9p",
	0x5346414f: "afs",
	0x6b414653: "afs",
	0x00c36400: "ceph",
	0x73757245: "coda",
	0x564c:     "ncp",
	0x0bd00bd0: "lustre",
	0x47504653: "gpfs",
	0x19830326: "beegfs",
	0xaad7aaea: "panfs",
	0x786f4256: "vboxsf",
	0x7461636f: "ocfs2",
	0x01161970: "gfs2",
}

// fuseMagic is common to all file systems in user space, such as sshfs and a
// local NTFS disk; the mount table tells them apart.
const fuseMagic = 0x65735546

// FileSystem names the file system of a folder, and says whether it is, or may be,
// on another machine.
func FileSystem(dir string) (string, bool, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return "", false, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	if uint32(st.Type) != fuseMagic {
		name, network := byMagic(uint32(st.Type))
		return name, network, nil
	}
	mounts, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return "fuse", true, nil
	}
	defer mounts.Close()
	name := mountType(mounts, dir)
	return name, name != "fuseblk", nil
}

func byMagic(magic uint32) (name string, network bool) {
	name, network = networkMagics[magic]
	return name, network
}

// mountType returns the type of the mount that holds dir, "fuse" when the table
// does not say.
func mountType(mountinfo io.Reader, dir string) string {
	best, found := "fuse", -1
	lines := bufio.NewScanner(mountinfo)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 7 {
			continue
		}
		at := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(fields[4])
		if dir != at && !strings.HasPrefix(dir, strings.TrimSuffix(at, "/")+"/") {
			continue
		}
		for i, f := range fields {
			if f == "-" && i+1 < len(fields) && len(at) >= found {
				best, found = fields[i+1], len(at)
			}
		}
	}
	return best
}
