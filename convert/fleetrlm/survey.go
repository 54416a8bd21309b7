package fleetrlm

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark/convert"
)

// The folders of a volume.
const (
	metaFolder       = "meta"
	workspacesFolder = "workspaces"
	usersFolder      = "users"
	memoryFolder     = "memory"
)

// durableFolders are the folders of a volume that persist.
func durableFolders() []string { return []string{memoryFolder, "artifacts", "buffers", metaFolder} }

// owner is the owner of a manifest, by the names of its folders. In the
// documentation the workspace comes first and the user second; version 0.5.0
// puts a hash of tenant and user first, and the workspace second.
type owner struct{ workspace, user string }

// found is what a Source contains.
type found struct {
	volume    string   // its folder, "": no volume
	manifests []source // of the volume, or alone
	database  string   // the sidecar, "": none
	skips     []error
}

// source is a manifest that was found.
type source struct {
	name   string
	id     string
	owner  owner
	legacy bool
}

func (f found) names() (all []string) {
	for _, s := range f.manifests {
		all = append(all, s.name)
	}
	return all
}

// survey looks for a volume, manifests and the sidecar in a folder.
func survey(p convert.Source) found {
	var f found
	for _, dir := range []string{p.Path, path.Join(p.Path, memoryFolder)} {
		if f.lookFor(p.FS, dir); len(f.manifests) > 0 {
			if f.isVolume(p.FS, dir) {
				f.volume = dir
			}
			break
		}
	}
	if len(f.manifests) == 0 {
		for _, name := range f.list(p.FS, p.Path) {
			if id, ok := sessionOf(name.Name()); ok && name.Type().IsRegular() {
				f.manifests = append(f.manifests, source{name: path.Join(p.Path, name.Name()), id: id})
			}
		}
	}
	for _, name := range []string{sidecarFolder + "/" + sidecarName, sidecarName} {
		if full := path.Join(p.Path, name); convert.IsFile(p.FS, full) {
			f.database = full
			break
		}
	}
	return f
}

// isVolume is false for a part of a volume, such as its meta folder alone: the
// missing rest must not count as deleted.
func (f *found) isVolume(fsys fs.FS, dir string) bool {
	for _, name := range durableFolders() {
		if len(f.folders(fsys, dir, name)) > 0 {
			return true
		}
	}
	return slices.ContainsFunc(f.manifests, func(s source) bool { return path.Base(path.Dir(s.name)) == memoryFolder })
}

// lookFor finds the manifests of a volume: where they are documented to be and
// written, and where earlier versions had them.
func (f *found) lookFor(fsys fs.FS, volume string) {
	f.owners(fsys, path.Join(volume, metaFolder), func(dir string, o owner) { f.take(fsys, dir, o, false) })
	f.owners(fsys, volume, func(dir string, o owner) {
		f.take(fsys, dir, o, true)
		f.take(fsys, path.Join(dir, memoryFolder), o, true)
	})
}

// owners calls do for each folder workspaces/<workspace>/users/<user>. Links
// are not followed.
func (f *found) owners(fsys fs.FS, above string, do func(dir string, o owner)) {
	for _, top := range f.folders(fsys, above, workspacesFolder) {
		for _, workspace := range f.folders(fsys, top, "") {
			for _, users := range f.folders(fsys, workspace, usersFolder) {
				for _, user := range f.folders(fsys, users, "") {
					do(user, owner{path.Base(workspace), path.Base(user)})
				}
			}
		}
	}
}

// folders returns the subfolders of dir with that name, or all for "".
func (f *found) folders(fsys fs.FS, dir, name string) (all []string) {
	for _, d := range f.list(fsys, dir) {
		if d.IsDir() && (name == "" || d.Name() == name) {
			all = append(all, path.Join(dir, d.Name()))
		}
	}
	return all
}

// list is the content of a folder; a missing one is empty.
func (f *found) list(fsys fs.FS, dir string) []fs.DirEntry {
	list, err := fs.ReadDir(fsys, dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && convert.IsDir(fsys, dir) {
		f.skips = append(f.skips, &convert.Skip{What: dir, Why: err})
	}
	return list
}

func (f *found) take(fsys fs.FS, dir string, o owner, legacy bool) {
	for _, d := range f.list(fsys, dir) {
		id, ok := sessionOf(d.Name())
		if !ok {
			continue
		}
		name := path.Join(dir, d.Name())
		if !d.Type().IsRegular() {
			f.skips = append(f.skips, convert.Skipf(name, "is a link or no file at all"))
			continue
		}
		f.manifests = append(f.manifests, source{name, id, o, legacy})
	}
}

// ownerOf derives the owner of a manifest from its path.
func ownerOf(name string) (o owner) {
	parts := strings.Split(path.Dir(name), "/")
	if n := len(parts); n > 0 && parts[n-1] == memoryFolder {
		parts = parts[:n-1]
	}
	if n := len(parts); n >= 4 && parts[n-4] == workspacesFolder && parts[n-2] == usersFolder {
		o = owner{parts[n-3], parts[n-1]}
	}
	return o
}
