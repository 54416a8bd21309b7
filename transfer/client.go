package transfer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/internal/project"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/store"
)

// Client is another tool as it is on this machine, in which people go on with
// sessions.
type Client struct {
	Tool    convert.Tool
	Home    string // where it keeps its sessions
	Dir     string // the folder that it works in
	Environ []string
	Holder  tidemark.Holder // who hands over and takes in
}

// NewClient returns the tool of a name as it is for who has an environment, working
// in a folder. ErrInvalid: there is no such tool. ErrUnsupported: sessions cannot be
// handed over to it.
func NewClient(tool, dir string, environ []string, who tidemark.Holder) (Client, error) {
	t, err := ToolNamed(tool)
	if err != nil {
		return Client{}, err
	}
	c := Client{Tool: t, Home: HomeOf(t, environ), Dir: project.Real(dir), Environ: environ, Holder: who}
	switch {
	case !canHandOver(t):
		return c, tidemark.Unsupportedf("sessions cannot be handed over to %s", t.Title)
	case c.Home == "":
		return c, tidemark.Invalidf("no home folder: nobody knows where %s keeps its sessions", t.Title)
	}
	return c, nil
}

// HomeOf returns where a tool keeps its sessions for who has an environment; "" if
// that is not known.
func HomeOf(t convert.Tool, environ []string) string {
	for _, m := range t.Moved {
		if at := open.Getenv(environ, m.Variable); at != "" {
			return filepath.Join(at, filepath.FromSlash(m.Below))
		}
	}
	home := cmp.Or(open.Getenv(environ, "HOME"), open.Getenv(environ, "USERPROFILE"))
	if home == "" || len(t.Homes) == 0 {
		return ""
	}
	return filepath.Join(home, filepath.FromSlash(t.Homes[0]))
}

// HandOver makes sure that the tool has the path to a point of a session, so that it
// goes on from there in its folder. A session of the tool that is at that point is
// left as it is; else it gets one of its own, with a line that says where the
// conversation was before. No file of the tool is replaced.
func (c Client) HandOver(ctx context.Context, p store.Point) (out Handed, lost []string, err error) {
	home, err := OpenFolder(c.Home, c.Environ)
	if err != nil {
		return out, nil, err
	}
	defer func() { err = errors.Join(err, home.Close()) }()
	h := handover{s: p.Store(), tool: c.Tool, home: home, project: c.Dir, who: c.Holder}
	if p, err = h.settled(ctx, p); err != nil {
		return out, nil, err
	}
	out = Handed{Session: p.ID, Tool: c.Tool.Name}
	tip, err := tipOf(ctx, p)
	if err != nil {
		return out, nil, err
	}
	if out.ForeignID, out.Before, err = h.idFor(ctx, p, tip); err != nil || out.Before {
		h.given(&out)
		return out, nil, err
	}
	before, err := c.lastTool(ctx, p, tip)
	if err != nil {
		return out, nil, err
	}
	lost, err = h.write(ctx, store.Point{View: p.View, Seq: tip}, out.ForeignID, func(f *convert.Session) ([]string, error) {
		f.Project, f.Head, f.Tags, f.Mode = c.Dir, "", nil, "" // who resumes is told of the mode
		f.Checkpoint, f.Labels = nil, nil                      // a transcript has no use for them
		lost, err := Fit(ctx, c.Tool, f)
		if before != c.Tool.Title {
			f.Entries = withLine(f.Entries, fmt.Sprintf(changedTool, before, c.Tool.Title))
		}
		return lost, err
	})
	h.given(&out)
	return out, lost, err
}

// changedTool tells a model that the conversation was had elsewhere: it would look
// for tools that are not there any more.
const changedTool = "What follows was said in %s, and goes on in %s now. Tools that were called there may have other names here, or be missing."

// lastTool returns the title of the tool that an entry was said in.
func (c Client) lastTool(ctx context.Context, p store.Point, tip int64) (string, error) {
	for e, err := range p.LogRange(ctx, tip, tip) {
		if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
			return "", err
		}
		name, _, _ := strings.Cut(e.Key, ":")
		if t, err := ToolNamed(name); err == nil {
			return t.Title, nil
		}
	}
	return "Tidemark", nil
}

// withLine puts a line for the model before the first entry of a path. A client that
// finds it at the end takes it for a question that was never answered.
func withLine(entries iter.Seq2[convert.Entry, error], text string) iter.Seq2[convert.Entry, error] {
	const id = "changed-tool"
	return func(yield func(convert.Entry, error) bool) {
		written := false
		for e, err := range entries {
			if err == nil && !written {
				line := tidemark.Entry{At: e.At, Kind: tidemark.KindContext, Blocks: []tidemark.Block{tidemark.Text(text)}}
				if written = true; !yield(convert.Entry{Entry: line, ID: id, Parent: convert.Root}, nil) {
					return
				}
			}
			if e.Parent == convert.Root {
				e.Parent = id
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// TakeIn imports what the tool added to one of its sessions, and what helpers of it
// wrote since then. Other sessions of the tool are not taken in. The Importer has
// what became of it.
func (c Client) TakeIn(ctx context.Context, s *store.Store, foreign string, since time.Time) (*Importer, error) {
	i := &Importer{Opened: open.Around(s), Open: &open.Options{Environ: c.Environ}, Holder: c.Holder, Tool: c.Tool.Name,
		Ignore: func(f *convert.Session) bool { return f.ForeignID != foreign }}
	p, done, err := openSource(c.Home, i.getenv)
	if errors.Is(err, tidemark.ErrNotFound) {
		return i, nil
	}
	if err != nil {
		return i, err
	}
	defer done()
	found := false
	if p.FS, found, err = c.only(ctx, s, p, foreign, since); err != nil || !found {
		return i, err
	}
	t := newToolImport(i, c.Tool)
	t.folder, t.root = i.projectOf(c.Tool, c.Home), i.rootOf(p, c.Home)
	if err := t.all(ctx, p, c.Home); err != nil {
		return i, err
	}
	return i, i.Index(ctx)
}

// only returns the files of a Source without those of other sessions that did not
// change since then, and reports whether there is one of the session. Files that the
// tool keeps for all sessions, beside the folders, stay; and so does everything for a
// session that shares its past with others.
func (c Client) only(ctx context.Context, s *store.Store, p convert.Source, foreign string, since time.Time) (fs.FS, bool, error) {
	shares, err := c.sharesPast(ctx, s, foreign)
	if err != nil {
		return nil, false, err
	}
	hidden, found := make(map[string]bool), c.Tool.Handover.Load != nil // which has it in a database
	for f, err := range c.Tool.Files(ctx, p) {
		if convert.IsSkip(err) || errors.Is(err, fs.ErrPermission) {
			continue
		}
		if err != nil {
			return nil, false, err
		}
		if strings.Contains(f.Path, inNames(c.Tool, foreign)) {
			found = true
			continue
		}
		if shares || path.Dir(f.Path) == "." {
			continue
		}
		if info, err := infoOf(p.FS, f); err != nil || since.IsZero() || info.ModTime().Before(since) {
			hidden[f.Path] = true
		}
	}
	return hiding{p.FS, hidden}, found, nil
}

// sharesPast reports whether a session of the tool began as a fork of another one: how
// much of it is its own is known only beside that one.
func (c Client) sharesPast(ctx context.Context, s *store.Store, foreign string) (bool, error) {
	if _, err := s.HandedOver(ctx, c.Tool.Name, foreign); !errors.Is(err, tidemark.ErrNotFound) {
		return false, err
	}
	found, err := s.Foreign(ctx, foreign)
	for _, i := range found {
		if from := originOf(i.Session); from.Tool == c.Tool.Name && (i.Base != nil || from.Copied != "") {
			return true, err
		}
	}
	return false, err
}

// hiding is a file system without some of its files.
type hiding struct {
	fs.FS
	hidden map[string]bool
}

// Open opens a file that is not hidden.
func (h hiding) Open(name string) (fs.File, error) {
	if h.hidden[name] {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return h.FS.Open(name)
}

// ReadDir lists what is not hidden.
func (h hiding) ReadDir(name string) ([]fs.DirEntry, error) {
	all, err := fs.ReadDir(h.FS, name)
	kept := all[:0]
	for _, e := range all {
		if !h.hidden[path.Join(name, e.Name())] {
			kept = append(kept, e)
		}
	}
	return kept, err
}
