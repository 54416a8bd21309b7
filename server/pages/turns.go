package pages

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"html/template"
	"slices"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/server/pages/web"
	"github.com/tidemark-sessions/tidemark/store/rewind"
)

// turnReadBack is how many entries are read before a part for what the turn used
// in whose midst it begins; beyond that, the page says "at least".
const turnReadBack = 200

// spokenKinds are the kinds of entries besides messages that a reader wants to
// see; any other is bookkeeping.
var spokenKinds = []string{tidemark.KindBranch, tidemark.KindGap, "compaction", "branch_summary", "error", "api_error", "interrupted", "command", "command_output", "agent_message"}

// isQuiet reports whether an entry is context, a setting or bookkeeping: nobody
// said it, and few want to read it.
func isQuiet(e tidemark.Entry) bool {
	if e.Context() {
		return true
	}
	return e.Kind != "" && e.Kind != tidemark.KindMessage && !slices.Contains(spokenKinds, e.Kind)
}

// isPrompt reports whether a turn begins with an entry.
func isPrompt(e tidemark.Entry) bool {
	return e.Role == tidemark.User && !e.Empty() && !e.Context() &&
		!slices.ContainsFunc(e.Blocks, func(b tidemark.Block) bool { return b.Type == tidemark.BlockToolResult })
}

// arranger puts entries together as a conversation: a call with its result, a run
// of bookkeeping in one line, what a turn used at its end.
type arranger struct {
	l     *looking
	t     *render.Transcript
	items []web.ItemView
	calls map[string]*web.CallView // nil: what is sent cannot be changed any more

	turn     web.TurnView
	answered tidemark.Role // who spoke last in this turn, so that they are named once
	model    string
}

// arrange fills in the items of a part.
func (l *looking) arrange(ctx context.Context, t *render.Transcript, p *web.PartView) error {
	a := &arranger{l: l, t: t, calls: make(map[string]*web.CallView)}
	if len(p.Entries) > 0 {
		if first := p.Entries[0].Entry; !isPrompt(first) && first.Parent > 0 {
			var err error
			if a.turn, err = l.turnUpTo(ctx, first.Parent); err != nil {
				return err
			}
		}
	}
	for _, v := range p.Entries {
		a.add(v)
	}
	ends := p.Newer == ""
	if l.before > 0 {
		next, err := entryAt(ctx, l.log, l.before)
		ends = err == nil && isPrompt(next)
	}
	if ends && len(p.Drafts) == 0 {
		a.endTurn()
	}
	p.Items, a.items = a.items, nil
	for _, v := range p.Drafts {
		a.add(v)
	}
	p.DraftItems = a.items
	return nil
}

func (a *arranger) add(v web.EntryView) {
	v.Entry = rewind.AsCall(v.Entry)
	e := v.Entry
	switch {
	case v.Damage != "":
		a.put(v)
		return
	case e.Empty():
		if n := len(a.items); n > 0 && a.items[n-1].Quiet != nil {
			a.items[n-1].Quiet = append(a.items[n-1].Quiet, v)
			return
		}
		a.put(v)
		return
	case isQuiet(e):
		a.quiet(v)
		return
	case isPrompt(e):
		a.endTurn()
		a.turn = web.TurnView{Begun: e.At}
		a.answered, a.model = "", ""
	}
	a.count(e)
	v.Class, v.Who = classOf(e), a.who(e)
	v.Pieces = a.pieces(&v)
	if len(v.Pieces) == 0 {
		return // its results are with their calls
	}
	a.put(v)
}

func (a *arranger) put(v web.EntryView) { a.items = append(a.items, web.ItemView{Entry: &v}) }

// quiet adds an entry to the run of those before it.
func (a *arranger) quiet(v web.EntryView) {
	a.count(v.Entry)
	v.Entry, v.Bytes = cutEntry(v.Entry, quietBytes)
	v.HTML = a.html(func(w *bytes.Buffer) { a.t.Body(w, v.Entry) })
	if n := len(a.items); n == 0 || a.items[n-1].Quiet == nil {
		a.items = append(a.items, web.ItemView{})
	}
	last := &a.items[len(a.items)-1]
	last.Quiet = append(last.Quiet, v)
	last.Open = last.Open || a.l.at > 0 && v.Seq == a.l.at
}

// count adds what an entry used to its turn.
func (a *arranger) count(e tidemark.Entry) {
	if !e.At.IsZero() && !isQuiet(e) { // a program writes some when it opens the session again
		a.turn.Ended = e.At
	}
	if u := e.Usage; u != nil {
		a.turn.InputTokens += u.InputTokens
		a.turn.OutputTokens += u.OutputTokens
		a.turn.CacheTokens += u.CacheReadTokens + u.CacheWriteTokens
		a.l.st.AddCost(&a.turn.Cost, a.l.v.Session, e)
	}
}

// endTurn puts what a turn used below its last item.
func (a *arranger) endTurn() {
	if a.turn.Tokens() > 0 {
		turn := a.turn
		a.items = append(a.items, web.ItemView{Turn: &turn})
	}
}

// who names the speaker, if the one before was another.
func (a *arranger) who(e tidemark.Entry) string {
	same := e.Role != "" && a.answered == e.Role && (e.Model == "" || e.Model == a.model)
	if e.Role != tidemark.Tool {
		a.answered, a.model = e.Role, cmp.Or(e.Model, a.model)
	}
	if same || e.Role == tidemark.Tool {
		return ""
	}
	return cmp.Or(string(e.Role), render.CleanLine(e.Kind))
}

func classOf(e tidemark.Entry) string {
	if e.Role.Valid() {
		return string(e.Role)
	}
	if e.Kind == "error" || e.Kind == "api_error" {
		return "failed"
	}
	return "other"
}

// pieces are the parts of an entry in their order: text as it stands, each call
// as a row, and results whose call is not here.
func (a *arranger) pieces(v *web.EntryView) []web.PieceView {
	var all []web.PieceView
	e := v.Entry
	text := e
	text.Blocks = nil
	flush := func() {
		if len(text.Blocks) > 0 || text.Kind == tidemark.KindBranch || text.Kind == tidemark.KindGap {
			part := text
			all = append(all, web.PieceView{HTML: a.html(func(w *bytes.Buffer) { a.t.Body(w, part) })})
		}
		text.Blocks, text.Kind = nil, tidemark.KindMessage
	}
	for i, b := range e.Blocks {
		switch b.Type {
		case tidemark.BlockToolUse:
			flush()
			all = append(all, web.PieceView{Call: a.call(v, b)})
		case tidemark.BlockToolResult:
			flush()
			if r := a.result(v, b, i == 0); r != nil {
				all = append(all, web.PieceView{Call: r})
			}
		default:
			text.Blocks = append(text.Blocks, b)
		}
	}
	flush()
	return all
}

func (a *arranger) call(v *web.EntryView, b tidemark.Block) *web.CallView {
	c := &web.CallView{ID: b.ID, Icon: string(render.KindOfTool(b.Name)), Name: render.CleanLine(b.Name), Argument: render.ArgumentIn(b, a.l.v.Project), Whole: render.Argument(b), At: v.Entry.At, Block: b,
		Input: a.html(func(w *bytes.Buffer) { a.t.CallInput(w, b) }),
		// Who ran a command themselves wants to see what it put out.
		Open: v.Entry.Role == tidemark.User || a.l.at > 0 && v.Seq == a.l.at}
	c.Added, c.Removed = render.ChangedLines(b)
	if b.ID != "" && a.calls != nil {
		a.calls[b.ID] = c
	}
	return c
}

// result puts a result to its call. It returns it as a row of its own when the
// call is not among the entries, or has its result.
func (a *arranger) result(v *web.EntryView, b tidemark.Block, first bool) *web.CallView {
	c := a.calls[b.ToolUseID]
	alone := c == nil || c.Done
	if alone {
		c = &web.CallView{Result: true, ID: b.ToolUseID, Icon: string(render.OtherTool), Argument: render.FirstLine(cmp.Or(b.Text, textOf(b.Blocks)), 72), At: v.Entry.At}
	} else if took := v.Entry.At.Sub(c.At); took > 0 && !c.At.IsZero() && !v.Entry.At.IsZero() {
		c.Took = took
	}
	c.Done, c.Failed, c.Bytes = true, b.IsError, v.Bytes
	c.Output = a.html(func(w *bytes.Buffer) { a.t.CallResult(w, c.Block, b) })
	c.Open = c.Open || a.l.at > 0 && v.Seq == a.l.at
	if first {
		c.Seq = v.Seq
	}
	if alone {
		return c
	}
	return nil
}

func textOf(blocks []tidemark.Block) string { return tidemark.Entry{Blocks: blocks}.Text() }

// html is what write writes. A buffer takes everything, so that there is no error.
func (a *arranger) html(write func(*bytes.Buffer)) template.HTML {
	var b bytes.Buffer
	write(&b)
	return template.HTML(b.String())
}

// turnUpTo is what the turn that an entry is in used, that entry included.
func (l *looking) turnUpTo(ctx context.Context, seq int64) (web.TurnView, error) {
	a := &arranger{l: l}
	read := 0
	for e, err := range l.log.Tail(ctx, seq, turnReadBack) {
		if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
			return a.turn, err
		}
		if read++; err == nil && isPrompt(e) {
			a.turn, read = web.TurnView{Begun: e.At}, -turnReadBack // this is its beginning
		}
		a.count(e)
	}
	a.turn.Partial = read == turnReadBack
	return a.turn, nil
}
