package terminal

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tidemark-sessions/tidemark/internal/text"
)

// Styles use attributes and the first colours, which every theme keeps
// readable.
const (
	bold     = "1"
	dim      = "2"
	reversed = "7"
	accent   = "36"
	alive    = "32"
	matched  = "1;33"
	warning  = "33"
)

// as gives clean text a style.
func (m *picker) as(look, text string) string {
	if m.o.Plain || text == "" {
		return text
	}
	return "\x1b[" + look + "m" + text + "\x1b[m"
}

// clean is the only way from a source to the screen.
func (m *picker) clean(s string) string { return m.o.Text.Clean(text.Clip(s, maxText)) }

// fit makes text exactly width columns wide.
func (m *picker) fit(text string, width int) string {
	text = m.o.Text.truncate(text, width)
	return text + strings.Repeat(" ", max(width-m.o.Text.Width(text), 0))
}

// picture is a whole screen: its rows, and the position of the cursor if it is
// visible.
type picture struct {
	rows    []string
	cursor  bool
	x, y    int
	columns int // of the screen it was drawn for
}

// view draws the whole screen.
func (m *picker) view() picture {
	v := picture{columns: m.width}
	if m.width < 1 || m.height < 1 {
		return v
	}
	if m.width < minWidth || m.height < minHeight {
		const text = "Make the window larger, or leave with ^C."
		v.rows = make([]string, m.height)
		v.rows[0] = m.o.Text.truncate(text, m.width)
		return v
	}
	if m.mode == helping {
		v.rows = m.help()
		return v
	}
	l := m.layout()
	lines := make([]string, 0, m.height)
	head, x := m.head()
	lines = append(lines, head)
	if l.head > 1 {
		lines = append(lines, m.rule())
	}
	list := m.rows(l)
	if l.side {
		for i, look := range m.look(l) {
			list[i] += m.as(dim, " │ ") + look
		}
	}
	lines = append(lines, list...)
	if l.below {
		lines = append(lines, m.rule())
		lines = append(lines, m.look(l)...)
	}
	y := 0
	foot, at := m.foot()
	if m.mode == renaming {
		x, y = at, m.height-1
	}
	v.rows = append(lines[:min(len(lines), m.height-1)], foot)
	v.cursor, v.x, v.y = m.mode != asking && x < m.width, x, y
	return v
}

func (m *picker) rule() string { return m.as(dim, strings.Repeat("─", m.width)) }

// head is the filter, and at its right what is listed. It also returns the
// column of the cursor.
func (m *picker) head() (text string, cursor int) {
	label := m.o.Text.truncate(m.clean(m.o.Heading), m.width/3) + " > "
	room := m.width - m.o.Text.Width(label)
	typed, at := m.typing(m.input, room-1)
	used := m.o.Text.Width(typed)
	text = m.as(bold, label) + typed
	cursor = m.o.Text.Width(label) + at
	if len(m.input.text) == 0 && room >= 50 {
		const hint = "type to filter titles and content"
		text += m.as(dim, hint)
		used = len(hint)
	}
	if free := room - used - 2; free >= 8 {
		right := m.o.Text.truncate(m.counts()+" · "+m.scopeText(), free)
		gap := room - used - m.o.Text.Width(right)
		text += strings.Repeat(" ", max(gap, 0)) + m.as(dim, right)
	}
	return text, cursor
}

// typing returns as much of a line as fits, and where the cursor is in it.
func (m *picker) typing(l field, room int) (text string, cursor int) {
	before := []rune(l.before())
	shown := m.clean(string(before))
	for len(before) > 0 && m.o.Text.Width(shown) > room {
		before = before[min(8, len(before)):]
		shown = m.clean(string(before))
	}
	at := m.o.Text.Width(shown)
	rest := m.clean(string(l.text[l.at:]))
	return shown + m.o.Text.truncate(rest, room-at), at
}

func (m *picker) counts() string {
	all := thousands(len(m.list.rows))
	if m.loading {
		all += "+"
	}
	if len(m.list.terms) == 0 {
		return all
	}
	text := thousands(len(m.list.hits)) + "/" + all
	switch n := len(m.list.below); {
	case m.searching:
		text += " searching…"
	case n > 0:
		text += " +" + strconv.Itoa(n) + " by content"
	}
	return text
}

func (m *picker) scopeText() string {
	var parts []string
	if m.scope.Trash {
		parts = append(parts, "trash")
	}
	if m.scope.Project != "" {
		parts = append(parts, m.clean(lastName(m.scope.Project)))
	} else {
		parts = append(parts, "all projects")
	}
	if m.scope.Agent != "" {
		parts = append(parts, "agent "+m.clean(m.scope.Agent))
	}
	return strings.Join(parts, " · ")
}

// rows draws the visible part of the list, each line as wide as the list.
func (m *picker) rows(l layout) []string {
	lines := make([]string, 0, l.rows)
	cols := m.columns(l.width)
	for i := m.top; i < m.list.len() && len(lines) < l.rows; i++ {
		lines = append(lines, m.row(i, l.width, cols))
	}
	if len(lines) == 0 && l.rows > 0 {
		lines = append(lines, m.as(dim, m.fit("  "+m.nothing(), l.width)))
	}
	for len(lines) < l.rows {
		lines = append(lines, strings.Repeat(" ", l.width))
	}
	return lines
}

// nothing says why the list is empty.
func (m *picker) nothing() string {
	switch {
	case m.loading:
		return "loading…"
	case m.searching:
		return "no title matches; searching the content…"
	case len(m.list.terms) > 0:
		return "nothing matches; Esc clears the filter"
	case m.scope.Trash:
		return "the trash is empty; ^T goes back"
	case m.scope.Agent != "":
		return "no session of this agent; ^G shows all agents"
	case m.scope.Project != "":
		return "no session in this project; ^A shows all projects"
	}
	return "no session yet"
}

// foot is the last line: a question, a title being typed, the last event,
// or the keys. It also returns the column of the cursor in a title.
func (m *picker) foot() (text string, cursor int) {
	switch {
	case m.mode == asking:
		const end = " to the trash? y/n"
		title := m.o.Text.truncate(quote(m.clean(m.subject.Title)), m.width-len("Move ")-len(end))
		if m.subject.Live {
			title = "the live " + m.o.Text.truncate(title, m.width-len("Move the live ")-len(end))
		}
		return m.as(warning, m.fit("Move "+title+end, m.width)), 0
	case m.mode == renaming:
		const label = "Title: "
		typed, at := m.typing(m.name, m.width-len(label)-1)
		return m.as(bold, label) + typed, len(label) + at
	case m.status != "":
		return m.as(warning, m.o.Text.truncate(m.clean(m.status), m.width)), 0
	}
	return m.keyLine(), 0
}

// hint is a key and what it does now.
type hint struct{ key, does string }

// hints are the keys that matter now, most important first.
func (m *picker) hints() []hint {
	typed := len(m.input.text) > 0
	hints := []hint{{"Enter", m.clean(strings.ToLower(m.o.Heading))}}
	if typed {
		hints = append(hints, hint{"Esc", "clear"})
	} else {
		hints = append(hints, hint{"?", "help"})
	}
	switch {
	case m.scope.Project != "":
		hints = append(hints, hint{"^A", "all projects"})
	case m.o.Project != "":
		hints = append(hints, hint{"^A", "this project"})
	}
	if m.scope.Trash {
		hints = append(hints, hint{"^Z", "restore"}, hint{"^T", "leave trash"})
	} else {
		hints = append(hints, hint{"^R", "rename"}, hint{"^D", "trash it"}, hint{"^T", "see trash"})
		if len(m.trashed) > 0 {
			hints = append(hints, hint{"^Z", "undo"})
		}
	}
	if m.scope.Agent != "" {
		hints = append(hints, hint{"^G", "all agents"})
	} else {
		hints = append(hints, hint{"^G", "this agent"})
	}
	hints = append(hints, hint{"Tab", "preview"})
	if !typed {
		hints = append(hints, hint{"Esc", "leave"})
	}
	return hints
}

// keyLine draws as many hints as fit.
func (m *picker) keyLine() string {
	var b strings.Builder
	used, gap := 0, ""
	for _, h := range m.hints() {
		used += m.o.Text.Width(gap + h.key + " " + h.does)
		if used > m.width {
			break
		}
		b.WriteString(gap + m.as(accent, h.key) + " " + m.as(dim, h.does))
		gap = "   "
	}
	return b.String()
}

func (m *picker) help() []string {
	lines := []string{m.as(bold, m.o.Text.truncate("Keys", m.width))}
	for _, k := range pickKeys {
		left := m.o.Text.truncate("  "+m.fit(k.key, 13), m.width)
		lines = append(lines, m.as(accent, left)+m.o.Text.truncate(k.does, m.width-15))
	}
	lines = lines[:min(len(lines), m.height-1)]
	for len(lines) < m.height-1 {
		lines = append(lines, "")
	}
	return append(lines, m.as(dim, m.o.Text.truncate("any key goes back", m.width)))
}

func quote(s string) string { return "“" + s + "”" }

// thousands writes a number with its digits in groups.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// short writes a count in at most five columns.
func short(n int64) string {
	switch {
	case n < 100_000:
		return strconv.FormatInt(n, 10)
	case n < 100_000_000:
		return fmt.Sprintf("%dk", n/1000)
	}
	return fmt.Sprintf("%dM", n/1_000_000)
}
