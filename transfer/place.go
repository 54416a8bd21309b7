package transfer

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"path/filepath"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/store"
)

// Place is where a tool keeps its sessions.
type Place struct {
	Tool convert.Tool
	Path string // absolute if the home folder is
}

// Places are where the known tools keep their sessions, in a home folder and where
// the environment says, also those that do not exist.
func (i *Importer) Places(home string) (all []Place) {
	for _, t := range Tools() {
		for _, path := range homesOf(t, home, i.getenv) {
			if CanImport(t) {
				all = append(all, Place{Tool: t, Path: path})
			}
		}
	}
	return all
}

// Knows reports whether there is a ledger of the place, if its tool has one: purges and
// restores remove it, so that the next import reads what is there.
func (i *Importer) Knows(ctx context.Context, at Place) (bool, error) {
	dir, err := filepath.Abs(at.Path)
	if err != nil || at.Tool.Files == nil {
		return true, nil
	}
	_, err = i.Opened.Store.SourceState(ctx, store.Source{Machine: machineOf(i.Holder), Tool: at.Tool.Name, Path: dir})
	if errors.Is(err, tidemark.ErrNotFound) {
		return false, nil
	}
	return true, err
}

// Imported reports whether a session was imported from a file of a place, as far as the
// ledger tells.
func (i *Importer) Imported(ctx context.Context, at Place, file string) bool {
	dir, err := filepath.Abs(at.Path)
	if err != nil || i.Opened == nil {
		return false
	}
	_, err = i.Opened.Store.SourceUnit(ctx, store.Source{Machine: machineOf(i.Holder), Tool: at.Tool.Name, Path: dir}, file)
	return err == nil
}

// Found reports whether the files at a place are the tool's.
func (i *Importer) Found(ctx context.Context, p Place) bool { return i.isOf(ctx, p.Tool, p.Path) }

// Detect returns the tool that wrote what is at a path: ErrInvalid if no tool is
// known to.
func (i *Importer) Detect(ctx context.Context, path string) (Place, error) {
	p, done, err := i.openSource(path)
	if err != nil {
		return Place{}, err
	}
	defer done()
	tool, ok := detect(ctx, p)
	if !ok || !CanImport(tool) {
		return Place{}, tidemark.Invalidf("%s: no tool is known to write this", path)
	}
	return Place{Tool: tool, Path: path}, nil
}

// maxListed bounds the files that are listed of a tool that does not say which
// ones are sessions: what strangers put into a folder must not fill the memory.
const maxListed = 200_000

// Files lists the files that the sessions at a place may be made of, by their
// path in it, without opening them. Of a tool that does not say which these are,
// all are listed. ErrUnsupported: they are too many.
func (i *Importer) Files(ctx context.Context, at Place) iter.Seq2[convert.SourceFile, error] {
	return func(yield func(convert.SourceFile, error) bool) {
		p, done, err := i.openSource(at.Path)
		if err != nil {
			yield(convert.SourceFile{}, err)
			return
		}
		defer done()
		list := at.Tool.Files
		if list == nil || p.Path != "." {
			list = everyFile
		}
		for f, err := range list(ctx, p) {
			if !yield(f, err) {
				return
			}
		}
	}
}

// errEnough ends a walk.
var errEnough = errors.New("enough")

// everyFile lists the regular files of a Source. It follows no links.
func everyFile(ctx context.Context, p convert.Source) iter.Seq2[convert.SourceFile, error] {
	return func(yield func(convert.SourceFile, error) bool) {
		n := 0
		err := fs.WalkDir(p.FS, p.Path, func(file string, e fs.DirEntry, err error) error {
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case err != nil && e != nil && e.IsDir():
				return fs.SkipDir // its import says that it cannot be read
			case err != nil || !e.Type().IsRegular():
				return nil
			}
			if n++; n > maxListed {
				return tidemark.Unsupportedf("more than %d files", maxListed)
			}
			if !yield(convert.SourceFile{Path: file, Unit: file, Entry: e}, nil) {
				return errEnough
			}
			return nil
		})
		if err != nil && !errors.Is(err, errEnough) {
			yield(convert.SourceFile{}, err)
		}
	}
}
