package codex

import (
	"cmp"
	"context"
	"encoding/json"
	"io/fs"
	"iter"
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// thread is a session, or a helper agent of one: all files with its id.
type thread struct {
	id       string
	title    string
	files    []*rollout // in order: each before those that continue it
	base     *place     // what the first file continues from
	bases    map[*rollout]*place
	lost     []string
	children []*thread
}

// place is the lines of a file before an ordinal.
type place struct {
	file *rollout
	end  int64
}

// arrange orders the files of a thread and finds what they continue from.
func (t *thread) arrange(files map[string]*rollout) {
	slices.SortFunc(t.files, func(a, b *rollout) int {
		first := func(r *rollout) int {
			if r.id == t.id {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(first(a), first(b)), a.created.Compare(b.created), strings.Compare(a.id, b.id))
	})
	t.bases = map[*rollout]*place{}
	seen := map[*rollout]bool{}
	for _, r := range t.files {
		seen[r] = true
		h := r.meta.HistoryBase
		if h == nil {
			continue
		}
		switch base := files[h.File]; {
		case base == nil:
			t.lost = append(t.lost, "what came before it, in the file of "+h.File+", is not there")
		case base.thread == t.id && !seen[base] || base == r:
			t.lost = append(t.lost, "what came before it is said to be in a later file of its own")
		default:
			t.bases[r] = &place{base, h.End}
		}
	}
	t.base = t.bases[t.files[0]]
	if t.title == "" {
		for _, r := range t.files {
			t.title = cmp.Or(r.title, t.title)
		}
	}
}

// straighten breaks cyclic histories.
func straighten(threads map[string]*thread, order []*thread) {
	straight := map[*rollout]bool{}
	for _, t := range order {
		for _, r := range t.files {
			way := map[*rollout]bool{}
			for up := r; up != nil && !straight[up]; {
				way[up] = true
				owner := threads[up.thread]
				base := owner.bases[up]
				if base == nil {
					break
				}
				if way[base.file] {
					owner.lost = append(owner.lost, "what came before it is said to be in a file that goes on from it")
					delete(owner.bases, up)
					owner.base = owner.bases[owner.files[0]]
					break
				}
				up = base.file
			}
			for up := range way {
				straight[up] = true
			}
		}
	}
}

// importer is one import: the threads of a Source.
type importer struct {
	source  convert.Source
	fsys    fs.FS
	threads map[string]*thread
	root    map[string]*thread // of a helper agent: the session it works for
}

func importAll(ctx context.Context, p convert.Source) iter.Seq2[*convert.Session, error] {
	return func(yield func(*convert.Session, error) bool) {
		skip := func(err error) bool { return yield(nil, err) && convert.IsSkip(err) }
		info, err := fs.Stat(p.FS, p.Path)
		if err != nil {
			yield(nil, err)
			return
		}
		if !info.IsDir() {
			importFile(p, yield)
			return
		}
		threads, order, ok := find(ctx, p, skip)
		if !ok {
			return
		}
		im := &importer{p, p.FS, threads, map[string]*thread{}}
		im.families(order)
		done := map[string]bool{}
		for _, t := range order {
			if im.root[t.id] == nil && !im.yieldAfterSources(ctx, t, done, yield) {
				return
			}
		}
	}
}

// families finds the session that each helper agent works for. One whose parent
// is missing, or is its own descendant, is a session of its own.
func (im *importer) families(order []*thread) {
	for _, t := range order {
		seen, up := map[string]bool{t.id: true}, t
		for {
			parent := im.threads[up.files[0].meta.ParentThread]
			if parent != nil && im.root[parent.id] != nil {
				up, parent = im.root[parent.id], nil
			}
			if parent == nil || seen[parent.id] {
				if up != t && parent == nil {
					im.root[t.id] = up
					up.children = append(up.children, t)
				}
				break
			}
			seen[parent.id] = true
			up = parent
		}
	}
}

// yieldAfterSources yields a session after those that it was forked from.
func (im *importer) yieldAfterSources(ctx context.Context, t *thread, done map[string]bool, yield func(*convert.Session, error) bool) bool {
	var line []*thread
	for up := t; up != nil && !done[up.id]; {
		done[up.id] = true
		line = append(line, up)
		if up.base == nil || im.root[up.base.file.thread] != nil {
			break
		}
		up = im.threads[up.base.file.thread]
	}
	for _, t := range slices.Backward(line) {
		if err := ctx.Err(); err != nil {
			yield(nil, err)
			return false
		}
		s := &convert.Session{Session: tidemark.Session{ForeignID: t.id}, Unchanged: true}
		if changed := !t.unchanged(); changed && t.alone() {
			s = im.grown(t, im.growthOf(t))
		} else if changed {
			s = im.session(t)
			s.Units = t.units()
		}
		if !yield(s, nil) {
			return false
		}
	}
	return true
}

// session makes a session from a thread. A fork of a session refers to it. Where
// a reference is not possible (the source is a helper agent, or a rewind goes
// back to before the fork) the shared past is read again for it.
func (im *importer) session(t *thread) *convert.Session {
	s := t.session(im.fsys)
	switch fork, ok := im.byReference(t); {
	case t.base == nil:
		s.Copied = t.copiedFrom()
		s.Entries = im.entries(t)
	case ok:
		s.Fork = fork
		s.Entries = im.entries(t)
	default:
		s.Copied = t.base.file.thread
		s.Entries = im.whole(t)
	}
	calls := map[string]string{}
	if len(t.children) > 0 {
		im.spawns(append([]*thread{t}, t.children...), calls)
	}
	for _, child := range t.children {
		s.Workers = append(s.Workers, convert.Worker{
			Name:    child.files[0].meta.workerName(),
			Call:    calls[child.id],
			Entries: im.entries(child),
		})
	}
	return s
}

// copiedFrom is the source of a fork that has its past in its own file. A
// helper's copy of its parent's history is left out, and does not make it a
// fork.
func (t *thread) copiedFrom() string {
	m := t.files[0].meta
	if m.HistoryBase != nil || m.HistoryStart > 0 || m.ForkedFrom == t.id {
		return ""
	}
	return m.ForkedFrom
}

// byReference returns where a thread was forked, if all its own entries follow
// that position or one another. A nil Fork: it shares nothing.
func (im *importer) byReference(t *thread) (*convert.Fork, bool) {
	if t.base == nil || im.circular(t) {
		return nil, false
	}
	for r, base := range t.bases {
		if r == t.files[0] {
			continue
		}
		if _, thread := im.lastBefore(base); thread != "" && thread != t.id {
			return nil, false
		}
	}
	last, thread := im.lastBefore(t.base)
	if last == "" {
		return nil, true
	}
	return &convert.Fork{Session: thread, Entry: last}, im.root[thread] == nil
}

// circular reports whether a fork is, by its files, the source of its own
// source.
func (im *importer) circular(t *thread) bool {
	seen := map[string]bool{}
	for up := t; up != nil && up.base != nil; up = im.threads[up.base.file.thread] {
		if seen[up.id] {
			return true
		}
		seen[up.id] = true
	}
	return false
}

// session has what the heads of the files say.
func (t *thread) session(fsys fs.FS) *convert.Session {
	first := t.files[0]
	s := &convert.Session{Lost: t.lost, Remote: first.meta.Git.URL}
	s.ForeignID, s.Title, s.Project, s.CreatedAt = t.id, t.title, first.meta.CWD, first.created
	for _, r := range t.files {
		s.Model, s.Mode = cmp.Or(r.model, s.Model), cmp.Or(convert.ModeOf(r.meta.Provider), s.Mode)
		s.UpdatedAt = later(s.UpdatedAt, r.updated)
	}
	if first.archived {
		s.Tags = []string{"archived"}
	}
	if b, err := convert.Encode(map[string]sessionExtra{"codex": {Meta: first.wholeMeta(fsys)}}); err == nil {
		s.Extra = b
	}
	return s
}

// sessionExtra is what a session cannot represent elsewhere.
type sessionExtra struct {
	Meta json.RawMessage `json:"meta,omitempty"`
}

// entries yields the own entries of a thread, file by file. A later file is a
// branch from the position it continues.
func (im *importer) entries(t *thread) iter.Seq2[convert.Entry, error] {
	return func(yield func(convert.Entry, error) bool) {
		for i, r := range t.files {
			parent := ""
			if i > 0 {
				parent = convert.Root
				if base := t.bases[r]; base != nil {
					if last, _ := im.lastBefore(base); last != "" {
						parent = last
					}
				}
			}
			if !im.file(r, t, parent, -1, ownPrefix(r), yield) {
				return
			}
		}
	}
}

// whole yields the entries of a thread including everything that it continues
// from.
func (im *importer) whole(t *thread) iter.Seq2[convert.Entry, error] {
	return func(yield func(convert.Entry, error) bool) {
		done := map[*rollout]bool{}
		for _, r := range t.files {
			if !im.wholeFile(r, t, done, yield) {
				return
			}
		}
	}
}

// wholeFile yields what a file continues from, unless it was yielded for an
// earlier file, and then the file. Sources are read to their ends, so that every
// rewind finds its position in them.
func (im *importer) wholeFile(r *rollout, t *thread, done map[*rollout]bool, yield func(convert.Entry, error) bool) bool {
	var line []*rollout
	for up := r; up != nil && !done[up]; {
		done[up] = true
		line = append(line, up)
		base := im.baseOf(up)
		if base == nil {
			break
		}
		up = base.file
	}
	for _, file := range slices.Backward(line) {
		parent := convert.Root
		if base := im.baseOf(file); base != nil {
			if last, _ := im.lastIn(base, t); last != "" {
				parent = last
			}
		} else if len(done) == len(line) {
			parent = "" // the very first one
		}
		end := int64(-1)
		if file.thread != t.id {
			end = im.needed(file, t)
		}
		if !im.file(file, t, parent, end, prefixIn(file, t), yield) {
			return false
		}
	}
	return true
}

// needed is how much of a source file the files of a thread need.
func (im *importer) needed(file *rollout, t *thread) int64 {
	end := int64(0)
	seen := map[*rollout]bool{}
	for _, r := range t.files {
		for base := im.baseOf(r); base != nil && !seen[base.file]; base = im.baseOf(base.file) {
			if base.file == file {
				end = max(end, base.end)
				break
			}
			seen[base.file] = true
		}
		clear(seen)
	}
	return end
}

func (im *importer) baseOf(r *rollout) *place {
	if t := im.threads[r.thread]; t != nil {
		return t.bases[r]
	}
	return nil
}

// ownPrefix distinguishes the entries of a thread's later files from those of
// its first one.
func ownPrefix(r *rollout) string {
	if r.id == r.thread {
		return ""
	}
	return r.id + ":"
}

// prefixIn is the same for files of other threads.
func prefixIn(r *rollout, t *thread) string {
	if r.thread == t.id {
		return ownPrefix(r)
	}
	return r.id + ":"
}

// lastBefore returns the last entry before a position, by its ID in the thread
// that has it, and that thread.
func (im *importer) lastBefore(p *place) (id, thread string) {
	seen := map[*rollout]bool{}
	for ; p != nil && !seen[p.file]; p = im.baseOf(p.file) {
		seen[p.file] = true
		if last := im.lastOf(p, ownPrefix(p.file)); last != "" {
			return last, p.file.thread
		}
	}
	return "", ""
}

// lastIn is lastBefore with the ID that the entry has when it is yielded for t.
func (im *importer) lastIn(p *place, t *thread) (id, thread string) {
	seen := map[*rollout]bool{}
	for ; p != nil && !seen[p.file]; p = im.baseOf(p.file) {
		seen[p.file] = true
		if last := im.lastOf(p, prefixIn(p.file, t)); last != "" {
			return last, p.file.thread
		}
	}
	return "", ""
}

func (im *importer) lastOf(p *place, prefix string) string {
	last := ""
	im.file(p.file, im.threads[p.file.thread], "", p.end, prefix, func(e convert.Entry, err error) bool {
		if err == nil {
			last = e.ID
		}
		return err == nil || convert.IsSkip(err)
	})
	return last
}

// file yields the entries of one file that are before an ordinal (-1: all).
func (im *importer) file(r *rollout, t *thread, parent string, end int64, prefix string, yield func(convert.Entry, error) bool) bool {
	rd := &reader{file: r, worker: t != nil && im.root[t.id] != nil, grows: t != nil && end < 0 && r == t.files[len(t.files)-1],
		parent: parent, end: end, prefix: prefix, emit: yield}
	return rd.read(im.fsys)
}

// importFile imports one file alone. What it continues from is read from the
// same folder, if it is there.
func importFile(p convert.Source, yield func(*convert.Session, error) bool) {
	files, threads := map[string]*rollout{}, map[string]*thread{}
	r, err := readHead(p.FS, p.Path)
	if err != nil {
		yield(nil, asSkip(p.Path, err))
		return
	}
	for up := r; up != nil && files[up.id] == nil; {
		files[up.id] = up
		if threads[up.thread] == nil {
			threads[up.thread] = &thread{id: up.thread}
		}
		threads[up.thread].files = append(threads[up.thread].files, up)
		if up.meta.HistoryBase == nil {
			break
		}
		up = beside(p.FS, p.Path, up.meta.HistoryBase.File)
	}
	for _, t := range threads {
		t.arrange(files)
	}
	straighten(threads, []*thread{threads[r.thread]})
	im := &importer{p, p.FS, threads, map[string]*thread{}}
	titles(p.FS, p.Path, threads)
	t := threads[r.thread]
	s := t.session(p.FS)
	s.Copied = t.copiedFrom()
	if t.base != nil {
		s.Copied = t.base.file.thread
	}
	s.Entries = im.whole(t)
	yield(s, nil)
}

// beside finds a file by the id in its name, in the folder of another file.
func beside(fsys fs.FS, name, id string) *rollout {
	if _, err := tidemark.ParseSessionID(id); err != nil {
		return nil
	}
	dir := "."
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		dir = name[:i]
	}
	entries, err := fs.ReadDir(fsys, dir)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		found, ok := nameID(e.Name())
		if !ok || found != id || !e.Type().IsRegular() || !isRollout(e.Name()) {
			continue
		}
		if r, err := readHead(fsys, strings.TrimPrefix(dir+"/"+e.Name(), "./")); err == nil {
			return r
		}
	}
	return nil
}
