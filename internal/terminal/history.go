package terminal

import (
	"context"
	"strings"
)

// history is what was sent before, oldest first, and the person's position
// in it. The line being typed is at its end.
type history struct {
	sent  []string
	at    int
	draft string

	asked   bool // for what was sent in earlier sessions
	loading bool // it has not come yet
	steps   int  // steps back that the person takes when it comes
}

// putBefore puts what was sent earlier before the rest.
func (h *history) putBefore(earlier []string) (added int) {
	all := history{}
	for _, s := range earlier {
		all.add(s)
	}
	h.sent = append(all.sent, h.sent...)
	h.at += len(all.sent)
	return len(all.sent)
}

// add keeps a sent line. Repetitions are kept once.
func (h *history) add(s string) {
	if s = strings.TrimRight(s, "\n"); s != "" && (len(h.sent) == 0 || h.sent[len(h.sent)-1] != s) {
		h.sent = append(h.sent, s)
	}
	h.at, h.draft = len(h.sent), ""
}

// step moves to an older (-1) or a newer (1) text, and returns it. ok is false
// at either end. now is the current line.
func (h *history) step(by int, now string) (s string, ok bool) {
	to := h.at + by
	if to < 0 || to > len(h.sent) {
		return "", false
	}
	if h.at == len(h.sent) {
		h.draft = now
	}
	h.at = to
	if to == len(h.sent) {
		return h.draft, true
	}
	return h.sent[to], true
}

// find returns the newest position before a given one whose text contains a
// query.
func (h *history) find(query string, before int) (at int, ok bool) {
	for at = min(before, len(h.sent)) - 1; at >= 0; at-- {
		if strings.Contains(h.sent[at], query) {
			return at, true
		}
	}
	return 0, false
}

// loadEarlier gets what was sent in earlier sessions, the first time that
// somebody looks for it.
func (c *Console) loadEarlier() {
	h := &c.history
	if h.asked || c.o.Earlier == nil {
		return
	}
	h.asked, h.loading = true, true
	go func() {
		earlier := c.o.Earlier(context.Background())
		c.mu.Lock()
		defer c.mu.Unlock()
		added := h.putBefore(earlier)
		h.loading = false
		if s := c.search; s != nil {
			s.at += added
			if s.missed {
				c.seek(len(h.sent))
			}
		}
		for ; h.steps > 0; h.steps-- {
			c.recall(-1)
		}
		c.paint.touch()
	}()
}

// older goes one step back in the history, once all of it is there.
func (c *Console) older() {
	c.loadEarlier()
	if c.history.loading {
		c.history.steps++
		return
	}
	c.recall(-1)
}

// search is a search in the history, with ^R.
type search struct {
	query  string
	at     int // position of the match, at first the length of the history
	missed bool
	before string // the line as it was, to return to
}

func (c *Console) searchKey(k key) bool {
	s := c.search
	switch {
	case k.name == "" && k.text != "":
		s.query += printable(k.text)
		c.seek(min(s.at+1, len(c.history.sent)))
	case k.name == "backspace":
		if cs := c.text.cells(s.query); len(cs) > 0 {
			s.query = textOf(cs[:len(cs)-1])
		}
		c.seek(len(c.history.sent))
	case k.name == "ctrl+r":
		c.seek(s.at)
	case k.name == "ctrl+g", k.name == "esc":
		c.line.set(s.before)
		c.search = nil
	default:
		c.search = nil // the match stays, and the key is handled as usual
		return false
	}
	return true
}

// seek shows the newest match before a position.
func (c *Console) seek(before int) {
	s := c.search
	if s.query == "" {
		s.missed = false
		return
	}
	at, ok := c.history.find(s.query, before)
	if s.missed = !ok; ok {
		s.at = at
		c.line.set(c.history.sent[at])
	}
}
