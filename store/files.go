package store

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
	"github.com/tidemark-sessions/tidemark/internal/vault"
)

// File is a durable file of a session: its agent wrote it in order to have it
// after a restart. The usual folders are memory, artifacts, buffers and meta. A
// fork begins without files.
type File struct {
	Name       string    `json:"name"` // slash-separated
	Size       int64     `json:"size"`
	SHA256     string    `json:"sha256"`
	ModifiedAt time.Time `json:"modified_at"`
	Content    string    `json:"content"` // the last part of the id of the log that holds it
}

// chunkBytes is how much of a file is in one line.
const chunkBytes = 256 << 10

// filling is the state of the record beside a content that is not complete, so
// that no file refers to it yet. If the writer dies, a purge finds the content by
// that record.
const filling = "filling"

// CheckFile returns ErrInvalid for a name that no file of a session can have.
func CheckFile(name string) error {
	switch {
	case len(name) > 512:
		return tidemark.Invalidf("file %.40q…: a name of at most 512 bytes is allowed", name)
	case name == "." || !fs.ValidPath(name) || strings.ContainsFunc(name, unicode.IsControl) || strings.Contains(name, `\`):
		return tidemark.Invalidf("file %q: want a relative path with slashes, without . and ..", name)
	}
	return nil
}

func (s *Store) fileKey(id tidemark.SessionID, name string) tidemark.Key {
	return keyOf(kindFile, id, s.k.Hash("file", name))
}

// PutFile keeps a file under a name, and replaces the one that is there. It
// returns when all of it is durable; until then readers see the old one.
// ErrConflict: the lease is lost.
func (w *Writer) PutFile(ctx context.Context, name string, content io.Reader) (File, error) {
	if err := CheckFile(name); err != nil {
		return File{}, err
	}
	w.held.Lock()
	defer w.held.Unlock()
	if !w.held.IsTaken() {
		return File{}, tidemark.NotFoundf("session %s: nothing was said yet", w.id)
	}
	f := File{Name: name, Content: rand.Text()}
	c := &chunks{w: w, content: f.Content, log: keyOf(kindFile, w.id, f.Content), sum: sha256.New()}
	shown := &redactingReader{vault: w.s.vault, owner: string(w.id), from: content}
	if w.s.vault.Looks() {
		content = shown
	}
	err := c.fill(ctx, content)
	if err == nil {
		f.Size, f.SHA256 = c.size, hex.EncodeToString(c.sum.Sum(nil))
		err = w.putFile(ctx, &f, c.record, shown.values)
	}
	if err != nil {
		// No file refers to what was written.
		_, dropErr := w.s.k.Commit(context.WithoutCancel(ctx), tidemark.Batch{Deletes: c.record, Drops: []tidemark.Key{c.log}})
		return File{}, errors.Join(w.held.Lost(ctx, err), dropErr)
	}
	return f, nil
}

// putFile makes f the file of its name, drops the content of the one before, and
// deletes the record beside the new content, which is no longer needed. What was
// masked goes to the vault.
func (w *Writer) putFile(ctx context.Context, f *File, beside []tidemark.Precondition, secrets vault.Values) error {
	b := tidemark.Batch{At: w.s.k.Now(), Deletes: beside}
	if err := w.s.vault.Add(ctx, &b, string(w.id), secrets); err != nil {
		return err
	}
	f.ModifiedAt = b.At
	var old File
	was, err := w.s.k.Get(ctx, w.s.fileKey(w.id, f.Name), &old)
	if err != nil {
		return err
	}
	r, err := records.Put(was.Key, was.Version, f)
	if err != nil {
		return err
	}
	b.Puts = append(b.Puts, r)
	if old.Content != "" {
		b.Drops = append(b.Drops, keyOf(kindFile, w.id, old.Content))
	}
	if err := w.held.Guard(&b, false); err != nil {
		return err
	}
	_, err = w.s.k.Commit(ctx, b)
	return err
}

// chunks writes the content of a file into a log of its own.
type chunks struct {
	w       *Writer
	content string
	log     tidemark.Key
	record  []tidemark.Precondition // beside the log, once there is one
	seq     int64
	size    int64
	sum     hash.Hash
}

func (c *chunks) fill(ctx context.Context, content io.Reader) error {
	buf := make([]byte, chunkBytes)
	for {
		n, err := io.ReadFull(content, buf)
		if n > 0 {
			if err := c.add(ctx, buf[:n]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (c *chunks) add(ctx context.Context, chunk []byte) error {
	c.seq++
	c.size += int64(len(chunk))
	c.sum.Write(chunk)
	b := tidemark.Batch{At: c.w.s.k.Now()}
	l := tidemark.Line{Seq: c.seq, Kind: "chunk", At: b.At, Body: bytes.Clone(chunk)}
	l.Sum = l.Checksum(c.log)
	b.Appends = []tidemark.Append{{Log: c.log, Lines: []tidemark.Line{l}}}
	if c.seq == 1 {
		r, err := records.Put(c.log, 0, File{Content: c.content})
		if err != nil {
			return err
		}
		r.State = filling
		b.Puts = append(b.Puts, r)
	}
	if err := c.w.held.Guard(&b, false); err != nil {
		return err
	}
	_, err := c.w.s.k.Commit(ctx, b)
	if err == nil && c.seq == 1 {
		c.record = []tidemark.Precondition{{Key: c.log, Version: 1}}
	}
	return err
}

// RemoveFile removes a file: ErrNotFound. ErrConflict: the lease is lost.
func (w *Writer) RemoveFile(ctx context.Context, name string) error {
	w.held.Lock()
	defer w.held.Unlock()
	f, r, err := w.s.file(ctx, w.id, name)
	if err != nil {
		return err
	}
	b := tidemark.Batch{Deletes: []tidemark.Precondition{{Key: r.Key, Version: r.Version}}, Drops: []tidemark.Key{keyOf(kindFile, w.id, f.Content)}}
	if err := w.held.Guard(&b, false); err != nil {
		return err
	}
	_, err = w.s.k.Commit(ctx, b)
	return w.held.Lost(ctx, err)
}

func (s *Store) file(ctx context.Context, id tidemark.SessionID, name string) (File, tidemark.Record, error) {
	var f File
	r, err := s.k.Get(ctx, s.fileKey(id, name), &f)
	if err == nil && r.Version == 0 {
		err = tidemark.NotFoundf("session %s: file %q: not found", id, name)
	}
	return f, r, err
}

// StatFile returns the size and other data of a file without reading its content:
// ErrNotFound.
func (s *Store) StatFile(ctx context.Context, id tidemark.SessionID, name string) (File, error) {
	f, _, err := s.file(ctx, id, name)
	return f, err
}

// Files lists the files of a session by name.
func (s *Store) Files(ctx context.Context, id tidemark.SessionID) ([]File, error) {
	var all []File
	for r, err := range s.backend.List(ctx, tidemark.Query{Kind: kindFile, Prefix: string(id) + "."}) {
		if err != nil {
			return all, err
		}
		if r.State == filling || r.State == tallying {
			continue
		}
		var f File
		if err := records.Decode(r, &f); err != nil {
			return all, err
		}
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// CopyFile writes the content of a file to out: ErrNotFound, or a *tidemark.Damage
// when the content is not what was kept. When it returns an error, out may have
// got a wrong content.
func (s *Store) CopyFile(ctx context.Context, id tidemark.SessionID, name string, out io.Writer) (File, error) {
	f, _, err := s.file(ctx, id, name)
	if err != nil {
		return f, err
	}
	log := keyOf(kindFile, id, f.Content)
	sum, size := sha256.New(), int64(0)
	for l, err := range s.backend.Lines(ctx, log) {
		if err != nil {
			return f, err
		}
		sum.Write(l.Body)
		size += int64(len(l.Body))
		if _, err := out.Write(l.Body); err != nil {
			return f, err
		}
	}
	if size != f.Size || hex.EncodeToString(sum.Sum(nil)) != f.SHA256 {
		// Not damage if the file was replaced meanwhile: the caller can try again.
		if again, _, err := s.file(ctx, id, name); err == nil && again.Content != f.Content {
			return again, tidemark.Conflictf("session %s: file %q was replaced while it was read", id, name)
		}
		return f, &tidemark.Damage{Key: log, What: "file " + name + ": not what was kept"}
	}
	return f, nil
}

// ReadFile returns the content of a file of a session.
func (s *Store) ReadFile(ctx context.Context, id tidemark.SessionID, name string) ([]byte, error) {
	var buf bytes.Buffer
	err := records.Retry(ctx, func() error {
		buf.Reset()
		_, err := s.CopyFile(ctx, id, name, &buf)
		return err
	})
	return buf.Bytes(), err
}
