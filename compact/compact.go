// Package compact makes a long conversation short enough for a model: entries
// in, fewer entries out. The oldest messages become one summary, the newest stay
// whole.
//
// It is pure: it stores nothing and changes none of the entries it is given; the
// caller appends the summary to the session's log and sends less. The same
// entries and options give the same summary, except with the strategy "model",
// which asks a model.
//
// What holds for every strategy:
//
//   - The system prompt and the open turn, which is the newest message of the
//     user and all that follows it, stay whole, however long they are.
//   - The messages before it, up to Options.Keep in all, stay whole as far as
//     the limits leave space for them and for a summary of the rest.
//   - A tool call and all its results stay on one side of the cut. For that the
//     cut moves to older messages, so that more is kept than asked for, never
//     less.
//   - A summary is never summarised again. Its text opens the next summary,
//     byte for byte, as long as it is no longer than Options.Carry; after that its
//     oldest lines are dropped, and a line says so. A session that is compacted a
//     thousand times has a summary of bounded size.
//   - Text is cut between characters as people see them: not within an accent,
//     an emoji of several parts, or a flag.
//   - Images and files are named, not copied. Thinking is left out.
//
// One usage line:
//
//	if compact.Over(entries, o) { r, err := compact.Compact(ctx, entries, o); … r.Entries(entries) }
package compact

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/tidemark-sessions/tidemark"
)

// Tag is how the text of every summary begins.
const Tag = "[COMPACTION SUMMARY]"

// Kind is the kind of the entry that holds a summary in a log.
const Kind = tidemark.KindCompaction

// The strategies.
const (
	// Simple previews each message: the first 80 characters of the user's, 100
	// of the assistant's. Tools are named and counted.
	Simple = "simple"
	// CodeAware is Simple that keeps fenced code of users and assistants as it
	// is, and previews only the prose around it.
	CodeAware = "code-aware"
	// RoleBudget gives each role a number of characters, and spends them on its
	// newest messages first.
	RoleBudget = "role-budget"
	// Model asks Options.Summarize, and falls back to Simple when that fails.
	Model = "model"
)

// ErrNoGain says that there is nothing to compact, or that the result would not
// be smaller. The entries are to be sent as they are.
var ErrNoGain = errors.New("nothing to gain by compaction")

// Options say when and how to compact. A zero field means its default.
type Options struct {
	Strategy string // default Simple

	// A conversation is too long when it exceeds one of these. Negative: no such
	// limit.
	MaxMessages int // default 50, the system prompt included
	MaxBytes    int // of text, default 32,000, the system prompt included
	MaxTokens   int // estimated; default none

	Keep   int    // newest messages that stay whole where there is space, default 10
	System string // the system prompt, when it is sent separately; it counts as a message

	// What a summary may hold. Negative: nothing.

	// Carry bounds what is carried over from earlier summaries, in bytes.
	// Default: a quarter of MaxBytes.
	Carry int
	// Section bounds what one compaction adds to it, in bytes, code not counted.
	// The oldest messages are dropped first. Default: half of MaxBytes.
	Section int
	// Code bounds the code that CodeAware keeps, in bytes. A block stays whole
	// or is left out, the oldest first. Default: MaxBytes.
	Code int

	Budgets Budgets // of RoleBudget

	// Summarize answers the prompt SummaryPrompt about a text, for the strategy Model.
	Summarize func(ctx context.Context, text string) (string, error)
}

// Budgets are the characters that RoleBudget keeps of each role. Tools produce
// the most text and can be called again; what the assistant concluded is written
// nowhere else. A zero field means its default, a negative one none.
type Budgets struct {
	Tool      int // default 2,000
	User      int // default 6,000
	Assistant int // default 12,000
}

const defaultBytes = 32_000

// Or fills in the defaults.
func (o Options) Or() Options {
	o.Strategy = cmp.Or(o.Strategy, Simple)
	o.MaxMessages = cmp.Or(o.MaxMessages, 50)
	o.MaxBytes = cmp.Or(o.MaxBytes, defaultBytes)
	if o.Keep <= 0 {
		o.Keep = 10
	}
	room := o.MaxBytes
	if room < 0 {
		room = defaultBytes
	}
	o.Carry = max(cmp.Or(o.Carry, room/4), 0)
	o.Section = max(cmp.Or(o.Section, room/2), 0)
	o.Code = max(cmp.Or(o.Code, room), 0)
	o.Budgets.Tool = cmp.Or(o.Budgets.Tool, 2_000)
	o.Budgets.User = cmp.Or(o.Budgets.User, 6_000)
	o.Budgets.Assistant = cmp.Or(o.Budgets.Assistant, 12_000)
	return o
}

// leastSummary is the size that a summary may always have: what stays may exceed
// the limits already.
const leastSummary = 1024

// summaryRoom is how many bytes a summary may have besides what stays; negative
// when nothing limits it.
func (o Options) summaryRoom(stays size) int {
	if o.MaxBytes <= 0 && o.MaxTokens <= 0 {
		return -1
	}
	left := math.MaxInt
	if o.MaxBytes > 0 {
		left = o.MaxBytes - stays.bytes
	}
	if o.MaxTokens > 0 {
		// A character of two bytes may cost a token, and the remainder of the
		// others one more.
		left = min(left, 2*(o.MaxTokens-stays.tokens-tokensPerMessage-1))
	}
	return max(left, leastSummary)
}

// within shrinks the limits of the parts of a summary to fit the given room.
func (o Options) within(room int) Options {
	if room < 0 {
		return o
	}
	left := room - summaryFrame
	o.Carry = min(o.Carry, left/4)
	o.Section = min(o.Section, left/2)
	o.Code = min(o.Code, left/4)
	return o
}

// summaryFrame is the size of the lines around the parts of a summary.
const summaryFrame = 512

// Result is the outcome of a compaction.
type Result struct {
	Summary tidemark.Entry // of kind Kind, one text block
	Head    int            // entries[:Head] are system prompts, and stay
	From    int            // entries[From:] stay
	Before  int            // messages that would have been sent, the system prompt included
	After   int            // messages that are to be sent, the system prompt and the summary included

	Strategy string // the one that was used
	Fallback error  // why it is not the requested one, nil: it is
}

// String is a line that tells people about it.
func (r Result) String() string {
	return fmt.Sprintf("[context compacted: %d → %d messages]", r.Before, r.After)
}

// Entries returns what is to be sent instead of entries: system prompts, the
// summary as a message, and what stays.
func (r Result) Entries(entries []tidemark.Entry) []tidemark.Entry {
	out := make([]tidemark.Entry, 0, r.Head+1+len(entries)-r.From)
	out = append(out, entries[:r.Head]...)
	out = append(out, Message(r.Summary))
	for _, e := range entries[r.From:] {
		if e.Kind == Kind {
			e = Message(e)
		}
		out = append(out, e)
	}
	return out
}

// Message returns a summary as a user's message for a model.
func Message(summary tidemark.Entry) tidemark.Entry {
	summary.Kind, summary.Role = tidemark.KindMessage, tidemark.User
	return summary
}

// IsSummary reports whether e is a summary: an entry of kind Kind, or a message
// of the user that begins with Tag.
func IsSummary(e tidemark.Entry) bool {
	if e.Kind == Kind {
		return true
	}
	return isMessage(e) && e.Role == tidemark.User && len(e.Blocks) > 0 &&
		e.Blocks[0].Type == tidemark.BlockText && strings.HasPrefix(e.Blocks[0].Text, Tag)
}

// isMessage reports whether e is sent to a model; a summary is sent as a
// message.
func isMessage(e tidemark.Entry) bool {
	return e.Kind == "" || e.Kind == tidemark.KindMessage || e.Kind == Kind
}

// Over reports whether entries are over a limit and Compact would bring them
// closer to it. It is false when the newest messages alone are too long, until
// enough older ones precede them to be worth another summary: otherwise every
// turn of such a conversation would be compacted, and the provider's cache lost
// each time.
func Over(entries []tidemark.Entry, o Options) bool {
	o = o.Or()
	c := divide(entries, o)
	all, stays := c.all(), c.stays()
	bytes := leastBytes
	if o.Strategy == Model {
		bytes = leastModelBytes
	}
	over := func(all, stays, limit, least int) bool {
		switch {
		case limit < 0 || all <= limit:
			return false
		case stays > limit:
			return all-stays >= max(limit/worth, least*worth)
		}
		return all-stays >= least
	}
	return over(all.messages, stays.messages, o.MaxMessages, 1) ||
		over(all.bytes, stays.bytes, o.MaxBytes, bytes) ||
		o.MaxTokens > 0 && over(all.tokens, stays.tokens, o.MaxTokens, bytes/bytesPerToken)
}

const (
	// worth is the fraction of a limit, one in worth, that must be freed when
	// what stays is over it anyway.
	worth = 4
	// leastBytes is the size of a summary that says little.
	leastBytes = 512
	// leastModelBytes is the same for a summary that a model writes, which costs
	// money.
	leastModelBytes = 4096
)

// Compact replaces all but the newest messages by a summary, whether or not
// there are too many. ErrNoGain: there is nothing to replace, or the summary
// would be no smaller. An unknown strategy is tidemark.ErrInvalid. When ctx
// ends while Summarize works, the error is that of ctx.
func Compact(ctx context.Context, entries []tidemark.Entry, o Options) (Result, error) {
	o = o.Or()
	switch o.Strategy {
	case Simple, CodeAware, RoleBudget, Model:
	default:
		return Result{}, tidemark.Invalidf("compaction %.40q: want %s, %s, %s or %s", o.Strategy, Simple, CodeAware, RoleBudget, Model)
	}
	c := divide(entries, o)
	room := o.summaryRoom(c.system.plus(c.kept))
	o = o.within(room)
	if len(c.part) == 0 {
		return Result{}, fmt.Errorf("%w: the conversation is no longer than what stays", ErrNoGain)
	}
	section, err := c.section(ctx, o)
	if err != nil {
		return Result{}, err
	}
	text := carried(c.old, o.Carry) + "\n\n" + section.text
	if room >= 0 {
		text = bounded(text, room) // role budgets and a model's text do not respect it
	}
	before, after := c.all(), c.stays()
	after.bytes += len(text) - c.summaries.bytes
	fewer := after.messages < before.messages
	switch {
	case fewer && o.MaxMessages >= 0 && before.messages > o.MaxMessages: // though it may be longer
	case after.bytes >= before.bytes:
		return Result{}, fmt.Errorf("%w: %d bytes would become %d", ErrNoGain, before.bytes, after.bytes)
	case !fewer && !(o.MaxBytes > 0 && before.bytes > o.MaxBytes || o.MaxTokens > 0 && before.tokens > o.MaxTokens):
		return Result{}, fmt.Errorf("%w: %d messages would stay %d", ErrNoGain, before.messages, after.messages)
	}
	return Result{
		Summary: tidemark.Entry{Kind: Kind, Blocks: []tidemark.Block{tidemark.Text(text)}},
		Head:    c.head, From: c.from, Before: before.messages, After: after.messages,
		Strategy: section.strategy, Fallback: section.fallback,
	}, nil
}
