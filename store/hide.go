package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
)

// Entries are not all that is written. What else people and programs put into
// words, the prompts and the output of jobs, what agents and checkpoints
// remember, the text of files, is looked through for secrets here, before it is
// encoded, by the same rules and with the same choice of what becomes of them.

// redact looks for secrets in an entry that is about to be written.
func (s *Store) redact(id tidemark.SessionID, e tidemark.Entry) (tidemark.Entry, map[string]vaulted) {
	if !s.looks() {
		return e, nil
	}
	secrets := s.o.Secrets(e)
	if len(secrets) == 0 {
		return e, nil
	}
	if s.o.Warn != nil {
		s.o.Warn(id, secrets)
	}
	if s.o.Redact == RedactWarn {
		return e, nil
	}
	masked, values := s.mask(e, secrets)
	if s.o.Redact != RedactVault {
		return masked, nil
	}
	return masked, values
}

// looks reports whether secrets are looked for in what is written.
func (s *Store) looks() bool {
	return s.o.Secrets != nil && s.o.Redact != "" && s.o.Redact != RedactOff
}

// hide puts masks into texts and JSON in place of secrets, and returns what the
// vault is to keep of them.
func (s *Store) hide(id tidemark.SessionID, plain []*string, raw ...*json.RawMessage) map[string]vaulted {
	if !s.looks() {
		return nil
	}
	e := tidemark.Entry{Kind: tidemark.KindMessage, Blocks: make([]tidemark.Block, 0, len(plain)+len(raw))}
	for _, p := range plain {
		e.Blocks = append(e.Blocks, tidemark.Block{Type: tidemark.BlockText, Text: *p})
	}
	for _, p := range raw {
		e.Blocks = append(e.Blocks, tidemark.Block{Type: tidemark.BlockToolUse, Input: *p})
	}
	masked, values := s.redact(id, e)
	for i, p := range plain {
		*p = masked.Blocks[i].Text
	}
	for i, p := range raw {
		*p = masked.Blocks[len(plain)+i].Input
	}
	return values
}

// hideJob hides the secrets of a job. Its Extra is left as it is: it has ids by
// which deliveries are known again.
func (s *Store) hideJob(j *tidemark.Job) map[string]vaulted {
	return s.hide(tidemark.SessionID(j.ID), []*string{&j.Prompt, &j.Summary, &j.ErrorMessage})
}

func (s *Store) hideEvent(id string, e *tidemark.Event) map[string]vaulted {
	return s.hide(tidemark.SessionID(id), []*string{&e.Content, &e.Error, &e.Message, &e.Stack}, &e.Input, &e.Result, &e.Extra)
}

func (s *Store) hideAgent(a *tidemark.Agent) map[string]vaulted {
	return s.hide(tidemark.SessionID(a.Name), []*string{&a.ErrorMessage}, &a.Extra)
}

// hideCheckpoint returns a checkpoint without secrets; nothing of the one that
// it is given changes.
func (s *Store) hideCheckpoint(id tidemark.SessionID, c Checkpoint) (Checkpoint, map[string]vaulted, error) {
	if !s.looks() {
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
	values := s.hide(id, plain, raw...)
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
		quoted, err := records.Encode(kept.Value)
		if err != nil || !ok {
			return "", false
		}
		return string(quoted[1 : len(quoted)-1]), true // inside of a JSON string
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

// keepSecrets puts into the vault of an owner what masks stand for, before the
// masks are written: what is cut off in between keeps a value too many, and
// never a mask that nobody can reveal.
func (s *Store) keepSecrets(ctx context.Context, owner string, values map[string]vaulted) error {
	if len(values) == 0 {
		return nil
	}
	return records.Retry(ctx, func() error {
		var b tidemark.Batch
		if err := s.vault(ctx, &b, tidemark.SessionID(owner), values); err != nil || len(b.Puts) == 0 {
			return err
		}
		_, err := s.k.Commit(ctx, b)
		return err
	})
}

// forgetSecrets adds to a batch that the vault of an owner is emptied.
func (s *Store) forgetSecrets(ctx context.Context, b *tidemark.Batch, owner string) error {
	for r, err := range s.backend.List(ctx, tidemark.Query{Kind: kindSecret, Prefix: owner + ".", Order: tidemark.ByID}) {
		if err != nil && !(errors.Is(err, tidemark.ErrCorrupt) && r.Version > 0) {
			return err
		}
		b.Deletes = append(b.Deletes, tidemark.Precondition{Key: r.Key, Version: r.Version})
	}
	return nil
}

// RevealText returns text with what any vault of this store has in place of
// masks. Text that is JSON stays so.
func (s *Store) RevealText(ctx context.Context, text string) (string, error) {
	wanted := tidemark.Fingerprints(text)
	if len(wanted) == 0 {
		return text, nil
	}
	quote, values := json.Valid([]byte(text)), make(map[string]string)
	for r, err := range s.backend.List(ctx, tidemark.Query{Kind: kindSecret, Order: tidemark.ByID}) {
		mark := r.ID[strings.LastIndexByte(r.ID, '.')+1:]
		if errors.Is(err, tidemark.ErrCorrupt) || err == nil && !slices.Contains(wanted, mark) {
			continue
		}
		var kept vaulted
		if err == nil {
			err = records.Decode(r, &kept)
		}
		if err != nil {
			return text, err
		}
		values[mark] = kept.Value
		if quote {
			b, err := records.Encode(kept.Value)
			if err != nil {
				return text, err
			}
			values[mark] = string(b[1 : len(b)-1]) // inside of a JSON string
		}
	}
	return tidemark.Unmask(text, func(mark string) (string, bool) {
		value, ok := values[mark]
		return value, ok
	}), nil
}

// JobPrompt is what a job is to be told, with what the vault has in place of
// masks. Everybody else sees the masks.
func (s *Store) JobPrompt(ctx context.Context, j tidemark.Job) (string, error) {
	var failed error
	text := tidemark.Unmask(j.Prompt, func(mark string) (string, bool) {
		var kept vaulted
		r, err := s.k.Get(ctx, keyOf(kindSecret, tidemark.SessionID(j.ID), mark), &kept)
		if err != nil {
			failed = err
		}
		return kept.Value, err == nil && r.Version > 0
	})
	return text, failed
}

// A file is looked through in parts that end between two lines, since few
// secrets have more than one. A part has at least partBytes; one that is a
// single line has at most lineBytes.
const (
	partBytes = 1 << 20
	lineBytes = 16 << 20
)

// hidingReader reads a file and puts masks in place of the secrets in its text.
// What is not text comes as it is.
type hidingReader struct {
	s      *Store
	id     tidemark.SessionID
	from   io.Reader
	buf    []byte // read, and not looked through
	out    []byte // looked through, and not handed out
	err    error
	values map[string]vaulted
}

func (r *hidingReader) Read(p []byte) (int, error) {
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
func (r *hidingReader) next() error {
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
		for mark, v := range r.s.hide(r.id, []*string{&text}) {
			if r.values == nil {
				r.values = make(map[string]vaulted)
			}
			r.values[mark] = v
		}
		r.out = []byte(text)
	}
	return nil
}
