// Package vault keeps secrets out of what is written: it replaces them with masks
// and, if configured so, keeps the masked values in records of their own. Package
// store uses it for what belongs to a session, fleet for what belongs to a job or
// an agent.
//
// It does not know what a secret looks like: a function in Options finds them. Each
// value is a record under the id of its owner, so that it can be removed together
// with the owner.
//
//	v := vault.New(kernel, vault.Options{Find: find, Redact: vault.Keep})
//	values := v.Redact(owner, []*string{&job.Prompt})
//	err := v.Keep(ctx, owner, values)
package vault

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
)

// KindSecret is the kind of the vault's records. Their ids are OWNER.FINGERPRINT.
const KindSecret = "secret"

// Redaction is what happens to a secret that is about to be written.
type Redaction string

const (
	Off  Redaction = "off"   // secrets are not looked for
	Warn Redaction = "warn"  // it is written, and Options.Warn is called
	Mask Redaction = "mask"  // a mask is written in its place, and the value is lost
	Keep Redaction = "vault" // a mask is written in its place, and the value is kept in the vault
)

// Masks reports whether a mask is written in place of a secret.
func (r Redaction) Masks() bool { return r == Mask || r == Keep }

// Secret is a part of an entry that should not be shown: the number of one of its
// texts, as Entry.EachText counts them, and a range of bytes in that text.
type Secret struct {
	Text        int    `json:"text"`
	From        int    `json:"from"`
	To          int    `json:"to"`
	Rule        string `json:"rule"`
	Fingerprint string `json:"fingerprint,omitempty"`
}

// Value is a secret that a mask stands for, and the rule that found it.
type Value struct {
	Rule  string `json:"rule"`
	Value string `json:"value"`
}

// Values are the secrets that masks stand for, by the fingerprints in the masks.
type Values map[string]Value

// Options configure a Vault. Each zero field means the default.
type Options struct {
	// Find finds the secrets in an entry. The default finds nothing.
	Find func(tidemark.Entry) []Secret
	// Redact is what happens to a secret that is about to be written. The
	// default is Off.
	Redact Redaction
	// Warn is called with secrets before they are written or masked, and with
	// the id of their owner. The default does nothing.
	Warn func(owner string, secrets []Secret)
}

// Vault masks secrets and keeps what the masks stand for. It may be used
// concurrently.
type Vault struct {
	k *records.Kernel
	o Options
}

// New returns a Vault whose records are kept with a Kernel.
func New(k *records.Kernel, o Options) *Vault { return &Vault{k, o} }

// Over returns the same Vault for another view of the same store.
func (v *Vault) Over(k *records.Kernel) *Vault { return &Vault{k, v.o} }

// Records returns the Kernel that the Vault keeps its records with.
func (v *Vault) Records() *records.Kernel { return v.k }

// Redaction returns what happens to secrets that are about to be written.
func (v *Vault) Redaction() Redaction { return v.o.Redact }

// Looks reports whether secrets are looked for in what is written.
func (v *Vault) Looks() bool { return v.o.Find != nil && v.o.Redact != "" && v.o.Redact != Off }

// Find returns the secrets of an entry.
func (v *Vault) Find(e tidemark.Entry) []Secret {
	if v.o.Find == nil {
		return nil
	}
	return v.o.Find(e)
}

// Fingerprint identifies a secret without revealing it. In a sealed store it cannot
// be computed without the store's key.
func (v *Vault) Fingerprint(value string) string {
	return v.k.Hash("secret", value)[:12]
}

// MaskSecrets returns e with masks in place of the given secrets, and their values.
// A secret whose range is not within its text is ignored.
func (v *Vault) MaskSecrets(e tidemark.Entry, secrets []Secret) (tidemark.Entry, Values) {
	values := make(Values)
	masked := e.EachText(func(i int, text string, raw bool) string {
		out := text
		for _, secret := range slices.Backward(disjoint(secrets, i, len(text))) {
			value := text[secret.From:secret.To]
			mark := v.Fingerprint(value)
			values[mark] = Value{Rule: secret.Rule, Value: value}
			out = out[:secret.From] + tidemark.Mask(secret.Rule, mark) + out[secret.To:]
		}
		if raw && out != text && !json.Valid([]byte(out)) {
			// The mask broke the JSON. Rather lose the whole value than write the
			// secret or invalid JSON.
			b, _ := json.Marshal(tidemark.Mask("unreadable", v.Fingerprint(text)))
			return string(b)
		}
		return out
	})
	return masked, values
}

// disjoint returns the secrets of one text, sorted. Those that overlap are merged,
// and those that are not within the text are left out.
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

// Mask returns e with a mask in place of every secret that is found in it, whatever
// Options.Redact is.
func (v *Vault) Mask(e tidemark.Entry) tidemark.Entry {
	if secrets := v.Find(e); len(secrets) > 0 {
		e, _ = v.MaskSecrets(e, secrets)
	}
	return e
}

// entryOf wraps a text in an entry, since Options.Find takes one.
func entryOf(text string) tidemark.Entry {
	return tidemark.Entry{Kind: "title", Blocks: []tidemark.Block{tidemark.Text(text)}}
}

// MaskText returns text with a mask in place of every secret in it.
func (v *Vault) MaskText(text string) string {
	if text == "" {
		return text
	}
	return v.Mask(entryOf(text)).Text()
}

// MaskWritten masks the secrets in a text if Options.Redact says that secrets are
// masked. It keeps no values.
func (v *Vault) MaskWritten(text string) string {
	if !v.o.Redact.Masks() {
		return text
	}
	return v.MaskText(text)
}

// RedactEntry looks for secrets in an entry that is about to be written. It returns
// the entry as it may be written, and the values that the vault has to keep.
func (v *Vault) RedactEntry(owner string, e tidemark.Entry) (tidemark.Entry, Values) {
	if !v.Looks() {
		return e, nil
	}
	secrets := v.o.Find(e)
	if len(secrets) == 0 {
		return e, nil
	}
	if v.o.Warn != nil {
		v.o.Warn(owner, secrets)
	}
	if v.o.Redact == Warn {
		return e, nil
	}
	masked, values := v.MaskSecrets(e, secrets)
	if v.o.Redact != Keep {
		return masked, nil
	}
	return masked, values
}

// Redact is RedactEntry for texts and JSON, which it changes in place.
func (v *Vault) Redact(owner string, plain []*string, raw ...*json.RawMessage) Values {
	if !v.Looks() {
		return nil
	}
	e := tidemark.Entry{Kind: tidemark.KindMessage, Blocks: make([]tidemark.Block, 0, len(plain)+len(raw))}
	for _, p := range plain {
		e.Blocks = append(e.Blocks, tidemark.Block{Type: tidemark.BlockText, Text: *p})
	}
	for _, p := range raw {
		e.Blocks = append(e.Blocks, tidemark.Block{Type: tidemark.BlockToolUse, Input: *p})
	}
	masked, values := v.RedactEntry(owner, e)
	for i, p := range plain {
		*p = masked.Blocks[i].Text
	}
	for i, p := range raw {
		*p = masked.Blocks[len(plain)+i].Input
	}
	return values
}

// RedactText masks the secrets in a title, a label, a tag or a reason if
// Options.Redact says that secrets are masked, and keeps the values for the owner
// if it is Keep.
func (v *Vault) RedactText(ctx context.Context, owner, text string) (string, error) {
	if err := v.Keep(ctx, owner, v.ValuesIn(text)); err != nil {
		return "", err
	}
	return v.MaskWritten(text), nil
}

// ValuesIn returns the secrets in texts that the vault has to keep; nil unless
// Options.Redact is Keep.
func (v *Vault) ValuesIn(texts ...string) Values {
	if v.o.Redact != Keep || v.o.Find == nil {
		return nil
	}
	all := make(Values)
	for _, text := range texts {
		e := entryOf(text)
		_, values := v.MaskSecrets(e, v.o.Find(e))
		maps.Copy(all, values)
	}
	return all
}

// Key is the key of the record of an owner's secret.
func Key(owner, fingerprint string) tidemark.Key {
	return tidemark.Key{Kind: KindSecret, ID: owner + "." + fingerprint}
}

// Add adds to a batch the values that are not kept for their owner yet.
func (v *Vault) Add(ctx context.Context, b *tidemark.Batch, owner string, values Values) error {
	for mark, value := range values {
		_, has, err := v.Value(ctx, owner, mark)
		if err != nil {
			return err
		}
		if has {
			continue
		}
		r, err := records.Put(Key(owner, mark), 0, value)
		if err != nil {
			return err
		}
		b.Puts = append(b.Puts, r)
	}
	return nil
}

// Keep keeps values. It is called before their masks are written: a crash in
// between then leaves a value that is not needed, and never a mask that cannot be
// revealed.
func (v *Vault) Keep(ctx context.Context, owner string, values Values) error {
	if len(values) == 0 {
		return nil
	}
	return records.Retry(ctx, func() error {
		var b tidemark.Batch
		if err := v.Add(ctx, &b, owner, values); err != nil || len(b.Puts) == 0 {
			return err
		}
		_, err := v.k.Commit(ctx, b)
		return err
	})
}

// Value returns the value that is kept for an owner under a fingerprint, and
// whether there is one.
func (v *Vault) Value(ctx context.Context, owner, fingerprint string) (Value, bool, error) {
	var kept Value
	r, err := v.k.Get(ctx, Key(owner, fingerprint), &kept)
	return kept, r.Version > 0, err
}

// Forget adds to b the deletes of all values that are kept for an owner.
func (v *Vault) Forget(ctx context.Context, b *tidemark.Batch, owner string) error {
	for r, err := range v.k.Backend().List(ctx, tidemark.Query{Kind: KindSecret, Prefix: owner + ".", Order: tidemark.ByID}) {
		if err != nil && !(errors.Is(err, tidemark.ErrCorrupt) && r.Version > 0) {
			return err
		}
		b.Deletes = append(b.Deletes, tidemark.Precondition{Key: r.Key, Version: r.Version})
	}
	return nil
}

// Reveal returns text with each mask replaced by the value that is kept for the
// owner.
func (v *Vault) Reveal(ctx context.Context, owner, text string) (string, error) {
	var failed error
	text = tidemark.Unmask(text, func(mark string) (string, bool) {
		kept, has, err := v.Value(ctx, owner, mark)
		if err != nil {
			failed = err
		}
		return kept.Value, err == nil && has
	})
	return text, failed
}

// RevealAnywhere returns text with each mask replaced by the value that is kept for
// any owner. Text that is JSON stays valid JSON.
func (v *Vault) RevealAnywhere(ctx context.Context, text string) (string, error) {
	wanted := tidemark.Fingerprints(text)
	if len(wanted) == 0 {
		return text, nil
	}
	quote, values := json.Valid([]byte(text)), make(map[string]string)
	for r, err := range v.k.Backend().List(ctx, tidemark.Query{Kind: KindSecret, Order: tidemark.ByID}) {
		mark := r.ID[strings.LastIndexByte(r.ID, '.')+1:]
		if errors.Is(err, tidemark.ErrCorrupt) || err == nil && !slices.Contains(wanted, mark) {
			continue
		}
		var kept Value
		if err == nil {
			err = records.Decode(r, &kept)
		}
		if err != nil {
			return text, err
		}
		values[mark] = kept.Value
		if quote {
			if values[mark], err = kept.Quoted(); err != nil {
				return text, err
			}
		}
	}
	return tidemark.Unmask(text, func(mark string) (string, bool) {
		value, ok := values[mark]
		return value, ok
	}), nil
}

// Quoted returns the value as it is written inside a JSON string.
func (v Value) Quoted() (string, error) {
	b, err := records.Encode(v.Value)
	if err != nil {
		return "", err
	}
	return string(b[1 : len(b)-1]), nil
}
