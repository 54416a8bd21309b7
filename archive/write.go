package archive

import (
	"context"
	"io"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// WriteOptions say what is written.
type WriteOptions struct {
	// Since makes the archive incremental: it holds what changed since the
	// archive with this manifest, and what is gone. The manifest comes from
	// Write or Inspect.
	Since *Manifest
	// Describe is stored in the manifest for people to read.
	Describe map[string]string
	// Damaged is called with each record and line that cannot be read. Records
	// are left out, a gap replaces a line, and the rest is written. When it is
	// nil, damage ends the writing.
	Damaged func(error)
	// Progress is called now and then, from the goroutine that called Write.
	Progress func(Progress)
}

// Write writes everything that from holds to w. For a sealed store, from is the
// Backend under the seal: then bodies are copied as they are stored.
//
// The store may be written to meanwhile. Each record in the archive is complete,
// as it was at some moment between start and end, each log goes up to a line
// that was the newest at such a moment, and no record is newer than any log.
// Keys that were made after the start may be left out.
//
// ErrConflict: the keyring was changed meanwhile. After an error, what was
// written is not an archive, and reading it says so.
func Write(ctx context.Context, w io.Writer, from tidemark.Backend, o *WriteOptions) (Manifest, error) {
	if o == nil {
		o = &WriteOptions{}
	}
	s := newSource(ctx, from)
	m := Manifest{Format: Format, MadeAt: time.Now().UTC().Truncate(time.Second), Describe: o.Describe, Kinds: make(map[string]Count)}
	flags := uint16(0)
	if o.Since != nil {
		if o.Since.Keys == nil && o.Since.Count != (Count{}) {
			return Manifest{}, tidemark.Invalidf("archive: the manifest of the archive before has no keys")
		}
		s.since = o.Since.Keys
		m.Since = &Base{MadeAt: o.Since.MadeAt, Digest: o.Since.Digest}
		flags |= flagSince
	}
	var err error
	if m.Sealed, err = sealed(ctx, from); err != nil {
		return Manifest{}, err
	}
	if m.Sealed {
		flags |= flagSealed
	}
	if o.Damaged != nil {
		s.damaged = func(err error) {
			m.Damaged++
			o.Damaged(err)
		}
	}
	p, err := newPacker(w, flags)
	if err != nil {
		return Manifest{}, err
	}
	defer p.close()
	if err := write(s, p, &m, o.Progress); err != nil {
		return Manifest{}, err
	}
	return m, nil
}

func write(s *source, p *packer, m *Manifest, progress func(Progress)) error {
	s.emit = func(it *item) error {
		if err := m.count(it); err != nil {
			return err
		}
		if err := p.item(it); err != nil {
			return err
		}
		if progress != nil {
			progress(progressOf(m, it, p.packed.Load()))
		}
		return s.ctx.Err()
	}
	if err := s.all(); err != nil {
		return err
	}
	for i := range s.keys {
		it := item{kind: keptItem, kept: s.keys[i]}
		if err := m.count(&it); err != nil {
			return err
		}
		if err := p.item(&it); err != nil {
			return err
		}
	}
	m.Keys = s.keys
	return p.finish(m)
}

func progressOf(m *Manifest, it *item, packed int64) Progress {
	p := Progress{Key: it.record.Key, Records: m.Records, Lines: m.Lines, Bytes: m.Bytes, Packed: packed}
	switch it.kind {
	case linesItem:
		p.Key = it.lines.Log
	case goneItem, keptItem:
		p.Key = it.kept.Key
	}
	return p
}
