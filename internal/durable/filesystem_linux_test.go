package durable

import (
	"strings"
	"testing"
)

func TestFileSystemsAreToldByTheirMagic(t *testing.T) {
	for name, c := range map[string]struct {
		magic   uint32
		network bool
	}{
		"nfs": {0x6969, true}, "smb": {0x517b, true}, "cifs": {0xff534d42, true}, "smb2": {0xfe534d42, true},
		"9p": {0x01021997, true}, "afs": {0x5346414f, true}, "ceph": {0x00c36400, true}, "lustre": {0x0bd00bd0, true},
		"ext4": {0xef53, false}, "xfs": {0x58465342, false}, "btrfs": {0x9123683e, false}, "tmpfs": {0x01021994, false},
		"zfs": {0x2fc12fc1, false}, "overlay": {0x794c7630, false},
	} {
		if _, network := byMagic(c.magic); network != c.network {
			t.Errorf("%s: network %v, want %v", name, network, c.network)
		}
	}
}

func TestFileSystemsInUserSpaceAreToldByTheMountTable(t *testing.T) {
	const table = `22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
40 22 0:50 / /mnt/far rw,nosuid shared:9 - fuse.sshfs me@far: rw
41 22 8:1 / /mnt/with\040space rw - fuseblk /dev/sda1 rw
42 40 0:51 / /mnt/far/inner rw - fuse.rclone there: rw
`
	for dir, want := range map[string]string{
		"/mnt/far": "fuse.sshfs", "/mnt/far/x/y": "fuse.sshfs", "/mnt/farther": "ext4",
		"/mnt/with space/x": "fuseblk", "/mnt/far/inner/z": "fuse.rclone",
	} {
		if got := mountType(strings.NewReader(table), dir); got != want {
			t.Errorf("%s: %s, want %s", dir, got, want)
		}
	}
	if got := mountType(strings.NewReader(""), "/x"); got != "fuse" {
		t.Errorf("without a table: %s", got)
	}
}
