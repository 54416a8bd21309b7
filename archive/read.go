package archive

import (
	"context"
	"errors"
	"io"

	"github.com/tidemark-sessions/tidemark"
)

// ReadOptions say how an archive is read.
type ReadOptions struct {
	// DryRun verifies everything against its sums and against the target, and
	// commits nothing.
	DryRun bool
	// Change returns a record as the target is to store it, nil: unchanged. It
	// may give it another key, of the same kind; a zero one leaves it out.
	Change func(tidemark.Record) (tidemark.Record, error)
	// Taking is called before a record or log is taken away which the store that the
	// archive is of no longer has; an error ends the reading. It may be nil.
	Taking func(tidemark.Key) error
	// Progress is called now and then, from the goroutine that called Read.
	Progress func(Progress)
}

// Read restores everything of an archive into a Backend, unchanged: versions,
// times and batches stay. Each item is verified against its sums before it is
// committed; at the end each key is looked up in the target, and the whole is
// verified against its digest.
//
// The target need not be empty. What it already has is skipped when it is
// identical, so that an interrupted Read can be repeated and continues; what the
// archive does not name is kept. An incremental archive is read into the target
// that the previous one was read into.
//
// ErrConflict: the target has a record or line that differs, or is sealed with
// other keys; nothing of it was overwritten. ErrCorrupt: the archive is damaged
// or was cut off. ErrInvalid: it is not an archive. ErrUnsupported: a newer
// program wrote it. Whatever the error, what was committed before stays, and
// another Read continues from there.
//
// When ctx ends, Read returns; it does not wait for a read of r in progress.
func Read(ctx context.Context, r io.Reader, into tidemark.Backend, o *ReadOptions) (Manifest, error) {
	if o == nil {
		o = &ReadOptions{}
	}
	u, err := newUnpacker(r)
	if err != nil {
		return Manifest{}, err
	}
	if err := u.header(); err != nil {
		return Manifest{}, err
	}
	if err := fits(ctx, u.flags, into); err != nil {
		return Manifest{}, err
	}
	if o.Change != nil && u.flags&flagSince != 0 {
		return Manifest{}, tidemark.Unsupportedf("archive: an incremental one goes into a store that files things as the first one did")
	}
	a := newAdopter(ctx, into, o.DryRun)
	a.change, a.taking = o.Change, o.Taking
	var last item
	take := func(it *item) error {
		if it.kind == keptItem {
			return a.holds(it.kept)
		}
		last = item{kind: it.kind, record: tidemark.Record{Key: it.record.Key}, lines: tidemark.Append{Log: it.lines.Log}, kept: it.kept}
		return a.take(it)
	}
	m, err := u.items(ctx, take, func(packed int64) error {
		if o.Progress != nil {
			o.Progress(progressOf(&u.tally, &last, packed))
		}
		return ctx.Err()
	})
	// What arrived complete is kept even when the rest did not.
	if ferr := a.flush(); ferr != nil && (err == nil || errors.Is(err, tidemark.ErrCorrupt)) {
		return Manifest{}, ferr
	}
	if err != nil {
		return Manifest{}, err
	}
	return m, nil
}

// fits refuses to mix sealed and plain data: nobody could read the one with the
// key of the other.
func fits(ctx context.Context, flags uint16, into tidemark.Backend) error {
	has, err := sealed(ctx, into)
	if err != nil {
		return err
	}
	switch {
	case has && flags&flagSealed == 0:
		return tidemark.Conflictf("the target is sealed and the archive is not: give a new store")
	case has || flags&flagSealed == 0:
		return nil
	}
	for k, err := range into.Walk(ctx, tidemark.Key{}) {
		if err != nil {
			return err
		}
		return tidemark.Conflictf("the archive is sealed and the target is not, and holds %s: give a new store", k)
	}
	return nil
}

// holds reads back one key and compares it with what the store had. That also
// finds a base that was not read to its end, or a wrong base.
func (a *adopter) holds(k Kept) error {
	if a.dry || k.Derived() || a.change != nil && k.Length == 0 {
		return nil // a changed record may be stored under another key
	}
	if err := a.flush(); err != nil {
		return err
	}
	have, err := a.get(k.Key)
	if err != nil {
		return err
	}
	var mark Mark
	if have.Version > 0 {
		mark = markOf(&have)
	}
	if a.change != nil {
		mark = k.Mark
	}
	switch {
	case mark != k.Mark && k.Kind == keyringKind:
		return tidemark.Conflictf("%s: the target is sealed with other keys than what comes into it", k.Key)
	case mark != k.Mark && have.Version == 0, have.Head.Length < k.Length:
		return tidemark.Conflictf("%s: the target lacks what came before: read that first", k.Key)
	case mark != k.Mark && k.Mark != Mark{}:
		return tidemark.Conflictf("%s: the target has another one", k.Key)
	}
	return nil
}

// maxKeys bounds the keys that Inspect holds of an archive, some 150 bytes each.
const maxKeys = 10_000_000

// Inspect reads an archive to its end, verifies everything that Read would
// verify without a target, and returns its manifest with its keys.
func Inspect(ctx context.Context, r io.Reader) (Manifest, error) {
	u, err := newUnpacker(r)
	if err != nil {
		return Manifest{}, err
	}
	if err := u.header(); err != nil {
		return Manifest{}, err
	}
	keys := []Kept{}
	take := func(it *item) error {
		if it.kind != keptItem {
			return nil
		}
		if n := len(keys); n > 0 && compareKeys(keys[n-1].Key, it.kept.Key) >= 0 {
			return corruptf("%s: its keys are not in order", it.kept.Key)
		}
		if len(keys) == maxKeys {
			return corruptf("more than %d keys", maxKeys)
		}
		keys = append(keys, it.kept)
		return nil
	}
	m, err := u.items(ctx, take, func(int64) error { return nil })
	if err != nil {
		return Manifest{}, err
	}
	m.Keys = keys
	return m, nil
}
