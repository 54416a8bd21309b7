package pages

import (
	"context"
	"encoding/json"
	"errors"
	"html/template"
	"iter"
	"net/http"
	"strconv"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/internal/text"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/server/pages/web"
)

const (
	// shownEvents bounds those of one part of an output.
	shownEvents = 200
	// shownBytes bounds the text of one event on a page; the API has all of it.
	shownBytes = 16 << 10
)

// outputPart is the newest part of an output, or with ?before= the part before
// that event. raw is where the API serves a complete event.
func outputPart(r *http.Request, read func(context.Context, string, ...tidemark.Span) iter.Seq2[fleet.Numbered, error], of string, length int64, raw, path string) (web.OutputPart, error) {
	part := web.OutputPart{Events: []web.EventItem{}, Length: length, Newest: true, Raw: raw, Path: path, Last: length}
	if text := r.URL.Query().Get("before"); text != "" {
		before, err := strconv.ParseInt(text, 10, 64)
		if err != nil || before < 1 {
			return part, tidemark.Invalidf("before: want a number above 0")
		}
		if before <= length {
			part.Last, part.Newest = before-1, false
		}
	}
	if part.Last == 0 {
		return part, nil // a span up to 0 would mean the newest
	}
	for n, err := range read(r.Context(), of, tidemark.Span{To: part.Last, Newest: shownEvents}) {
		e, err := eventItem(n, err, raw)
		if err != nil {
			return part, err
		}
		part.Events = append(part.Events, e)
	}
	if len(part.Events) > 0 {
		part.First = part.Events[0].Seq
	}
	return part, nil
}

// eventItem is an event as a page shows it: text stays text, whatever is in it,
// and tool calls and results are folded by the renderer of transcripts.
func eventItem(n fleet.Numbered, err error, raw string) (web.EventItem, error) {
	if errors.Is(err, tidemark.ErrCorrupt) {
		return web.EventItem{Seq: n.Seq, Type: "damaged", At: n.Timestamp}, nil
	}
	e := web.EventItem{Seq: n.Seq, Type: n.Type, Kind: render.CleanLine(n.Subtype), At: n.Timestamp}
	if err != nil {
		return e, err
	}
	e.Raw = raw + "?offset=" + strconv.FormatInt(n.Seq-1, 10) + "&limit=1"
	switch n.Type {
	case tidemark.EventToolUse, tidemark.EventToolResult:
		e.HTML, err = toolHTML(n)
		return e, err
	case tidemark.EventError:
		e.Text, e.Kind, e.More = n.Message, render.CleanLine(n.Code), n.Stack
	default:
		e.Text = n.Content
		if e.Text == "" && len(n.Extra) > 0 {
			e.More = string(n.Extra)
		}
	}
	for _, shown := range []*string{&e.Text, &e.More} {
		if len(*shown) > shownBytes {
			e.Cut, e.Bytes = true, max(e.Bytes, len(*shown))
			*shown = text.Clip(*shown, shownBytes)
		}
		*shown = render.Clean(*shown)
	}
	return e, nil
}

// toolHTML is the input or the result of a tool.
func toolHTML(n fleet.Numbered) (template.HTML, error) {
	b := tidemark.Block{Type: tidemark.BlockToolUse, ID: n.ToolUseID, Name: n.ToolName, Input: clipJSON(n.Input)}
	if n.Type == tidemark.EventToolResult {
		b = tidemark.Block{Type: tidemark.BlockToolResult, ToolUseID: n.ToolUseID, IsError: n.Success != nil && !*n.Success || n.Error != ""}
		var result string
		if len(n.Result) > 0 && json.Unmarshal(n.Result, &result) != nil {
			result = string(n.Result)
		}
		if n.Error != "" && result != "" {
			result = n.Error + "\n" + result
		} else if result == "" {
			result = n.Error
		}
		b.Text = text.Clip(result, shownBytes)
	}
	var out strings.Builder
	var t render.Transcript
	err := t.Entry(&out, tidemark.Entry{Seq: n.Seq, At: n.Timestamp, Kind: tidemark.KindMessage, Role: tidemark.Tool, Blocks: []tidemark.Block{b}})
	return template.HTML(out.String()), err
}

// clipJSON is an input unchanged, or the beginning of a large one as a text.
func clipJSON(raw json.RawMessage) json.RawMessage {
	if len(raw) <= shownBytes {
		return raw
	}
	beginning, err := json.Marshal(text.Clip(string(raw), shownBytes))
	if err != nil {
		return nil
	}
	return beginning
}
