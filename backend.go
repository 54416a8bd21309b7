package tidemark

import (
	"cmp"
	"context"
	"iter"
	"time"
)

// KeyWindow is how many of the newest lines of a log a Backend searches, at
// least, for a line's Key before it appends the line.
const KeyWindow = 10_000

// MaxBodyBytes bounds the body of one record or line. It is larger than any
// message that a model accepts or produces, and small enough to hold one line in
// memory.
const MaxBodyBytes = 64 << 20

// Backend keeps records and logs for one principal, and has no domain rules of
// its own. All methods may be called concurrently, from several goroutines and,
// for the backends that keep things on disk, from several processes at once.
//
// Reading takes no lock, never writes, and sees each key whole: a record at one
// version, a log as a run of whole lines. A reader that looks at two keys while
// a batch that touches both is under way may see one before it and the other
// after it. A reader that began after Commit returned sees all of it.
//
// Errors of the storage underneath (a full disk, a failed sync) answer to
// ErrStorage. After a failed sync a Backend acknowledges nothing more until it
// is opened again: what the kernel then holds is unknown.
type Backend interface {
	// Get returns what is stored under key: the record, and the Head of the log
	// of the same key. Where there is only a log, Version is 0 and Body nil;
	// where there is neither, the error is ErrNotFound. A record that does not
	// match its Sum is a *Damage.
	Get(ctx context.Context, key Key) (Record, error)

	// List yields the records that match q, each with the Head of the log of the
	// same key, without reading any log. A record that cannot be read is yielded
	// as its Key with a *Damage, and the listing goes on; any other error ends
	// it. Records that change while the listing runs may be seen in either
	// state.
	List(ctx context.Context, q Query) iter.Seq2[Record, error]

	// Lines yields the lines of log, span after span; without a span, all of
	// them in order. Each span is cut to what the log holds when its turn comes;
	// a missing log is an empty one. A line that cannot be read is yielded as
	// its Seq with a *Damage, and the reading goes on; any other error ends it,
	// such as the *TrimmedError at the first span that reaches below what a log has
	// here. The caller may stop at any line.
	Lines(ctx context.Context, log Key, spans ...Span) iter.Seq2[Line, error]

	// Commit carries out a batch, all of it or nothing, and returns nil when the
	// whole of it is durable: it will be there after a crash of the process and
	// after a power cut. After a crash during Commit, the batch is there whole
	// or not at all.
	//
	// ErrInvalid: the batch breaks its own rules (see Batch.Check). *TrimmedError: a
	// log is appended to of which too few lines are here to know their Keys. ErrExists: a
	// line carries a Key that its log already has; the Receipt says where. This
	// is checked first, so that repeating a batch reports that it succeeded
	// before. ErrConflict: a record does not have the version that the batch
	// names, or a log does not have the length that it names. After these
	// nothing has changed. ErrUnknown: it is not known whether the batch took
	// effect. Its ID is kept with every record and line that it wrote, so that
	// reading one decides.
	Commit(ctx context.Context, b Batch) (Receipt, error)

	// Wait returns nil when log is, or may be, longer than after. It may return
	// early; the caller checks and waits again. It returns the error of ctx when
	// that ends first. ErrUnsupported: this log has no notifications, and the
	// caller has to poll.
	Wait(ctx context.Context, log Key, after int64) error

	// Walk yields each key that has a record, a log or both, once, by kind and
	// then id, starting after the key after.
	Walk(ctx context.Context, after Key) iter.Seq2[Key, error]

	// Close waits for commits under way and releases what is held. Calls after
	// Close fail. Closing twice is harmless.
	Close() error
}

// Keyring and PlainMark name the records that say what a store is: a sealed one
// has a keyring, and one that was written to in the clear has the mark. Putting
// either requires that the other is absent, so a store is one of the two for
// good, however many processes open it while it is empty.
func Keyring() Key { return Key{Kind: "keyring", ID: "keyring"} }

// PlainMark names the mark of an unsealed store; see Keyring.
func PlainMark() Key { return Key{Kind: "plain", ID: "plain"} }

// MarkPlain adds the mark to a batch, which then conflicts where a keyring or
// the mark is already present.
func (b Batch) MarkPlain() Batch {
	mark := Record{Key: PlainMark(), Version: 1, Body: []byte("{}")}
	if b.Adopt {
		mark.UpdatedAt, mark.Batch = b.At, b.ID
	}
	mark.Sum = mark.Checksum()
	b.Puts = append([]Record{mark}, b.Puts...)
	b.Require = append(b.Require[:len(b.Require):len(b.Require)], Precondition{Key: Keyring()})
	return b
}

// Record is a small value, replaced whole. Kind, ID and Body are covered by Sum.
// Group, State and Due, which a listing can filter by, are not: the writer can
// derive them from the body or afford to lose them.
type Record struct {
	Key
	Version   int64     // 1 when first put, one more with each put
	Group     string    // at most MaxIDBytes, like State
	State     string    //
	Due       time.Time // zero: never
	UpdatedAt time.Time // the At of the batch that put it; set by Commit
	Batch     string    // the ID of that batch; set by Commit
	Body      []byte
	Sum       uint32 // Checksum of the record, computed by whoever made the body
	Head      Head   // of the log of the same key; set by Get and List
	Owner     string // its owner, when that is not the principal; set by Get and List
}

// Touched is when the record or its log last changed.
func (r Record) Touched() time.Time {
	if r.Head.UpdatedAt.After(r.UpdatedAt) {
		return r.Head.UpdatedAt
	}
	return r.UpdatedAt
}

// Head is what is known of a log without reading it. It is committed together
// with the lines that it describes.
type Head struct {
	Length    int64     // the Seq of the newest line, 0: there is no log
	UpdatedAt time.Time // the At of the batch that wrote that line
	Position  Position  // of that line
	Chain     []byte    // of that line
	Trimmed   int64     // lines up to this one are not in this Backend; see Batch.Trims
}

// HidesKeys reports whether lines that were trimmed may have Keys that an append
// has to know.
func (h Head) HidesKeys() bool { return h.Trimmed > 0 && h.Length-h.Trimmed < KeyWindow }

// Line is one element of a log. Everything but Batch is covered by Sum,
// together with the key of the log.
type Line struct {
	Seq      int64
	Kind     string    // a short word in the clear, also in sealed stores
	Key      string    // at most MaxIDBytes; makes the append idempotent; "": none
	At       time.Time // UTC, whole microseconds
	Position Position  // where an entry stands in the tree of its session
	Chain    []byte    // in sealed stores, a MAC chained over the log; at most 64 bytes
	Body     []byte
	Batch    string // the ID of the batch that wrote it; set by Commit
	Sum      uint32 // Checksum of the line, computed by whoever made the body
}

// Query says which records List yields, and in which order.
type Query struct {
	Kind   string // required
	Prefix string // ids that begin with it
	Group  string // "": any
	State  string // "": any
	DueBy  time.Time
	Order  Order
	After  *Record // continue after this record of an earlier listing
	Limit  int     // 0: no limit
	// Each asks for every owner's record under a key, and not only for the one
	// that the key alone leads to.
	Each bool
}

// Order is the order of a listing.
type Order int

const (
	Newest Order = iota // by Touched, newest first, equal ones by ID
	ByID                // by ID
	ByDue               // by Due, earliest first, equal ones by ID; only records that have one
)

// Includes reports whether the listing of q contains r. It defines what a Query
// means, for backends without an index.
func (q Query) Includes(r Record) bool {
	switch {
	case r.Kind != q.Kind,
		len(r.ID) < len(q.Prefix) || r.ID[:len(q.Prefix)] != q.Prefix,
		q.Group != "" && r.Group != q.Group,
		q.State != "" && r.State != q.State,
		!q.DueBy.IsZero() && (r.Due.IsZero() || r.Due.After(q.DueBy)),
		q.Order == ByDue && r.Due.IsZero():
		return false
	}
	return q.After == nil || q.Compare(*q.After, r) < 0
}

// Compare orders two records as q does: negative when a comes first. Those of
// one key are ordered by their owners.
func (q Query) Compare(a, b Record) int {
	c := 0
	switch q.Order {
	case Newest:
		c = b.Touched().Compare(a.Touched())
	case ByDue:
		c = a.Due.Compare(b.Due)
	}
	return cmp.Or(c, cmp.Compare(a.ID, b.ID), cmp.Compare(a.Owner, b.Owner))
}

// Span is a run of lines: From to To, both included, where 0 stands for the
// first and the newest. When Newest is not 0, only that many of the newest lines
// of the run count. Backwards yields the newest first.
type Span struct {
	From, To  int64
	Newest    int
	Backwards bool
}

// Of returns the first and last seq that s covers in a log of the given length;
// last < first when it covers none.
func (s Span) Of(length int64) (first, last int64) {
	first, last = max(s.From, 1), length
	if s.To != 0 {
		last = min(s.To, length)
	}
	if s.Newest > 0 {
		first = max(first, last-int64(s.Newest)+1)
	}
	return first, last
}

// Batch is a set of changes that happen together or not at all.
//
// A reader may see only the first changes of a batch while it is carried out,
// or, in package files, after its writer died and before the next one repaired
// it: first its appends, then its puts in their order, then its deletes, then
// its drops; fills come before all of these, trims after them. So the put that makes the others count comes last, and the delete
// that voids them comes first.
type Batch struct {
	ID      string         // from NewBatchID
	At      time.Time      // UTC, whole microseconds; the time of every change in it
	Require []Precondition // versions required of further records
	Puts    []Record       // each replaces the record at Version-1; at Version 1, none may be there
	Deletes []Precondition // each deletes the record at Version
	Appends []Append
	Drops   []Key // logs to remove whole; a missing one is no error

	// Trims remove the oldest lines of logs that are kept elsewhere; the head, the
	// length and the newer lines stay. Fills put such lines back, exactly as they
	// were: the last one is the newest that was trimmed, and lines keep their own
	// Batch. Neither changes when a log was updated. ErrUnsupported: the Backend
	// does not trim.
	Trims []Trim
	Fills []Append

	// Adopt says that the batch copies data from another store as it was kept
	// there: a put may have any Version, requires that no record is there, and
	// keeps its own UpdatedAt and Batch; lines keep their own Batch, and the
	// head of their log takes the At of the Append.
	Adopt bool

	// Frees says that the batch is a step towards freeing space, such as the
	// lease that a purge takes: on a full disk, a Backend may use its reserve
	// for it.
	Frees bool
}

// FreesRoom reports whether a batch may use the reserve that a Backend holds for
// a full disk.
func (b *Batch) FreesRoom() bool {
	return b.Frees || len(b.Appends)+len(b.Fills) == 0 && len(b.Deletes)+len(b.Drops)+len(b.Trims) > 0
}

// Precondition names a record and the version that it must have; 0: it must not
// exist.
type Precondition struct {
	Key
	Version int64
}

// Append adds lines to one log. The first line's Seq is the log's length plus
// one, and the rest follow without a gap.
type Append struct {
	Log   Key
	Lines []Line
	At    time.Time // with Batch.Adopt: when these lines were committed
}

// Trim removes the lines of a log up to Upto, some of which must be there. Of a log
// that does not have this Length it removes nothing: ErrConflict.
type Trim struct {
	Log    Key
	Length int64
	Upto   int64 // less than Length: the newest line stays
}

// Trims returns ErrConflict unless t can be carried out on a log with this head.
func (h Head) Trims(t Trim) error {
	if h.Length != t.Length || t.Upto <= h.Trimmed {
		return Conflictf("%s: has %d lines without the first %d, not %d to trim to %d", t.Log, h.Length, h.Trimmed, t.Length, t.Upto)
	}
	return nil
}

// Fills returns ErrConflict unless a can be put back into a log with this head.
func (h Head) Fills(a Append) error {
	if last := a.Lines[len(a.Lines)-1].Seq; h.Trimmed == 0 || last != h.Trimmed {
		return Conflictf("%s: lines up to %d were trimmed, not %d", a.Log, h.Trimmed, last)
	}
	return nil
}

// Appends returns why lines cannot be added to a log with this head.
func (h Head) Appends(a Append) error {
	switch {
	case h.HidesKeys():
		return &TrimmedError{Log: a.Log, Upto: h.Trimmed}
	case a.Lines[0].Seq != h.Length+1:
		return Conflictf("%s: has %d lines, not %d", a.Log, h.Length, a.Lines[0].Seq-1)
	}
	return nil
}

// Receipt says what Commit found.
type Receipt struct {
	Duplicates []Duplicate // with ErrExists: each line whose Key was there
}

// Duplicate is a line that was already in its log.
type Duplicate struct {
	Log Key
	Key string
	Seq int64
}

// Check returns ErrInvalid when b could not be carried out by any Backend: an
// id or key that is not allowed, a log appended to twice, lines out of order, a
// body over MaxBodyBytes, a Sum that does not match. Backends call it first.
func (b Batch) Check() error {
	if err := CheckID(b.ID); err != nil {
		return Invalidf("batch: %w", err)
	}
	if err := checkTime(b.At); err != nil {
		return Invalidf("batch %s: %w", b.ID, err)
	}
	records := makeKeySet(len(b.Puts) + len(b.Deletes))
	for _, n := range b.Require {
		if err := n.Key.Check(); err != nil {
			return err
		}
		if n.Version < 0 {
			return Invalidf("%s: version %d", n.Key, n.Version)
		}
	}
	for _, r := range b.Puts {
		if err := records.once(r.Key); err != nil {
			return err
		}
		if err := r.check(); err != nil {
			return err
		}
	}
	for _, n := range b.Deletes {
		if err := records.once(n.Key); err != nil {
			return err
		}
		if n.Version < 1 {
			return Invalidf("%s: deleted at version %d", n.Key, n.Version)
		}
	}
	logs := makeKeySet(len(b.Appends) + len(b.Drops) + len(b.Trims) + len(b.Fills))
	for _, a := range b.Appends {
		if err := logs.once(a.Log); err != nil {
			return err
		}
		if err := a.check(); err != nil {
			return err
		}
	}
	for _, k := range b.Drops {
		if err := logs.once(k); err != nil {
			return err
		}
	}
	for _, t := range b.Trims {
		if err := logs.once(t.Log); err != nil {
			return err
		}
		if t.Upto < 1 || t.Upto >= t.Length {
			return Invalidf("%s: %d of %d lines to trim", t.Log, t.Upto, t.Length)
		}
	}
	for _, a := range b.Fills {
		if err := logs.once(a.Log); err != nil {
			return err
		}
		if err := a.check(); err != nil {
			return err
		}
		if err := a.checkBatches(); err != nil {
			return err
		}
	}
	return b.checkAdopted()
}

// keySet finds keys that a batch names twice. It is nil where there is one key or none,
// as in an append.
type keySet map[Key]struct{}

func makeKeySet(n int) keySet {
	if n < 2 {
		return nil
	}
	return make(keySet, n)
}

func (seen keySet) once(k Key) error {
	if err := k.Check(); err != nil || seen == nil {
		return err
	}
	if _, twice := seen[k]; twice {
		return Invalidf("%s: named twice in one batch", k)
	}
	seen[k] = struct{}{}
	return nil
}

// checkAdopted checks the fields that Commit sets in any other batch.
func (b Batch) checkAdopted() error {
	if !b.Adopt {
		return nil
	}
	for _, r := range b.Puts {
		if err := checkTime(r.UpdatedAt); err != nil {
			return Invalidf("%s: adopted: %w", r.Key, err)
		}
		if err := CheckID(r.Batch); err != nil {
			return Invalidf("%s: adopted: batch: %w", r.Key, err)
		}
	}
	for _, a := range b.Appends {
		if err := checkTime(a.At); err != nil {
			return Invalidf("%s: adopted: %w", a.Log, err)
		}
		if err := a.checkBatches(); err != nil {
			return err
		}
	}
	return nil
}

// checkBatches checks the batches of lines that keep their own.
func (a Append) checkBatches() error {
	for _, l := range a.Lines {
		if err := CheckID(l.Batch); err != nil {
			return Invalidf("%s: line %d: adopted: batch: %w", a.Log, l.Seq, err)
		}
	}
	return nil
}

// RefuseTrims returns ErrUnsupported when b trims or fills a log, for a Backend that
// does neither.
func (b Batch) RefuseTrims() error {
	if len(b.Trims)+len(b.Fills) > 0 {
		return Unsupportedf("this store cannot do without the older lines of a log")
	}
	return nil
}

// Preconditions yields the versions that must hold before the batch is carried
// out: those of records it requires, replaces and deletes.
func (b *Batch) Preconditions() iter.Seq[Precondition] {
	return func(yield func(Precondition) bool) {
		for _, n := range b.Require {
			if !yield(n) {
				return
			}
		}
		for i := range b.Puts {
			if !yield(Precondition{b.Puts[i].Key, b.Replaces(b.Puts[i])}) {
				return
			}
		}
		for _, n := range b.Deletes {
			if !yield(n) {
				return
			}
		}
	}
}

// Replaces returns the version that a record must have before r is put.
func (b Batch) Replaces(r Record) int64 {
	if b.Adopt {
		return 0
	}
	return r.Version - 1
}

// Stamp returns r as Commit keeps it.
func (b Batch) Stamp(r Record) Record {
	if !b.Adopt {
		r.UpdatedAt, r.Batch = b.At, b.ID
	}
	r.Head = Head{}
	return r
}

// StampLine returns l as Commit keeps it.
func (b Batch) StampLine(l Line) Line {
	if !b.Adopt {
		l.Batch = b.ID
	}
	return l
}

// HeadAt returns the UpdatedAt of the head of the log that a appends to.
func (b Batch) HeadAt(a Append) time.Time {
	if b.Adopt {
		return a.At
	}
	return b.At
}

func (r Record) check() error {
	switch {
	case r.Version < 1:
		return Invalidf("%s: put at version %d", r.Key, r.Version)
	case len(r.Group) > MaxIDBytes || len(r.State) > MaxIDBytes:
		return Invalidf("%s: group or state over %d bytes", r.Key, MaxIDBytes)
	case len(r.Body) > MaxBodyBytes:
		return Invalidf("%s: %d bytes, at most %d are allowed", r.Key, len(r.Body), MaxBodyBytes)
	case r.Sum != r.Checksum():
		return Invalidf("%s: sum does not match", r.Key)
	}
	if err := checkTime(r.Due); err != nil && !r.Due.IsZero() {
		return Invalidf("%s: due: %w", r.Key, err)
	}
	return nil
}

func (a Append) check() error {
	if len(a.Lines) == 0 {
		return Invalidf("%s: an append of no lines", a.Log)
	}
	var keys map[string]bool
	for i := range a.Lines {
		l := &a.Lines[i]
		at := func(what string, args ...any) error {
			return Invalidf("%s: line %d: %w", a.Log, l.Seq, Invalidf(what, args...))
		}
		switch {
		case l.Seq < 1 || l.Seq != a.Lines[0].Seq+int64(i):
			return at("out of order")
		case len(l.Kind) > 32 || len(l.Key) > MaxIDBytes || len(l.Chain) > 64:
			return at("kind, key or chain too long")
		case len(l.Body) > MaxBodyBytes:
			return at("%d bytes, at most %d are allowed", len(l.Body), MaxBodyBytes)
		case l.Sum != l.Checksum(a.Log):
			return at("sum does not match")
		case l.Key != "" && keys[l.Key]:
			return at("key %q named twice", l.Key)
		}
		if err := checkTime(l.At); err != nil {
			return at("%w", err)
		}
		if l.Key != "" {
			if keys == nil {
				keys = make(map[string]bool)
			}
			keys[l.Key] = true
		}
	}
	return nil
}

// The years that are kept, 1 to 9999, in seconds of time.Time.Unix.
var (
	firstYear  = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	afterYears = time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
)

// checkTime keeps every backend able to return exactly the time it was given:
// PostgreSQL keeps microseconds, JSON four-digit years.
func checkTime(t time.Time) error {
	switch seconds := t.Unix(); {
	case t.Nanosecond()%1000 != 0:
		return Invalidf("time %s: finer than a microsecond", t.Format(time.RFC3339Nano))
	case t.Location() != time.UTC:
		return Invalidf("time %s: not UTC", t.Format(time.RFC3339Nano))
	case seconds < firstYear || seconds >= afterYears:
		return Invalidf("time %d-…: year out of range", t.Year())
	}
	return nil
}
