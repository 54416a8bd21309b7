package terminal

// maxPending bounds the output that waits for the terminal.
const maxPending = 256 << 10

// screen is what the terminal shows, as far as known.
type screen struct {
	out     output
	pending []byte // written, not drawn

	columns, rows int
	shown         block
	up            int  // rows from the end of the output down to the cursor
	entered       bool // the prompt is drawn, and pastes are marked
	clear         bool
}

// lost forgets the positions on the screen.
func (s *screen) lost() {
	s.up, s.entered = 0, false
	s.out.fresh()
	s.shown = block{}
}

// frame returns what updates the screen. The frame after Close is the last.
func (c *Console) frame() (frame []byte, last bool) { return c.changes(), c.closed }

// changes returns what has to be written to update the screen.
func (c *Console) changes() []byte {
	s := &c.screen
	away := c.lent || c.closed
	if away && !s.entered && (c.lent || len(s.pending) == 0) {
		return nil
	}
	resized := c.resized()
	b := c.view(s.columns, s.rows)
	if !away && !resized && s.entered && !s.clear && len(s.pending) == 0 && b.same(&s.shown) {
		return nil
	}
	f := append([]byte(nil), beginFrame...)
	if !away && !resized && s.entered && !s.clear && len(s.pending) == 0 && len(b.rows) == len(s.shown.rows) {
		f = b.redraw(f, &s.shown)
		s.shown = b
		s.up = b.cursor
		if s.out.partial() {
			s.up++
		}
		return append(f, endFrame...)
	}
	f = s.erase(f)
	f = s.out.again(f)
	if resized && s.out.col > 0 && s.out.col < s.columns {
		f = append(f, eraseRow...)
	}
	f = s.out.write(f, s.pending)
	s.pending = s.pending[:0]
	s.clear = false
	if c.color {
		f = append(f, plainStyle...)
	}
	if s.out.partial() {
		f = append(f, '\r', '\n')
	}
	if away {
		s.lost()
		c.midLine = false
		f = append(f, pasteOff...)
		return append(f, endFrame...)
	}
	if !s.entered {
		f = append(f, pasteOn...)
		s.entered = true
	}
	f = b.draw(f)
	s.shown = b
	s.up = b.cursor
	if s.out.partial() {
		s.up++
	}
	return append(f, endFrame...)
}

// erase removes the block and goes to the start of the last row of the output.
// That row is overwritten, not erased: tmux would forget that it continues the
// row before, and no longer wrap the two as one line.
func (s *screen) erase(f []byte) []byte {
	f = append(f, '\r')
	switch {
	case s.clear:
		return append(f, eraseAll...)
	case s.out.partial():
		f = append(moveUp(f, s.up-1), eraseBelow...)
		return moveUp(f, 1)
	}
	return append(moveUp(f, s.up), eraseBelow...)
}

// draw appends the rows, and leaves the cursor where it belongs. It gets there
// by writing the text before it once more: so the terminal decides how wide
// that is, and the cursor is right even where the two differ.
func (b *block) draw(f []byte) []byte {
	f = append(f, wrapOff...)
	for i, r := range b.rows {
		if i > 0 {
			f = append(f, '\r', '\n')
		}
		f = append(f, r.text...)
	}
	f = append(f, '\r')
	f = moveUp(f, len(b.rows)-1-b.cursor)
	f = append(f, b.left...)
	return append(f, wrapOn...)
}

// redraw appends the rows that differ from those that are shown, so that a row
// that did not change cannot flicker.
func (b *block) redraw(f []byte, shown *block) []byte {
	f = append(f, '\r')
	f = append(f, wrapOff...)
	at := shown.cursor
	for i, r := range b.rows {
		if r != shown.rows[i] {
			f = append(moveTo(f, at, i), r.text...)
			f = append(append(f, eraseRow...), '\r')
			at = i
		}
	}
	f = append(moveTo(f, at, b.cursor), b.left...)
	return append(f, wrapOn...)
}

// resized checks whether the size changed. Terminals rewrap their rows when
// they become narrower, so that the cursor is further below the end of the
// output than before.
func (c *Console) resized() bool {
	s := &c.screen
	columns, rows := c.size()
	if columns == s.columns && rows == s.rows {
		return false
	}
	narrower := columns < s.columns
	if columns != s.columns {
		s.out.resize(columns)
	}
	s.columns, s.rows = columns, rows
	if narrower && s.entered {
		s.up = s.shown.column / columns
		for _, r := range s.shown.rows[:s.shown.cursor] {
			s.up += max(r.width+columns-1, columns) / columns
		}
		if s.out.partial() {
			s.up++
		}
	}
	return true
}
