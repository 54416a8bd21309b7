package render

import (
	"bufio"
	"encoding/json"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark-sessions/tidemark"
)

// Body writes the content of an entry alone, without an article and its head:
// for pages that group entries themselves. The error is that of w.
func (t *Transcript) Body(w io.Writer, e tidemark.Entry) error {
	h := newPage(bufio.NewWriter(w), t)
	h.body(e)
	return h.w.Flush()
}

// CallInput writes what a tool is called with, but for what Argument says whole.
// The error is that of w.
func (t *Transcript) CallInput(w io.Writer, call tidemark.Block) error {
	h := newPage(bufio.NewWriter(w), t)
	input, ok := members(call.Input)
	if told := Argument(call); ok && told != "" && len(changesOf(call, input)) == 0 && KindOfTool(call.Name) != PlanTool {
		if rest := slices.DeleteFunc(slices.Clone(input), func(m member) bool { return field([]member{m}, []string{m.name}) == told }); len(rest) > 0 {
			h.members(rest)
		}
	} else {
		h.input(&call)
	}
	return h.w.Flush()
}

// CallResult writes what a tool answered to a call. Where the call is not known,
// it is the zero Block. The error is that of w.
func (t *Transcript) CallResult(w io.Writer, call, result tidemark.Block) error {
	if repeatsPlan(call, result) {
		return nil // it is on the page, as a list
	}
	h := newPage(bufio.NewWriter(w), t)
	h.remember(&call)
	h.output(&result, 0)
	return h.w.Flush()
}

// usedTool is what has to be known of a call to show its result.
type usedTool struct {
	kind  ToolKind
	file  string
	first int // the number of the first line that is read
}

// remember keeps what the result of a call needs.
func (h *htmlPage) remember(call *tidemark.Block) {
	kind := KindOfTool(call.Name)
	if call.ID == "" || kind != ReadTool && kind != ShellTool {
		return
	}
	input, _ := members(call.Input)
	t := usedTool{kind: kind, file: field(input, pathNames), first: 1}
	for _, m := range input {
		if n, err := strconv.Atoi(string(m.value)); err == nil && n > 0 && (m.name == "offset" || m.name == "start_line" || m.name == "startLine") {
			t.first = n
		}
	}
	if h.used == nil {
		h.used = make(map[string]usedTool)
	}
	h.used[call.ID] = t
}

// input writes what a tool is called with: a change as a diff, a plan as a list,
// anything else by its fields.
func (h *htmlPage) input(b *tidemark.Block) {
	input, ok := members(b.Input)
	if changes := changesOf(*b, input); len(changes) > 0 {
		for _, c := range changes {
			h.diff(c)
		}
		h.rawInput(b)
		return
	}
	if tasks := tasksOf(input); len(tasks) > 0 && KindOfTool(b.Name) == PlanTool {
		h.tasks(tasks)
		h.rawInput(b)
		return
	}
	switch {
	case ok:
		h.members(input)
	case len(b.Input) > 0:
		if s, is := jsonString(b.Input); is {
			h.pre(s)
		} else {
			h.jsonBlock(b.Input)
		}
	}
}

// rawInput is the input as it was sent, folded, below what was made of it.
func (h *htmlPage) rawInput(b *tidemark.Block) {
	h.mix("<details><summary>", h.s.Input, "</summary>\n")
	h.jsonBlock(b.Input)
	h.say("</details>\n")
}

// diff shows a change line by line. The signs in front say what the colours say.
// Lines that are removed and those that take their place are a pair, which a wide
// page shows side by side.
func (h *htmlPage) diff(c fileDiff) {
	h.say(`<pre class="diff" tabindex="0">`)
	if c.path != "" {
		h.mix(`<span class="file">`, c.path, "\n</span>")
	}
	for i := 0; i < len(c.lines); {
		kind := c.lines[i].Kind
		old := alike(c.lines[i:], RemovedLine)
		now := alike(c.lines[i+old:], AddedLine)
		switch {
		case old > 0 && now > 0:
			h.say(`<span class="pair">`)
			h.diffLines(`<del>`, "- ", c.lines[i:i+old], "</del>")
			h.diffLines(`<ins>`, "+ ", c.lines[i+old:i+old+now], "</ins>")
			h.say("</span>")
			i += old + now
		case old > 0:
			h.diffLines(`<del>`, "- ", c.lines[i:i+old], "</del>")
			i += old
		case now > 0:
			h.diffLines(`<ins>`, "+ ", c.lines[i:i+now], "</ins>")
			i += now
		default:
			n := alike(c.lines[i:], kind)
			if kind == MarkerLine {
				h.diffLines(`<span class="quiet">`, "  ", c.lines[i:i+n], "</span>")
			} else {
				h.diffLines("", "  ", c.lines[i:i+n], "")
			}
			i += n
		}
	}
	h.say("</pre>\n")
}

// alike is how many lines of a kind are at the front.
func alike(lines []DiffLine, kind LineKind) int {
	n := 0
	for n < len(lines) && lines[n].Kind == kind {
		n++
	}
	return n
}

func (h *htmlPage) diffLines(before, sign string, lines []DiffLine, after string) {
	h.say(before)
	for _, line := range lines {
		h.say(sign)
		escape(h.w, line.Text)
		h.say("\n")
	}
	h.say(after)
}

// tasks shows the steps of a plan with a box each.
func (h *htmlPage) tasks(all []task) {
	h.say("<ul class=\"tasks\">\n")
	for _, t := range all {
		box := "☐"
		switch {
		case t.done():
			box = "☑"
		case strings.HasPrefix(t.status, "in"):
			box = "▶"
		}
		h.mix("<li>"+box+" <bdi>", t.text, "</bdi>")
		if t.status != "" {
			h.mix(` <span class="quiet">`, strings.ReplaceAll(t.status, "_", " "), "</span>")
		}
		h.say("</li>\n")
	}
	h.say("</ul>\n")
}

// output writes what a tool answered. Results may contain results; below
// maxIndent levels they are not nested further.
func (h *htmlPage) output(b *tidemark.Block, depth int) {
	used := h.used[b.ToolUseID]
	switch {
	case b.Text != "":
		h.told(used, b.Text)
	case len(b.Blocks) == 0:
		h.note(h.s.Nothing)
	}
	for i := range b.Blocks {
		if inner := &b.Blocks[i]; inner.Type == tidemark.BlockText {
			h.told(used, inner.Text) // tool output is data
		} else {
			h.block(inner, depth+1)
		}
	}
}

// told writes the text of a tool: a file with its numbers, the colours of a
// terminal, JSON in lines.
func (h *htmlPage) told(used usedTool, text string) {
	if used.kind == ShellTool {
		text = unwrapped(text)
	}
	trimmed := strings.TrimSpace(text)
	switch {
	case used.kind == ReadTool:
		h.numbered(used, text)
	case strings.Contains(text, "\x1b["):
		h.say(`<pre tabindex="0">`)
		h.terminal(text)
		h.say("</pre>\n")
	case len(trimmed) > 1 && (trimmed[0] == '{' || trimmed[0] == '[') && json.Valid([]byte(trimmed)):
		h.jsonBlock([]byte(trimmed))
	case isPatch(trimmed):
		h.source("diff", text)
	default:
		h.pre(text)
	}
}

// unwrapped returns what a program put out, where a client keeps it in JSON with
// what it knows about it. The rest follows it.
func unwrapped(text string) string {
	trimmed := strings.TrimSpace(text)
	if !strings.HasPrefix(trimmed, "{") && !strings.HasPrefix(trimmed, "[") {
		return text
	}
	if all, ok := members([]byte(trimmed)); ok {
		out := ""
		var rest []string
		found := false
		for _, m := range all {
			if s, is := jsonString(m.value); is && m.name == "output" {
				out, found = s, true
				continue
			}
			rest = append(rest, m.name+": "+string(m.value))
		}
		if found {
			if out != "" && !strings.HasSuffix(out, "\n") && len(rest) > 0 {
				out += "\n"
			}
			return out + strings.Join(rest, "\n")
		}
	}
	return text
}

// numbered writes a file that was read: its lines with their numbers, which are
// beside the text and not in it, so that a copy has the text alone.
func (h *htmlPage) numbered(used usedTool, text string) {
	before, numbers, lines, after := fileLines(text)
	if len(numbers) == 0 {
		lines = strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		before, after = "", ""
		if len(lines) < 2 {
			h.pre(text) // a word about the file, not the file
			return
		}
		for i := range lines {
			numbers = append(numbers, used.first+i)
		}
	}
	if before != "" {
		h.pre(before)
	}
	h.say(`<div class="numbered"><pre aria-hidden="true">`)
	for _, n := range numbers {
		h.say(strconv.Itoa(n), "\n")
	}
	h.say(`</pre>`)
	h.source(languageOf(used.file), strings.Join(lines, "\n"))
	h.say("</div>\n")
	if after != "" {
		h.pre(after)
	}
}

// fileLines finds the lines with numbers in what a tool said about a file, and
// what it said before and after them. There are none unless the numbers follow
// each other.
func fileLines(text string) (before string, numbers []int, lines []string, after string) {
	rest := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	first := 0
	for first < len(rest) && first < 8 {
		if _, _, ok := numberedLine(rest[first]); ok {
			break
		}
		first++
	}
	end := first
	for ; end < len(rest); end++ {
		n, line, ok := numberedLine(rest[end])
		if !ok || len(numbers) > 0 && n != numbers[len(numbers)-1]+1 {
			break
		}
		numbers, lines = append(numbers, n), append(lines, line)
	}
	if len(numbers) < 2 && len(rest) > 1 {
		return "", nil, nil, ""
	}
	return strings.Join(rest[:first], "\n"), numbers, lines, strings.TrimSpace(strings.Join(rest[end:], "\n"))
}

// numberedLine splits a line as tools number them: 12, a tab, an arrow, a bar or
// a colon, and the text.
func numberedLine(s string) (n int, line string, ok bool) {
	s = strings.TrimLeft(s, " ")
	digits := 0
	for digits < len(s) && digits < 8 && '0' <= s[digits] && s[digits] <= '9' {
		digits++
	}
	if digits == 0 {
		return 0, "", false
	}
	n, _ = strconv.Atoi(s[:digits])
	for _, sign := range []string{"\t", "→", "| ", "|", ": "} {
		if line, ok = strings.CutPrefix(s[digits:], sign); ok {
			return n, line, true
		}
	}
	return n, "", s[digits:] == ":"
}
