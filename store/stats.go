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

// Tally is what was counted, of everything or of one part of it.
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

// Counting says what to count.
type Counting struct {
	By    string         // a row for each day, model, agent or project; "": one row
	Zone  *time.Location // whose days are meant; nil: UTC
	Since time.Time
	// Damaged is told of each thing that cannot be read and is left out; nil:
	// the first of them is the error of Count.
	Damaged func(error)
	// Progress, when it is not nil, is told how far the counting is.
	Progress func(sessions, entries int)
}

// part returns which part an entry belongs to.
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
		// Who asked, and what tools said, counts for who answers.
		return func(o Owned) string { return cmp.Or(o.Model, o.Session.Model) }, nil
	}
	return nil, tidemark.Invalidf("by %.40q: want day, model, agent or project", c.By)
}

// Count adds up what was said and what it cost, as Own yields it: days by
// time, everything else by size.
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

// Tally counts one entry. The entries of a session come one after another.
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

// plus adds what a stranger may have written: nothing is taken away, and a sum
// that is too large stays the largest.
func plus(a, b int64) int64 {
	b = max(b, 0)
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// Tokens is all kinds of tokens together.
func (t *Tally) Tokens() int64 {
	return plus(plus(t.InputTokens, t.OutputTokens), plus(t.CacheReadTokens, t.CacheWriteTokens))
}

// sortTallies orders days by time, everything else by size.
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
