package watch

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/tidemark-sessions/tidemark/internal/durable"
	"github.com/tidemark-sessions/tidemark/transfer"
)

// home is a folder in which a tool keeps sessions.
type home struct {
	transfer.Place
	rank    int             // of the tool
	folders map[string]bool // that notifications were asked for
	stamp   string          // of its files, when all of them were imported
	again   bool            // something was left out that may go in later
	rest    time.Duration   // until it is looked through again
	event   Event           // the newest
	total   Event           // all that was imported from it
	changed sessionSet      // what is counted there
	listed  transfer.Listed // the files of units that changed lately
	unitOf  map[string]string

	sweepAt   time.Time // when it is looked through
	notBefore time.Time // it rests until then

	// Guarded by Watcher.mu.
	changedAt time.Time       // when the first change was noticed that is not imported; zero: none
	relist    bool            // its folders may have changed, or more than paths has
	paths     map[string]bool // what changed since then
}

func nameOf(p transfer.Place) string { return p.Tool.Name + "\x00" + p.Path }

// find looks for homes that came, and leaves those that the user does not want.
func (w *Watcher) find(ctx context.Context) {
	w.mu.Lock()
	s := w.settings
	w.mu.Unlock()
	i := w.importer()
	places := i.Places(w.o.Home)
	for _, a := range s.Added {
		if t, err := transfer.ToolNamed(a.Tool); err == nil {
			places = append(places, transfer.Place{Tool: t, Path: a.Path})
		}
	}
	wanted := make(map[string]bool)
	for rank, p := range places {
		if w.o.Tool != "" && p.Tool.Name != w.o.Tool || s.ignores(p.Path) {
			continue
		}
		name := nameOf(p)
		wanted[name] = true
		if h := w.homes[name]; h != nil {
			h.back()
			continue
		}
		if !i.Found(ctx, p) {
			w.await(p.Path)
			continue
		}
		h := &home{Place: p, rank: rank, folders: make(map[string]bool), changed: make(sessionSet), relist: true}
		h.event = Event{At: time.Now(), Tool: p.Tool.Name, Path: p.Path, State: Following}
		h.total = h.event
		w.mu.Lock()
		w.homes[name] = h
		w.mu.Unlock()
		w.news = true
	}
	for name, h := range w.homes {
		if !wanted[name] {
			w.leave(h)
			w.mu.Lock()
			delete(w.homes, name)
			w.mu.Unlock()
			w.news = true
		}
	}
}

// back has a home that was missing looked through, if it is there again.
func (h *home) back() {
	if _, err := os.Stat(h.Path); err == nil && h.event.State == Missing {
		h.sweepAt, h.notBefore = time.Now(), time.Time{}
	}
}

// await asks for notifications of the folder in which a home may appear.
func (w *Watcher) await(path string) {
	if w.notifier == nil {
		return
	}
	for at := path; inside(w.o.Home, at); at = filepath.Dir(at) {
		if info, err := os.Stat(at); err == nil && info.IsDir() {
			if w.waiting[at] || w.notifier.Add(at) == nil {
				w.mu.Lock()
				w.waiting[at] = true
				w.mu.Unlock()
			}
			return
		}
	}
}

// leave ends the notifications of a home.
func (w *Watcher) leave(h *home) { w.follows(h, nil) }

// listing is what is in a home.
type listing struct {
	stamp   string
	newest  time.Time
	folders []string        // absolute, the one that changed last first
	lately  transfer.Listed // the files of units that changed lately
}

// lately is for how long after a change it is remembered of which files a unit is
// made, so that it can be imported without a look at the others.
const lately = 24 * time.Hour

// forget leaves out the units that did not change lately.
func (l *listing) forget(newest map[string]time.Time) {
	since := time.Now().Add(-lately)
	for unit, at := range newest {
		if at.Before(since) {
			delete(l.lately.Units, unit)
		}
	}
}

// list looks through a home without opening a file.
func (w *Watcher) list(ctx context.Context, h *home) (l listing, err error) {
	sum := sha256.New()
	newest, ofUnit := make(map[string]time.Time), make(map[string]time.Time)
	for f, err := range w.importer().Files(ctx, h.Place) {
		if err != nil {
			return l, err
		}
		info, err := f.Entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return l, err
		}
		fmt.Fprintf(sum, "%q %d %d %d\n", f.Path, info.Size(), info.ModTime().UnixNano(), durable.FileID(info))
		folder := filepath.Dir(filepath.Join(h.Path, filepath.FromSlash(f.Path)))
		at := info.ModTime()
		if !at.Before(newest[folder]) {
			newest[folder] = at
		}
		if h.Tool.Files == nil || f.Unit == "." { // all of them are read, or none
			continue
		}
		if l.lately.Add(f); !f.Shared && !at.Before(ofUnit[f.Unit]) {
			ofUnit[f.Unit] = at
		}
	}
	l.forget(ofUnit)
	l.stamp = hex.EncodeToString(sum.Sum(nil)[:16])
	for folder, at := range newest {
		if at.After(l.newest) {
			l.newest = at
		}
		// What is above may get folders beside this one.
		for above := folder; above != h.Path && inside(h.Path, filepath.Dir(above)); {
			above = filepath.Dir(above)
			if !at.Before(newest[above]) {
				newest[above] = at
			}
		}
	}
	if newest[h.Path].IsZero() {
		newest[h.Path] = time.Now()
	}
	for folder := range newest {
		l.folders = append(l.folders, folder)
	}
	slices.SortFunc(l.folders, func(a, b string) int { return cmp.Or(newest[b].Compare(newest[a]), cmp.Compare(a, b)) })
	return l, nil
}

// listen begins notifications. Stop ends them.
func (w *Watcher) listen() (stop func()) {
	n, err := w.o.Notify()
	if err != nil {
		w.unheard = err.Error()
		return func() {}
	}
	w.notifier = n
	done := make(chan struct{})
	go func() {
		defer close(done)
		for c := range n.Changes() {
			w.heard(c)
		}
	}()
	return func() {
		n.Close()
		<-done
	}
}

// heard notes a change.
func (w *Watcher) heard(c Change) {
	now := time.Now()
	isFolder := false
	if c.Folder {
		info, err := os.Lstat(c.Path)
		isFolder = err == nil && info.IsDir()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.Lost {
		w.rescan = true
		for _, h := range w.homes {
			h.mark(now, "", true)
		}
		w.ring()
		return
	}
	folder := filepath.Dir(c.Path)
	for _, h := range w.byFolder[folder] {
		h.mark(now, c.Path, c.Folder && (isFolder || h.folders[c.Path]))
	}
	if isFolder && len(w.byFolder[folder]) > 0 {
		// It may get files before its home is looked through.
		if w.notifier.Add(c.Path) == nil {
			for _, h := range w.byFolder[folder] {
				h.folders[c.Path] = true
				w.byFolder[c.Path] = append(w.byFolder[c.Path], h)
			}
		}
	}
	w.rescan = w.rescan || c.Folder && w.waiting[folder]
	if w.rescan || len(w.byFolder[folder]) > 0 {
		w.ring()
	}
}

// maxPaths bounds the paths that are remembered of a home that changed. With more,
// all of it is looked through.
const maxPaths = 256

// mark notes that a home changed.
func (h *home) mark(now time.Time, path string, relist bool) {
	if h.changedAt.IsZero() {
		h.changedAt, h.paths = now, make(map[string]bool)
	}
	h.paths[path] = true
	h.relist = h.relist || relist || len(h.paths) > maxPaths
	if h.relist {
		clear(h.paths)
	}
}

// units are those that paths belong to; none if one of them is not known.
func (h *home) units(paths map[string]bool) (units []string) {
	for path := range paths {
		below, err := filepath.Rel(h.Path, path)
		unit, known := h.unitOf[filepath.ToSlash(below)]
		if err != nil || !known {
			return nil
		}
		if !slices.Contains(units, unit) {
			units = append(units, unit)
		}
	}
	return units
}

// remember keeps which files units are made of that changed lately.
func (h *home) remember(l transfer.Listed) {
	h.listed, h.unitOf = l, make(map[string]string)
	for unit, files := range l.Units {
		for _, file := range files {
			h.unitOf[file.Path] = unit
		}
	}
}

// room is of how many folders of a home notifications may be asked for. Homes that
// were not looked through yet have their share kept for them.
func (w *Watcher) room(h *home) int {
	others := len(w.byFolder)
	for folder := range h.folders {
		if len(w.byFolder[folder]) == 1 {
			others--
		}
	}
	for _, other := range w.homes {
		if other != h && other.sweepAt.IsZero() {
			others += w.o.MaxFolders / len(w.homes)
		}
	}
	return max(w.o.MaxFolders-others, 0)
}

// follows asks for notifications of the folders of a home, those that changed last
// first, and of no others. It returns why some of them have none.
func (w *Watcher) follows(h *home, folders []string) (swept string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.notifier == nil && len(folders) > 0 {
		return "no notifications: " + w.unheard
	}
	if room := w.room(h); len(folders) > room {
		swept = fmt.Sprintf("more than %d folders: those that changed long ago are looked through only", w.o.MaxFolders)
		folders = folders[:room]
	}
	wanted := make(map[string]bool, len(folders))
	for _, folder := range folders {
		wanted[folder] = true
	}
	for folder := range h.folders {
		if !wanted[folder] {
			w.unfollow(h, folder)
		}
	}
	for _, folder := range folders {
		if h.folders[folder] {
			continue
		}
		if w.byFolder[folder] == nil {
			if err := w.notifier.Add(folder); exhausted(err) {
				return "the system has no more notifications to give: " + err.Error()
			} else if err != nil {
				if !errors.Is(err, fs.ErrNotExist) {
					swept = err.Error()
				}
				continue
			}
		}
		h.folders[folder] = true
		w.byFolder[folder] = append(w.byFolder[folder], h)
	}
	return swept
}

// unfollow ends the notifications of a folder of a home.
func (w *Watcher) unfollow(h *home, folder string) {
	delete(h.folders, folder)
	w.byFolder[folder] = slices.DeleteFunc(w.byFolder[folder], func(other *home) bool { return other == h })
	if len(w.byFolder[folder]) > 0 {
		return
	}
	delete(w.byFolder, folder)
	if w.notifier != nil && !w.waiting[folder] {
		w.notifier.Remove(folder) // it may be gone already
	}
}

// follow looks what changed in a home, and imports it.
func (w *Watcher) follow(ctx context.Context, h *home) {
	began := time.Now()
	w.mu.Lock()
	changedAt, relist, paths := h.changedAt, h.relist, h.paths
	h.changedAt, h.relist, h.paths = time.Time{}, false, nil
	w.mu.Unlock()
	sweep := !began.Before(h.sweepAt)
	if units := h.units(paths); !sweep && !relist && !h.again && len(units) > 0 && w.followPart(ctx, h, units, began, changedAt) {
		return
	}
	var l listing
	if listed := sweep || relist || h.Tool.Files == nil; listed {
		var err error
		if l, err = w.list(ctx, h); err != nil {
			w.failed(ctx, h, began, err)
			return
		}
		h.event.Swept = w.follows(h, l.folders)
		h.remember(l.lately)
		if name, network, err := durable.FileSystem(h.Path); err == nil && network {
			h.event.Swept = "it is on a network file system (" + name + "), which tells only what this machine changes"
		}
		if l.stamp == h.stamp && !h.again && (changedAt.IsZero() || h.Tool.Files == nil) {
			w.idle(h, began)
			return
		}
	}
	if changedAt.IsZero() {
		if changedAt = began; h.stamp != "" && !l.newest.IsZero() && l.newest.Before(began) {
			changedAt = l.newest
		}
	}
	e, left, err := w.take(ctx, h)
	switch {
	case ctx.Err() != nil:
		return
	case err != nil:
		w.failed(ctx, h, began, err)
		return
	}
	if e.State == Following {
		h.stamp, h.again = cmp.Or(l.stamp, h.stamp), left
	} else {
		h.again = true
	}
	w.imported(h, e, began, changedAt)
	h.sweepAt = time.Now().Add(h.rest)
}

// followPart imports the sessions of units that changed, without a look at the rest
// of the home, which follows soon. It is false if that is not possible.
func (w *Watcher) followPart(ctx context.Context, h *home, units []string, began, changedAt time.Time) bool {
	e, left, ok, err := w.takePart(ctx, h, units)
	if ctx.Err() != nil {
		return true
	}
	if !ok || err != nil {
		return false
	}
	h.again = left
	if len(e.Problems) == 0 {
		e.Problems = h.event.Problems
	}
	e.Ignored, e.Trashed, e.Purged = max(e.Ignored, h.event.Ignored), max(e.Trashed, h.event.Trashed), max(e.Purged, h.event.Purged)
	w.imported(h, e, began, changedAt)
	if next := time.Now().Add(h.rest); next.Before(h.sweepAt) {
		h.sweepAt = next
	}
	return true
}

// imported notes what an import of a home brought.
func (w *Watcher) imported(h *home, e Event, began, changedAt time.Time) {
	swept := h.event.Swept
	first := h.sweepAt.IsZero()
	worth := e.Sessions > 0 || first || e.Waiting != h.event.Waiting || e.State != h.event.State || !slices.Equal(e.Problems, h.event.Problems)
	e.Swept, e.At = swept, time.Now()
	if e.LagMS = h.event.LagMS; e.Sessions > 0 && !first {
		e.LagMS = e.At.Sub(changedAt).Milliseconds()
	}
	h.event, w.grown = e, w.grown+e.Sessions
	h.total.Sessions, h.total.Entries, h.total.Drafts, h.total.Ignored = h.changed.add(e), h.total.Entries+e.Entries, e.Drafts, e.Ignored
	took := time.Since(began)
	h.rest = max(w.o.SweepAfter, restFactor*took)
	h.notBefore = time.Now().Add(min(restFactor*took, maxRest))
	if worth {
		w.tell(h)
	}
}

// idle lets more time pass until a home is looked through again. Where nobody
// tells of changes, that time stays short.
func (w *Watcher) idle(h *home, began time.Time) {
	took := time.Since(began)
	most := w.o.SweepAtLeast
	if h.event.Swept != "" {
		most = max(2*w.o.SweepAfter, 100*took)
	}
	h.rest = min(max(2*h.rest, w.o.SweepAfter, 100*took), max(most, 100*took))
	h.sweepAt = time.Now().Add(h.rest)
	if h.event.State != Following {
		h.event.State, h.event.At = Following, time.Now()
		w.tell(h)
	}
}

// failed notes that a home could not be read or imported. It is tried again.
func (w *Watcher) failed(ctx context.Context, h *home, began time.Time, err error) {
	if ctx.Err() != nil {
		return
	}
	state := Following
	if _, gone := os.Stat(h.Path); errors.Is(gone, fs.ErrNotExist) {
		state = Missing
	}
	h.again = true
	h.rest = min(max(2*h.rest, w.o.SweepAfter), w.o.SweepAtLeast)
	h.sweepAt = time.Now().Add(h.rest)
	h.notBefore = h.sweepAt
	problems := []string{err.Error()}
	if state == Missing {
		problems = nil
		w.leave(h)
		w.await(h.Path)
		h.notBefore = began
	}
	if state != h.event.State || !slices.Equal(problems, h.event.Problems) {
		h.event.State, h.event.Problems, h.event.At = state, problems, time.Now()
		w.tell(h)
	}
}
