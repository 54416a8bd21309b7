package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/archive"
	"github.com/tidemark-sessions/tidemark/store"
)

// brought is what came of one thing that was imported.
type brought struct {
	From      string             `json:"from"`
	Tool      string             `json:"tool,omitempty"`
	Kind      string             `json:"kind,omitempty"` // agent, schedule, job; "": a session
	Session   tidemark.SessionID `json:"session,omitempty"`
	ForeignID string             `json:"foreign_id,omitempty"` // what its tool calls it
	Title     string             `json:"title,omitempty"`
	Entries   int                `json:"entries"` // that were new
	State     string             `json:"state"`   // new, grown, changed, known, empty
	Lost      []string           `json:"lost,omitempty"`
}

func importCommand(a *app) *cobra.Command {
	var dryRun, all bool
	var from string
	cmd := &cobra.Command{
		Use:   "import PATH…",
		Short: "Bring in archives, and sessions of other tools",
		Long: `Brings in what export wrote: an archive of a whole store, a session as JSON, or
entries as NDJSON; and the sessions that other tools keep. The format is
detected; - is stdin. Files of other tools are only read, and credentials are
not opened.

Known tools: ` + known(canImport) + `.

A second import adds only what is new: a session that grew gets the rest, and an
entry that was changed becomes a branch beside what it was. What cannot be taken
is named and left out; the exit code is then 3.

An archive is restored as it was: into a store that is not there yet, or into
one that holds the beginning of it. It can be interrupted and run again. A
session that is there already gets only what is new; one that differs from it
is refused.`,
		Example: `  tidemark import --all --dry-run
  tidemark import ~/.claude
  tidemark import backup.tidemark
  tidemark import session.json --dry-run
  tidemark --store files:restored import backup.tidemark`,
		Args: usage(cobra.ArbitraryArgs),
		RunE: func(cmd *cobra.Command, args []string) error {
			if all == (len(args) > 0) {
				return withHint(tidemark.Invalidf("import what?"), "tidemark import PATH…, or tidemark import --all")
			}
			if from != "" {
				if _, err := toolNamed(from); err != nil {
					return err
				}
			}
			i := &importer{app: a, cmd: cmd, dryRun: dryRun, from: from, rows: []brought{}}
			if all {
				if err := i.everywhere(); err != nil {
					return err
				}
			}
			if err := i.paths(args); err != nil {
				return err
			}
			err := i.index()
			if err != nil {
				return err
			}
			a.progressDone()
			if i.lossy > 0 && !a.verbose {
				a.say("Of %d session(s) something has no place here; see what with -v or --json.", i.lossy)
			}
			if len(i.rows) > 0 || i.skipped > 0 || all {
				err = a.print(i.rows, i.print)
			}
			if err == nil && i.skipped > 0 {
				err = &partly{i.skipped}
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "say what would come in, and change nothing")
	cmd.Flags().StringVar(&from, "from", "", "the `TOOL` that wrote it, instead of finding out")
	cmd.Flags().BoolVar(&all, "all", false, "the stores of every known tool in this home folder")
	return cmd
}

type importer struct {
	*app
	cmd     *cobra.Command
	dryRun  bool
	from    string // the tool; "": to be found out
	rows    []brought
	skipped int
	upload  bool // it comes from elsewhere, and lies where it does by chance
	lossy   int  // sessions of which something could not be taken over
}

// paths brings in one path after the other. What is wrong with one of several
// does not keep the others out.
func (i *importer) paths(paths []string) error {
	for _, path := range paths {
		err := i.path(path)
		if err != nil {
			err = fmt.Errorf("%s: %w", path, err)
		}
		switch {
		case err == nil:
		case len(paths) == 1 || !isPathError(err):
			return err
		default:
			i.skipped++
			i.complain(err)
		}
	}
	return nil
}

// index makes what came in findable at once.
func (i *importer) index() error {
	if i.dryRun || i.opened == nil {
		return nil
	}
	_, err := i.opened.Store.CatchUp(i.cmd.Context(), func(n int64) { i.progress("%d entries indexed", n) })
	return supported(err)
}

// path brings in one file, by what its first bytes say it is.
func (i *importer) path(path string) error {
	if info, err := os.Stat(path); i.from != "" && i.from != "tidemark" || path != "-" && err == nil && info.IsDir() {
		return i.foreign(path, i.from)
	}
	in, size := i.in, int64(0)
	if path != "-" {
		f, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			return withHint(tidemark.NotFoundf("%w", errors.Unwrap(err)), "see what tools left on this machine: tidemark import --all --dry-run")
		}
		if err != nil {
			return tidemark.Invalidf("%w", errors.Unwrap(err))
		}
		defer f.Close()
		if info, err := f.Stat(); err == nil {
			size = info.Size()
		}
		in = f
	}
	r := bufio.NewReaderSize(in, 1<<16)
	begin, err := r.Peek(archive.SniffBytes)
	is, sealed := archive.Sniff(begin)
	switch {
	case is:
		return i.restore(i.cmd, r, size, sealed, i.dryRun)
	case err == io.EOF && len(begin) == 0:
		return tidemark.Invalidf("is empty")
	case err != nil && err != io.EOF:
		return tidemark.Storagef("%w", err)
	}
	if i.from == "" && path != "-" {
		p, done, err := openPlace(path)
		if err != nil {
			return err
		}
		tool, ok := detect(i.cmd.Context(), p)
		done()
		if ok {
			return i.foreign(path, tool.Name)
		}
	}
	if bytes.HasPrefix(begin, []byte("SQLite format 3")) {
		return notOurs(errors.New("a database of no tool that is known"))
	}
	return i.sessions(r, path)
}

// sessions brings in a session as JSON, or entries as NDJSON.
func (i *importer) sessions(r *bufio.Reader, path string) error {
	title := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	if path == "-" {
		title = ""
	}
	first, rest := readLine(r)
	if first.err != nil {
		return first.err
	}
	// A store is made only when there is something to keep.
	if !isSessionFile(first.text) {
		if _, err := importedEntry(first.text); err != nil {
			return notOurs(err)
		}
	}
	s, err := i.openFor(i.dryRun)
	if err != nil {
		return err
	}
	if !isSessionFile(first.text) {
		return i.entriesFile(s, title, first, rest, r)
	}
	whole := io.MultiReader(bytes.NewReader(first.text), r)
	return i.sessionFile(s, path, whole)
}

// openFor opens the store as far as it is needed; a dry run into a store that
// is not there has nothing to look at.
func (i *importer) openFor(dryRun bool) (*store.Store, error) {
	if !dryRun {
		return i.open(i.cmd.Context(), creates)
	}
	s, err := i.open(i.cmd.Context(), reads)
	if errors.Is(err, tidemark.ErrNoStore) {
		return nil, nil
	}
	return s, err
}

// isSessionFile reports whether the first line is that of exportJSON.
func isSessionFile(line []byte) bool {
	return bytes.HasPrefix(bytes.TrimSpace(line), []byte(`{"format":"`+sessionFormat+`"`))
}

// sessionFile reads the head of a session file and then its entries one by
// one.
func (i *importer) sessionFile(s *store.Store, path string, r io.Reader) error {
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
	return i.bring(s, path, f, next)
}

// decodeHead reads the fields before the entries, and into the entries.
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

// entriesFile brings in entries as cat prints them, as a new session.
func (i *importer) entriesFile(s *store.Store, title string, line input, last bool, r *bufio.Reader) error {
	f := sessionFile{Session: tidemark.Session{Title: title}}
	next := func() (tidemark.Entry, error) {
		for {
			if line.err != nil {
				return tidemark.Entry{}, line.err
			}
			text := bytes.TrimSpace(line.text)
			ended := last
			if !last {
				line, last = readLine(r)
			} else {
				line = input{}
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
	return i.bring(s, title, f, next)
}

// notOurs is the error of a file that is none of those that are known.
func notOurs(err error) error {
	return withHint(tidemark.Invalidf("neither an archive, a session nor entries: %w", err), "see what can be imported: tidemark import --help")
}

// importedEntry reads an entry as append does, but keeps the places in the
// tree that tell how entries follow each other.
func importedEntry(text []byte) (tidemark.Entry, error) {
	e, err := parseEntry(text)
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

// bring adds the entries that next gives to a session, which it creates where
// it is not there.
func (i *importer) bring(s *store.Store, from string, f sessionFile, next func() (tidemark.Entry, error)) error {
	ctx := i.cmd.Context()
	b := &bringing{importer: i, s: s, file: f, seqs: map[int64]int64{}, row: brought{From: from, Title: f.Session.Title, State: "new"}}
	if err := b.find(ctx); err != nil {
		return err
	}
	err := b.fill(ctx, next)
	if err := errors.Join(err, b.close(context.WithoutCancel(ctx))); err != nil {
		return errors.Join(err, b.undo(context.WithoutCancel(ctx)))
	}
	i.rows = append(i.rows, b.row)
	return nil
}

// fill brings the entries, then what the session keeps beside them.
func (b *bringing) fill(ctx context.Context, next func() (tidemark.Entry, error)) error {
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
	if b.known == nil && b.w == nil {
		return nil
	}
	k := stateKeeper{s: b.s, id: b.row.Session, from: b.row.From, write: b.changed, skip: b.leave}
	return k.keep(ctx, b.file.Checkpoint, b.file.Files)
}

// leave says what is left out.
func (b *bringing) leave(err error) {
	b.skipped++
	b.complain(err)
}

// undo takes a session that could not be brought whole away again, if it was
// begun here: its id is that of the file, and may be somebody else's meanwhile.
func (b *bringing) undo(ctx context.Context) error {
	if b.w == nil || b.known != nil {
		return nil
	}
	who := b.holder(b.cmd)
	if l, err := b.s.Lease(ctx, b.w.ID()); err != nil || l.Holder != who {
		return err
	}
	err := b.s.Purge(ctx, b.w.ID(), who)
	if errors.Is(err, tidemark.ErrNotFound) {
		return nil // nothing of it was kept yet
	}
	return err
}

// importChunk is how many entries are kept in one commit.
const importChunk = 500

// bringing is one session on its way in.
type bringing struct {
	*importer
	s    *store.Store
	file sessionFile
	row  brought

	known   *store.View                          // the session as it is here, nil: not yet
	pull    func() (tidemark.Entry, error, bool) // reads it, entry by entry
	stop    func()
	w       *store.Writer
	seqs    map[int64]int64 // the seq in the file → here
	last    int64           // the seq here of the entry before
	pending []tidemark.Entry
}

// find looks for the session here.
func (b *bringing) find(ctx context.Context) error {
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
	b.known, b.row.State, b.row.Session = v, "known", v.ID
	b.pull, b.stop = iter.Pull2(v.Log(ctx))
	return nil
}

func (b *bringing) close(ctx context.Context) error {
	if b.stop != nil {
		b.stop()
	}
	if b.w == nil {
		return nil
	}
	return b.w.Close(ctx)
}

// add takes one entry of the file: it is here already, or it is new.
func (b *bringing) add(ctx context.Context, e tidemark.Entry) error {
	if e.Kind == tidemark.KindGap {
		return nil
	}
	if b.known != nil && b.w == nil {
		here, err := b.isHere(e)
		if err != nil || here {
			return err
		}
		b.row.State = "grown"
	}
	b.row.Entries++
	if b.dryRun {
		return nil
	}
	file := e.Seq
	switch parent, ok := b.seqs[e.Parent]; {
	case e.Parent == 0 && b.last > 0 && file > 0:
		e.Parent = store.Root
	case ok:
		e.Parent = parent
	default:
		e.Parent = 0 // what it followed is not in the file: it goes on from there
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

// isHere reports whether the session here has an entry of the file. An entry
// keeps its number where the whole session goes; a file with one branch of
// several numbers anew where it comes in, so that what it says counts.
// ErrConflict: the number is another one's.
func (b *bringing) isHere(e tidemark.Entry) (bool, error) {
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
			return false, withHint(tidemark.Conflictf("session %s is here already, and differs at entry %d", b.known.ID, e.Seq), "import it into another store")
		}
		// The file holds one branch of several.
	}
}

// sameEntry reports whether two entries say the same.
func sameEntry(a, b tidemark.Entry) bool {
	return a.Kind == b.Kind && a.Role == b.Role && a.At.Equal(b.At) && reflect.DeepEqual(a.Blocks, b.Blocks)
}

// attach makes the writer, at the first entry that is new.
func (b *bringing) attach(ctx context.Context) error {
	if b.w != nil {
		return nil
	}
	var err error
	if b.known != nil {
		b.w, err = b.s.Attach(ctx, b.known.ID, b.holder(b.cmd))
	} else {
		sess := b.file.Session
		sess.Base = nil                      // its past is in the file
		if sess.Project == "" && !b.upload { // the folder of a server says nothing of what was sent to it
			sess.Project = b.project()
		}
		b.w = b.s.Create(sess, b.holder(b.cmd))
	}
	if err == nil {
		b.row.Session = b.w.ID()
	}
	return err
}

// changed is as for a guest.
func (b *bringing) changed(ctx context.Context) (*store.Writer, error) {
	if b.row.State == "known" {
		b.row.State = "changed"
	}
	if b.dryRun {
		return nil, nil
	}
	err := b.attach(ctx)
	return b.w, err
}

func (b *bringing) flush(ctx context.Context) error {
	if len(b.pending) == 0 {
		return nil
	}
	_, err := b.w.Append(ctx, b.pending...)
	b.pending = nil
	b.progress("%d entries", b.row.Entries)
	return err
}

// labels gives the entries their labels, where they are not there.
func (b *bringing) labels(ctx context.Context) error {
	if b.dryRun || b.w == nil {
		return nil
	}
	v, err := b.s.View(ctx, b.row.Session)
	if err != nil {
		return err
	}
	have, err := v.Labels(ctx)
	if err != nil {
		return err
	}
	for seq, label := range b.file.Labels {
		if here, ok := b.seqs[seq]; ok && have[here] != label {
			if err := b.s.Label(ctx, b.row.Session, here, label); err != nil {
				return err
			}
		}
	}
	return nil
}
