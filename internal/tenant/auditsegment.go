package tenant

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
)

// An audit log is kept in segments, each a log of its own, so that old lines can be
// dropped and the rest still be verified: a record says where each segment begins and,
// once it is closed, by which hash it ends. What was dropped leaves its last hash as
// the anchor that the first line left is chained to. A log that was never divided is
// its own first segment, and needs no record.
//
// The record is a precondition of every line, so nobody adds to a segment that somebody
// else has closed.

// A segment is closed when it is so old, or so long: short enough to be dropped in one
// commit, and few enough for years of them to be one record.
const (
	segmentAge   = 30 * 24 * time.Hour
	segmentLines = 250_000
)

// auditState is which segments there are.
type auditState struct {
	// Base is the end of what was dropped; Length 0: nothing was.
	Base   Anchor         `json:"base,omitzero"`
	Closed []auditSegment `json:"closed,omitempty"`
	Open   auditSegment   `json:"open"`
}

// auditSegment is a run of lines. Those of the open one have no end yet.
type auditSegment struct {
	N     int64     `json:"n"`     // 0 is the log as it was before it was divided
	First int64     `json:"first"` // the number of its first line
	Begun time.Time `json:"begun,omitzero"`
	Last  int64     `json:"last,omitempty"`
	Hash  string    `json:"hash,omitempty"` // of the last line
	Ended time.Time `json:"ended,omitzero"`
}

// key is the log of a segment of a tenant.
func (s auditSegment) key(tenant string) tidemark.Key {
	if s.N == 0 {
		return auditKey(tenant)
	}
	return tidemark.Key{Kind: kindAudit, ID: fmt.Sprintf("%s.%08d", tenant, s.N)}
}

// before returns the end of what stands before the open segment.
func (s auditState) before() (length int64, hash string) {
	if n := len(s.Closed); n > 0 {
		return s.Closed[n-1].Last, s.Closed[n-1].Hash
	}
	return s.Base.Length, s.Base.Hash
}

func auditStateKey(tenant string) tidemark.Key {
	return tidemark.Key{Kind: kindAuditState, ID: tenant}
}

// segments returns the segments of an audit log, and the version of the record that
// says so.
func (d *Directory) segments(ctx context.Context, tenant string) (s auditState, version int64, err error) {
	s.Open.First = 1
	r, err := d.k.Get(ctx, auditStateKey(tenant), &s)
	return s, r.Version, err
}

// openHead returns the head of an audit log, given its segments, and how many lines the
// open one has.
func (d *Directory) openHead(ctx context.Context, tenant string, s auditState) (head Anchor, lines int64, err error) {
	head = Anchor{Tenant: tenant, At: d.k.Now()}
	head.Length, head.Hash = s.before()
	log := s.Open.key(tenant)
	for l, err := range d.k.Backend().Lines(ctx, log, tidemark.Span{Newest: 1}) {
		lines = l.Seq
		head.Length, head.Hash = s.Open.First-1+l.Seq, ""
		if err != nil {
			return head, lines, err
		}
		b, _, err := auditLine(log, l)
		if err != nil {
			return head, lines, err
		}
		head.Hash = b.Hash
	}
	return head, lines, nil
}

// roll closes the open segment when it is old or long, and returns the record that says
// so, or the precondition that it is as it was.
func (d *Directory) roll(tenant string, s *auditState, version int64, head Anchor, lines int64) (puts []tidemark.Record, require []tidemark.Precondition, err error) {
	key, now := auditStateKey(tenant), d.k.Now()
	long := now.Sub(s.Open.Begun) > segmentAge || lines >= segmentLines
	switch {
	case version == 0: // the first line, or one of a log from before there were segments
		s.Open.Begun = now
	case long && lines > 0 && head.Hash != "": // after a damaged line, later
		closed := s.Open
		closed.Last, closed.Hash, closed.Ended = head.Length, head.Hash, now
		s.Closed = append(slices.Clone(s.Closed), closed)
		s.Open = auditSegment{N: closed.N + 1, First: head.Length + 1, Begun: now}
	default:
		return nil, []tidemark.Precondition{{Key: key, Version: version}}, nil
	}
	p, err := records.Put(key, version, *s)
	return []tidemark.Record{p}, nil, err
}

// TrimAudit drops the segments of an audit log that ended before a time, and returns
// how many lines they had. What is left verifies as before, from the anchor on. The
// anchors beside the log go, too: the ends of segments stand for them.
func (d *Directory) TrimAudit(ctx context.Context, tenant string, before time.Time) (dropped int64, err error) {
	err = records.Retry(ctx, func() error {
		s, version, err := d.segments(ctx, tenant)
		if err != nil {
			return err
		}
		if err := d.closeOld(ctx, tenant, &s, before); err != nil {
			return err
		}
		n := 0
		b := tidemark.Batch{}
		for n < len(s.Closed) && s.Closed[n].Ended.Before(before) {
			b.Drops = append(b.Drops, s.Closed[n].key(tenant))
			n++
		}
		if n == 0 {
			return nil
		}
		last := s.Closed[n-1]
		dropped = last.Last - s.Base.Length
		s.Base = Anchor{Tenant: tenant, Length: last.Last, Hash: last.Hash, At: last.Ended}
		s.Closed = slices.Clone(s.Closed[n:])
		p, err := records.Put(auditStateKey(tenant), version, s)
		if err != nil {
			return err
		}
		b.Puts, b.Drops = []tidemark.Record{p}, append(b.Drops, anchorKey(tenant))
		_, err = d.k.Commit(ctx, b)
		return err
	})
	return dropped, err
}

// closeOld closes the open segment when its newest line is older than a time: nobody
// did anything since, so nobody else closes it.
func (d *Directory) closeOld(ctx context.Context, tenant string, s *auditState, before time.Time) error {
	log := s.Open.key(tenant)
	for l, err := range d.k.Backend().Lines(ctx, log, tidemark.Span{Newest: 1}) {
		if err != nil || !l.At.Before(before) {
			return err
		}
		b, _, err := auditLine(log, l)
		if err != nil {
			return err
		}
		closed := s.Open
		closed.Last, closed.Hash, closed.Ended = s.Open.First-1+l.Seq, b.Hash, l.At
		s.Closed = append(slices.Clone(s.Closed), closed)
		s.Open = auditSegment{N: closed.N + 1, First: closed.Last + 1, Begun: d.k.Now()}
	}
	return nil
}

// auditRun yields lines of an audit log across its segments, with their numbers in the
// whole log; log is where a line is.
func (d *Directory) auditRun(ctx context.Context, tenant string, s auditState, span tidemark.Span) iter.Seq2[auditPlace, error] {
	return func(yield func(auditPlace, error) bool) {
		head, _, err := d.openHead(ctx, tenant, s)
		if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
			yield(auditPlace{}, err)
			return
		}
		first, last := span.Of(head.Length)
		all := append(slices.Clone(s.Closed), s.Open)
		if span.Backwards {
			slices.Reverse(all)
		}
		for _, seg := range all {
			end := seg.Last
			if end == 0 {
				end = head.Length
			}
			from, to := max(first, seg.First), min(last, end)
			if from > to {
				continue
			}
			log := seg.key(tenant)
			for l, err := range d.k.Backend().Lines(ctx, log, tidemark.Span{From: from - seg.First + 1, To: to - seg.First + 1, Backwards: span.Backwards}) {
				if !yield(auditPlace{seg.First - 1 + l.Seq, log, l}, err) || err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
					return
				}
			}
		}
	}
}

// auditPlace is a line with its number in the whole log.
type auditPlace struct {
	seq  int64
	log  tidemark.Key
	line tidemark.Line
}
