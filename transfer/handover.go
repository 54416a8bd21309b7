package transfer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/internal/durable"
	"github.com/tidemark-sessions/tidemark/store"
)

// A session that is written where a tool looks for its own is handed over: people
// go on with it there, and what they say comes back with the next import. So that
// this finds the same session, and takes only what is new, the store keeps which
// entries of the tool's session are from here, before the tool can see the files.
// They are written elsewhere first, and read as an import reads them, because
// only that tells how the tool's entries will be called.

// Handed is a session that a tool was given.
type Handed struct {
	Session   tidemark.SessionID `json:"session"`
	Tool      string             `json:"tool"`
	ForeignID string             `json:"foreign_id"`
	// Before says that it was there already, as it is here.
	Before bool `json:"before,omitempty"`
	// Load is the command line that has the tool take it in; nil: it finds it.
	Load []string `json:"load,omitempty"`
	// Note is what a person should know before going on in the tool.
	Note string `json:"note,omitempty"`
}

// handover gives sessions to a tool.
type handover struct {
	s    *store.Store
	tool convert.Tool
	home *Folder
	// project is the folder that the tool is to go on in; "": any.
	project string
	who     tidemark.Holder // who appends what its own tool did not finish
	file    string          // the transcript that was written last
}

// canHandOver reports whether what a tool adds to a session can be told from what
// it was given: its entries keep their names.
func canHandOver(t convert.Tool) bool {
	return t.Export != nil && t.Import != nil && t.Files != nil && t.Handover != nil
}

// IsHome reports whether a tool that sessions can be handed over to looks for its
// own in a folder: it has some there, or the folder has the name of its home.
func IsHome(ctx context.Context, t convert.Tool, folder string) bool {
	full, err := filepath.Abs(folder)
	if err != nil || !canHandOver(t) {
		return false
	}
	for _, home := range t.Homes {
		if filepath.Base(full) == path.Base(home) {
			return true
		}
	}
	p, done, err := openSource(full, nil)
	if err != nil {
		return false
	}
	defer done()
	return t.Detect(ctx, p)
}

// finds reports whether the tool offers a session of its home in a project, and
// whether it has it only for other projects. Without a project, whether it has it.
func (h *handover) finds(ctx context.Context, foreign string) (here, elsewhere bool, err error) {
	if h.tool.Handover.Load != nil {
		waits := h.tool.Handover.Waits(foreign)
		if here, err = h.holds(ctx, foreign, waits); err == nil && !here {
			if _, err := fs.Stat(h.home.dir.ReadOnly(), waits); err == nil {
				here, h.file = true, waits // it was never told to take it in
			}
		}
		return here, false, err
	}
	offered := ""
	if h.project != "" && h.tool.Offered != nil {
		offered = h.tool.Offered(h.project) + "/"
	}
	for f, err := range h.tool.Files(ctx, convert.Source{FS: h.home.dir.ReadOnly(), Path: ".", Getenv: h.home.Getenv}) {
		if err != nil && !convert.IsSkip(err) && !errors.Is(err, fs.ErrPermission) {
			return false, false, err
		}
		if err != nil || !strings.Contains(f.Path, inNames(h.tool, foreign)) {
			continue
		}
		if strings.HasPrefix(f.Path, offered) {
			return true, false, nil
		}
		elsewhere = true
	}
	return false, elsewhere, nil
}

// holds reports whether a tool that keeps its sessions in a database has one there,
// besides the file by which it was given. To give it the same one again would replace
// what it has.
func (h *handover) holds(ctx context.Context, foreign, waits string) (bool, error) {
	p, done, err := openSource(h.home.path, h.home.Getenv)
	if err != nil {
		return false, err
	}
	defer done()
	p.FS = hiding{p.FS, map[string]bool{waits: true}}
	for s, err := range h.tool.Import(ctx, p) {
		if err != nil && !convert.IsSkip(err) {
			return false, err
		}
		if err == nil && s.ForeignID == foreign {
			return true, nil
		}
	}
	return false, nil
}

// export gives the tool a session. It has its own id there if that is free: it came
// from the tool, which lost it since. No file of the tool is replaced.
func (h *handover) export(ctx context.Context, p store.Point, prepare func(*convert.Session) ([]string, error)) (Handed, []string, error) {
	out := Handed{Session: p.ID, Tool: h.tool.Name}
	p, err := h.settled(ctx, p)
	if err != nil {
		return out, nil, err
	}
	tip, err := tipOf(ctx, p)
	if err != nil {
		return out, nil, err
	}
	if out.ForeignID, out.Before, err = h.idFor(ctx, p, tip); err != nil || out.Before {
		h.given(&out)
		return out, nil, err
	}
	lost, err := h.write(ctx, p, out.ForeignID, prepare)
	h.given(&out)
	return out, lost, err
}

// settled appends what the session's own tool did not finish: who goes on with a
// session goes on with what was shown, and a tool is given only what stays.
func (h *handover) settled(ctx context.Context, p store.Point) (store.Point, error) {
	if p.Seq != 0 || p.State != store.Live {
		return p, nil
	}
	if err := h.s.Settle(ctx, p.ID, h.who); err != nil {
		return p, err
	}
	v, err := h.s.View(ctx, p.ID)
	return store.Point{View: v}, err
}

// tipOf is the entry that a point is at.
func tipOf(ctx context.Context, p store.Point) (int64, error) {
	if p.Seq != 0 {
		return p.Seq, nil
	}
	return p.Head(ctx)
}

// idFor returns the id to give a session to the tool under, and whether the tool
// has it under that id already, and is at the tip.
func (h *handover) idFor(ctx context.Context, p store.Point, tip int64) (id string, before bool, err error) {
	if OriginTool(p.Session) == h.tool.Name && p.ForeignID != "" {
		if here, elsewhere, err := h.finds(ctx, p.ForeignID); err != nil || !here && !elsewhere {
			return p.ForeignID, false, err
		}
	}
	at, err := h.endingAt(ctx, p, tip)
	if err != nil {
		return "", false, err
	}
	for _, was := range at {
		here, elsewhere, err := h.finds(ctx, was)
		if err != nil || here {
			return was, here, err
		}
		if !elsewhere {
			id = was // the tool lost it
		}
	}
	return cmp.Or(id, newID(h.tool)), false, nil
}

// endingAt returns the ids of the tool's sessions that end with the entry tip: the
// tool was given a session up to that entry, or brought the entry itself, and has
// added nothing since then. The one that a session came from is meant only where
// people go on with it: an export of it is a copy.
func (h *handover) endingAt(ctx context.Context, p store.Point, tip int64) (ids []string, err error) {
	given := make(map[string]int64) // the tips, by foreign id
	for was, err := range h.s.Handovers(ctx, p.ID) {
		if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
			return nil, err
		}
		if err == nil && was.Tool == h.tool.Name && (h.project != "" || was.ForeignID != p.ForeignID) {
			given[was.ForeignID] = was.Tip
		}
	}
	by := func(e tidemark.Entry) string { // which of the tool's sessions brought an entry
		name, ok := strings.CutPrefix(e.Key, h.tool.Name+":")
		if !ok {
			return ""
		}
		if under, _, _ := strings.Cut(name, "/"); given[under] != 0 {
			return under
		}
		if h.project != "" && OriginTool(p.Session) == h.tool.Name {
			return p.ForeignID
		}
		return ""
	}
	ends := make(map[string]bool)
	for id, at := range given {
		ends[id] = at == tip
	}
	for e, err := range p.LogRange(ctx, tip, 0) {
		switch {
		case errors.Is(err, tidemark.ErrCorrupt):
			return nil, nil // nobody knows who said that
		case err != nil:
			return nil, err
		case e.Kind != tidemark.KindBranch && e.Kind != tidemark.KindGap && e.Kind != KindImported:
			ends[by(e)] = e.Seq == tip
		}
	}
	delete(ends, "")
	for _, id := range slices.Sorted(maps.Keys(ends)) {
		if ends[id] {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// write writes the path to a point, or a whole session, as the tool's session with
// an id, and returns what the tool has no place for. The Handover is kept when
// nothing of it is visible yet; a crash in between leaves a Handover of nothing.
func (h *handover) write(ctx context.Context, p store.Point, id string, prepare func(*convert.Session) ([]string, error)) (lost []string, err error) {
	f, err := Outgoing(ctx, h.s, p, h.tool)
	if err != nil {
		return nil, err
	}
	if f.ForeignID != "" && f.ForeignID != id {
		f.Copied = f.ForeignID
	}
	f.ID, f.ForeignID = tidemark.SessionID(id), id
	var changed []string
	if prepare != nil {
		if changed, err = prepare(f); err != nil {
			return nil, err
		}
	}
	scratch, err := durable.NewScratch("tidemark")
	if err != nil {
		return nil, tidemark.Storagef("%w", err)
	}
	defer func() { err = errors.Join(err, scratch.Close()) }()
	staged, err := OpenFolder(scratch.Dir(), h.home.environ)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, staged.Close()) }()
	staged.onto = h.home
	if lost, err = h.tool.Export(ctx, staged, f); err != nil {
		return nil, err
	}
	record := store.Handover{Session: p.ID, Tool: h.tool.Name, ForeignID: id}
	if record.Tip, err = tipOf(ctx, p); err == nil {
		err = h.readBack(ctx, staged, f, &record)
	}
	if err == nil {
		err = h.s.HandOver(ctx, record)
	}
	if err != nil {
		return nil, err
	}
	h.file = staged.created[0]
	return slices.Concat(changed, lost, f.Lost), h.home.take(ctx, staged)
}

// take copies what was written to another folder. The file that was begun first is
// the transcript, and comes last: once it is there, everything is.
func (o *Folder) take(ctx context.Context, from *Folder) error {
	for _, name := range slices.Backward(from.created) {
		if _, err := fs.Stat(o.dir.ReadOnly(), name); err == nil {
			return tidemark.Conflictf("%s: it was there before, and is left as it is", name)
		}
		if err := durable.MkdirAll(o.dir, path.Dir(name)); err != nil {
			return tidemark.Storagef("%s: %w", name, err)
		}
		if _, err := copyInto(ctx, o.dir, name, from.dir.ReadOnly(), name, math.MaxInt64); err != nil {
			return tidemark.Storagef("%s: %w", name, err)
		}
	}
	return nil
}

// readBack reads what was written for the tool as an import does, and notes for
// which entries of the session its entries stand.
func (h *handover) readBack(ctx context.Context, staged *Folder, f *convert.Session, record *store.Handover) error {
	given := &givenEntries{exact: make(map[entryPrint][]int), alike: make(map[entryPrint][]int)}
	for e, err := range f.Entries {
		if err != nil && !convert.IsSkip(err) {
			return err
		}
		if err == nil {
			given.add(e.Entry)
		}
	}
	found := false
	src := convert.Source{FS: staged.dir.ReadOnly(), Path: ".", Getenv: staged.Getenv}
	for s, err := range h.tool.Import(ctx, src) {
		if convert.IsSkip(err) {
			continue
		}
		if err != nil {
			return err
		}
		mine := s.ForeignID == record.ForeignID
		if err := given.match(s, record, mine); err != nil {
			return err
		}
		found = found || mine
	}
	if !found {
		return tidemark.Unsupportedf("session %s: what would be written for %s could not be read back", record.Session, h.tool.Title)
	}
	return nil
}

// entryPrint is what an entry has in common with what a tool makes of it.
type entryPrint struct {
	role tidemark.Role
	at   int64 // in milliseconds, as tools write it
	text shortSum
}

func printOf(e tidemark.Entry) entryPrint {
	var text strings.Builder
	for _, b := range e.Blocks {
		fmt.Fprintln(&text, strings.TrimSpace(b.Text), b.Name)
	}
	return entryPrint{role: e.Role, at: e.At.UnixMilli(), text: shortSumOf(text.String())}
}

// givenEntries are the entries that a tool was given, in order.
type givenEntries struct {
	seqs         []int64
	exact, alike map[entryPrint][]int // where they are in seqs; alike without their times
}

func (g *givenEntries) add(e tidemark.Entry) {
	p := printOf(e)
	g.exact[p] = append(g.exact[p], len(g.seqs))
	p.at = 0
	g.alike[p] = append(g.alike[p], len(g.seqs))
	g.seqs = append(g.seqs, e.Seq)
}

// next returns the first entry from a place on that looks like e.
func (g *givenEntries) next(from int, e tidemark.Entry) (int, bool) {
	p := printOf(e)
	places := g.exact[p]
	n, _ := slices.BinarySearch(places, from)
	if n == len(places) {
		p.at = 0
		places = g.alike[p]
		n, _ = slices.BinarySearch(places, from)
	}
	if n == len(places) {
		return 0, false
	}
	return places[n], true
}

// match notes all entries of what was read back. Converters keep the order; what
// they add stands for the entry before it. What follows the place that the tool
// goes on from follows the tip here.
func (g *givenEntries) match(s *convert.Session, record *store.Handover, mine bool) error {
	at, last := -1, s.Head
	for e, err := range s.Entries {
		if convert.IsSkip(err) {
			continue
		}
		if err != nil {
			return err
		}
		if !mine {
			continue // a worker that the tool keeps as a session, which it is read with
		}
		if n, ok := g.next(at+1, e.Entry); ok {
			at = n
		}
		seq := int64(0)
		if at >= 0 {
			seq = g.seqs[at]
		}
		record.Add("", e.ID, seq)
		if s.Head == "" {
			last = e.ID
		}
	}
	if mine && last != "" && last != convert.Root {
		record.Add("", last, record.Tip)
	}
	for _, w := range s.Workers {
		for e, err := range w.Entries {
			if err != nil && !convert.IsSkip(err) {
				return err
			}
			if err == nil {
				record.Add(workerName(w), e.ID, 0)
			}
		}
		record.Add(workerName(w), "@worker", 0)
	}
	return nil
}
