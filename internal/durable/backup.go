package durable

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	// backupMark separates the name of a store and the description of its copy.
	backupMark  = ".bak-v"
	backupStamp = "20060102T150405Z"
)

// BackupName returns a free name beside base for a copy of something whose
// format is about to change.
func BackupName(dir FS, base string, format int64, now time.Time) string {
	stem := fmt.Sprintf("%s%s%d-%s", base, backupMark, format, now.UTC().Format(backupStamp))
	name := stem
	for n := 2; ; n++ {
		if _, err := dir.Stat(name); err != nil {
			return name // an impossible name is refused when it is used
		}
		name = fmt.Sprintf("%s-%d", stem, n)
	}
}

// LastBackup returns the newest copy of what is at path with a format up to
// known, or "".
func LastBackup(path string, known int64) (newest string) {
	dir, base := filepath.Split(path)
	entries, err := os.ReadDir(filepath.Clean(dir))
	if err != nil {
		return ""
	}
	var best backupOf
	for _, e := range entries {
		if b, ok := parseBackup(e.Name(), base); ok && b.format <= known && b.compare(best) > 0 {
			best, newest = b, filepath.Join(dir, e.Name())
		}
	}
	return newest
}

// backupOf is what the name of a copy says.
type backupOf struct {
	format int64
	at     time.Time
	n      int // among those made in the same second
}

func (b backupOf) compare(other backupOf) int {
	return cmp.Or(cmp.Compare(b.format, other.format), b.at.Compare(other.at), cmp.Compare(b.n, other.n))
}

// parseBackup reads a name that BackupName made; files beside a copy that was
// opened, such as its lock, have other names.
func parseBackup(name, base string) (b backupOf, ok bool) {
	of, ours := strings.CutPrefix(name, base+backupMark)
	format, rest, _ := strings.Cut(of, "-")
	stamp, n, again := strings.Cut(rest, "-")
	var err, atErr, nErr error
	b.format, err = strconv.ParseInt(format, 10, 64)
	b.at, atErr = time.Parse(backupStamp, stamp)
	if again {
		b.n, nErr = strconv.Atoi(n)
	}
	return b, ours && err == nil && atErr == nil && nErr == nil
}
