package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/text"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/store"
)

const (
	usualAround = 5  // entries on each side of the requested one
	usualAside  = 20 // entries on one side of it
	// maxAside bounds the entries on each side. Each may be large, and they are
	// read before they are cut.
	maxAside = 50
	// Bytes of text in an answer: usualBytes is some 8,000 tokens, which
	// clients accept without asking; maxBytes is for those that ask.
	minBytes   = 1 << 10
	usualBytes = 32 << 10
	maxBytes   = 256 << 10
	// besideShare is the share of that, an eighth, that an entry beside the
	// requested one may take.
	besideShare = 8
)

type readIn struct {
	Session  string `json:"session" jsonschema:"which session: an id, the beginning of one, a title, or last; with @12 for entry 12, @n3 for node 3, @label for a label. The ref of a hit is one"`
	Entry    int64  `json:"entry,omitempty" jsonschema:"the number of the entry, instead of @12; with worker, the one in its log"`
	Worker   string `json:"worker,omitempty" jsonschema:"the log of this worker of the session"`
	Where    string `json:"where,omitempty" jsonschema:"around (the default): entries before and after it; before: it and what led there; after: it and what followed; only: it alone"`
	N        int    `json:"n,omitempty" jsonschema:"how many entries on each side; 5 around it, else 20, when absent; never more than 50"`
	Offset   int    `json:"offset,omitempty" jsonschema:"leave out so many bytes of the text of the entry that is named, to read on where it was cut"`
	MaxBytes int    `json:"max_bytes,omitempty" jsonschema:"how much text the answer may have; 32768 when absent, never more than 262144"`
}

type entry struct {
	Seq    int64     `json:"seq"`
	Role   string    `json:"role,omitempty"`
	Kind   string    `json:"kind,omitempty" jsonschema:"absent: a message"`
	At     time.Time `json:"at,omitzero"`
	Model  string    `json:"model,omitempty"`
	Label  string    `json:"label,omitempty"`
	Draft  bool      `json:"draft,omitempty" jsonschema:"another tool is still writing it, it may change"`
	Text   string    `json:"text"`
	Bytes  int       `json:"bytes" jsonschema:"how long the whole text is"`
	Cut    string    `json:"cut,omitempty" jsonschema:"the text is not whole: how to read on"`
	Damage string    `json:"damage,omitempty" jsonschema:"why the entry cannot be read"`
}

type readOut struct {
	Session session `json:"session"`
	OpenIn  string  `json:"open_in,omitempty" jsonschema:"who has the session open and may write to it"`
	Worker  string  `json:"worker,omitempty"`
	Entries []entry `json:"entries"`
	// Earlier and Later are ready-made calls, so that nobody has to work out
	// the offsets.
	Earlier string `json:"earlier,omitempty" jsonschema:"there is more before: how to read it"`
	Later   string `json:"later,omitempty" jsonschema:"there is more after: how to read it"`
}

func (r *room) read(ctx context.Context, _ *sdk.CallToolRequest, in readIn) (readOut, error) {
	p, err := r.passage(ctx, in)
	if err != nil {
		return readOut{}, err
	}
	return p.show(), nil
}

// passage is a part of a session that was read, and how to show it.
type passage struct {
	out     readOut
	in      readIn
	budget  int
	labels  map[int64]string
	before  []kept // the newest first
	focus   kept
	after   []kept
	earlier int64 // the entry before the first, 0 if there is none
	later   int64
}

// kept is an entry, or why it cannot be read.
type kept struct {
	e   tidemark.Entry
	err error
}

// passage reads what was requested.
func (r *room) passage(ctx context.Context, in readIn) (*passage, error) {
	p := &passage{in: in, budget: in.MaxBytes}
	if p.budget == 0 {
		p.budget = usualBytes
	}
	p.budget = max(minBytes, min(p.budget, maxBytes))
	s, at, err := r.find(ctx, in.Session)
	if err != nil {
		return nil, err
	}
	v, seq, err := in.place(ctx, at)
	if err != nil {
		return nil, err
	}
	before, after, err := in.sides(seq)
	if err != nil {
		return nil, err
	}
	if p.labels, err = at.Labels(ctx); err != nil {
		return nil, err
	}
	lease, err := s.Lease(ctx, at.ID)
	if err != nil {
		return nil, err
	}
	p.out = readOut{Session: sessionOf(at.Info), Worker: render.CleanLine(in.Worker), Entries: []entry{}}
	if lease.Held && !lease.Dead && !lease.Expired {
		p.out.OpenIn = render.CleanLine(lease.Holder.String())
	}
	if in.Worker != "" {
		p.out.Session.Messages, p.out.Session.Entries, p.labels = v.Messages, v.Entries, nil
	}
	if err := p.readBefore(ctx, v, seq, before); err != nil {
		return nil, err
	}
	return p, p.readAfter(ctx, v, after)
}

// place returns where to read: the log, and the entry in it, 0 for its end.
func (in readIn) place(ctx context.Context, at store.Point) (*store.View, int64, error) {
	v, seq := at.View, at.Seq
	if in.Worker != "" {
		if seq != 0 {
			return nil, 0, tidemark.Invalidf("with worker, name the entry of its log with entry")
		}
		var err error
		if v, err = v.Worker(ctx, in.Worker); err != nil {
			return nil, 0, err
		}
	}
	v, err := v.WithDraft(ctx)
	if err != nil {
		return nil, 0, err
	}
	if in.Entry != 0 {
		if at.Seq != 0 {
			return nil, 0, tidemark.Invalidf("entry %d and %q name the entry twice", in.Entry, in.Session)
		}
		if seq, err = v.At(ctx, strconv.FormatInt(in.Entry, 10)); err != nil {
			return nil, 0, err
		}
	}
	return v, seq, nil
}

// sides returns how many entries to read before and after the one at seq.
func (in readIn) sides(seq int64) (before, after int, err error) {
	if in.Offset < 0 || in.MaxBytes < 0 || in.Entry < 0 {
		return 0, 0, tidemark.Invalidf("offset, max_bytes and entry are numbers from 0")
	}
	where := cmp.Or(in.Where, "around")
	usual := usualAside
	if where == "around" && seq != 0 {
		usual = usualAround
	}
	n, err := atMost(in.N, usual, maxAside)
	switch where {
	case "around":
		return n, n, err
	case "before":
		return n, 0, err
	case "after":
		return 0, n, err
	case "only":
		return 0, 0, err
	}
	return 0, 0, tidemark.Invalidf("where %.20q: want around, before, after or only", in.Where)
}

// readBefore reads the entry at seq and those before it, plus one more to
// know whether there are others.
func (p *passage) readBefore(ctx context.Context, v *store.View, seq int64, n int) error {
	var found []kept
	for e, err := range v.Tail(ctx, seq, n+2) {
		if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
			return err
		}
		found = append(found, kept{e, err})
	}
	if len(found) == 0 {
		return nil
	}
	p.focus = found[len(found)-1]
	for i := len(found) - 2; i >= 0; i-- {
		if len(p.before) == n {
			p.earlier = found[i].e.Seq
			break
		}
		p.before = append(p.before, found[i])
	}
	return nil
}

const (
	// nearHead is how far from the head an entry may be for the path between
	// them to be read backwards: the log alone does not say which of several
	// branches the head is on.
	nearHead = 200
	// maxLooked bounds how far ahead the next entry of a branch is looked for
	// among those of others.
	maxLooked = 1000
)

// readAfter reads the entries after the requested one: those on the path to
// the head if that is near and leads here, and otherwise the first ones that
// followed.
func (p *passage) readAfter(ctx context.Context, v *store.View, n int) error {
	at := p.focus.e.Seq
	if at == 0 || at == v.Entries {
		return nil
	}
	if away := v.Entries - at; away < nearHead {
		onTheWay := false
		for e, err := range v.Tail(ctx, 0, int(away)+1) {
			if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
				return err
			}
			onTheWay = onTheWay || e.Seq == at
			if onTheWay && e.Seq > at && !p.follow(e, err, n) {
				break
			}
		}
		if onTheWay {
			return nil
		}
	}
	looked := 0
	for e, err := range v.LogRange(ctx, at+1, 0) {
		if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
			return err
		}
		if looked++; looked > maxLooked {
			break
		}
		if err != nil || e.Parent != at {
			continue
		}
		if at = e.Seq; e.Kind == tidemark.KindBranch || e.Kind == tidemark.KindGap {
			continue
		}
		if !p.follow(e, nil, n) {
			break
		}
	}
	return nil
}

// follow adds an entry after the others, and reports whether there is room for
// more.
func (p *passage) follow(e tidemark.Entry, err error, n int) bool {
	if len(p.after) == n {
		p.later = e.Seq
		return false
	}
	p.after = append(p.after, kept{e, err})
	return true
}

// show makes the passage fit: the requested entry first, and then its
// neighbours, nearest first.
func (p *passage) show() readOut {
	if p.focus.e.Seq == 0 {
		return p.out
	}
	share := p.budget / 2
	if len(p.before)+len(p.after) == 0 {
		share = p.budget
	}
	focus := p.entry(p.focus, p.in.Offset, share)
	left := p.budget - focus.size()
	var before, after []entry
	for i := range max(len(p.before), len(p.after)) {
		if i < len(p.before) && len(before) == i {
			if e := p.entry(p.before[i], 0, p.budget/besideShare); e.size() <= left {
				before, left = append(before, e), left-e.size()
			} else {
				p.earlier = e.Seq
			}
		}
		if i < len(p.after) && len(after) == i {
			if e := p.entry(p.after[i], 0, p.budget/besideShare); e.size() <= left {
				after, left = append(after, e), left-e.size()
			} else {
				p.later = e.Seq
			}
		}
	}
	out := p.out
	for i := len(before) - 1; i >= 0; i-- {
		out.Entries = append(out.Entries, before[i])
	}
	out.Entries = append(append(out.Entries, focus), after...)
	if p.earlier > 0 {
		out.Earlier = p.call(p.earlier, `"where": "before"`)
	}
	if p.later > 0 {
		out.Later = p.call(p.later, `"where": "after"`)
	}
	return out
}

// call is the call that reads another part of the same session.
func (p *passage) call(seq int64, rest string) string {
	worker := ""
	if p.in.Worker != "" {
		worker = fmt.Sprintf(`"worker": %q, `, p.in.Worker)
	}
	return fmt.Sprintf(`read_session {"session": %q, %s"entry": %d, %s}`, p.out.Session.ID, worker, seq, rest)
}

// entryBytes is roughly what an entry takes besides its text.
const entryBytes = 64

func (e entry) size() int { return len(e.Text) + len(e.Cut) + entryBytes }

// entry shows an entry from an offset of its text on, at most so many bytes.
func (p *passage) entry(k kept, offset, most int) entry {
	e := entry{Seq: k.e.Seq, Role: render.CleanLine(string(k.e.Role)), At: k.e.At, Model: render.CleanLine(k.e.Model), Label: render.CleanLine(p.labels[k.e.Seq]), Draft: k.e.Draft}
	if k.err != nil {
		e.Damage = render.CleanLine(k.err.Error())
		return e
	}
	if k.e.Kind != tidemark.KindMessage {
		e.Kind = render.CleanLine(k.e.Kind)
	}
	said := body(k.e)
	e.Bytes = len(said)
	before := len(text.Clip(said, offset))
	rest := text.Clip(said[before:], most)
	if end := min(offset, e.Bytes) + len(rest); end < e.Bytes {
		e.Cut = fmt.Sprintf("%d of %d bytes; go on with %s", len(rest), e.Bytes, p.call(e.Seq, fmt.Sprintf(`"where": "only", "offset": %d`, before+len(rest))))
	}
	e.Text = rest
	return e
}

// body is the text of an entry: render's, without the heading line.
func body(e tidemark.Entry) string {
	var b strings.Builder
	render.Entry(&b, e, &render.Options{Full: true, All: true})
	_, text, _ := strings.Cut(b.String(), "\n")
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i, l := range lines {
		lines[i] = strings.TrimPrefix(l, "  ")
	}
	return strings.Join(lines, "\n")
}

func (o readOut) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s  %d messages  updated %s\n", orDash(o.Session.Title), o.Session.ID, o.Session.Messages, stamp(o.Session.UpdatedAt))
	if o.Worker != "" {
		fmt.Fprintf(&b, "worker %s\n", o.Worker)
	}
	if o.OpenIn != "" {
		fmt.Fprintf(&b, "open in %s\n", o.OpenIn)
	}
	if o.Earlier != "" {
		fmt.Fprintf(&b, "\n[earlier: %s]\n", o.Earlier)
	}
	for _, e := range o.Entries {
		b.WriteByte('\n')
		e.write(&b)
	}
	if o.Later != "" {
		fmt.Fprintf(&b, "\n[later: %s]\n", o.Later)
	}
	return b.String()
}

// write formats an entry as render.Entry does: text is indented below the
// line that says whose it is, so that nobody's text can pass for another's.
func (e entry) write(b *strings.Builder) {
	if e.Damage != "" {
		fmt.Fprintf(b, "#%d [damaged: %s]\n", e.Seq, e.Damage)
		return
	}
	who := e.Role
	if who == "" {
		who = e.Kind
	}
	fmt.Fprintf(b, "#%d %s · %s", e.Seq, who, stamp(e.At))
	if e.Label != "" {
		fmt.Fprintf(b, " [%s]", e.Label)
	}
	if e.Draft {
		b.WriteString(" · draft")
	}
	b.WriteByte('\n')
	for line := range strings.SplitSeq(e.Text, "\n") {
		b.WriteString(strings.TrimRight("  "+line, " ") + "\n")
	}
	if e.Cut != "" {
		fmt.Fprintf(b, "[cut: %s]\n", e.Cut)
	}
}
