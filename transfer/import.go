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

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/archive"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/store"
)

// Result is what came of one thing that was imported.
type Result struct {
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

// Importer is an import: what it goes into, what people want to know on the way,
// and what came of it. It is for one goroutine.
type Importer struct {
	// Opened is the store that things go into. Nil: the one at URL, which is
	// opened as Open says when the first thing is to be kept, and made where it
	// is not there. Whoever imports closes it.
	Opened *open.Opened
	URL    string
	Open   *open.Options
	// Holder is who writes.
	Holder tidemark.Holder
	// Tool names the tool that wrote what is imported; "": it is found out.
	Tool string
	// Project is the project of a session that says none of its own.
	Project string
	// Upload says that what is imported came from elsewhere: the folder that it
	// lies in says nothing of it.
	Upload bool
	// DryRun changes nothing: Results are what would come in.
	DryRun bool
	// Stdin is what the path - means.
	Stdin io.Reader

	// What people are told on the way; each may be nil.

	// Progress is told how many things of a kind came in so far.
	Progress func(n int, what string)
	// Source is told of what a tool left in the home folder, before it is read.
	Source func(tool convert.Tool, path string)
	// Kept is told what came of one thing.
	Kept func(Result)
	// Skip is told of one item that could not be taken; what is around it goes on.
	Skip func(error)
	// Refuse is told of a whole path that could not be taken, where others go on.
	Refuse func(error)
	// Lost is told what of a fleet has no place here.
	Lost func(from, what string)
	// Reading returns what is told how far an archive of so many bytes is, 0 when
	// that is not known.
	Reading func(size int64) func(archive.Progress)
	// Archive is told what came of an archive, or with DryRun what it holds.
	Archive func(Restored) error

	// Results are what came in, and Skipped counts what could not.
	Results []Result
	Skipped int
}

// Import imports what lies at a path into a store that is open, and makes it
// findable. What it is is found out: an archive, a session or entries that
// export wrote, or the sessions of a known tool. A second import adds only what
// is new.
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

func (i *Importer) progress(n int, what string) {
	if i.Progress != nil {
		i.Progress(n, what)
	}
}

// keep notes what came of one thing.
func (i *Importer) keep(r Result) {
	i.Results = append(i.Results, r)
	if i.Kept != nil {
		i.Kept(r)
	}
}

// refuse notes what could not be taken, where the rest goes on.
func (i *Importer) refuse(err error) {
	i.Skipped++
	if i.Refuse != nil {
		i.Refuse(err)
	}
}

// how says how the store is opened.
func (i *Importer) how(access open.Access) *open.Options {
	var o open.Options
	if i.Open != nil {
		o = *i.Open
	}
	o.Access = access
	return &o
}

// getenv is what tools were told by the environment.
func (i *Importer) getenv(name string) string {
	if i.Open == nil {
		return ""
	}
	return open.Getenv(i.Open.Environ, name)
}

// redaction is what happens to secrets that come in.
func (i *Importer) redaction() store.Redaction {
	if i.Open == nil || i.Open.Redact == "" {
		return store.RedactWarn
	}
	return i.Open.Redact
}

// open opens the store as far as it is needed; a dry run into a store that is
// not there has nothing to look at.
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

// Paths imports one path after the other; - is Stdin. What is wrong with one of
// several does not keep the others out.
func (i *Importer) Paths(ctx context.Context, paths ...string) error {
	for _, path := range paths {
		err := i.path(ctx, path)
		if err != nil {
			err = fmt.Errorf("%s: %w", path, err)
		}
		switch {
		case err == nil:
		case len(paths) == 1 || !isPathError(err):
			return err
		default:
			i.refuse(err)
		}
	}
	return nil
}

// Index makes what came in findable at once.
func (i *Importer) Index(ctx context.Context) error {
	if i.DryRun || i.Opened == nil {
		return nil
	}
	_, err := i.Opened.Store.CatchUp(ctx, func(n int64) { i.progress(int(n), "entries indexed") })
	if errors.Is(err, tidemark.ErrUnsupported) {
		return nil
	}
	return err
}

// path imports one file, by what its first bytes say it is.
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
		p, done, err := openSource(path, i.getenv)
		if err != nil {
			return err
		}
		tool, ok := detect(ctx, p)
		done()
		if ok {
			return i.foreign(ctx, path, tool.Name)
		}
	}
	if bytes.HasPrefix(begin, []byte("SQLite format 3")) {
		return notOurs(errors.New("a database of no tool that is known"))
	}
	return i.sessions(ctx, r, path)
}

// restore brings an archive back, and makes what is in it findable. Where the
// key is not at hand, whoever has it does that later.
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
		return GoOn(err, "what was read is kept; run it again to go on")
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

// GoOn adds the hint to go on where that can help.
func GoOn(err error, text string) error {
	for _, final := range []error{tidemark.ErrConflict, tidemark.ErrInvalid, tidemark.ErrUnsupported, tidemark.ErrCorrupt} {
		if errors.Is(err, final) {
			return err
		}
	}
	return hint.With(err, "%s", text)
}
