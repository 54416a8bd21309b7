package transfer

import (
	"context"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/sqlite"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/internal/hint"
)

// A database of another tool may have gigabytes and is written to while its tool
// works. It is read where it is if that neither changes anything nor keeps the
// tool waiting, and copied only if it is small.

// maxCopied bounds the bytes of a database that is copied.
const maxCopied = 64 << 20

// readFor is for how long a statement may hold a lock that the tool waits for,
// and readBytes how much it reads meanwhile.
const (
	readFor   = 50 * time.Millisecond
	readBytes = 8 << 20
)

// openDatabase opens a database in a folder; copies take from what is left to copy.
func openDatabase(ctx context.Context, dir string, fsys fs.FS, file string, left *int64) (convert.Database, error) {
	name := nameOf(dir, file)
	size := sizeOf(fsys, file)
	log := sizeOf(fsys, file+"-wal") + sizeOf(fsys, file+"-journal")
	logged := hasLog(fsys, file)
	if name != "" && logged && isPlain(name+"-shm") && isPlain(name+"-wal") {
		// Somebody has it open.
		if f, err := sqlite.ReadForeign(name, false); err == nil {
			return &inPlace{Foreign: f, file: file, slice: readFor, moment: f.Moment}, nil
		}
	}
	if size+log <= *left {
		return copyDatabase(ctx, fsys, file, left)
	}
	if name == "" || log > 0 {
		return nil, &convert.Skip{What: file, Why: hint.With(tidemark.Unsupportedf("it has %d MB and changes that its tool did not finish: at most %d MB are copied", (size+log)>>20, maxCopied>>20),
			"start its tool and leave it, then import again")}
	}
	f, err := sqlite.ReadForeign(name, logged)
	if err != nil {
		return nil, &convert.Skip{What: file, Why: err}
	}
	moment := func(context.Context) (string, error) {
		return stamps(fsys, file, []string{"", "-wal", "-journal"}), nil
	}
	return &inPlace{Foreign: f, file: file, slice: readFor, moment: moment}, nil
}

// nameOf is the name of a file in a folder for the operating system, "" if a link
// leads to it: what is behind it may lie elsewhere.
func nameOf(dir, file string) string {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return ""
	}
	name := filepath.Join(real, filepath.FromSlash(file))
	if at, err := filepath.EvalSymlinks(name); err != nil || at != name || !isPlain(name) {
		return ""
	}
	return name
}

// isPlain reports whether there is a regular file, and no link to one.
func isPlain(name string) bool {
	info, err := os.Lstat(name)
	return err == nil && info.Mode().IsRegular()
}

// sizeOf is the size of a file, 0 if there is none.
func sizeOf(fsys fs.FS, file string) int64 {
	info, err := fs.Stat(fsys, file)
	if err != nil {
		return 0
	}
	return info.Size()
}

// hasLog reports whether changes of the database go to a -wal file first, as its
// header says.
func hasLog(fsys fs.FS, file string) bool {
	b, err := convert.Head(fsys, file, 20)
	return err == nil && len(b) == 20 && strings.HasPrefix(string(b), convert.SQLiteMagic) && b[18] == 2
}

// inPlace is a database that is read where its tool has it, which may write to it
// meanwhile. A transaction is open while rows are read and not while somebody does
// something with them: one that is open keeps the tool from shortening its log, or
// from committing where there is none. A statement that takes longer is done in
// slices, and cut off where a single row takes longer than one.
type inPlace struct {
	*sqlite.Foreign
	file   string
	slice  time.Duration
	moment func(context.Context) (string, error)
}

// Moment implements convert.Live.
func (d *inPlace) Moment(ctx context.Context) (string, error) { return d.moment(ctx) }

// Query implements convert.Database. It is ErrConflict when the database was
// changed between two slices.
func (d *inPlace) Query(ctx context.Context, statement string, args ...any) iter.Seq2[[]any, error] {
	return func(yield func([]any, error) bool) {
		before, err := d.moment(ctx)
		slow := time.Duration(1)
		for given, more := 0, true; more; {
			var rows [][]any
			if err == nil {
				rows, more, err = d.some(ctx, slow*max(d.slice, time.Millisecond), statement, args, given)
			}
			if err == nil && more && len(rows) == 0 {
				slow *= 2 // a row takes longer: there is no smaller slice
			}
			if err == nil && given > 0 { // the first slice is of one moment anyway
				err = d.same(ctx, before)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			for _, row := range rows {
				if !yield(row, nil) {
					return
				}
			}
			given += len(rows)
		}
	}
}

// same is ErrConflict if the database was changed since a moment.
func (d *inPlace) same(ctx context.Context, before string) error {
	now, err := d.moment(ctx)
	if err == nil && now != before {
		err = &convert.Skip{What: d.file, Why: tidemark.Conflictf("it was changed while it was read; import it again")}
	}
	return err
}

// some returns rows after those that were given before, and whether there may be more:
// none if the first of them takes longer than a slice.
func (d *inPlace) some(ctx context.Context, slice time.Duration, statement string, args []any, given int) (rows [][]any, more bool, err error) {
	if given > 0 {
		statement, args = "SELECT * FROM ("+statement+") LIMIT -1 OFFSET ?", append(args[:len(args):len(args)], given)
	}
	began, size := time.Now(), 0
	sliced, cancel := context.WithTimeout(ctx, slice)
	defer cancel()
	for row, err := range d.Foreign.Query(sliced, statement, args...) {
		if err != nil && sliced.Err() != nil && ctx.Err() == nil {
			return rows, true, nil
		}
		if err != nil {
			return nil, false, err
		}
		rows = append(rows, row)
		for _, v := range row {
			switch v := v.(type) {
			case string:
				size += len(v)
			case []byte:
				size += len(v)
			}
		}
		if size >= readBytes || time.Since(began) >= d.slice {
			return rows, true, nil
		}
	}
	return rows, false, nil
}
