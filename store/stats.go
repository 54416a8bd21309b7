package store

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// Tally is one row of Count: the sums for everything, or for one day, model,
// agent or project.
type Tally struct {
	Name             string `json:"name"` // a day, a model, an agent, a project
	Sessions         int64  `json:"sessions"`
	Turns            int64  `json:"turns"`
	Messages         int64  `json:"messages"`
	InputTokens      int64  `json:"input_tokens"`
	OutputTokens     int64  `json:"output_tokens"`
	CacheReadTokens  int64  `json:"cache_read_tokens"`
	CacheWriteTokens int64  `json:"cache_write_tokens"`
	tidemark.Cost

	last tidemark.SessionID // the session that was counted last
}

// Counting are the options of Count.
type Counting struct {
	By    string         // "day", "model", "agent" or "project": a row for each; "": one row
	Zone  *time.Location // the time zone of the days; nil: UTC
	Since time.Time
	// Damaged is called with the error of whatever cannot be read and is left
	// out. If it is nil, Count returns the first such error.
	Damaged func(error)
	// Progress, unless it is nil, is called now and then with what was counted
	// so far.
	Progress func(sessions, entries int)
}

// part returns a function that names the row an entry is counted in.
func (c Counting) part() (func(Owned) string, error) {
	switch c.By {
	case "":
		return func(Owned) string { return "" }, nil
	case "day":
		zone := cmp.Or(c.Zone, time.UTC)
		return func(o Owned) string { return o.At.In(zone).Format(time.DateOnly) }, nil
	case "agent":
		return func(o Owned) string { return o.Session.Agent }, nil
	case "project":
		return func(o Owned) string { return o.Session.Project }, nil
	case "model":
		// Prompts and tool results name no model: they count for the session's.
		return func(o Owned) string { return cmp.Or(o.Model, o.Session.Model) }, nil
	}
	return nil, tidemark.Invalidf("by %.40q: want day, model, agent or project", c.By)
}

// Count adds up the messages, tokens and cost of the entries that Own yields.
// Days are sorted by time, other rows by their number of tokens.
func (s *Store) Count(ctx context.Context, c Counting) ([]*Tally, error) {
	part, err := c.part()
	if err != nil {
		return nil, err
	}
	var rows []*Tally
	byName := make(map[string]*Tally)
	var session *Info
	sessions, entries := 0, 0
	for o, err := range s.Own(ctx, c.Since) {
		if errors.Is(err, tidemark.ErrCorrupt) && c.Damaged != nil {
			c.Damaged(err)
			continue
		}
		if err != nil {
			return nil, err
		}
		if o.Session != session {
			session = o.Session
			sessions++
		}
		if entries++; entries%256 == 0 && c.Progress != nil {
			c.Progress(sessions, entries)
		}
		if structural(o.Entry) {
			continue
		}
		name := part(o)
		t := byName[name]
		if t == nil {
			t = &Tally{Name: name}
			byName[name] = t
			rows = append(rows, t)
		}
		s.Tally(t, o)
	}
	sortTallies(rows, c.By)
	return rows, nil
}

// Tally adds one entry to t. Callers pass all entries of a session before those
// of the next one, or sessions are counted twice.
func (s *Store) Tally(t *Tally, o Owned) {
	if t.last != o.Session.ID {
		t.last = o.Session.ID
		t.Sessions++
	}
	if o.Kind == tidemark.KindMessage {
		t.Messages++
	}
	if o.Role == tidemark.User {
		t.Turns++
	}
	if u := o.Usage; u != nil {
		t.InputTokens = plus(t.InputTokens, u.InputTokens)
		t.OutputTokens = plus(t.OutputTokens, u.OutputTokens)
		t.CacheReadTokens = plus(t.CacheReadTokens, u.CacheReadTokens)
		t.CacheWriteTokens = plus(t.CacheWriteTokens, u.CacheWriteTokens)
		s.AddCost(&t.Cost, o.Session.Session, o.Entry)
	}
}

// Used sums up what a session used, with all its branches and without what a fork
// shares with its source. It reads the whole log; damaged entries are left out.
func (v *View) Used(ctx context.Context) (Tally, error) {
	var used Tally
	own := int64(1)
	if v.Base != nil {
		own = v.Base.Seq + 1
	}
	for e, err := range v.LogRange(ctx, own, v.Entries) {
		if err == nil {
			v.s.Tally(&used, Owned{Session: &v.Info, Entry: e})
		} else if !errors.Is(err, tidemark.ErrCorrupt) {
			return used, err
		}
	}
	return used, nil
}

// plus adds counts from imported sessions, which may hold anything: a negative b
// counts as 0, and a sum that overflows is the largest number.
func plus(a, b int64) int64 {
	b = max(b, 0)
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// Tokens is the sum of all kinds of tokens.
func (t *Tally) Tokens() int64 {
	return plus(plus(t.InputTokens, t.OutputTokens), plus(t.CacheReadTokens, t.CacheWriteTokens))
}

// sortTallies sorts days by time, and everything else by tokens.
func sortTallies(rows []*Tally, by string) {
	slices.SortFunc(rows, func(a, b *Tally) int {
		if by != "day" {
			if c := cmp.Or(cmp.Compare(b.Tokens(), a.Tokens()), cmp.Compare(b.Messages, a.Messages)); c != 0 {
				return c
			}
		}
		return strings.Compare(a.Name, b.Name)
	})
}
