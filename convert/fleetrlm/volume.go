package fleetrlm

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// Bounds of the files that come with one session. All of them are held in
// memory.
const (
	maxFile  = 32 << 20
	maxFiles = 256 << 20
	maxCount = 10_000
	maxName  = 512
)

// maxTold bounds how many omitted files are named.
const maxTold = 20

// volume is the durable files of a volume, and their owners.
type volume struct {
	fsys     fs.FS
	root     string
	files    []string // below root
	whose    []whose  // the owners of each of them
	lost     []string
	unread   error // of the first unreadable part
	sessions []source
}

// legacyFolder is the folder for files beside legacy manifests among those of a
// session: their own folder is none of the four.
const legacyFolder = toolName + "/"

// walk lists the files of a volume, without links and manifests.
func walk(fsys fs.FS, root string, sessions []source) *volume {
	v := &volume{fsys: fsys, root: root, sessions: sessions}
	manifests := map[string]bool{}
	for _, s := range sessions {
		manifests[s.name] = true
	}
	top, err := fs.ReadDir(fsys, root)
	if err != nil {
		v.unread = err
	}
	for _, d := range top {
		if d.Name() != workspacesFolder && !slices.Contains(durableFolders(), d.Name()) {
			continue
		}
		if !d.IsDir() {
			v.lost = append(v.lost, d.Name()+": is no folder")
			continue
		}
		// The error of a part is recorded, and the walk continues.
		fs.WalkDir(fsys, path.Join(root, d.Name()), func(name string, d fs.DirEntry, err error) error {
			below := below(root, name)
			switch {
			case err != nil:
				v.unread = cmp.Or(v.unread, err)
			case d.IsDir() || manifests[name]:
			case !d.Type().IsRegular():
				v.lost = append(v.lost, below+": is a link or no file at all")
			case len(v.files) == maxCount:
				v.lost = append(v.lost, fmt.Sprintf("files of the volume after the first %d", maxCount))
				return fs.SkipAll
			default:
				v.files = append(v.files, below)
			}
			return nil
		})
	}
	return v
}

func below(root, name string) string {
	if root == "." {
		return name
	}
	return strings.TrimPrefix(name, root+"/")
}

// sort assigns the files to sessions. If a volume has only one session, all
// files are its. Otherwise a file below the folders of an owner belongs to each
// of that owner's sessions, one whose path contains the id of a session to that
// session, and any other file to every session if all have the same owner:
// nothing is given to somebody else.
func (v *volume) sort() (stray []string) {
	owners, ids := map[owner]bool{}, map[string][]owner{}
	for _, s := range v.sessions {
		owners[s.owner] = true
		ids[s.id] = append(ids[s.id], s.owner)
	}
	v.whose = make([]whose, len(v.files))
	for i, name := range v.files {
		w := &v.whose[i]
		o, below := inFoldersOf(name)
		mentioned := mentions(name, ids)
		switch {
		case len(v.sessions) == 1:
			w.everybody = true
		case below:
			w.owner = o
			if !owners[o] {
				stray = append(stray, name)
			}
		case len(mentioned) > 0:
			w.ids = slices.DeleteFunc(mentioned, func(id string) bool { return len(ids[id]) > 1 })
			if len(w.ids) == 0 {
				stray = append(stray, name)
			}
		case len(owners) == 1:
			w.everybody = true
		default:
			stray = append(stray, name)
		}
	}
	return stray
}

// whose is the owner or sessions that a file belongs to.
type whose struct {
	everybody bool
	owner     owner
	ids       []string // of sessions
}

func (w whose) is(s source) bool {
	return w.everybody || w.owner != (owner{}) && w.owner == s.owner || slices.Contains(w.ids, s.id)
}

// inFoldersOf returns the owner whose folders a file is in.
func inFoldersOf(name string) (owner, bool) {
	parts := strings.Split(name, "/")
	for i := 0; i+4 < len(parts); i++ {
		if parts[i] == workspacesFolder && parts[i+2] == usersFolder {
			return owner{parts[i+1], parts[i+3]}, true
		}
	}
	return owner{}, false
}

// mentions returns the ids of sessions that are elements of a path, with or
// without an extension.
func mentions(name string, ids map[string][]owner) (all []string) {
	for part := range strings.SplitSeq(name, "/") {
		for _, id := range []string{part, strings.TrimSuffix(part, path.Ext(part))} {
			if len(ids[id]) > 0 && !slices.Contains(all, id) {
				all = append(all, id)
			}
		}
	}
	return all
}

// give reads the files of a session. They are complete: existing ones are
// replaced. An error means that some are missing.
func (v *volume) give(s *convert.Session, from source) error {
	s.Files = map[string][]byte{}
	unread := v.unread
	lost := slices.Clone(v.lost)
	room := int64(maxFiles)
	for i, name := range v.files {
		if !v.whose[i].is(from) {
			continue
		}
		as := name
		if strings.HasPrefix(name, workspacesFolder+"/") {
			as = legacyFolder + name
		}
		b, err := v.read(name, as, room)
		var fault *fs.PathError
		switch {
		case errors.As(err, &fault):
			unread = cmp.Or(unread, err)
			continue
		case err != nil:
			lost = append(lost, fmt.Sprintf("%.200s: %v", name, err))
			continue
		}
		room -= int64(len(b))
		s.Files[as] = b
	}
	if n := len(lost); n > maxTold {
		lost = append(lost[:maxTold], fmt.Sprintf("%d more files of the volume", n-maxTold))
	}
	s.Lost = append(s.Lost, lost...)
	return unread
}

func (v *volume) read(name, as string, room int64) ([]byte, error) {
	if err := checkFile(as); err != nil {
		return nil, err
	}
	f, err := v.fsys.Open(path.Join(v.root, name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("is a link or no file at all")
	}
	// A file may grow while it is read, so its stated size is not trusted.
	b, err := io.ReadAll(io.LimitReader(f, min(maxFile, room)+1))
	switch {
	case err != nil:
		return nil, err
	case len(b) > maxFile:
		return nil, tidemark.Invalidf("is larger than %d bytes", maxFile)
	case int64(len(b)) > room:
		return nil, tidemark.Invalidf("more than %d bytes of files in one session", maxFiles)
	}
	return b, nil
}

// checkFile returns ErrInvalid for a name that a session's file cannot have.
func checkFile(name string) error {
	if name == "." || !fs.ValidPath(name) || len(name) > maxName || strings.ContainsFunc(name, unicode.IsControl) || strings.Contains(name, `\`) {
		return tidemark.Invalidf("its name cannot be kept")
	}
	return nil
}
