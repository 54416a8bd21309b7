package kimi

import (
	"context"
	"encoding/json"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/wire"
)

// repeats reports whether records of a type say what others say, too, or
// describe only how a request was made. Most bytes of a journal are theirs.
func repeats(kind string) bool {
	return kind == "llm.tools_snapshot" || kind == "llm.request" || kind == "agent.message.appended" ||
		strings.HasPrefix(kind, "agent.turn.") || strings.HasPrefix(kind, "token_counting.")
}

// maxStep bounds what is held of a step that does not end.
const maxStep = 2 * convert.MaxLine

// reader makes entries from the records of one journal. An answer is complete
// at the end of its step, and what was recorded meanwhile waits for it: the
// results of its calls come after it.
type reader struct {
	fsys   fs.FS
	file   string
	helper bool
	IDs    convert.Memory `json:"ids"`
	Model  string         `json:"model,omitempty"`
	Last   string         `json:"last"`             // the ID of the last entry
	Before []string       `json:"before,omitempty"` // for each prompt that can be undone, the entry before it, or Root

	ready []convert.Entry // to be yielded
	open  *convert.Entry  // the answer of the step that has begun
	step  string          // its uuid
	after []convert.Entry // wait for it
	held  int             // bytes of all that
}

// entries yields the entries of the session's own journal, or those that were added
// to it.
func (s *source) entries(ctx context.Context, fsys fs.FS, marker *convert.Marker) iter.Seq2[convert.Entry, error] {
	return func(yield func(convert.Entry, error) bool) {
		r := &reader{fsys: fsys, file: path.Join(s.dir, journal)}
		if s.reader != nil {
			r.IDs, r.Model, r.Last, r.Before = *s.reader.IDs.Clone(), s.reader.Model, s.reader.Last, slices.Clone(s.reader.Before)
		}
		r.entries(ctx, s.from, func(at convert.Mark, yielded string) {
			marker.Exactly(at, yielded, func() any { return bookmark{s.known, r} })
		})(yield)
	}
}

// ofEntry is the kind of the names of entries.
const ofEntry = 'e'

// entries yields the entries of a journal from a mark on. Quiet is called where
// nothing waits, with the last entry that was yielded.
func (r *reader) entries(ctx context.Context, from convert.Mark, quiet func(at convert.Mark, yielded string)) iter.Seq2[convert.Entry, error] {
	return func(yield func(convert.Entry, error) bool) {
		yielded := r.Last
		flush := func() bool {
			for _, e := range r.ready {
				if yielded = e.ID; !yield(e, nil) {
					return false
				}
			}
			r.ready = r.ready[:0]
			return true
		}
		end := from
		for o, err := range convert.ObjectsFrom(ctx, r.fsys, r.file, from) {
			if quiet != nil && r.open == nil {
				quiet(o.Start, yielded)
			}
			if end = o.End; err != nil {
				if !yield(convert.Entry{}, err) {
					return
				}
				continue
			}
			if r.take(o); r.IDs.Missed() {
				yield(convert.Entry{}, convert.ErrWhole)
				return
			}
			if !flush() {
				return
			}
		}
		if r.open != nil { // its end may still be written
			r.open.Draft = true
			for i := range r.after {
				r.after[i].Draft = true
			}
		} else if quiet != nil {
			quiet(end, yielded)
		}
		r.settle()
		flush()
	}
}

// settle ends a step. One in which nothing was said leaves nothing.
func (r *reader) settle() {
	if r.open != nil && len(r.open.Blocks) > 0 {
		r.ready = append(r.ready, *r.open)
	}
	r.ready = append(r.ready, r.after...)
	r.open, r.step, r.after, r.held = nil, "", nil, 0
}

// add puts an entry behind those that are there, or behind those that wait.
func (r *reader) add(o convert.NumberedObject, id string, e tidemark.Entry, rest convert.Object) *convert.Entry {
	e.At, e.Extra = convert.Milli(o.Number("time")), convert.Keep(name, rest)
	one := convert.Entry{Entry: e, ID: r.IDs.Of(ofEntry, id, o.Place())}
	r.Last = one.ID
	to := &r.ready
	if r.open != nil {
		to = &r.after
	}
	*to = append(*to, one)
	return &(*to)[len(*to)-1]
}

// take makes entries from a record.
func (r *reader) take(o convert.NumberedObject) {
	if r.open != nil {
		if r.held += o.Size; r.held > maxStep {
			r.settle()
		}
	}
	kind := o.Text("type")
	rest := o.Without("time", "agentId")
	e := tidemark.Entry{Kind: convert.KindEvent}
	text := func(kind, key string) {
		var s string
		if e.Kind = kind; rest.Take(key, &s) {
			e.Blocks = []tidemark.Block{tidemark.Text(s)}
		}
	}
	switch kind {
	case "metadata":
		return
	case "llm.request":
		r.Model = o.Text("model")
		return
	case "context.append_loop_event":
		r.loop(o)
		return
	case "context.append_message":
		r.message(o)
		return
	case "context.undo", "context.clear":
		r.back(o, rest)
		return
	case "profile.bind", "config.update":
		text(convert.KindContext, "systemPrompt")
	case "context.apply_compaction":
		if text(convert.KindCompaction, "summary"); e.Blocks == nil {
			text(convert.KindCompaction, "contextSummary")
		}
		delete(rest, "contextSummary") // the summary with a sentence of the tool's
		r.Before = nil                 // an undo does not go behind it
	case "turn.step.retrying":
		text(convert.KindError, "errorMessage")
	case "turn.step.interrupted":
		text(convert.KindError, "message")
	case "turn.cancel":
		e.Kind = convert.KindInterrupted
	case "turn.ended", "turn.prompt":
		r.settle() // a step without an end has none any more
	case "usage.record":
		u, _ := o.Object.Object("usage")
		if e.Model, e.Usage = o.Text("model"), usage(u); r.open != nil { // the end of the step says the same
			r.open.Usage = e.Usage
			return
		}
	}
	if !repeats(kind) {
		r.add(o, "", e, rest)
	}
}

// back goes to before a prompt, or to the beginning: the entry of the record
// grows from there.
func (r *reader) back(o convert.NumberedObject, rest convert.Object) {
	r.settle()
	to, first := convert.Root, r.Last == ""
	switch n, count := len(r.Before), int(o.Number("count")); {
	case o.Text("type") == "context.clear":
		r.Before = nil
	case n == 0 || count <= 0:
		to = ""
	default:
		at := max(0, n-count)
		to, r.Before = r.Before[at], r.Before[:at]
	}
	if e := r.add(o, "", tidemark.Entry{Kind: convert.KindEvent}, rest); !first {
		e.Parent = to
	}
}

// message takes a message that is not part of a step.
func (r *reader) message(o convert.NumberedObject) {
	m, _ := o.Object.Object("message")
	from, _ := m.Object("origin")
	origin := from.Text("kind")
	e := tidemark.Entry{Blocks: r.blocks(m.List("content"))}
	switch role := m.Text("role"); {
	case role == "assistant":
		e.Role = tidemark.Assistant
		for _, raw := range m.List("toolCalls") {
			e.Blocks = append(e.Blocks, call(raw))
		}
	case role == "tool":
		e.Role, e.Blocks = tidemark.Tool, []tidemark.Block{wire.Result(m.Text("toolCallId"), m.True("isError"), e.Blocks)}
	case role == "user" && (origin == "" || origin == "user"), r.helper && origin == "system_trigger" && from.Text("name") == "subagent":
		e.Role = tidemark.User
	case origin == "shell_command":
		e.Kind = convert.KindCommand
	case origin == "compaction_summary":
		e.Kind = convert.KindCompaction
	default:
		e.Kind = convert.KindContext
	}
	if e.Role == tidemark.User || from.Text("trigger") == "user-slash" { // what an undo counts
		at := r.Last
		if at == "" {
			at = convert.Root
		}
		r.Before = append(r.Before, at)
	}
	rest := m.Without("role", "content", "id", "toolCalls", "toolCallId", "isError")
	if origin == "user" {
		delete(rest, "origin")
	}
	r.add(o, m.Text("id"), e, rest)
}

// call reads a call of a message; earlier versions had its name and arguments
// one level below.
func call(raw json.RawMessage) tidemark.Block {
	var c struct {
		wire.Call
		wire.Function
	}
	_ = convert.Loose(raw, &c) // what is not there stays empty
	if c.Call.Function.Name == "" {
		c.Call.Function = c.Function
	}
	return c.Call.Block()
}

// loop takes an event of a step.
func (r *reader) loop(o convert.NumberedObject) {
	ev, _ := o.Object.Object("event")
	switch ev.Text("type") {
	case "step.begin":
		r.settle()
		r.begin(o, ev.Text("uuid"))
	case "content.part":
		r.say(o, ev, r.block(ev["part"]))
	case "tool.call":
		b := tidemark.Block{Type: tidemark.BlockToolUse, ID: ev.Text("toolCallId"), Name: ev.Text("name"), Input: wire.Input(ev["args"])}
		if ev["extras"] != nil { // a signature of the provider's
			b.Provider, b.Raw = name, string(o.Object["event"])
		}
		r.say(o, ev, b)
	case "tool.result":
		res, _ := ev.Object("result")
		text, list, isText := wire.Content(res["output"])
		blocks := r.blocks(list)
		if isText {
			blocks = []tidemark.Block{tidemark.Text(text)}
		}
		id := ev.Text("parentUuid")
		if id != "" {
			id += ".result"
		}
		e := tidemark.Entry{Role: tidemark.Tool, Blocks: []tidemark.Block{wire.Result(ev.Text("toolCallId"), res.True("isError"), blocks)}}
		r.add(o, id, e, res.Without("output", "isError"))
	case "step.end":
		if r.open == nil || r.step != ev.Text("uuid") {
			return
		}
		u, _ := ev.Object("usage")
		if used := usage(u); used != nil {
			r.open.Usage = used
		}
		r.open.Extra = convert.Keep(name, ev.Without("type", "uuid", "usage"))
		r.settle()
	default:
		r.add(o, "", tidemark.Entry{Kind: convert.KindEvent}, o.Without("time", "agentId"))
	}
}

func (r *reader) begin(o convert.NumberedObject, step string) {
	e := tidemark.Entry{Role: tidemark.Assistant, At: convert.Milli(o.Number("time"))}
	r.open = &convert.Entry{Entry: e, ID: r.IDs.Of(ofEntry, step, o.Place())}
	r.step, r.Last = step, r.open.ID
}

// say adds to the answer of a step, also of one whose beginning is missing.
func (r *reader) say(o convert.NumberedObject, ev convert.Object, b tidemark.Block) {
	if r.open == nil {
		r.begin(o, ev.Text("stepUuid"))
	}
	r.open.Model = r.Model // it is known once the request is made
	r.open.Blocks = append(r.open.Blocks, b)
}

func (r *reader) blocks(parts []json.RawMessage) (blocks []tidemark.Block) {
	for _, raw := range parts {
		blocks = append(blocks, r.block(raw))
	}
	return blocks
}

// block reads one part. What it has no field for is kept byte for byte.
func (r *reader) block(raw json.RawMessage) tidemark.Block {
	var p convert.Object
	_ = json.Unmarshal(raw, &p) // what is no part is kept as it is
	b, known := tidemark.Block{Type: tidemark.BlockText, Text: p.Text("text")}, []string{"type", "text"}
	switch p.Text("type") {
	case "text":
	case "think":
		b, known = tidemark.Block{Type: tidemark.BlockThinking, Text: p.Text("think")}, []string{"type", "think", "reasoningKey"}
	case "image_url":
		b, known = r.media(tidemark.BlockImage, p["imageUrl"]), []string{"type", "imageUrl"}
	case "audio_url":
		b, known = r.media(tidemark.BlockFile, p["audioUrl"]), []string{"type", "audioUrl"}
	case "video_url":
		b, known = r.media(tidemark.BlockFile, p["videoUrl"]), []string{"type", "videoUrl"}
	default:
		known = nil
	}
	if wire.HasMore(raw, known...) {
		b.Provider, b.Raw = name, string(raw)
	}
	return b
}

// media returns an image or a file. A long one is a file beside the journal:
// blobref:<media type>;<hash>.
func (r *reader) media(kind string, link json.RawMessage) tidemark.Block {
	b, url := tidemark.Block{Type: kind}, convert.Field(link, "url")
	ref, ok := strings.CutPrefix(url, "blobref:")
	if !ok {
		return wire.Linked(b, url)
	}
	b.URL = url
	media, hash, _ := strings.Cut(ref, ";")
	file := path.Join(path.Dir(r.file), "blobs", path.Base(hash))
	if info, err := fs.Stat(r.fsys, file); err == nil && info.Mode().IsRegular() && info.Size() <= convert.MaxLine/2 {
		if data, err := convert.ReadFile(r.fsys, file); err == nil {
			b.MediaType, b.Data, b.URL = media, data, ""
		}
	}
	return b
}

// usage reads tokens: those from the cache are counted apart.
func usage(u convert.Object) *tidemark.Usage {
	return convert.Tokens(u.Number("inputOther"), u.Number("output"), u.Number("inputCacheRead"), u.Number("inputCacheCreation"))
}
