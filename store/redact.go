package store

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"unicode/utf8"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
	"github.com/tidemark-sessions/tidemark/internal/vault"
)

// Entries are not all that is written. What else people and programs put into
// words, what checkpoints remember and the text of files, is looked through for
// secrets here, before it is encoded, by the same rules and with the same choice
// of what becomes of them.

// redactCheckpoint returns a checkpoint without secrets; nothing of the one that
// it is given changes.
func (s *Store) redactCheckpoint(id tidemark.SessionID, c Checkpoint) (Checkpoint, vault.Values, error) {
	if !s.vault.Looks() {
		return c, nil, nil
	}
	b, err := records.Encode(c)
	if err != nil {
		return c, nil, err
	}
	var copied Checkpoint
	if err := json.Unmarshal(b, &copied); err != nil {
		return c, nil, err
	}
	plain, raw := []*string{&copied.Reason}, []*json.RawMessage{&copied.Extra}
	for i := range copied.Loops {
		plain = append(plain, &copied.Loops[i].Goal)
	}
	for i := range copied.Tasks {
		plain = append(plain, &copied.Tasks[i].Text)
	}
	for i := range copied.Approvals {
		plain = append(plain, &copied.Approvals[i].Scope)
	}
	for i := range copied.DynamicTools {
		t := &copied.DynamicTools[i]
		plain, raw = append(plain, &t.Description, &t.Command), append(raw, &t.Schema)
	}
	remembered := make(map[string]*string)
	for k, v := range copied.CoreMemory {
		remembered[k] = &v
		plain = append(plain, &v)
	}
	values := s.vault.Redact(string(id), plain, raw...)
	for k, v := range remembered {
		copied.CoreMemory[k] = *v
	}
	return copied, values, nil
}

// RevealCheckpoint returns a checkpoint with what the session's vault has in
// place of masks, as somebody who goes on with the session needs it.
func (s *Store) RevealCheckpoint(ctx context.Context, id tidemark.SessionID, c Checkpoint) (Checkpoint, error) {
	v := &View{s: s, Info: Info{Session: tidemark.Session{ID: id}}}
	b, err := records.Encode(c)
	if err != nil {
		return c, err
	}
	var failed error
	text := tidemark.Unmask(string(b), func(mark string) (string, bool) {
		kept, ok, err := v.vaulted(ctx, mark)
		if err != nil {
			failed = err
		}
		quoted, err := kept.Quoted()
		return quoted, err == nil && ok
	})
	var open Checkpoint
	if failed == nil {
		failed = json.Unmarshal([]byte(text), &open)
	}
	if failed != nil {
		return c, failed
	}
	return open, nil
}

// RevealText returns text with what any vault of this store has in place of
// masks. Text that is JSON stays so.
func (s *Store) RevealText(ctx context.Context, text string) (string, error) {
	return s.vault.RevealAnywhere(ctx, text)
}

// A file is looked through in parts that end between two lines, since few
// secrets have more than one. A part has at least partBytes; one that is a
// single line has at most lineBytes.
const (
	partBytes = 1 << 20
	lineBytes = 16 << 20
)

// redactingReader reads a file and puts masks in place of the secrets in its text.
// What is not text comes as it is.
type redactingReader struct {
	vault  *vault.Vault
	owner  string
	from   io.Reader
	buf    []byte // read, and not looked through
	out    []byte // looked through, and not handed out
	err    error
	values vault.Values
}

func (r *redactingReader) Read(p []byte) (int, error) {
	for len(r.out) == 0 {
		if r.err != nil && len(r.buf) == 0 {
			return 0, r.err
		}
		if err := r.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.out)
	r.out = r.out[n:]
	return n, nil
}

// next looks through one part of the file: up to the end of its last line.
func (r *redactingReader) next() error {
	more := make([]byte, 64<<10)
	for r.err == nil && (len(r.buf) < partBytes || len(r.buf) < lineBytes && bytes.IndexByte(r.buf, '\n') < 0) {
		n, err := r.from.Read(more)
		r.buf, r.err = append(r.buf, more[:n]...), err
	}
	if r.err != nil && r.err != io.EOF {
		return r.err
	}
	part := r.buf
	if end := bytes.LastIndexByte(part, '\n') + 1; r.err == nil && end > 0 {
		part = part[:end]
	}
	r.buf = bytes.Clone(r.buf[len(part):])
	r.out = part
	if utf8.Valid(part) && bytes.IndexByte(part, 0) < 0 {
		text := string(part)
		for mark, v := range r.vault.Redact(r.owner, []*string{&text}) {
			if r.values == nil {
				r.values = make(vault.Values)
			}
			r.values[mark] = v
		}
		r.out = []byte(text)
	}
	return nil
}
