package terminal

import (
	"strings"
)

// history is what was sent before, oldest first, and where the person is in
// it. What they were typing stands at its end.
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

// add keeps what was sent. The same thing twice in a row is kept once.
func (h *history) add(s string) {
	if s = strings.TrimRight(s, "\n"); s != "" && (len(h.sent) == 0 || h.sent[len(h.sent)-1] != s) {
		h.sent = append(h.sent, s)
	}
	h.at, h.draft = len(h.sent), ""
}

// step moves to an older (-1) or a newer (1) text, and returns it. ok is false
// at either end. now is what stands in the line at present.
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

// find returns the newest place before a given one whose text holds a query.
func (h *history) find(query string, before int) (at int, ok bool) {
	for at = min(before, len(h.sent)) - 1; at >= 0; at-- {
		if strings.Contains(h.sent[at], query) {
			return at, true
		}
	}
	return 0, false
}

// search is a look for something that was sent before, with ^R.
type search struct {
	query  string
	at     int // where the match is, the length of the history at first
	missed bool
	before string // the line as it was, for giving up
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
		c.search = nil // the match stays, and the key does what it does
		return false
	}
	return true
}

// seek shows the newest match before some place.
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
