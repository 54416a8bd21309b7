package droid

import (
	"context"
	"io/fs"
	"iter"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/wire"
)

// reader makes entries from the lines of one file.
type reader struct {
	blocks *wire.Decoder
	Memory convert.Memory `json:"memory"`
	Last   string         `json:"last"`  // the id of the last message
	Entry  string         `json:"entry"` // of the last entry
}

// Kinds of names: of entries, and of messages with the entry that a child follows.
const (
	ofEntry   = 'e'
	ofMessage = 'm'
)

// entries yields the entries of a file, or those that were added to it.
func (s *source) entries(ctx context.Context, fsys fs.FS, marker *convert.Marker) iter.Seq2[convert.Entry, error] {
	return func(yield func(convert.Entry, error) bool) {
		r := &reader{}
		if s.reader != nil {
			r = &reader{Memory: *s.reader.Memory.Clone(), Last: s.reader.Last, Entry: s.reader.Entry}
		}
		r.blocks = wire.NewDecoder(name)
		end := s.from
		mark := func(at convert.Mark) { marker.Exactly(at, r.Entry, func() any { return state{s.known, r} }) }
		for o, err := range convert.ObjectsFrom(ctx, fsys, s.file, s.from) {
			mark(o.Start)
			end = o.End
			if err != nil {
				if !yield(convert.Entry{}, err) {
					return
				}
				continue
			}
			if o.Text("type") == "session_start" {
				continue
			}
			made := r.take(o)
			if r.Memory.Missed() {
				yield(convert.Entry{}, convert.ErrWhole)
				return
			}
			for _, e := range made {
				if !yield(e, nil) {
					return
				}
			}
			r.Entry = made[len(made)-1].ID
		}
		mark(end)
	}
}

// take makes entries from a line: of a message one for each of those who speak
// in it.
func (r *reader) take(o convert.NumberedObject) (made []convert.Entry) {
	m, ok := o.Object.Object("message")
	if o.Text("type") != "message" || !ok {
		return []convert.Entry{r.event(o)}
	}
	id := r.Memory.Of(ofEntry, o.Text("id"), o.Place())
	for _, e := range r.speakers(m) {
		e.At = convert.ParseTime(o.Text("timestamp"))
		made = append(made, convert.Entry{Entry: e, ID: r.Memory.Of(ofEntry, "", id+"."+string(e.Role)+e.Kind)})
	}
	last := &made[len(made)-1]
	last.ID = id // it is the one that the next message follows
	rest := o.Without("type", "id", "parentId", "timestamp", "message")
	if more := m.Without("role", "content", "modelId"); len(more) > 0 {
		rest.Set("message", more)
	}
	last.Extra = convert.Keep(name, rest)
	if parent := o.Text("parentId"); parent != "" && parent != r.Last {
		made[0].Parent, _ = r.Memory.Get(ofMessage, parent) // one that is not there, or comes later: the entry before
	}
	r.Last = o.Text("id")
	r.Memory.Set(ofMessage, r.Last, id)
	return made
}

// speakers divides a message: results of tools and reminders are in the user's
// role, too.
func (r *reader) speakers(m convert.Object) []tidemark.Entry {
	var said, results, added []tidemark.Block
	text, list, isText := wire.Content(m["content"])
	if isText {
		said = append(said, tidemark.Text(text))
	}
	for _, raw := range list {
		switch b := r.blocks.Any(raw, 0); {
		case b.Type == tidemark.BlockToolResult:
			results = append(results, b)
		case b.Type == tidemark.BlockText && convert.Begins(b.Text, "<system-reminder>", "<system-notification>"):
			added = append(added, b)
		default:
			said = append(said, b)
		}
	}
	if m.Text("role") == "assistant" {
		return []tidemark.Entry{{Role: tidemark.Assistant, Model: m.Text("modelId"), Blocks: append(said, append(added, results...)...)}}
	}
	own := tidemark.Entry{Role: tidemark.User, Blocks: said}
	switch m.Text("visibility") {
	case "llm_only":
		own = tidemark.Entry{Kind: convert.KindContext, Blocks: said}
	case "user_only":
		own = tidemark.Entry{Kind: convert.KindNotice, Blocks: said}
	}
	var all []tidemark.Entry
	if len(added) > 0 {
		all = append(all, tidemark.Entry{Kind: convert.KindContext, Blocks: added})
	}
	if len(results) > 0 {
		all = append(all, tidemark.Entry{Role: tidemark.Tool, Blocks: results})
	}
	if len(said) > 0 || len(all) == 0 {
		all = append(all, own)
	}
	return all
}

// event makes an entry from a line that is not a message. It belongs to the
// message before it: what follows that message follows the event.
func (r *reader) event(o convert.NumberedObject) convert.Entry {
	e := convert.Entry{ID: r.Memory.Of(ofEntry, o.Text("id"), o.Place())}
	e.Kind, e.At = convert.KindEvent, convert.ParseTime(o.Text("timestamp"))
	rest := o.Without("id", "timestamp")
	switch kind := o.Text("type"); {
	case kind == "compaction_state":
		e.Kind = convert.KindCompaction
		for _, key := range []string{"summaryText", "summary"} {
			var text string
			if rest.Take(key, &text) {
				e.Blocks = append(e.Blocks, tidemark.Text(text))
			}
		}
	case kind == "agent_turn_outcome" && o.Text("reason") != "completed":
		e.Kind = convert.KindInterrupted
	}
	e.Extra = convert.Keep(name, rest)
	r.Memory.Set(ofMessage, r.Last, e.ID)
	return e
}
