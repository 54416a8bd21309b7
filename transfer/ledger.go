package transfer

import (
	"bytes"
	"compress/flate"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/internal/durable"
	"github.com/tidemark-sessions/tidemark/store"
)

// The ledger of a folder spares reading what did not change since it was last
// imported. Files are compared by name, size, time of change and number, before
// anything is read; what is kept of them is kept after their entries. So a file
// that changes while it is imported, and one whose import was cut off, is read
// again.

// readingVersion is part of every stamp. It changes when converters make more of
// the same files, so that everybody's next import reads them once more.
const readingVersion = 1

// freshFor is for how long after a change a file may change again without a new
// time: clocks of file systems tick.
const freshFor = 20 * time.Millisecond

// ledgerBatch is how many units are kept with one commit.
const ledgerBatch = 500

// ledger is the ledger of one folder during an import.
type ledger struct {
	s      *store.Store
	fsys   fs.FS
	source store.Source
	used   bool                        // what is known may be relied on
	at     time.Time                   // when the files were looked at
	files  fileStamps                  // of all files
	listed []listedFile                // all files, until they are sorted into units
	text   []byte                      // what tells them apart, one after the other
	units  map[string]*fileStamps      // by unit
	known  map[string]store.SourceUnit // by unit, as kept
	done   []store.SourceUnit          // imported, and not kept yet
	grew   bool                        // some of them are new
	packer *flate.Writer               // of bookmarks; nil: there was none yet
}

// listedFile is a file of the folder.
type listedFile struct {
	unit    string
	named   bool // the unit is named for it
	beside  bool // it holds none of the entries
	changed time.Time
	size    int64
	file    uint64 // its number
	end     int    // of its part of the text
}

// fileStamps tell whether one of some files was changed.
type fileStamps struct {
	sum    [sha256.Size]byte // of the sum before and the newest file, so that 20,000 of them are no 20,000 hashes
	newest time.Time         // when one of them was last changed
	named  bool              // the file that they are named for is among them

	size   int64  // of that file
	file   uint64 // its number
	others []byte // what tells the other files apart
	beside []byte // and those that hold none of the entries

	rows string // the stamp of rows of a database, which are no files
}

// add adds a file. The line has room for the sum before it.
func (s *fileStamps) add(line []byte, changed time.Time) {
	copy(line, s.sum[:])
	s.sum = sha256.Sum256(line)
	if changed.After(s.newest) {
		s.newest = changed
	}
}

// text is the stamp to compare; "" if the files may be changed without showing.
func (s *fileStamps) text(now time.Time) string {
	if s != nil && s.rows != "" {
		return s.rows
	}
	if s == nil || now.Sub(s.newest) < freshFor {
		return ""
	}
	return hex.EncodeToString(s.sum[:16])
}

// openLedger reads the stamps of a folder; nil if there is no ledger for it.
func (i *Importer) openLedger(ctx context.Context, tool convert.Tool, p convert.Source, path string) (*ledger, error) {
	if tool.Files == nil || i.Upload || i.Opened == nil || p.Path != "." {
		return nil, nil
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, nil
	}
	l := &ledger{s: i.Opened.Store, fsys: p.FS, source: store.Source{Machine: machineOf(i.Holder), Tool: tool.Name, Path: path}, used: !i.Again}
	err = l.look(ctx, tool, p)
	if age := l.at.Sub(l.files.newest); err == nil && age < freshFor && age > -time.Second {
		select {
		case <-time.After(freshFor):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		err = l.look(ctx, tool, p)
	}
	if err != nil || len(l.listed) == 0 {
		return nil, ctx.Err() // the converter says what is wrong
	}
	return l, nil
}

// machineOf names the machine that files are on.
func machineOf(h tidemark.Holder) string { return h.Host + "/" + h.Machine }

// look takes the stamps of all files.
func (l *ledger) look(ctx context.Context, tool convert.Tool, p convert.Source) error {
	l.at, l.files, l.listed, l.text = time.Now(), fileStamps{sum: [sha256.Size]byte{readingVersion}}, nil, nil
	line := make([]byte, sha256.Size, 256)
	for f, err := range tool.Files(ctx, p) {
		if convert.IsSkip(err) {
			continue // the import tells of it, and then does not keep that it read all
		}
		if err != nil {
			return err
		}
		info, err := infoOf(p.FS, f)
		if err != nil {
			return err
		}
		changed := info.ModTime()
		line = stampText(line[:sha256.Size], f.Path, info)
		l.files.add(line, changed)
		l.text = append(l.text, line[sha256.Size:]...)
		l.listed = append(l.listed, listedFile{f.Unit, f.Path == f.Unit, f.Beside, changed, info.Size(), durable.FileID(info), len(l.text)})
	}
	return ctx.Err()
}

// sort takes the stamps of the units, which nobody needs where nothing changed.
func (l *ledger) sort() {
	l.units = make(map[string]*fileStamps, len(l.listed))
	line, begin := make([]byte, sha256.Size, 256), 0
	for _, f := range l.listed {
		unit := l.units[f.unit]
		if unit == nil {
			unit = &fileStamps{sum: [sha256.Size]byte{readingVersion}}
			l.units[f.unit] = unit
		}
		line = append(line[:sha256.Size], l.text[begin:f.end]...)
		unit.add(line, f.changed)
		switch text := l.text[begin:f.end]; {
		case f.named:
			unit.named, unit.size, unit.file = true, f.size, f.file
		case f.beside:
			unit.beside = append(unit.beside, text...)
		default:
			unit.others = append(unit.others, text...)
		}
		begin = f.end
	}
	l.listed, l.text = nil, nil
}

// infoOf is what the file system says of a file. A link is followed, as a reader
// does.
func infoOf(fsys fs.FS, f convert.SourceFile) (fs.FileInfo, error) {
	if f.Entry.Type().IsRegular() {
		return f.Entry.Info()
	}
	return fs.Stat(fsys, f.Path)
}

// unchanged reports whether everything was imported as it is now, and how many
// sessions that were.
func (l *ledger) unchanged(ctx context.Context) (sessions int, ok bool, err error) {
	stamp := l.files.text(l.at)
	if !l.used || stamp == "" {
		return 0, false, nil
	}
	was, err := l.s.SourceState(ctx, l.source)
	if errors.Is(err, tidemark.ErrNotFound) || errors.Is(err, tidemark.ErrCorrupt) {
		return 0, false, nil
	}
	return was.Sessions, err == nil && was.Stamp == stamp, err
}

// load reads what is known of each unit.
func (l *ledger) load(ctx context.Context) error {
	l.sort()
	l.known = make(map[string]store.SourceUnit)
	for u, err := range l.s.SourceUnits(ctx, l.source) {
		if err != nil {
			return err
		}
		l.known[u.Unit] = u
	}
	return nil
}

// all yields the units that are known now.
func (l *ledger) all() iter.Seq2[store.SourceUnit, error] {
	return func(yield func(store.SourceUnit, error) bool) {
		for _, u := range l.known {
			if !yield(u, nil) {
				return
			}
		}
	}
}

// state implements convert.Source.Known.
func (l *ledger) state(unit string) ([]byte, bool) {
	u, ok := l.known[unit]
	stamp := l.units[unit].text(l.at)
	if !ok || !l.used || stamp == "" || u.Stamp != stamp {
		return nil, false
	}
	return u.State, true
}

// has reports whether the tool still has what is kept of a unit: what is left
// beside a transcript that was deleted is no session.
func (l *ledger) has(unit string) bool {
	s := l.units[unit]
	return s != nil && (s.named || strings.HasPrefix(unit, convert.SessionUnit))
}

// left implements convert.Source.Left.
func (l *ledger) left(unit string) (stamp string, state []byte, ok bool) {
	u, ok := l.known[unit]
	return u.Stamp, u.State, ok && l.used
}

// there notes that the tool has a session, in a file that has many.
func (l *ledger) there(foreign, stamp string) {
	l.units[convert.SessionUnit+foreign] = &fileStamps{rows: stamp}
}

// imported notes that a session was imported whole, with bookmarks of its units.
func (l *ledger) imported(foreign string, units []convert.Unit, id tidemark.SessionID, bookmarks map[string]convert.Bookmark) {
	if len(units) == 0 {
		units = []convert.Unit{{Name: convert.SessionUnit + foreign}}
	}
	for _, from := range units {
		if strings.HasPrefix(from.Name, convert.SessionUnit) {
			l.there(foreign, from.Stamp)
		}
		was := l.known[from.Name]
		u := store.SourceUnit{Source: l.source, Unit: from.Name, Stamp: l.units[from.Name].text(l.at), State: from.State, Session: id, Version: was.Version}
		if from.Shared {
			u.Session = ""
		}
		if u.Stamp == "" && was.Unit == "" && u.Session != "" && l.units[from.Name] != nil {
			u.Stamp = changesStill // it is known by this that the session is gone, should it be deleted soon
		}
		if u.Stamp == "" || len(u.State) > store.MaxUnitState || u.Stamp == was.Stamp && u.Session == was.Session && bytes.Equal(u.State, was.State) {
			continue
		}
		if at, ok := bookmarks[u.Unit]; ok {
			u.Bookmark = l.bookmark(u.Unit, at)
		}
		l.done, l.grew = append(l.done, u), l.grew || was.Unit == ""
		u.Version++
		l.known[u.Unit] = u
	}
}

// changesStill is the stamp of a unit that was changed a moment ago. No file has it, so
// the unit is read again.
const changesStill = "changes"

// keep keeps the units that were imported. If another import kept some
// meanwhile, the next one reads those of this one again.
func (l *ledger) keep(ctx context.Context) error {
	err := l.s.KeepUnits(ctx, l.done...)
	l.done = l.done[:0]
	if errors.Is(err, tidemark.ErrConflict) {
		return nil
	}
	return err
}

// settleGone appends the drafts of sessions that their tool does not have any
// more, because nothing will make them final, and marks these sessions. Who has one
// of them open keeps it as it is until the next import. Of a tool that does not say
// which files a session is made of, that is known when all was read.
func (l *ledger) settleGone(ctx context.Context, who tidemark.Holder, all bool) error {
	there := make(map[tidemark.SessionID]bool)
	for unit, u := range l.known {
		there[u.Session] = there[u.Session] || l.has(unit)
	}
	var gone []store.SourceUnit
	for unit, u := range l.known {
		if l.has(unit) || u.Session == "" || there[u.Session] || !all && strings.HasPrefix(unit, convert.SessionUnit) {
			continue
		}
		err := l.s.Settle(ctx, u.Session, who)
		if err == nil {
			err = l.s.SetGone(ctx, u.Session, l.at)
		}
		switch {
		case err == nil || errors.Is(err, tidemark.ErrNotFound):
			gone = append(gone, u)
		case !errors.Is(err, tidemark.ErrHeld) && !errors.Is(err, tidemark.ErrConflict):
			return err
		}
	}
	for some := range slices.Chunk(gone, ledgerBatch) {
		if err := l.s.ForgetUnits(ctx, some...); err != nil && !errors.Is(err, tidemark.ErrConflict) {
			return err
		}
	}
	return nil
}

// unfinish keeps that a part of the source was imported that is new: should it be deleted
// soon, all is as it was when everything was imported, and yet something is gone.
func (l *ledger) unfinish(ctx context.Context) error {
	was, err := l.s.SourceState(ctx, l.source)
	if err != nil || was.Stamp == changesStill || !l.grew {
		if errors.Is(err, tidemark.ErrNotFound) {
			err = nil
		}
		return err
	}
	return l.s.KeepSource(ctx, store.SourceState{Source: l.source, Stamp: changesStill, Sessions: was.Sessions})
}

// finish keeps that everything was imported.
func (l *ledger) finish(ctx context.Context, sessions int) error {
	if err := l.keep(ctx); err != nil {
		return err
	}
	stamp := l.files.text(l.at)
	if stamp == "" {
		return nil
	}
	return l.s.KeepSource(ctx, store.SourceState{Source: l.source, Stamp: stamp, Sessions: sessions})
}
