package fleetrlm

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// item is a session being imported: a manifest, a row of the sidecar database,
// or both.
type item struct {
	source         // no name: there is only a row
	row    *row    // nil: there is only a manifest
	older  string  // a legacy manifest that fleet-rlm would not read
	known  string  // the id of the session here
	volume *volume // that holds its files, nil: none
}

func importAll(ctx context.Context, p convert.Source) iter.Seq2[*convert.Session, error] {
	return func(yield func(*convert.Session, error) bool) {
		f, err := look(p)
		if err != nil {
			yield(nil, &convert.Skip{What: p.Path, Why: err})
			return
		}
		items, skips := itemsOf(f)
		skips = append(f.skips, skips...)
		var db *sidecar
		if f.database != "" {
			var rows []row
			if db, rows, err = readSidecar(ctx, p, f.database); db != nil {
				defer db.Close()
			}
			if ctx.Err() != nil {
				yield(nil, ctx.Err())
				return
			}
			if err != nil {
				skips = append(skips, &convert.Skip{What: f.database, Why: err})
			}
			var twice []error
			items, twice = withRows(items, rows)
			skips = append(skips, twice...)
		}
		if len(items) == 0 && len(skips) == 0 && f.database == "" {
			skips = append(skips, convert.Skipf(p.Path, "there is no manifest and no %s", sidecarName))
		}
		nameAll(items)
		if f.volume != "" {
			skips = append(skips, attach(p.FS, f.volume, items)...)
		}
		for _, err := range skips {
			if !yield(nil, err) {
				return
			}
		}
		for _, it := range items {
			if !it.yield(ctx, p, db, yield) {
				return
			}
		}
	}
}

// look finds what is at a Source, which may be one file.
func look(p convert.Source) (found, error) {
	info, err := fs.Stat(p.FS, p.Path)
	if err != nil {
		return found{}, err
	}
	if info.IsDir() {
		return survey(p), nil
	}
	if !info.Mode().IsRegular() {
		return found{}, tidemark.Invalidf("is no file")
	}
	b, err := convert.Head(p.FS, p.Path, int64(len(convert.SQLiteMagic)))
	if err != nil {
		return found{}, err
	}
	if bytes.Equal(b, []byte(convert.SQLiteMagic)) {
		return found{database: p.Path}, nil
	}
	id, _ := sessionOf(p.Path)
	return found{manifests: []source{{name: p.Path, id: id, owner: ownerOf(p.Path)}}}, nil
}

func readSidecar(ctx context.Context, p convert.Source, name string) (*sidecar, []row, error) {
	db, err := openSidecar(ctx, p, name)
	if err != nil {
		return nil, nil, err
	}
	rows, err := db.sessions(ctx)
	return db, rows, err
}

// itemsOf makes one item from the manifests of a session. fleet-rlm reads the
// legacy one only if there is no other.
func itemsOf(f found) (items []*item, skips []error) {
	byKey := map[key]*item{}
	for _, s := range f.manifests {
		k := key{s.owner, s.id}
		switch it := byKey[k]; {
		case it == nil:
			byKey[k] = &item{source: s}
			items = append(items, byKey[k])
		case s.legacy && !it.legacy:
			it.older = s.name
		default:
			skips = append(skips, convert.Skipf(s.name, "the session is also in %s", it.name))
		}
	}
	return items, skips
}

// key identifies a session within a Source.
type key struct {
	owner owner
	id    string
}

// withRows adds rows to the manifests of their sessions, and makes items from
// the others.
func withRows(items []*item, rows []row) (all []*item, skips []error) {
	byKey := map[key]*item{}
	for _, it := range items {
		byKey[key{it.owner, safeName(it.id, it.id)}] = it
	}
	for i := range rows {
		r := &rows[i]
		own := r.owners()
		var it *item
		for _, o := range append(own, owner{}) {
			if it = byKey[key{o, r.id()}]; it != nil {
				break
			}
		}
		switch {
		case it == nil:
			it = &item{source: source{id: r.id(), owner: own[0]}, row: r}
			byKey[key{it.owner, it.id}] = it
			items = append(items, it)
		case it.row == nil:
			it.row = r
		default:
			skips = append(skips, convert.Skipf(fmt.Sprintf("session %d of the sidecar database", r.key), "session %d has the same id and owner", it.row.key))
		}
	}
	return items, skips
}

// nameAll gives sessions their ids: their own. An id that two owners have is
// qualified by its owner, and so is fleet-rlm's default name for a session
// without an id, which everybody has.
func nameAll(items []*item) {
	count := map[string]int{}
	for _, it := range items {
		count[it.id]++
	}
	for _, it := range items {
		it.known = it.id
		if (count[it.id] > 1 || isGeneric(it.id)) && it.owner != (owner{}) {
			it.known = strings.Join([]string{it.owner.workspace, it.owner.user, it.id}, "/")
		}
	}
	slices.SortStableFunc(items, func(a, b *item) int {
		return cmp.Or(cmp.Compare(a.owner.workspace, b.owner.workspace), cmp.Compare(a.owner.user, b.owner.user), cmp.Compare(a.id, b.id))
	})
}

func isGeneric(id string) bool {
	return id == "default-session" || id == "default" || id == "__default__"
}

// attach lists the files of a volume for its sessions.
func attach(fsys fs.FS, root string, items []*item) []error {
	var sessions []source
	for _, it := range items {
		if it.name != "" {
			sessions = append(sessions, it.source)
		}
	}
	v := walk(fsys, root, sessions)
	for _, it := range items {
		if it.name != "" {
			it.volume = v
		}
	}
	if stray := v.sort(); len(stray) > 0 {
		return []error{convert.Skipf(stray[0], "there are %d files on the volume of which nobody can tell whose they are", len(stray))}
	}
	return nil
}

// yield yields the session, preceded by the reason if its manifest could not be
// read.
func (it *item) yield(ctx context.Context, p convert.Source, db *sidecar, yield func(*convert.Session, error) bool) bool {
	if err := ctx.Err(); err != nil {
		yield(nil, err)
		return false
	}
	var m *manifest
	if it.name != "" {
		var err error
		if m, err = readManifest(p.FS, it); err != nil {
			if !yield(nil, &convert.Skip{What: it.name, Why: err}) {
				return false
			}
			if it.row == nil {
				return true
			}
		}
	}
	s, err := it.session(ctx, m, db)
	if err != nil {
		yield(nil, err)
		return false
	}
	if m != nil && it.volume != nil {
		if err := it.volume.give(s, it.source); err != nil {
			// Replacing what is here by a partial reading would lose the rest.
			s.Files = nil
			if !yield(nil, convert.Skipf(it.name, "its files, which stay as they are: %w", err)) {
				return false
			}
		}
	}
	return yield(s, nil)
}

// readManifest reads the manifest of an item. A manifest on its own may state
// its id itself.
func readManifest(fsys fs.FS, it *item) (*manifest, error) {
	f, err := fsys.Open(it.name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxManifest+1))
	if err != nil {
		return nil, err
	}
	m, err := parseManifest(b)
	if err != nil {
		return nil, err
	}
	if _, named := sessionOf(it.name); !named {
		if !m.isOne() {
			return nil, tidemark.Invalidf("is not a manifest: it has no turns and no state")
		}
		it.id = safeName(m.rest.Text("session_id"), safeName(strings.TrimSuffix(path.Base(it.name), manifestEnd), "default-session"))
		it.known = it.id
	}
	return m, nil
}

// isOne reports whether the content can be recognized as a manifest.
func (m *manifest) isOne() bool {
	return m.history != nil && (m.shape == nested || anyIn(m.rest, "session_id", "schema_version")) || anyIn(m.state, stateKeys()...)
}

// session returns the session of an item. Messages, memory, documents and
// interpreter come from the manifest; the row has the rest, and the messages if
// there is no manifest.
func (it *item) session(ctx context.Context, m *manifest, db *sidecar) (*convert.Session, error) {
	n := note{Workspace: it.owner.workspace, User: it.owner.user}
	if it.known != it.id {
		n.Session = it.id
	}
	if it.row != nil {
		n.Row = it.row.object()
	}
	if m == nil {
		s := &convert.Session{}
		if it.name == "" {
			s.Checkpoint = readState(nil, parseTime(it.row.text("updated_at")))
		} // else the state could not be read, and what is here stays
		it.row.describe(s)
		s.ForeignID = it.known
		s.Entries = speak(db.turns(ctx, it.row.key), s.CreatedAt)
		s.Extra = keep(n)
		standAtEnd(s)
		return s, nil
	}
	s := m.session()
	s.ForeignID = it.known
	n.Shape, n.History, n.Turns, n.Manifest = m.shape, m.history, len(m.turns), m.rest
	if n.Row == nil {
		n.Row = m.block.Row
	}
	if it.row != nil {
		rows, lost, err := db.load(ctx, it.row.key)
		if err != nil {
			return nil, err
		}
		s.Lost = append(s.Lost, lost...)
		it.row.describe(s)
		n.Turns = join(s, m.decode(), rows)
	}
	n.Timeless = s.CreatedAt.IsZero()
	if len(m.turns) == 0 {
		// fleet-rlm continues from the manifest: this one starts over.
		s.Head = convert.Root
	} else {
		standAtEnd(s)
	}
	if it.older != "" {
		s.Lost = append(s.Lost, it.older+": an older manifest, which fleet-rlm does not read either")
	}
	s.Extra = keep(n)
	return s, nil
}

// standAtEnd puts the head of a session at its last entry: if that is an earlier
// one than at the last import, fleet-rlm removed the others.
func standAtEnd(s *convert.Session) {
	if s.Head != "" {
		return
	}
	s.Head = convert.Root
	for e := range s.Entries {
		s.Head = e.ID
	}
}
