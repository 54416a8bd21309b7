package pages

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"html/template"
	"iter"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/render"
	routes "github.com/tidemark-sessions/tidemark/server/api"
	"github.com/tidemark-sessions/tidemark/server/pages/web"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/store"
)

const (
	// pageEntries is how many entries a page begins with: some screens.
	// partEntries is how many an open page gets at once: few enough that a browser
	// lays them out between two frames.
	pageEntries = 40
	partEntries = 20
	// entryBytes is how much text of one entry is shown, entryImage how much of
	// its images; the rest is a click away.
	entryBytes = 64 << 10
	entryImage = 1 << 20
	// resultBytes is how much of what tools said is shown, which is folded, and
	// quietBytes how much of what nobody said.
	resultBytes = 16 << 10
	quietBytes  = 4 << 10
	// entryBlocks bounds the blocks of one entry.
	entryBlocks = 200
)

// part is the requested run of entries. Its cost does not depend on the
// length of the session, except around an entry of a session with
// branches.
func (s *Site) part(ctx context.Context, l *looking, beside *bool) (web.PartView, error) {
	p := web.PartView{Session: l.v.Name(), Entries: []web.EntryView{}}
	labels, err := l.labels(ctx)
	if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
		return p, err
	}
	t := &render.Transcript{Labels: labels}
	add := func(entries iter.Seq2[tidemark.Entry, error]) error {
		for e, err := range entries {
			if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
				return err
			}
			p.Entries = append(p.Entries, l.entryView(t, e, err))
		}
		return nil
	}
	switch {
	case l.before > 0:
		err = add(l.upTo(ctx))
	case l.later > 0:
		err = add(l.after(ctx, l.later, l.size, beside))
	case l.onward > 0:
		err = add(firstOf(l.log.PathRange(ctx, l.tip, l.onward, 0), l.size))
	case l.at > 0:
		if err = add(l.log.Tail(ctx, l.at, l.size/2)); err == nil {
			err = add(l.after(ctx, l.at, l.size/2, beside))
		}
	case l.tip > 0:
		err = add(l.log.Tail(ctx, l.tip, l.size))
	default:
		var log *store.View
		if log, err = l.log.WithDraft(ctx); err == nil {
			err = add(log.Tail(ctx, 0, l.size))
		}
	}
	if err != nil {
		return p, err
	}
	if i := slices.IndexFunc(p.Entries, func(e web.EntryView) bool { return e.Entry.Draft }); i >= 0 {
		p.Entries, p.Drafts = p.Entries[:i:i], p.Entries[i:]
	}
	l.links(&p)
	return p, l.arrange(ctx, t, &p)
}

// upTo yields what came before an entry. If that entry cannot be read, its
// parent is unknown, and the one before it is the best guess.
func (l *looking) upTo(ctx context.Context) iter.Seq2[tidemark.Entry, error] {
	if _, err := entryAt(ctx, l.log, l.before); errors.Is(err, tidemark.ErrCorrupt) && l.before > 1 {
		return l.log.Tail(ctx, l.before-1, l.size)
	}
	return l.log.Before(ctx, l.before, l.size)
}

// labels are those of the session; a worker has none.
func (l *looking) labels(ctx context.Context) (map[int64]string, error) {
	if l.worker != "" {
		return nil, nil
	}
	return l.v.Labels(ctx)
}

// links sets the addresses of the neighbouring parts.
func (l *looking) links(p *web.PartView) {
	n := len(p.Entries)
	if n == 0 {
		return
	}
	first, last := p.Entries[0], p.Entries[n-1]
	if first.Seq > 1 && (first.Entry.Parent > 0 || first.Damage != "") && l.later == 0 && l.onward == 0 {
		p.Older = l.path("before", first.Seq)
		p.OlderPart = partPath(p.Older, l.v.Name())
	}
	if l.unplaced() {
		return
	}
	p.ToEnd = l.path("at", 0)
	if l.before > 0 || l.later+l.onward > 0 && n == l.size || l.at > 0 && last.Seq > l.at && n > l.size/2 {
		p.Newer = l.path("at", last.Seq)
		p.NewerPart = partPath(l.path("later", last.Seq), l.v.Name())
	}
}

// partPath is the address of only a part of a page.
func partPath(page, session string) string { return strings.Replace(page, session, session+"/part", 1) }

// firstOf yields at most n entries.
func firstOf(entries iter.Seq2[tidemark.Entry, error], n int) iter.Seq2[tidemark.Entry, error] {
	return func(yield func(tidemark.Entry, error) bool) {
		left := n
		for e, err := range entries {
			if left--; !yield(e, err) || left == 0 {
				return
			}
		}
	}
}

// after yields what follows an entry on the shown branch. For an entry beside
// that branch it yields nothing, and sets beside.
func (l *looking) after(ctx context.Context, seq int64, n int, beside *bool) iter.Seq2[tidemark.Entry, error] {
	return func(yield func(tidemark.Entry, error) bool) {
		left, follows := n, false
		for e, err := range l.log.PathRange(ctx, l.tip, seq, 0) {
			if err == nil && !follows && e.Seq != seq && e.Parent != seq {
				break
			}
			if follows = true; e.Seq == seq {
				continue
			}
			if !yield(e, err) {
				return
			}
			if left--; left == 0 {
				return
			}
		}
		*beside = !follows
	}
}

// entryView is an entry as it is shown, cut when it is long.
func (l *looking) entryView(t *render.Transcript, e tidemark.Entry, damage error) web.EntryView {
	v := web.EntryView{Session: l.v.Name(), Worker: l.worker, Seq: e.Seq, Mine: l.mine, Label: render.CleanLine(t.Labels[e.Seq])}
	limit := entryBytes
	if e.Role == tidemark.Tool {
		limit = resultBytes
	}
	v.Entry, v.Bytes = cutEntry(e, limit)
	v.Stopped = e.Role == tidemark.Assistant && chat.Stopped(e)
	if damage != nil {
		v.Damage = render.CleanLine(damage.Error())
		var html bytes.Buffer
		// The only error is the damage, which is written in its place.
		_ = t.Entries(&html, func(yield func(tidemark.Entry, error) bool) { yield(v.Entry, damage) })
		v.HTML = template.HTML(html.String())
	}
	return v
}

// cutEntry returns as much of an entry as a page shows, and the size of the
// whole if that is less.
func cutEntry(e tidemark.Entry, limit int) (tidemark.Entry, int) {
	c := cutting{text: limit, image: entryImage, blocks: entryBlocks}
	size := routes.SizeOf(e.Blocks)
	if size <= limit && len(e.Blocks) <= entryBlocks {
		return e, 0
	}
	e.Blocks = c.all(e.Blocks)
	if !c.cut {
		size = 0
	}
	return e, size
}

// cutting is what may still be shown of an entry.
type cutting struct {
	text, image, blocks int
	cut                 bool
}

func (c *cutting) all(blocks []tidemark.Block) []tidemark.Block {
	var out []tidemark.Block
	for _, b := range blocks {
		if c.blocks--; c.blocks < 0 || c.text <= 0 && b.Type != tidemark.BlockImage {
			c.cut = true
			break
		}
		out = append(out, c.one(b))
	}
	return out
}

func (c *cutting) one(b tidemark.Block) tidemark.Block {
	b.Text = c.take(b.Text)
	if len(b.Input) > c.text {
		// A part of JSON is not JSON, but a text that looks like it.
		if text, err := json.Marshal(c.take(string(b.Input))); err == nil {
			b.Input = text
		}
	} else {
		c.text -= len(b.Input)
	}
	b.Raw = c.take(b.Raw)
	if len(b.Data) > c.image {
		b.Data, c.cut = nil, true
	}
	c.image -= len(b.Data)
	b.Blocks = c.all(b.Blocks)
	return b
}

// take returns the beginning of a text that may still be shown.
func (c *cutting) take(text string) string {
	if len(text) <= c.text {
		c.text -= len(text)
		return text
	}
	end := max(c.text, 0)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	c.text, c.cut = 0, true
	return text[:end] + " …"
}

// sessionPart answers with only a run of entries, for an open page.
func (s *Site) sessionPart(w http.ResponseWriter, r *http.Request) {
	s.fragment(w, r, func() (string, any, error) {
		l, err := s.look(r)
		if err != nil {
			return "", nil, err
		}
		l.size = partEntries
		var beside bool
		p, err := s.part(r.Context(), l, &beside)
		if l.before > 0 {
			p.NewerPart = "" // what is newer is on the page that gets it
		}
		return "part", p, err
	})
}

// fragment answers with a part of the page of a session.
func (s *Site) fragment(w http.ResponseWriter, r *http.Request, gather func() (name string, data any, err error)) {
	s.fragmentOf(w, r, "session", gather)
}

// fragmentOf answers with a part of a page.
func (s *Site) fragmentOf(w http.ResponseWriter, r *http.Request, page string, gather func() (name string, data any, err error)) {
	if !request.CallerOf(r.Context()).Role.May(request.Reader) {
		s.Trouble(w, r, tidemark.ErrDenied)
		return
	}
	name, data, err := gather()
	var body bytes.Buffer
	if err == nil {
		err = web.Fragment(&body, s.frame(r, page), name, data)
	}
	if err != nil {
		s.Trouble(w, r, err)
		return
	}
	answerBody(w, r, http.StatusOK, "text/html; charset=utf-8", body.Bytes())
}

// rawEntry answers with one complete entry as it is kept, or with as=md as
// Markdown, to copy. It is saved and not shown: a browser need not lay out what a
// page would not.
func (s *Site) rawEntry(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	if !request.CallerOf(ctx).Role.May(request.Reader) {
		s.Trouble(w, r, tidemark.ErrDenied)
		return
	}
	l, err := s.look(r)
	if err != nil {
		s.Trouble(w, r, err)
		return
	}
	seq, err := strconv.ParseInt(r.PathValue("seq"), 10, 64)
	if err != nil || seq < 1 {
		s.Trouble(w, r, tidemark.NotFoundf("entry %.20q: not found", r.PathValue("seq")))
		return
	}
	e, err := entryAt(ctx, l.log, seq)
	if err != nil {
		s.Trouble(w, r, err)
		return
	}
	h := w.Header()
	if r.URL.Query().Get("as") == "md" {
		var body bytes.Buffer
		if err := new(render.Transcript).Markdown(&body, e); err != nil {
			s.Trouble(w, r, err)
			return
		}
		answerBody(w, r, http.StatusOK, "text/plain; charset=utf-8", body.Bytes())
		return
	}
	h.Set("Content-Type", "application/json")
	h.Set("Content-Disposition", `attachment; filename="entry-`+strconv.FormatInt(seq, 10)+`.json"`)
	routes.Cut(ctx, json.NewEncoder(w).Encode(e))
}

func entryAt(ctx context.Context, v *store.View, seq int64) (tidemark.Entry, error) {
	for e, err := range v.LogRange(ctx, seq, seq) {
		return e, err
	}
	return tidemark.Entry{}, tidemark.NotFoundf("session %s: entry %d: not found", v.ID, seq)
}

// entryAddress is the suffix for an entry to the address of its session.
func entryAddress(seq int64) string {
	n := strconv.FormatInt(seq, 10)
	return "?at=" + n + "#e" + n
}
