package render

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"io"
	"iter"
	"strconv"
	"strings"
	"unicode"

	"github.com/tidemark-sessions/tidemark"
)

// Markdown writes a session as a Markdown document: a title, a table of facts,
// its tree, and a section for each entry. The text of messages is kept, made
// safe as the comment of mdText says; the only HTML in the document is the
// details elements that fold thinking and context. The transcripts of workers
// follow, each under a heading of its own.
//
// Entries are written as they are read. A damaged one, whose error is
// ErrCorrupt, becomes a notice in its place; the first such error is returned
// when all is written. Any other error, of entries or of w, ends the export
// and is returned.
func Markdown(w io.Writer, d Document, entries iter.Seq2[tidemark.Entry, error]) error {
	m := &mdPage{w: buffered(w), s: wordsOr(d.Words), labels: d.Labels, level: "## ", workers: d.Workers, callers: d.callers()}
	if err := m.top(&d); err != nil {
		return err
	}
	damage := transcribe(entries, m.entry, m.damaged, m.w)
	m.labels = nil
	for _, worker := range d.Workers {
		if damage != nil && !errors.Is(damage, tidemark.ErrCorrupt) {
			return damage
		}
		m.say("## ", mdLine(m.worker(worker)), "\n\n")
		m.level = "## " + mdLine(worker.Name) + " " // headings below belong to texts
		damage = cmp.Or(damage, transcribe(worker.Entries, m.entry, m.damaged, m.w))
	}
	return damage
}

// worker is the heading of the transcript of a worker.
func (m *mdPage) worker(w Worker) string { return m.s.Worker + " " + w.Name }

// workerLink links to that heading, by the anchor that Markdown viewers give
// it.
func (m *mdPage) workerLink(w Worker) string {
	slug := strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, m.worker(w))
	return "[" + mdLine(w.Name) + "](#" + slug + ")"
}

// mdPage is a Markdown document while it is written.
type mdPage struct {
	w       *bufio.Writer
	s       *Words
	labels  map[int64]string
	level   string // the beginning of an entry's heading
	workers []Worker
	callers map[string]int
	json    []byte
}

func (m *mdPage) say(parts ...string) {
	for _, p := range parts {
		m.w.WriteString(p)
	}
}

func (m *mdPage) top(d *Document) error {
	m.say("# ", mdLine(d.title(m.s)), "\n\n")
	if facts := d.facts(m.s); len(facts) > 0 {
		m.say("| | |\n| --- | --- |\n")
		for _, f := range facts {
			m.say("| ", mdLine(f.name), " | ", mdLine(f.value), " |\n")
		}
		m.say("\n")
	}
	if len(d.Workers) > 0 {
		m.say("**", mdLine(m.s.Workers), "**\n\n")
		for _, w := range d.Workers {
			m.say("- ", m.workerLink(w), "\n")
		}
		m.say("\n")
	}
	if len(d.Tree) == 0 {
		return nil
	}
	var tree strings.Builder
	if err := Tree(&tree, d.Tree, &documentTree); err != nil {
		return err
	}
	m.say("**", mdLine(m.s.Branches), "**\n\n")
	m.fenced("", tree.String())
	return nil
}

func (m *mdPage) entry(e tidemark.Entry) {
	if e.Empty() {
		return
	}
	m.say(m.level, strconv.FormatInt(e.Seq, 10), " · ", mdLine(m.s.who(&e)))
	for _, s := range []string{clock(e.At), e.Model, m.s.cost(e.Usage), m.s.draft(&e)} {
		if s != "" {
			m.say(" · ", mdLine(s))
		}
	}
	if label := m.labels[e.Seq]; label != "" {
		m.say(" · ", mdLine("["+label+"]"))
	}
	m.say("\n\n")
	m.body(e)
}

// Markdown writes the content of an entry as Markdown, without a heading. The
// error is that of w.
func (t *Transcript) Markdown(w io.Writer, e tidemark.Entry) error {
	m := &mdPage{w: buffered(w), s: wordsOr(t.Words), level: "## "}
	m.body(e)
	return m.w.Flush()
}

// body writes what an entry is and holds.
func (m *mdPage) body(e tidemark.Entry) {
	switch e.Kind {
	case tidemark.KindBranch:
		m.say("*", mdLine(m.s.BranchFrom), " ", strconv.FormatInt(e.Parent, 10), "*\n\n")
	case tidemark.KindGap:
		m.say("*", mdLine(m.s.GapText), "*\n\n")
	}
	if e.Context() {
		m.folded(e.Blocks)
		return
	}
	for i, b := range e.Blocks {
		if said, context := tidemark.Spoken(b.Text); e.Role == tidemark.User && b.Type == tidemark.BlockText && len(context) > 0 {
			m.text(said)
			for _, c := range context {
				m.folded([]tidemark.Block{tidemark.Text(c)})
			}
			continue
		}
		m.block(&e.Blocks[i])
	}
}

// folded writes context added by a tool so that it is folded. The line
// before it is HTML, so it contains no foreign text.
func (m *mdPage) folded(blocks []tidemark.Block) {
	m.say("<details><summary>", mdLine(m.s.Context))
	if element, _ := tidemark.Gist(blocks[0].Text); element != "" {
		m.say(" · ", element) // one of a few known names
	}
	m.say(" · ", size(sizeOf(blocks)), "</summary>\n\n")
	for i := range blocks {
		if b := &blocks[i]; b.Type == tidemark.BlockText {
			m.fenced("", b.Text) // it is not prose, and full of tags
		} else {
			m.block(b)
		}
	}
	m.say("</details>\n\n")
}

func (m *mdPage) damaged(e tidemark.Entry, err error) {
	m.say(m.level, strconv.FormatInt(e.Seq, 10), " · ", mdLine(m.s.Damaged), "\n\n> ", mdLine(m.s.DamagedText), " ", mdLine(err.Error()), "\n\n")
}

func (m *mdPage) block(b *tidemark.Block) {
	switch b.Type {
	case tidemark.BlockText:
		m.text(b.Text)
	case tidemark.BlockThinking:
		if b.Text == "" {
			m.say("*", mdLine(m.s.sealedThinking(b)), "*\n\n")
			return
		}
		m.say("<details><summary>", mdLine(m.s.Thinking), "</summary>\n\n")
		m.text(b.Text)
		m.say("</details>\n\n")
	case tidemark.BlockToolUse:
		m.named(m.s.ToolCall, or(b.Name, m.s.Unnamed))
		m.json = appendJSON(m.json[:0], b.Input)
		m.fenced("json", string(m.json))
		if i, ok := m.callers[b.ID]; ok && b.ID != "" {
			m.say("*", mdLine(m.s.Worker), "* ", m.workerLink(m.workers[i]), "\n\n")
		}
	case tidemark.BlockToolResult:
		m.result(b)
	default:
		m.say("*", mdLine(m.s.about(b)))
		if b.URL != "" {
			m.say(" · ", mdLine(m.s.KeptElsewhere), " ", mdLine(b.URL))
		}
		m.say("*\n\n")
		if b.Text != "" {
			m.fenced("", b.Text)
		}
	}
}

func (m *mdPage) result(b *tidemark.Block) {
	name := m.s.ToolResult
	if b.IsError {
		name = m.s.ToolError
	}
	m.named(name, b.ToolUseID)
	switch {
	case b.Text != "":
		m.fenced("", b.Text)
	case len(b.Blocks) == 0:
		m.say("*", mdLine(m.s.Nothing), "*\n\n")
	}
	for i := range b.Blocks {
		if inner := &b.Blocks[i]; inner.Type == tidemark.BlockText {
			m.fenced("", inner.Text) // tool output is data
		} else {
			m.block(inner)
		}
	}
}

func (m *mdPage) named(what, name string) {
	m.say("**", mdLine(what), "**")
	if name != "" {
		m.say(" ", mdLine(name))
	}
	m.say("\n\n")
}

func (m *mdPage) text(s string) {
	t := mdText{w: m.w}
	t.text(s)
	m.say("\n")
}

// fenced writes s as a code block with a fence longer than any within it.
func (m *mdPage) fenced(language, s string) {
	s = strings.TrimSuffix(Clean(s), "\n")
	longest := 2
	for rest := s; ; {
		i := strings.IndexByte(rest, '`')
		if i < 0 {
			break
		}
		n := run(rest[i:])
		longest = max(longest, n)
		rest = rest[i+n:]
	}
	fence := bytes.Repeat([]byte{'`'}, longest+1)
	m.w.Write(fence)
	m.say(language, "\n", s, "\n")
	m.w.Write(fence)
	m.say("\n\n")
}
