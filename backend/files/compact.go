package files

import (
	"bytes"
	"context"
	"encoding/hex"
	"path"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark/internal/durable"
)

// tornFor is how long a torn tail is kept: long enough for somebody who misses
// something to notice.
const tornFor = 30 * 24 * time.Hour

// Compact removes what is no longer needed.
//
// Unfinished files in tmp/ are removed while all locks are held: their writers
// are then dead, and what they wrote is in an intent, or was never acknowledged.
//
// A torn tail is removed when it is thirty days old and holds no newline: it is
// then the beginning of one line whose end was never written, so its append was
// never acknowledged. One that holds a newline stays for good. It is usually an
// append that was cut off, too; but if the head was lost as well, a damaged line
// that was acknowledged looks the same, and this is its only copy. Heads that
// were set aside also stay.
func (b *Backend) Compact(ctx context.Context) (int64, error) {
	var freed int64
	err := b.exclusively(ctx, func() error {
		n, err := b.sizes(tmpDir)
		if err != nil {
			return err
		}
		if n > 0 {
			// An intent is completed before the sweep: its parts may be in tmp/.
			if err := b.recovered(); err != nil {
				return err
			}
		}
		freed = n
		return b.compactTorn(ctx, &freed)
	})
	return freed, err
}

func (b *Backend) sizes(dir string) (sum int64, err error) {
	names, err := b.fs.Names(dir)
	if err != nil {
		return 0, err
	}
	for _, n := range names {
		if info, err := b.fs.Stat(dir + "/" + n); err == nil {
			sum += info.Size
		}
	}
	return sum, nil
}

func (b *Backend) compactTorn(ctx context.Context, freed *int64) error {
	kinds, err := b.fs.Names(tornDir)
	if err != nil {
		return err
	}
	for _, kind := range kinds {
		dir := tornDir + "/" + kind
		if info, err := b.fs.Stat(dir); err != nil || !info.Mode.IsDir() {
			continue
		}
		names, err := b.fs.Names(dir)
		if err != nil {
			return err
		}
		for _, n := range names {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := b.compactTail(dir+"/"+n, freed); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *Backend) compactTail(name string, freed *int64) error {
	if !isTornTail(path.Base(name)) {
		return nil
	}
	info, err := b.fs.Stat(name)
	if err != nil || !info.Mode.IsRegular() || time.Since(info.ModTime) < tornFor {
		return err
	}
	data, err := durable.ReadFile(b.fs, name)
	if err != nil || bytes.IndexByte(data, '\n') >= 0 {
		return err
	}
	if err := b.fs.Remove(name); err != nil {
		return err
	}
	*freed += info.Size
	return nil
}

// isTornTail reports whether a file under torn/ has the name of a torn tail:
// that of its log, followed by eight digits.
func isTornTail(name string) bool {
	dot := strings.LastIndexByte(name, '.')
	if dot < 1 || len(name)-dot-1 != 8 {
		return false
	}
	_, err := hex.DecodeString(name[dot+1:])
	return err == nil
}
