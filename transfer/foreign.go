package transfer

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/internal/project"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/store"
)

// toolImport imports what one tool keeps in one place. Each entry has a key made
// from the tool's own id for it, so that a second import finds existing entries:
// an unchanged one is skipped, new ones are added, and a changed one becomes a
// branch beside the old one.
type toolImport struct {
	*Importer
	tool   convert.Tool
	s      *store.Store // sets the tool's own times of change; nil: there is no store yet
	clock  time.Time
	folder string  // the project of a session that names none
	root   string  // the folder that the source is in, with its machine; "": it came from elsewhere
	ledger *ledger // of the source; nil: it has none

	reports *writing // what is reported waits there; nil: it does not wait
}

// newToolImport returns a toolImport into the open store.
func newToolImport(i *Importer, tool convert.Tool) *toolImport {
	b := &toolImport{Importer: i, tool: tool}
	if i.Opened != nil {
		// An imported session was last changed when its tool changed it, not
		// now.
		b.s = i.Opened.Store.ChangedAt(func() time.Time { return b.clock })
	}
	return b
}

// isItem reports whether an error concerns one item, which somebody else
// may have changed meanwhile, and not the whole import.
func isItem(err error) bool {
	return convert.IsSkip(err) || errors.Is(err, tidemark.ErrInvalid) || errors.Is(err, tidemark.ErrConflict)
}

// skip reports what is left out.
func (b *toolImport) skip(err error) {
	if b.reports != nil {
		b.reports.skipped = append(b.reports.skipped, err)
		return
	}
	if errors.Is(err, context.Canceled) {
		return // whoever ended the import knows
	}
	b.Skipped++
	if b.Skip != nil {
		b.Skip(err)
	}
}

// setClock sets the time of change for what is imported next to the first of
// these times that is known, and now at the latest.
func (b *toolImport) setClock(times ...time.Time) {
	now := time.Now()
	if b.clock = cmp.Or(cmp.Or(times...), now); b.clock.After(now) {
		b.clock = now
	}
}

// one imports one session, to be reported; a new one completely or not at all.
func (b *toolImport) one(ctx context.Context, f *convert.Session, from string) error {
	if f.ForeignID == "" {
		return convert.Skipf(from, "a session without an id")
	}
	b.setClock(f.UpdatedAt, f.CreatedAt)
	g := &sessionImport{toolImport: b, from: f, calls: make(map[string]bool), result: Result{From: from, Tool: b.tool.Name, ForeignID: f.ForeignID, Title: strings.TrimSpace(f.Title), State: "new"}}
	if kept, err := g.keptWhole(ctx); err != nil || kept {
		return err
	}
	err := g.find(ctx)
	if err != nil || b.reports.passed != "" {
		return err
	}
	err = g.fill(ctx)
	if g.w != nil {
		err = errors.Join(err, g.w.Close(context.WithoutCancel(ctx)))
	}
	if errors.Is(err, tidemark.ErrHeld) && g.w == nil && g.here != nil {
		g.result.State, g.result.Entries, g.result.Drafts = "waiting", 0, 0
		b.reports.result = &g.result
		return err
	}
	if err != nil {
		return errors.Join(err, g.undo(context.WithoutCancel(ctx)))
	}
	if err := g.dropPrompts(ctx); err != nil {
		return err
	}
	g.result.Lost = f.Lost
	b.reports.result, b.reports.guest = &g.result, g.under != ""
	if g.wasPurged && !b.DryRun {
		return g.s.Unpurge(ctx, g.known())
	}
	return nil
}

// undo removes a session that could not be imported completely.
func (g *sessionImport) undo(ctx context.Context) error {
	if g.w == nil || g.here != nil || !g.w.Began() {
		return nil
	}
	who := g.Holder
	if l, err := g.s.Lease(ctx, g.w.ID()); err != nil || l.Holder != who {
		return err // somebody else wrote to it meanwhile, and was told that it is kept
	}
	err := g.s.Discard(ctx, g.w.ID(), who)
	if errors.Is(err, tidemark.ErrNotFound) {
		return nil // nothing of it was kept yet
	}
	return err
}

// sessionImport is one session of another tool on its way in.
type sessionImport struct {
	*toolImport
	from   *convert.Session
	result Result
	here   *store.View     // nil if it does not exist yet
	handed *store.Handover // the tool was given it; nil if not
	under  string          // the foreign id, for a session that is not the tool's own, which was only given it
	w      *store.Writer
	made   tidemark.Session // as it was created
	prompt string           // the beginning of its first prompt
	calls  map[string]bool  // calls in it without a result
	alone  bool             // no other import of it was seen
	bare   bool             // nothing was said in it
	main   *logImport       // its own log
	odd    bool             // a log of it is not what its files would make of it alone, or a worker has a draft

	wasPurged bool // it was purged here, and is wanted back

	renewed time.Time // when its lease was last renewed
}

// origin is what a session keeps about where it came from.
type origin struct {
	Tool   string          `json:"tool"`
	Copied string          `json:"copied_from,omitempty"`
	Head   string          `json:"head,omitempty"` // the tool's head; "" if unknown
	Said   sourceSays      `json:"said,omitzero"`
	Extra  json.RawMessage `json:"extra,omitempty"`
}

// sourceSays is what the tool said about the session at the last import. A session that
// differs was changed here, and stays as it is.
type sourceSays struct {
	Title   string `json:"title,omitempty"`
	Model   string `json:"model,omitempty"`
	Mode    string `json:"mode,omitempty"`
	Project string `json:"project,omitempty"`
}

// OriginTool is the tool that a session was imported from, "" for one that was
// started here.
func OriginTool(s tidemark.Session) string { return originOf(s).Tool }

// RenameToSource gives a session the title that it has in the tool that it was
// imported from, which it then follows: ErrInvalid when it has none there.
func RenameToSource(ctx context.Context, s *store.Store, id tidemark.SessionID) error {
	i, err := s.Session(ctx, id)
	if err != nil {
		return err
	}
	title := originOf(i.Session).Said.Title
	if title == "" {
		return hint.With(tidemark.Invalidf("session %s has no title of another tool", id), "a session that was imported has one after its next import")
	}
	return s.RenameToSource(ctx, id, title)
}

// originOf returns where a session came from.
func originOf(s tidemark.Session) origin {
	var extra struct {
		Imported origin `json:"imported"`
	}
	if len(s.Extra) == 0 || json.Unmarshal(s.Extra, &extra) != nil {
		return origin{}
	}
	return extra.Imported
}

// origin encodes where the session came from.
func (g *sessionImport) origin(s sourceSays) (json.RawMessage, error) {
	return json.Marshal(map[string]origin{"imported": {Tool: g.tool.Name, Copied: g.from.Copied, Head: headName(g.from), Said: s, Extra: g.from.Extra}})
}

// said is what the tool says about the session now. Its title is the beginning of
// the first prompt where it has none.
func (g *sessionImport) said(ctx context.Context) (s sourceSays, err error) {
	// Its tool used a remote model, unless it said otherwise.
	s = sourceSays{Model: g.from.Model, Mode: cmp.Or(g.from.Mode, tidemark.ModeRemote), Project: cmp.Or(g.from.Project, g.folder)}
	s.Title, err = g.title(ctx, cmp.Or(strings.TrimSpace(g.from.Title), g.prompt))
	return s, err
}

// headName is the stored form of a tool's head in a session.
func headName(f *convert.Session) string {
	switch f.Head {
	case "":
		return "@end"
	case convert.Root:
		return "@root"
	}
	return f.Head
}

// Why a session is passed over.
const (
	passedTrashed = "trashed"
	passedPurged  = "purged"
)

// find looks for the session among those that the tool was given, and among those
// that were imported before, and says if it is to be passed over.
func (g *sessionImport) find(ctx context.Context) error {
	if g.s == nil {
		return nil
	}
	i, handed, err := g.imported(ctx, g.from.ForeignID)
	switch {
	case err != nil:
		return err
	case i.ID == "":
		if g.wasPurged, err = g.s.Purged(ctx, g.known()); g.wasPurged && (!g.Again || g.homes) {
			g.reports.passed = passedPurged
		}
		return err
	case i.State == store.Trash:
		g.reports.passed, g.reports.session = passedTrashed, i.ID
		return nil
	case i.State != store.Live:
		g.reports.passed = passedPurged
		return nil
	}
	g.handed, g.under = handed, g.namesUnder(i, handed)
	g.result.State, g.result.Session, g.result.Title = "known", i.ID, i.Title
	g.here, err = g.s.View(ctx, i.ID)
	return err
}

// imported returns the session that the tool was given under an id, or that was
// imported from it under that id: the one with the id that it has here, or one that
// an earlier version of this program gave a random id. It has no ID if there is
// none.
func (g *sessionImport) imported(ctx context.Context, foreign string) (is store.Info, handed *store.Handover, err error) {
	handed, err = g.s.HandedOver(ctx, g.tool.Name, foreign)
	if err == nil {
		is, err = g.s.Session(ctx, handed.Session)
		return is, handed, err
	}
	if !errors.Is(err, tidemark.ErrNotFound) {
		return is, nil, &convert.Skip{What: foreign, Why: err}
	}
	id := g.idOf(foreign)
	if id != "" {
		// Mostly it has the id that it should have, and nobody need look for its name.
		if i, err := g.s.Session(ctx, id); err == nil && i.Tool == g.tool.Name && i.ForeignID == foreign && i.Owner == "" {
			return i, nil, nil
		}
	}
	found, err := g.s.Foreign(ctx, foreign)
	for _, i := range found {
		if i.Tool != g.tool.Name || i.Owner != "" { // sessions of other owners cannot be continued
			continue
		}
		if i.ID == id || is.ID == "" && (g.from.LocalTo == "" || id == "" || !i.ID.Derived()) {
			is = i
		}
	}
	return is, nil, err
}

// namesUnder returns what is put before the tool's ids of entries to make keys of
// them: nothing in a session of the tool. In others several sessions of the tool
// may have come together, whose entries have the same ids.
func (g *sessionImport) namesUnder(i store.Info, handed *store.Handover) string {
	if handed == nil || i.Tool == g.tool.Name && i.ForeignID == handed.ForeignID {
		return ""
	}
	return handed.ForeignID
}

// idOf is the id that a session of the tool gets here: the same one wherever it is
// imported. It is "", and the session gets a random one, if the tool's id means
// something only in a place that is not known.
func (g *sessionImport) idOf(foreign string) tidemark.SessionID {
	if g.from.LocalTo == "" {
		return tidemark.DerivedSessionID("import", g.tool.Name, foreign)
	}
	if g.root == "" {
		return ""
	}
	return tidemark.DerivedSessionID("import", g.tool.Name, foreign, path.Join(g.root, g.from.LocalTo))
}

// known is the session as the store would know it.
func (g *sessionImport) known() tidemark.Session {
	return tidemark.Session{ID: g.idOf(g.from.ForeignID), Tool: g.tool.Name, ForeignID: g.from.ForeignID}
}

// checkFree refuses a session whose id somebody else gave to another one.
func (g *sessionImport) checkFree(ctx context.Context, id tidemark.SessionID) error {
	if id == "" {
		return nil
	}
	i, err := g.s.Session(ctx, id)
	switch {
	case errors.Is(err, tidemark.ErrNotFound):
		return nil
	case err != nil:
		return err
	case i.Tool == g.tool.Name && i.ForeignID == g.from.ForeignID:
		return convert.Skipf(g.from.ForeignID, "another import brings it at the same time; import it again")
	}
	return convert.Skipf(g.from.ForeignID, "its id here would be %s, which another session has: purge that one, or import into another store", id)
}

// fill imports the entries, then the session's state.
func (g *sessionImport) fill(ctx context.Context) error {
	if err := g.log(ctx, "", g.from.Entries); err != nil {
		return err
	}
	for _, worker := range g.from.Workers {
		// Some tools tell which call started a worker with the result of the call.
		unsure := worker.Call == "" && len(g.calls) > 0
		if err := g.log(ctx, workerName(worker), withOrigin(worker, unsure)); err != nil {
			return err
		}
	}
	if g.main != nil {
		g.main.mark()
	}
	g.result.Title = cmp.Or(g.result.Title, g.prompt)
	if g.here == nil && g.result.Entries+g.result.Drafts == 0 {
		if g.from.Checkpoint == nil && len(g.from.Files) == 0 {
			g.result.State = "empty"
			return nil
		}
		// The memory of a session is worth keeping even if nothing was said.
		g.bare = true
		begun := convert.Entry{Entry: tidemark.Entry{Kind: KindImported, At: g.clock}, ID: importedName}
		if err := g.log(ctx, "", convert.All([]convert.Entry{begun})); err != nil {
			return err
		}
	}
	if g.under != "" {
		return nil // what is known about the session is from here, or from its own tool
	}
	if err := g.state(ctx); err != nil || g.DryRun {
		return err
	}
	return g.s.RecordProjectPath(ctx, project.RemoteMark(g.from.Remote), cmp.Or(g.from.Project, g.folder))
}

// KindImported is the first entry of an imported session in which nothing was
// said.
const KindImported = "imported"

// importedName is the id of that entry.
const importedName = "@imported"

// kindWorker is the first entry in the log of a worker. It holds the tool's
// name for the worker and the call that started it.
const kindWorker = "worker"

// workerOrigin is the content of such an entry.
type workerOrigin struct {
	Name string `json:"name"`
	Call string `json:"call,omitempty"`
}

// workerOriginOf returns where a worker came from; one that was started here
// has only its name.
func workerOriginOf(ctx context.Context, v *store.View, name string) (workerOrigin, error) {
	from := workerOrigin{Name: name}
	for e, err := range v.LogRange(ctx, 1, 1) {
		if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
			return from, err
		}
		if err == nil && e.Kind == kindWorker && json.Unmarshal(e.Extra, &from) != nil {
			from = workerOrigin{Name: name}
		}
	}
	return from, nil
}

// withOrigin puts that entry before those of the worker. As long as it is unsure,
// all of them are drafts.
func withOrigin(w convert.Worker, unsure bool) iter.Seq2[convert.Entry, error] {
	return func(yield func(convert.Entry, error) bool) {
		begun := false
		for e, err := range w.Entries {
			e.Draft = e.Draft || unsure
			if !begun && err == nil {
				begun = true
				extra, err := json.Marshal(workerOrigin{w.Name, w.Call})
				first := convert.Entry{Entry: tidemark.Entry{Kind: kindWorker, At: e.At, Extra: extra, Draft: e.Draft}, ID: "@worker"}
				if !yield(first, err) {
					return
				}
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// workerName turns the name of a worker into a valid id.
func workerName(w convert.Worker) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '-'
	}, cmp.Or(w.Name, w.Call))
	name = strings.Trim(name, "-")
	if name != w.Name || store.CheckWorker(name) != nil {
		// Two names must not become one.
		sum := sha256.Sum256([]byte(w.Name + "\x00" + w.Call))
		name = fmt.Sprintf("%.40s-%s", cmp.Or(name, "worker"), hex.EncodeToString(sum[:6]))
	}
	return name
}

// open creates the writer at the first new entry.
func (l *logImport) open(ctx context.Context) error {
	g := l.sessionImport
	if g.w != nil || g.here != nil {
		return g.attach(ctx)
	}
	sess := g.from.Session
	sess.ID, sess.Base = g.idOf(g.from.ForeignID), nil
	if err := g.checkFree(ctx, sess.ID); err != nil {
		return err
	}
	about, err := g.said(ctx)
	if err == nil && about.Title == "" {
		about.Title = l.firstPrompt()
	}
	if err == nil {
		sess.Extra, err = g.origin(about)
	}
	if err != nil {
		return err
	}
	sess.Agent = cmp.Or(sess.Agent, g.tool.Name)
	sess.Tool, sess.Title, sess.Mode, sess.Project = g.tool.Name, about.Title, about.Mode, about.Project
	g.made = sess
	g.made.CreatedAt = sess.CreatedAt.UTC().Truncate(time.Microsecond)
	if g.from.Fork != nil {
		return l.fork(ctx, sess)
	}
	g.w = g.s.Create(sess, g.Holder)
	g.result.Session, g.result.Title = g.w.ID(), sess.Title
	return nil
}

// title is the title of the session here. A session that begins with another
// one, or with a copy of it, is a fork, and does not get the same title without
// a mark.
func (g *sessionImport) title(ctx context.Context, title string) (string, error) {
	before := g.from.Copied
	if g.from.Fork != nil {
		before = g.from.Fork.Session
	}
	if before == "" || g.s == nil || title == "" {
		return title, nil
	}
	source, _, err := g.imported(ctx, before)
	if source.ID != "" && strings.EqualFold(source.Title, title) {
		title = store.MarkFork(title)
	}
	return title, err
}

// attach becomes the writer of an existing session.
func (g *sessionImport) attach(ctx context.Context) error {
	if g.w != nil {
		return nil
	}
	w, err := g.s.AttachSource(ctx, g.here.ID, g.Holder)
	if errors.Is(err, tidemark.ErrNotFound) { // trashed: the session of the others continues
		return &convert.Skip{What: g.from.ForeignID, Why: err}
	}
	if err != nil {
		return err
	}
	g.w = w
	// New entries were determined before others were locked out.
	now, err := g.s.View(ctx, g.here.ID)
	if err == nil && now.Entries != g.here.Entries {
		err = tidemark.Conflictf("session %s: somebody else wrote to it meanwhile", g.here.ID)
	}
	return err
}

// checkAlone makes sure that no other import started the same session
// meanwhile: whoever notices gives way, so that nothing is duplicated.
func (g *sessionImport) checkAlone(ctx context.Context) error {
	found, err := g.s.Foreign(ctx, g.from.ForeignID)
	for _, i := range found {
		if i.ID != g.w.ID() && i.Tool == g.tool.Name && i.Owner == "" && (g.from.LocalTo == "" || !i.ID.Derived()) {
			return convert.Skipf(g.from.ForeignID, "another import brings it at the same time; import it again")
		}
	}
	return err
}

// maxPrompt bounds how much of a prompt becomes a title.
const maxPrompt = 80

// firstPrompt is the beginning of the first prompt in a worker: the title of a
// session without a prompt of its own.
func (l *logImport) firstPrompt() string {
	for _, e := range slices.Concat(l.pending, l.drafts) {
		if title := promptOf(e); title != "" {
			return title
		}
	}
	return ""
}

// promptOf is the title from an entry, "" if it is no prompt.
func promptOf(e tidemark.Entry) string {
	if e.Role != tidemark.User || e.Context() {
		return ""
	}
	return render.FirstLine(e.Said(), maxPrompt)
}

// fork creates a session that shares the past of one imported before.
func (l *logImport) fork(ctx context.Context, sess tidemark.Session) error {
	g := l.sessionImport
	source, handed, err := g.imported(ctx, g.from.Fork.Session)
	if err != nil {
		return err
	}
	if source.ID == "" {
		return convert.Skipf(g.from.ForeignID, "the session %s that it was forked from is not there", g.from.Fork.Session)
	}
	v, err := g.s.View(ctx, source.ID)
	if err != nil {
		return err
	}
	seq := int64(0)
	if g.from.Fork.Entry != "" {
		seq, _ = handed.Seq("", g.from.Fork.Entry)
		key := g.keyOf(g.namesUnder(source, handed), g.from.Fork.Entry)
		for e, err := range v.Log(ctx) {
			if err == nil && e.Key == key {
				seq = e.Seq
			}
		}
		if seq == 0 {
			if seq, err = g.finalUpTo(ctx, source, key); err != nil {
				return err
			}
		}
		if seq == 0 {
			return convert.Skipf(g.from.ForeignID, "the entry that it was forked from is not there")
		}
	}
	// It branches off when it begins, whenever that is imported.
	now := g.clock
	g.setClock(g.from.CreatedAt, now)
	forked, err := g.s.ForkAs(ctx, source.ID, seq, sess)
	g.clock = now
	if err != nil {
		return err
	}
	g.result.Session, g.result.Title = forked.ID, forked.Title
	l.end = forked.Entries
	l.last = forked.Entries
	if g.w, err = g.s.AttachSource(ctx, forked.ID, g.Holder); err != nil {
		return err
	}
	g.alone = true
	return g.checkAlone(ctx)
}
