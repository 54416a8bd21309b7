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

// Checkpoints and files may hold secrets just as entries do. This file looks for
// them before they are encoded, by the same rules and with the same Redaction.

// redactCheckpoint returns a copy of a checkpoint without secrets, and the values
// for the vault.
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

// RevealCheckpoint returns a checkpoint with each mask replaced by the value that
// the session's vault has for it, as it is needed to continue the session.
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

// RevealText returns text with each mask replaced by the value that any owner's
// vault in this store has for it. Text that is JSON stays valid JSON.
func (s *Store) RevealText(ctx context.Context, text string) (string, error) {
	return s.vault.RevealAnywhere(ctx, text)
}

// A file is searched for secrets in parts. A part ends at the end of a line, since
// few secrets span lines. It has at least partBytes, and a part without a line end
// has about lineBytes at most.
const (
	partBytes = 1 << 20
	lineBytes = 16 << 20
)

// redactingReader reads a file and masks the secrets in it. Parts that are not text
// are passed on unchanged.
type redactingReader struct {
	vault  *vault.Vault
	owner  string
	from   io.Reader
	buf    []byte // read, but not searched yet
	out    []byte // searched, but not returned yet
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

// next reads one part of the file and searches it.
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
