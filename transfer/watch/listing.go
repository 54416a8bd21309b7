package watch

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"hash/maphash"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/internal/durable"
	"github.com/tidemark-sessions/tidemark/transfer"
)

// This file knows what is in a home: what its files look like, and which of them make
// a session.

// stamps are what the units of a home are like, by hashes of their names: of a
// hundred thousand files there is no room for more.
type stamps map[uint64]stamp

// stamp tells whether one of the files of a unit was changed.
type stamp struct {
	sum   uint64 // of all of them
	files uint32
	named bool // the one that the unit is named for is among them
	fresh bool // one may have changed again since, and look the same
}

// alone reports whether the unit is the file that it is named for, and no other.
func (s stamp) alone() bool { return s.files == 1 && s.named }

// seed is that of all hashes, which nobody keeps.
var seed = maphash.MakeSeed()

// unitHash is a hash of the name of a unit, or of a session.
func unitHash(name string) uint64 { return maphash.String(seed, name) }

// freshFor is for how long after a change a file may change again without a new
// time: clocks of file systems tick.
const freshFor = 20 * time.Millisecond

// add adds a file. The order does not matter.
func (s stamp) add(f convert.SourceFile, info fs.FileInfo, now time.Time) stamp {
	var h maphash.Hash
	h.SetSeed(seed)
	h.WriteString(f.Path)
	var b [24]byte
	for i, n := range []uint64{uint64(info.Size()), uint64(info.ModTime().UnixNano()), durable.FileID(info)} {
		binary.LittleEndian.PutUint64(b[8*i:], n)
	}
	h.Write(b[:])
	age := now.Sub(info.ModTime())
	return stamp{s.sum + h.Sum64(), s.files + 1, s.named || f.Path == f.Unit, s.fresh || age < freshFor && age > -freshFor}
}

// fresh reports whether one of them is.
func (s stamps) fresh() bool {
	for _, one := range s {
		if one.fresh {
			return true
		}
	}
	return false
}

// changed returns the units that are not as they were, and whether some are gone.
func (s stamps) changed(was stamps) (units map[uint64]bool, gone bool) {
	units = make(map[uint64]bool)
	there := 0
	for unit, is := range s {
		before, ok := was[unit]
		if ok {
			there++
		}
		if !ok || before != is || is.fresh {
			units[unit] = true
		}
	}
	return units, there < len(was)
}

// listing is what is in a home.
type listing struct {
	units   stamps
	newest  time.Time
	folders []string        // absolute, the one that changed last first
	lately  map[uint64]bool // units of several files that changed lately
	apart   bool            // something changed that is read together with all
}

// lately is for how long after a change it is remembered of which files a unit is
// made, so that it can be imported without a look at the others.
const lately = 24 * time.Hour

// list looks through a home without opening a file.
func (w *Watcher) list(ctx context.Context, h *home) (l listing, err error) {
	l.units, l.lately = make(stamps, len(h.units)), make(map[uint64]bool)
	newest, now := make(map[string]time.Time), time.Now()
	folder, folderPath := "", "" // of the file before: most are in the same one
	for f, err := range w.importer().Files(ctx, h.Place) {
		if convert.IsSkip(err) {
			continue // its import tells of it
		}
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
		h.answers()
		unit, at := unitHash(f.Unit), info.ModTime()
		l.units[unit] = l.units[unit].add(f, info, now)
		if dir := path.Dir(f.Path); folderPath == "" || dir != folder {
			folder, folderPath = dir, filepath.Join(h.Path, filepath.FromSlash(dir))
		}
		if !at.Before(newest[folderPath]) {
			newest[folderPath] = at
		}
		if now.Sub(at) < lately && !f.Shared {
			l.lately[unit] = true
		}
		if f.Apart && l.units[unit] != h.units[unit] {
			l.apart = true
		}
	}
	maps.DeleteFunc(l.lately, func(unit uint64, _ bool) bool { return l.units[unit].alone() })
	empty := h.emptyFolders(newest)
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
		newest[h.Path] = now
	}
	maps.Copy(newest, empty)
	for folder := range newest {
		l.folders = append(l.folders, folder)
	}
	slices.SortFunc(l.folders, func(a, b string) int { return cmp.Or(newest[b].Compare(newest[a]), cmp.Compare(a, b)) })
	return l, nil
}

// emptyFolders are the folders beside those with sessions in which there is nothing, and
// when they changed: a tool that deleted all sessions of a project puts the next one there.
func (h *home) emptyFolders(newest map[string]time.Time) map[string]time.Time {
	above, empty := make(map[string]bool), make(map[string]time.Time)
	for folder := range newest {
		if folder != h.Path {
			above[filepath.Dir(folder)] = true
		}
	}
	for folder := range above {
		beside, err := os.ReadDir(folder)
		if err != nil {
			continue // those that are there are found by a look from time to time
		}
		for _, e := range beside {
			at := filepath.Join(folder, e.Name())
			if _, known := newest[at]; known || !e.IsDir() || !isEmpty(at) {
				continue
			}
			if info, err := e.Info(); err == nil {
				empty[at] = info.ModTime()
			}
		}
	}
	return empty
}

// isEmpty reports whether nothing is in a folder.
func isEmpty(folder string) bool {
	f, err := os.Open(folder)
	if err != nil {
		return false
	}
	defer f.Close()
	_, err = f.Readdirnames(1)
	return errors.Is(err, io.EOF)
}

// look looks through a home, and has notifications of all its folders: those that
// came meanwhile are in the next list.
func (w *Watcher) look(ctx context.Context, h *home) (l listing, err error) {
	for range maxLooks {
		began := time.Now()
		if w.away(h, func() { l, err = w.list(ctx, h) }); err != nil {
			return l, err
		}
		h.looked = time.Since(began)
		before := len(h.folders)
		if h.event.Swept = w.follows(h, l.folders); h.event.Swept != "" || len(h.folders) <= before {
			break
		}
	}
	var name string
	var network bool
	if w.away(h, func() { name, network, err = durable.FileSystem(h.Path) }); err == nil && network {
		h.event.Swept = "it is on a network file system (" + name + "), which tells only what this machine changes"
	}
	return l, nil
}

// maxLooks bounds how often a home is looked through for folders that came meanwhile.
const maxLooks = 3

// remember keeps which files units are made of.
func (w *Watcher) remember(ctx context.Context, h *home, units map[uint64]bool) error {
	h.listed, h.unitOf, h.remembered = transfer.Listed{}, make(map[string]string), units
	if h.Tool.Files == nil {
		return nil
	}
	for f, err := range w.importer().Files(ctx, h.Place) {
		if convert.IsSkip(err) {
			continue
		}
		if err != nil {
			h.remembered = nil
			return err
		}
		if f.Unit == "." || !f.Shared && !units[unitHash(f.Unit)] { // all of them are read, or none
			continue
		}
		if h.listed.Add(f); !f.Shared && !f.Apart {
			h.unitOf[f.Path] = f.Unit
		}
	}
	return nil
}

// parts are the units that paths belong to. It is false if one of them cannot be told
// without a look through the home.
func (w *Watcher) parts(ctx context.Context, h *home, paths map[string]bool) (units []string, ok bool) {
	for path := range paths {
		below, err := filepath.Rel(h.Path, path)
		if err != nil {
			return nil, false
		}
		below = filepath.ToSlash(below)
		unit, known := h.unitOf[below]
		if !known {
			f, alone := w.importer().UnitOf(ctx, h.Place, below)
			switch is := h.units[unitHash(below)]; {
			case !alone || is.files > 0 && !is.alone() || h.units == nil:
				return nil, false
			case f.Apart:
				continue // it is read at the next look
			case h.unitOf == nil:
				h.unitOf = make(map[string]string)
			}
			h.listed.Add(f)
			h.unitOf[below], unit = below, below
		}
		if !slices.Contains(units, unit) {
			units = append(units, unit)
		}
	}
	return units, true
}

// changedUnits are the names of units that are remembered.
func (h *home) changedUnits(changed map[uint64]bool) (units []string) {
	for unit := range h.listed.Units {
		if changed[unitHash(unit)] {
			units = append(units, unit)
		}
	}
	return units
}

// stampOf is what a unit is like now. It is false if a file is gone.
func (h *home) stampOf(unit string) (s stamp, ok bool) {
	now := time.Now()
	for _, f := range h.listed.Units[unit] {
		info, err := os.Lstat(filepath.Join(h.Path, filepath.FromSlash(f.Path)))
		if err != nil {
			return s, false
		}
		s = s.add(f, info, now)
	}
	return s, s.files > 0
}
