package web

import (
	"iter"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// HomeView is the first page.
type HomeView struct {
	Days  int      `json:"days"`
	Zone  string   `json:"zone"`
	Spans []Choice `json:"-"`

	Running    []HomeSession `json:"running"`               // sessions that somebody writes to
	Asking     []HomeSession `json:"asking,omitempty"`      // those of them that wait for the viewer's answer
	Jobs       int           `json:"jobs"`                  // of the fleet that run
	Waiting    int           `json:"waiting"`               // calls that wait for an answer
	Failed     int           `json:"failed"`                // jobs since yesterday
	MoreFailed bool          `json:"more_failed,omitempty"` // there are more than Failed
	Gone       int           `json:"gone"`                  // sessions that their tools do not have any more

	Met   []Meeting `json:"met,omitempty"`
	Watch *Watch    `json:"watch,omitempty"` // nil: nobody knows

	Task   *Task         `json:"task,omitempty"` // the count under way
	Ready  bool          `json:"ready"`          // everything below is filled in
	Any    bool          `json:"any"`            // there are sessions
	Total  HomeRow       `json:"total"`
	Parts  []HomePart    `json:"parts"`
	Hours  []HomeHour    `json:"hours"`
	Heat   []HeatDay     `json:"heat"`
	Months []HomeMonth   `json:"months"`
	Top    []HomeSession `json:"top"`
}

// Waits is how much waits for the viewer's answer, in sessions and in the fleet.
func (v HomeView) Waits() int { return v.Waiting + len(v.Asking) }

// Meeting is a remote, and when it was last met.
type Meeting struct {
	Remote string    `json:"remote"`
	MetAt  time.Time `json:"met_at"`
}

// HomeSession is a session on the first page.
type HomeSession struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"` // as in links
	Title     string    `json:"title,omitempty"`
	Agent     string    `json:"agent,omitempty"`
	Project   string    `json:"project,omitempty"`
	UpdatedAt time.Time `json:"updated_at"`
	Used      Used      `json:"used"`
}

// HomeRow is what a part had in the chosen time.
type HomeRow struct {
	Name     string `json:"name,omitempty"`
	Path     string `json:"path"` // of its sessions
	Sessions int64  `json:"sessions"`
	Prompts  int64  `json:"prompts"`
	Tokens   int64  `json:"tokens"`
	tidemark.Cost
}

// Money is the cost for people; a dash if unknown.
func (r HomeRow) Money() string { return CostText(r.Cost) }

// HomePart is the rows of all tools, projects or models.
type HomePart struct {
	Name string    `json:"name"`
	Rows []HomeRow `json:"rows"`
	More int       `json:"more,omitempty"` // rows that are not listed
}

// Short is what a row is called on the page: a project by the last part of its path,
// and by the last two where another one ends alike.
func (p HomePart) Short(of HomeRow) string {
	if p.Name != "project" {
		return of.Name
	}
	return toldApart(of.Name, func(yield func(string) bool) {
		for _, other := range p.Rows {
			if !yield(other.Name) {
				return
			}
		}
	})
}

// toldApart is the last part of a path, or its last two where another one ends alike.
func toldApart(path string, among iter.Seq[string]) string {
	base := Base(path)
	for other := range among {
		if other != path && Base(other) == base {
			if above := strings.Trim(Base(strings.TrimSuffix(strings.TrimRight(path, `/\`), base)), `/\`); above != "" {
				return above + "/" + base
			}
		}
	}
	return base
}

// Most is the highest cost of a row, which the bars of the others are measured by.
func (p HomePart) Most() float64 {
	most := 0.0
	for _, r := range p.Rows {
		most = max(most, r.USD())
	}
	return most
}

// HomeHour is an hour of the day.
type HomeHour struct {
	Hour int    `json:"hour"`
	N    int64  `json:"prompts"`
	Part int    `json:"-"` // of 100 of the busiest
	Path string `json:"path"`
}

// HeatDay is a day of the heat map.
type HeatDay struct {
	Day      string `json:"day"`
	Sessions int64  `json:"sessions"`
	Prompts  int64  `json:"prompts"`
	Path     string `json:"path,omitempty"`
	Shade    int    `json:"-"` // 0: nothing
	X        int    `json:"-"` // the week
	Y        int    `json:"-"` // 0: Monday
	Month    string `json:"-"` // it begins with this day
}

// HomeMonth is a month of the heat map.
type HomeMonth struct {
	Name    string `json:"name"`
	Path    string `json:"path"`
	Prompts int64  `json:"prompts"`
	tidemark.Cost
}

// Money is the cost for people; a dash if unknown.
func (m HomeMonth) Money() string { return CostText(m.Cost) }
