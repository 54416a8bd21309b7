package transfer

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/archive"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/bundle"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/internal/records"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/store"
)

// Result is the outcome of importing one item.
type Result struct {
	From      string             `json:"from"`
	Tool      string             `json:"tool,omitempty"`
	Kind      string             `json:"kind,omitempty"` // agent, schedule, job; "": a session
	Session   tidemark.SessionID `json:"session,omitempty"`
	ForeignID string             `json:"foreign_id,omitempty"` // the tool's id for it
	Title     string             `json:"title,omitempty"`
	Entries   int                `json:"entries"`          // number of new entries
	Drafts    int                `json:"drafts,omitempty"` // entries that may still change: the tool is writing
	State     string             `json:"state"`            // new, grown, changed, known, empty, waiting
	Lost      []string           `json:"lost,omitempty"`
}

// Importer is an import: its target, its callbacks, and its results. It is for
// one goroutine.
type Importer struct {
	// Opened is the target store. Nil: the one at URL, which is opened as Open
	// says when the first item is to be kept, and created if it does not exist.
	// The caller closes it.
	Opened *open.Opened
	URL    string
	Open   *open.Options
	// Holder is who writes.
	Holder tidemark.Holder
	// Tool names the tool that wrote the input; "": it is detected.
	Tool string
	// Project is the project of a session that names none of its own.
	Project string
	// Upload means that the input came from elsewhere: the folder that it is in
	// says nothing about it.
	Upload bool
	// Again reads everything, also what did not change since it was last
	// imported, and brings back what was purged here. Homes brings nothing back:
	// that is for a path that somebody names.
	Again bool
	// Ignore reports whether a session is to be left out. Nil: none is.
	Ignore func(*convert.Session) bool
	// DryRun changes nothing: Results are what would be imported.
	DryRun bool
	// Family lets Part import new sessions. The caller keeps one for each place, and
	// gives it to every import of it. Nil: Part imports only what is known.
	Family *Family
	// Stdin is what the path - means.
	Stdin io.Reader

	// Callbacks; each may be nil.

	// Progress receives how many items of a kind were imported so far.
	Progress func(n int, what string)
	// Heard is called whenever something of a source was read: its disk answers. It may
	// be called concurrently.
	Heard func()
	// Source is called before the files of a tool in the home folder are read.
	Source func(tool convert.Tool, path string)
	// Kept is called with the outcome of each item.
	Kept func(Result)
	// Skip is called for one item that could not be imported; the others
	// continue.
	Skip func(error)
	// Refuse is called for a whole path that could not be imported, where
	// others continue.
	Refuse func(error)
	// Lost is called with the parts of a fleet that have no place here.
	Lost func(from, what string)
	// Reading returns the progress function for an archive of a size, 0 if that
	// is unknown.
	Reading func(size int64) func(archive.Progress)
	// Archive is called with the outcome of an archive, or with DryRun its
	// content.
	Archive func(Restored) error

	// Results are what was imported, and Skipped counts what could not be.
	// Unchanged counts sessions whose files are as they were when they were last
	// imported: they were not read again, and are not among the Results. Waiting
	// counts sessions that somebody has open here: the next import continues them.
	// Trashed and Purged count sessions that were passed over, because that is
	// where they are here. Ignored counts what Ignore left out. Expected is about
	// how many sessions there are in all of what was looked at so far, 0 if nobody
	// can tell before they are read.
	Results   []Result
	Skipped   int
	Unchanged int
	Waiting   int
	Trashed   int
	Purged    int
	Ignored   int
	Expected  int

	homes bool // what is imported is not a path that somebody named
}

// Import imports what is at a path into an open store, and indexes it. The
// format is detected: an archive, a session or entries that export wrote, or
// the sessions of a known tool. A second import adds only what is new.
func Import(ctx context.Context, s *store.Store, path string, i *Importer) ([]Result, error) {
	var one Importer
	if i != nil {
		one = *i
	}
	one.Opened = open.Around(s)
	if one.Holder == (tidemark.Holder{}) {
		one.Holder = store.Self("import")
	}
	if err := one.path(ctx, path); err != nil {
		return one.Results, err
	}
	return one.Results, one.Index(ctx)
}

// importedGarbage is how much garbage gathers in a program that imports, in bytes and
// at most in percent of what is kept: lines and words come and go. What a long session
// keeps is ids without pointers, which cost nothing to look at, so that the same amount
// is enough whatever is kept.
const (
	importedGarbage = 12 << 20
	garbagePercent  = 50
)

// CollectMore has less garbage gather in this process, until stop is called, unless its
// environment says how much. It is for programs that do nothing but import.
func CollectMore(environ []string) (stop func()) {
	if open.Getenv(environ, "GOGC") != "" || open.Getenv(environ, "GOMEMLIMIT") != "" {
		return func() {}
	}
	was, percent := debug.SetGCPercent(garbagePercent), garbagePercent
	stopped := make(chan struct{})
	go func() {
		look := time.NewTicker(time.Second / 2)
		defer look.Stop()
		for {
			select {
			case <-stopped:
				return
			case <-look.C:
			}
			kept := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
			metrics.Read(kept)
			next := min(garbagePercent, int(100*importedGarbage/max(kept[0].Value.Uint64(), 1)))
			if next = max(next, 5); next*10 < percent*9 || next*9 > percent*10 { // each change stops the world
				debug.SetGCPercent(next)
				percent = next
			}
		}
	}()
	return func() {
		close(stopped)
		debug.SetGCPercent(was)
	}
}

func (i *Importer) progress(n int, what string) {
	if i.Progress != nil {
		i.Progress(n, what)
	}
}

// keep records the outcome of one item.
func (i *Importer) keep(r Result) {
	i.Results = append(i.Results, r)
	if i.Kept != nil {
		i.Kept(r)
	}
}

// same records sessions that were not read again.
func (i *Importer) same(sessions int) {
	i.Unchanged += sessions
	i.progress(len(i.Results)+i.Unchanged, "sessions")
}

// refuse records what could not be imported, where the rest continues.
func (i *Importer) refuse(err error) {
	i.Skipped++
	if i.Refuse != nil {
		i.Refuse(err)
	}
}

// how returns the options to open the store with.
func (i *Importer) how(access open.Access) *open.Options {
	var o open.Options
	if i.Open != nil {
		o = *i.Open
	}
	o.Access = access
	return &o
}

// getenv is the environment for the tools' files.
func (i *Importer) getenv(name string) string {
	if i.Open == nil {
		return ""
	}
	return open.Getenv(i.Open.Environ, name)
}

// open opens the store if it is needed; a dry run into a missing store has
// nothing to compare with.
func (i *Importer) open(ctx context.Context) (*store.Store, error) {
	if i.Opened != nil {
		return i.Opened.Store, nil
	}
	access := open.Create
	if i.DryRun {
		access = open.Read
	}
	opened, err := open.Open(ctx, i.URL, i.how(access))
	if i.DryRun && errors.Is(err, tidemark.ErrNoStore) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	i.Opened = opened
	return opened.Store, nil
}

// Paths imports one path after the other; - is Stdin. An error in one of
// several does not stop the others.
func (i *Importer) Paths(ctx context.Context, paths ...string) error {
	for _, path := range paths {
		err := i.path(ctx, path)
		if err != nil {
			err = fmt.Errorf("%s: %w", path, err)
		}
		switch {
		case err == nil:
		case len(paths) == 1 || !ConcernsInput(err):
			return err
		default:
			i.refuse(err)
		}
	}
	return nil
}

// Index indexes what was imported. Of several uploads into one store at once, each
// waits until the others have done so: what they brought is there, and an answer that
// says otherwise would have it sent again.
func (i *Importer) Index(ctx context.Context) error {
	if i.DryRun || i.Opened == nil {
		return nil
	}
	var err error
	for try := range records.Tries {
		_, err = i.Opened.Store.CatchUp(ctx, func(n int64) { i.progress(int(n), "entries indexed") })
		if !i.Upload || !errors.Is(err, tidemark.ErrHeld) || records.BackOffUpTo(ctx, try, time.Second) != nil {
			break
		}
	}
	if errors.Is(err, tidemark.ErrUnsupported) {
		return nil
	}
	return err
}

// path imports one file, by the format of its first bytes.
func (i *Importer) path(ctx context.Context, path string) error {
	if info, err := os.Stat(path); i.Tool != "" && i.Tool != "tidemark" || path != "-" && err == nil && info.IsDir() {
		return i.foreign(ctx, path, i.Tool)
	}
	in, size := i.Stdin, int64(0)
	if path != "-" {
		f, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			return hint.With(tidemark.NotFoundf("%w", errors.Unwrap(err)), "see what tools left on this machine: tidemark import --all --dry-run")
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
	if in == nil {
		return tidemark.Invalidf("there is no input")
	}
	r := bufio.NewReaderSize(in, 1<<16)
	begin, err := r.Peek(archive.SniffBytes)
	is, sealed := archive.Sniff(begin)
	switch {
	case is:
		return i.restore(ctx, r, size, sealed)
	case err == io.EOF && len(begin) == 0:
		return tidemark.Invalidf("is empty")
	case err != nil && err != io.EOF:
		return tidemark.Storagef("%w", err)
	}
	if i.Tool == "" && path != "-" {
		p, done, err := i.openSource(path)
		if err != nil {
			return err
		}
		tool, ok := detect(ctx, p)
		var why error
		if !ok && bundle.IsZip(p.FS, p.Path) {
			why = refusedZip(p)
		}
		done()
		switch {
		case ok:
			return i.foreign(ctx, path, tool.Name)
		case why != nil:
			return why
		}
	}
	if bytes.HasPrefix(begin, []byte("SQLite format 3")) {
		return notOurs(errors.New("a database of no tool that is known"))
	}
	return i.sessions(ctx, r, path)
}

// refusedZip says why a zip is not an export of a service that is known.
func refusedZip(p convert.Source) error {
	b, err := bundle.Open(p)
	if err != nil {
		return notOurs(err)
	}
	return errors.Join(notOurs(errors.New("a zip with conversations of no service that is known")), b.Close())
}

// restore restores an archive, and indexes it. Without the key, whoever has
// it does that later.
func (i *Importer) restore(ctx context.Context, r io.Reader, size int64, sealed bool) error {
	tell := func(done Restored) error {
		if i.Archive == nil {
			return nil
		}
		return i.Archive(done)
	}
	if i.DryRun {
		m, err := archive.Inspect(ctx, r)
		if err != nil {
			return err
		}
		return tell(Restored{Manifest: m})
	}
	o := RestoreOptions{URL: i.URL, Open: i.Open, Opened: i.Opened}
	if i.Reading != nil {
		o.Progress = i.Reading(size)
	}
	done, err := Restore(ctx, r, sealed, o)
	switch {
	case errors.Is(err, tidemark.ErrConflict):
		return hint.With(err, "nothing here was overwritten. Restore it into a store of its own: tidemark --store sqlite:NEW.db import FILE; what changed since an earlier archive is written by: tidemark export --all --since EARLIER")
	case err != nil:
		return WithResumeHint(err, "what was read is kept; run it again to go on")
	}
	i.Opened = done.Opened
	if err := i.Index(ctx); err != nil {
		return err
	}
	if err := tell(done); err != nil {
		return err
	}
	if n := done.Manifest.Damaged; n > 0 {
		return fmt.Errorf("%d thing(s) could not be read when the archive was made, and are not in it: %w", n, tidemark.ErrCorrupt)
	}
	return nil
}

// WithResumeHint adds the hint to continue where that can help.
func WithResumeHint(err error, text string) error {
	for _, final := range []error{tidemark.ErrConflict, tidemark.ErrInvalid, tidemark.ErrUnsupported, tidemark.ErrCorrupt} {
		if errors.Is(err, final) {
			return err
		}
	}
	return hint.With(err, "%s", text)
}
