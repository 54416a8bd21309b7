package compact

import (
	"strings"

	"github.com/tidemark-sessions/tidemark"
)

// division is a conversation and where it is cut.
type division struct {
	head, from int
	part       []tidemark.Entry // the messages that a summary replaces, without earlier summaries
	old        []string         // the texts of earlier summaries before the cut
	sizes                       // of what was divided
}

// sizes are those of the pieces of a conversation.
type sizes struct {
	system    size // what is sent separately, and the head
	summaries size // earlier ones before the cut
	gone      size // the part
	kept      size
}

func (s sizes) all() size { return s.system.plus(s.summaries).plus(s.gone).plus(s.kept) }

// stays is the size without the part, with one summary in its place.
func (s sizes) stays() size {
	rest := s.system.plus(s.summaries).plus(s.kept)
	rest.messages += 1 - s.summaries.messages
	return rest
}

// divide cuts so that the newest o.Keep messages, and what belongs to them,
// stay; fewer where those would leave no space for a summary within the limits,
// but always the whole of the open turn.
func divide(entries []tidemark.Entry, o Options) division {
	var c division
	if o.System != "" {
		c.system.add(tidemark.Say(tidemark.System, o.System))
	}
	for c.head < len(entries) && entries[c.head].Role == tidemark.System {
		c.system.add(entries[c.head])
		c.head++
	}
	c.from = max(fit(entries, cut(entries, c.head, o.Keep), c.system, o), c.head)
	for _, e := range entries[c.head:c.from] {
		switch {
		case IsSummary(e):
			c.summaries.add(e)
			c.old = append(c.old, e.Text())
		case isMessage(e):
			c.gone.add(e)
			c.part = append(c.part, e)
		}
	}
	for _, e := range entries[c.from:] {
		if isMessage(e) {
			c.kept.add(e)
		}
	}
	return c
}

// openTurn returns the index of the user's newest message, with which the open
// turn begins; len(entries) when there is none.
func openTurn(entries []tidemark.Entry) int {
	for i := len(entries) - 1; i >= 0; i-- {
		if e := entries[i]; e.Role == tidemark.User && isMessage(e) && !isResult(e) && !IsSummary(e) {
			return i
		}
	}
	return len(entries)
}

// latestCut returns the beginning of what must stay whole: the open turn, and
// before it a call whose result came late.
func latestCut(entries []tidemark.Entry, back []int) int {
	open := openTurn(entries)
	for 0 < open && open < len(entries) && (back[open] < open || isResult(entries[open])) {
		open = min(back[open], open-1)
	}
	return open
}

// room is the part of a limit that what stays may use: three quarters. The rest
// is for a summary, and for what comes next.
func room(limit int) int { return limit - limit/4 }

// fit moves a cut to newer messages until what stays fits the limits, but never
// past the start of the open turn.
func fit(entries []tidemark.Entry, at int, system size, o Options) int {
	back := bonds(entries)
	open := latestCut(entries, back)
	switch {
	case open == len(entries):
		return at
	case open <= at:
		return open
	}
	// From the open turn back to older messages, as long as they fit.
	kept := system
	for _, e := range entries[open:] {
		if isMessage(e) {
			kept.add(e)
		}
	}
	best := open
	for i := open - 1; i >= at; i-- {
		if isMessage(entries[i]) {
			kept.add(entries[i])
		}
		if o.MaxMessages > 0 && kept.messages+1 > o.MaxMessages || o.MaxBytes > 0 && kept.bytes > room(o.MaxBytes) || o.MaxTokens > 0 && kept.tokens > room(o.MaxTokens) {
			break
		}
		if back[i] >= i && !isResult(entries[i]) {
			best = i
		}
	}
	return best
}

// cut returns where what stays begins: at the newest keep messages, or earlier
// where that would separate a call from its results or begin with a result.
func cut(entries []tidemark.Entry, head, keep int) int {
	at := len(entries)
	for at > head && keep > 0 {
		at--
		if isMessage(entries[at]) {
			keep--
		}
	}
	if keep > 0 {
		return head
	}
	back := bonds(entries)
	for at > head && (back[at] < at || isResult(entries[at])) {
		at = min(back[at], at-1)
	}
	return max(at, head)
}

// bonds returns for each position the oldest call that has a result there or
// later. A cut at a position separates no call from its results if that call is
// not before it.
//
// An id may be reused, as some servers number the calls of each answer from 0: a
// result belongs to the newest call with its id. A call that was never answered
// binds nothing, unless its results may still come.
func bonds(entries []tidemark.Entry) []int {
	back := make([]int, len(entries))
	calls := make(map[string]int) // by id, where it was called last
	last := 0                     // the newest message that answers no call
	for i, e := range entries {
		back[i] = i
		if isMessage(e) && !isResult(e) {
			last = i
		}
		for _, b := range e.Blocks {
			switch b.Type {
			case tidemark.BlockToolUse:
				calls[b.ID] = i
			case tidemark.BlockToolResult:
				if call, ok := calls[b.ToolUseID]; ok {
					back[i] = min(back[i], call)
				}
			}
		}
	}
	if n := len(entries); n > 0 && hasCall(entries[last]) {
		back[n-1] = min(back[n-1], last)
	}
	for i := len(back) - 2; i >= 0; i-- {
		back[i] = min(back[i], back[i+1])
	}
	return back
}

// isResult reports whether e answers tool calls.
func isResult(e tidemark.Entry) bool {
	if e.Role == tidemark.Tool {
		return true
	}
	for _, b := range e.Blocks {
		if b.Type == tidemark.BlockToolResult {
			return true
		}
	}
	return false
}

func hasCall(e tidemark.Entry) bool {
	for _, b := range e.Blocks {
		if b.Type == tidemark.BlockToolUse {
			return true
		}
	}
	return false
}

// size is how much is sent.
type size struct{ messages, bytes, tokens int }

// What is sent costs tokens beyond its text. These are rules of thumb: every
// model counts in its own way.
const (
	bytesPerToken    = 4     // of ASCII; any other character counts as a token
	tokensPerMessage = 4     // the role, and the markup around it
	tokensPerImage   = 1_500 // or a page of a file that is not text
)

func (s size) plus(t size) size {
	return size{s.messages + t.messages, s.bytes + t.bytes, s.tokens + t.tokens}
}

func (s *size) add(e tidemark.Entry) {
	s.messages++
	s.tokens += tokensPerMessage
	s.addBlocks(e.Blocks)
}

// addBlocks counts text, calls and results. The bytes of images are not text.
func (s *size) addBlocks(blocks []tidemark.Block) {
	for _, b := range blocks {
		s.addText(b.Text)
		switch b.Type {
		case tidemark.BlockToolUse:
			s.addText(b.Name)
			s.addText(string(b.Input))
		case tidemark.BlockImage:
			s.tokens += tokensPerImage
		case tidemark.BlockFile:
			if strings.HasPrefix(b.MediaType, "text/") {
				s.tokens += len(b.Data) / bytesPerToken
			} else {
				s.tokens += tokensPerImage
			}
		}
		s.addBlocks(b.Blocks)
	}
}

func (s *size) addText(text string) {
	s.bytes += len(text)
	s.tokens += Tokens(text)
}

// EntryTokens estimates what an entry costs.
func EntryTokens(e tidemark.Entry) int {
	var s size
	s.add(e)
	return s.tokens
}

// Tokens estimates what a text costs.
func Tokens(text string) int {
	ascii, other := 0, 0
	for i := range len(text) {
		switch b := text[i]; {
		case b < 0x80:
			ascii++
		case b >= 0xc0: // the first byte of a character
			other++
		}
	}
	return (ascii+bytesPerToken-1)/bytesPerToken + other
}
