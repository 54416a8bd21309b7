// Package rewind puts files of the user's back to what they were at an earlier
// entry of a session, from the snapshots that the session keeps. It undoes what
// the tools of the session did to files; what commands did it can only name.
//
// It never writes outside of the folder it is given, never overwrites what
// somebody else made of a file unless it is told to, and keeps a snapshot of what
// it replaces, so that a rewind can be undone like any other change.
//
//	p, err := rewind.Look(ctx, view, root, to)
//	err = p.Apply(ctx, writer, nil)
package rewind

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/durable"
	"github.com/tidemark-sessions/tidemark/internal/sandbox"
	"github.com/tidemark-sessions/tidemark/store"
)

// File is a file that a rewind would change.
type File struct {
	Path    string               // slash-separated, below the root
	Now, To tidemark.FileVersion // what stands there, and what will
	// Changed means that somebody else changed it after the session did.
	Changed bool

	mode uint32
}

// Left is a file that cannot be put back, with the reason.
type Left struct {
	Path string `json:"path"`
	Why  string `json:"why"`
}

// Plan is what a rewind would do.
type Plan struct {
	To    int64 // the files as they were when this was the newest entry
	Files []File
	Left  []Left
	// Commands are the programs that ran since: what they did stays.
	Commands []Command
	// Unkept are, after Apply, the files that it replaced and could not keep: the
	// rewind of these cannot be undone.
	Unkept []Left

	beside map[string]string // a file that was changed since, for each folder
	root   string
	folder *durable.Workspace
	view   *store.View
}

// Close releases the folder.
func (p *Plan) Close() error { return p.folder.Close() }

// history is what the snapshots after an entry say about one file.
type history struct {
	first, last tidemark.FileChange
}

// Look finds out what it would take to put the files of a folder, which is named by
// its absolute path, back to what they were when the entry to was the newest of the
// session; 0 is before the first one. It changes nothing. The caller closes the
// Plan.
func Look(ctx context.Context, v *store.View, root string, to int64) (*Plan, error) {
	folder, err := durable.OpenWorkspace(root)
	if err != nil {
		return nil, err
	}
	p := &Plan{To: to, root: root, folder: folder, view: v}
	if err := p.look(ctx); err != nil {
		return nil, errors.Join(err, folder.Close())
	}
	return p, nil
}

func (p *Plan) look(ctx context.Context) error {
	files := make(map[string]*history)
	left := make(map[Left]bool)
	c := newCommands()
	for e, err := range p.view.LogAfter(ctx, p.To) {
		if errors.Is(err, tidemark.ErrCorrupt) {
			left[Left{fmt.Sprintf("entry %d", e.Seq), "it is damaged, and may have been a snapshot"}] = true
			continue
		}
		if err != nil {
			return err
		}
		c.see(e)
		if e.Kind == tidemark.KindSnapshot {
			if e, err = p.view.Reveal(ctx, e); err != nil {
				return err
			}
		}
		s, ok := tidemark.SnapshotOf(e)
		if !ok {
			continue
		}
		for _, f := range s.Files {
			if why := p.refuses(s.Root, f.Path); why != "" {
				left[Left{f.Path, why}] = true
			} else if h := files[f.Path]; h != nil {
				h.last = f
			} else {
				files[f.Path] = &history{f, f}
			}
		}
	}
	p.beside = make(map[string]string)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		p.beside[path.Dir(name)] = name
		if err := p.add(ctx, name, *files[name]); err != nil {
			left[Left{name, reason(err)}] = true
		}
	}
	p.Left = slices.SortedFunc(maps.Keys(left), func(a, b Left) int { return strings.Compare(a.Path+a.Why, b.Path+b.Why) })
	var err error
	p.Commands, err = c.all(ctx, p.view)
	return err
}

// reason is an error without the name of the file.
func reason(err error) string {
	if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
		err = pe.Err
	}
	return err.Error()
}

// refuses returns why a file is not touched: entries also come from elsewhere, and
// whoever wrote them must not reach a file that the tools could not.
func (p *Plan) refuses(root, path string) string {
	switch {
	case root != p.root:
		return "it is in " + root + ", which is not this project"
	case path == "." || !fs.ValidPath(path) || strings.ContainsFunc(path, unicode.IsControl):
		return "it is no name of a file"
	case len(tidemark.Fingerprints(path)) > 0:
		return "its name has a secret in it, which is masked"
	}
	if name := sandbox.RunsByItself(path); name != "" {
		return name + " is what git, editors, shells or agents run by themselves; change it by hand"
	}
	return ""
}

// maxFile bounds a file that is looked at: no larger one is kept.
const maxFile = tidemark.MaxBodyBytes

// add adds a file to the plan unless it is what it was already.
func (p *Plan) add(ctx context.Context, path string, h history) error {
	if err := p.folder.Direct(path); err != nil {
		return err
	}
	state, err := p.folder.State(path, maxFile)
	if err != nil {
		return err
	}
	if state.Kind == durable.Other {
		return errors.New("a folder or something else that is no file stands there by now")
	}
	f := File{Path: path, Now: Version(state), To: h.first.Before, mode: h.first.Before.Mode}
	f.Now.Data = nil // read again when it is kept
	if state.Kind == durable.Regular && (h.first.Before.Mode == h.last.After.Mode || f.mode == 0) {
		f.mode = uint32(state.Mode) // the session did not change it
	}
	if f.Now.Same(f.To) && (f.To.Kind != tidemark.VersionFile || f.mode == uint32(state.Mode)) {
		return nil
	}
	if err := p.view.HasContent(ctx, f.To); err != nil {
		return err
	}
	if f.To.Kind == tidemark.VersionLink {
		if err := durable.LinkInside(path, f.To.Target); err != nil {
			return err
		}
	}
	// A change that was interrupted left what was there before it.
	f.Changed = !f.Now.Same(h.last.After) && !f.Now.Same(h.last.Before)
	p.Files = append(p.Files, f)
	return nil
}

// Version is what a session keeps of a state of a file.
func Version(s durable.FileState) tidemark.FileVersion {
	v := tidemark.FileVersion{Mode: uint32(s.Mode), Size: s.Size, Lost: s.Unread, Target: s.Target, Folder: s.Folder, Data: s.Data}
	switch s.Kind {
	case durable.Absent:
		v.Kind = tidemark.VersionAbsent
	case durable.Link:
		v.Kind = tidemark.VersionLink
	case durable.Regular:
		v.Kind = tidemark.VersionFile
		if s.Unread == "" {
			sum := sha256.Sum256(s.Data)
			v.SHA256 = hex.EncodeToString(sum[:])
		}
	}
	return v
}

// Changed lists the files that somebody else changed since.
func (p *Plan) Changed() (paths []string) {
	for _, f := range p.Files {
		if f.Changed {
			paths = append(paths, f.Path)
		}
	}
	return paths
}

// Contents returns what stands in a file of the plan and what will.
func (p *Plan) Contents(ctx context.Context, f File) (now, to []byte, err error) {
	state, err := p.folder.State(f.Path, maxFile)
	if err != nil {
		return nil, nil, err
	}
	to, err = p.view.Content(ctx, f.To)
	return state.Data, to, err
}

// Options say how a plan is carried out. Nil means the defaults.
type Options struct {
	Force        bool  // also over what somebody else made of a file
	SessionBytes int64 // the most that snapshots of the session take; 0: store.DefaultSnapshotSession
	FileBytes    int64 // the most that is kept of one file; 0: store.DefaultSnapshotFile
}

// atOnce is about how many bytes of files are kept in one entry.
const atOnce = 32 << 20

// Apply puts the files back. What stands there is kept in a snapshot before
// anything is changed, so a rewind can be undone; after a crash each file is the
// one or the other, and Look and Apply go on. ErrConflict: somebody else changed a
// file, before or after Look, and nothing was done to it. A content that cannot be
// read any more is found before any file is changed.
func (p *Plan) Apply(ctx context.Context, w *store.Writer, o *Options) error {
	if o == nil {
		o = &Options{}
	}
	if changed := p.Changed(); len(changed) > 0 && !o.Force {
		return tidemark.Conflictf("somebody else changed %s", strings.Join(changed, ", "))
	}
	for _, f := range p.Files {
		if _, err := p.view.Content(ctx, f.To); err != nil {
			return fmt.Errorf("%s: %w", f.Path, err)
		}
	}
	p.sweep()
	for rest := p.Files; len(rest) > 0; {
		n, bytes := 0, int64(0)
		for n < len(rest) && (n == 0 || bytes+rest[n].Now.Size+rest[n].To.Size <= atOnce) {
			bytes += rest[n].Now.Size + rest[n].To.Size
			n++
		}
		if err := p.some(ctx, w, rest[:n], *o); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}

// sweep removes what killed processes left beside the files that were changed.
func (p *Plan) sweep() {
	for _, name := range p.beside {
		if p.folder.Direct(name) == nil {
			_ = p.folder.Sweep(name) // it harms nobody where it cannot be removed
		}
	}
}

// some puts some of the files back.
func (p *Plan) some(ctx context.Context, w *store.Writer, files []File, o Options) error {
	s := tidemark.Snapshot{Root: p.root, Rewind: &tidemark.Rewound{To: p.To}}
	states := make([]durable.FileState, len(files))
	most := o.FileBytes
	if most == 0 {
		most = store.DefaultSnapshotFile
	}
	for i, f := range files {
		state, err := p.folder.State(f.Path, maxFile)
		if err != nil {
			return err
		}
		now := Version(state)
		if !now.Same(f.Now) && !(o.Force && f.Now.SHA256 == "" && now.Kind == f.Now.Kind) {
			return tidemark.Conflictf("%s: %w", f.Path, durable.ErrChanged)
		}
		if now.Size > most && now.Lost == "" {
			now.Lost, now.Data = fmt.Sprintf("it has %d bytes, and at most %d are kept", now.Size, most), nil
		}
		states[i] = state
		s.Files = append(s.Files, tidemark.FileChange{Path: f.Path, Before: now, After: f.To})
	}
	kept, err := w.KeepSnapshot(ctx, s, o.SessionBytes)
	if err != nil {
		return err
	}
	s, _ = tidemark.SnapshotOf(kept)
	for _, f := range s.Files {
		if f.Before.Lost != "" {
			p.Unkept = append(p.Unkept, Left{f.Path, f.Before.Lost})
		}
	}
	for i, f := range files {
		if err := ctx.Err(); err != nil {
			return err
		}
		to, err := p.state(ctx, f)
		if err != nil {
			return fmt.Errorf("%s: %w", f.Path, err)
		}
		if err := p.folder.Put(f.Path, states[i], to); err != nil {
			if errors.Is(err, durable.ErrChanged) {
				return tidemark.Conflictf("%s: %w", f.Path, err)
			}
			return err
		}
	}
	return nil
}

// state is what a file is to be.
func (p *Plan) state(ctx context.Context, f File) (durable.FileState, error) {
	data, err := p.view.Content(ctx, f.To)
	to := durable.FileState{Mode: fs.FileMode(f.mode).Perm(), Size: f.To.Size, Data: data, Target: f.To.Target, Folder: f.To.Folder}
	switch f.To.Kind {
	case tidemark.VersionAbsent:
		to.Kind = durable.Absent
	case tidemark.VersionLink:
		to.Kind = durable.Link
	case tidemark.VersionFile:
		to.Kind = durable.Regular
	}
	return to, err
}
