package terminal

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"
)

const (
	// firstPage fills the tallest screen; a larger one would delay it.
	firstPage = 120
	// nextPage takes a store a few milliseconds: keys that arrive
	// between two pages are not noticeably delayed.
	nextPage = 2000
	// paintPause is how long the rest of the list waits for the first screen.
	paintPause = 3 * frameTime
	// searchPause is how long a person has to stop typing before the content
	// is searched, previewPause how long they have to stay on a session
	// before it is previewed.
	searchPause  = 120 * time.Millisecond
	previewPause = 40 * time.Millisecond
	// keptPreviews bounds the previews that are remembered.
	keptPreviews = 64
)

// picker is everything that the screen shows. It handles one message after the
// other; background commands answer with a message.
type picker struct {
	ctx   context.Context // for the whole run: a write is completed under it
	reads context.Context // ends with the screen
	src   Source
	o     PickOptions
	calls sourceCalls // calls of the source in progress

	width, height int
	mode          mode
	status        string // the last event, until the next key
	leaving       bool

	scope   Scope
	load    int // number of scopes loaded: pages of an earlier one are dropped
	pages   context.Context
	stop    context.CancelFunc
	list    *list
	loading bool

	input     field
	search    int // number of filters: answers to an earlier one are dropped
	stopFind  context.CancelFunc
	searching bool

	cursor, top int // the selected row, the first row on the screen

	hidden   bool   // the preview is hidden
	looks    int    // number of previews requested
	looked   string // the session of the newest of them
	stopLook context.CancelFunc
	previews map[string][]PreviewLine

	name    field // the title being typed
	subject Item  // of the rename or the question
	trashed []Item
	writing int // writes in progress

	over   bool // nothing is shown any more
	picked Item
	ok     bool
	err    error
}

func newPicker(ctx, reads context.Context, src Source, o PickOptions) *picker {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Heading == "" {
		o.Heading = "Open"
	}
	nothing := func() {}
	m := &picker{ctx: ctx, reads: reads, src: src, o: o, scope: o.Scope, list: newList(), input: newField(o.Filter),
		stop: nothing, stopFind: nothing, stopLook: nothing, previews: map[string][]PreviewLine{}}
	m.list.filter(o.Filter)
	return m
}

type (
	pageMsg struct {
		load int
		rows []pickRow
		next string
		err  error
	}
	findMsg  struct{ search int } // the pause is over
	foundMsg struct {
		search int
		rows   []pickRow
		err    error
	}
	lookMsg    struct{ look int } // the pause is over
	previewMsg struct {
		id    string
		lines []PreviewLine
		err   error
	}
	writtenMsg struct {
		item  Item
		did   deed
		title string
		err   error
	}
	sizeMsg struct{ columns, rows int }
	lostMsg struct{} // there will be no more keys
)

// deed is what a write did.
type deed string

const (
	renamed  deed = "rename"
	trashed  deed = "trash"
	restored deed = "restore"
)

// begin loads what is seen first.
func (m *picker) begin() command {
	return together(m.open(m.scope), m.refilter())
}

func (m *picker) update(msg message) command {
	switch msg := msg.(type) {
	case sizeMsg:
		m.width, m.height = msg.columns, msg.rows
		return m.goTo(m.cursor)
	case key:
		switch msg.name {
		case "paste", "paste+cut":
			return m.typed(msg.text)
		}
		return m.key(msg)
	case pageMsg:
		return m.page(msg)
	case findMsg:
		return m.find(msg)
	case foundMsg:
		return m.found(msg)
	case lookMsg:
		return m.lookNow(msg)
	case previewMsg:
		m.previewed(msg)
	case writtenMsg:
		return m.written(msg)
	case lostMsg:
		m.err = fmt.Errorf("terminal: it is gone: %w", io.ErrUnexpectedEOF)
		return m.end()
	}
	return nil
}

// turn switches to another scope.
func (m *picker) turn(s Scope) command {
	m.list = newList()
	return together(m.open(s), m.refilter())
}

// open starts to load a scope.
func (m *picker) open(s Scope) command {
	m.stop()
	m.scope, m.loading = s, true
	m.load++
	m.pages, m.stop = context.WithCancel(m.reads)
	return m.askPage("", firstPage)
}

// askPage loads a page of the list.
func (m *picker) askPage(cursor string, n int) command {
	ctx, load, scope := m.pages, m.load, m.scope
	return m.calls.through(func() message {
		p, err := m.src.Sessions(ctx, scope, cursor, n)
		return pageMsg{load: load, rows: newRows(p.Items), next: p.Next, err: err}
	})
}

// page adds a page and loads the next one, until the list is complete: only
// then does a filter see every title.
func (m *picker) page(msg pageMsg) command {
	if msg.load != m.load {
		return nil
	}
	if msg.err != nil {
		m.loading = false
		if msg.load == 1 && len(m.list.rows) == 0 {
			m.err = msg.err
			return m.end()
		}
		m.status = "The list is not whole: " + msg.err.Error()
		return nil
	}
	m.keep(func() { m.list.add(msg.rows) })
	m.loading = msg.next != ""
	if !m.loading {
		return m.preview()
	}
	ask := m.askPage(msg.next, nextPage)
	if first := len(m.list.rows) == len(msg.rows); first {
		return together(m.preview(), after(paintPause, ask))
	}
	return together(m.preview(), ask)
}

// refilter applies a changed filter: to titles at once, to content after a
// pause.
func (m *picker) refilter() command {
	text := m.input.String()
	m.list.filter(text)
	m.cursor, m.top = 0, 0
	m.stopFind()
	m.search++
	m.searching = strings.TrimSpace(text) != ""
	if !m.searching {
		return m.preview()
	}
	search := m.search
	pause := after(searchPause, func() message { return findMsg{search} })
	return together(m.preview(), pause)
}

// find searches the content, unless something was typed since.
func (m *picker) find(msg findMsg) command {
	if msg.search != m.search {
		return nil
	}
	ctx, stop := context.WithCancel(m.reads)
	m.stopFind = stop
	scope, text := m.scope, strings.TrimSpace(m.input.String())
	return m.calls.through(func() message {
		defer stop()
		items, err := m.src.Search(ctx, scope, text)
		return foundMsg{search: msg.search, rows: newRows(items), err: err}
	})
}

func (m *picker) found(msg foundMsg) command {
	if msg.search != m.search {
		return nil
	}
	m.searching = false
	if msg.err != nil {
		m.status = "Content is not searched: " + msg.err.Error()
		return nil
	}
	m.keep(func() { m.list.find(msg.rows) })
	return m.preview()
}

// preview loads the end of the selected session, once a person stays on it.
// Pages that arrive meanwhile do not restart the pause.
func (m *picker) preview() command {
	id := ""
	if r := m.selected(); r != nil && m.layout().preview() {
		id = r.ID
	}
	if id == m.looked {
		return nil
	}
	m.stopLook()
	m.looks++
	m.looked = id
	if _, have := m.previews[id]; have || id == "" {
		return nil
	}
	look := m.looks
	return after(previewPause, func() message { return lookMsg{look} })
}

func (m *picker) lookNow(msg lookMsg) command {
	r := m.selected()
	if msg.look != m.looks || r == nil {
		return nil
	}
	ctx, stop := context.WithCancel(m.reads)
	m.stopLook = stop
	it := r.Item
	return m.calls.through(func() message {
		defer stop()
		lines, err := m.src.Preview(ctx, it)
		if ctx.Err() != nil && err != nil {
			return nil // cancelled, not failed
		}
		return previewMsg{id: it.ID, lines: lines, err: err}
	})
}

func (m *picker) previewed(msg previewMsg) {
	if len(m.previews) >= keptPreviews {
		clear(m.previews)
	}
	if msg.err != nil {
		msg.lines = []PreviewLine{{Text: "no preview: " + msg.err.Error()}}
	}
	m.previews[msg.id] = msg.lines
}

// write starts a confirmed change.
func (m *picker) write(do func() writtenMsg) command {
	m.writing++
	return m.calls.through(func() message { return do() })
}

func (m *picker) written(msg writtenMsg) command {
	var cmd command
	m.writing--
	title := quote(msg.item.Title)
	switch {
	case msg.err != nil:
		m.status = fmt.Sprintf("Could not %s %s: %v", msg.did, title, msg.err)
		if msg.did == restored {
			m.trashed = append(m.trashed, msg.item)
		}
		if m.leaving {
			m.err = fmt.Errorf("%s session %s: %w", msg.did, msg.item.ID, msg.err)
		}
	case msg.did == renamed:
		m.keep(func() { m.list.change(msg.item.ID, func(r *pickRow) { r.Title = msg.title }) })
		m.status = "Renamed to " + quote(msg.title) + "."
	case msg.did == trashed:
		m.trashed = append(m.trashed, msg.item)
		m.status = title + " is in the trash; ^Z brings it back."
		cmd = m.moved(msg.item.ID, m.scope.Trash)
	case msg.did == restored:
		m.status = title + " is back."
		cmd = m.moved(msg.item.ID, !m.scope.Trash)
	}
	if m.leaving && m.writing == 0 {
		return m.end()
	}
	return together(cmd, m.preview())
}

// moved removes a session from the list, or shows and selects it. A
// session that was elsewhere when the list was loaded is in none of its
// pages: then the list is loaded again.
func (m *picker) moved(id string, here bool) command {
	if _, loaded := m.list.byID[id]; here && !loaded {
		return m.turn(m.scope)
	}
	m.keep(func() { m.list.change(id, func(r *pickRow) { r.gone = !here }) })
	if at, listed := m.list.where(id, m.cursor); listed {
		m.cursor = at
		m.see()
	}
	return nil
}

// selected returns the row under the cursor, or nil when nothing is listed.
func (m *picker) selected() *pickRow { return m.list.at(m.cursor) }

// goTo moves the cursor, and scrolls so that it is visible.
func (m *picker) goTo(i int) command {
	m.cursor = i
	m.see()
	return m.preview()
}

// keep changes the list, and leaves the cursor on its session. In a list that
// was scrolled it also stays at its height on the screen.
func (m *picker) keep(change func()) {
	r, height := m.selected(), m.cursor-m.top
	change()
	if r != nil {
		if at, ok := m.list.where(r.ID, m.cursor); ok {
			m.cursor = at
			if m.top > 0 {
				m.top = at - height
			}
		}
	}
	m.see()
}

// see keeps the cursor in the list and visible.
func (m *picker) see() {
	n, rows := m.list.len(), m.layout().rows
	m.cursor = max(min(m.cursor, n-1), 0)
	m.top = max(min(m.top, m.cursor, n-rows), m.cursor-rows+1, 0)
}
