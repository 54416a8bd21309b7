package render

import (
	"encoding/base64"
	"strings"

	"github.com/tidemark-sessions/tidemark"
)

// pictures are the image types that a page shows: those that contain only
// pixels. An SVG is a document.
var pictures = map[string]bool{"image/png": true, "image/jpeg": true, "image/gif": true, "image/webp": true}

// hintColumns is how much of a folded tool call or result is shown.
const hintColumns = 72

// block writes one block. Results may contain results; below maxIndent
// levels they are not nested further.
func (h *htmlPage) block(b *tidemark.Block, depth int) {
	switch b.Type {
	case tidemark.BlockText:
		h.say("<div class=\"text\">\n")
		h.md.text(b.Text)
		h.say("</div>\n")
	case tidemark.BlockThinking:
		if b.Text == "" {
			h.note(h.s.sealedThinking(b))
			return
		}
		h.mix(`<details class="thinking"><summary>`, h.s.Thinking, "</summary>\n<div class=\"text\">\n")
		h.md.text(b.Text)
		h.say("</div>\n</details>\n")
	case tidemark.BlockToolUse:
		h.toolUse(b)
	case tidemark.BlockToolResult:
		h.toolResult(b, depth)
	case tidemark.BlockImage:
		h.image(b)
	default:
		h.other(b)
	}
}

func (h *htmlPage) note(s string) {
	h.mix(`<p class="note"><bdi>`, s, "</bdi></p>\n")
}

// summary writes the line shown for a folded block.
func (h *htmlPage) summary(what, name, hint string) {
	h.mix("<summary>", what, "")
	if name != "" {
		h.mix(" <code><bdi>", name, "</bdi></code>")
	}
	if hint != "" {
		h.mix(` <span class="hint"><bdi>`, hint, "</bdi></span>")
	}
	h.say("</summary>\n")
}

// hint returns the first line of s that is not blank, cut.
func hint(s string) string {
	s = strings.TrimLeft(s, " \t\r\n")
	line, _, _ := strings.Cut(s, "\n")
	line = Truncate(strings.TrimRight(line, " \t\r"), hintColumns) // cut first, so that a line of megabytes costs nothing
	return Truncate(CleanLine(strings.ReplaceAll(line, "\t", " ")), hintColumns)
}

func (h *htmlPage) toolUse(b *tidemark.Block) {
	h.say(`<details class="tool">`)
	h.summary(h.s.ToolCall, or(b.Name, h.s.Unnamed), Argument(*b))
	h.input(b)
	h.remember(b)
	h.say("</details>\n")
	if i, ok := h.callers[b.ID]; ok && b.ID != "" {
		h.mix(`<p class="note">`, h.s.Worker, ` <a href="#`+workerID(i)+`">#`+workerID(i)+"</a></p>\n")
	}
}

// members writes a tool's input one value at a time: text without the quotes
// and escapes of JSON, and the rest as JSON.
func (h *htmlPage) members(all []member) {
	h.say("<dl class=\"input\">\n")
	for _, m := range all {
		h.mix("<dt><bdi>", m.name, "</bdi></dt><dd>")
		if s, ok := jsonString(m.value); ok {
			h.pre(s)
		} else {
			h.jsonBlock(m.value)
		}
		h.say("</dd>\n")
	}
	h.say("</dl>\n")
}

func (h *htmlPage) jsonBlock(raw []byte) {
	h.json = appendJSON(h.json[:0], raw)
	h.source("json", string(h.json))
}

// pre writes foreign text of several lines unchanged.
func (h *htmlPage) pre(s string) { h.source("", s) }

// source is pre for text in a language, "" for none.
func (h *htmlPage) source(language, s string) {
	s = Clean(s)
	h.say(`<pre tabindex="0">`)
	if strings.HasPrefix(s, "\n") {
		h.say("\n") // HTML drops one newline here
	}
	highlight(h.w, language, s)
	h.say("</pre>\n")
}

func (h *htmlPage) toolResult(b *tidemark.Block, depth int) {
	class, what := "result", h.s.ToolResult
	if b.IsError {
		class, what = "result failed", "✗ "+h.s.ToolError
	}
	told := b.Text
	if told == "" && len(b.Blocks) > 0 {
		told = b.Blocks[0].Text
	}
	h.say(`<details class="`, class, `">`)
	h.summary(what, "", hint(told))
	if depth >= maxIndent {
		h.say("</details>\n")
	}
	h.output(b, depth)
	if depth < maxIndent {
		h.say("</details>\n")
	}
}

func (h *htmlPage) image(b *tidemark.Block) {
	media := strings.ToLower(b.MediaType)
	if len(b.Data) == 0 || !pictures[media] {
		h.other(b)
		return
	}
	h.mix(`<figure><img loading="lazy" alt="`, or(b.Name, h.s.Image), `" src="data:`+media+";base64,")
	to := base64.NewEncoder(base64.StdEncoding, h.w)
	_, _ = to.Write(b.Data) // h.w keeps its error
	_ = to.Close()
	h.mix("\">\n<figcaption><bdi>", h.s.about(b), "</bdi></figcaption></figure>\n")
	if b.Text != "" {
		h.pre(b.Text)
	}
}

// other writes what is known of a block that a page cannot show.
func (h *htmlPage) other(b *tidemark.Block) {
	h.mix(`<p class="note"><bdi>`, h.s.about(b), "</bdi>")
	if b.URL != "" {
		h.mix(" · ", h.s.KeptElsewhere, " ")
		h.md.address([]byte(CleanLine(b.URL)), false)
	}
	h.say("</p>\n")
	if b.Text != "" {
		h.pre(b.Text)
	}
}
