package terminal

import (
	"sync"
	"time"
)

// message is something that happened: a key, a page of the list, an answer.
type message any

// command is something to be done beside the keys. What it returns, unless that
// is nil, is told to the picker.
type command func() message

// together makes one command of several, which run side by side.
func together(cmds ...command) command {
	return func() message { return cmds }
}

// after is a command that waits first.
func after(pause time.Duration, do command) command {
	return func() message {
		time.Sleep(pause)
		return do()
	}
}

// gate counts the calls of the source that are under way, and lets none begin
// once it is shut. Commands may begin at any time, also while the
// picker ends; a caller who closes the store after Run must be sure that nobody
// still reads it.
type gate struct {
	mu   sync.Mutex
	shut bool
	busy sync.WaitGroup
}

// through makes a command of a call of the source.
func (g *gate) through(call func() message) command {
	return func() message {
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
