package web

import (
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/store"
)

// Every text in the views below was made harmless by the code that filled
// them in: characters that could hide or reorder text are written out.

// SessionsView is the list of sessions, or what a search found.
type SessionsView struct {
	Query   string `json:"query,omitempty"`
	Project string `json:"project,omitempty"`
	Agent   string `json:"agent,omitempty"`
	Label   string `json:"label,omitempty"`
	Since   string `json:"since,omitempty"`
	State   string `json:"state,omitempty"`
	Tool    string `json:"tool,omitempty"`
	Model   string `json:"model,omitempty"`
	Active  string `json:"active,omitempty"` // days in which something was said
	Until   string `json:"until,omitempty"`  // a day that is included
	Gone    string `json:"gone,omitempty"`   // yes: only what its tool does not have any more
	Role    string `json:"role,omitempty"`   // of a search
	Failed  string `json:"failed,omitempty"`
	Cost    string `json:"cost,omitempty"` // one of CostRanges

	Begin  bool   `json:"begin,omitempty"`  // the viewer may begin a session from here
	Folder string `json:"folder,omitempty"` // which works in this folder, if it has no project

	Sort     string         `json:"sort,omitempty"` // a column; "": the time of the last change
	Up       bool           `json:"up,omitempty"`   // the least first
	Totals   *Totals        `json:"totals,omitempty"`
	Task     *Task          `json:"task,omitempty"` // the count that the sorting waits for
	Facets   []FacetView    `json:"facets,omitempty"`
	Count    string         `json:"count,omitempty"` // where Facets are, when they take a while
	Costs    *FacetView     `json:"costs,omitempty"` // with Totals: the sessions by what they cost
	Sessions []SessionRow   `json:"sessions"`
	Found    []FoundSession `json:"found,omitempty"`
	Searched bool           `json:"searched,omitempty"`
	Called   *SessionRef    `json:"called,omitempty"`  // the one that has what was searched for as its id
	Problem  string         `json:"problem,omitempty"` // what is wrong with the query
	LeftOut  store.Count    `json:"left_out"`          // hits in what tools told the model
	Stopped  bool           `json:"stopped,omitempty"` // the search took too long
	Behind   int64          `json:"behind,omitempty"`  // entries not searched yet
	Damage   string         `json:"damage,omitempty"`  // what could not be searched

	Older  string `json:"older,omitempty"`  // the address of the next page
	Newest string `json:"newest,omitempty"` // the address of the first page, when this is not it
}

// Totals are sums over the sessions of a list.
type Totals struct {
	Sessions int64 `json:"sessions"`
	Turns    int64 `json:"turns"`
	Used
}

// FacetView is how many hits have each value of something, with an address that
// leaves only those.
type FacetView struct {
	Name    string       `json:"name"`
	Values  []FacetValue `json:"values"`
	More    int          `json:"more,omitempty"` // values that are not listed
	AtLeast bool         `json:"at_least,omitempty"`
}

// FacetValue is one value of a facet.
type FacetValue struct {
	Value string `json:"value"`
	N     int64  `json:"n"`
	Path  string `json:"path"`
	On    bool   `json:"on,omitempty"` // the search is narrowed to it; Path widens it again
}

// Short is what a project is called among the others that were found.
func (f FacetView) Short(project string) string {
	return toldApart(project, func(yield func(string) bool) {
		for _, other := range f.Values {
			if !yield(other.Value) {
				return
			}
		}
	})
}

// CostRanges are what sessions are told apart by that cost little and much, in
// dollars: from, and less than.
var CostRanges = []string{"0-0.1", "0.1-1", "1-10", "10-100", "100-"}

// CostRange is the range that a cost is in.
func CostRange(usd float64) string {
	for i := len(CostRanges) - 1; i > 0; i-- {
		from, _, _ := strings.Cut(CostRanges[i], "-")
		if least, err := strconv.ParseFloat(from, 64); err == nil && usd >= least {
			return CostRanges[i]
		}
	}
	return CostRanges[0]
}

// costRange names a range for people.
func costRange(value string) string {
	from, to, _ := strings.Cut(value, "-")
	dollars := func(text string) string { return "$" + strings.Replace(text, "0.1", "0.10", 1) }
	switch {
	case from == "0":
		return "< " + dollars(to)
	case to == "":
		return "≥ " + dollars(from)
	}
	return dollars(from) + "–" + dollars(to)
}

// shownFacets is how many values of a facet stand there before they are unfolded.
const shownFacets = 6

// First are the values that stand there at once, Rest those to unfold.
func (f FacetView) First() []FacetValue { return f.Values[:min(shownFacets, len(f.Values))] }

// Rest are the values behind First.
func (f FacetView) Rest() []FacetValue { return f.Values[min(shownFacets, len(f.Values)):] }

// Scoped reports whether the list is narrowed.
func (v SessionsView) Scoped() bool { return v.Query != "" || len(v.Scopes()) > 0 }

// columns are those of the list that it can be sorted by, and whether the largest
// comes first.
var columns = []struct {
	name    string
	largest bool
}{{"title", false}, {"project", false}, {"model", false}, {"turns", true}, {"tokens", true}, {"cost", true}, {"age", true}}

// Columns are the names of the columns that a list can be sorted by.
func Columns() []string {
	var all []string
	for _, c := range columns {
		all = append(all, c.name)
	}
	return all
}

// Column is a column of the list, and the order that a click on it leads to.
type Column struct {
	Name   string
	Number bool
	Sorted string // ascending, descending, or ""
	Order  string // up, down
}

// Columns are those of the list.
func (v SessionsView) Columns() []Column {
	var all []Column
	for _, c := range columns {
		col := Column{Name: c.name, Number: c.largest, Order: "up"}
		if c.largest {
			col.Order = "down"
		}
		if v.Sort == c.name || v.Sort == "" && c.name == "age" {
			col.Sorted, col.Order = "descending", "up"
			if v.Up {
				col.Sorted, col.Order = "ascending", "down"
			}
		}
		all = append(all, col)
	}
	return all
}

// Dearest is the highest cost in the list, which the bars of the others are
// measured by.
func (v SessionsView) Dearest() float64 {
	most := 0.0
	for _, r := range v.Sessions {
		most = max(most, r.Usage.USD())
	}
	return most
}

// rowsAtOnce is how many rows of a list are painted at first: one screen of them. The
// others come right after, from where a browser without a script has them anyway.
const rowsAtOnce = 16

// AtOnce are the sessions that are painted at first.
func (v SessionsView) AtOnce(whole bool) []SessionRow {
	if whole {
		return v.Sessions
	}
	return v.Sessions[:min(len(v.Sessions), rowsAtOnce)]
}

// Later are those that come after the first ones.
func (v SessionsView) Later(first []SessionRow) []SessionRow { return v.Sessions[len(first):] }

// RoomFor is the height of rows that are not there yet, as a length of CSS, so that
// what stands below them stays where it is.
func (SessionsView) RoomFor(rows []SessionRow) string {
	return "calc(" + strconv.Itoa(len(rows)) + " * 2.25rem)"
}

// Scope is one condition that narrows a list, and the address without it.
type Scope struct{ Name, Value string }

// Scopes are those of the list, except for the words and the state.
func (v SessionsView) Scopes() []Scope {
	var all []Scope
	for _, s := range []Scope{{"project", v.Project}, {"agent", v.Agent}, {"tool", v.Tool}, {"model", v.Model}, {"role", v.Role}, {"label", v.Label}, {"since", v.Since}, {"until", v.Until}, {"failed", v.Failed}, {"cost", v.Cost}, {"gone", v.Gone}, {"active", v.Active}} {
		if s.Value != "" {
			all = append(all, s)
		}
	}
	return all
}

// Choices are the distinct values of a column, to choose from.
func (v SessionsView) Choices(column string) []string {
	seen := make(map[string]bool)
	var all []string
	for _, r := range v.Sessions {
		value := map[string]string{"agent": r.Agent, "project": r.Project, "model": r.Model}[column]
		if value != "" && !seen[value] {
			seen[value] = true
			all = append(all, value)
		}
	}
	return all
}

// SessionRow is one session of the list.
type SessionRow struct {
	ID        string      `json:"id"`
	Name      string      `json:"name"` // as in links
	Title     string      `json:"title,omitempty"`
	Project   string      `json:"project,omitempty"`
	Agent     string      `json:"agent,omitempty"`
	Model     string      `json:"model,omitempty"`
	Tags      []string    `json:"tags,omitempty"`
	Turns     int64       `json:"turns"`
	Messages  int64       `json:"messages"`
	Usage     Used        `json:"usage"`
	UpdatedAt time.Time   `json:"updated_at"`
	State     string      `json:"state"`
	End       SessionEnd  `json:"end"`
	Base      *SessionRef `json:"base,omitempty"`
	Pinned    bool        `json:"pinned,omitempty"`
	OnHold    bool        `json:"on_hold,omitempty"`
	Gone      bool        `json:"gone,omitempty"`    // its tool does not have it any more
	Shared    bool        `json:"shared,omitempty"`  // it is another's
	Machine   string      `json:"machine,omitempty"` // another one that it was last written on
	Damage    string      `json:"damage,omitempty"`
}

// Reachable is something that the palette, or the list beside a session, leads
// to.
type Reachable struct {
	Path    string
	Text    string
	Agent   string // of a session, and what follows
	Project string
	Turns   int64
	At      time.Time // zero: it is a page
}

// Palette is what words lead to; Search is nil before there are any.
type Palette struct {
	Sessions []Reachable // by their names
	Places   []Reachable
	Said     []Reachable // sessions in which the words were said
	Search   *Reachable
}

// Pane is the list beside a session.
type Pane struct {
	Open     *Reachable // the session that is read, if it is none of those below
	Sessions []Reachable
	More     string // where the list goes on; "": this was all
}

// How a session ended, or that it did not.
const (
	EndLive        = "live"        // somebody writes to it
	EndAsks        = "asks"        // somebody writes to it, and waits for the viewer's answer
	EndCrashed     = "crashed"     // its writer died or fell silent
	EndInterrupted = "interrupted" // during the call of a tool
	EndUnanswered  = "unanswered"  // the user's last message has no answer
	EndAsleep      = "asleep"      // it is to be woken
	EndDone        = "done"        // with an answer
	EndEmpty       = "empty"       // nothing was said
	EndDamaged     = "damaged"     // the end cannot be read
)

// SessionEnd is how a session ended.
type SessionEnd struct {
	Kind string    `json:"kind"`
	Who  string    `json:"who,omitempty"` // live, asks, crashed: the holder; interrupted: the tool
	At   time.Time `json:"at,omitzero"`   // asleep: when it is woken, if known
	Why  string    `json:"why,omitempty"` // asleep: why it sleeps
}

// Tone is the class of the badge. The word beside it says the same.
func (e SessionEnd) Tone() string {
	switch e.Kind {
	case EndLive:
		return "live"
	case EndCrashed, EndDamaged:
		return "bad"
	case EndAsks, EndInterrupted, EndUnanswered:
		return "warn"
	}
	return ""
}

// Used is what a session used, as far as it was counted.
type Used struct {
	InputTokens  int64 `json:"input_tokens"`
	OutputTokens int64 `json:"output_tokens"`
	CacheTokens  int64 `json:"cache_tokens"`
	tidemark.Cost
	Partial bool `json:"partial,omitempty"` // not all of it is counted yet

	// Damaged is the first entry that could not be read while this was counted, 0 if there
	// is none, and DamagedIn the worker whose entry it is, "" for the session itself.
	Damaged   int64  `json:"damaged,omitempty"`
	DamagedIn string `json:"damaged_in,omitempty"`
}

// Money is the cost for people, "" when nothing was used.
func (u Used) Money() string {
	switch {
	case u.CostUSD == nil && u.UnpricedMessages == 0:
		return ""
	case u.CostUSD != nil && u.Partial:
		return "≥ " + Amount("cost", *u.CostUSD)
	}
	return CostText(u.Cost)
}

// Tokens are all of them.
func (u Used) Tokens() int64 { return u.InputTokens + u.OutputTokens + u.CacheTokens }

// SessionRef links to a session, or to an entry of one.
type SessionRef struct {
	ID    string `json:"id"`
	Name  string `json:"name,omitempty"` // as in links: with its owner before it, when that is another
	Title string `json:"title,omitempty"`
	Seq   int64  `json:"seq,omitempty"`
}

// FoundSession is a session in which something was found.
type FoundSession struct {
	SessionRef
	Project string      `json:"project,omitempty"`
	Agent   string      `json:"agent,omitempty"`
	At      time.Time   `json:"updated_at"`
	Hits    []FoundHit  `json:"hits"`
	More    store.Count `json:"more"` // hits that are not listed
}

// All is how many hits there are in the session, listed or not. That of the title is not
// one of them: it is on the page that lists the others.
func (f FoundSession) All() int64 {
	n := f.More.N
	for _, h := range f.Hits {
		if h.Seq > 0 || h.Draft {
			n++
		}
	}
	return n
}

// FoundHit is one thing that was found.
type FoundHit struct {
	Seq     int64     `json:"seq,omitempty"`
	Draft   bool      `json:"draft,omitempty"` // it is at the end of the session, and may still change
	Worker  string    `json:"worker,omitempty"`
	Role    string    `json:"role"`
	At      time.Time `json:"at"`
	Snippet []Piece   `json:"snippet"`
	Here    bool      `json:"here,omitempty"` // it is the one shown
	Find    string    `json:"-"`              // what its session is to be searched for
}

// Piece is a part of a text; Mark means that it matches the search.
type Piece struct {
	Text string `json:"text"`
	Mark bool   `json:"mark,omitempty"`
}
