package transfer

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/archive"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/seal"
	"github.com/tidemark-sessions/tidemark/search/index"
)

// RestoreOptions say where an archive goes, and how.
type RestoreOptions struct {
	// URL is the store to restore into, and Open how it is opened.
	URL  string
	Open *open.Options
	// Opened is that store if it is open already.
	Opened *open.Opened
	// Progress receives how far it is; it may be nil.
	Progress func(archive.Progress)
}

// Restored is the outcome of restoring an archive.
type Restored struct {
	Manifest archive.Manifest
	// Opened is the store with what was restored, not indexed yet. It is nil when
	// its key is not available: KeyMissing says which, and everything is restored
	// all the same.
	Opened     *open.Opened
	KeyMissing error
}

// Restore reads an archive into a new store, or into one that contains the
// beginning of it. An archive of an encrypted store is written unchanged, below
// the encryption, and needs no key; a plain one goes through the encryption. It
// can be interrupted and called again: it continues where it was. ErrConflict:
// the store contains something else, and nothing of it was overwritten.
func Restore(ctx context.Context, r io.Reader, sealed bool, o RestoreOptions) (Restored, error) {
	t := &restoring{RestoreOptions: o}
	if err := t.target(ctx, sealed); err != nil {
		return Restored{}, errors.Join(err, t.letGo())
	}
	m, err := t.read(ctx, r)
	if err != nil {
		return Restored{Manifest: m}, errors.Join(err, t.letGo())
	}
	opened, missing, err := t.reopen(ctx)
	return Restored{Manifest: m, Opened: opened, KeyMissing: missing}, err
}

// restoring is an archive while it is restored.
type restoring struct {
	RestoreOptions
	begun  *open.Opened     // opened by this restore
	inner  tidemark.Backend // opened by this restore below the encryption
	into   tidemark.Backend
	change func(tidemark.Record) (tidemark.Record, error)
}

// read reads the archive, and has the search index follow: what comes in looks as
// old as it is, and what is taken away is not taken out of the index. Below the
// encryption nothing can be done but to have it made anew.
func (t *restoring) read(ctx context.Context, r io.Reader) (m archive.Manifest, err error) {
	forget := func(ctx context.Context) error { return index.Forget(ctx, t.into, time.Now()) }
	adopted := forget
	if t.Opened != nil {
		forget = t.Opened.Store.ResetIndex
		adopted, err = t.Opened.Store.Adopting(ctx)
	} else {
		err = forget(ctx)
	}
	if err != nil {
		return m, err
	}
	taken := false
	m, err = archive.Read(ctx, r, t.into, &archive.ReadOptions{Progress: t.Progress, Change: t.change, Taking: func(tidemark.Key) error {
		if taken {
			return nil
		}
		taken = true
		return forget(ctx)
	}})
	ending := context.WithoutCancel(ctx)
	if taken {
		err = errors.Join(err, forget(ending)) // who indexed meanwhile may have had what was taken
	}
	return m, errors.Join(err, adopted(ending))
}

// letGo closes what this restore opened.
func (t *restoring) letGo() error {
	switch {
	case t.begun != nil:
		return t.begun.Close()
	case t.inner != nil:
		return t.inner.Close()
	}
	return nil
}

func (t *restoring) how(access open.Access) *open.Options {
	var o open.Options
	if t.Open != nil {
		o = *t.Open
	}
	o.Access = access
	return &o
}

// target opens what the archive is restored into.
func (t *restoring) target(ctx context.Context, sealed bool) error {
	if sealed {
		return t.below(ctx)
	}
	create := t.how(open.Create)
	if t.Opened == nil && create.Plain {
		// The archive itself contains the mark of a plain store.
		var err error
		if t.inner, err = open.Backend(ctx, t.URL, create); err != nil {
			return err
		}
		if fresh, err := open.IsEmpty(ctx, t.inner); fresh || err != nil {
			t.into = t.inner
			return err
		}
		err = t.inner.Close()
		if t.inner = nil; err != nil {
			return err
		}
	}
	if t.Opened == nil {
		var err error
		if t.begun, err = open.Open(ctx, t.URL, create); err != nil {
			t.begun = nil
			return err
		}
		t.Opened = t.begun
	}
	if t.into = t.Opened.Store.Records().Passing(); t.Opened.Sealed() != nil {
		t.change = t.Opened.Refile
	}
	return nil
}

// below opens the store below its encryption, for an archive that is encrypted
// in the same way.
func (t *restoring) below(ctx context.Context) error {
	create := t.how(open.Create)
	if create.Plain {
		return hint.With(tidemark.Invalidf("the archive is of an encrypted store, and stays so"), "import it, then: tidemark migrate --to sqlite:PATH --no-encrypt")
	}
	var err error
	if t.inner, err = open.Backend(ctx, t.URL, create); err != nil {
		return err
	}
	t.into = t.inner
	isSealed, err := seal.IsSealed(ctx, t.inner)
	if err != nil {
		return err
	}
	empty, err := open.IsEmpty(ctx, t.inner)
	if err == nil && !empty && !isSealed {
		err = hint.With(tidemark.Invalidf("the archive is of an encrypted store, and %s is a plain one", t.URL), "restore it elsewhere: tidemark --store sqlite:PATH import ARCHIVE")
	}
	return err
}

// reopen returns the store with what was restored.
func (t *restoring) reopen(ctx context.Context) (opened *open.Opened, missing, err error) {
	if t.Opened != nil {
		if t.inner != nil {
			err = t.inner.Close()
		}
		return t.Opened, nil, err
	}
	b, err := open.Unseal(ctx, t.inner, t.how(open.Write))
	if errors.Is(err, tidemark.ErrSealed) {
		return nil, err, t.inner.Close()
	}
	if err != nil {
		return nil, nil, errors.Join(err, t.inner.Close())
	}
	opened, err = open.Over(b, t.inner, t.how(open.Write))
	if err != nil {
		return nil, nil, errors.Join(err, b.Close())
	}
	return opened, nil, nil
}
