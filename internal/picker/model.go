package picker

import (
	"context"
	"fmt"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
)

const (
	// firstPage fills the tallest screen; what is more would delay it.
	firstPage = 120
	// nextPage is a few milliseconds of a store's time: keys that arrive
	// between two pages are not noticed to wait.
	nextPage = 2000
	// searchPause is how long somebody has to stop typing before the content
	// is searched, previewPause how long they have to stay on a session.
	searchPause  = 120 * time.Millisecond
	previewPause = 40 * time.Millisecond
	// keptPreviews bounds the previews that are remembered.
	keptPreviews = 64
)

// model is everything the screen shows. The program calls it from one
// goroutine; what runs beside it answers with a message.
type model struct {
	ctx   context.Context // of the whole run: a write is finished under it
	reads context.Context // ends with the screen
	src   Source
	o     Options
	calls sync.WaitGroup // calls of the source that are under way

	width, height int
	mode          mode
	status        string // what happened last, until the next key
	leaving       bool

	scope   Scope
	load    int // counts the scopes: pages of an earlier one are dropped
	stop    context.CancelFunc
	list    *list
	loading bool

	input     line
	search    int // counts the filters: answers to an earlier one are dropped
	stopFind  context.CancelFunc
	searching bool

	cursor, top int // the selected row, the first row on the screen

	hidden   bool // the preview
	look     int  // counts the previews that were asked for
	stopLook context.CancelFunc
	previews map[string][]Line

	name    line // the title being typed
	subject Item // of the rename or the question
	trashed []Item
	writing int // writes under way

	picked Item
	ok     bool
	err    error
}

func newModel(ctx, reads context.Context, src Source, o Options) *model {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Heading == "" {
		o.Heading = "Open"
	}
	nothing := func() {}
	m := &model{ctx: ctx, reads: reads, src: src, o: o, scope: o.Scope, list: newList(), input: newLine(o.Filter),
		stop: nothing, stopFind: nothing, stopLook: nothing, previews: map[string][]Line{}}
	m.list.filter(o.Filter)
	return m
}

type (
	pageMsg struct {
		load int
		rows []row
		next string
		err  error
	}
	findMsg  struct{ search int } // the pause is over
	foundMsg struct {
		search int
		rows   []row
		err    error
	}
	lookMsg    struct{ look int } // the pause is over
	previewMsg struct {
		id    string
		lines []Line
		err   error
	}
	writtenMsg struct {
		item  Item
		did   deed
		title string
		err   error
	}
)

// deed is what was written.
type deed string

const (
	renamed  deed = "rename"
	trashed  deed = "trash"
	restored deed = "restore"
)

func (m *model) Init() tea.Cmd {
	return tea.Batch(m.open(m.scope), m.refilter())
}

func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	return m, m.update(msg)
}

func (m *model) update(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
		return m.goTo(m.cursor)
	case tea.KeyPressMsg:
		return m.key(msg)
	case tea.PasteMsg:
		return m.typed(msg.Content)
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
	}
	return nil
}

// call makes a command that asks the source. Run waits for it.
func (m *model) call(ask func() tea.Msg) tea.Cmd {
	m.calls.Add(1)
	return func() tea.Msg {
		defer m.calls.Done()
		return ask()
	}
}

// turn shows another scope.
func (m *model) turn(s Scope) tea.Cmd {
	m.list = newList()
	m.list.filter(m.input.String())
	m.cursor, m.top = 0, 0
	return tea.Batch(m.open(s), m.refilter())
}

// open begins to load a scope.
func (m *model) open(s Scope) tea.Cmd {
	m.stop()
	m.scope, m.loading = s, true
	m.load++
	ctx, stop := context.WithCancel(m.reads)
	m.stop = stop
	return m.nextPage(ctx, "", firstPage)
}

func (m *model) nextPage(ctx context.Context, cursor string, n int) tea.Cmd {
	load, scope := m.load, m.scope
	return m.call(func() tea.Msg {
		p, err := m.src.Sessions(ctx, scope, cursor, n)
		return pageMsg{load: load, rows: newRows(p.Items), next: p.Next, err: err}
	})
}
