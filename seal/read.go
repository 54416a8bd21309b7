package seal

import (
	"context"
	"errors"
	"iter"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
)

// hidden reports whether a kind is one of this package's own, or of a remote that is
// beside the store and has keys of its own.
func hidden(kind string) bool {
	return kind == kindKeyring || kind == kindDataKey || records.IsBlob(kind)
}

// Get returns a decrypted record, with the head of its log.
func (b *Backend) Get(ctx context.Context, key tidemark.Key) (tidemark.Record, error) {
	if hidden(key.Kind) {
		return tidemark.Record{}, tidemark.NotFoundf("%s: not found", key)
	}
	r, err := b.inner.Get(ctx, key)
	if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
		return r, err
	}
	opened, openErr := b.openRecord(ctx, r)
	if errors.Is(openErr, tidemark.ErrCorrupt) && err == nil && b.gone(ctx, key, r.Version) {
		return tidemark.Record{}, tidemark.NotFoundf("%s: not found", key)
	}
	if err != nil {
		return opened, err
	}
	return opened, openErr
}

// gone reports whether a record that does not open was destroyed meanwhile,
// together with its data key.
func (b *Backend) gone(ctx context.Context, key tidemark.Key, version int64) bool {
	r, err := b.inner.Get(ctx, key)
	return errors.Is(err, tidemark.ErrNotFound) || err == nil && version > 0 && r.Version == 0
}

// openRecord opens what the Backend underneath returned. With an error it
// returns the fields that can be trusted without the body.
func (b *Backend) openRecord(ctx context.Context, r tidemark.Record) (tidemark.Record, error) {
	bare := tidemark.Record{Key: r.Key, Version: r.Version}
	if r.Head.Length > 0 {
		if len(r.Head.Chain) < tagBytes {
			return bare, damaged(r.Key, "its log is not sealed: it was put into the sealed store without its key")
		}
		r.Head.Chain = chainOf(r.Head.Chain)
	}
	if r.Version == 0 {
		return r, nil
	}
	k, err := b.keyFor(ctx, r.Key)
	if err != nil {
		return bare, err
	}
	body, err := openRecord(k, b.store, r.Key, r.Body)
	if err != nil {
		again, keyErr := b.keyAgain(ctx, r.Key, k)
		if keyErr != nil {
			return bare, keyErr
		}
		if again != nil {
			body, err = openRecord(again, b.store, r.Key, r.Body)
		}
	}
	if err != nil {
		return bare, damaged(r.Key, "%s", err)
	}
	r.Body = body
	r.Sum = r.Checksum()
	return r, nil
}

// List yields decrypted records.
func (b *Backend) List(ctx context.Context, q tidemark.Query) iter.Seq2[tidemark.Record, error] {
	return func(yield func(tidemark.Record, error) bool) {
		if hidden(q.Kind) {
			return
		}
		for r, err := range b.inner.List(ctx, q) {
			if err == nil {
				r, err = b.listed(ctx, r)
				if errors.Is(err, tidemark.ErrNotFound) {
					continue
				}
			}
			if !yield(r, err) || err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
				return
			}
		}
	}
}

func (b *Backend) listed(ctx context.Context, r tidemark.Record) (tidemark.Record, error) {
	opened, err := b.openRecord(ctx, r)
	if err == nil {
		return opened, nil
	}
	if errors.Is(err, tidemark.ErrCorrupt) && b.gone(ctx, r.Key, r.Version) {
		return opened, tidemark.ErrNotFound
	}
	return tidemark.Record{Key: r.Key}, err
}

// Lines yields decrypted lines. A line that does not follow the one read just
// before it is damage, too.
func (b *Backend) Lines(ctx context.Context, log tidemark.Key, spans ...tidemark.Span) iter.Seq2[tidemark.Line, error] {
	return func(yield func(tidemark.Line, error) bool) {
		if hidden(log.Kind) {
			return
		}
		if log.Kind == tidemark.ActKind {
			b.inner.Lines(ctx, log, spans...)(yield)
			return
		}
		r := lineReader{b: b, log: log}
		for l, err := range b.inner.Lines(ctx, log, spans...) {
			if err == nil {
				if err = r.open(ctx, &l); errors.Is(err, tidemark.ErrNotFound) {
					return
				}
			} else {
				r.last = 0
			}
			if !yield(l, err) || err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
				return
			}
		}
	}
}

// lineReader opens the lines of one log.
type lineReader struct {
	b      *Backend
	log    tidemark.Key
	opener lineOpener
	key    *dataKey
	keyErr error // there is no key
	looked bool  // and it is the newest one

	last   int64 // the seq of the previous line, 0: unknown
	tag    tag   // its tag
	before tag   // the tag of the line before that
}

// open opens l in place. With an error it leaves nothing of it but its Seq.
func (r *lineReader) open(ctx context.Context, l *tidemark.Line) error {
	what, err := r.opened(ctx, l)
	if what != "" {
		err = &tidemark.Damage{Key: r.log, Seq: l.Seq, What: what}
	}
	if err != nil {
		*l = tidemark.Line{Seq: l.Seq}
	}
	return err
}

// opened opens l in place, or says what is wrong with it.
func (r *lineReader) opened(ctx context.Context, l *tidemark.Line) (wrong string, err error) {
	if r.key == nil && r.keyErr == nil {
		r.key, r.keyErr = r.b.keyFor(ctx, r.log)
		if errors.Is(r.keyErr, tidemark.ErrCorrupt) && r.b.gone(ctx, r.log, 0) {
			r.keyErr = tidemark.NotFoundf("%s: not found", r.log)
		}
	}
	if r.keyErr != nil {
		if errors.Is(r.keyErr, tidemark.ErrCorrupt) {
			return damageText(r.keyErr), nil
		}
		return "", r.keyErr
	}
	sealed, chain := l.Body, l.Chain
	err = r.opener.open(r.key, r.b.store, r.log, l)
	if err != nil && !r.looked {
		r.looked = true
		again, keyErr := r.b.keyAgain(ctx, r.log, r.key)
		if keyErr != nil && !errors.Is(keyErr, tidemark.ErrCorrupt) {
			return "", keyErr
		}
		if again != nil {
			r.key = again
			err = r.opener.open(again, r.b.store, r.log, l)
		}
	}
	if err != nil {
		r.last = 0
		return err.Error(), nil
	}
	return r.follow(l.Seq, tagOf(sealed), tag(chain)), nil
}

// follow compares a line, of which it knows the tag and that of the line before, with its
// neighbour, if that was read just before. A damaged neighbour proves nothing against it.
func (r *lineReader) follow(seq int64, t, before tag) (what string) {
	switch {
	case seq == 1 && before != tag{}:
		what = "it is the first line of its log, and was sealed behind another one"
	case r.last != 0 && r.last == seq-1 && before != r.tag:
		what = "it was sealed behind another line than the one before it"
	case r.last != 0 && r.last == seq+1 && t != r.before:
		what = "the line after it was sealed behind another one"
	}
	r.last, r.tag, r.before = seq, t, before
	return what
}
