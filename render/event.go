package render

import (
	"cmp"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// Event is an event of a job as one or more lines, made harmless, with the time
// of day.
func Event(e tidemark.Event) string {
	text := cmp.Or(e.Content, e.Subtype)
	switch e.Type {
	case tidemark.EventToolUse:
		text = "▸ " + Call(e.ToolName, e.Input)
	case tidemark.EventToolResult:
		text = "  " + Phrase(JSONText(e.Result))
		if e.Error != "" {
			text = "  ✗ " + Phrase(e.Error)
		}
	case tidemark.EventError:
		text = "error: " + e.Message
	}
	return e.Timestamp.Local().Format(time.TimeOnly) + " " + Clean(text)
}
