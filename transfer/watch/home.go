package watch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tidemark-sessions/tidemark/transfer"
)

// home is a folder in which a tool keeps sessions.
type home struct {
	transfer.Place
	rank    int             // of the tool
	added   bool            // by the user
	folders map[string]bool // that notifications were asked for
	units   stamps          // as they were when they were imported; nil: they were not
	known   bool            // the store has a ledger of it
	again   bool            // something was left out that may go in later
	review  bool            // the next look has the last word on what was imported in parts
	rest    time.Duration   // until it is looked through again at the earliest
	looked  time.Duration   // how long a look took
	routine bool            // the next one is only to be sure, and slow
	event   Event           // the newest
	total   Event           // all that was imported from it
	changed sessionSet      // what is counted there
	family  transfer.Family

	busy     bool         // something is done with it
	answered atomic.Int64 // when something of it was last done, in nanoseconds
	read     atomic.Int64 // when its disk last answered

	// The files of units that changed lately, and which these are.
	listed     transfer.Listed
	unitOf     map[string]string
	remembered map[uint64]bool

	sweepAt   time.Time // when it is looked through
	notBefore time.Time // it rests until then

	// Guarded by Watcher.mu.
	changedAt time.Time       // when the first change was noticed that is not imported; zero: none
	asked     bool            // somebody waits for it
	relist    bool            // its folders may have changed, or more than paths has
	paths     map[string]bool // what changed since then
}

func nameOf(p transfer.Place) string { return p.Tool.Name + "\x00" + p.Path }

// find looks for homes that came, and leaves those that the user does not want.
func (w *Watcher) find(ctx context.Context) {
	w.mu.Lock()
	s := w.settings
	w.mu.Unlock()
	places := w.importer().Places(w.o.Home)
	byDefault := len(places)
	for _, a := range s.Added {
		if t, err := transfer.ToolNamed(a.Tool); err == nil {
			places = append(places, transfer.Place{Tool: t, Path: a.Path})
		}
	}
	if !slices.Equal(w.ignored, s.Ignored) { // what is wanted now may have been left out
		for _, h := range w.homes {
			h.again, h.notBefore = true, time.Time{}
			if !h.sweepAt.IsZero() {
				h.sweepAt = time.Now()
			}
		}
		w.ignored = slices.Clone(s.Ignored)
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
		h := &home{Place: p, rank: rank, added: rank >= byDefault, folders: make(map[string]bool), changed: make(sessionSet), relist: true}
		h.event = Event{At: time.Now(), Tool: p.Tool.Name, Path: p.Path, State: Following}
		h.total = h.event
		if !w.found(ctx, h) {
			w.await(p.Path)
			continue
		}
		w.mu.Lock()
		w.homes[name] = h
		w.mu.Unlock()
		w.news = true
	}
	for name, h := range w.homes {
		if !wanted[name] {
			w.forget(h)
			h.event.State, h.event.At = Left, time.Now()
			w.tell(h)
		}
	}
}

// forget ends the following of a home.
func (w *Watcher) forget(h *home) {
	w.leave(h)
	w.mu.Lock()
	delete(w.homes, nameOf(h.Place))
	w.mu.Unlock()
	w.news = true
}

// back has a home that was missing looked through, if it is there again.
func (h *home) back() {
	if h.event.State != Missing {
		return
	}
	if _, err := os.Stat(h.Path); err == nil {
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
	if c.Folder {
		// The folder itself may be gone, and with it its notifications.
		for _, h := range slices.Clone(w.byFolder[c.Path]) {
			if !isFolder || w.notifier.Add(c.Path) != nil {
				w.unfollow(h, c.Path)
			}
			h.mark(now, c.Path, true)
			w.ring()
		}
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
	if w.homes[nameOf(h.Place)] != h {
		folders = nil // it left meanwhile
	}
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
	h.changedAt, h.relist, h.paths, h.asked = time.Time{}, false, nil, false
	w.mu.Unlock()
	sweep := !began.Before(w.sweepOf(h))
	if !sweep && !relist && !h.again {
		var units []string
		var ok bool
		w.away(h, func() { units, ok = w.parts(ctx, h, paths) })
		if ok && (len(units) == 0 || w.followPart(ctx, h, units, began, changedAt)) {
			return
		}
	}
	h.review = h.review || w.deleted(ctx, h, paths)
	l, err := w.look(ctx, h)
	if err != nil {
		w.failed(ctx, h, began, err)
		return
	}
	if sweep && h.routine {
		w.pace(h)
	}
	changed, gone := l.units.changed(h.units)
	if changedAt.IsZero() {
		if changedAt = began; h.units != nil && !l.newest.IsZero() && l.newest.Before(began) {
			changedAt = l.newest
		}
	}
	first, few := h.units == nil, len(changed) <= maxPaths
	if few {
		maps.Copy(l.lately, changed)
	}
	if len(changed) > 0 || len(l.lately) > len(h.remembered) {
		if w.away(h, func() { err = w.remember(ctx, h, l.lately) }); err != nil {
			w.failed(ctx, h, began, err)
			return
		}
	}
	whole := first || gone || l.apart || h.again || h.review
	switch {
	case !whole && len(changed) == 0 && w.isKnown(ctx, h):
		w.idle(h)
		return
	case !whole && len(changed) > 0 && few:
		if units := h.changedUnits(changed); len(units) == len(changed) && w.followPart(ctx, h, units, began, changedAt) {
			return
		}
	}
	w.followAll(ctx, h, l, began, changedAt)
}

// deleted reports whether a file that was imported is gone. It may be gone before a look
// through its home knew of it.
func (w *Watcher) deleted(ctx context.Context, h *home, paths map[string]bool) (is bool) {
	w.away(h, func() {
		for path := range paths {
			below, err := filepath.Rel(h.Path, path)
			if err != nil {
				continue
			}
			if _, err = os.Lstat(path); errors.Is(err, fs.ErrNotExist) && w.importer().Imported(ctx, h.Place, filepath.ToSlash(below)) {
				is = true
				return
			}
		}
	})
	return is
}

// followAll imports what changed in a home, after a look through it.
func (w *Watcher) followAll(ctx context.Context, h *home, l listing, began, changedAt time.Time) {
	e, left, err := w.take(ctx, h)
	switch {
	case ctx.Err() != nil:
		return
	case err != nil:
		w.failed(ctx, h, began, err)
		return
	}
	if h.again = left || e.State != Following; e.State == Following {
		h.units, h.review = l.units, false
	}
	h.known, _ = w.importer().Knows(ctx, h.Place)
	w.imported(h, e, restFactor*time.Since(began), changedAt)
	h.sweepAt = time.Now().Add(w.restOf(h, h.again || l.units.fresh()))
}

// sweepShare is how many times as long as a look through homes took nobody looks
// again: all looks together take 0.1 % of a core. What takes no longer than
// quickLook does not count.
const (
	sweepShare = 1000
	quickLook  = 10 * time.Millisecond
)

// maxSweepRest is the longest time between two looks through a home, however long
// they take, as a multiple of SweepAtLeast: half an hour.
const maxSweepRest = 6

// restOf is how long it takes until a home is looked through again. Where the system
// tells what changes, that is only to be sure: such looks are made one at a time, each
// a while after the one before.
func (w *Watcher) restOf(h *home, soon bool) time.Duration {
	if h.routine = !soon && h.looked > quickLook; soon {
		return h.rest
	}
	rest := max(h.rest, w.o.SweepAtLeast)
	if h.event.Swept != "" {
		rest = max(h.rest, 2*w.o.SweepAfter)
	}
	if !h.routine {
		return rest
	}
	return max(rest, min(sweepShare*h.looked, maxSweepRest*w.o.SweepAtLeast))
}

// sweepOf is when a home is looked through.
func (w *Watcher) sweepOf(h *home) time.Time {
	if h.routine && h.sweepAt.Before(w.looksAfter) {
		return w.looksAfter
	}
	return h.sweepAt
}

// pace has the next look that is only to be sure, through whichever home, wait.
func (w *Watcher) pace(h *home) {
	slow := 1
	for _, other := range w.homes {
		if other != h && other.looked > quickLook {
			slow++
		}
	}
	w.looksAfter = time.Now().Add(min(sweepShare*h.looked, maxSweepRest*w.o.SweepAtLeast/time.Duration(slow)))
}

// isKnown reports whether the store still knows what was imported from a home: who
// takes sessions out of the trash wants them to be read again.
func (w *Watcher) isKnown(ctx context.Context, h *home) bool {
	known, err := w.importer().Knows(ctx, h.Place)
	return known || !h.known || err != nil
}

// followPart imports the sessions of units that changed, without a look at the rest
// of the home. It is false if that is not possible.
func (w *Watcher) followPart(ctx context.Context, h *home, units []string, began, changedAt time.Time) bool {
	now, all := make(map[string]stamp, len(units)), true
	w.away(h, func() {
		for _, unit := range units {
			s, ok := h.stampOf(unit)
			now[unit], all = s, all && ok
		}
	})
	if !all {
		return false
	}
	e, left, how, err := w.takePart(ctx, h, units)
	if ctx.Err() != nil {
		return true
	}
	if !how.ok || err != nil {
		return false
	}
	soon := !how.kept || left || e.State != Following
	for unit, s := range now {
		if !soon && !s.fresh {
			h.units[unitHash(unit)] = s
		}
		soon = soon || s.fresh
		h.review = h.review || slices.ContainsFunc(h.event.Problems, func(problem string) bool { return strings.Contains(problem, unit) })
	}
	h.again, h.review = left, h.review || !how.kept || len(e.Problems) > 0
	if len(e.Problems) == 0 {
		e.Problems = h.event.Problems
	}
	e.Ignored, e.Trashed, e.Purged = max(e.Ignored, h.event.Ignored), max(e.Trashed, h.event.Trashed), max(e.Purged, h.event.Purged)
	w.imported(h, e, time.Since(began), changedAt) // it took as long as a session does, and not the home
	if next := time.Now().Add(w.restOf(h, soon || h.review)); next.Before(h.sweepAt) {
		h.sweepAt = next
	}
	return true
}

// imported notes what an import of a home brought, which rests then.
func (w *Watcher) imported(h *home, e Event, rest time.Duration, changedAt time.Time) {
	swept := h.event.Swept
	first := h.sweepAt.IsZero()
	worth := e.Sessions > 0 || first || e.Waiting != h.event.Waiting || e.State != h.event.State || !slices.Equal(e.Problems, h.event.Problems)
	e.Swept, e.At = swept, time.Now()
	if e.LagMS = h.event.LagMS; e.Sessions > 0 && !first {
		e.LagMS = e.At.Sub(changedAt).Milliseconds()
	}
	h.event, w.grown = e, w.grown+e.Sessions
	h.total.Sessions, h.total.Entries, h.total.Drafts, h.total.Ignored = h.changed.add(e), h.total.Entries+e.Entries, e.Drafts, e.Ignored
	h.rest = max(w.o.SweepAfter, rest)
	h.notBefore = time.Now().Add(min(rest, maxRest))
	if worth {
		w.tell(h)
	}
	h.event.changed = nil // they are counted
}

// idle notes that nothing changed in a home.
func (w *Watcher) idle(h *home) {
	h.rest = w.o.SweepAfter
	h.sweepAt = time.Now().Add(w.restOf(h, false))
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
	w.away(h, func() {
		if _, gone := os.Stat(h.Path); errors.Is(gone, fs.ErrNotExist) {
			state = Missing
		}
	})
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
	if state == Missing && !h.added { // its tool may make it again one day
		w.forget(h)
		w.mu.Lock()
		w.rescan = true
		w.mu.Unlock()
	}
}
