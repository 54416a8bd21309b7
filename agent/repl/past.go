package repl

import (
	"fmt"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/render"
)

// past shows entries of before as they looked when they were new, so that a resumed
// conversation reads like one that was never left.
type past struct {
	*screen
	calls map[string]*running // without a result so far
}

// show shows one entry.
func (p *past) show(e tidemark.Entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e.Context() {
		return // it was not seen then, either
	}
	if e.Kind == tidemark.KindCompaction {
		p.folded("≡ a summary of what was before", e.Said())
		return
	}
	for _, b := range e.Blocks {
		switch b.Type {
		case tidemark.BlockText:
			if e.Role == tidemark.User {
				p.typed(b.Text)
				break
			}
			text := render.NewTerminal(p.body, &render.TerminalOptions{Columns: p.width(), Color: p.Color})
			text.WriteString(b.Text)
			text.Flush()
		case tidemark.BlockToolUse:
			p.calls[b.ID] = &running{Call: chat.Call{ID: b.ID, Tool: b.Name, Input: b.Input}, diff: render.DiffOf(b)}
		case tidemark.BlockToolResult:
			// How long it took is not known: somebody may have been asked first.
			if p.running = p.calls[b.ToolUseID]; p.running != nil {
				p.running.began = time.Now()
			}
			p.result(b)
		case tidemark.BlockImage, tidemark.BlockFile:
			p.dim(fmt.Sprintf("[%s]", b.Type))
		}
	}
}

// typed shows what the person said.
func (p *past) typed(text string) {
	p.flush()
	rows := make([]string, 0, 4)
	for line := range strings.SplitSeq(prompt+render.Clean(text), "\n") {
		rows = append(rows, p.wrapped(line))
	}
	fmt.Fprintln(p.body, p.style("1", prompt)+strings.TrimPrefix(strings.Join(rows, "\n"), prompt))
}

// folded shows a title that Ctrl-O unfolds.
func (p *past) folded(title, text string) {
	f := folded{title: title, rows: textRows(text)}
	f.about = " (" + plural(len(f.rows), "line") + ", Ctrl-O shows all)"
	p.keepFolded(f)
	p.dim(f.title + f.about)
}
