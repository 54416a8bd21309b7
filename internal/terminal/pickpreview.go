package terminal

import (
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark/internal/text"
)

// look draws the preview: facts about the session, and below them the end of
// its conversation. It returns as many lines as the preview is high.
func (m *picker) look(l layout) []string {
	lines := make([]string, 0, l.lookRows)
	if r := m.selected(); r != nil {
		lines = m.facts(r, l)
		said, have := m.previews[r.ID]
		if have {
			lines = append(lines, m.tail(said, l.lookWidth, l.lookRows-len(lines))...)
		}
	}
	lines = lines[:min(len(lines), l.lookRows)]
	for len(lines) < l.lookRows {
		lines = append(lines, "")
	}
	return lines
}

// facts are a few lines about a session, at most half of the preview.
func (m *picker) facts(r *pickRow, l layout) []string {
	title := r.Title
	if title == "" {
		title = "untitled"
	}
	cut := func(s string) string { return m.o.Text.truncate(m.clean(s), l.lookWidth) }
	lines := []string{m.as(bold, cut(title))}
	about := []string{shortID(r.ID)}
	for _, word := range [...]string{r.Agent, r.Model, r.Project} {
		if word != "" {
			about = append(about, word)
		}
	}
	if r.Live {
		about = append(about, "live")
	}
	lines = append(lines, m.as(dim, cut(strings.Join(about, " · "))))
	if r.ForkOf.ID != "" {
		lines = append(lines, m.as(dim, cut("⑂ fork of "+m.forkTitle(r)+" ("+shortID(r.ForkOf.ID)+")")))
	}
	if len(r.Tags) > 0 {
		lines = append(lines, m.as(dim, cut("#"+strings.Join(r.Tags, " #"))))
	}
	if r.Snippet != "" {
		for _, part := range m.wrap(r.Snippet, l.lookWidth) {
			lines = append(lines, m.highlight(m.as, part))
		}
	}
	lines = lines[:min(len(lines), max(l.lookRows/2, 1))]
	return append(lines, "")
}

// tail wraps lines and returns the last n of the result. It works from the
// end, so that a long preview costs no more than its visible part.
func (m *picker) tail(said []PreviewLine, width, n int) []string {
	var lines []string
	for i := len(said) - 1; i >= 0 && len(lines) < n; i-- {
		parts := m.wrap(said[i].Text, width)
		for j, part := range slices.Backward(parts) {
			if said[i].Head {
				parts[j] = m.as(accent, part)
			} else {
				parts[j] = m.highlight(m.as, part)
			}
		}
		slices.Reverse(parts)
		lines = append(lines, parts...)
	}
	lines = lines[:min(len(lines), max(n, 0))]
	slices.Reverse(lines)
	return lines
}

// wrap cleans a text and breaks it into lines of at most width columns, at
// spaces where possible, and at newlines.
func (m *picker) wrap(said string, width int) []string {
	var lines []string
	said = strings.ReplaceAll(text.Clip(said, maxText), "\t", "    ")
	for part := range strings.SplitSeq(said, "\n") {
		part = m.clean(strings.TrimSuffix(part, "\r"))
		for {
			head := m.o.Text.truncate(part, width)
			if head == part || width < 2 {
				lines = append(lines, head)
				break
			}
			head = strings.TrimSuffix(head, "…")
			if at := strings.LastIndexByte(head, ' '); at > len(head)/2 {
				head = head[:at]
			}
			if head == "" {
				break // a character wider than the screen
			}
			lines = append(lines, head)
			part = strings.TrimLeft(part[len(head):], " ")
		}
	}
	return lines
}
