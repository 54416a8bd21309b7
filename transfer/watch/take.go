package watch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/internal/text"
	"github.com/tidemark-sessions/tidemark/transfer"
)

// take imports what changed in a home, unless the store is full. Left says that
// something may go in later: another writer has the session open.
func (w *Watcher) take(ctx context.Context, h *home) (e Event, left bool, err error) {
	e, left, _, err = w.importFrom(ctx, h, func(ctx context.Context, i *transfer.Importer) (part, error) {
		return part{}, i.Paths(ctx, h.Path)
	})
	return e, left, err
}

// part is what became of an import of some units, as of transfer.Importer.Part.
type part struct{ ok, kept bool }

// takePart imports the sessions of some units of a home. It is not ok if that takes a
// look at the others, too.
func (w *Watcher) takePart(ctx context.Context, h *home, units []string) (e Event, left bool, how part, err error) {
	return w.importFrom(ctx, h, func(ctx context.Context, i *transfer.Importer) (how part, err error) {
		how.ok, how.kept, err = i.Part(ctx, h.Place, h.listed, units...)
		return how, err
	})
}

// importFrom does an import from a home, and counts what it brought.
func (w *Watcher) importFrom(ctx context.Context, h *home, do func(context.Context, *transfer.Importer) (part, error)) (e Event, left bool, how part, err error) {
	e = Event{At: time.Now(), Tool: h.Tool.Name, Path: h.Path, State: Following}
	if w.full() {
		e.State = Full
		return e, true, part{ok: true}, nil
	}
	w.mu.Lock()
	settings := w.settings
	w.mu.Unlock()
	i := w.importer()
	i.Tool, i.Family, i.Heard = h.Tool.Name, &h.family, h.reads
	note := func(err error) {
		if errors.Is(err, tidemark.ErrHeld) || errors.Is(err, tidemark.ErrConflict) {
			left = true
		}
		if len(e.Problems) < maxProblems {
			e.Problems = append(e.Problems, problemText(err))
		}
	}
	i.Skip, i.Refuse = note, note
	told := e.At
	i.Progress = func(n int, what string) {
		h.answers()
		if now := time.Now(); what == "sessions" && now.Sub(told) >= progressEvery {
			told = now
			w.o.Progress(Progress{Tool: h.Tool.Name, Path: h.Path, Done: n, Expected: i.Expected, For: now.Sub(e.At)})
		}
	}
	i.Ignore = func(s *convert.Session) bool {
		return settings.ignores(s.Project) || slices.ContainsFunc(s.Units, func(u convert.Unit) bool {
			return settings.ignores(filepath.Join(h.Path, filepath.FromSlash(u.Name)))
		})
	}
	bounded, cancel := context.WithTimeoutCause(ctx, w.o.ImportAtMost, errTooLong)
	defer cancel()
	if w.away(h, func() { how, err = do(bounded, i) }); err != nil && errors.Is(context.Cause(bounded), errTooLong) {
		err = fmt.Errorf("%s: %w", h.Path, errTooLong)
	}
	e.Waiting, left = i.Waiting, left || i.Waiting > 0
	for _, r := range i.Results {
		if r.State != "known" && r.State != "empty" && r.State != "waiting" {
			e.Sessions++
			e.changed = append(e.changed, r.Session)
		}
		e.Entries += r.Entries
		e.Drafts += r.Drafts
	}
	e.Ignored, e.Trashed, e.Purged = i.Ignored, i.Trashed, i.Purged
	if err == nil && e.Sessions > 0 {
		err = i.Index(ctx)
	}
	return e, left, how, err
}

// errTooLong is why an import was ended. What it had imported stays, and the next
// one goes on there.
var errTooLong = tidemark.Unsupportedf("it took longer than an import may; the next one goes on, but not past a file that grows faster than it is read")

// maxProblemBytes bounds what is reported of a problem: it may quote a file.
const maxProblemBytes = 300

// problemText is what is reported of a problem.
func problemText(err error) string { return text.Shorten(err.Error(), maxProblemBytes) }

// progressEvery is how often is told how far an import is, and after what time at first.
const progressEvery = 500 * time.Millisecond

// sizeEvery is how often the size of the store is looked at.
const sizeEvery = 5 * time.Second

// full reports whether the store is as large as it may become.
func (w *Watcher) full() bool {
	if w.o.MaxBytes <= 0 || w.o.StorePath == "" {
		return false
	}
	if time.Since(w.sized) > sizeEvery {
		w.bytes, w.sized = StoreBytes(w.o.StorePath), time.Now()
	}
	return w.bytes >= w.o.MaxBytes
}

// StoreBytes is how much the store at a path has on disk.
func StoreBytes(path string) (n int64) {
	add := func(_ string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return nil
		}
		if info, err := e.Info(); err == nil {
			n += info.Size()
		}
		return nil
	}
	filepath.WalkDir(path, add) // what vanishes meanwhile needs no room
	for _, beside := range []string{"-wal", "-shm"} {
		if info, err := os.Stat(path + beside); err == nil {
			n += info.Size()
		}
	}
	return n
}
