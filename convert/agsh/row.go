package agsh

import (
	"encoding/json"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// The roles of rows.
const (
	roleUser      = "user"         // plain text
	roleBlocks    = "user_blocks"  // a prompt that is more than text, as blocks
	roleAssistant = "assistant"    // blocks
	roleResults   = "tool_results" // blocks
	roleBoundary  = "compact_boundary"
	roleRepair    = "repair"
)

// summaryMark begins the text that replaces what was compacted away.
const summaryMark = "[Conversation summary from session compaction]"

// row is a message as it is stored.
type row struct {
	id, role, content, at string
}

// decode returns the entries of a row: one, or two where agsh put its own text
// before the user's. An unreadable row is an error.
func decode(w row) ([]convert.Entry, error) {
	at, raw := parseTime(w.at)
	n := note{CreatedAt: raw}
	e := convert.Entry{ID: w.id, Entry: tidemark.Entry{At: at}}
	var err error
	switch w.role {
	case roleUser:
		e.Role, e.Blocks = tidemark.User, []tidemark.Block{tidemark.Text(w.content)}
		if strings.HasPrefix(w.content, summaryMark) {
			e.Kind, e.Role = convert.KindCompaction, ""
		}
	case roleBlocks:
		e.Role = tidemark.User
		e.Blocks, err = decodeBlocks([]byte(w.content), 0)
	case roleResults:
		e.Role = tidemark.Tool
		e.Blocks, err = decodeBlocks([]byte(w.content), 0)
	case roleAssistant:
		e.Role = tidemark.Assistant
		if e.Blocks, err = decodeBlocks([]byte(w.content), 0); err != nil {
			e.Blocks, n.Plain, err = []tidemark.Block{tidemark.Text(w.content)}, true, nil
		}
	default:
		e.Kind, n.Role, n.Content = convert.KindEvent, w.role, w.content
	}
	if err != nil {
		return nil, err
	}
	if role, content := encode(e, n); role != w.role || content != w.content && !convert.SameJSON([]byte(content), []byte(w.content)) {
		n.Role, n.Content = w.role, w.content
	}
	e.Extra = n.extra()
	if e.Role == tidemark.User && n.Role == "" {
		return splitContext(e, n), nil
	}
	return []convert.Entry{e}, nil
}

// splitContext removes what agsh wraps in <context> from a prompt.
func splitContext(e convert.Entry, n note) []convert.Entry {
	if len(e.Blocks) == 0 || e.Blocks[0].Type != tidemark.BlockText || e.Blocks[0].Raw != "" {
		return []convert.Entry{e}
	}
	text := e.Blocks[0].Text
	end := strings.Index(text, "</context>\n")
	if !strings.HasPrefix(text, "<context>") || end < 0 {
		return []convert.Entry{e}
	}
	rest := strings.TrimLeft(text[end+len("</context>"):], "\n")
	if rest == "" {
		return []convert.Entry{e}
	}
	n.Joined = true
	added := convert.Entry{ID: e.ID + "c", Entry: tidemark.Entry{At: e.At, Kind: convert.KindContext, Extra: n.extra(),
		Blocks: []tidemark.Block{tidemark.Text(strings.TrimSuffix(text, rest))}}}
	e.Blocks[0].Text = rest
	return []convert.Entry{added, e}
}

// encode returns the role and the content of the row for e, as meka writes it;
// an empty role when there is no row for it.
func encode(e convert.Entry, n note) (role, content string) {
	switch {
	case n.Role != "":
		return n.Role, n.Content
	case e.Kind == convert.KindCompaction && n.Boundary != nil:
		return roleBoundary, string(encodeBoundary(e, n))
	case e.Kind == convert.KindCompaction:
		return roleUser, e.Text()
	case e.Role == tidemark.Assistant && n.Plain:
		return roleAssistant, e.Text()
	case e.Role == tidemark.Assistant:
		return roleAssistant, string(encodeBlocks(e.Blocks))
	case e.Role == tidemark.Tool, e.Role == tidemark.User && has(e.Blocks, tidemark.BlockToolResult):
		return roleResults, string(encodeBlocks(e.Blocks))
	case e.Role == tidemark.User && onlyText(e.Blocks):
		return roleUser, e.Text()
	case e.Role == tidemark.User:
		return roleBlocks, string(encodeBlocks(e.Blocks))
	}
	return "", ""
}

func has(blocks []tidemark.Block, kind string) bool {
	for _, b := range blocks {
		if b.Type == kind {
			return true
		}
	}
	return false
}

func onlyText(blocks []tidemark.Block) bool {
	for _, b := range blocks {
		if b.Type != tidemark.BlockText || b.Raw != "" {
			return false
		}
	}
	return true
}

// message is a message inside an event.
type message struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

// row returns the row that would store m.
func (m message) row(id, at string) row {
	w := row{id: id, role: roleAssistant, content: string(m.Content), at: at}
	if m.Role == roleAssistant {
		return w
	}
	blocks, err := decodeBlocks(m.Content, 0)
	switch {
	case err != nil:
		w.role = roleBlocks
	case has(blocks, tidemark.BlockToolResult):
		w.role = roleResults
	case len(blocks) == 1 && onlyText(blocks):
		w.role, w.content = roleUser, blocks[0].Text
	default:
		w.role = roleBlocks
	}
	return w
}

// messageOf returns the message in a row.
func messageOf(w row) message {
	switch w.role {
	case roleUser:
		return message{roleUser, encodeBlocks([]tidemark.Block{tidemark.Text(w.content)})}
	case roleAssistant:
		if _, err := decodeBlocks([]byte(w.content), 0); err != nil {
			return message{roleAssistant, encodeBlocks([]tidemark.Block{tidemark.Text(w.content)})}
		}
		return message{roleAssistant, json.RawMessage(w.content)}
	case roleBoundary:
		if b, err := parseBoundary(w.content); err == nil {
			return b.Summary
		}
	}
	return message{roleUser, json.RawMessage(w.content)}
}

// boundary is the event of a compaction.
type boundary struct {
	Summary       message
	ReplacedCount int
	rest          json.RawMessage // the event without its summary
}

func parseBoundary(content string) (boundary, error) {
	var b boundary
	var event struct {
		CompactBoundary map[string]json.RawMessage
	}
	if err := json.Unmarshal([]byte(content), &event); err != nil {
		return b, tidemark.Invalidf("%w", err)
	}
	fields := event.CompactBoundary
	if err := json.Unmarshal(fields["summary"], &b.Summary); err != nil {
		return b, tidemark.Invalidf("the summary of a compaction: %w", err)
	}
	if err := json.Unmarshal(fields["replaced_count"], &b.ReplacedCount); err != nil || b.ReplacedCount < 0 {
		return b, tidemark.Invalidf("a compaction does not say how much it replaces")
	}
	delete(fields, "summary")
	b.rest = marshal(fields)
	return b, nil
}

// encodeBoundary puts the summary of a compaction back into its event.
func encodeBoundary(e convert.Entry, n note) json.RawMessage {
	fields := map[string]json.RawMessage{}
	if json.Unmarshal(n.Boundary, &fields) != nil || fields == nil {
		fields = map[string]json.RawMessage{}
	}
	fields["summary"] = marshal(message{roleUser, encodeBlocks(e.Blocks)})
	return marshal(map[string]any{"CompactBoundary": fields})
}

// repair is the event that removes messages, and may put others in their place.
type repair struct {
	ReplacedCount int       `json:"replaced_count"`
	Messages      []message `json:"messages"`
}

func parseRepair(content string) (repair, error) {
	var event struct{ Repair *repair }
	if err := json.Unmarshal([]byte(content), &event); err != nil {
		return repair{}, tidemark.Invalidf("%w", err)
	}
	if event.Repair == nil || event.Repair.ReplacedCount < 0 {
		return repair{}, tidemark.Invalidf("a repair does not say what it replaces")
	}
	return *event.Repair, nil
}
