package claudecode

import (
	"context"
	"encoding/json"
	"io/fs"
	"maps"
	"slices"
	"time"

	"github.com/tidemark-sessions/tidemark/convert"
)

// A later reading of a transcript that grew goes on before a record. There are no
// notes that wait for it, no entry has records before and after it, and nothing
// before it may change; what the answers before it cost may become known later.

// point is what is known there.
type point struct {
	Title    [3]string      `json:"title"`
	Model    string         `json:"model,omitempty"`
	Project  string         `json:"project,omitempty"`
	Version  string         `json:"version,omitempty"`
	Created  time.Time      `json:"created,omitzero"`
	Updated  time.Time      `json:"updated,omitzero"`
	Own      time.Time      `json:"own,omitzero"`
	Requests int            `json:"requests,omitempty"`
	Dropped  int            `json:"dropped,omitempty"`
	Last     time.Time      `json:"last,omitzero"` // of the last entry
	Memory   convert.Memory `json:"memory"`

	Stated  map[string]statement `json:"stated,omitempty"`
	Billed  json.RawMessage      `json:"billed"`            // a Memory
	Open    []openAnswer         `json:"open,omitempty"`    // answers without a statement
	Unknown bool                 `json:"unknown,omitempty"` // there are some that are not among them
	Settled string               `json:"settled,omitempty"` // the entry of the newest answer with one
	Cost    float64              `json:"cost,omitempty"`    // of that

	at convert.Mark
}

// openAnswer is an answer.
type openAnswer struct {
	ID     string  `json:"id"`
	Entry  string  `json:"entry"`
	Model  string  `json:"model"`
	Weight float64 `json:"weight"`
}

// candidate is a place at which a later reading may go on, with what the first
// reading knew there.
type candidate struct {
	n     int
	at    convert.Mark
	about point
	open  []answer
	bills int // how many answers the bill had seen
}

// maxPoints bounds the candidates that are remembered: only the last ones can turn
// out to be inside of an entry.
const maxPoints = 64

// maxOpen bounds the answers without a statement in a point.
const maxOpen = 1000

// candidate notes that a later reading may go on before a record.
func (o *outline) candidate(it item, requests, dropped int) {
	if len(it.before) > 0 {
		return
	}
	if len(o.points) >= maxPoints {
		o.points = slices.Delete(o.points, 1, maxPoints/2)
	}
	b := o.bill
	c := candidate{n: it.n, at: it.line, open: slices.Clip(b.open), bills: b.seen.Len()}
	c.about = point{Title: o.title, Model: o.model, Project: o.project, Version: o.version, Created: o.created, Updated: o.updated, Own: o.own,
		Requests: requests, Dropped: dropped, Stated: b.stated, Unknown: b.unknown, Cost: b.costs[b.last]}
	if c.about.Settled = b.names[b.last]; b.last >= 0 && int(b.last) < len(o.uuids) && c.about.Cost > 0 {
		c.about.Settled = o.uuid(b.last)
	}
	o.points = append(o.points, c)
}

// dropPoints forgets the candidates inside of an entry.
func (o *outline) dropPoints(lead int) {
	for len(o.points) > 0 && o.points[len(o.points)-1].n > lead {
		o.points = o.points[:len(o.points)-1]
	}
}

// marker marks the last place at which a later reading can go on, nil if there is
// none.
func (o *outline) marker() *convert.Marker {
	o.dropPoints(o.drafts)
	if len(o.points) == 0 || len(o.asides) > 0 {
		return nil
	}
	last := o.points[len(o.points)-1]
	if last.n == 0 || len(last.open) > maxOpen && len(last.about.Stated) > 0 {
		return nil
	}
	last.billed(o)
	o.points = []candidate{last}
	return &convert.Marker{End: last.at}
}

// billed completes a candidate with what the bill has of it.
func (c *candidate) billed(o *outline) {
	p := &c.about
	p.Billed, _ = o.bill.seen.Until(c.bills) // names alone always marshal
	if len(p.Stated) == 0 {
		p.Unknown = p.Unknown || len(c.open) > 0
	} else {
		for _, a := range c.open {
			entry := o.bill.names[a.lead]
			if a.lead >= 0 {
				entry = o.uuid(a.lead)
			}
			p.Open = append(p.Open, openAnswer{o.texts.Text(a.id), entry, o.texts.Text(a.model), a.weight})
		}
	}
	c.open = nil
}

// point completes what is known at a candidate with what the second reading knows
// there.
func (c candidate) point(b *builder) point {
	p := c.about
	p.Last, p.Memory = b.last, *b.mem
	return p
}

// copy returns a point for another reading.
func (p *point) copy() *point {
	c := *p
	c.Memory = *p.Memory.Clone()
	return &c
}

// restore has an outline go on at the point.
func (p *point) restore(o *outline) {
	o.title, o.model, o.project, o.version, o.created, o.updated, o.own = p.Title, p.Model, p.Project, p.Version, p.Created, p.Updated, p.Own
	b := o.bill
	b.names, b.unknown = make(map[int32]string), p.Unknown
	if err := json.Unmarshal(p.Billed, &b.seen); err != nil {
		b.missed = true
	}
	if p.Stated != nil {
		b.stated = maps.Clone(p.Stated)
	}
	b.last = -int32(len(p.Open)) - 1
	if p.Settled != "" {
		b.names[b.last], b.costs[b.last] = p.Settled, p.Cost
	}
	for i, a := range p.Open {
		lead := int32(i - len(p.Open))
		b.names[lead] = a.Entry
		b.open = append(b.open, answer{b.texts.Intern(a.ID), b.texts.Intern(a.Model), lead, a.Weight})
	}
	b.before = len(b.open)
}

// late is what answers before those that were read cost, by entry.
func (b *bill) late() map[string]float64 {
	costs := make(map[string]float64)
	for lead, entry := range b.names {
		if cost, ok := b.costs[lead]; ok {
			costs[entry] = cost
		}
	}
	return costs
}

// goOn reads what was added to a transcript. convert.ErrWhole: that takes a reading
// of all of it.
func (src source) goOn(ctx context.Context, fsys fs.FS) (*convert.Session, error) {
	var p point
	if json.Unmarshal(src.growth.State, &p) != nil || src.growth.Beside && src.helped(fsys) {
		return nil, convert.ErrWhole
	}
	p.at = src.growth.Mark
	s, err := src.read(ctx, fsys, &p)
	if err != nil {
		return nil, err
	}
	whole := src
	whole.growth = nil
	s.From, s.Whole = &src.growth.Bookmark, func() (*convert.Session, error) { return whole.read(ctx, fsys, nil) }
	return s, nil
}
