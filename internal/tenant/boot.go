package tenant

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
)

// Housekeeping reports whether a batch changes only leases, saved responses or the
// search index.
func Housekeeping(b tidemark.Batch) bool {
	quiet := func(k tidemark.Key) bool {
		return slices.Contains([]string{records.KindLease, records.KindPulse, records.KindHandover, kindRequest}, k.Kind) || k == tidemark.PlainMark() || k.Derived()
	}
	return !slices.ContainsFunc(b.Appends, func(a tidemark.Append) bool { return !a.Log.Derived() }) &&
		!slices.ContainsFunc(b.Drops, func(k tidemark.Key) bool { return !k.Derived() }) &&
		!slices.ContainsFunc(b.Puts, func(r tidemark.Record) bool { return !quiet(r.Key) }) &&
		!slices.ContainsFunc(b.Deletes, func(n tidemark.Precondition) bool { return !quiet(n.Key) })
}

// Act is one change as it was recorded in its own commit.
type Act struct {
	Log  tidemark.Key // see tidemark.ActLog
	N    int64        // its line there
	At   time.Time
	body []byte // an Audited
}

// Boot is one start of a server, for one tenant. It numbers what the server
// does. A commit may fail, or its outcome may stay unknown: a number is reused
// only when it is certain that it was not used, and a run that may contain an
// unknown line is never used again. So a missing number means that somebody
// removed a line.
type Boot struct {
	d            *Directory
	tenant, name string // NODE.BOOT
	kind         string // of its logs
	bare         bool   // they are in the clear, and the operator's store is not
	mu           sync.Mutex
	runs         []*actRun
	free         []*actRun // runs whose last commit is settled
	left         bool      // there is a run of which that will never be known
	kept         time.Time // when its record was last written
}

// actRun is a run of commits of a boot, each made after the previous one was
// settled, with a log of its own.
type actRun struct {
	log tidemark.Key
	n   int64
}

// bootRecord says how far the acts of a boot are chained, run by run.
type bootRecord struct {
	Began   time.Time        `json:"began"`
	Chained map[string]int64 `json:"chained,omitempty"`
}

// The states of a boot.
const (
	bootOpen = "open" // some of its lines may not be chained yet
	bootDone = "done"
)

// A boot that chained nothing for that long is done when all its lines
// are chained; one that is still active updates its record well before.
const (
	bootEnds  = 24 * time.Hour
	bootAgain = bootEnds / 4
)

const maxNodeBytes = 40

// NewBoot begins a boot of this process for a tenant. Where the operator's
// store is sealed, so are the lines of a boot, unless it is for batches
// that arrive sealed and are committed below the seal: then it names
// nobody.
func (d *Directory) NewBoot(tenant, node string, below bool) *Boot {
	var b [8]byte
	rand.Read(b[:])
	node = strings.Map(func(c rune) rune {
		if 'a' <= c && c <= 'z' || '0' <= c && c <= '9' {
			return c
		}
		return '_'
	}, strings.ToLower(node))
	boot := &Boot{d: d, tenant: tenant, name: node[:min(len(node), maxNodeBytes)] + "." + hex.EncodeToString(b[:]), kind: tidemark.ActKind}
	if d.k.Sealed() {
		if boot.bare = below; !below {
			boot.kind = tidemark.SealedActKind
		}
	}
	return boot
}

func (b *Boot) key() tidemark.Key {
	return tidemark.Key{Kind: kindBoot, ID: b.tenant + "." + b.name}
}

// open makes sure, before the boot has its first line, that whoever looks
// for unchained lines examines this boot.
func (b *Boot) open(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.d.k.Now()
	if now.Sub(b.kept) < bootAgain && !b.kept.IsZero() {
		return nil
	}
	err := records.Retry(ctx, func() error { return b.d.putBoot(ctx, b.key(), func(*bootRecord) string { return bootOpen }) })
	if err == nil {
		b.kept = now
	}
	return err
}

// putBoot changes the record of a boot, and returns ErrConflict when
// somebody else did.
func (d *Directory) putBoot(ctx context.Context, key tidemark.Key, change func(*bootRecord) (state string)) error {
	r, err := d.bootPut(ctx, key, change)
	if err != nil {
		return err
	}
	_, err = d.k.Commit(ctx, tidemark.Batch{Puts: []tidemark.Record{r}})
	return err
}

func (d *Directory) bootPut(ctx context.Context, key tidemark.Key, change func(*bootRecord) (state string)) (tidemark.Record, error) {
	is := bootRecord{Began: d.k.Now()}
	r, err := d.k.Get(ctx, key, &is)
	if err != nil {
		return r, err
	}
	if is.Chained == nil {
		is.Chained = make(map[string]int64)
	}
	state := change(&is)
	if r, err = records.Put(key, r.Version, is); err == nil {
		r.State = state
	}
	return r, err
}

// Add adds to a batch a line saying that the batch does did. The Act can be
// chained once the batch is committed; ended has to be called with the
// outcome of the commit, and only then is the run free for the next act.
func (b *Boot) Add(ctx context.Context, batch *tidemark.Batch, did Audited) (act Act, ended func(error), err error) {
	if err := b.open(ctx); err != nil {
		return act, nil, err
	}
	l := b.take()
	_, node, boot, _ := l.log.Act()
	if b.bare {
		did.Name = ""
	}
	did.Tenant, did.Node, did.Boot, did.N, did.Batch = b.tenant, node, boot, l.n+1, batch.ID
	act = Act{Log: l.log, N: l.n + 1}
	if act.body, act.At, err = b.d.auditedBody(did); err != nil {
		b.giveBack(l)
		return act, nil, err
	}
	line := tidemark.Line{Seq: act.N, Kind: b.kind, At: act.At, Body: act.body}
	line.Sum = line.Checksum(l.log)
	batch.Appends = append(batch.Appends, tidemark.Append{Log: l.log, Lines: []tidemark.Line{line}, At: act.At})
	return act, func(err error) {
		switch {
		case err == nil:
			l.n++
			b.giveBack(l)
		case errors.Is(err, tidemark.ErrConflict), errors.Is(err, tidemark.ErrExists), errors.Is(err, tidemark.ErrInvalid):
			b.giveBack(l) // nothing has changed
		default:
			b.mu.Lock()
			b.left = true
			b.mu.Unlock()
		}
	}, nil
}

func (b *Boot) take() *actRun {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n := len(b.free); n > 0 {
		l := b.free[n-1]
		b.free = b.free[:n-1]
		return l
	}
	node, boot, _ := strings.Cut(b.name, ".")
	l := &actRun{log: tidemark.ActLog(b.kind, b.tenant, node, boot+"-"+strconv.Itoa(len(b.runs)))}
	b.runs = append(b.runs, l)
	return l
}

func (b *Boot) giveBack(l *actRun) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free = append(b.free, l)
}

// bootOf returns the boot that a run belongs to, and the name of the run in
// it.
func bootOf(log tidemark.Key) (boot tidemark.Key, run string) {
	i := strings.LastIndexByte(log.ID, '-')
	return tidemark.Key{Kind: kindBoot, ID: log.ID[:max(i, 0)]}, log.ID[i+1:]
}

// Chain adds the acts of a boot that are not in it yet to the audit log of the
// tenant. The acts of a run come in order; what does not directly follow the
// chained ones is left to ChainLeft. It can be called again, and concurrently:
// how far a boot is chained is committed with the lines.
func (b *Boot) Chain(ctx context.Context, acts ...Act) error {
	return b.d.chainBoot(ctx, b.tenant, b.key(), acts, false)
}

// chainBoot chains acts. read means that they were read from where they were
// recorded: then a missing number does not exist.
func (d *Directory) chainBoot(ctx context.Context, tenant string, key tidemark.Key, acts []Act, read bool) error {
	return records.Retry(ctx, func() error {
		var bodies [][]byte
		r, err := d.bootPut(ctx, key, func(is *bootRecord) string {
			for _, a := range acts {
				if _, run := bootOf(a.Log); a.N == is.Chained[run]+1 || read && a.N > is.Chained[run] {
					is.Chained[run] = a.N
					bodies = append(bodies, a.body)
				}
			}
			return bootOpen
		})
		if err != nil || len(bodies) == 0 {
			return err
		}
		return d.chain(ctx, tenant, bodies, r)
	})
}

// End marks the boot as finished. If some of its acts may not be chained, it
// stays open for ChainLeft.
func (b *Boot) End(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.kept.IsZero() {
		return nil
	}
	b.kept = time.Time{} // a later act opens it again
	return records.Retry(ctx, func() error { return b.d.putBoot(ctx, b.key(), b.state) })
}

// state is the state of a boot that has finished.
func (b *Boot) state(is *bootRecord) string {
	if b.left || len(b.free) < len(b.runs) {
		return bootOpen
	}
	for _, l := range b.runs {
		if _, run := bootOf(l.log); is.Chained[run] < l.n {
			return bootOpen
		}
	}
	return bootDone
}

// unchained yields the boots of a tenant that may have unchained lines, and
// these lines, by boot and run. They are read from where servers recorded
// them.
func (d *Directory) unchained(ctx context.Context, tenant string, from []tidemark.Backend) iter.Seq2[tidemark.Record, iter.Seq2[Act, error]] {
	return func(yield func(tidemark.Record, iter.Seq2[Act, error]) bool) {
		for r, err := range d.k.Backend().List(ctx, tidemark.Query{Kind: kindBoot, Prefix: tenant + ".", State: bootOpen, Order: tidemark.ByID}) {
			var is bootRecord
			if err == nil {
				err = records.Decode(r, &is)
			}
			acts := func(yield func(Act, error) bool) {
				if err != nil {
					yield(Act{}, err)
					return
				}
				for _, b := range from {
					if !actsOf(ctx, b, r.ID+"-", is.Chained, yield) {
						return
					}
				}
			}
			if !yield(r, acts) {
				return
			}
		}
	}
}

// actsOf yields the acts of the runs whose names begin with begin, after
// those that are chained.
func actsOf(ctx context.Context, b tidemark.Backend, begin string, chained map[string]int64, yield func(Act, error) bool) bool {
	for log, err := range actLogs(ctx, b, begin) {
		if err != nil {
			return yield(Act{}, err) && false
		}
		_, run := bootOf(log)
		for l, err := range b.Lines(ctx, log, tidemark.Span{From: chained[run] + 1}) {
			if !yield(Act{Log: log, N: l.Seq, At: l.At, body: l.Body}, err) || err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
				return false
			}
		}
	}
	return true
}

// actLogs yields the logs of acts whose ids begin with begin.
func actLogs(ctx context.Context, b tidemark.Backend, begin string) iter.Seq2[tidemark.Key, error] {
	return func(yield func(tidemark.Key, error) bool) {
		for _, kind := range []string{tidemark.ActKind, tidemark.SealedActKind} {
			for k, err := range b.Walk(ctx, tidemark.Key{Kind: kind, ID: begin}) {
				if err == nil && (k.Kind != kind || !strings.HasPrefix(k.ID, begin)) {
					break
				}
				if !yield(k, err) || err != nil {
					return
				}
			}
		}
	}
}

// maxChained bounds what is added to the chain at once.
const maxChained = 500

// ChainLeft adds to the audit log of a tenant what servers did before a time
// and did not live to chain, and returns how much that was. from are the places
// where servers recorded it.
func (d *Directory) ChainLeft(ctx context.Context, tenant string, before time.Time, from ...tidemark.Backend) (n int, err error) {
	for r, acts := range d.unchained(ctx, tenant, from) {
		var left []Act
		chain := func() error {
			n += len(left)
			err := d.chainBoot(ctx, tenant, r.Key, left, true)
			left = nil
			return err
		}
		young := make(map[tidemark.Key]bool)
		for a, err := range acts {
			if errors.Is(err, tidemark.ErrCorrupt) {
				continue // verify reports it
			}
			if err != nil {
				return n, err
			}
			if young[a.Log] = young[a.Log] || !a.At.Before(before); young[a.Log] {
				continue // and everything after it in its run
			}
			if left = append(left, a); len(left) == maxChained {
				if err := chain(); err != nil {
					return n, err
				}
			}
		}
		if len(left) > 0 {
			if err := chain(); err != nil {
				return n, err
			}
		} else if len(young) == 0 && d.k.Now().Sub(r.UpdatedAt) > bootEnds {
			if err := d.endBoot(ctx, r); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

// endBoot closes a boot whose record is unchanged since it was read. A boot
// that is still active opens itself again.
func (d *Directory) endBoot(ctx context.Context, r tidemark.Record) error {
	r.Version, r.State = r.Version+1, bootDone
	_, err := d.k.Commit(ctx, tidemark.Batch{Puts: []tidemark.Record{r}})
	if errors.Is(err, tidemark.ErrConflict) {
		return nil
	}
	return err
}

// Unchained yields the lines of the audit log of a tenant that are
// recorded and not chained yet. They have no Seq and no Hash.
func (d *Directory) Unchained(ctx context.Context, tenant string, from ...tidemark.Backend) iter.Seq2[AuditLine, error] {
	return func(yield func(AuditLine, error) bool) {
		for _, acts := range d.unchained(ctx, tenant, from) {
			for a, err := range acts {
				line := AuditLine{}
				if err == nil {
					line.Audited, err = a.did()
				}
				if !yield(line, err) || err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
					return
				}
			}
		}
	}
}

// NotIn returns the lines without those that were chained since.
func NotIn(unchained, chained []AuditLine) []AuditLine {
	type place struct {
		boot string
		n    int64
	}
	known := make(map[place]bool)
	for _, l := range chained {
		known[place{l.Boot, l.N}] = l.Boot != ""
	}
	return slices.DeleteFunc(unchained, func(l AuditLine) bool { return known[place{l.Boot, l.N}] })
}
