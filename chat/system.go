package chat

import (
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/instructions"
)

// A system prompt is an entry. It consists of the prompt itself, of the
// instructions that were read from files, and of core memory, in this order: the
// last two are replaced when they change, and the mark of the entry says how long
// each is.

// systemMark is what the entry of a system prompt holds in addition to the
// text.
type systemMark struct {
	Memory       int                   `json:"memory,omitempty"`       // bytes of core memory at its end
	Instructions int                   `json:"instructions,omitempty"` // bytes of instructions before that
	Files        []instructions.Source `json:"files,omitempty"`        // that the instructions are from
	Only         []string              `json:"only,omitempty"`         // the tools of a worker that may not have all
	Without      []string              `json:"without,omitempty"`      // the tools that it does not have
}

// opening is what a thread keeps before a message: the tools offered to the
// model, and its system prompt, unless it has them as they are now. The notice
// says what changed, for people.
func (t *thread) opening() (entries []tidemark.Entry, notice string) {
	if t.tools == nil || t.hasNewTool() {
		entries = append(entries, t.toolsEntry())
	}
	if t.system == nil {
		var parts []string
		for _, p := range []string{t.c.o.System, t.prompt, dataRule} {
			if p != "" {
				parts = append(parts, p)
			}
		}
		return append(entries, t.systemEntry(strings.Join(parts, "\n\n"), t.c.InstructionsNow())), ""
	}
	if t.worker != "" || t.c.o.Instructions == nil {
		return entries, ""
	}
	now := t.c.InstructionsNow()
	changed := instructions.Difference(t.c.Instructions(), now.Sources())
	if changed == "" {
		return entries, ""
	}
	text, _ := splitSystem(*t.system)
	return append(entries, t.systemEntry(text, now)), "Instructions of the project are new to this session: " + changed + ". The agent is told."
}

// InstructionsNow reads the instructions as the files are now; the model is told
// them with the next message.
func (c *Chat) InstructionsNow() instructions.Set {
	if c.o.Instructions == nil {
		return instructions.Set{}
	}
	return c.withListing(c.o.Instructions())
}

// systemEntry is a system prompt with instructions and core memory at its end.
func (t *thread) systemEntry(text string, read instructions.Set) tidemark.Entry {
	told := read.Text()
	if told != "" {
		told = "\n\n" + told
	}
	return t.systemOf(text, told, read.Sources())
}

// systemOf is a system prompt of these parts, with core memory at its end.
func (t *thread) systemOf(text, told string, files []instructions.Source) tidemark.Entry {
	memory := t.c.memory()
	e := tidemark.Say(tidemark.System, text+told+memory)
	e.Extra = mark(systemMark{Memory: len(memory), Instructions: len(told), Files: files, Only: t.only, Without: t.without})
	return e
}

// splitSystem returns the system prompt of an entry, and its instructions. An
// entry of another program has none.
func splitSystem(e tidemark.Entry) (text, told string) {
	text = e.Text()
	m := markOf[systemMark](e)
	cut := func(n int) (end string) {
		if n < 0 || n > len(text) {
			return ""
		}
		text, end = text[:len(text)-n], text[len(text)-n:]
		return end
	}
	cut(m.Memory)
	return text, cut(m.Instructions)
}

// renewed returns the system prompt with core memory as it is now, and whether
// that changed. It is sent anew only where the provider's cache is lost
// anyway.
func (t *thread) renewed() (tidemark.Entry, bool) {
	if t.system == nil {
		return tidemark.Entry{}, false
	}
	text, told := splitSystem(*t.system)
	e := t.systemOf(text, told, markOf[systemMark](*t.system).Files)
	return e, e.Text() != t.system.Text()
}

// Instructions returns the files whose instructions the model was told; before
// the first message, those that it would be told.
func (c *Chat) Instructions() []instructions.Source {
	c.mu.Lock()
	system := c.system
	c.mu.Unlock()
	if system == nil {
		return c.InstructionsNow().Sources()
	}
	return markOf[systemMark](*system).Files
}
