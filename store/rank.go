package store

import (
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark"
)

// A search answers in ranks: what people look for first comes first, and within
// a rank what is newest. Without ranks the newest tool output and the prompts
// that tools write themselves would stand before what was said.

// rank is a class of hits. Every hit of one rank comes before those of the next.
type rank int

const (
	rankTitle   rank = iota // titles of sessions
	rankSaid                // what people and models said, and labels and tags
	rankOther               // results of tools, notices, events and anything else
	rankContext             // what tools told the model: context, system texts, summaries; only when it is asked for
	ranks
)

// The values of Question.Role beside the four roles of messages.
const (
	RoleAny        = "any"                   // everything, also what is left out otherwise
	RoleContext    = tidemark.KindContext    // what a tool told the model beside what the person said
	RoleCompaction = tidemark.KindCompaction // summaries
	RoleTitle      = noteTitle
	RoleLabel      = NoteLabel
	RoleTag        = noteTag
)

// Roles are the values that Question.Role may have, "" aside, beside the kinds of
// entries that tools bring with them: whatever a facet tells can be asked for.
var Roles = []string{string(tidemark.System), string(tidemark.User), string(tidemark.Assistant), string(tidemark.Tool),
	RoleContext, RoleCompaction, RoleTitle, RoleLabel, RoleTag, RoleAny}

// checkRole refuses a role that nothing has: one that is not of Roles, of which
// nothing was found either, is more likely a slip than a kind of some tool.
func (h *hunt) checkRole() error {
	q, a := &h.q, &h.answer
	if q.Role == "" || slices.Contains(Roles, q.Role) || len(a.Found) > 0 || q.After != "" || a.Cut() || a.Behind > 0 {
		return nil
	}
	return tidemark.Invalidf("role %.40q: want one of %s", q.Role, strings.Join(Roles, ", "))
}

// The kinds of lines of two ranks; all others are of rankOther. A user's message
// may also be context, which only its text can tell.
var (
	saidKinds    = []string{string(tidemark.User), string(tidemark.Assistant), tidemark.KindCommand, NoteLabel, noteTag}
	contextKinds = []string{string(tidemark.System), tidemark.KindContext, tidemark.KindCompaction}
)

// rankOf returns the rank of an entry or note that the query matches, by the kind
// of its line. A user's message in which only the text that a tool added matches
// is context.
func (q *Question) rankOf(kind string, e tidemark.Entry) rank {
	switch {
	case kind == noteTitle:
		return rankTitle
	case slices.Contains(contextKinds, kind):
		return rankContext
	case !slices.Contains(saidKinds, kind):
		return rankOther
	case kind == string(tidemark.User) && (e.Context() || !q.matchesSaid(e)):
		return rankContext
	}
	return rankSaid
}

// matchesSaid reports whether what the person said of a user's message matches
// without what the tool added.
func (q *Question) matchesSaid(e tidemark.Entry) bool {
	var said tidemark.Entry
	added := false
	for _, b := range e.Blocks {
		if b.Type == tidemark.BlockText {
			text, context := tidemark.Spoken(b.Text)
			if len(context) > 0 {
				b.Text, added = text, true
			}
		}
		said.Blocks = append(said.Blocks, b)
	}
	return !added || q.Match(said)
}

// wants reports whether a hit of a rank, whose line is of a kind, is asked for.
func (q *Question) wants(kind string, r rank) bool {
	switch q.Role {
	case "":
		return r != rankContext
	case RoleAny:
		return true
	case RoleContext:
		return r == rankContext && kind != string(tidemark.System) && kind != tidemark.KindCompaction
	case string(tidemark.User):
		return kind == q.Role && r != rankContext
	}
	return kind == q.Role
}

// leavesOut reports whether a hit that is not wanted is one to tell about.
func (q *Question) leavesOut(kind string, r rank) bool {
	return r == rankContext && (q.Role == "" || q.Role == string(tidemark.User) && kind == q.Role)
}

// ranks returns those in which there may be hits, in order.
func (q *Question) ranks() []rank {
	switch q.Role {
	case "":
		return []rank{rankTitle, rankSaid, rankOther}
	case RoleAny:
		return []rank{rankTitle, rankSaid, rankOther, rankContext}
	case RoleTitle:
		return []rank{rankTitle}
	case string(tidemark.System), RoleContext, RoleCompaction:
		return []rank{rankContext}
	}
	if slices.Contains(saidKinds, q.Role) {
		return []rank{rankSaid}
	}
	return []rank{rankOther}
}

// kinds returns which kinds of lines may hold hits of a rank: one of these, or,
// when there are none, none of those.
func (q *Question) kinds(r rank) (in, notIn []string) {
	switch r {
	case rankTitle:
		return []string{noteTitle}, nil
	case rankSaid:
		in = saidKinds
	case rankContext:
		in = append([]string{string(tidemark.User)}, contextKinds...)
	case rankOther:
		if q.Role == "" || q.Role == RoleAny {
			return nil, slices.Concat(saidKinds, contextKinds)
		}
		return []string{q.Role}, nil
	}
	switch {
	case q.Role == RoleContext:
		return []string{string(tidemark.User), tidemark.KindContext}, nil
	case slices.Contains(in, q.Role):
		return []string{q.Role}, nil
	}
	return in, nil
}
