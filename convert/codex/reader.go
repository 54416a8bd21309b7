package codex

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// The kinds of entries besides messages.
const (
	kindRewind = "rewind" // the thread went back to its parent
	kindAgent  = "agent_message"
	kindItem   = "item"  // an item that is neither a message nor a call
	kindUsage  = "usage" // tokens of an answer that is missing
)

// maxBefore bounds the lines that are kept between two entries. A turn has a few
// kilobytes of them.
const maxBefore = 1 << 20

// reader makes entries from the lines of one file. It holds one entry back: only
// the line after a message in the user's role says who wrote it, and tokens come
// after the answer that cost them.
type reader struct {
	file   *rollout
	worker bool
	grows  bool // it is the newest file of its thread
	prefix string
	parent string // of the first entry
	end    int64  // stops before this ordinal; -1: at the end
	emit   func(convert.Entry, error) bool

	stopped bool
	lastAt  time.Time
	model   string
	items   int // response items and summaries so far: IDs are made from it
	events  int // entries made of events since the last item
	last    string
	turns   []string // for each prompt on the path: the entry before it

	held      *convert.Entry
	ended     bool   // the turn of held is over, so that it stays as it is
	shown     bool   // held is an answer that the client showed, and so no summary
	saying    string // an answer that was shown before its item
	undecided bool   // held is either the user's message or the client's
	announced string // a prompt whose event came before its item
	hasEvents bool   // the file says which messages are the user's

	before     []json.RawMessage
	beforeSize int
	settings   map[string][sumSize]byte // of settings lines, to drop repeats

	pending *tidemark.Usage // of an answer that has not come yet
	total   tokens          // at the last count

	path   []string // the turns after the entry that was yielded last
	marker *marker  // nil: nobody wants a bookmark
}

// read yields the entries; it is false when the caller stopped.
func (r *reader) read(fsys fs.FS) bool {
	r.lastAt, r.settings = r.file.created, map[string][sumSize]byte{}
	var from convert.Mark
	if r.marker != nil {
		from = r.marker.begin(r)
	}
	for l, err := range convert.LinesFrom(fsys, r.file.path, from) {
		if err != nil {
			if !convert.IsSkip(err) {
				r.flush()
				return !r.stopped && r.emit(convert.Entry{}, asSkip(r.file.path, err))
			}
			r.skip(err)
		} else if before := r.marker.before(r); !r.line(l) {
			break
		} else {
			r.marker.after(r, l.Start, before)
		}
		if r.stopped {
			return false
		}
	}
	r.finish()
	return !r.stopped
}

// finish yields what is left at the end of the file. What a further line could
// change is a draft.
func (r *reader) finish() {
	if h := r.held; h != nil {
		// An answer that was shown and has its tokens is complete, also in versions
		// that do not say when a turn is over.
		complete := r.ended || r.shown && h.Usage != nil
		h.Draft = r.grows && (r.undecided || h.Role == tidemark.Assistant && !complete)
		r.flush()
	}
	if r.pending != nil {
		r.putEvent(convert.Entry{Entry: tidemark.Entry{Kind: kindUsage, At: r.lastAt, Model: r.model, Usage: r.pending, Draft: r.grows}}, kept{})
		r.pending = nil
		r.flush()
	}
}

// line handles one line; false: the wanted lines are over.
func (r *reader) line(l convert.Line) bool {
	rec, err := parseRecord(l.Text)
	if err != nil {
		why := "is damaged"
		if l.Torn {
			why = "is cut off"
		}
		r.skip(convert.Skipf(fmt.Sprintf("%s line %d", r.file.path, l.Number), "%s: %w", why, err))
		return true
	}
	if r.end >= 0 && rec.Ordinal != nil && *rec.Ordinal >= r.end {
		return false
	}
	inherited := rec.Ordinal != nil && *rec.Ordinal < r.file.meta.HistoryStart
	if inherited && l.Number > 1 {
		return true
	}
	if rec.Type == "response_item" || rec.Type == "compacted" {
		r.items++
		r.events = 0
	}
	if t := rec.at(); !t.IsZero() {
		r.lastAt = t
	}
	if r.undecided && !isPrompt(rec) {
		r.decide(false)
	}
	r.record(rec, l)
	return true
}

func (r *reader) record(rec record, l convert.Line) {
	switch rec.Type {
	case "session_meta":
		if l.Number == 1 && r.worker {
			r.noteMeta(rec)
		}
	case "state": // a placeholder of the first versions
	case "response_item":
		r.item(rec, l.Number)
	case "compacted":
		r.compacted(rec, l.Number)
	case "event_msg":
		r.event(rec, l)
	case "token_usage_record":
		r.usageRecord(rec.Payload)
	case "turn_context":
		var p struct{ Model string }
		if json.Unmarshal(rec.Payload, &p) == nil && p.Model != "" {
			r.model = p.Model
		}
		r.note(rec, l.Text)
	default:
		r.note(rec, l.Text)
	}
}

func (r *reader) skip(err error) {
	if !r.stopped && !r.emit(convert.Entry{}, err) {
		r.stopped = true
	}
}

// note keeps a line that makes no entry for the next entry. Settings that only
// repeat the last ones are dropped.
func (r *reader) note(rec record, line []byte) {
	if what := setting(rec); what != "" {
		sum := sumOf(rec.Payload)
		if r.settings[what] == sum {
			return
		}
		r.settings[what] = sum
	}
	if r.beforeSize+len(line) > maxBefore {
		return
	}
	fields := split(line)
	delete(fields, "ordinal") // counted again on export
	b, err := convert.Encode(fields)
	if err != nil {
		return
	}
	r.before = append(r.before, b)
	r.beforeSize += len(b)
}

// setting names the kind of settings in a line, "" for other lines.
func setting(rec record) string {
	const applied = "thread_settings_applied"
	switch {
	case rec.Type == "turn_context", rec.Type == "world_state":
		return rec.Type
	case rec.Type == "event_msg" && bytes.Contains(rec.Payload[:min(len(rec.Payload), 64)], []byte(applied)):
		return applied
	}
	return ""
}

// noteMeta keeps the session_meta of a helper agent with its first entry, since
// a worker has no other place for it. The ordinal at which its own lines begin
// is removed: it no longer holds for them alone.
func (r *reader) noteMeta(rec record) {
	m := split(rec.Payload)
	delete(m, "subagent_history_start_ordinal")
	delete(m, "history_base")
	line := map[string]any{"timestamp": rec.Timestamp, "type": rec.Type, "payload": m}
	if b, err := convert.Encode(line); err == nil {
		r.note(rec, b)
	}
}

// put holds an entry back and yields the previous one.
func (r *reader) put(e convert.Entry, k kept) {
	r.flush()
	if e.At.IsZero() {
		e.At = r.lastAt
	}
	k.Before, r.before, r.beforeSize = r.before, nil, 0
	e.Extra = k.extra()
	e.ID = r.prefix + fmt.Sprint(r.items)
	if r.events > 0 {
		e.ID += fmt.Sprintf(".%d", r.events)
	}
	r.held, r.ended, r.shown = &e, false, false
	if text := e.Text(); e.Role == tidemark.Assistant && text != "" {
		r.shown = text == r.saying
		r.saying = ""
	}
}

// says handles an event that shows an answer: before its item, or after it.
func (r *reader) says(text string) {
	if h := r.held; h != nil && h.Role == tidemark.Assistant && text != "" && h.Text() == text {
		r.shown = true
		return
	}
	r.saying = text
}

// putEvent is put for an entry that is not an item.
func (r *reader) putEvent(e convert.Entry, k kept) {
	r.events++
	r.put(e, k)
}

// flush yields the held entry.
func (r *reader) flush() {
	e := r.held
	if e == nil || r.stopped {
		return
	}
	if r.undecided {
		r.decide(true)
	}
	r.held = nil
	if r.parent != "" && e.Parent == "" {
		e.Parent = r.parent
	}
	r.parent = ""
	if e.Role == tidemark.User {
		r.turns = append(r.turns, r.last)
	}
	r.last = e.ID
	r.path = r.turns
	r.stopped = !r.emit(*e, nil)
}

// decide settles whose message is held, when no event did. Without a mark of the
// client it is the user's if the file ends here, or never says.
func (r *reader) decide(ends bool) {
	r.undecided = false
	if convert.Begins(r.held.Text(), marks...) || r.hasEvents && !ends {
		r.toContext("user")
	}
}

// toContext marks the held message as the client's.
func (r *reader) toContext(role string) {
	k := keptOf(r.held.Extra)
	k.Role = role
	r.held.Kind, r.held.Role, r.held.Extra = convert.KindContext, "", k.extra()
}

// event handles what the client showed. Most of it repeats an item.
func (r *reader) event(rec record, l convert.Line) {
	fields := split(rec.Payload)
	var kind, message string
	text(fields["type"], &kind)
	switch kind {
	case "user_message":
		text(fields["message"], &message)
		r.prompt(message)
	case "item_completed":
		r.shownItem(rec, l, fields["item"])
	case "agent_message":
		text(fields["message"], &message)
		r.says(message)
	case "agent_reasoning", "agent_reasoning_raw_content", "agent_reasoning_section_break", "thread_name_updated":
	case "token_count":
		r.tokenCount(fields["info"])
	case "turn_aborted":
		text(fields["reason"], &message)
		r.happened(convert.KindInterrupted, message, rec)
	case "error":
		text(fields["message"], &message)
		r.happened(convert.KindError, message, rec)
	case "task_complete", "turn_complete":
		r.ended = true
		failure := split(fields["error"])
		if failure == nil {
			r.note(rec, l.Text)
			return
		}
		text(failure["message"], &message)
		r.happened(convert.KindError, message, rec)
	case "thread_rolled_back":
		var n int
		_ = json.Unmarshal(fields["num_turns"], &n)
		r.rewind(rec, n)
	default:
		r.note(rec, l.Text)
	}
}

// shownItem handles an item in an event.
func (r *reader) shownItem(rec record, l convert.Line, raw json.RawMessage) {
	item := split(raw)
	var kind string
	text(item["type"], &kind)
	switch kind {
	case "UserMessage":
		r.prompt(shownText(item))
	case "AgentMessage":
		r.says(shownText(item))
	case "Reasoning":
	default:
		r.note(rec, l.Text)
	}
}

// happened makes an entry of an event that is not a message.
func (r *reader) happened(kind, message string, rec record) {
	e := convert.Entry{Entry: tidemark.Entry{Kind: kind, At: rec.at()}}
	if message != "" {
		e.Blocks = []tidemark.Block{tidemark.Text(message)}
	}
	r.putEvent(e, kept{Event: rec.Payload})
}

// isPrompt reports whether a line says that the message before it is the
// user's.
func isPrompt(rec record) bool {
	return rec.Type == "event_msg" &&
		(bytes.Contains(rec.Payload, []byte(`"user_message"`)) || bytes.Contains(rec.Payload, []byte(`"UserMessage"`)))
}

// prompt handles an event that shows a prompt.
func (r *reader) prompt(text string) {
	r.hasEvents = true
	if r.undecided {
		r.undecided = false
		return
	}
	if r.held == nil || r.held.Role != tidemark.User || r.held.Text() != text {
		r.announced = text
	}
}

// rewind goes back to before the last n prompts. What was said there stays, on
// its own branch.
func (r *reader) rewind(rec record, n int) {
	r.flush()
	e := convert.Entry{Entry: tidemark.Entry{Kind: kindRewind, At: rec.at()}}
	if n = min(n, len(r.turns)); n > 0 {
		e.Parent = convert.Root
		if before := r.turns[len(r.turns)-n]; before != "" {
			e.Parent = before
		}
		r.turns = slices.Clip(r.turns[:len(r.turns)-n]) // a bookmark has the others
	}
	r.putEvent(e, kept{Event: rec.Payload})
}

// compacted handles a summary. The model's message with the summary, when it
// comes just before, is not part of the conversation.
func (r *reader) compacted(rec record, number int) {
	fields := split(rec.Payload)
	if fields == nil {
		r.skip(convert.Skipf(fmt.Sprintf("%s line %d", r.file.path, number), "is damaged: its payload is not an object"))
		return
	}
	var message string
	takeString(fields, "message", &message)
	if h := r.held; h != nil && h.Role == tidemark.Assistant && !r.ended && !r.shown {
		if text := h.Text(); text != "" && strings.HasSuffix(message, text) {
			r.toContext(string(tidemark.Assistant))
		}
	}
	e := convert.Entry{Entry: tidemark.Entry{Kind: convert.KindCompaction, At: rec.at(), Usage: r.pending}}
	r.pending = nil
	if message != "" {
		e.Blocks = []tidemark.Block{tidemark.Text(message)}
	}
	r.put(e, kept{Line: rec.Rest, Item: rest(fields)})
}
