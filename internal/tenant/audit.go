package tenant

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"iter"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark/internal/text"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
)

// The audit log says who did what, and never what was said. Each line holds the
// hash of the previous one and its own, so that nobody can change, remove,
// insert or move a line without breaking the chain. Whoever can write the whole
// store can build a new chain; that, and a truncated chain, is detected with an
// anchor: a length and a hash that the log once had, kept out of that person's
// reach.

// The outcomes of an attempt. An action is recorded as begun before it has
// any effect, and its outcome in a line of its own.
const (
	AuditBegun   = "begun"
	AuditDone    = "done"
	AuditRefused = "refused"
	AuditFailed  = "failed"
)

// Audited is one thing that somebody did or was prevented from doing.
type Audited struct {
	At      time.Time `json:"at"`
	Who     string    `json:"who"`             // the id of the user
	Name    string    `json:"name,omitempty"`  // the name of the user, for people
	Token   string    `json:"token,omitempty"` // the id of the service token
	Action  string    `json:"action"`
	Thing   string    `json:"thing,omitempty"` // an id or a path, never content
	Outcome string    `json:"outcome"`
	Request string    `json:"request,omitempty"` // the id of the request

	// For a line recorded in the commit of the change itself: whose log it is
	// for, which line of which boot of which node it is (tidemark.ActLog), and
	// the id of the batch, which is stored with everything that the change wrote.
	Tenant string `json:"tenant,omitempty"`
	Node   string `json:"node,omitempty"`
	Boot   string `json:"boot,omitempty"`
	N      int64  `json:"n,omitempty"`
	Batch  string `json:"batch,omitempty"`
}

// AuditLine is a line of the audit log as people see it. An unchained
// one has neither Seq nor Hash.
type AuditLine struct {
	Seq int64 `json:"seq"`
	Audited
	Hash string `json:"hash"`
}

// auditBody is a line as it is kept. The act is hashed byte for byte, so that
// lines with fields of a later version can still be verified.
type auditBody struct {
	Seq  int64           `json:"seq"`
	Prev string          `json:"prev"`
	Hash string          `json:"hash"`
	Did  json.RawMessage `json:"did"`
}

// Anchor is the head of an audit log at some time.
type Anchor struct {
	Tenant string    `json:"tenant"`
	Length int64     `json:"length"`
	Hash   string    `json:"hash"`
	At     time.Time `json:"at"`
}

// AuditFault is a place where an audit log is not as it was written. Seq is 0
// for an unchained line; What names it then.
type AuditFault struct {
	Seq  int64  `json:"seq"`
	What string `json:"what"`
}

// maxAuditText bounds each text of a line: nothing longer comes from a
// well-meaning person or program.
const maxAuditText = 300

func auditKey(tenant string) tidemark.Key  { return tidemark.Key{Kind: kindAudit, ID: tenant} }
func anchorKey(tenant string) tidemark.Key { return tidemark.Key{Kind: kindAnchor, ID: tenant} }

// auditHash chains a line to the previous one, to its position and to its log.
func auditHash(tenant string, b auditBody) string {
	h := sha256.New()
	for _, part := range [][]byte{[]byte(tenant), []byte(b.Prev), b.Did} {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(part)))
		h.Write(n[:])
		h.Write(part)
	}
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(b.Seq))
	h.Write(n[:])
	return hex.EncodeToString(h.Sum(nil))
}

// Audit adds to the audit log of a tenant, all or nothing.
func (d *Directory) Audit(ctx context.Context, tenant string, did ...Audited) error {
	if len(did) == 0 {
		return nil
	}
	bodies := make([][]byte, len(did))
	for i, one := range did {
		body, _, err := d.auditedBody(one)
		if err != nil {
			return err
		}
		bodies[i] = body
	}
	return records.Retry(ctx, func() error { return d.chain(ctx, tenant, bodies) })
}

// auditedBody is an act as it is kept, and its time.
func (d *Directory) auditedBody(did Audited) ([]byte, time.Time, error) {
	if did.At.IsZero() {
		did.At = d.k.Now()
	}
	did.At = records.Keepable(did.At)
	for _, text := range []*string{&did.Who, &did.Name, &did.Token, &did.Action, &did.Thing, &did.Outcome, &did.Request} {
		*text = d.k.Mask(auditText(*text))
	}
	body, err := records.Encode(did)
	return body, did.At, err
}

// chain adds lines after the newest one, and writes records with them.
// It returns ErrConflict when somebody else was faster.
func (d *Directory) chain(ctx context.Context, tenant string, bodies [][]byte, puts ...tidemark.Record) error {
	s, version, err := d.segments(ctx, tenant)
	if err != nil {
		return err
	}
	head, lines, err := d.openHead(ctx, tenant, s)
	// A damaged last line is found by verify, and must not keep new
	// lines from being recorded.
	if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
		return err
	}
	rolled, require, err := d.roll(tenant, &s, version, head, lines)
	if err != nil {
		return err
	}
	log := s.Open.key(tenant)
	a := tidemark.Append{Log: log}
	at, prev := d.k.Now(), head.Hash
	for i, did := range bodies {
		b := auditBody{Seq: head.Length + int64(i) + 1, Prev: prev, Did: did}
		b.Hash = auditHash(tenant, b)
		prev = b.Hash
		body, err := records.Encode(b)
		if err != nil {
			return err
		}
		l := tidemark.Line{Seq: b.Seq - s.Open.First + 1, Kind: kindAudit, At: at, Body: body}
		l.Sum = l.Checksum(log)
		a.Lines = append(a.Lines, l)
	}
	_, err = d.k.Commit(ctx, tidemark.Batch{At: at, Require: require, Puts: append(rolled, puts...), Appends: []tidemark.Append{a}})
	return err
}

// auditText shortens a text of a line and makes it valid.
func auditText(s string) string { return text.Shorten(strings.ToValidUTF8(s, "�"), maxAuditText) }

// AuditHead returns the current head of the audit log of a tenant; its
// Length is 0 when there is none. Kept elsewhere, it is an anchor.
func (d *Directory) AuditHead(ctx context.Context, tenant string) (Anchor, error) {
	s, _, err := d.segments(ctx, tenant)
	if err != nil {
		return Anchor{}, err
	}
	head, _, err := d.openHead(ctx, tenant, s)
	return head, err
}

// auditLine reads a line.
func auditLine(log tidemark.Key, l tidemark.Line) (auditBody, Audited, error) {
	var b auditBody
	var did Audited
	err := json.Unmarshal(l.Body, &b)
	if err == nil {
		err = json.Unmarshal(b.Did, &did)
	}
	if err != nil {
		return b, did, &tidemark.Damage{Key: log, Seq: l.Seq, What: err.Error()}
	}
	return b, did, nil
}

// AuditLines yields lines of the audit log of a tenant, by their numbers in the whole
// log; those that were dropped are not there. An unreadable one is yielded as its Seq
// with a *tidemark.Damage.
func (d *Directory) AuditLines(ctx context.Context, tenant string, span tidemark.Span) iter.Seq2[AuditLine, error] {
	return func(yield func(AuditLine, error) bool) {
		s, _, err := d.segments(ctx, tenant)
		if err != nil {
			yield(AuditLine{}, err)
			return
		}
		for p, err := range d.auditRun(ctx, tenant, s, span) {
			line := AuditLine{Seq: p.seq}
			if err == nil {
				var b auditBody
				b, line.Audited, err = auditLine(p.log, p.line)
				line.Hash = b.Hash
			}
			if !yield(line, err) || err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
				return
			}
		}
	}
}

// KeepAnchor stores the head of the audit log of a tenant beside it, unless
// it is the newest stored one, and returns it. It is worth more in a file or
// with somebody else: whoever can change one log of a store can change two.
func (d *Directory) KeepAnchor(ctx context.Context, tenant string) (Anchor, error) {
	var head Anchor
	err := records.Retry(ctx, func() error {
		var err error
		if head, err = d.AuditHead(ctx, tenant); err != nil || head.Length == 0 {
			return err
		}
		log := anchorKey(tenant)
		next := int64(1)
		for l, err := range d.k.Backend().Lines(ctx, log, tidemark.Span{Newest: 1}) {
			var last Anchor
			if err == nil && json.Unmarshal(l.Body, &last) == nil && last.Length == head.Length && last.Hash == head.Hash {
				return nil
			}
			if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
				return err
			}
			next = l.Seq + 1
		}
		body, err := records.Encode(head)
		if err != nil {
			return err
		}
		l := tidemark.Line{Seq: next, Kind: kindAnchor, At: head.At, Body: body}
		l.Sum = l.Checksum(log)
		_, err = d.k.Commit(ctx, tidemark.Batch{At: head.At, Appends: []tidemark.Append{{Log: log, Lines: []tidemark.Line{l}}}})
		return err
	})
	return head, err
}

// Anchors lists the stored anchors of a tenant, oldest first.
func (d *Directory) Anchors(ctx context.Context, tenant string) ([]Anchor, error) {
	var all []Anchor
	for l, err := range d.k.Backend().Lines(ctx, anchorKey(tenant)) {
		var a Anchor
		if err == nil {
			err = records.Decode(tidemark.Record{Key: anchorKey(tenant), Body: l.Body}, &a)
		}
		if err != nil {
			return all, err
		}
		all = append(all, a)
	}
	return all, nil
}

// ParseAnchors reads anchors from a file, one JSON object per line.
func ParseAnchors(text []byte) ([]Anchor, error) {
	var all []Anchor
	for i, line := range bytes.Split(text, []byte("\n")) {
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var a Anchor
		if err := json.Unmarshal(line, &a); err != nil {
			return all, tidemark.Invalidf("anchors: line %d: %w", i+1, err)
		}
		all = append(all, a)
	}
	return all, nil
}
