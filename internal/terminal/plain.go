package terminal

import (
	"bufio"
	"errors"
	"fmt"
	"strings"
	"time"
)

// writePlain writes output directly.
func (c *Console) writePlain(p []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	return c.o.Out.Write(p)
}

// wantLine starts to read a line from a plain terminal or a pipe. No line is
// read before somebody wants it, so that the rest of the input stays
// available to others.
func (c *Console) wantLine() {
	if c.editing || c.reading || c.ended != nil {
		return
	}
	c.reading = true
	if c.o.Terminal && c.question == nil {
		c.say(c.prompt)
		c.midLine = false // the person's Enter ends it
	}
	go c.readLine()
}

// readLine reads until there is something to pass on.
func (c *Console) readLine() {
	for {
		s, err := nextLine(c.lines)
		c.mu.Lock()
		took := (s != "" || err == nil) && c.hand(s)
		if err != nil {
			c.reading = false
			c.end(err)
			c.mu.Unlock()
			return
		}
		if took && c.question == nil {
			c.reading = false
			c.arrive() // a caller waiting in Read for its own line wants the next one
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()
	}
}

// hand passes a line to whoever waits for it, and reports whether it was used.
func (c *Console) hand(s string) bool {
	c.lastKey, c.interrupted = time.Now(), false
	switch {
	case c.question != nil && c.question.typed:
		c.question.reply(s)
		c.question = nil
		return true
	case c.question != nil:
		if strings.TrimSpace(s) == "" {
			return false
		}
		if c.question.choose(s) {
			c.question = nil
			return true
		}
		c.say(strings.Join(c.question.words(), "  ") + "\n")
		if c.waiting == 0 {
			return false
		}
		// A Read is waiting as well: the line is for it.
	case strings.TrimSpace(s) == "":
		if c.o.Terminal {
			c.say(c.prompt)
			c.midLine = false
		}
		return false
	}
	c.event(event{Input: Input{Kind: Line, Text: s}})
	return true
}

// nextLine returns the next line without its newline. A line that ends in
// a backslash continues on the next one. A line may come with an error.
func nextLine(r *bufio.Reader) (string, error) {
	var b strings.Builder
	for {
		part, err := r.ReadSlice('\n')
		if b.Len()+len(part) > maxPaste {
			return "", fmt.Errorf("a line is longer than %d MiB", maxPaste>>20)
		}
		b.Write(part)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		s := strings.TrimSuffix(strings.TrimSuffix(b.String(), "\n"), "\r")
		if rest, more := strings.CutSuffix(s, `\`); more && err == nil {
			b.Reset()
			b.WriteString(rest + "\n")
			continue
		}
		return printable(s), err
	}
}
