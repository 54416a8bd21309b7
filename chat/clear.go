package chat

import (
	"context"
	"fmt"
	"slices"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/compact"
)

// kindClearing is the entry that says from where on results of tools are still
// sent. It is kept, so that a resumed session sends the same bytes.
const kindClearing = "clearing"

// clearingMark is the content of such an entry.
type clearingMark struct {
	Before  int64 `json:"before"`  // results before this entry are left out
	Results int   `json:"results"` // how many that are
	Bytes   int   `json:"bytes"`   // how long they were
}

const (
	// clearKeep is how many of the newest messages keep their results, as many
	// as a compaction keeps whole.
	clearKeep = 10
	// clearLeast is how long a result is at least that is left out: shorter ones
	// gain nothing.
	clearLeast = 500
)

// cleared is a context without the results of tools before an entry, and how much
// that leaves out. The entries it is given stay as they are.
func cleared(entries []tidemark.Entry, before int64) (out []tidemark.Entry, m clearingMark) {
	out, m.Before = slices.Clone(entries), before
	for i, e := range out {
		if e.Seq >= before || e.Role != tidemark.Tool {
			continue
		}
		out[i].Blocks = slices.Clone(e.Blocks)
		for j, b := range e.Blocks {
			n := len(b.Text)
			for _, inner := range b.Blocks {
				n += len(inner.Text) + len(inner.Data)
			}
			if b.Type != tidemark.BlockToolResult || n < clearLeast {
				continue
			}
			b.Text, b.Blocks = fmt.Sprintf("[This result had %d bytes, and was left out to make room. Call the tool again if you need it.]", n), nil
			out[i].Blocks[j] = b
			m.Results++
			m.Bytes += n
		}
	}
	return out, m
}

// clearBefore is the entry before which results may be left out: the open turn
// and the newest messages keep theirs. It is 0 when there is none.
func clearBefore(entries []tidemark.Entry) int64 {
	last := max(len(entries)-clearKeep, 0)
	for i, e := range slices.Backward(entries) {
		if e.Role == tidemark.User && e.Kind == tidemark.KindMessage {
			last = min(last, i)
			break
		}
	}
	if last == 0 {
		return 0
	}
	return entries[last].Seq
}

// clear leaves old results of tools out of a context that is too long, and
// reports whether that is enough. It is enough only with room to spare, because
// each clearing loses the provider's cache.
func (t *thread) clear(ctx context.Context, o compact.Options) (bool, error) {
	before := clearBefore(t.context)
	if before == 0 {
		return false, nil
	}
	less, m := cleared(t.context, before)
	spare := func(limit int) int { return limit - limit/4 }
	if o.MaxTokens > 0 {
		o.MaxTokens = spare(o.MaxTokens)
	}
	if o.MaxBytes > 0 {
		o.MaxBytes = spare(o.MaxBytes)
	}
	if m.Results == 0 || compact.Over(less, o) {
		return false, nil
	}
	if _, err := t.append(context.WithoutCancel(ctx), tidemark.Entry{Kind: kindClearing, Extra: mark(m)}); err != nil {
		return false, err
	}
	t.notice("%d old results of tools (%d bytes) are no longer sent; they stay in the session.", m.Results, m.Bytes)
	return true, nil
}
