package picker

import (
	"sync"

	tea "charm.land/bubbletea/v2"
)

// gate counts the calls of the source that are under way, and lets none begin
// once it is shut. The program starts commands whenever it likes, also while
// it ends; a caller who closes the store after Run must be sure that nobody
// still reads it.
type gate struct {
	mu   sync.Mutex
	shut bool
	busy sync.WaitGroup
}

// through makes a command of a call of the source.
func (g *gate) through(call func() tea.Msg) tea.Cmd {
	return func() tea.Msg {
		g.mu.Lock()
		if g.shut {
			g.mu.Unlock()
			return nil
		}
		g.busy.Add(1)
		g.mu.Unlock()
		defer g.busy.Done()
		return call()
	}
}

// close shuts the gate and waits for the calls that are under way.
func (g *gate) close() {
	g.mu.Lock()
	g.shut = true
	g.mu.Unlock()
	g.busy.Wait()
}
