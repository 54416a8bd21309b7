package durable

import (
	"path/filepath"
	"strings"

	"golang.org/x/sys/windows"
)

// FileSystem names the file system of a folder, and says whether it is, or may be,
// on another machine.
func FileSystem(dir string) (string, bool, error) {
	volume := filepath.VolumeName(dir)
	if strings.HasPrefix(volume, `\\`) && !strings.HasPrefix(volume, `\\?\`) && !strings.HasPrefix(volume, `\\.\`) {
		return "a share", true, nil
	}
	root, err := windows.UTF16PtrFromString(volume + `\`)
	if err != nil {
		return "", false, err
	}
	return "a network drive", windows.GetDriveType(root) == windows.DRIVE_REMOTE, nil
}
