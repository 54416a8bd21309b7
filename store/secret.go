package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
)

// Redaction is what happens to a secret that is about to be written.
type Redaction string

const (
	RedactOff   Redaction = "off"   // nothing is looked for
	RedactWarn  Redaction = "warn"  // it is written, and said
	RedactMask  Redaction = "mask"  // a mask is written in its place, and it is gone
	RedactVault Redaction = "vault" // a mask is written, and the value kept apart in a sealed record
)

// Secret is a part of an entry that should not be shown: which of its texts,
// as Entry.EachText counts them, and which bytes of that.
type Secret struct {
	Text        int    `json:"text"`
	From        int    `json:"from"`
	To          int    `json:"to"`
	Rule        string `json:"rule"`
	Fingerprint string `json:"fingerprint,omitempty"`
}

// vaulted is the body of a secret record.
type vaulted struct {
	Rule  string `json:"rule"`
	Value string `json:"value"`
}

// fingerprint tells two secrets apart without telling them; in a sealed store
// nobody else can compute it.
func (s *Store) fingerprint(value string) string {
	return s.k.Hash("secret", value)[:12]
}

// mask returns e with masks in place of secrets, and the values by their
// fingerprints. A secret that does not lie in its text is passed over.
func (s *Store) mask(e tidemark.Entry, secrets []Secret) (tidemark.Entry, map[string]vaulted) {
	values := make(map[string]vaulted)
	masked := e.EachText(func(i int, text string, raw bool) string {
		out := text
		for _, secret := range slices.Backward(disjoint(secrets, i, len(text))) {
			value := text[secret.From:secret.To]
			mark := s.fingerprint(value)
			values[mark] = vaulted{Rule: secret.Rule, Value: value}
			out = out[:secret.From] + tidemark.Mask(secret.Rule, mark) + out[secret.To:]
		}
		if raw && out != text && !json.Valid([]byte(out)) {
			// Better nothing than a secret, better a string than no JSON.
			b, _ := json.Marshal(tidemark.Mask("unreadable", s.fingerprint(text)))
			return string(b)
		}
		return out
	})
	return masked, values
}

// Mask returns e with a mask in place of every secret that is found in it.
func (s *Store) Mask(e tidemark.Entry) tidemark.Entry {
	if s.o.Secrets != nil {
		if secrets := s.o.Secrets(e); len(secrets) > 0 {
			e, _ = s.mask(e, secrets)
		}
	}
	return e
}

// disjoint returns the secrets of one text in order; those that overlap become
// one, and those that lie outside are left out.
func disjoint(secrets []Secret, text, length int) []Secret {
	var of []Secret
	for _, s := range secrets {
		if s.Text == text && 0 <= s.From && s.From < s.To && s.To <= length {
			of = append(of, s)
		}
	}
	slices.SortFunc(of, func(a, b Secret) int { return cmp.Or(a.From-b.From, b.To-a.To) })
	apart := of[:0]
	for _, s := range of {
		if n := len(apart); n > 0 && s.From < apart[n-1].To {
			apart[n-1].To = max(apart[n-1].To, s.To)
		} else {
			apart = append(apart, s)
		}
	}
	return apart
}

// withoutSecrets masks the text of a record of the operator, such as the name
// of a token, where entries would be masked. Such records have no vault.
func (s *Store) withoutSecrets(text string) string {
	if s.o.Redact != RedactMask && s.o.Redact != RedactVault {
		return text
	}
	return s.MaskText(text)
}

// hidden masks a title, a label, a tag or a memory where entries would be
// masked. The vault of its owner keeps what the masks stand for.
func (s *Store) hidden(ctx context.Context, owner, text string) (string, error) {
	if err := s.keepSecrets(ctx, owner, s.secretsIn(text)); err != nil {
		return "", err
	}
	return s.withoutSecrets(text), nil
}

// secretsIn is what a vault keeps of texts; nil where there is none.
func (s *Store) secretsIn(texts ...string) map[string]vaulted {
	if s.o.Redact != RedactVault || s.o.Secrets == nil {
		return nil
	}
	all := make(map[string]vaulted)
	for _, text := range texts {
		e := titleEntry(text)
		_, values := s.mask(e, s.o.Secrets(e))
		maps.Copy(all, values)
	}
	return all
}

// MaskText returns text with a mask in place of every secret in it.
func (s *Store) MaskText(text string) string {
	if text == "" {
		return text
	}
	return s.Mask(titleEntry(text)).Text()
}

// MaskSession returns what is said of a session with a mask in place of every
// secret in it.
func (s *Store) MaskSession(sess tidemark.Session) tidemark.Session {
	sess.Title, sess.Agent, sess.Model = s.MaskText(sess.Title), s.MaskText(sess.Agent), s.MaskText(sess.Model)
	sess.Tags = slices.Clone(sess.Tags)
	for i, t := range sess.Tags {
		sess.Tags[i] = s.MaskText(t)
	}
	sess.Extra = s.Mask(tidemark.Entry{Kind: tidemark.KindMessage, Extra: sess.Extra}).Extra
	return sess
}

// vault adds the values that the vault of a session does not have yet to a
// batch.
func (s *Store) vault(ctx context.Context, b *tidemark.Batch, id tidemark.SessionID, values map[string]vaulted) error {
	for mark, v := range values {
		key := keyOf(kindSecret, id, mark)
		have, err := s.k.Get(ctx, key, &vaulted{})
		if err != nil {
			return err
		}
		if have.Version > 0 {
			continue
		}
		r, err := records.Put(key, 0, v)
		if err != nil {
			return err
		}
		b.Puts = append(b.Puts, r)
	}
	return nil
}

// Reveal returns e with the values that the session's vault has in place of
// their masks, as a model that goes on with the session has to see it.
func (v *View) Reveal(ctx context.Context, e tidemark.Entry) (tidemark.Entry, error) {
	var failed error
	known := func(mark string) (string, bool) {
		kept, ok, err := v.vaulted(ctx, mark)
		if err != nil {
			failed = err
		}
		return kept.Value, ok
	}
	e = e.EachText(func(_ int, text string, _ bool) string { return tidemark.Unmask(text, known) })
	return e, failed
}

// vaulted returns what a mask stands for. A fork shares the vault of what it
// came from.
func (v *View) vaulted(ctx context.Context, mark string) (kept vaulted, ok bool, err error) {
	for id := v.ID; ; {
		r, err := v.s.k.Get(ctx, keyOf(kindSecret, id, mark), &kept)
		if err != nil || r.Version > 0 {
			return kept, r.Version > 0, err
		}
		i, err := v.s.Session(ctx, id)
		if err != nil || i.Base == nil || i.Base.Owned {
			return kept, false, nil
		}
		id = i.Base.Session
	}
}

// MarkSecrets masks parts of an entry that is kept already: a mark in the
// session's notes, which every reader honours. Nothing is rewritten, and it
// needs no lease.
func (v *View) MarkSecrets(ctx context.Context, seq int64, secrets []Secret) error {
	if len(secrets) == 0 {
		return nil
	}
	return v.s.update(ctx, v.ID, func(i *Info, b *tidemark.Batch) error {
		i.Redacted++
		return v.s.addNote(ctx, b, v.ID, Note{Kind: noteMask, Seq: seq, Worker: v.worker, Secrets: secrets})
	})
}

// FindSecrets returns what of an entry, read through Unmasked, is a secret and
// not marked yet, with its fingerprint.
func (v *View) FindSecrets(ctx context.Context, e tidemark.Entry) ([]Secret, error) {
	if v.s.o.Secrets == nil {
		return nil, nil
	}
	secrets := v.s.o.Secrets(e)
	if len(secrets) == 0 {
		return nil, nil
	}
	m, err := v.s.marksOf(ctx, v.Info, v.worker)
	if err != nil {
		return nil, err
	}
	secrets = slices.DeleteFunc(secrets, func(s Secret) bool {
		return slices.ContainsFunc(m.bySeq[e.Seq], func(marked Secret) bool {
			return marked.Text == s.Text && marked.From <= s.From && s.To <= marked.To
		})
	})
	e.EachText(func(i int, text string, _ bool) string {
		for n, s := range secrets {
			if s.Text == i && 0 <= s.From && s.From < s.To && s.To <= len(text) {
				secrets[n].Fingerprint = v.s.fingerprint(text[s.From:s.To])
			}
		}
		return text
	})
	return secrets, nil
}

// Unmasked returns the same session as it was written, without regard to its
// marks: for whoever looks for what is still to be marked.
func (v *View) Unmasked() *View {
	open := *v
	open.unmasked = true
	return &open
}

// marks are the secrets that were marked in a session, by the seq of the
// entry. They count in the text as it was written, so that their order does
// not matter.
type marks struct {
	bySeq map[int64][]Secret
	lost  bool // a mark could not be read
}

// marksOf reads the marks of a session, or of one of its workers.
func (s *Store) marksOf(ctx context.Context, i Info, worker string) (marks, error) {
	var m marks
	if i.Redacted == 0 {
		return m, nil
	}
	m.bySeq = make(map[int64][]Secret)
	v := &View{s: s, Info: i}
	found := int64(0)
	for n, err := range v.Notes(ctx) {
		if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
			return m, err
		}
		if err != nil || n.Kind != noteMask {
			continue
		}
		found++
		if n.Worker == worker {
			m.bySeq[n.Seq] = append(m.bySeq[n.Seq], n.Secrets...)
		}
	}
	m.lost = found < i.Redacted
	return m, nil
}

// with adds the marks of another session on the same trail.
func (m marks) with(more marks) marks {
	if m.bySeq == nil {
		m.bySeq = more.bySeq
	} else if more.bySeq != nil {
		all := maps.Clone(m.bySeq)
		for seq, secrets := range more.bySeq {
			all[seq] = slices.Concat(all[seq], secrets)
		}
		m.bySeq = all
	}
	m.lost = m.lost || more.lost
	return m
}

// apply masks what was marked in e. Where a mark was lost, every secret that
// can be found is masked: it was one of them.
func (m marks) apply(s *Store, e tidemark.Entry) tidemark.Entry {
	secrets := m.bySeq[e.Seq]
	if m.lost && s.o.Secrets != nil {
		secrets = slices.Concat(secrets, s.o.Secrets(e))
	}
	if len(secrets) == 0 {
		return e
	}
	e, _ = s.mask(e, secrets)
	return e
}
