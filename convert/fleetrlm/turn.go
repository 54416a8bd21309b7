package fleetrlm

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"iter"
	"strconv"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// The keys of a turn, in all versions and in the sidecar database.
func userKeys() []string   { return []string{"user_request", "user_message"} }
func answerKeys() []string { return []string{"assistant_response", "response", "assistant_message"} }

// summaryRequest is the request of the turn that replaces those that the history
// had no space for.
const summaryRequest = "[summary of earlier conversation]"

// kindNote is an entry for a turn in which nobody said anything.
const kindNote = "note"

// turn is one request with its answer.
type turn struct {
	request, answer string
	note            turnNote
	at, answeredAt  time.Time
	model           string
	usage           *tidemark.Usage
}

func (t turn) isSummary() bool { return t.request == summaryRequest }

// turnNote is what the entries of a turn do not represent. It travels in the
// Extra of the first of them.
type turnNote struct {
	Fields     object          `json:"fields,omitempty"`      // besides the texts
	RequestKey *string         `json:"request_key,omitempty"` // when it is not that of the session, "": none
	AnswerKey  *string         `json:"answer_key,omitempty"`
	Begins     bool            `json:"begins,omitempty"`  // it begins with its answer
	Turn       json.RawMessage `json:"turn,omitempty"`    // verbatim, when the rest does not restore it
	Latency    int64           `json:"latency,omitempty"` // of an answer, in milliseconds
}

func (n turnNote) isEmpty() bool {
	return len(n.Fields) == 0 && n.RequestKey == nil && n.AnswerKey == nil && !n.Begins && n.Turn == nil && n.Latency == 0
}

func (n turnNote) extra() json.RawMessage {
	if n.isEmpty() {
		return nil
	}
	return keep(n)
}

// spelling is the set of keys that the turns of a session use.
type spelling struct {
	Request string `json:"request"`
	Answer  string `json:"answer"`
}

// spellingOf returns that of the first turn with content.
func spellingOf(turns []json.RawMessage) spelling {
	for _, raw := range turns {
		var o object
		if json.Unmarshal(raw, &o) != nil {
			continue
		}
		_, request := said(o, userKeys())
		_, answer := said(o, answerKeys())
		if request != "" && answer != "" {
			return spelling{request, answer}
		}
	}
	return spelling{userKeys()[0], answerKeys()[0]}
}

// decodeTurn reads a turn. Whatever its form, encode restores it.
func (sp spelling) decodeTurn(raw json.RawMessage) turn {
	var o object
	if json.Unmarshal(raw, &o) != nil || o == nil {
		return turn{note: turnNote{Turn: raw}}
	}
	var t turn
	var request, answer string
	t.request, request = said(o, userKeys())
	t.answer, answer = said(o, answerKeys())
	if rest := o.Without(request, answer); len(rest) > 0 {
		t.note.Fields = rest
	}
	if request != sp.Request {
		t.note.RequestKey = &request
	}
	if answer != sp.Answer {
		t.note.AnswerKey = &answer
	}
	if back, err := convert.Encode(sp.encode(t)); err != nil || !convert.SameJSON(back, raw) {
		t.note = turnNote{Turn: raw}
	}
	return t
}

// encode returns a turn as fleet-rlm stores it.
func (sp spelling) encode(t turn) any {
	if t.note.Turn != nil {
		if was := sp.decodeTurn(t.note.Turn); was.request == t.request && was.answer == t.answer {
			return t.note.Turn
		}
	}
	o := t.note.Fields.Without()
	for _, f := range []struct {
		own  *string
		key  string
		text string
	}{{t.note.RequestKey, sp.Request, t.request}, {t.note.AnswerKey, sp.Answer, t.answer}} {
		if f.own != nil && (*f.own != "" || f.text == "") {
			f.key = *f.own
		}
		if f.key != "" {
			o.Set(f.key, f.text)
		}
	}
	return o
}

// speaker makes entries from turns. The id of an entry is made from its text and
// how often that text occurred before: fleet-rlm truncates a history at its
// beginning, so numbers of turns would change.
type speaker struct {
	said map[string]int
	last time.Time // of the previous turn, for one without a time
}

func (s *speaker) id(kind string, texts ...string) string {
	h := sha256.New()
	for _, t := range texts {
		h.Write([]byte(t))
		h.Write([]byte{0})
	}
	id := kind + "-" + hex.EncodeToString(h.Sum(nil)[:12])
	s.said[id]++
	if n := s.said[id]; n > 1 {
		id += "-" + strconv.Itoa(n)
	}
	return id
}

// entries returns the entries of one turn.
func (s *speaker) entries(t turn) []convert.Entry {
	if !t.at.IsZero() {
		s.last = t.at
	}
	asked := convert.Entry{Entry: tidemark.Entry{At: s.last, Kind: tidemark.KindMessage, Role: tidemark.User}}
	answered := convert.Entry{Entry: tidemark.Entry{At: s.last, Kind: tidemark.KindMessage, Role: tidemark.Assistant, Model: t.model, Usage: t.usage}}
	if !t.answeredAt.IsZero() {
		answered.At = t.answeredAt
	}
	latency := turnNote{Latency: t.note.Latency}
	t.note.Latency = 0
	switch {
	case t.isSummary():
		asked.Kind, asked.Role, asked.Extra = convert.KindCompaction, "", t.note.extra()
		asked.ID, asked.Blocks = s.id("summary", t.answer), say(t.answer)
		return []convert.Entry{asked}
	case t.request == "" && t.answer == "":
		asked.Kind, asked.Role = kindNote, ""
		if t.note.isEmpty() {
			t.note.Begins = true
		}
		asked.ID, asked.Extra = s.id("note", string(convert.Canonical(t.note.extra()))), t.note.extra()
		return []convert.Entry{asked}
	}
	asked.ID, asked.Blocks, asked.Extra = s.id("request", t.request), say(t.request), t.note.extra()
	answered.ID, answered.Blocks, answered.Extra = s.id("answer", t.request, t.answer), say(t.answer), latency.extra()
	if t.answer == "" {
		return []convert.Entry{asked}
	}
	if t.request == "" {
		t.note.Begins, t.note.Latency = true, latency.Latency
		answered.Extra = t.note.extra()
		return []convert.Entry{answered}
	}
	return []convert.Entry{asked, answered}
}

func say(text string) []tidemark.Block {
	if text == "" {
		return nil
	}
	return []tidemark.Block{tidemark.Text(text)}
}

// speak yields the entries of turns; from is the time of those that have none.
func speak(turns iter.Seq2[turn, error], from time.Time) iter.Seq2[convert.Entry, error] {
	return func(yield func(convert.Entry, error) bool) {
		s := &speaker{said: map[string]int{}, last: from}
		for t, err := range turns {
			if err != nil {
				if !yield(convert.Entry{}, err) || !convert.IsSkip(err) {
					return
				}
				continue
			}
			for _, e := range s.entries(t) {
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}

// turnsOf returns the turns that entries are exported as.
func turnsOf(entries []convert.Entry, lost convert.Losses) (turns []turn) {
	for _, e := range entries {
		var n turnNote
		own := kept(e.Extra, &n)
		if !own && len(e.Extra) > 0 {
			lost.Add("what other tools keep with an entry")
		}
		text := e.Text()
		last := len(turns) - 1
		switch {
		case e.Kind == convert.KindCompaction:
			turns = append(turns, turn{request: summaryRequest, answer: text, note: n, at: e.At})
		case e.Kind == kindNote && own:
			n.Begins = false
			turns = append(turns, turn{note: n, at: e.At})
		case e.Role == tidemark.User && hasText(e, lost):
			turns = append(turns, turn{request: text, note: n, at: e.At})
		case e.Role == tidemark.Assistant && hasText(e, lost):
			if n.Begins || last < 0 || turns[last].isSummary() {
				n.Begins = false
				turns = append(turns, turn{answer: text, note: n, at: e.At, model: e.Model, usage: e.Usage})
				continue
			}
			t := &turns[last]
			if t.answer != "" {
				text = t.answer + "\n\n" + text
			}
			t.answer, t.answeredAt, t.model, t.usage = text, e.At, e.Model, sum(t.usage, e.Usage)
			t.note.Latency += n.Latency
		case e.Role == tidemark.User || e.Role == tidemark.Assistant:
			if last >= 0 {
				turns[last].usage = sum(turns[last].usage, e.Usage)
			}
		case e.Role == tidemark.Tool:
			hasText(e, lost)
		case e.Role == tidemark.System:
			lost.Add("messages of the system")
		default:
			lost.Add("entries of kind " + e.Kind)
		}
	}
	return turns
}

// hasText reports whether an entry has text, and counts what else it has as
// lost.
func hasText(e convert.Entry, lost convert.Losses) bool {
	for _, b := range e.Blocks {
		switch b.Type {
		case tidemark.BlockText:
		case tidemark.BlockToolUse:
			lost.Add("calls of tools")
		case tidemark.BlockToolResult:
			lost.Add("results of tools")
		default:
			lost.Add("blocks of type " + b.Type)
		}
	}
	return e.Text() != ""
}

func sum(a, b *tidemark.Usage) *tidemark.Usage {
	if a == nil {
		return b
	}
	if b == nil {
		return a
	}
	return &tidemark.Usage{InputTokens: a.InputTokens + b.InputTokens, OutputTokens: a.OutputTokens + b.OutputTokens,
		CacheReadTokens: a.CacheReadTokens + b.CacheReadTokens, CacheWriteTokens: a.CacheWriteTokens + b.CacheWriteTokens, CostUSD: a.CostUSD + b.CostUSD}
}
