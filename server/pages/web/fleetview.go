package web

import (
	"cmp"
	"html/template"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// The views of the fleet's pages. Text in them that came from elsewhere is
// clean: nothing in it acts, hides or reorders.

// FleetView is the page of the whole fleet.
type FleetView struct {
	Waiting   []ReviewItem   `json:"waiting"`
	Daemons   []DaemonItem   `json:"daemons"`
	Agents    []AgentItem    `json:"agents"`
	Schedules []ScheduleItem `json:"schedules"`
	Poll      Poll           `json:"-"`
}

// Poll is how a page keeps itself up to date: it reloads itself while
// something is in progress, and replaces its forms only when they changed, so
// that typing is not disturbed.
type Poll struct {
	Live    bool   // something is in progress
	State   string // of what the forms are about
	Changed bool   // the forms of the requesting page are outdated
	Path    string // address to reload
}

// DaemonItem is a process that runs the fleet.
type DaemonItem struct {
	Node      string    `json:"node"`
	PID       int       `json:"pid"`
	StartedAt time.Time `json:"started_at"`
}

// AgentItem is an agent with the machine that runs its job.
type AgentItem struct {
	tidemark.Agent
	Node string `json:"node,omitempty"`
}

// ScheduleItem is a schedule with its skipped runs.
type ScheduleItem struct {
	tidemark.Schedule
	Skips []SkipItem `json:"skips"`
	// Next is its next instant on the clock of its zone.
	Next string `json:"-"`
	// Rhythm is its interval, as short as possible.
	Rhythm string `json:"-"`
}

// SkipItem is an instant, or several in a row, that did not run.
type SkipItem struct {
	Instant time.Time `json:"instant"`
	Until   time.Time `json:"until,omitzero"`
	Count   int64     `json:"count"`
	Reason  string    `json:"reason"`
}

// ReviewItem is a tool call that waits for an answer.
type ReviewItem struct {
	Job     string    `json:"job"`
	Agent   string    `json:"agent"`
	Call    string    `json:"call"`
	Shown   string    `json:"shown"` // the digest of what is shown, which an approval names
	Tool    string    `json:"tool"`
	Title   string    `json:"title,omitempty"`
	Lines   []Line    `json:"lines"` // everything that would be done
	AskedAt time.Time `json:"asked_at"`
	UntilAt time.Time `json:"until_at,omitzero"`
}

// Line is one line that a person decides about: plain, added, removed or a
// marker, with a sign for its kind in front.
type Line struct {
	Kind string `json:"kind"`
	Sign string `json:"-"`
	Text string `json:"text"`
}

// JobItem is a job in a list.
type JobItem struct {
	tidemark.Job
	Took  time.Duration `json:"-"`               // until now while it runs
	Waits bool          `json:"waits,omitempty"` // a call of it waits for an answer
}

// lineLetters is how much of a text stands in a list.
const lineLetters = 140

// Asked is the beginning of what the job was asked.
func (j JobItem) Asked() string { return firstLine(j.Prompt) }

// Ended is the beginning of how it ended, in its own words.
func (j JobItem) Ended() string { return firstLine(cmp.Or(j.ErrorMessage, j.Summary)) }

func firstLine(text string) string {
	line, rest, _ := strings.Cut(strings.TrimSpace(text), "\n")
	if r := []rune(line); len(r) > lineLetters {
		return string(r[:lineLetters-1]) + "…"
	}
	if rest != "" {
		line += " …"
	}
	return line
}

// JobsView is the page of jobs: a list, or a picture with the same jobs in a
// table.
type JobsView struct {
	Items  []JobItem `json:"items"`
	Next   string    `json:"next,omitempty"`  // cursor
	Cut    bool      `json:"cut,omitempty"`   // the picture does not have all
	Drawn  int       `json:"drawn,omitempty"` // how many are in the picture; the table has the newest
	Agents []string  `json:"agents"`

	Agent  string `json:"agent,omitempty"`
	Status string `json:"status,omitempty"`
	Since  string `json:"since,omitempty"`
	View   string `json:"view"`
	By     string `json:"by,omitempty"`
	Cursor bool   `json:"-"` // it is not the first page
	Node   string `json:"node,omitempty"`
	OfBar  *OfBar `json:"of_bar,omitempty"`

	Timeline *Timeline `json:"timeline,omitempty"`
	Poll     Poll      `json:"-"`
}

// Link is the same view with some of it changed, from its first page on:
// names and values in turn, "" removes one.
func (v JobsView) Link(pairs ...string) string {
	view := v.View
	if view == "list" {
		view = ""
	}
	all := withQuery("/fleet/jobs", "agent", v.Agent, "status", v.Status, "since", v.Since, "view", view, "by", v.By, "node", v.Node)
	if v.OfBar != nil {
		all = withQuery(all, v.OfBar.query()...)
	}
	return withQuery(all, pairs...)
}

// NoNode stands for the jobs that no machine has, in the place of its name.
const NoNode = "-"

// OfBar is which jobs share a bar of the timeline: those that started from one instant
// to another, and run or do not.
type OfBar struct {
	From  time.Time     `json:"from"`
	To    time.Time     `json:"to"`
	Runs  bool          `json:"runs"`
	Under time.Duration `json:"under,omitempty"` // what they took less than; 0: any time
}

func (o OfBar) query() []string {
	runs, under := "no", ""
	if o.Runs {
		runs = "yes"
	}
	if o.Under > 0 {
		under = o.Under.String()
	}
	return []string{"started", o.From.UTC().Format(time.RFC3339Nano) + ".." + o.To.UTC().Format(time.RFC3339Nano), "runs", runs, "under", under}
}

// Has reports whether a job is one of them.
func (o OfBar) Has(j JobItem, now time.Time) bool {
	return !j.StartedAt.Before(o.From) && !j.StartedAt.After(o.To) && (j.Status == tidemark.JobRunning) == o.Runs && (o.Under == 0 || TookLess(j, o.Under, now))
}

// BarLink leads to the jobs that share a bar of a lane.
func (v JobsView) BarLink(lane string, b Bar) string {
	name := "agent"
	if v.By == "node" {
		name, lane = "node", cmp.Or(lane, NoNode)
	}
	v.OfBar = &OfBar{From: b.Job.StartedAt, To: b.Last, Runs: b.Runs, Under: b.Under}
	return v.Link("view", "", "by", "", name, lane)
}

// JobView is the page of one job.
type JobView struct {
	Job      JobItem      `json:"job"`
	Session  string       `json:"-"` // the session to link to, "" when it is not here
	Attempts []JobItem    `json:"attempts,omitempty"`
	Models   []ModelUsage `json:"models,omitempty"`
	Waiting  []ReviewItem `json:"waiting"`
	Output   OutputPart   `json:"output"`
	Poll     Poll         `json:"-"`
}

// ModelUsage is what a job used of one model.
type ModelUsage struct {
	Model string `json:"model"`
	tidemark.Usage
}

// OutputPart is a part of the output of a job or an agent.
type OutputPart struct {
	Events []EventItem `json:"events"`
	Length int64       `json:"length"`         // of all that there is
	First  int64       `json:"first"`          // seq of the first event here, 0: there is none
	Last   int64       `json:"last"`           // seq of the last one
	Newest bool        `json:"newest"`         // nothing follows it yet
	Raw    string      `json:"-"`              // address of a complete event; its number follows
	Path   string      `json:"path,omitempty"` // of the page, for the part before
}

// EventItem is one event of an output.
type EventItem struct {
	Seq   int64         `json:"seq"`
	Type  string        `json:"type"` // of tidemark.Event; damaged
	Kind  string        `json:"kind,omitempty"`
	At    time.Time     `json:"at"`
	Text  string        `json:"text,omitempty"`
	More  string        `json:"more,omitempty"` // folded text
	Bytes int           `json:"bytes,omitempty"`
	Cut   bool          `json:"cut,omitempty"`
	Raw   string        `json:"-"`
	HTML  template.HTML `json:"html,omitempty"` // a tool call, as package render writes it
}

// AgentView is the page of one agent.
type AgentView struct {
	Agent     AgentItem      `json:"agent"`
	Session   string         `json:"-"` // the session it continues, "" when it is not here
	Chat      bool           `json:"chat"`
	Waiting   []ReviewItem   `json:"waiting"`
	Schedules []ScheduleItem `json:"schedules"`
	Jobs      []JobItem      `json:"jobs"`
	Log       OutputPart     `json:"log"`
	Poll      Poll           `json:"-"`
}
