package seal

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/tidemark-sessions/tidemark"
)

// tail is the end of a log, as far as it is known: an append needs the tag of
// the line before.
type tail struct {
	key *dataKey // it was sealed with, at the version of that time
	seq int64
	tag tag
}

type logTail struct {
	log tidemark.Key
	tail
}

// storedKey is a line's key as the Backend underneath sees it.
type storedKey struct {
	log tidemark.Key
	key string
}

// plan is a batch on its way to the Backend underneath.
//
// In addition to what the caller requires, it requires that the data keys it
// seals with have not changed since they were read. So nothing is sealed with a
// key that is being destroyed, and nothing is appended to a log that is being
// dropped: either changes the record of the data key.
type plan struct {
	b     *Backend
	plain tidemark.Batch
	out   tidemark.Batch

	keys       []*dataKey              // that it seals with
	fresh      []*dataKey              // of these, the new ones
	versions   []int64                 // the versions at which it puts them
	ring       *ring                   // that wraps them
	moved      []tidemark.Precondition // data keys that it destroys, or touches because a log is dropped
	callerKeys map[storedKey]string    // the callers' keys
	tails      []logTail
	void       error // not nil: why it cannot succeed
}

// Commit seals a batch and commits it. In addition to the contract: ErrInvalid
// for a key of this package's own kinds, a chain over 48 bytes, or a body that
// with its seal would exceed MaxBodyBytes.
//
// A batch that deletes the record and drops the log of a session, and puts
// nothing of it, destroys the session's data key as well.
func (b *Backend) Commit(ctx context.Context, batch tidemark.Batch) (tidemark.Receipt, error) {
	if err := check(batch); err != nil {
		return tidemark.Receipt{}, err
	}
	for try := 1; ; try++ {
		p := &plan{b: b, plain: batch, out: batch}
		if err := p.seal(ctx); errors.Is(err, errAnew) && try < tries {
			continue
		} else if err != nil {
			return tidemark.Receipt{}, err
		}
		receipt, err := b.inner.Commit(ctx, p.out)
		switch {
		case err == nil:
			p.remember()
			return receipt, nil
		case errors.Is(err, tidemark.ErrExists):
			return p.receipt(receipt), err
		case !errors.Is(err, tidemark.ErrConflict):
			p.forget()
			return receipt, err
		case p.void != nil:
			return receipt, p.void
		}
		stale, lookErr := p.stale(ctx)
		if lookErr != nil {
			return tidemark.Receipt{}, lookErr
		}
		if !stale || try == tries {
			return receipt, err
		}
	}
}

// errAnew says that a plan was made with an outdated key, and is to be made
// again.
var errAnew = tidemark.Conflictf("the data key was changed meanwhile")

// check is Batch.Check and the rules of a sealed store.
func check(batch tidemark.Batch) error {
	// What is trimmed is sealed lines: whoever does it stands below.
	if err := errors.Join(batch.Check(), batch.RefuseTrims()); err != nil {
		return err
	}
	for _, n := range batch.Require {
		if hidden(n.Kind) {
			return errOwn(n.Key)
		}
	}
	for _, n := range batch.Deletes {
		if hidden(n.Kind) {
			return errOwn(n.Key)
		}
	}
	for _, k := range batch.Drops {
		if hidden(k.Kind) {
			return errOwn(k)
		}
	}
	for _, r := range batch.Puts {
		if hidden(r.Kind) {
			return errOwn(r.Key)
		}
		if most := tidemark.MaxBodyBytes - overhead; len(r.Body) > most {
			return tidemark.Invalidf("%s: %d bytes, at most %d can be sealed", r.Key, len(r.Body), most)
		}
	}
	for _, a := range batch.Appends {
		if err := checkAppend(a); err != nil {
			return err
		}
	}
	return nil
}

func errOwn(k tidemark.Key) error {
	return tidemark.Invalidf("%s: is kept by the sealed store itself", k)
}

func checkAppend(a tidemark.Append) error {
	if hidden(a.Log.Kind) {
		return errOwn(a.Log)
	}
	for _, l := range a.Lines {
		if most := tidemark.MaxBodyBytes - overhead - lineExtra - len(l.Key); len(l.Body) > most {
			return tidemark.Invalidf("%s: line %d: %d bytes, at most %d can be sealed", a.Log, l.Seq, len(l.Body), most)
		}
		if len(l.Chain) > maxChain {
			return tidemark.Invalidf("%s: line %d: chain of %d bytes, at most %d are allowed in a sealed store", a.Log, l.Seq, len(l.Chain), maxChain)
		}
	}
	return nil
}

// seal makes the batch for the Backend underneath.
func (p *plan) seal(ctx context.Context) error {
	p.out.Puts, p.out.Appends = nil, nil
	p.out.Require, p.out.Deletes = slices.Clip(p.out.Require), slices.Clip(p.out.Deletes)
	var puts []tidemark.Record
	for _, r := range p.plain.Puts {
		k, err := p.key(ctx, r.Key)
		if err != nil {
			return err
		}
		if err := p.replaces(ctx, k, r); err != nil {
			return err
		}
		r.Body = sealRecord(k, p.b.store, newNonce(), r.Key, r.Body)
		r.Sum = r.Checksum()
		puts = append(puts, r)
	}
	for _, a := range p.plain.Appends {
		if a.Log.Kind == tidemark.ActKind {
			p.out.Appends = append(p.out.Appends, a)
			continue
		}
		if err := p.append(ctx, a); err != nil {
			return err
		}
	}
	if err := p.ends(ctx); err != nil {
		return err
	}
	p.guard()
	p.out.Puts = append(p.out.Puts, puts...) // after the data keys that they need
	if p.void != nil {
		// No keyring has this version, so this conflicts; but first the Backend
		// underneath looks for duplicate keys.
		p.out.Require = append(p.out.Require, tidemark.Precondition{Key: keyringKey, Version: math.MaxInt64})
	}
	return nil
}

// key returns the data key for what is stored under key, and makes one if there
// is none.
func (p *plan) key(ctx context.Context, key tidemark.Key) (*dataKey, error) {
	owner := ownerOf(key)
	for _, k := range p.keys {
		if k.owner == owner {
			return k, nil
		}
	}
	k, err := p.b.dataKey(ctx, owner)
	if err != nil {
		return nil, err
	}
	if k == nil {
		k = newDataKey(owner, newSecret())
		p.fresh = append(p.fresh, k)
	}
	p.keys = append(p.keys, k)
	return k, nil
}

// replaces checks whether a record that is about to be replaced lost its data
// key. A fresh key would hide that.
func (p *plan) replaces(ctx context.Context, k *dataKey, r tidemark.Record) error {
	if k.version > 0 || p.plain.Replaces(r) == 0 {
		return nil
	}
	is, err := p.b.inner.Get(ctx, r.Key)
	switch {
	case err == nil && is.Version > 0:
		return p.b.keyDamage(r.Key, k.owner, nil, nil)
	case err != nil && !errors.Is(err, tidemark.ErrNotFound):
		return err
	}
	p.void = tidemark.Conflictf("%s: is at version 0, not %d", r.Key, p.plain.Replaces(r))
	return nil
}

func (p *plan) append(ctx context.Context, a tidemark.Append) error {
	k, err := p.key(ctx, a.Log)
	if err != nil {
		return err
	}
	before, err := p.before(ctx, k, a)
	if err != nil {
		return err
	}
	packs := p.b.ring.Load().packs()
	lines := make([]tidemark.Line, len(a.Lines))
	for i, l := range a.Lines {
		lines[i] = sealLine(k, p.b.store, packs, newNonce(), a.Log, l, before)
		before = tagOf(lines[i].Body)
		if l.Key != "" {
			if p.callerKeys == nil {
				p.callerKeys = make(map[storedKey]string)
			}
			p.callerKeys[storedKey{a.Log, lines[i].Key}] = l.Key
		}
	}
	p.tails = append(p.tails, logTail{a.Log, tail{key: k, seq: lines[len(lines)-1].Seq, tag: before}})
	a.Lines = lines
	p.out.Appends = append(p.out.Appends, a)
	return nil
}

// before returns the tag of the line that a follows. When there is no such line
// the batch is void: it is sent down to conflict, and cannot succeed even if the
// line is written meanwhile.
func (p *plan) before(ctx context.Context, k *dataKey, a tidemark.Append) (t tag, err error) {
	seq := a.Lines[0].Seq - 1
	if seq == 0 {
		return t, nil
	}
	if last, ok := p.b.tails.get(a.Log); ok && last.key == k && last.seq == seq {
		return last.tag, nil
	}
	for l, err := range p.b.inner.Lines(ctx, a.Log, tidemark.Span{From: seq, To: seq}) {
		if err != nil {
			return t, err
		}
		if k.version == 0 {
			return t, p.b.keyDamage(a.Log, k.owner, nil, nil)
		}
		if _, err := openLine(k, p.b.store, a.Log, l); err != nil {
			again, keyErr := p.b.keyAgain(ctx, a.Log, k)
			switch {
			case keyErr != nil:
				return t, keyErr
			case again != nil:
				return t, errAnew // the session was purged and created again
			}
			return t, &tidemark.Damage{Key: a.Log, Seq: seq, What: err.Error()}
		}
		return tagOf(l.Body), nil
	}
	p.void = tidemark.Conflictf("%s: has no line %d", a.Log, seq)
	return t, nil
}

// ends finds the sessions that the batch destroys, and the logs that it drops on
// their own.
func (p *plan) ends(ctx context.Context) error {
	if len(p.plain.Drops) == 0 {
		return nil
	}
	var owners []string
	for _, log := range p.plain.Drops {
		if o := ownerOf(log); !slices.Contains(owners, o) {
			owners = append(owners, o)
		}
	}
	for _, owner := range owners {
		if slices.ContainsFunc(p.fresh, func(k *dataKey) bool { return k.owner == owner }) {
			continue
		}
		r, err := p.b.inner.Get(ctx, dataKeyKey(owner))
		if errors.Is(err, tidemark.ErrNotFound) || err == nil && r.Version == 0 {
			continue
		}
		destroyed := p.destroys(owner)
		if err != nil && !(destroyed && r.Version > 0 && errors.Is(err, tidemark.ErrCorrupt)) {
			return err
		}
		need := tidemark.Precondition{Key: r.Key, Version: r.Version}
		switch {
		case destroyed:
			p.out.Deletes = append(p.out.Deletes, need)
		case p.plain.Adopt:
			continue // an adopting batch replaces nothing
		default:
			p.out.Puts = append(p.out.Puts, (&dataKey{owner: owner}).record(r.Version, r.Body))
		}
		p.moved = append(p.moved, need)
	}
	return nil
}

// destroys reports whether the batch purges a session.
func (p *plan) destroys(owner string) bool {
	if owner == storeOwner || slices.ContainsFunc(p.keys, func(k *dataKey) bool { return k.owner == owner }) {
		return false
	}
	return slices.ContainsFunc(p.plain.Deletes, func(n tidemark.Precondition) bool {
		return n.ID == owner && slices.Contains(p.plain.Drops, n.Key)
	})
}

// guard adds the batch's preconditions on data keys.
func (p *plan) guard() {
	for _, k := range p.keys {
		if k.version > 0 {
			p.out.Require = append(p.out.Require, tidemark.Precondition{Key: dataKeyKey(k.owner), Version: k.version})
		}
	}
	if len(p.fresh) == 0 {
		return
	}
	// A program that did not notice a rotation must not wrap a key in a store
	// key that is about to be removed.
	p.ring = p.b.ring.Load()
	p.out.Require = append(p.out.Require, tidemark.Precondition{Key: keyringKey, Version: p.ring.version})
	for _, k := range p.fresh {
		k.body = k.wrap(p.ring)
		r := k.record(0, k.body)
		if p.plain.Adopt {
			// The adopted session may have been purged here before. A version
			// other than that of its first key tells programs that remember the
			// old key.
			r.Version = 1 + rand.Int64N(maxFirstVersion)
			r.UpdatedAt, r.Batch = p.plain.At, p.plain.ID
		}
		p.versions = append(p.versions, r.Version)
		p.out.Puts = append(p.out.Puts, r)
	}
}

// maxFirstVersion leaves space for more changes than anybody can make.
const maxFirstVersion = 1 << 40

// remember caches what a successful batch established.
func (p *plan) remember() {
	for i, k := range p.fresh {
		k.version = p.versions[i]
		p.b.keys.set(k.owner, k)
	}
	for _, t := range p.tails {
		p.b.tails.set(t.log, t.tail)
	}
	for _, n := range p.moved {
		p.b.keys.forget(n.ID)
	}
	for _, log := range p.plain.Drops {
		p.b.tails.forget(log)
	}
}

// forget drops what a batch of unknown outcome may have changed.
func (p *plan) forget() {
	for _, t := range p.tails {
		p.b.tails.forget(t.log)
	}
	for _, n := range p.moved {
		p.b.keys.forget(n.ID)
	}
}

// receipt restores the callers' keys.
func (p *plan) receipt(r tidemark.Receipt) tidemark.Receipt {
	out := tidemark.Receipt{Duplicates: slices.Clone(r.Duplicates)}
	for i, k := range out.Duplicates {
		out.Duplicates[i].Key = p.callerKeys[storedKey{k.Log, k.Key}]
	}
	return out
}

// stale reports whether a conflict may be about what the plan added: then the
// plan is made again. Whatever changed meanwhile is read again.
func (p *plan) stale(ctx context.Context) (stale bool, err error) {
	look := func(owner string, version int64) error {
		r, err := p.b.inner.Get(ctx, dataKeyKey(owner))
		if err != nil && !errors.Is(err, tidemark.ErrNotFound) {
			return err
		}
		if r.Version != version {
			stale = true
			_, err = p.b.loadKey(ctx, owner)
			return err
		}
		return nil
	}
	for _, k := range p.keys {
		if err := look(k.owner, k.version); err != nil {
			return false, err
		}
	}
	for _, n := range p.moved {
		if err := look(n.ID, n.Version); err != nil {
			return false, err
		}
	}
	if p.ring != nil {
		r, err := p.b.reload(ctx)
		if err != nil {
			return false, err
		}
		stale = stale || r.version != p.ring.version
	}
	return stale, nil
}
