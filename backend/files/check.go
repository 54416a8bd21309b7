package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// settleTime is how long a check waits before it calls an intent a leftover: an
// active writer is done with it by then.
const settleTime = 100 * time.Millisecond

// Check reads everything and reports damaged records and lines, with file and
// row; logs that lost their end; files that are open to others; and a batch that
// a crashed writer left half applied, which readers may see until the next
// process opens the store for writing and completes it. A leftover temporary
// file is no damage: nobody reads it, and the next writer removes it.
func (b *Backend) Check(ctx context.Context) iter.Seq[error] {
	return func(yield func(error) bool) {
		c := check{ctx: ctx, b: b, yield: yield}
		if err := c.all(); err != nil && !c.stopped {
			yield(b.readError(tidemark.Key{}, err))
		}
	}
}

type check struct {
	ctx     context.Context
	b       *Backend
	yield   func(error) bool
	stopped bool
}

var errStop = errors.New("stopped")

// report yields a damage and returns an error when the caller wants no more.
func (c *check) report(key tidemark.Key, seq int64, place, what string) error {
	if !c.yield(&tidemark.Damage{Key: key, Seq: seq, Place: place, What: what}) {
		c.stopped = true
		return errStop
	}
	return nil
}

func (c *check) all() error {
	if err := c.b.use(c.ctx); err != nil {
		return err
	}
	before, err := c.pending()
	if err != nil {
		return err
	}
	undone, err := c.b.undone()
	if err != nil {
		return err
	}
	for _, walk := range []struct {
		folder, ext string
		file        func(tidemark.Key, string) error
	}{
		{recordsDir, ".json", c.record},
		{logsDir, ".ndjson", c.log},
		{headsDir, ".json", c.head},
	} {
		if err := c.folder(walk.folder, walk.ext, walk.file); err != nil {
			return err
		}
	}
	for _, name := range append([]string{".", storeFile}, folders...) {
		if err := c.mode(tidemark.Key{}, name); err != nil {
			return err
		}
	}
	return c.leftovers(before, undone)
}

// mode reports a file that others may read or a directory that they may enter.
func (c *check) mode(key tidemark.Key, name string) error {
	info, err := c.b.fs.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if wide := info.Mode.Perm() &^ 0o700; wide != 0 && os.PathSeparator == '/' {
		return c.report(key, 0, name, fmt.Sprintf("open to others: mode %04o", info.Mode.Perm()))
	}
	return nil
}

func (c *check) folder(folder, ext string, file func(tidemark.Key, string) error) error {
	kinds, err := c.names(folder)
	if err != nil {
		return err
	}
	for _, kind := range kinds {
		dir := folder + "/" + kind
		if (tidemark.Key{Kind: kind, ID: "x"}).Check() != nil {
			continue // not ours: a .gitkeep, a note
		}
		if err := c.mode(tidemark.Key{Kind: kind}, dir); err != nil {
			return err
		}
		names, err := c.names(dir)
		if err != nil {
			return err
		}
		for _, n := range names {
			if err := c.ctx.Err(); err != nil {
				return err
			}
			stem, ok := strings.CutSuffix(n, ext)
			id, valid := idOf(stem)
			if !ok || !valid {
				if !strings.HasPrefix(n, ".") {
					err = c.report(tidemark.Key{Kind: kind}, 0, dir+"/"+n, "not the name of a file of this store")
				}
			} else {
				key := tidemark.Key{Kind: kind, ID: id}
				if err = c.mode(key, dir+"/"+n); err == nil {
					err = file(key, dir+"/"+n)
				}
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *check) names(dir string) ([]string, error) {
	names, err := c.b.fs.Names(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	slices.Sort(names)
	return names, err
}

func (c *check) record(key tidemark.Key, name string) error {
	_, _, err := c.b.readRecord(key)
	var d *tidemark.Damage
	if errors.As(err, &d) {
		return c.report(key, 0, d.Place, d.What)
	}
	if _, herr := c.b.fs.Stat(headPath(key)); err == nil && errors.Is(herr, fs.ErrNotExist) {
		return c.gone(key) // there is no head that could tell
	}
	return err
}

// head reports a log that is gone although its head says that it existed. An
// unreadable head is no damage: it is not synced, so a power cut may tear it,
// and the next append rewrites it.
func (c *check) head(key tidemark.Key, name string) error {
	return c.gone(key)
}

// gone reports a log that is missing and should exist.
func (c *check) gone(key tidemark.Key) error {
	st, err := c.b.look(key)
	if err != nil || st.exists || st.lost == nil {
		return err
	}
	return c.report(key, st.lost.Seq, logPath(key), st.lost.What)
}

// log reads every line.
func (c *check) log(key tidemark.Key, name string) error {
	st, err := c.b.lookFor(key, c.b.floor(key))
	if err != nil {
		return err
	}
	if st.lost != nil {
		if err := c.report(key, st.lost.Seq, name, st.lost.What); err != nil {
			return err
		}
	}
	f, err := c.b.fs.OpenFile(name, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	return c.rows(key, name, &forward{f: f, limit: st.end}, &st)
}

// rows reports each row that is not one whole line, and each line that is out of
// sequence.
func (c *check) rows(key tidemark.Key, name string, r *forward, st *state) error {
	var l line
	next := st.Trimmed + 1
	for number := 1; ; number++ {
		got, err := r.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if number == 1 && st.Trimmed > 0 && parseMark(got.bytes, key) == st.Trimmed {
			continue
		}
		place := fmt.Sprintf("%s:%d", name, number)
		if parseLine(got.bytes, key, &l) != nil {
			glued := salvage(got, key)
			seq := next
			if len(glued) > 0 {
				seq = 0
				next = glued[len(glued)-1].Seq + 1
			}
			if err := c.report(key, seq, place, whatIsWrong(got, key)); err != nil {
				return err
			}
			if len(glued) == 0 {
				next++
			}
			continue
		}
		switch {
		case l.Seq < next:
			err = c.report(key, l.Seq, place, "the line is there twice or out of order")
		case l.Seq > next:
			err = c.report(key, next, place, fmt.Sprintf("lines %d to %d are missing before it", next, l.Seq-1))
		case !got.newline:
			err = c.report(key, l.Seq, place, "the line does not end in a newline")
		}
		if err != nil {
			return err
		}
		next = max(next, l.Seq+1)
	}
	if next <= st.Length && st.lost == nil {
		return c.report(key, next, name, fmt.Sprintf("the log ends at line %d, and %d were kept", next-1, st.Length))
	}
	return nil
}

// pending returns the intents that exist now.
func (c *check) pending() (names []string, err error) {
	in, err := c.names(intentsDir)
	for _, n := range in {
		names = append(names, path.Join(intentsDir, n))
	}
	return names, err
}

// leftovers reports the intents of before that still exist, and what still lacks the part
// of a batch that the journal has.
func (c *check) leftovers(before []string, undone []tidemark.Key) error {
	if len(before) == 0 && len(undone) == 0 {
		return nil
	}
	select {
	case <-time.After(settleTime):
	case <-c.ctx.Done():
		return c.ctx.Err()
	}
	if len(undone) > 0 {
		still, err := c.b.undone()
		if err != nil {
			return err
		}
		for _, key := range still {
			if slices.Contains(undone, key) {
				if err := c.report(key, 0, journalDir, "a batch that was not completed; the next writer completes it"); err != nil {
					return err
				}
			}
		}
	}
	for _, name := range before {
		if _, err := c.b.fs.Stat(name); err != nil {
			continue
		}
		if err := c.report(tidemark.Key{}, 0, name, "a batch that was not completed; the next writer completes it"); err != nil {
			return err
		}
	}
	return nil
}
