// Package bundle reads the data exports of web services: a zip, or the folder
// that somebody unpacked it into, with one or more lists of conversations as
// JSON. It unpacks nothing to disk, follows no link, and holds one conversation
// at a time. It knows no service.
//
//	b, err := bundle.Open(place)
//	for c, err := range b.Conversations(ctx) { … }
package bundle

import (
	"archive/zip"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// Bundle is an export that is open.
type Bundle struct {
	fsys  fs.FS
	dir   string
	lists []string // the files with conversations
	files []string // all others, by their names without folders; nil: not looked for yet
	zip   io.Closer
}

const (
	zipMagic = "PK\x03\x04"
	// maxMembers bounds the files in a zip.
	maxMembers = 1 << 20
	// maxRatio bounds how far a file of a zip is unpacked, once it is larger than
	// unpackedFreely. JSON becomes a tenth; a thousandth is an attack.
	maxRatio       = 150
	unpackedFreely = 64 << 20
	// maxConversation bounds one conversation, which is held in memory.
	maxConversation = convert.MaxFile
)

// Open opens an export: a zip, a folder, or one list in a folder. An export
// with no list in it is ErrInvalid, and so is a zip that nobody would make
// without wanting to do harm: with links, with names that lead out of it, or
// with the same name twice.
func Open(p convert.Source) (*Bundle, error) {
	info, err := fs.Stat(p.FS, p.Path)
	if err != nil {
		return nil, err
	}
	b := &Bundle{fsys: p.FS, dir: p.Path}
	switch {
	case info.IsDir():
	case IsZip(p.FS, p.Path):
		if err := b.openZip(p, info.Size()); err != nil {
			return nil, err
		}
	default:
		b.dir, b.lists = path.Dir(p.Path), []string{p.Path}
		return b, nil
	}
	for _, pattern := range []string{"conversations.json", "conversations-*.json", "*/conversations.json", "*/conversations-*.json"} {
		if b.lists = convert.Glob(b.fsys, b.dir, pattern); len(b.lists) > 0 {
			b.dir = path.Dir(b.lists[0])
			return b, nil
		}
	}
	return nil, errors.Join(tidemark.Invalidf("has no conversations.json"), b.Close())
}

// IsZip reports whether a file begins like a zip.
func IsZip(fsys fs.FS, name string) bool {
	head, err := convert.Head(fsys, name, int64(len(zipMagic)))
	return err == nil && string(head) == zipMagic
}

func (b *Bundle) openZip(p convert.Source, size int64) error {
	f, err := p.FS.Open(p.Path)
	if err != nil {
		return err
	}
	at, ok := f.(io.ReaderAt)
	if !ok {
		f.Close()
		return tidemark.Unsupportedf("a zip cannot be read from here; unpack it and give the folder")
	}
	z, err := zip.NewReader(at, size)
	if err == nil {
		err = checkMembers(z.File)
	}
	if err != nil {
		f.Close()
		if errors.Is(err, tidemark.ErrInvalid) {
			return err
		}
		return tidemark.Invalidf("is not a whole zip: %w", err)
	}
	b.fsys, b.dir, b.zip = z, ".", f
	return nil
}

func checkMembers(files []*zip.File) error {
	if len(files) > maxMembers {
		return tidemark.Invalidf("has more than %d files", maxMembers)
	}
	seen := map[string]bool{}
	for _, f := range files {
		name := strings.TrimSuffix(f.Name, "/")
		switch {
		case !fs.ValidPath(name) || strings.Contains(name, `\`):
			return tidemark.Invalidf("has a file whose name leads out of it: %.80q", f.Name)
		case !f.Mode().IsRegular() && !f.Mode().IsDir():
			return tidemark.Invalidf("has a link or a device in it: %.80q", f.Name)
		case f.Flags&1 != 0:
			return tidemark.Invalidf("is encrypted")
		case seen[name]:
			return tidemark.Invalidf("has the file %.80q twice", f.Name)
		}
		seen[name] = true
	}
	return nil
}

// Close closes the export.
func (b *Bundle) Close() error {
	if b.zip == nil {
		return nil
	}
	return b.zip.Close()
}

// open opens a file. What it reads is bounded by what the zip says, which is
// bounded itself: a few bytes may claim to be terabytes.
func (b *Bundle) open(name string) (io.ReadCloser, error) {
	f, err := b.fsys.Open(name)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	if packed, ok := info.Sys().(*zip.FileHeader); ok && info.Size() > unpackedFreely && uint64(info.Size())/maxRatio > packed.CompressedSize64 {
		f.Close()
		return nil, tidemark.Invalidf("unpacks to %d bytes from %d, which no export does", info.Size(), packed.CompressedSize64)
	}
	return struct {
		io.Reader
		io.Closer
	}{io.LimitReader(f, info.Size()), f}, nil
}

// First returns the names of the fields of the first conversation, those at the
// end left out when it is long.
func (b *Bundle) First() (fields []string) {
	f, err := b.open(b.lists[0])
	if err != nil {
		return nil
	}
	defer f.Close()
	dec := json.NewDecoder(io.LimitReader(f, 256<<10))
	for _, want := range []json.Delim{'[', '{'} {
		if t, err := dec.Token(); err != nil || t != want {
			return nil
		}
	}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			break
		}
		key, _ := t.(string)
		fields = append(fields, key)
		var skipped json.RawMessage
		if dec.Decode(&skipped) != nil {
			break
		}
	}
	return fields
}

// Has reports whether the first conversation has all of these fields.
func (b *Bundle) Has(fields ...string) bool {
	first := b.First()
	return !slices.ContainsFunc(fields, func(f string) bool { return !slices.Contains(first, f) })
}

// errLong ends a list with a conversation that is too long: where it ends is not
// known without reading it.
var errLong = tidemark.Invalidf("a conversation is longer than %d bytes; it and what follows it is not read", maxConversation)

// sinceLast limits what is read for one element of a list.
type sinceLast struct {
	r    io.Reader
	left int64
}

func (s *sinceLast) Read(p []byte) (int, error) {
	if s.left <= 0 {
		return 0, errLong
	}
	n, err := s.r.Read(p[:min(int64(len(p)), s.left)])
	s.left -= int64(n)
	return n, err
}

// Conversations yields the conversations of all lists. One that is no object is
// a *convert.Skip; a list that is cut off is one, too, after what was whole.
func (b *Bundle) Conversations(ctx context.Context) iter.Seq2[convert.Object, error] {
	return func(yield func(convert.Object, error) bool) {
		for _, name := range b.lists {
			if !b.list(ctx, name, yield) {
				return
			}
		}
	}
}

func (b *Bundle) list(ctx context.Context, name string, yield func(convert.Object, error) bool) bool {
	skip := func(why error) bool { return yield(nil, &convert.Skip{What: name, Why: why}) }
	f, err := b.open(name)
	if err != nil {
		return skip(err)
	}
	defer f.Close()
	bounded := &sinceLast{f, maxConversation}
	dec := json.NewDecoder(bounded)
	if t, err := dec.Token(); err != nil || t != json.Delim('[') {
		return skip(tidemark.Invalidf("is not a list of conversations"))
	}
	for dec.More() {
		if ctx.Err() != nil {
			yield(nil, ctx.Err())
			return false
		}
		bounded.left = maxConversation
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			if !errors.Is(err, errLong) {
				err = tidemark.Invalidf("is damaged or cut off: %w", err)
			}
			return skip(err)
		}
		var one convert.Object
		if json.Unmarshal(raw, &one) != nil || one == nil {
			if !skip(tidemark.Invalidf("%.40q is no conversation", raw)) {
				return false
			}
			continue
		}
		if !yield(one, nil) {
			return false
		}
	}
	if _, err := dec.Token(); err != nil {
		return skip(tidemark.Invalidf("is damaged or cut off: %w", err))
	}
	return true
}

// File reads a file of the export whose name begins with an id, nil when there
// is none of at most limit bytes.
func (b *Bundle) File(id string, limit int) (name string, data []byte) {
	if len(id) < minFileID || strings.ContainsFunc(id, func(r rune) bool { return r == '/' || r == '.' }) {
		return "", nil
	}
	if b.files == nil {
		b.files = b.walk()
	}
	at, _ := slices.BinarySearchFunc(b.files, id, func(file, id string) int { return strings.Compare(path.Base(file), id) })
	if at == len(b.files) || !strings.HasPrefix(path.Base(b.files[at]), id) {
		return "", nil
	}
	f, err := b.open(b.files[at])
	if err != nil {
		return "", nil
	}
	defer f.Close()
	data, err = io.ReadAll(io.LimitReader(f, int64(limit)+1))
	if err != nil || len(data) == 0 || len(data) > limit {
		return "", nil
	}
	return path.Base(b.files[at]), data
}

// minFileID is shorter than every id of a file, and longer than the beginning of
// names that are none.
const minFileID = 8

// maxFolders bounds how deep files are looked for in a folder, which may be more
// than an export.
const maxFolders = 3

func (b *Bundle) walk() []string {
	files := []string{}
	top := strings.Count(b.dir, "/")
	_ = fs.WalkDir(b.fsys, b.dir, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || d.IsDir() && strings.Count(name, "/")-top >= maxFolders:
			return fs.SkipDir
		case len(files) >= maxMembers:
			return fs.SkipAll
		case d.Type().IsRegular() && !slices.Contains(b.lists, name):
			files = append(files, name)
		}
		return nil
	})
	slices.SortFunc(files, func(a, b string) int { return strings.Compare(path.Base(a), path.Base(b)) })
	return files
}

// Detect reports whether a Source is an export whose conversations have these
// fields.
func Detect(p convert.Source, fields ...string) bool {
	b, err := Open(p)
	if err != nil {
		return false
	}
	defer b.Close()
	return b.Has(fields...)
}

// Sessions yields what session makes of each conversation. A conversation that
// it refuses, or whose id was there before, is a *convert.Skip.
func Sessions(ctx context.Context, p convert.Source, session func(*Bundle, convert.Object) (*convert.Session, error)) iter.Seq2[*convert.Session, error] {
	return func(yield func(*convert.Session, error) bool) {
		b, err := Open(p)
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) {
				err = &convert.Skip{What: p.Path, Why: err}
			}
			yield(nil, err)
			return
		}
		defer b.Close()
		seen := map[string]bool{}
		for c, err := range b.Conversations(ctx) {
			var s *convert.Session
			if err == nil {
				if s, err = session(b, c); err == nil && seen[s.ForeignID] {
					err = tidemark.Invalidf("is there twice")
				}
				if err != nil {
					err = &convert.Skip{What: cmp.Or(c.Text("title"), c.Text("name"), "a conversation"), Why: err}
				} else {
					seen[s.ForeignID] = true
				}
			}
			if err != nil {
				s = nil
			}
			if !yield(s, err) || err != nil && !convert.IsSkip(err) {
				return
			}
		}
	}
}

// Seconds returns the time under a key: seconds since 1970 with a fraction, or
// RFC 3339.
func Seconds(o convert.Object, key string) time.Time {
	if text, ok := convert.Text(o[key]); ok {
		return convert.ParseTime(text)
	}
	return convert.Milli(o.Number(key) * 1000)
}
