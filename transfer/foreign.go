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
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/internal/project"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/store"
)

// toolImport imports what one tool left at one place. Each entry has a key made
// of the tool's own id for it, so that a second import finds what is here: the
// same again is nothing, more of it is added, and one that was changed becomes a
// branch beside what it was.
type toolImport struct {
	*Importer
	tool   convert.Tool
	s      *store.Store // what it writes was changed when its tool changed it; nil: there is none yet
	clock  time.Time
	folder string // the project of a session that does not say
}

// newToolImport returns a toolImport over the store that is open.
func newToolImport(i *Importer, tool convert.Tool) *toolImport {
	b := &toolImport{Importer: i, tool: tool}
	if i.Opened != nil {
		// An imported session was last changed when its tool changed it, not now.
		b.s = i.Opened.Store.ChangedAt(func() time.Time { return b.clock })
	}
	return b
}

// all imports every session of a source.
func (b *toolImport) all(ctx context.Context, p convert.Source, from string) error {
	for f, err := range b.tool.Import(ctx, p) {
		if err == nil {
			err = b.one(ctx, f, from)
		}
		switch {
		case err == nil:
		case isItem(err) || errors.Is(err, tidemark.ErrHeld):
			b.skip(err)
		default:
			return err
		}
		b.progress(len(b.Results), "sessions")
	}
	return nil
}

// isItem reports whether an error is that of one thing on its way in, which
// somebody else may have changed meanwhile, and not of the whole import.
func isItem(err error) bool {
	return convert.IsSkip(err) || errors.Is(err, tidemark.ErrInvalid) || errors.Is(err, tidemark.ErrConflict)
}

// skip says what is left out.
func (b *toolImport) skip(err error) {
	b.Skipped++
	if b.Skip != nil {
		b.Skip(err)
	}
}

// setClock makes what is imported next last changed at the first of these times
// that is known, and now at the latest.
func (b *toolImport) setClock(times ...time.Time) {
	now := time.Now()
	if b.clock = cmp.Or(cmp.Or(times...), now); b.clock.After(now) {
		b.clock = now
	}
}

// one imports one session, whole or not at all when it is new.
func (b *toolImport) one(ctx context.Context, f *convert.Session, from string) error {
	if f.ForeignID == "" {
		return convert.Skipf(from, "a session without an id")
	}
	b.setClock(f.UpdatedAt, f.CreatedAt)
	g := &sessionImport{toolImport: b, from: f, result: Result{From: from, Tool: b.tool.Name, ForeignID: f.ForeignID, Title: strings.TrimSpace(f.Title), State: "new"}}
	if err := g.find(ctx); err != nil {
		return err
	}
	err := g.fill(ctx)
	if g.w != nil {
		err = errors.Join(err, g.w.Close(context.WithoutCancel(ctx)))
	}
	if err != nil {
		return errors.Join(err, g.undo(context.WithoutCancel(ctx)))
	}
	g.result.Lost = f.Lost
	b.keep(g.result)
	return nil
}

// undo takes a session that could not be imported whole away again.
func (g *sessionImport) undo(ctx context.Context) error {
	if g.w == nil || g.here != nil {
		return nil
	}
	who := g.Holder
	if l, err := g.s.Lease(ctx, g.w.ID()); err != nil || l.Holder != who {
		return err // somebody else wrote to it meanwhile, and was told that it is kept
	}
	err := g.s.Purge(ctx, g.w.ID(), who)
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
	here   *store.View // nil: not yet
	w      *store.Writer
	alone  bool // no other import was seen to import it
	bare   bool // nothing was said in it

	renewed time.Time // when its lease was last renewed
}

// origin is what a session keeps of where it came from.
type origin struct {
	Tool   string          `json:"tool"`
	Copied string          `json:"copied_from,omitempty"`
	Head   string          `json:"head,omitempty"` // where the tool stood; "": not known
	Extra  json.RawMessage `json:"extra,omitempty"`
}

// OriginTool is the tool that a session was imported from, "" for one that was
// begun here.
func OriginTool(s tidemark.Session) string { return originOf(s).Tool }

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

// origin is what the session keeps of where it came from.
func (g *sessionImport) origin() (json.RawMessage, error) {
	return json.Marshal(map[string]origin{"imported": {Tool: g.tool.Name, Copied: g.from.Copied, Head: headName(g.from), Extra: g.from.Extra}})
}

// headName is how it is kept where a tool stands in a session.
func headName(f *convert.Session) string {
	switch f.Head {
	case "":
		return "@end"
	case convert.Root:
		return "@root"
	}
	return f.Head
}

// find looks for the session among those that were imported before.
func (g *sessionImport) find(ctx context.Context) error {
	if g.s == nil {
		return nil
	}
	i, ok, err := g.imported(ctx, g.from.ForeignID)
	if err != nil || !ok {
		return err
	}
	g.result.State, g.result.Session, g.result.Title = "known", i.ID, i.Title
	g.here, err = g.s.View(ctx, i.ID)
	return err
}

// imported returns the session that was imported from this tool under an id.
func (g *sessionImport) imported(ctx context.Context, foreign string) (store.Info, bool, error) {
	found, err := g.s.Foreign(ctx, foreign)
	for _, i := range found {
		if i.Tool == g.tool.Name && i.Owner == "" { // another's cannot be gone on with
			return i, true, err
		}
	}
	return store.Info{}, false, err
}

// fill imports what was said, then what the session keeps beside that.
func (g *sessionImport) fill(ctx context.Context) error {
	if err := g.log(ctx, "", g.from.Entries); err != nil {
		return err
	}
	for _, worker := range g.from.Workers {
		if err := g.log(ctx, workerName(worker), withOrigin(worker)); err != nil {
			return err
		}
	}
	if g.here == nil && g.result.Entries == 0 {
		if g.from.Checkpoint == nil && len(g.from.Files) == 0 {
			g.result.State = "empty"
			return nil
		}
		// What a session remembers is worth keeping though nothing was said.
		g.bare = true
		begun := convert.Entry{Entry: tidemark.Entry{Kind: KindImported, At: g.clock}, ID: "@imported"}
		if err := g.log(ctx, "", convert.All([]convert.Entry{begun})); err != nil {
			return err
		}
	}
	if err := g.state(ctx); err != nil || g.DryRun {
		return err
	}
	return g.s.RecordProjectPath(ctx, project.RemoteMark(g.from.Remote), cmp.Or(g.from.Project, g.folder))
}

// KindImported is the entry that begins a session in which nothing was said.
const KindImported = "imported"

// kindWorker is the entry that says, at the beginning of the log of a worker,
// what its tool called it and which call started it.
const kindWorker = "worker"

// workerOrigin is what such an entry says.
type workerOrigin struct {
	Name string `json:"name"`
	Call string `json:"call,omitempty"`
}

// workerOriginOf returns where a worker came from; one that was begun here has
// its name alone.
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

// withOrigin puts that entry before those of the worker.
func withOrigin(w convert.Worker) iter.Seq2[convert.Entry, error] {
	return func(yield func(convert.Entry, error) bool) {
		begun := false
		for e, err := range w.Entries {
			if !begun && err == nil {
				begun = true
				extra, err := json.Marshal(workerOrigin{w.Name, w.Call})
				first := convert.Entry{Entry: tidemark.Entry{Kind: kindWorker, At: e.At, Extra: extra}, ID: "@worker"}
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

// workerName makes the name of a worker fit for an id.
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

// open makes the writer at the first entry that is new.
func (l *logImport) open(ctx context.Context) error {
	g := l.sessionImport
	if g.w != nil || g.here != nil {
		return g.attach(ctx)
	}
	sess := g.from.Session
	sess.ID, sess.Base = "", nil
	extra, err := g.origin()
	if err != nil {
		return err
	}
	sess.Extra = extra
	sess.Agent = cmp.Or(sess.Agent, g.tool.Name)
	sess.Tool, sess.Project = g.tool.Name, cmp.Or(sess.Project, g.folder)
	if sess.Title, err = g.title(ctx, cmp.Or(g.result.Title, l.firstPrompt())); err != nil {
		return err
	}
	// Its tool asked a model somewhere, unless it said otherwise.
	sess.Mode = cmp.Or(sess.Mode, tidemark.ModeRemote)
	if g.from.Fork != nil {
		return l.fork(ctx, sess)
	}
	g.w = g.s.Create(sess, g.Holder)
	g.result.Session, g.result.Title = g.w.ID(), sess.Title
	return nil
}

// title is what the session is called here. One that begins with a copy of
// another is a fork, and does not bear the other's title without a mark.
func (g *sessionImport) title(ctx context.Context, title string) (string, error) {
	if g.from.Copied == "" || g.s == nil {
		return title, nil
	}
	source, ok, err := g.imported(ctx, g.from.Copied)
	if ok && strings.EqualFold(source.Title, title) {
		title = store.MarkFork(title)
	}
	return title, err
}

// attach makes the writer of a session that is here.
func (g *sessionImport) attach(ctx context.Context) error {
	if g.w != nil {
		return nil
	}
	w, err := g.s.Attach(ctx, g.here.ID, g.Holder)
	if errors.Is(err, tidemark.ErrNotFound) { // thrown away: that of the others goes on
		return &convert.Skip{What: g.from.ForeignID, Why: err}
	}
	if err != nil {
		return err
	}
	g.w = w
	// What is new was told from what was here before nobody else could write.
	now, err := g.s.View(ctx, g.here.ID)
	if err == nil && now.Entries != g.here.Entries {
		err = tidemark.Conflictf("session %s: somebody else wrote to it meanwhile", g.here.ID)
	}
	return err
}

// checkAlone makes sure that no other import began the same session meanwhile:
// whoever sees that gives way, so that nothing is here twice.
func (g *sessionImport) checkAlone(ctx context.Context) error {
	found, err := g.s.Foreign(ctx, g.from.ForeignID)
	for _, i := range found {
		if i.ID != g.w.ID() && i.Tool == g.tool.Name && i.Owner == "" {
			return convert.Skipf(g.from.ForeignID, "another import brings it at the same time; import it again")
		}
	}
	return err
}

// maxPrompt is how much of a prompt makes a title.
const maxPrompt = 80

// firstPrompt is the beginning of what was asked first: what a session without
// a title is known by.
func (l *logImport) firstPrompt() string {
	for _, e := range l.pending {
		if title := promptOf(e); title != "" {
			return title
		}
	}
	return ""
}

// promptOf is the title that an entry makes, "" where it asks nothing.
func promptOf(e tidemark.Entry) string {
	if e.Role != tidemark.User || e.Context() {
		return ""
	}
	return render.FirstLine(e.Said(), maxPrompt)
}

// fork makes a session that shares the past of one that was imported before.
func (l *logImport) fork(ctx context.Context, sess tidemark.Session) error {
	g := l.sessionImport
	source, ok, err := g.imported(ctx, g.from.Fork.Session)
	if err != nil {
		return err
	}
	if !ok {
		return convert.Skipf(g.from.ForeignID, "the session %s that it was forked from is not there", g.from.Fork.Session)
	}
	v, err := g.s.View(ctx, source.ID)
	if err != nil {
		return err
	}
	seq := int64(0)
	if g.from.Fork.Entry != "" {
		for e, err := range v.Log(ctx) {
			if err == nil && e.Key == l.keyOf(g.from.Fork.Entry) {
				seq = e.Seq
			}
		}
		if seq == 0 {
			return convert.Skipf(g.from.ForeignID, "the entry that it was forked from is not there")
		}
	}
	forked, err := g.s.ForkAs(ctx, source.ID, seq, sess)
	if err != nil {
		return err
	}
	g.result.Session, g.result.Title = forked.ID, forked.Title
	l.end = forked.Entries
	l.last = forked.Entries
	if g.w, err = g.s.Attach(ctx, forked.ID, g.Holder); err != nil {
		return err
	}
	g.alone = true
	return g.checkAlone(ctx)
}
