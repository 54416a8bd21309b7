package terminal

import (
	"context"
	"fmt"
	"io"
	"runtime/debug"
	"strings"
	"sync"
	"time"
)

// sizePause is how often the size of the terminal is checked.
const sizePause = 500 * time.Millisecond

// pickScreen is a picker on a terminal. It uses the alternate screen, so that
// the previous content is visible again when it ends.
type pickScreen struct {
	mu    sync.Mutex
	m     *picker
	keys  listener
	paint *painter

	shown   picture
	entered bool
	deaf    bool          // no key is read any more: one that is typed when the list is gone is for what comes next
	over    chan struct{} // closed when the picker is over
	fault   string        // a panic in the program itself
}

func newPickScreen(m *picker) *pickScreen {
	s := &pickScreen{m: m, over: make(chan struct{})}
	s.keys = listener{in: m.o.In, mu: &s.mu, obey: s.obey, end: func(error) { s.tell(lostMsg{}) }}
	s.paint = newPainter(m.o.Out, &s.mu, s.frame)
	return s
}

// run takes the terminal, and restores it when the picker is over.
func (s *pickScreen) run(ctx context.Context) error {
	restore, err := takeTerminal(s.m.o.Raw, s.m.o.Out)
	if err != nil {
		return fmt.Errorf("terminal: %w", err)
	}
	s.mu.Lock()
	s.resize()
	s.start(s.m.begin())
	s.mu.Unlock()
	go s.paint.run()
	s.keys.listen()
	s.wait(ctx)
	s.keys.stop()
	s.mu.Lock()
	s.deaf = true
	s.paint.touch()
	s.mu.Unlock()
	s.paint.wait(closeWait)
	err = restore()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.fault != "":
		panic(s.fault)
	case s.paint.err != nil:
		return fmt.Errorf("%w: %w", s.paint.err, io.ErrUnexpectedEOF)
	case err != nil:
		return fmt.Errorf("terminal: %w", err)
	}
	return nil
}

// wait returns when the picker is over.
func (s *pickScreen) wait(ctx context.Context) {
	look := time.NewTicker(sizePause)
	defer look.Stop()
	for {
		select {
		case <-s.over:
			return
		case <-ctx.Done():
			s.mu.Lock()
			s.m.end()
			s.settle()
			s.mu.Unlock()
		case <-s.m.o.Resized:
			s.lookAtSize()
		case <-look.C:
			s.lookAtSize()
		}
	}
}

// lookAtSize applies a changed size, and notices a terminal that accepts
// nothing more.
func (s *pickScreen) lookAtSize() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resize()
	if s.paint.err != nil {
		s.tell(lostMsg{})
	}
}

func (s *pickScreen) resize() {
	if columns, rows, err := s.m.o.Size(); err == nil && (columns != s.m.width || rows != s.m.height) {
		s.tell(sizeMsg{columns, rows})
	}
}

// tell passes a message to the picker. The lock is held.
func (s *pickScreen) tell(msg message) {
	if s.m.over {
		return
	}
	if cmds, several := msg.([]command); several {
		for _, cmd := range cmds {
			s.start(cmd)
		}
		return
	}
	s.start(s.m.update(msg))
	s.settle()
}

// settle redraws the screen, and ends it when the picker is over.
func (s *pickScreen) settle() {
	s.paint.touch()
	if !s.m.over {
		return
	}
	select {
	case <-s.over:
	default:
		close(s.over)
	}
}

// start runs a command in the background.
func (s *pickScreen) start(cmd command) {
	if cmd == nil {
		return
	}
	go func() {
		defer s.recovered()
		msg := cmd()
		if msg == nil {
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.tell(msg)
	}()
}

// obey passes keys to the picker, text character by character: one may
// answer a question, and the next begin a filter.
func (s *pickScreen) obey(keys []key) {
	defer s.caught()
	for _, k := range keys {
		if k.name != "" {
			s.tell(k)
			continue
		}
		for _, r := range k.text {
			s.tell(key{text: string(r)})
		}
	}
}

// recovered is deferred in goroutines in which a call of the source may
// panic: the terminal is restored before the program ends.
func (s *pickScreen) recovered() {
	if fault := recover(); fault != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.broke(fault)
	}
}

// caught is the same while the lock is held.
func (s *pickScreen) caught() {
	if fault := recover(); fault != nil {
		s.broke(fault)
	}
}

func (s *pickScreen) broke(fault any) {
	s.fault = fmt.Sprintf("%v\n\n%s", fault, debug.Stack())
	s.m.end()
	s.settle()
}

// frame returns what updates the terminal: the rows that changed. The last
// frame gives the terminal back.
func (s *pickScreen) frame() (f []byte, last bool) {
	defer func() {
		if fault := recover(); fault != nil {
			s.broke(fault)
			f, last = s.leave(), true
		}
	}()
	if s.m.over {
		if !s.deaf {
			return nil, false
		}
		return s.leave(), true
	}
	v := s.m.view()
	f = append(f, beginFrame+hideCursor...)
	anew := !s.entered || len(v.rows) != len(s.shown.rows) || v.columns != s.shown.columns
	if !s.entered {
		s.entered = true
		f = append(f, ownScreen+pasteOn+exactKeys+barCursor...)
	}
	if anew {
		f = append(f, plainStyle+eraseAll...)
	}
	f = append(f, wrapOff...)
	changed := anew || v.cursor != s.shown.cursor || v.x != s.shown.x || v.y != s.shown.y
	for i, row := range v.rows {
		if anew && row == "" || !anew && row == s.shown.rows[i] {
			continue
		}
		changed = true
		f = fmt.Appendf(f, "\x1b[%dH", i+1)
		// Rows are overwritten, since a row that is erased first flickers.
		// Only the terminal knows how wide it draws unusual characters.
		foreign := strings.ContainsFunc(row, isForeign)
		if foreign {
			f = append(f, eraseRow...)
		}
		f = append(f, row...)
		if !foreign && s.m.o.Text.Width(bare(row)) < v.columns {
			f = append(f, eraseRow...)
		}
	}
	if !changed {
		return nil, false
	}
	s.shown = v
	f = append(f, wrapOn...)
	if v.cursor {
		f = fmt.Appendf(f, "\x1b[%d;%dH"+showCursor, v.y+1, v.x+1)
	}
	return append(f, endFrame...), false
}

// isForeign reports whether terminals may draw a character with another
// width than Text.Width says.
func isForeign(r rune) bool {
	return r >= 0x300 && !strings.ContainsRune("─│└⑂●…“”", r)
}

// bare returns a row without its styles.
func bare(row string) string {
	var b strings.Builder
	for {
		text, rest, more := strings.Cut(row, "\x1b[")
		b.WriteString(text)
		if !more {
			return b.String()
		}
		_, row, _ = strings.Cut(rest, "m")
	}
}

// leave returns the sequence that leaves the screen.
func (s *pickScreen) leave() []byte {
	if !s.entered {
		return nil
	}
	return []byte(usualCursor + plainKeys + pasteOff + mainScreen + showCursor)
}
