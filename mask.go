package tidemark

import (
	"encoding/json"
	"regexp"
	"slices"
	"sync"
)

// Mask is the text that replaces a secret: its kind, and a fingerprint that
// shows whether two secrets are the same. It is plain letters, so that it can
// stand inside a JSON string.
func Mask(rule, fingerprint string) string {
	return "[redacted:" + rule + ":" + fingerprint + "]"
}

// masks is compiled when it is first needed: most runs of a program see no mask.
var masks = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\[redacted:[a-z0-9_-]{1,64}:([0-9a-f]{4,64})\]`)
})

// Unmask replaces the masks in text whose fingerprint value resolves.
func Unmask(text string, value func(fingerprint string) (string, bool)) string {
	return masks().ReplaceAllStringFunc(text, func(mask string) string {
		if v, ok := value(masks().FindStringSubmatch(mask)[1]); ok {
			return v
		}
		return mask
	})
}

// Fingerprints returns the fingerprints of the masks in text.
func Fingerprints(text string) (found []string) {
	for _, m := range masks().FindAllStringSubmatch(text, -1) {
		found = append(found, m[1])
	}
	return found
}

// EachText returns e with every text in it replaced by what change makes of it.
// The texts come in an order that depends on e alone, numbered by i; raw ones
// are JSON and have to stay valid JSON, others are plain. What change leaves as
// it is shares its memory with e.
func (e Entry) EachText(change func(i int, text string, raw bool) string) Entry {
	c := &textChange{change: change}
	e.Blocks = c.blocks(e.Blocks)
	e.Extra = c.json(e.Extra)
	return e
}

type textChange struct {
	change func(i int, text string, raw bool) string
	n      int
}

func (c *textChange) text(s string, raw bool) string {
	i := c.n
	c.n++
	if s == "" {
		return s
	}
	return c.change(i, s, raw)
}

func (c *textChange) json(b json.RawMessage) json.RawMessage {
	was := string(b)
	if now := c.text(was, true); now != was {
		return json.RawMessage(now)
	}
	return b
}

func (c *textChange) blocks(blocks []Block) []Block {
	changed := blocks
	for i, b := range blocks {
		was := b
		b.Text = c.text(b.Text, false)
		b.Name = c.text(b.Name, false)
		b.Input = c.json(b.Input)
		b.URL = c.text(b.URL, false)
		b.Raw = c.text(b.Raw, true)
		b.Blocks = c.blocks(b.Blocks)
		if b.Text == was.Text && b.Name == was.Name && b.URL == was.URL && b.Raw == was.Raw &&
			sameSlice(b.Input, was.Input) && sameSlice(b.Blocks, was.Blocks) {
			continue
		}
		if sameSlice(changed, blocks) {
			changed = slices.Clone(blocks)
		}
		changed[i] = b
	}
	return changed
}

// sameSlice reports whether a and b are the same memory.
func sameSlice[T any](a, b []T) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}
