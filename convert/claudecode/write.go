package claudecode

import (
	"bufio"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// writer writes the records of one transcript.
type writer struct {
	out                       *bufio.Writer
	session, project, version string
	agent                     string // of a helper agent's transcript
	lost                      losses

	tails   map[string]string // the last record of each entry
	calls   map[string]string // the record of each call
	written map[string]bool   // uuids
	tail    string            // the last record
	title   string            // as in the last note
	leaf    string
	prompt  string // the last one, shortened
}

// put writes one line.
func (w *writer) put(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	w.out.Write(b)
	return w.out.WriteByte('\n') // a bufio.Writer keeps its first error
}

// note writes a record without a uuid.
func (w *writer) note(raw json.RawMessage) error {
	var m map[string]json.RawMessage
	if json.Unmarshal(raw, &m) != nil {
		return nil
	}
	r, err := decode(raw)
	if err != nil {
		return nil
	}
	switch r.Type {
	case "custom-title":
		w.title = r.CustomTitle
	case "last-prompt":
		w.leaf = r.Leaf
	}
	if r.Session == "" || r.Session == w.session {
		return w.put(raw)
	}
	w.own(m)
	return w.put(m)
}

// own makes a record belong to this session.
func (w *writer) own(m map[string]json.RawMessage) {
	if _, ok := m["sessionId"]; ok {
		m["sessionId"], _ = json.Marshal(w.session)
	}
}

// leafIn reports whether the noted leaf is a record of the entry head.
func (w *writer) leafIn(head string) bool {
	return head != "" && w.leaf != "" && w.tails[head] == w.tails[w.leaf] && w.written[w.leaf]
}

// entry writes the records of one entry.
func (w *writer) entry(e convert.Entry) error {
	parent := w.tail
	switch {
	case e.Parent == convert.Root:
		parent = ""
	case e.Parent != "":
		parent = w.tails[e.Parent]
	}
	w.tails[e.ID] = parent
	if e.Role == tidemark.User {
		w.prompt = shorten(e.Text(), 200)
	}
	var extra map[string]entryExtra
	_ = json.Unmarshal(e.Extra, &extra) // another tool's Extra is ignored
	mine := extra[name]
	for _, note := range mine.Before {
		if err := w.note(note); err != nil {
			return err
		}
	}
	records, ok := restore(e.Entry, mine.Records)
	if !ok {
		return w.writeNew(e, parent)
	}
	for _, m := range records {
		if err := w.writeOriginal(e.ID, m, parent); err != nil {
			return err
		}
	}
	return nil
}

// restore puts the content of an entry back into the records that it was made
// from. It is false when they no longer fit together.
func restore(e tidemark.Entry, records []kept) ([]map[string]json.RawMessage, bool) {
	var all []map[string]json.RawMessage
	blocks := e.Blocks
	for _, k := range records {
		if k.Record["uuid"] == nil || k.Blocks < 0 || k.Blocks > len(blocks) {
			return nil, false
		}
		own := blocks[:k.Blocks]
		blocks = blocks[k.Blocks:]
		var content any
		switch k.Shape {
		case shapeText:
			if len(own) != 1 {
				return nil, false
			}
			content = own[0].Text
		case shapeBlocks:
			content = rawResults(own, k.Fine)
		case shapeRendered:
			parts := []map[string]string{}
			for _, b := range own {
				parts = append(parts, map[string]string{"content": b.Text})
			}
			k.Record["rendered"], _ = json.Marshal(parts)
		case shapeFile:
			if len(own) != 1 || !k.refillFile(base64.StdEncoding.EncodeToString(own[0].Data)) {
				return nil, false
			}
		default:
			if len(records) > 1 || !unchanged(e, k) {
				return nil, false
			}
			blocks = nil
		}
		if content != nil && !k.refill(content) {
			return nil, false
		}
		all = append(all, k.Record)
	}
	return all, len(all) > 0 && len(blocks) == 0
}

// rawResults is rawBlocks for results that state explicitly that they are no
// errors.
func rawResults(blocks []tidemark.Block, fine bool) []json.RawMessage {
	list := rawBlocks(blocks)
	for i, b := range blocks {
		if fine && len(list) == len(blocks) && b.Type == tidemark.BlockToolResult && !b.IsError && b.Raw == "" {
			list[i] = append(list[i][:len(list[i])-1], `,"is_error":false}`...)
		}
	}
	return list
}

func (k kept) refill(content any) bool {
	var m map[string]json.RawMessage
	raw, err := json.Marshal(content)
	if err != nil || json.Unmarshal(k.Record["message"], &m) != nil || m == nil {
		return false
	}
	m["content"] = raw
	k.Record["message"], err = json.Marshal(m)
	return err == nil
}

// unchanged reports whether a record that kept its content still agrees with the
// entry: one may have been redacted and not the other.
func unchanged(e tidemark.Entry, k kept) bool {
	text, err := json.Marshal(k.Record)
	if err != nil {
		return false
	}
	r, err := decode(text)
	if err != nil {
		return false
	}
	was, _ := convertRecord(item{record: r, text: text})
	return len(was.Blocks)+len(e.Blocks) == 0 || reflect.DeepEqual(was.Blocks, e.Blocks)
}

// writeOriginal writes a record as it was. Its parent is kept if it was written.
func (w *writer) writeOriginal(entry string, m map[string]json.RawMessage, parent string) error {
	var uuid, was string
	_ = json.Unmarshal(m["uuid"], &uuid)
	if raw, ok := m["parentUuid"]; ok {
		_ = json.Unmarshal(raw, &was)
		if was != "" && !w.written[was] {
			m["parentUuid"] = quote(parent)
		}
	}
	w.own(m)
	w.wrote(entry, uuid)
	r := record{}
	if text, err := json.Marshal(m); err == nil {
		r, _ = decode(text)
	}
	blocks, _ := contentOf(r.Message.Content, maxDepth)
	w.called(blocks, uuid)
	return w.put(m)
}

func (w *writer) wrote(entry, uuid string) {
	w.written[uuid] = true
	w.tails[entry], w.tails[uuid], w.tail = uuid, uuid, uuid
}

func (w *writer) called(blocks []tidemark.Block, uuid string) {
	for _, b := range blocks {
		if b.Type == tidemark.BlockToolUse {
			w.calls[callID(b.ID)] = uuid
		}
	}
}

// writeNew writes an entry that has no known records.
func (w *writer) writeNew(e convert.Entry, parent string) error {
	switch {
	case e.Role == tidemark.Assistant:
		return w.reply(e, parent)
	case e.Role == tidemark.Tool:
		return w.results(e, parent)
	case e.Role == tidemark.User:
		content := contentFor(e.Blocks)
		if content == nil {
			return nil
		}
		return w.writeFirst(e, parent, map[string]any{"type": "user", "message": map[string]any{"role": "user", "content": content}})
	case e.Kind == convert.KindCompaction:
		return w.compaction(e, parent)
	case e.Kind == convert.KindContext && e.Text() != "":
		return w.writeFirst(e, parent, map[string]any{"type": "user", "isMeta": true,
			"message": map[string]any{"role": "user", "content": e.Text()}})
	case e.Kind == tidemark.KindBranch:
		return nil // the next entry names its parent itself
	case e.Text() != "":
		if e.Role == tidemark.System {
			w.lost["system messages, which the client shows and does not send"]++
		}
		return w.writeFirst(e, parent, map[string]any{"type": "system", "subtype": "informational", "content": e.Text(), "level": "info", "isMeta": false})
	}
	w.lost["entries of the kind "+e.Kind]++
	return nil
}

// writeFirst writes the first record of a generated entry.
func (w *writer) writeFirst(e convert.Entry, parent string, m map[string]any) error {
	return w.record(e, 0, parent, m)
}

func (w *writer) record(e convert.Entry, n int, parent string, m map[string]any) error {
	uuid := hashID(w.session, w.agent, e.ID, strconv.Itoa(n))
	if id, err := tidemark.ParseSessionID(e.ID); err == nil && n == 0 && !w.written[string(id)] {
		uuid = string(id)
	}
	m["uuid"], m["parentUuid"] = uuid, quote(parent)
	m["sessionId"], m["cwd"], m["version"] = w.session, w.project, w.version
	m["timestamp"] = e.At.UTC().Format("2006-01-02T15:04:05.000Z07:00")
	if e.At.IsZero() {
		m["timestamp"] = time.Unix(0, 0).UTC().Format("2006-01-02T15:04:05.000Z07:00")
	}
	m["isSidechain"], m["userType"], m["entrypoint"], m["gitBranch"] = w.agent != "", "external", "cli", ""
	if w.agent != "" {
		m["agentId"] = w.agent
	}
	w.wrote(e.ID, uuid)
	return w.put(m)
}

// reply writes one record for each block, as the client does.
func (w *writer) reply(e convert.Entry, parent string) error {
	usage := map[string]int64{"input_tokens": 0, "output_tokens": 0}
	if u := e.Usage; u != nil {
		usage = map[string]int64{"input_tokens": u.InputTokens, "output_tokens": u.OutputTokens,
			"cache_read_input_tokens": u.CacheReadTokens, "cache_creation_input_tokens": u.CacheWriteTokens}
	}
	stop := "end_turn"
	if slices.ContainsFunc(e.Blocks, func(b tidemark.Block) bool { return b.Type == tidemark.BlockToolUse }) {
		stop = "tool_use"
	}
	id := "msg_" + hashWord(w.session, w.agent, e.ID)
	n := 0
	for _, b := range e.Blocks {
		raw := rawBlock(b)
		if raw == nil || b.Type == tidemark.BlockText && b.Text == "" && b.Raw == "" {
			if b.Type == tidemark.BlockThinking {
				w.lost["thinking that another provider wrote"]++
			}
			continue
		}
		m := map[string]any{"type": "assistant", "message": map[string]any{"id": id, "type": "message", "role": "assistant", "model": e.Model,
			"content": []json.RawMessage{raw}, "stop_reason": stop, "stop_sequence": nil, "usage": usage}}
		if err := w.record(e, n, parent, m); err != nil {
			return err
		}
		parent = w.tail
		w.called([]tidemark.Block{b}, parent)
		n++
	}
	return nil
}

// results writes tool results. The provider refuses a result without its call,
// so such a result is left out.
func (w *writer) results(e convert.Entry, parent string) error {
	var blocks []tidemark.Block
	source := ""
	for _, b := range e.Blocks {
		if b.Type == tidemark.BlockToolResult {
			from := w.calls[callID(b.ToolUseID)]
			if from == "" {
				w.lost["results without their calls"]++
				continue
			}
			source = from
		}
		blocks = append(blocks, b)
	}
	if len(blocks) == 0 {
		return nil
	}
	m := map[string]any{"type": "user", "message": map[string]any{"role": "user", "content": rawBlocks(blocks)}}
	if source != "" {
		m["sourceToolAssistantUUID"] = source
	}
	return w.writeFirst(e, parent, m)
}

// compaction writes the two records with which the client starts over.
func (w *writer) compaction(e convert.Entry, parent string) error {
	if err := w.record(e, 1, "", map[string]any{"type": "system", "subtype": "compact_boundary", "content": "Conversation compacted", "level": "info",
		"isMeta": false, "logicalParentUuid": quote(parent), "compactMetadata": map[string]any{"trigger": "manual"}}); err != nil {
		return err
	}
	return w.record(e, 0, w.tail, map[string]any{"type": "user", "isCompactSummary": true, "isVisibleInTranscriptOnly": true,
		"message": map[string]any{"role": "user", "content": e.Text()}})
}

// contentFor is a string for one plain text, else a list.
func contentFor(blocks []tidemark.Block) any {
	if len(blocks) == 1 && blocks[0].Type == tidemark.BlockText && blocks[0].Raw == "" {
		return blocks[0].Text
	}
	if list := rawBlocks(blocks); len(list) > 0 {
		return list
	}
	return nil
}

// quote is a uuid as JSON, null for none.
func quote(uuid string) json.RawMessage {
	if uuid == "" {
		return json.RawMessage("null")
	}
	b, _ := json.Marshal(uuid)
	return b
}

// hashID is a UUID derived from parts.
func hashID(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte(strconv.Itoa(len(p)) + ":" + p))
	}
	b := h.Sum(nil)[:16]
	b[6] = b[6]&0x0f | 0x80
	b[8] = b[8]&0x3f | 0x80
	s := hex.EncodeToString(b)
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}

// hashWord is the same, in letters and digits only.
func hashWord(parts ...string) string { return strings.ReplaceAll(hashID(parts...), "-", "")[:24] }

// callID is an id that the provider accepts: letters, digits, dash and
// underscore.
func callID(id string) string {
	if safeName(id) == id && id != "" {
		return id
	}
	return "toolu_" + hashWord("call", id)
}

func shorten(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most])
}
