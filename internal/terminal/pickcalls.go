package terminal

import (
	"sync"
	"time"
)

// message is something that happened: a key, a page of the list, an answer.
type message any

// command is something to do in the background. Its result, unless nil, is
// passed to the picker.
type command func() message

// together combines commands, which run concurrently.
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

// sourceCalls counts the calls of the source in progress, and lets none start
// once it is closed. Commands may start at any time, also while the picker
// ends; a caller that closes the store after Pick must be sure that nobody
// still reads it.
type sourceCalls struct {
	mu   sync.Mutex
	shut bool
	busy sync.WaitGroup
}

// through turns a call of the source into a command.
func (c *sourceCalls) through(call func() message) command {
	return func() message {
		c.mu.Lock()
		if c.shut {
			c.mu.Unlock()
			return nil
		}
		c.busy.Add(1)
		c.mu.Unlock()
		defer c.busy.Done()
		return call()
	}
}

// close refuses further calls and waits for those in progress.
func (c *sourceCalls) close() {
	c.mu.Lock()
	c.shut = true
	c.mu.Unlock()
	c.busy.Wait()
}
