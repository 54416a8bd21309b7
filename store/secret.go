package store

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/vault"
)

// Redaction is what happens to a secret that is about to be written.
type Redaction = vault.Redaction

const (
	RedactOff   = vault.Off  // secrets are not looked for
	RedactWarn  = vault.Warn // it is written, and Options.Warn is called
	RedactMask  = vault.Mask // a mask is written in its place, and the value is lost
	RedactVault = vault.Keep // a mask is written in its place, and the value is kept in the vault
)

// Secret is a part of an entry that should not be shown: the number of one of its
// texts, as Entry.EachText counts them, and a range of bytes in that text.
type Secret = vault.Secret

// Vault returns the vault of the store, for packages that keep other things beside
// sessions.
func (s *Store) Vault() *vault.Vault { return s.vault }

// Mask returns e with a mask in place of every secret that is found in it.
func (s *Store) Mask(e tidemark.Entry) tidemark.Entry { return s.vault.Mask(e) }

// MaskText returns text with a mask in place of every secret in it.
func (s *Store) MaskText(text string) string { return s.vault.MaskText(text) }

// MaskSession returns sess with a mask in place of every secret in its title,
// agent, model, tags and Extra.
func (s *Store) MaskSession(sess tidemark.Session) tidemark.Session {
	sess.Title, sess.Agent, sess.Model = s.MaskText(sess.Title), s.MaskText(sess.Agent), s.MaskText(sess.Model)
	sess.Tags = slices.Clone(sess.Tags)
	for i, t := range sess.Tags {
		sess.Tags[i] = s.MaskText(t)
	}
	sess.Extra = s.Mask(tidemark.Entry{Kind: tidemark.KindMessage, Extra: sess.Extra}).Extra
	return sess
}

// Reveal returns e with each mask replaced by the value that the session's vault
// has for it, as a model needs it to continue the session.
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

// vaulted returns the value that a mask stands for, from the vault of the session
// or, in a fork, of the sessions it came from.
func (v *View) vaulted(ctx context.Context, mark string) (kept vault.Value, ok bool, err error) {
	for id := v.ID; ; {
		kept, ok, err := v.s.vault.Value(ctx, string(id), mark)
		if err != nil || ok {
			return kept, ok, err
		}
		i, err := v.s.Session(ctx, id)
		if err != nil || i.Base == nil || i.Base.Owned {
			return kept, false, nil
		}
		id = i.Base.Session
	}
}

// MarkSecrets masks parts of an entry that is already kept. It adds a mark to the
// session's notes, which every View applies; the entry is not rewritten. Nobody finds
// it by what is masked from then on; RewriteIndex takes that out of the search index.
// It needs no lease.
func (v *View) MarkSecrets(ctx context.Context, seq int64, secrets []Secret) error {
	if len(secrets) == 0 {
		return nil
	}
	return v.s.update(ctx, v.ID, func(i *Info, b *tidemark.Batch) error {
		i.Redacted++
		if err := v.renew(ctx, b, seq); err != nil {
			return err
		}
		return v.s.addNote(ctx, b, v.ID, Note{Kind: NoteMask, Seq: seq, Worker: v.worker, Secrets: secrets})
	})
}

// FindSecrets returns the secrets of an entry that are not marked yet, with their
// fingerprints. The entry has to be read through Unmasked.
func (v *View) FindSecrets(ctx context.Context, e tidemark.Entry) ([]Secret, error) {
	secrets := v.s.vault.Find(e)
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
				secrets[n].Fingerprint = v.s.vault.Fingerprint(text[s.From:s.To])
			}
		}
		return text
	})
	return secrets, nil
}

// Unmasked returns a View that ignores the marks and shows entries as they were
// written, to look for secrets that are not marked yet.
func (v *View) Unmasked() *View {
	open := *v
	open.unmasked = true
	return &open
}

// marks are what the notes of a session say about its entries, by the seq of the
// entry: the secrets that were marked, and costs that became known later. The byte
// offsets of secrets refer to the text as it was written, so the order in which
// they are applied does not matter; of several costs of an entry the last counts.
type marks struct {
	bySeq map[int64][]Secret
	lost  bool // a mark could not be read
	costs map[int64]float64
}

// marksOf reads the marks of a session, or of one of its workers.
func (s *Store) marksOf(ctx context.Context, i Info, worker string) (marks, error) {
	var m marks
	if i.Redacted == 0 && i.Charged == 0 {
		return m, nil
	}
	m.bySeq, m.costs = make(map[int64][]Secret), make(map[int64]float64)
	v := &View{s: s, Info: i}
	found := int64(0)
	for n, err := range v.Notes(ctx) {
		if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
			return m, err
		}
		if err != nil {
			continue
		}
		if n.Kind == noteCost && n.Worker == worker {
			maps.Copy(m.costs, n.Costs)
		}
		if n.Kind != NoteMask {
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
	if len(more.costs) > 0 {
		all := maps.Clone(more.costs)
		maps.Copy(all, m.costs)
		m.costs = all
	}
	return m
}

// apply masks what was marked in e. Where a mark was lost it masks every secret
// that it finds, since the lost mark may have been for any of them.
func (m marks) apply(s *Store, e tidemark.Entry) tidemark.Entry {
	secrets := m.bySeq[e.Seq]
	if m.lost {
		secrets = slices.Concat(secrets, s.vault.Find(e))
	}
	if len(secrets) == 0 {
		return e
	}
	e, _ = s.vault.MaskSecrets(e, secrets)
	return e
}
