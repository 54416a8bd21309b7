package transfer

import (
	"fmt"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// given says what a person, or who starts the tool, has to do with what was written.
func (h *handover) given(to *Handed) {
	how := h.tool.Handover
	if to.Note = how.Note; how.Load != nil && h.file != "" {
		to.Load = how.Load(h.home.full(h.file))
	}
}

// Lines tells people what became of a session, which they call by a name, in a
// folder.
func (h Handed) Lines(t convert.Tool, session, folder string) []string {
	if h.Before && len(h.Load) == 0 {
		return []string{fmt.Sprintf("%s has session %s already, as %s.", t.Title, session, h.ForeignID)}
	}
	all := []string{fmt.Sprintf("Handed session %s over to %s as %s. What is said there comes back with: tidemark import %s", session, t.Title, h.ForeignID, folder)}
	if len(h.Load) > 0 {
		all = append(all, t.Title+" takes it in with: "+strings.Join(h.Load, " "))
	}
	if h.Note != "" {
		all = append(all, h.Note)
	}
	return all
}

// newID makes an id for a session that a tool is given.
func newID(t convert.Tool) string {
	if t.Handover != nil && t.Handover.NewID != nil {
		return t.Handover.NewID()
	}
	return string(tidemark.NewSessionID())
}

// inNames returns what of an id is in the names of a tool's files.
func inNames(t convert.Tool, id string) string {
	if t.Handover != nil && t.Handover.InNames != nil {
		return t.Handover.InNames(id)
	}
	return id
}
