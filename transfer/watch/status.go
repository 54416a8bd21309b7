package watch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/store"
)

// Report is what a watcher says about itself.
type Report struct {
	Homes []Event `json:"homes"`
	// Unheard says why there are no notifications at all; "": there are.
	Unheard string `json:"unheard,omitempty"`
	// Answered is what of Settings.Asked is done.
	Answered map[string]int64 `json:"answered,omitempty"`
}

// Status is what there is to know about the watching of a user on a machine.
type Status struct {
	Running     bool      `json:"running"`
	Watcher     string    `json:"watcher,omitempty"` // who it is
	Since       time.Time `json:"since,omitzero"`
	PausedUntil time.Time `json:"paused_until,omitzero"`
	Unheard     string    `json:"unheard,omitempty"`
	Added       []Added   `json:"added"`
	Ignored     []string  `json:"ignored"`
	StoreBytes  int64     `json:"store_bytes,omitempty"`
	MaxBytes    int64     `json:"max_bytes,omitempty"`
	Tools       []Tool    `json:"tools"`
}

// Tool is what is kept of the sessions of a tool.
type Tool struct {
	Tool      string    `json:"tool"`
	Sessions  int       `json:"sessions"`
	Entries   int64     `json:"entries"`
	Drafts    int       `json:"drafts"` // sessions with something that their tool may still change
	Gone      int       `json:"gone"`   // sessions that their tool does not have any more
	Trashed   int       `json:"trashed"`
	ChangedAt time.Time `json:"changed_at,omitzero"` // when a session of it was last changed
	Homes     []Event   `json:"homes"`               // as the watcher last reported them
}

// Status tells what is watched, and what is kept of it.
func (c *Control) Status(ctx context.Context, o Options) (Status, error) {
	settings, err := c.Settings(ctx)
	if err != nil {
		return Status{}, err
	}
	who, since, running, err := c.Watching(ctx)
	if err != nil {
		return Status{}, err
	}
	report, err := c.Report(ctx)
	if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
		return Status{}, err
	}
	st := Status{Running: running, PausedUntil: settings.PausedUntil, Unheard: report.Unheard, Added: append([]Added{}, settings.Added...), Ignored: append([]string{}, settings.Ignored...), MaxBytes: o.MaxBytes}
	if o.MaxBytes > 0 && o.StorePath != "" {
		st.StoreBytes = StoreBytes(o.StorePath)
	}
	if running {
		st.Watcher, st.Since = who.String(), since
	}
	tools := make(map[string]*Tool)
	of := func(name string) *Tool {
		if tools[name] == nil {
			tools[name] = &Tool{Tool: name, Homes: []Event{}}
		}
		return tools[name]
	}
	for _, e := range report.Homes {
		t := of(e.Tool)
		t.Homes = append(t.Homes, e)
	}
	for _, state := range []string{store.Live, store.Trash} {
		for i, err := range o.Opened.Store.Sessions(ctx, store.Filter{State: state}) {
			switch {
			case errors.Is(err, tidemark.ErrCorrupt):
				continue
			case err != nil:
				return st, err
			case i.Tool == "" || i.Owner != "":
				continue
			}
			t := of(i.Tool)
			if state == store.Trash {
				t.Trashed++
				continue
			}
			t.Sessions++
			t.Entries += i.Entries
			if i.Draft != nil {
				t.Drafts++
			}
			if !i.Gone.IsZero() {
				t.Gone++
			}
			if i.UpdatedAt.After(t.ChangedAt) {
				t.ChangedAt = i.UpdatedAt
			}
		}
	}
	st.Tools = []Tool{}
	for _, name := range slices.Sorted(maps.Keys(tools)) {
		st.Tools = append(st.Tools, *tools[name])
	}
	return st, nil
}

// lines says in a few lines whether somebody watches, and what holds it up.
func (s Status) lines(when func(time.Time) string) (lines []string) {
	lines = append(lines, "Nobody watches. Begin with: tidemark watch")
	if s.Running {
		lines = []string{fmt.Sprintf("%s watches, since %s", s.Watcher, when(s.Since))}
	}
	if until := s.PausedUntil; until.Equal(forever) {
		lines = append(lines, "paused; go on with: tidemark watch pause off")
	} else if until.After(time.Now()) {
		lines = append(lines, "paused until "+until.Local().Format(time.DateTime)+"; go on now with: tidemark watch pause off")
	}
	if s.Unheard != "" {
		lines = append(lines, "the system tells of no changes, folders are looked through: "+s.Unheard)
	}
	if s.MaxBytes > 0 {
		lines = append(lines, fmt.Sprintf("the store has %d of at most %d bytes", s.StoreBytes, s.MaxBytes))
	}
	for _, a := range s.Added {
		lines = append(lines, "also "+a.Path+" ("+a.Tool+")")
	}
	for _, path := range s.Ignored {
		lines = append(lines, "not "+path)
	}
	for _, t := range s.Tools {
		for _, h := range t.Homes {
			if h.State == Silent && s.Running {
				lines = append(lines, h.Path+" does not answer, since "+when(h.At)+": its disk may hang. The others are followed.")
			}
			if h.State == Reading && s.Running {
				lines = append(lines, h.Path+" is being read: a session in it is large. The others are followed.")
			}
			if h.Swept != "" {
				lines = append(lines, h.Path+" is looked through from time to time: "+h.Swept)
			}
			for _, problem := range h.Problems {
				lines = append(lines, h.Path+": "+problem)
			}
		}
	}
	for i := range lines {
		lines[i] = render.CleanLine(lines[i])
	}
	return lines
}

// Columns are the heads of the table that Print fills.
var Columns = []string{"TOOL", "SESSIONS", "ENTRIES", "DRAFTS", "GONE", "TRASHED", "CHANGED", "STATE", "LAG", "WHERE"}

// rows are a table of the tools, with a row for each home.
func (s Status) rows(when func(time.Time) string, abbreviate func(string) string) (rows [][]string) {
	for _, t := range s.Tools {
		changed := ""
		if !t.ChangedAt.IsZero() {
			changed = when(t.ChangedAt)
		}
		row := []string{t.Tool, fmt.Sprint(t.Sessions), fmt.Sprint(t.Entries), fmt.Sprint(t.Drafts), fmt.Sprint(t.Gone), fmt.Sprint(t.Trashed), changed}
		if len(t.Homes) == 0 {
			rows = append(rows, append(row, "", "", ""))
		}
		for _, h := range t.Homes {
			lag := ""
			if h.LagMS > 0 {
				lag = (time.Duration(h.LagMS) * time.Millisecond).String()
			}
			state := h.State
			if !s.Running {
				state = "not watched"
			}
			rows = append(rows, append(slices.Clip(row), state, lag, abbreviate(h.Path)))
			row = []string{t.Tool, "", "", "", "", "", ""}
		}
	}
	return rows
}

// Print prints the lines and the rows.
func (s Status) Print(w io.Writer, t *render.Table, when func(time.Time) string, abbreviate func(string) string) error {
	for _, line := range s.lines(when) {
		fmt.Fprintln(w, line)
	}
	for _, row := range s.rows(when, abbreviate) {
		t.Row(row...)
	}
	return t.Print(w)
}
