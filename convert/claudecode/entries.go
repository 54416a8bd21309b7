package claudecode

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"iter"
	"slices"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// synthetic is the model of replies that the client made itself.
const synthetic = "<synthetic>"

// entries reads the transcript a second time and yields its entries.
func (t *transcript) entries(ctx context.Context, o *outline, marker *convert.Marker) iter.Seq2[convert.Entry, error] {
	return func(yield func(convert.Entry, error) bool) {
		again := transcript{fsys: t.fsys, file: t.file, mine: t.mine, bare: t.bare, careful: t.careful, texts: o.texts}
		b := newBuilder(o)
		if t.from != nil {
			again.from = t.from.copy()
			from := t.from.copy()
			b.mem, b.begun, b.last = &from.Memory, true, from.Last
		}
		for it, err := range again.records(ctx, nil) {
			if err != nil {
				if !yield(convert.Entry{}, err) || !convert.IsSkip(err) {
					return
				}
				continue
			}
			if it.n >= len(o.lead) {
				break // it grew since the first reading; the next import has the rest
			}
			marker.At(it.line, b.yielded, func() any { return o.points[len(o.points)-1].point(b) })
			b.add(it)
			if b.mem.Missed() {
				yield(convert.Entry{}, convert.ErrWhole)
				return
			}
			if !b.flush(yield) {
				return
			}
		}
		b.settled = true
		b.flush(yield)
	}
}

// late reads the outline only when the entries are requested.
func (t transcript) late(ctx context.Context) iter.Seq2[convert.Entry, error] {
	return func(yield func(convert.Entry, error) bool) {
		o, err := t.read(ctx)
		if err != nil {
			yield(convert.Entry{}, err)
			return
		}
		t.entries(ctx, o, nil)(yield)
	}
}

// builder makes entries from records and holds back those that may still grow.
type builder struct {
	o       *outline
	waiting []*joined
	byLead  map[int32]*joined
	settled bool // nothing grows any more
	begun   bool
	last    time.Time
	yielded string // the ID of the last entry that was yielded

	mem *convert.Memory
}

// The kinds of names in the memory of a builder, and of a bill.
const (
	ofRecord = 'r' // the entry of each record, by uuid
	ofCall   = 'c' // the entry that a call is in
	ofAsked  = 'a' // for an entry with results, the one with the calls
	ofTail   = 't' // the last result of an entry with calls
	ofPaid   = 'p' // message ids whose usage was counted
	ofBill   = 'b' // message ids that were billed
)

// joined is an entry made of one record or of several, which more may join.
type joined struct {
	convert.Entry
	until   int
	before  []json.RawMessage // of entryExtra, as json.Marshal writes them
	records []byte            // the same, with commas between them
	broken  bool              // a record could not be written
}

// extra is the entryExtra of the entry, as json.Marshal writes it.
func (d *joined) extra() []byte {
	size := len(d.records) + len(d.before) + 64
	for _, note := range d.before {
		size += len(note)
	}
	if size > maxCarried+64 || d.broken {
		return nil
	}
	b := append(make([]byte, 0, size), `{"`+name+`":{`...)
	if len(d.before) > 0 {
		b = append(b, `"before":[`...)
		for i, note := range d.before {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, note...)
		}
		b = append(b, `],`...)
	}
	b = append(append(append(b, `"records":[`...), d.records...), `]}}`...)
	if len(b) > maxCarried {
		return nil
	}
	return b
}

// keep adds a record to what an export needs.
func (d *joined) keep(k *kept) {
	if d.records != nil {
		d.records = append(d.records, ',')
	}
	if k.line.Kind() == '{' {
		d.records = k.appendRecord(slices.Grow(d.records, k.size()))
		return
	}
	raw, err := json.Marshal(k)
	d.records, d.broken = append(d.records, raw...), d.broken || err != nil
}

// entryExtra is what an export needs to write the records of an entry as they
// were.
type entryExtra struct {
	Before  []json.RawMessage `json:"before,omitempty"`
	Records []kept            `json:"records,omitempty"`
}

// kept is a record without the content that is in the entry's blocks.
type kept struct {
	Record map[string]json.RawMessage `json:"record"`
	Shape  string                     `json:"shape,omitempty"`
	Blocks int                        `json:"blocks,omitempty"` // how many of the entry's are its content
	Fine   bool                       `json:"fine,omitempty"`   // results state explicitly that they are no errors

	line     convert.Value // instead of Record, where the line was scanned
	stripped bool          // its message goes without the content
}

// The shapes of a record's content.
const (
	shapeText     = "text"     // a string, which is the one block
	shapeBlocks   = "blocks"   // a list
	shapeRendered = "rendered" // texts of an attachment
	shapeFile     = "file"     // an image or document that was mentioned
)

func newBuilder(o *outline) *builder {
	mem := convert.MemoryOf(o.texts)
	return &builder{o: o, byLead: map[int32]*joined{}, mem: &mem}
}

// flush yields the entries that can no longer grow.
func (b *builder) flush(yield func(convert.Entry, error) bool) bool {
	for len(b.waiting) > 0 {
		d := b.waiting[0]
		if d.until >= 0 && !b.settled {
			return true
		}
		b.waiting = b.waiting[1:]
		d.Extra = d.extra()
		b.yielded = d.ID
		if !yield(d.Entry, nil) {
			b.waiting = nil
			return false
		}
	}
	return true
}

// add makes an entry from a record, or joins it to the entry that it continues.
func (b *builder) add(it item) {
	e, k := convertRecord(it)
	lead := b.o.lead[it.n]
	d := b.byLead[lead]
	if d == nil {
		e.Draft = int(lead) >= b.o.drafts
		d = &joined{Entry: convert.Entry{Entry: e, ID: it.UUID}, until: int(b.o.until[lead])}
		d.At = it.at()
		if d.At.IsZero() {
			d.At = b.last
		}
		b.last = d.At
		b.place(d, it)
		b.byLead[lead] = d
		b.waiting = append(b.waiting, d)
		b.begun = true
	} else {
		d.Blocks = append(d.Blocks, e.Blocks...)
		if e.Usage != nil {
			d.Usage = e.Usage
		}
	}
	b.mem.Set(ofRecord, it.UUID, d.ID)
	for _, block := range e.Blocks {
		if block.Type == tidemark.BlockToolUse {
			b.mem.Set(ofCall, block.ID, d.ID)
		}
	}
	d.before = append(d.before, it.before...)
	d.keep(&k)
	if d.until <= it.n {
		b.count(d, it)
		d.until = -1
		delete(b.byLead, lead)
	}
}

// count keeps the usage only on the first entry of a reply.
func (b *builder) count(d *joined, it item) {
	if d.Usage == nil {
		return
	}
	id := it.Message.ID
	if id != "" && b.mem.Has(ofPaid, id) {
		d.Usage = nil
	}
	b.mem.Set(ofPaid, id, "")
	if cost := b.o.bill.costs[b.o.lead[it.n]]; d.Usage != nil && d.Usage.CostUSD == 0 {
		d.Usage.CostUSD = cost
	}
}

// place finds the entry that a new one follows. Results of parallel calls are
// children of different records of one reply; here they follow each other, and
// what comes next follows the last of them.
func (b *builder) place(d *joined, it item) {
	parent := it.Parent
	if parent == "" {
		parent = it.Logical
	}
	switch before, ok := b.mem.Get(ofRecord, parent); {
	case ok:
		d.Parent = before
		if asked, _ := b.mem.Get(ofAsked, before); asked != "" {
			d.Parent, _ = b.mem.Get(ofTail, asked)
		}
	case parent == "" && b.begun:
		d.Parent = convert.Root
	}
	if d.Role != tidemark.Tool {
		return
	}
	at := slices.IndexFunc(d.Blocks, func(x tidemark.Block) bool { return x.Type == tidemark.BlockToolResult })
	asked, _ := b.mem.Get(ofCall, d.Blocks[at].ToolUseID)
	if asked == "" {
		return
	}
	if tail, _ := b.mem.Get(ofTail, asked); tail != "" {
		d.Parent = tail
	}
	b.mem.Set(ofAsked, d.ID, asked)
	b.mem.Set(ofTail, asked, d.ID)
}

// convertRecord makes an entry of a single record.
func convertRecord(it item) (tidemark.Entry, kept) {
	k := kept{}
	if it.parts.scanned() && it.Type != "attachment" {
		k.line = it.parts.line
	} else {
		_ = json.Unmarshal(it.text, &k.Record) // it was an object when it was read
		if k.Record["uuid"] == nil {
			k.Record["uuid"] = quote(it.UUID) // the key was spelled in another case
		}
	}
	switch it.Type {
	case "user":
		return userRecord(it.record, k)
	case "assistant":
		return assistantRecord(it.record, k)
	case "attachment":
		return attachmentRecord(it.record, k)
	case "system":
		return systemRecord(it.record), k
	}
	return tidemark.Entry{Kind: kindOf(it.Type)}, k
}

func userRecord(r record, k kept) (tidemark.Entry, kept) {
	blocks, isString := r.blocks(0)
	e := tidemark.Entry{Role: tidemark.User, Blocks: blocks}
	if slices.ContainsFunc(blocks, func(b tidemark.Block) bool { return b.Type == tidemark.BlockToolResult }) {
		e.Role = tidemark.Tool
		k.strip(shapeBlocks, len(blocks))
		k.Fine = bytes.Contains(r.Message.Content, []byte(`"is_error":false`))
		return e, k
	}
	if e.Kind = notTheUsers(r, e.Text()); e.Kind == "" {
		e.Blocks, e.Kind = clean(blocks)
	}
	if e.Kind != "" {
		e.Role = ""
	}
	switch {
	case !sameTexts(blocks, e.Blocks): // the content stays in the record
	case isString:
		k.strip(shapeText, 1)
	case blocks != nil:
		k.strip(shapeBlocks, len(blocks))
	}
	return e, k
}

func sameTexts(a, b []tidemark.Block) bool {
	return slices.EqualFunc(a, b, func(x, y tidemark.Block) bool { return x.Type == y.Type && x.Text == y.Text })
}

func assistantRecord(r record, k kept) (tidemark.Entry, kept) {
	m := r.Message
	blocks, isString := r.blocks(0)
	e := tidemark.Entry{Role: tidemark.Assistant, Blocks: blocks, Model: m.Model, Usage: r.tokens()}
	if r.CostUSD > 0 {
		if e.Usage == nil {
			e.Usage = &tidemark.Usage{}
		}
		e.Usage.CostUSD = r.CostUSD
	}
	switch {
	case r.APIError:
		e.Role, e.Kind, e.Model = "", convert.KindError, ""
	case m.Model == synthetic:
		e.Role, e.Kind, e.Model = "", convert.KindContext, ""
	}
	if isString {
		k.strip(shapeText, 1)
	} else if blocks != nil {
		k.strip(shapeBlocks, len(blocks))
	}
	return e, k
}

func usageOf(raw json.RawMessage) *tidemark.Usage {
	var u struct {
		In    float64 `json:"input_tokens"`
		Out   float64 `json:"output_tokens"`
		Read  float64 `json:"cache_read_input_tokens"`
		Write float64 `json:"cache_creation_input_tokens"`
	}
	if convert.Loose(raw, &u) != nil {
		return nil
	}
	return usage(u.In, u.Out, u.Read, u.Write)
}

func usage(in, out, read, write float64) *tidemark.Usage {
	if in == 0 && out == 0 && read == 0 && write == 0 {
		return nil
	}
	return &tidemark.Usage{InputTokens: int64(in), OutputTokens: int64(out), CacheReadTokens: int64(read), CacheWriteTokens: int64(write)}
}

// attachmentRecord is what the client told the model, or a prompt that the user
// typed during a reply.
func attachmentRecord(r record, k kept) (tidemark.Entry, kept) {
	var a struct {
		Type   string          `json:"type"`
		Mode   string          `json:"commandMode"`
		Prompt json.RawMessage `json:"prompt"`
		Origin json.RawMessage `json:"origin"`
		Meta   bool            `json:"isMeta"`
		Text   string          `json:"content"`
	}
	e := tidemark.Entry{Kind: convert.KindContext}
	if convert.Loose(r.Attached, &a) != nil {
		return e, k
	}
	if a.Type == "queued_command" && (a.Mode == "" || a.Mode == "prompt" || a.Mode == "bash") && !a.Meta {
		blocks, _ := contentOf(a.Prompt, 0)
		origin := convert.Field(a.Origin, "kind")
		blocks, kind := clean(blocks)
		if len(blocks) > 0 && kind == "" && (origin == "" || origin == "human") {
			return tidemark.Entry{Role: tidemark.User, Blocks: blocks}, k
		}
	}
	if b, ok := k.mentioned(r.Attached); ok {
		e.Blocks = []tidemark.Block{b}
		return e, k
	}
	var rendered []map[string]string
	if convert.Loose(r.Rendered, &rendered) == nil && len(rendered) > 0 {
		plain := true
		for _, part := range rendered {
			e.Blocks = append(e.Blocks, tidemark.Text(part["content"]))
			plain = plain && len(part) == 1 && part["content"] != ""
		}
		if plain {
			delete(k.Record, "rendered")
			k.Shape, k.Blocks = shapeRendered, len(rendered)
		}
	} else if text := cmp.Or(a.Text, mentionOf(r.Attached).Content.File.Content); text != "" {
		e.Blocks = []tidemark.Block{tidemark.Text(text)}
	}
	return e, k
}

func systemRecord(r record) tidemark.Entry {
	e := tidemark.Entry{Kind: kindOf(r.Subtype)}
	var text string
	if json.Unmarshal(r.Content, &text) == nil && text != "" {
		e.Blocks = []tidemark.Block{tidemark.Text(text)}
	}
	switch r.Subtype {
	case "compact_boundary":
		e.Kind = kindBoundary
	case "local_command":
		own, kind := typed(text)
		if e.Kind = kind; kind == "" {
			e.Kind = convert.KindCommand
			e.Blocks = []tidemark.Block{tidemark.Text(own)}
		}
	}
	return e
}

// strip removes from a record the content that is in the blocks of the entry.
func (k *kept) strip(shape string, blocks int) {
	if k.line.Kind() == '{' {
		k.stripped, k.Shape, k.Blocks = true, shape, blocks
		return
	}
	var m map[string]json.RawMessage
	if json.Unmarshal(k.Record["message"], &m) != nil {
		return
	}
	delete(m, "content")
	raw, err := json.Marshal(m)
	if err != nil {
		return
	}
	k.Record["message"], k.Shape, k.Blocks = raw, shape, blocks
}
