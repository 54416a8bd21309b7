package terminal

import (
	"strings"
	"time"
	"unicode/utf8"
)

const (
	// maxText bounds how much of a text is processed to draw it: more than a
	// wide screen holds, and little enough to clean within a frame.
	maxText = 2000
	// maxIndent keeps long chains of forks on the screen.
	maxIndent = 4
	// forkRoom is how many columns the title of a source needs to be useful.
	forkRoom = 22
)

// row draws one session in exactly width columns.
func (m *picker) row(i, width int, c cellWidths) string {
	r, current := m.list.at(i), i == m.cursor
	look := m.as
	if current {
		// The whole line is reversed, so nothing in it has a style of its own.
		look = func(_, text string) string { return text }
	}
	mark := "  "
	if current {
		mark = "> "
	}
	flex := width - len(mark) - c.total()
	var b strings.Builder
	b.WriteString(mark)
	used := m.names(&b, look, i, flex)
	b.WriteString(strings.Repeat(" ", max(flex-used, 0)))
	b.WriteString(look(dim, m.cells(&r.Item, c)))
	if !current {
		return b.String()
	}
	return m.as(reversed, b.String())
}

// names writes what distinguishes a session from others, in at most room
// columns, and returns how many it took.
func (m *picker) names(b *strings.Builder, look func(look, text string) string, i, room int) int {
	r := m.list.at(i)
	used := 0
	put := func(style, text string, limit int) {
		text = m.o.Text.truncate(text, min(limit, room-used))
		used += m.o.Text.Width(text)
		if style == matched {
			b.WriteString(m.highlight(look, text))
			return
		}
		b.WriteString(look(style, text))
	}
	indent := m.list.indent(i, maxIndent)
	byContent := i >= len(m.list.hits)
	title := m.clean(r.Title)
	if title == "" {
		title = "untitled"
	}
	named := indent == 0 && !byContent && m.o.Text.Width(title)+forkRoom <= room
	switch {
	case indent > 0:
		put(dim, strings.Repeat("  ", indent-1)+"└ ⑂ ", room)
	case r.ForkOf.ID != "" && !named:
		put(dim, "⑂ ", room)
	}
	if r.Live {
		put(alive, "● ", room)
	}
	switch {
	case byContent && r.Snippet != "":
		put(matched, title, max(room*2/5, 12))
		put(dim, "  ", room)
		put(matched, m.clean(r.Snippet), room)
	case r.ForkOf.ID != "" && named:
		put(matched, title, room)
		put(dim, "  ⑂ fork of "+m.clean(m.forkTitle(r)), room)
	default:
		put(matched, title, room)
	}
	for _, tag := range r.Tags {
		if room-used < 6 {
			break
		}
		put(dim, "  #"+m.clean(tag), room)
	}
	return used
}

// forkTitle is the title of the source of a fork: its current title, if that
// session is listed.
func (m *picker) forkTitle(r *pickRow) string {
	if at, ok := m.list.byID[r.ForkOf.ID]; ok && m.list.rows[at].Title != "" {
		return m.list.rows[at].Title
	}
	if r.ForkOf.Title != "" {
		return r.ForkOf.Title
	}
	return shortID(r.ForkOf.ID)
}

// cells draws the columns after the names.
func (m *picker) cells(it *Item, c cellWidths) string {
	var b strings.Builder
	cell := func(text string, width int) {
		if width > 0 {
			b.WriteString("  " + m.fit(text, width))
		}
	}
	right := func(text string, width int) {
		cell(strings.Repeat(" ", max(width-len(text), 0))+text, width)
	}
	cell(m.clean(it.Agent), c.agent)
	cell(m.clean(lastName(it.Project)), c.project)
	cell(m.clean(shortID(it.ID)), c.id)
	right(short(it.Messages), c.messages)
	right(age(m.o.Now(), it.UpdatedAt), c.age)
	return b.String()
}

// shortID is the part of an id that people type.
func shortID(id string) string { return id[:min(len(id), 8)] }

// lastName is the last element of a path of any operating system.
func lastName(path string) string {
	trimmed := strings.TrimRight(path, `/\`)
	if name := trimmed[strings.LastIndexAny(trimmed, `/\`)+1:]; name != "" {
		return name
	}
	return path
}

// age formats how long ago something was, in at most four columns.
func age(now, then time.Time) string {
	if then.IsZero() {
		return "-"
	}
	const day = 24 * time.Hour
	d := now.Sub(then)
	unit := func(n time.Duration, name string) string { return short(int64(d/n)) + name }
	switch {
	case d < time.Minute:
		return "now"
	case d < time.Hour:
		return unit(time.Minute, "m")
	case d < day:
		return unit(time.Hour, "h")
	case d < 60*day:
		return unit(day, "d")
	case d < 365*day:
		return unit(30*day, "mo")
	}
	return unit(365*day, "y")
}

// highlight styles the parts of clean text that match the filter.
func (m *picker) highlight(look func(look, text string) string, text string) string {
	if len(m.list.terms) == 0 {
		return text
	}
	hit := matches(text, m.list.terms)
	if hit == nil {
		return text
	}
	var b strings.Builder
	from, at, on := 0, 0, false
	flush := func(to int) {
		if on {
			b.WriteString(look(matched, text[from:to]))
		} else {
			b.WriteString(text[from:to])
		}
		from = to
	}
	for i := range text {
		if hit[at] != on {
			flush(i)
			on = hit[at]
		}
		at++
	}
	flush(len(text))
	return b.String()
}

// matches reports for every character of text whether it is part of a term,
// or returns nil if none is.
func matches(text string, terms []string) []bool {
	var hit []bool
	folded := fold(text)
	for _, term := range terms {
		for at := 0; ; {
			n := strings.Index(folded[at:], term)
			if n < 0 {
				break
			}
			if hit == nil {
				hit = make([]bool, utf8.RuneCountInString(folded))
			}
			first := utf8.RuneCountInString(folded[:at+n])
			for i := range utf8.RuneCountInString(term) {
				hit[first+i] = true
			}
			at += n + len(term)
		}
	}
	return hit
}
