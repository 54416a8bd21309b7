package api

import (
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// The calls of a Backend over HTTP: a POST each, under BackendPath. Questions
// are JSON; what may be long, in either direction, is one JSON object per
// line and ends with {"end":true}, so that a truncated stream is never taken
// for a complete one. docs/formats/wire.md has an example of each.

// BackendPath is the path of the calls.
const BackendPath = "/api/v1/backend/"

// BackendFormat is the version of these calls. A client refuses a server
// that speaks another one. In format 2 it is the client who keeps the search index
// where About says that the server does not: one of format 1 would remove entries
// and leave their words.
const BackendFormat = 2

// Service is the name that a server reports, so that a client can tell it
// from an unrelated page.
const Service = "tidemark"

// AttemptHeader names one call of Commit. A client that got no answer sends
// the batch again under the same name, and the server then reports what became
// of the first, instead of committing twice. It is not Idempotency-Key,
// because HTTP libraries silently repeat requests that have that header.
const AttemptHeader = "Tidemark-Attempt"

// OwnerHeader names, in an answer, the only owner whose things it covers:
// the one of a request with ?owner=. A server that does not know the
// parameter does not set it.
const OwnerHeader = "Tidemark-Owner"

// PositionHeader is, in an answer, how far the database was that everything in it, or done by it,
// is part of; see tidemark.CommitPosition. Who sends it back is not answered from before that. AnyPosition
// in its place takes what is there. Servers without replicas neither set nor read it. Browsers have
// a cookie called PositionCookie for it.
const (
	PositionHeader = "Tidemark-Position"
	PositionCookie = "tidemark_position"
	AnyPosition    = "any"
)

// RepeatedHeader marks the repeated answer of a first attempt.
const RepeatedHeader = "Tidemark-Repeated"

// JSON and Lines are the media types of the calls.
const (
	MediaJSON  = "application/json"
	MediaLines = "application/x-ndjson"
)

// Limits of one message. Both sides keep to them, and neither trusts the
// other to.
const (
	// MaxItemBytes bounds one line: a body of tidemark.MaxBodyBytes in base64
	// and the JSON around it.
	MaxItemBytes = (tidemark.MaxBodyBytes+2)/3*4 + 64<<10
	// MaxRequestBytes bounds a batch or the words of lines: one line of the
	// largest kind and some more.
	MaxRequestBytes = 96 << 20
	// MaxQuestionBytes bounds every other request.
	MaxQuestionBytes = 4 << 20
	// MaxParts bounds the lines of a request: each is larger in memory
	// than the few bytes that it may have on the wire.
	MaxParts = 200_000
	// MaxSpans bounds the spans of one question; for more, ask again.
	MaxSpans = 10_000
	// MaxTerms bounds the terms of one question.
	MaxTerms = 100_000
)

// About is what a server reports about itself.
type About struct {
	Service         string `json:"service"`
	Format          int    `json:"format"`
	MaxRequestBytes int64  `json:"max_request_bytes"`
	// Principal and Scopes are what tidemark.Sharer.Audience returns: who calls, and
	// with whom others share. A store with one user has neither.
	Principal string   `json:"principal,omitempty"`
	Scopes    []string `json:"scopes,omitempty"`
	// Searches is what a server of an earlier version says that has an index of words,
	// which clients no longer ask.
	Searches bool `json:"searches,omitempty"`
}

// Record is a tidemark.Record on the wire. Bodies are base64.
type Record struct {
	tidemark.Key
	Version   int64     `json:"version,omitempty"`
	Group     string    `json:"group,omitempty"`
	State     string    `json:"state,omitempty"`
	Due       time.Time `json:"due,omitzero"`
	UpdatedAt time.Time `json:"updated_at,omitzero"`
	Batch     string    `json:"batch,omitempty"`
	Body      []byte    `json:"body,omitempty"`
	Sum       uint32    `json:"sum,omitempty"`
	Head      *Head     `json:"head,omitempty"`
	Owner     string    `json:"owner,omitempty"`
}

// Head is a tidemark.Head on the wire.
type Head struct {
	Length    int64     `json:"length"`
	UpdatedAt time.Time `json:"updated_at,omitzero"`
	tidemark.Position
	Chain []byte `json:"chain,omitempty"`
}

// Line is a tidemark.Line on the wire.
type Line struct {
	Seq  int64     `json:"seq"`
	Kind string    `json:"kind,omitempty"`
	Key  string    `json:"key,omitempty"`
	At   time.Time `json:"at,omitzero"`
	tidemark.Position
	Chain []byte `json:"chain,omitempty"`
	Body  []byte `json:"body,omitempty"`
	Batch string `json:"batch,omitempty"`
	Sum   uint32 `json:"sum,omitempty"`
}

// RecordOf returns r in its wire form.
func RecordOf(r tidemark.Record) *Record {
	w := &Record{Key: r.Key, Version: r.Version, Group: r.Group, State: r.State, Due: r.Due,
		UpdatedAt: r.UpdatedAt, Batch: r.Batch, Body: r.Body, Sum: r.Sum, Owner: r.Owner}
	if h := r.Head; h.Length != 0 {
		w.Head = &Head{h.Length, h.UpdatedAt, h.Position, h.Chain}
	}
	return w
}

// Record returns the record from its wire form.
func (w *Record) Record() tidemark.Record {
	r := tidemark.Record{Key: w.Key, Version: w.Version, Group: w.Group, State: w.State, Due: w.Due,
		UpdatedAt: w.UpdatedAt, Batch: w.Batch, Body: w.Body, Sum: w.Sum, Owner: w.Owner}
	if h := w.Head; h != nil {
		r.Head = tidemark.Head{Length: h.Length, UpdatedAt: h.UpdatedAt, Position: h.Position, Chain: h.Chain}
	}
	return r
}

// LineOf returns l in its wire form.
func LineOf(l tidemark.Line) *Line {
	return &Line{l.Seq, l.Kind, l.Key, l.At, l.Position, l.Chain, l.Body, l.Batch, l.Sum}
}

// Line returns the line from its wire form.
func (w *Line) Line() tidemark.Line {
	return tidemark.Line{Seq: w.Seq, Kind: w.Kind, Key: w.Key, At: w.At, Position: w.Position,
		Chain: w.Chain, Body: w.Body, Batch: w.Batch, Sum: w.Sum}
}

// KeyQuestion asks about one key: get, and wait with After.
type KeyQuestion struct {
	tidemark.Key
	After int64 `json:"after,omitempty"`
}

// Grown is the answer to wait.
type Grown struct {
	Longer bool `json:"longer"` // the log has grown, or may have
}

// ListQuestion is a tidemark.Query on the wire.
type ListQuestion struct {
	Kind   string    `json:"kind"`
	Prefix string    `json:"prefix,omitempty"`
	Group  string    `json:"group,omitempty"`
	State  string    `json:"state,omitempty"`
	DueBy  time.Time `json:"due_by,omitzero"`
	Order  string    `json:"order,omitempty"` // newest, id or due; "": newest
	After  *Cursor   `json:"after,omitempty"`
	Limit  int       `json:"limit,omitempty"`
	Each   bool      `json:"each,omitempty"`
}

// Cursor is where a listing continues: the values that it is ordered by.
type Cursor struct {
	ID      string    `json:"id"`
	Touched time.Time `json:"touched_at,omitzero"`
	Due     time.Time `json:"due,omitzero"`
	Owner   string    `json:"owner,omitempty"`
}

// orders are the names of tidemark.Order, by number.
var orders = [...]string{"newest", "id", "due"}

// ListQuestionOf returns q in its wire form.
func ListQuestionOf(q tidemark.Query) (ListQuestion, error) {
	w := ListQuestion{Kind: q.Kind, Prefix: q.Prefix, Group: q.Group, State: q.State, DueBy: q.DueBy, Limit: q.Limit, Each: q.Each}
	if q.Order < 0 || int(q.Order) >= len(orders) {
		return w, tidemark.Invalidf("order %d of a listing: there is none", q.Order)
	}
	if q.Order != tidemark.Newest {
		w.Order = orders[q.Order]
	}
	if q.After != nil {
		w.After = &Cursor{ID: q.After.ID, Touched: q.After.Touched(), Due: q.After.Due, Owner: q.After.Owner}
	}
	return w, nil
}

// Query returns the query from its wire form.
func (w ListQuestion) Query() (tidemark.Query, error) {
	q := tidemark.Query{Kind: w.Kind, Prefix: w.Prefix, Group: w.Group, State: w.State, DueBy: w.DueBy, Limit: w.Limit, Each: w.Each}
	if err := (tidemark.Key{Kind: w.Kind, ID: "x"}).Check(); err != nil {
		return q, err
	}
	if w.Limit < 0 {
		return q, tidemark.Invalidf("limit %d of a listing", w.Limit)
	}
	for i, name := range orders {
		if w.Order == name {
			q.Order = tidemark.Order(i)
		}
	}
	if w.Order != "" && w.Order != orders[q.Order] {
		return q, tidemark.Invalidf("order of a listing: want newest, id or due")
	}
	if c := w.After; c != nil {
		q.After = &tidemark.Record{Key: tidemark.Key{Kind: w.Kind, ID: c.ID}, UpdatedAt: c.Touched, Due: c.Due, Owner: c.Owner}
	}
	return q, nil
}

// LinesQuestion asks for lines. No span means none, unlike in Go.
type LinesQuestion struct {
	tidemark.Key
	Spans []Span `json:"spans"`
}

// Span is a tidemark.Span on the wire.
type Span struct {
	From      int64 `json:"from,omitempty"`
	To        int64 `json:"to,omitempty"`
	Newest    int   `json:"newest,omitempty"`
	Backwards bool  `json:"backwards,omitempty"`
}

// WalkQuestion asks for all keys after one; an empty key is before all.
type WalkQuestion struct {
	After tidemark.Key `json:"after"`
}

// ShareQuestion sets or asks who else may read a session.
type ShareQuestion struct {
	Session string          `json:"session"`
	With    *tidemark.Scope `json:"with,omitempty"`
}

// SharedAnswer says who else may read a session, and who owns it.
type SharedAnswer struct {
	With  tidemark.Scope `json:"with"`
	Owner string         `json:"owner"`
}

// Done is the answer to a call that changed something. A page from some
// proxy on the way cannot be mistaken for it.
type Done struct {
	Done  bool   `json:"done"`
	Batch string `json:"batch,omitempty"` // of a commit: the batch that is durable now
}

// Element is one line of an answer. A record or line with a problem exists and
// cannot be read; a problem with the end says why there is no more.
type Element struct {
	Span    int           `json:"span,omitempty"` // of a line: the number of its span, from 0
	Line    *Line         `json:"line,omitempty"`
	Record  *Record       `json:"record,omitempty"`
	Key     *tidemark.Key `json:"key,omitempty"`
	Problem *Problem      `json:"problem,omitempty"`
	End     bool          `json:"end,omitempty"`
}
