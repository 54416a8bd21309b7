package rewind

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/durable"
	"github.com/tidemark-sessions/tidemark/store"
)

// Place puts every file that a session changed below root into another folder, as
// it was when the entry to was the newest; Newest means as the session left it. The
// other folder is new, with files of the project: what stands there is replaced, and
// no snapshot of it is kept. It returns how many files it changed, and those that it
// could not.
func Place(ctx context.Context, v *store.View, root, dir string, to int64) (placed int, left []Left, err error) {
	folder, err := durable.OpenWorkspace(dir)
	if err != nil {
		return 0, nil, err
	}
	defer folder.Close()
	p := &Plan{root: root, folder: folder, view: v}
	versions, err := p.versions(ctx, to)
	if err != nil {
		return 0, nil, err
	}
	for _, path := range slices.Sorted(maps.Keys(versions)) {
		changed, err := p.place(ctx, path, versions[path])
		if ctx.Err() != nil {
			return placed, left, ctx.Err()
		}
		if err != nil {
			left = append(left, Left{path, reason(err)})
		}
		if changed {
			placed++
		}
	}
	return placed, left, nil
}

// Newest, as an entry, is the last one that a session will ever have.
const Newest = 1 << 62

// versions returns what each file that the session changed was at an entry.
func (p *Plan) versions(ctx context.Context, to int64) (map[string]tidemark.FileVersion, error) {
	all := make(map[string]tidemark.FileVersion)
	for e, err := range p.view.Log(ctx) {
		if errors.Is(err, tidemark.ErrCorrupt) {
			continue
		}
		if err != nil {
			return nil, err
		}
		s, ok := tidemark.SnapshotOf(e)
		if !ok {
			continue
		}
		for _, f := range s.Files {
			_, known := all[f.Path]
			switch {
			case p.refuses(s.Root, f.Path) != "":
			case e.Seq <= to:
				all[f.Path] = f.After
			case !known:
				all[f.Path] = f.Before // what it was until its first change
			}
		}
	}
	return all, nil
}

// place makes one file what it was.
func (p *Plan) place(ctx context.Context, path string, to tidemark.FileVersion) (changed bool, err error) {
	state, err := p.folder.State(path, maxFile)
	if err != nil {
		return false, err
	}
	if Version(state).Same(to) {
		return false, nil
	}
	next, err := p.state(ctx, File{To: to, mode: to.Mode})
	if err != nil {
		return false, err
	}
	return true, p.folder.Put(path, state, next)
}
