package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// backupMark stands between the name of a store and what its copy was made of.
const backupMark = ".bak-v"

// BackupName returns a name beside base, not taken yet, for a copy of what has
// a format that is about to change.
func BackupName(dir FS, base string, format int64, now time.Time) string {
	stem := fmt.Sprintf("%s%s%d-%s", base, backupMark, format, now.UTC().Format("20060102T150405Z"))
	name := stem
	for n := 2; ; n++ {
		if _, err := dir.Stat(name); errors.Is(err, fs.ErrNotExist) {
			return name
		}
		name = fmt.Sprintf("%s-%d", stem, n)
	}
}

// LastBackup returns the newest copy of what lies at path that has a format up
// to known, or "".
func LastBackup(path string, known int64) (newest string) {
	dir, base := filepath.Split(path)
	entries, err := os.ReadDir(filepath.Clean(dir))
	if err != nil {
		return ""
	}
	var best int64
	for _, e := range entries { // in the order of their names, and so of their times
		var format int64
		of, ours := strings.CutPrefix(e.Name(), base+backupMark)
		if !ours {
			continue
		}
		if _, err := fmt.Sscanf(of, "%d-", &format); err != nil || format > known || format < best {
			continue
		}
		best, newest = format, filepath.Join(dir, e.Name())
	}
	return newest
}
