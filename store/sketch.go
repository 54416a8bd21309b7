package store

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
)

// Sketch is the Tree of a session for those who show a part of it. Of each node it
// knows the number, the parent, the label and whether the head is there, and which were
// written on another machine than the node before them; what else a node has is read
// when it is asked for.
type Sketch struct {
	Nodes []Node // in order of their numbers

	view  *View
	whole bool // all of each node is known
}

// Sketch returns the Tree of the session. Where the jumps of its log are known, little of the
// session is read, however long it is.
func (v *View) Sketch(ctx context.Context) (*Sketch, error) {
	s := &Sketch{view: v}
	ok, err := s.draw(ctx)
	if err == nil && !ok {
		s.whole = true
		s.Nodes, err = v.Tree(ctx)
	}
	return s, err
}

// draw makes nodes of which the place is known; ok is false where the session has to be read for that.
func (s *Sketch) draw(ctx context.Context) (ok bool, err error) {
	v := s.view
	if v.Base != nil {
		return false, nil
	}
	segments, err := v.trail(ctx)
	if err != nil {
		return false, err
	}
	head, err := v.head(ctx)
	if err != nil || head.Kind == "" || head.Position.Nodes == 0 {
		return false, err
	}
	if stayed, err := v.stayed(ctx); err != nil || !stayed {
		return false, err
	}
	var known jumps
	if head.Position.Depth != head.Seq {
		if known, _, err = v.s.readJumps(ctx, segments[0].log); err != nil || known.Many || head.Seq-known.UpTo > mostUnknown {
			return false, err
		}
		if known, ok, err = v.jumpsUpTo(ctx, segments, &segments[0], known, head.Seq); err != nil || !ok {
			return false, err
		}
	}
	s.Nodes = make([]Node, head.Position.Nodes)
	for i := range s.Nodes {
		s.Nodes[i].Number, s.Nodes[i].Parent = int64(i), int64(i)-1
	}
	if ok, err = s.branch(ctx, segments, &head, known.All); err != nil || !ok {
		return false, err
	}
	return s.name(ctx, segments)
}

// branch gives each node that begins with a jump its parent. ok is false where the jumps do not tell.
func (s *Sketch) branch(ctx context.Context, segments []segment, head *tidemark.Line, all []jump) (ok bool, err error) {
	marked := make(map[int64]int64) // by the seq of a marker, the count of nodes at what it points at
	for i, j := range all {
		before := j.Before
		if to, is := marked[j.Parent]; is {
			before = to
		}
		begins := j.Nodes - 1
		if j.Mark {
			// What comes next begins a node, and follows what the marker points at.
			begins++
			marked[j.At] = before
			next := min(j.At+1, head.Seq)
			if i+1 < len(all) && all[i+1].At == next {
				next = j.At
			}
			if ok, err = s.marks(ctx, segments, j.At, next); err != nil || !ok {
				return false, err
			}
			if next == j.At {
				continue
			}
		}
		if before < 0 || before > begins || begins >= int64(len(s.Nodes)) {
			return false, nil
		}
		s.Nodes[begins].Parent = before - 1
	}
	return true, nil
}

// marks reports whether at is a marker, and the entries behind it up to another one are none.
func (s *Sketch) marks(ctx context.Context, segments []segment, at, upTo int64) (ok bool, err error) {
	ok = true
	s.view.linesOf(ctx, segments, at, upTo, func(_ *segment, l *tidemark.Line, lineErr error) bool {
		if err = lineErr; err == nil {
			ok = l.Kind != tidemark.KindGap && (l.Kind == tidemark.KindBranch) == (l.Seq == at)
		}
		return ok && err == nil
	})
	if errors.Is(err, tidemark.ErrCorrupt) {
		return false, nil
	}
	return ok, err
}

// name says which nodes have labels, and where the head is.
func (s *Sketch) name(ctx context.Context, segments []segment) (ok bool, err error) {
	labels, err := s.view.Labels(ctx)
	if err != nil || len(labels) > mostJumps {
		return false, err
	}
	for _, seq := range slices.Sorted(maps.Keys(labels)) {
		n, err := s.at(ctx, segments, seq)
		if errors.Is(err, tidemark.ErrNotFound) {
			continue
		}
		if err != nil {
			return false, ignoreDamage(err)
		}
		if n >= 0 {
			s.Nodes[n].Label = labels[seq]
		}
	}
	tip, err := s.view.Head(ctx)
	if err != nil {
		return false, ignoreDamage(err)
	}
	n, err := s.at(ctx, segments, tip)
	if err != nil {
		return false, ignoreDamage(err)
	}
	if n >= 0 {
		s.Nodes[n].Current = true
	}
	return true, nil
}

// ignoreDamage is for who goes on by reading the session, which leaves out what is damaged.
func ignoreDamage(err error) error {
	if errors.Is(err, tidemark.ErrCorrupt) {
		return nil
	}
	return err
}

// at returns the number of the node that an entry is in, -1: none.
func (s *Sketch) at(ctx context.Context, segments []segment, seq int64) (int64, error) {
	l, err := s.view.line(ctx, segments, seq)
	if err != nil || l.Kind == tidemark.KindBranch || l.Position.Nodes > int64(len(s.Nodes)) {
		return -1, err
	}
	return l.Position.Nodes - 1, nil
}

// NodeAt returns the number of the node that an entry is in, -1: none.
func (s *Sketch) NodeAt(ctx context.Context, seq int64) (int64, error) {
	if s.whole {
		return numberAt(s.Nodes, seq), nil
	}
	segments, err := s.view.trail(ctx)
	if err != nil {
		return -1, err
	}
	return s.at(ctx, segments, seq)
}

// Describe reads the rest of some nodes, named by their place in Nodes.
func (s *Sketch) Describe(ctx context.Context, places []int) error {
	if s.whole {
		return nil
	}
	places = slices.Compact(slices.Sorted(slices.Values(places)))
	for len(places) > 0 {
		n := 1
		for n < len(places) && places[n] == places[0]+n {
			n++
		}
		from := int64(places[0])
		start := int64(1)
		if from > 0 {
			before, err := s.view.NodeEnd(ctx, from-1)
			if err != nil {
				return err
			}
			start = before + 1
		}
		nodes, _, _, err := s.view.readNodes(ctx, from, start, n)
		if err != nil {
			return err
		}
		for _, n := range nodes {
			if n.Number >= int64(len(s.Nodes)) {
				break // it has grown since
			}
			to := &s.Nodes[n.Number]
			n.Parent, n.Label, n.Current = to.Parent, to.Label, to.Current
			*to = n
		}
		places = places[n:]
	}
	return nil
}

// stayed reports whether all of the session was written on this machine.
func (v *View) stayed(ctx context.Context) (bool, error) {
	if v.Owner != "" {
		return true, nil
	}
	m, err := v.s.Machines(ctx)
	if err != nil || m.This == "" {
		return err == nil, err
	}
	var o records.Origins
	if _, err = v.s.Records().Get(ctx, records.OriginsKey(v.ID, v.worker), &o); err != nil {
		return false, ignoreDamage(err)
	}
	return len(o.Markers) == 0 && !slices.ContainsFunc(o.Runs, func(r records.Run) bool { return r.Born && m.one(r.Machine) != m.This }), nil
}
