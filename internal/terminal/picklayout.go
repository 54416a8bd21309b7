package terminal

const (
	minWidth    = 24  // below which nothing can be read
	minHeight   = 4   // a filter, two rows and the keys
	sideWidth   = 110 // from here on the preview is beside the list
	belowHeight = 22  // from here on it is below the list
	ruleHeight  = 12  // from here on a rule separates the filter from the list
)

// layout is the position of everything on a screen of some size.
type layout struct {
	head  int // lines above the list
	rows  int // lines of the list
	width int // columns of the list

	// The preview: beside the list, or below it, or nowhere.
	side, below         bool
	lookWidth, lookRows int
}

func (l layout) preview() bool { return l.side || l.below }

func (m *picker) layout() layout {
	l := layout{head: 1, width: m.width}
	if m.height >= ruleHeight {
		l.head = 2
	}
	body := max(m.height-l.head-1, 0) // the last line is the footer's
	l.rows = body
	switch {
	case m.hidden:
	case m.width >= sideWidth && body > 0:
		l.side = true
		l.width = m.width * 11 / 20
		l.lookWidth, l.lookRows = m.width-l.width-3, body
	case m.height >= belowHeight:
		l.below = true
		l.lookRows = body * 2 / 5
		l.lookWidth = m.width
		l.rows = body - l.lookRows - 1
	}
	return l
}

// cellWidths are the widths of the cells after a title; 0 leaves one out. The
// narrower the list, the fewer cells there are; the title has at least half.
type cellWidths struct{ agent, project, messages, id, age int }

func (m *picker) columns(width int) cellWidths {
	var c cellWidths
	if width >= 30 {
		c.age = 4
	}
	if width >= 50 && m.scope.Agent == "" {
		c.agent = 11
	}
	if width >= 70 {
		c.messages = 5
	}
	if width >= 76 && m.scope.Project == "" {
		c.project = 12
	}
	if width >= 100 {
		c.id = 8
	}
	return c
}

// total is the width of all cells, each with a gap of two columns before it.
func (c cellWidths) total() int {
	sum := 0
	for _, w := range [...]int{c.agent, c.project, c.messages, c.id, c.age} {
		if w > 0 {
			sum += w + 2
		}
	}
	return sum
}
