package tenant

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
)

// VerifyAudit reads the audit log of a tenant and returns its head and each
// fault in it. It checks the log itself, compares it with anchors, and with what
// servers recorded with each change, which is read from the places in from.
// There, a gap in the numbers of a boot means that a line was removed. Anchors
// of other tenants are ignored. The error is for what could not be checked.
func (d *Directory) VerifyAudit(ctx context.Context, tenant string, from []tidemark.Backend, anchors ...Anchor) (Anchor, []AuditFault, error) {
	v := auditVerifier{tenant: tenant, anchors: make(map[int64][]Anchor), chained: make(map[string][]chainedAct)}
	for _, a := range anchors {
		if a.Tenant == tenant {
			v.anchors[a.Length] = append(v.anchors[a.Length], a)
		}
	}
	s, _, err := d.segments(ctx, tenant)
	if err != nil {
		return v.head, v.faults, err
	}
	v.begin(s)
	for p, err := range d.auditRun(ctx, tenant, s, tidemark.Span{}) {
		if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
			return v.head, v.faults, err
		}
		log, l := p.log, p.line
		var b auditBody
		var did Audited
		if err == nil {
			b, did, err = auditLine(log, l)
		}
		// Anything besides the hashed fields was not written by us.
		if again, _ := records.Encode(b); err == nil && !bytes.Equal(again, l.Body) {
			err = &tidemark.Damage{Key: log, Seq: l.Seq, What: "it holds more than was written"}
		}
		v.line(p.seq, b, err)
		if err == nil && did.Boot != "" && len(from) > 0 {
			at := tidemark.ActLog("", tenant, did.Node, did.Boot).ID
			v.chained[at] = append(v.chained[at], chainedAct{did.N, p.seq, sumOf(b.Did)})
		}
	}
	for _, a := range anchors {
		if a.Tenant == tenant && a.Length > v.head.Length {
			v.fault(v.head.Length+1, "cut off: there were %d lines on %s", a.Length, a.At.Format(time.RFC3339))
			break
		}
	}
	v.head.Tenant, v.head.At = tenant, d.k.Now()
	for _, b := range from {
		if err := v.boots(ctx, b); err != nil {
			return v.head, v.faults, err
		}
	}
	v.gone()
	return v.head, v.faults, nil
}

// AuditReport is the result of verifying an audit log.
type AuditReport struct {
	Head      Anchor       `json:"head"`
	Unchained int          `json:"unchained" doc:"how many lines are written down and not chained yet"`
	Anchors   int          `json:"anchors" doc:"how many anchors it was compared with"`
	Faults    []AuditFault `json:"faults" nullable:"false"`
	Dropped   int64        `json:"dropped,omitempty" doc:"how many of the oldest lines were dropped because they were old enough"`
}

// ReportAudit is VerifyAudit with further figures for people. damaged is called
// for unchained lines that cannot be read; it may be nil.
func (d *Directory) ReportAudit(ctx context.Context, tenant string, from []tidemark.Backend, anchors []Anchor, damaged func(error)) (AuditReport, error) {
	fresh, err := d.unchainedLines(ctx, tenant, from, damaged)
	if err != nil {
		return AuditReport{}, err
	}
	s, _, err := d.segments(ctx, tenant)
	if err != nil {
		return AuditReport{}, err
	}
	head, faults, err := d.VerifyAudit(ctx, tenant, from, anchors...)
	return AuditReport{Head: head, Dropped: s.Base.Length, Unchained: len(fresh), Anchors: len(anchors), Faults: append([]AuditFault{}, faults...)}, err
}

// Summary is the first fault, and how many more there are; "" without any.
func (r AuditReport) Summary() string {
	if len(r.Faults) == 0 {
		return ""
	}
	text := r.Faults[0].What
	if n := len(r.Faults) - 1; n > 0 {
		text += fmt.Sprintf(" (and %d more, the last at line %d)", n, r.Faults[n].Seq)
	}
	return text
}

// String says what was found, where there are no faults.
func (r AuditReport) String() string {
	more := ""
	if r.Unchained > 0 {
		more = fmt.Sprintf(", and so are %d that are not chained yet", r.Unchained)
	}
	if r.Dropped > 0 {
		more += fmt.Sprintf("; %d older ones were dropped by retention, and the rest is chained to their end", r.Dropped)
	}
	return fmt.Sprintf("%d lines are as they were written, compared with %d anchors%s; the head is %s", r.Head.Length-r.Dropped, r.Anchors, more, cmp.Or(r.Head.Hash, "-"))
}

// NewestAudit returns the newest lines of the audit log of a tenant that match, oldest
// first, with the unchained ones last. damaged is called for those that
// cannot be read. It and match may be nil.
func (d *Directory) NewestAudit(ctx context.Context, tenant string, most int, match func(AuditLine) bool, from []tidemark.Backend, damaged func(error)) ([]AuditLine, error) {
	fresh, err := d.unchainedLines(ctx, tenant, from, damaged)
	if err != nil {
		return nil, err
	}
	if match == nil {
		match = func(AuditLine) bool { return true }
	}
	fresh = slices.DeleteFunc(fresh, func(l AuditLine) bool { return !match(l) })
	lines, err := readable(func(yield func(AuditLine, error) bool) {
		left := most
		for l, err := range d.AuditLines(ctx, tenant, tidemark.Span{Backwards: true}) {
			if err == nil && !match(l) {
				continue
			}
			if left--; !yield(l, err) || left == 0 {
				return
			}
		}
	}, damaged)
	if err != nil {
		return nil, err
	}
	slices.Reverse(lines)
	lines = append(lines, NotIn(fresh, lines)...)
	return lines[max(0, len(lines)-most):], nil
}

// unchainedLines returns the recorded lines that are not chained yet, oldest
// first.
func (d *Directory) unchainedLines(ctx context.Context, tenant string, from []tidemark.Backend, damaged func(error)) ([]AuditLine, error) {
	lines, err := readable(d.Unchained(ctx, tenant, from...), damaged)
	slices.SortStableFunc(lines, func(a, b AuditLine) int { return a.At.Compare(b.At) })
	return lines, err
}

// readable collects the lines that can be read.
func readable(lines iter.Seq2[AuditLine, error], damaged func(error)) ([]AuditLine, error) {
	all := []AuditLine{}
	for l, err := range lines {
		switch {
		case err == nil:
			all = append(all, l)
		case !errors.Is(err, tidemark.ErrCorrupt):
			return nil, err
		case damaged != nil:
			damaged(err)
		}
	}
	return all, nil
}

// begin has the chain begin where the log was cut, and takes the ends of its segments
// for anchors. An anchor from before the cut says nothing about what is left, but for
// the last line that was dropped.
func (v *auditVerifier) begin(s auditState) {
	v.head.Length, v.head.Hash, v.cut = s.Base.Length, s.Base.Hash, s.Base.Length > 0
	for _, a := range v.anchors[s.Base.Length] {
		if s.Base.Length > 0 && a.Hash != s.Base.Hash {
			v.fault(s.Base.Length, "what was dropped ended otherwise: it had another hash on %s", a.At.Format(time.RFC3339))
		}
	}
	next := s.Base.Length + 1
	for _, seg := range append(slices.Clone(s.Closed), s.Open) {
		if seg.First != next {
			v.fault(next, "removed: a segment that begins at line %d stands here", seg.First)
		}
		if next = seg.Last + 1; seg.Last > 0 {
			v.anchors[seg.Last] = append(v.anchors[seg.Last], Anchor{Tenant: v.tenant, Length: seg.Last, Hash: seg.Hash, At: seg.Ended})
		}
	}
}

// auditVerifier follows a chain.
type auditVerifier struct {
	tenant  string
	anchors map[int64][]Anchor
	chained map[string][]chainedAct // recorded by servers, and not compared yet
	head    Anchor
	lost    bool // the previous line could not be read
	cut     bool // the oldest lines were dropped
	faults  []AuditFault
}

// chainedAct is a line of the chain that a server had recorded before.
type chainedAct struct {
	n, seq int64
	sum    [8]byte
}

func sumOf(did []byte) [8]byte {
	sum := sha256.Sum256(did)
	return [8]byte(sum[:8])
}

func (v *auditVerifier) fault(seq int64, format string, args ...any) {
	v.faults = append(v.faults, AuditFault{Seq: seq, What: fmt.Sprintf(format, args...)})
}

// line checks the next line. After a fault it continues from what the line
// itself says, so that one fault is not reported for every line after it.
func (v *auditVerifier) line(seq int64, b auditBody, err error) {
	before := v.head.Hash
	switch {
	case err != nil:
		v.fault(seq, "changed: %s", err)
	case b.Seq > seq:
		v.fault(seq, "removed: line %d stands here", b.Seq)
	case b.Seq < seq:
		v.fault(seq, "inserted or moved: line %d stands here", b.Seq)
	case b.Prev != before && !v.lost:
		v.fault(seq, "not written after the line that stands before it: one of the two was replaced")
	case b.Hash != auditHash(v.tenant, b):
		v.fault(seq, "changed: its hash is another")
	}
	v.head.Length, v.head.Hash, v.lost = seq, b.Hash, err != nil
	for _, a := range v.anchors[seq] {
		if a.Hash != b.Hash {
			v.fault(seq, "replaced: it had another hash on %s", a.At.Format(time.RFC3339))
			break
		}
	}
}

// boots checks what servers recorded in one place.
func (v *auditVerifier) boots(ctx context.Context, b tidemark.Backend) error {
	for log, err := range actLogs(ctx, b, v.tenant+".") {
		if err != nil {
			return err
		}
		chained := make(map[int64]chainedAct, len(v.chained[log.ID]))
		for _, c := range v.chained[log.ID] {
			chained[c.n] = c
		}
		delete(v.chained, log.ID)
		last := int64(0)
		for l, err := range b.Lines(ctx, log) {
			if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
				return err
			}
			if last+1 < l.Seq && !(last == 0 && v.dropped(chained, l.Seq)) {
				v.missing(log, last+1, l.Seq-1, chained[last+1].seq)
			}
			maps.DeleteFunc(chained, func(n int64, _ chainedAct) bool { return n < l.Seq })
			last = l.Seq
			v.act(log, l, err, chained)
			delete(chained, l.Seq)
		}
		if len(chained) > 0 {
			v.missing(log, last+1, slices.Max(slices.Collect(maps.Keys(chained))), chained[last+1].seq)
		}
	}
	return nil
}

// dropped reports whether the lines of a run before n may be gone: they were chained in
// what was dropped of the log, and so nothing that is left tells of them.
func (v *auditVerifier) dropped(chained map[int64]chainedAct, n int64) bool {
	for c := range chained {
		if c < n {
			return false
		}
	}
	return v.cut
}

// gone reports boots that are chained and recorded nowhere.
func (v *auditVerifier) gone() {
	for _, id := range slices.Sorted(maps.Keys(v.chained)) {
		all, log := v.chained[id], tidemark.Key{Kind: tidemark.ActKind, ID: id}
		v.missing(log, all[0].n, all[len(all)-1].n, all[0].seq)
	}
}

// act compares a line that a server recorded with its chained form.
func (v *auditVerifier) act(log tidemark.Key, l tidemark.Line, err error, chained map[int64]chainedAct) {
	c, ok := chained[l.Seq]
	var did Audited
	if err == nil {
		did, err = Act{Log: log, N: l.Seq, body: l.Body}.did()
	}
	was := tidemark.ActLog(log.Kind, did.Tenant, did.Node, did.Boot)
	switch {
	case err != nil:
		v.fault(c.seq, "%s: changed: %s", named(log, l.Seq), err)
	case ok && sumOf(l.Body) != c.sum:
		v.fault(c.seq, "%s: changed: it is chained with another text", named(log, l.Seq))
	case was != log || did.N != l.Seq:
		v.fault(c.seq, "%s: inserted or moved: it was written as %s of tenant %s", named(log, l.Seq), named(was, did.N), did.Tenant)
	case did.Batch != l.Batch:
		v.fault(c.seq, "%s: changed: it was written with another batch", named(log, l.Seq))
	}
}

// missing reports lines that a server recorded and that are gone. seq is where
// the first of them is chained, 0 if it is not.
func (v *auditVerifier) missing(log tidemark.Key, first, last, seq int64) {
	when := "before it was chained"
	if seq > 0 {
		when = "after it was chained"
	}
	if first == last {
		v.fault(seq, "%s: missing: it was removed %s", named(log, first), when)
		return
	}
	v.fault(seq, "%s and on to %d: missing: %d lines were removed, the first %s", named(log, first), last, last-first+1, when)
}

// named says which line of which boot is meant.
func named(log tidemark.Key, n int64) string {
	_, node, boot, _ := log.Act()
	return fmt.Sprintf("line %d of boot %s of %s", n, boot, node)
}

// did reads what was done.
func (a Act) did() (did Audited, err error) {
	if err := json.Unmarshal(a.body, &did); err != nil {
		return did, &tidemark.Damage{Key: a.Log, Seq: a.N, What: err.Error()}
	}
	return did, nil
}
