package transfer

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/store"
)

// sessionFile is the JSON form in which one session is exported and imported.
type sessionFile struct {
	Format  string           `json:"format"`
	Version int              `json:"version"`
	Session tidemark.Session `json:"session"`
	Labels  map[int64]string `json:"labels,omitempty"`
	// Checkpoint and Files are what a restart needs besides the messages.
	Checkpoint json.RawMessage   `json:"checkpoint,omitempty"`
	Files      map[string][]byte `json:"files,omitempty"`
	Entries    []tidemark.Entry  `json:"entries"`
}

// The format of a sessionFile.
const (
	sessionFormat  = "tidemark-session"
	sessionVersion = 1
)

// sessions imports a session as JSON, or entries as NDJSON.
func (i *Importer) sessions(ctx context.Context, r *bufio.Reader, path string) error {
	title := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	if path == "-" {
		title = ""
	}
	first, rest := ReadLine(r)
	if first.Err != nil {
		return first.Err
	}
	// A store is created only when there is something to keep.
	if !isSessionFile(first.Text) {
		if _, err := importedEntry(first.Text); err != nil {
			return notOurs(err)
		}
	}
	s, err := i.open(ctx)
	if err != nil {
		return err
	}
	if !isSessionFile(first.Text) {
		return i.entriesFile(ctx, s, title, first, rest, r)
	}
	whole := io.MultiReader(bytes.NewReader(first.Text), r)
	return i.sessionFile(ctx, s, path, whole)
}

// isSessionFile reports whether the first line is one of exportJSON.
func isSessionFile(line []byte) bool {
	return bytes.HasPrefix(bytes.TrimSpace(line), []byte(`{"format":"`+sessionFormat+`"`))
}

// sessionFile reads the head of a session file and then its entries one by
// one.
func (i *Importer) sessionFile(ctx context.Context, s *store.Store, path string, r io.Reader) error {
	dec := json.NewDecoder(r)
	var f sessionFile
	if err := decodeHead(dec, &f); err != nil {
		return tidemark.Invalidf("not a session file: %w", err)
	}
	if f.Version != sessionVersion {
		return tidemark.Unsupportedf("session file of version %d; this program reads %d", f.Version, sessionVersion)
	}
	next := func() (tidemark.Entry, error) {
		var e tidemark.Entry
		if !dec.More() {
			if _, err := dec.Token(); err != nil {
				return e, tidemark.Invalidf("was cut off: %w", err)
			}
			return e, io.EOF
		}
		if err := dec.Decode(&e); err != nil {
			return e, tidemark.Invalidf("entry: %w", err)
		}
		return e, nil
	}
	return i.entries(ctx, s, path, f, next)
}

// decodeHead reads the fields up to the start of the entries.
func decodeHead(dec *json.Decoder, f *sessionFile) error {
	fields := map[string]any{"format": &f.Format, "version": &f.Version, "session": &f.Session, "labels": &f.Labels, "checkpoint": &f.Checkpoint, "files": &f.Files}
	if _, err := dec.Token(); err != nil {
		return err
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return err
		}
		if name == "entries" {
			_, err := dec.Token()
			return err
		}
		into, ok := fields[fmt.Sprint(name)]
		if !ok {
			into = new(json.RawMessage)
		}
		if err := dec.Decode(into); err != nil {
			return err
		}
	}
	return errors.New("it has no entries")
}

// entriesFile imports entries as printed by cat, as a new session.
func (i *Importer) entriesFile(ctx context.Context, s *store.Store, title string, line Line, last bool, r *bufio.Reader) error {
	f := sessionFile{Session: tidemark.Session{Title: title}}
	next := func() (tidemark.Entry, error) {
		for {
			if line.Err != nil {
				return tidemark.Entry{}, line.Err
			}
			text := bytes.TrimSpace(line.Text)
			ended := last
			if !last {
				line, last = ReadLine(r)
			} else {
				line = Line{}
			}
			if len(text) == 0 {
				if ended {
					return tidemark.Entry{}, io.EOF
				}
				continue
			}
			e, err := importedEntry(text)
			if err != nil {
				err = notOurs(err)
			}
			return e, err
		}
	}
	return i.entries(ctx, s, title, f, next)
}

// notOurs is the error for a file of no known format.
func notOurs(err error) error {
	return hint.With(tidemark.Invalidf("neither an archive, a session nor entries: %w", err), "see what can be imported: tidemark import --help")
}

// importedEntry reads an entry as append does, but keeps its position in
// the tree, which says how entries follow each other.
func importedEntry(text []byte) (tidemark.Entry, error) {
	e, err := ParseEntry(text)
	if err != nil {
		return e, err
	}
	var place struct {
		Seq int64 `json:"seq"`
	}
	if err := json.Unmarshal(text, &place); err != nil {
		return e, err
	}
	e.Seq = place.Seq
	return e, nil
}

// entries adds the entries that next returns to a session, which it creates if
// needed.
func (i *Importer) entries(ctx context.Context, s *store.Store, from string, f sessionFile, next func() (tidemark.Entry, error)) error {
	b := &fileImport{Importer: i, s: s, file: f, seqs: map[int64]int64{}, result: Result{From: from, Title: f.Session.Title, State: "new"}}
	if err := b.find(ctx); err != nil {
		return err
	}
	err := b.fill(ctx, next)
	if err := errors.Join(err, b.close(context.WithoutCancel(ctx))); err != nil {
		return errors.Join(err, b.undo(context.WithoutCancel(ctx)))
	}
	i.keep(b.result)
	return nil
}

// fill imports the entries, then the session's state.
func (b *fileImport) fill(ctx context.Context, next func() (tidemark.Entry, error)) error {
	for {
		e, err := next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if err := b.add(ctx, e); err != nil {
			return err
		}
	}
	if err := b.flush(ctx); err != nil {
		return err
	}
	if err := b.labels(ctx); err != nil {
		return err
	}
	if b.duplicate == nil && b.w == nil {
		return nil
	}
	k := stateKeeper{s: b.s, id: b.result.Session, from: b.result.From, write: b.changed, skip: b.leave}
	return k.keep(ctx, b.file.Checkpoint, b.file.Files)
}

// leave reports what is left out.
func (b *fileImport) leave(err error) {
	b.refuse(err)
}

// undo removes a session that could not be imported completely, if it was
// created here: its id comes from the file, and may be in use by somebody else
// meanwhile.
func (b *fileImport) undo(ctx context.Context) error {
	if b.w == nil || b.duplicate != nil {
		return nil
	}
	who := b.Holder
	if l, err := b.s.Lease(ctx, b.w.ID()); err != nil || l.Holder != who {
		return err
	}
	err := b.s.Discard(ctx, b.w.ID(), who)
	if errors.Is(err, tidemark.ErrNotFound) {
		return nil // nothing of it was kept yet
	}
	return err
}

// importChunk is how many entries are kept in one commit.
const importChunk = 500

// fileImport is the import of one session of a file.
type fileImport struct {
	*Importer
	s      *store.Store
	file   sessionFile
	result Result

	duplicate *store.View                          // the existing session, nil if there is none
	pull      func() (tidemark.Entry, error, bool) // reads it, entry by entry
	stop      func()
	w         *store.Writer
	seqs      map[int64]int64 // seq in the file → seq here
	last      int64           // the seq here of the previous entry
	pending   []tidemark.Entry
}

// find looks for the session here.
func (b *fileImport) find(ctx context.Context) error {
	if b.s == nil || b.file.Session.ID == "" {
		return nil
	}
	v, err := b.s.View(ctx, b.file.Session.ID)
	if errors.Is(err, tidemark.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	b.duplicate, b.result.State, b.result.Session = v, "known", v.ID
	b.pull, b.stop = iter.Pull2(v.Log(ctx))
	return nil
}

func (b *fileImport) close(ctx context.Context) error {
	if b.stop != nil {
		b.stop()
	}
	if b.w == nil {
		return nil
	}
	return b.w.Close(ctx)
}

// add handles one entry of the file: it exists already, or it is new.
func (b *fileImport) add(ctx context.Context, e tidemark.Entry) error {
	if e.Kind == tidemark.KindGap {
		return nil
	}
	if e.Draft {
		b.result.Drafts++ // it was not final when the file was written
		return nil
	}
	if b.duplicate != nil && b.w == nil {
		here, err := b.isHere(e)
		if err != nil || here {
			return err
		}
		b.result.State = "grown"
	}
	b.result.Entries++
	if b.DryRun {
		return nil
	}
	file := e.Seq
	switch parent, ok := b.seqs[e.Parent]; {
	case e.Parent == 0 && b.last > 0 && file > 0:
		e.Parent = store.Root
	case ok:
		e.Parent = parent
	default:
		e.Parent = 0 // its parent is not in the file: it follows the previous entry
	}
	if err := b.attach(ctx); err != nil {
		return err
	}
	b.pending = append(b.pending, e)
	b.last = b.w.Head() + int64(len(b.pending)) // as the writer will count
	if file > 0 {
		b.seqs[file] = b.last
	}
	if len(b.pending) < importChunk {
		return nil
	}
	return b.flush(ctx)
}

// isHere reports whether the existing session has an entry of the file. An
// entry keeps its number when the whole session is moved; a file with one
// branch of several gets new numbers on import, so the content decides.
// ErrConflict: the number belongs to another entry.
func (b *fileImport) isHere(e tidemark.Entry) (bool, error) {
	for {
		have, err, more := b.pull()
		switch {
		case err != nil:
			return false, err
		case !more:
			return false, nil
		case sameEntry(have, e):
			b.seqs[e.Seq], b.last = have.Seq, have.Seq
			return true, nil
		case have.Seq >= e.Seq:
			return false, hint.With(tidemark.Conflictf("session %s is here already, and differs at entry %d", b.duplicate.ID, e.Seq), "import it into another store")
		}
		// The file contains one branch of several.
	}
}

// sameEntry reports whether two entries have the same content.
func sameEntry(a, b tidemark.Entry) bool {
	return a.Kind == b.Kind && a.Role == b.Role && a.At.Equal(b.At) && reflect.DeepEqual(a.Blocks, b.Blocks)
}

// attach creates the writer, at the first new entry.
func (b *fileImport) attach(ctx context.Context) error {
	if b.w != nil {
		return nil
	}
	var err error
	if b.duplicate != nil {
		b.w, err = b.s.Attach(ctx, b.duplicate.ID, b.Holder)
	} else {
		sess := b.file.Session
		sess.Base = nil // its past is in the file
		if sess.Project == "" {
			sess.Project = b.Project
		}
		b.w = b.s.Create(sess, b.Holder)
	}
	if err == nil {
		b.result.Session = b.w.ID()
	}
	return err
}

// changed records that something other than entries is new, and returns
// the writer for it; nil in a dry run.
func (b *fileImport) changed(ctx context.Context) (*store.Writer, error) {
	if b.result.State == "known" {
		b.result.State = "changed"
	}
	if b.DryRun {
		return nil, nil
	}
	err := b.attach(ctx)
	return b.w, err
}

func (b *fileImport) flush(ctx context.Context) error {
	if len(b.pending) == 0 {
		return nil
	}
	_, err := b.w.Append(ctx, b.pending...)
	b.pending = nil
	b.progress(b.result.Entries, "entries")
	return err
}

// labels sets the labels that are missing.
func (b *fileImport) labels(ctx context.Context) error {
	if b.DryRun || b.w == nil {
		return nil
	}
	v, err := b.s.View(ctx, b.result.Session)
	if err != nil {
		return err
	}
	have, err := v.Labels(ctx)
	if err != nil {
		return err
	}
	for seq, label := range b.file.Labels {
		if here, ok := b.seqs[seq]; ok && have[here] != label {
			if err := b.s.Label(ctx, b.result.Session, here, label); err != nil {
				return err
			}
		}
	}
	return nil
}
