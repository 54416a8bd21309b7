package terminal

import (
	"strings"
)

// history is what was sent before, oldest first, and the person's position
// in it. The line being typed is at its end.
type history struct {
	sent  []string
	at    int
	draft string
}

func newHistory(sent []string) history {
	h := history{}
	for _, s := range sent {
		h.add(s)
	}
	return h
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
