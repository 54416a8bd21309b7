package chat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/compact"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/tool"
)

// thread is one dialogue with the model: the conversation itself, or a
// worker's. It is used by one goroutine at a time.
type thread struct {
	c      *Chat
	worker string
	prompt string // what a worker's system prompt adds to the session's
	// only are the tools that it has, of those that such a thread has; nil: all.
	// The system prompt keeps it.
	only []string
	// without are tools that it does not have.
	without []string
	// model is the model of its own that the person's file about it names;
	// unheeded says which wish of a file is not met, until people were told. Neither
	// is kept: what a session says must not choose what is paid for.
	model    answerer
	unheeded string

	turning sync.Mutex // held during a turn
	stale   bool       // the head was moved, and the context is not read again yet
	system  *tidemark.Entry
	tools   *tidemark.Entry
	// context is what the model is sent, oldest first: messages, possibly after
	// a summary.
	context []tidemark.Entry
	sent    *sent           // the request that the last answer belongs to
	began   map[string]bool // the calls of the last answer that began to run

	prompted []tidemark.Entry // that hooks ran for the message that is not kept yet
	greeted  bool             // the hooks for the first message since it was opened ran
	greeting string           // what they add to it, until it is sent
	halt     string           // why a hook ends this turn
}

// kindTools is the entry that lists the tools the model was offered, so that
// a later turn offers the same, byte for byte.
const kindTools = "tools"

// kindCall is the entry written when a tool is about to run.
const kindCall = "call"

// callMark is the content of such an entry.
type callMark struct {
	ID    string   `json:"id"`
	Tool  string   `json:"tool"`
	Scope string   `json:"scope,omitempty"`
	By    Decision `json:"approved,omitempty"` // "": it needs no approval
	// Effect is what the tool does, so that an undo can say what it cannot undo.
	Effect tool.Effect `json:"effect,omitempty"`
}

// summaryMark is what the entry of a compaction holds in addition to the
// summary.
type summaryMark struct {
	From     int64  `json:"from"`             // the first entry that is kept whole
	System   int64  `json:"system,omitempty"` // the system prompt, which is before that
	Tools    int64  `json:"tools,omitempty"`
	Strategy string `json:"strategy"`
	Before   int    `json:"before"`
	After    int    `json:"after"`
}

// sent describes the request for an answer: the number of its parts, and a
// hash of them. The next request has to begin with the same parts, or the
// provider's cache is lost.
type sent struct {
	Provider string `json:"provider"`
	Model    string `json:"model"`
	Parts    int    `json:"parts"`
	Hash     string `json:"hash"`
}

type answerMark struct {
	Sent        *sent  `json:"sent,omitempty"`
	Interrupted string `json:"interrupted,omitempty"` // why it is incomplete
	Stop        string `json:"stop_reason,omitempty"` // why it ended, unless it is complete
}

// Stopped reports whether an answer is only the beginning of one, because somebody
// stopped it.
func Stopped(e tidemark.Entry) bool { return markOf[answerMark](e).Interrupted != "" }

// append keeps entries and returns them as they are kept. After an error
// nothing may be shown as kept.
func (t *thread) append(ctx context.Context, entries ...tidemark.Entry) ([]tidemark.Entry, error) {
	for i := range entries {
		if entries[i].At.IsZero() {
			entries[i].At = t.c.o.Now().UTC().Truncate(time.Microsecond)
		}
		if entries[i].Kind == "" {
			entries[i].Kind = tidemark.KindMessage
		}
		// What is sent now has to equal what a resume reads, and logs hold
		// valid text.
		entries[i] = entries[i].EachText(func(_ int, text string, _ bool) string { return strings.ToValidUTF8(text, "\uFFFD") })
	}
	var seqs []int64
	var err error
	if t.worker == "" {
		seqs, err = t.c.writer().Append(ctx, entries...)
	} else {
		seqs, err = t.c.writer().AppendTo(ctx, t.worker, entries...)
	}
	if err != nil {
		return nil, err
	}
	for i := range entries {
		entries[i].Seq = seqs[i]
		t.take(entries[i])
	}
	if t.worker == "" {
		err = t.c.wasCreated(ctx)
	}
	for i := range entries {
		t.c.emit(Event{Worker: t.worker, Kept: &entries[i]})
	}
	return entries, err
}

// wasCreated notes that the session exists, and keeps what was decided
// before it did.
func (c *Chat) wasCreated(ctx context.Context) error {
	c.mu.Lock()
	first, changed := !c.created, c.changed
	c.created, c.changed = true, false
	c.mu.Unlock()
	if !first {
		return nil
	}
	c.keepAlive()
	c.emit(Event{Created: c.id})
	if !changed {
		return nil
	}
	return c.save(ctx)
}

// take adds a kept entry to what the model is sent.
func (t *thread) take(e tidemark.Entry) {
	switch {
	case e.Kind == kindTools:
		t.tools = &e
	case e.Kind == compact.Kind:
		t.context = append([]tidemark.Entry{e}, after(t.context, markOf[summaryMark](e).From)...)
		t.sent = nil
	case e.Kind == kindClearing:
		t.context, _ = cleared(t.context, markOf[clearingMark](e).Before)
		t.sent = nil
	case e.Kind == kindCall:
		if t.began == nil {
			t.began = make(map[string]bool)
		}
		t.began[markOf[callMark](e).ID] = true
	case e.Kind != tidemark.KindMessage:
	case e.Role == tidemark.System:
		t.hasSystem(&e)
	default:
		t.context = append(t.context, e)
		if e.Role == tidemark.Assistant {
			t.sent, t.began = markOf[answerMark](e).Sent, nil
		}
	}
}

// hasSystem sets the system prompt, nil for none.
func (t *thread) hasSystem(e *tidemark.Entry) {
	if t.system = e; e != nil {
		m := markOf[systemMark](*e)
		t.only, t.without = m.Only, m.Without
	}
	if t.worker == "" {
		t.c.mu.Lock()
		defer t.c.mu.Unlock()
		t.c.system = e
	}
}

// after returns the entries from a seq on.
func after(entries []tidemark.Entry, from int64) []tidemark.Entry {
	i := slices.IndexFunc(entries, func(e tidemark.Entry) bool { return e.Seq >= from && e.Kind != compact.Kind })
	if i < 0 {
		return nil
	}
	return entries[i:]
}

// markOf reads what one of our entries holds in addition to its blocks.
func markOf[T any](e tidemark.Entry) T {
	var all struct {
		Chat T `json:"chat"`
	}
	if len(e.Extra) > 0 && json.Unmarshal(e.Extra, &all) != nil {
		var none T
		return none
	}
	return all.Chat
}

// mark returns the Extra of one of our entries.
func mark(v any) json.RawMessage {
	b, err := json.Marshal(map[string]any{"chat": v})
	if err != nil {
		return nil
	}
	return b
}

// loadStep is how many entries are read at a time on the way back to the start
// of the context, and loadMost the most that are read: a session of another
// tool that was never compacted may be endless, and no model takes that much.
const (
	loadStep  = 100
	loadMost  = 600
	loadRules = 8 // entries at the beginning that may hold the system prompt
)

// load reads what the model was last sent, backwards from the head.
func (t *thread) load(ctx context.Context) error {
	v, err := t.view(ctx)
	if err != nil {
		return err
	}
	head, err := v.Head(ctx)
	if err != nil {
		return err
	}
	t.hasSystem(nil)
	t.tools, t.context, t.sent, t.began = nil, nil, nil, nil
	if head == 0 {
		t.stale = false
		return nil
	}
	path, damaged, err := readBack(ctx, v, head)
	if err != nil {
		return err
	}
	if damaged > 0 {
		t.notice("%d entries of this conversation are damaged, and the model does not get them; tidemark verify says which.", damaged)
	}
	if len(path) == 0 {
		t.stale = false
		return nil
	}
	rules, err := rulesBefore(ctx, v, path)
	if err != nil {
		return err
	}
	for _, e := range append(rules, path...) {
		// What the vault keeps apart was sent before, so it is sent again.
		if e, err = v.Reveal(ctx, e); err != nil {
			return err
		}
		t.take(e)
	}
	t.stale = false
	return nil
}

// rulesBefore returns the system prompt and the tools that held before path
// begins, as far as they are known: from the oldest summary in path or, in a
// session that never had one, from the beginning of the session.
func rulesBefore(ctx context.Context, v *store.View, path []tidemark.Entry) ([]tidemark.Entry, error) {
	first := path[0]
	if first.Parent == 0 {
		return nil, nil
	}
	all, _, err := readable(v.Tail(ctx, min(loadRules, first.Seq-1), loadRules))
	i := slices.IndexFunc(path, func(e tidemark.Entry) bool { return e.Kind == compact.Kind })
	if i >= 0 {
		all, err = nil, nil
		m := markOf[summaryMark](path[i])
		// The summary names what held when it was made. A new system prompt
		// that came with it stands right before it, and replaces that.
		seqs := []int64{m.System, m.Tools}
		if i == 0 {
			seqs = append(seqs, first.Parent)
		}
		for _, seq := range seqs {
			if err == nil && 0 < seq && seq < first.Seq {
				var one []tidemark.Entry
				one, _, err = readable(v.Tail(ctx, seq, 1))
				all = append(all, one...)
			}
		}
	}
	return slices.DeleteFunc(all, func(e tidemark.Entry) bool { return e.Role != tidemark.System && e.Kind != kindTools }), err
}

// view reads the log of the thread.
func (t *thread) view(ctx context.Context) (*store.View, error) {
	v, err := t.c.o.Store.View(ctx, t.c.ID())
	if err != nil {
		return nil, err
	}
	if t.worker == "" {
		return v, nil
	}
	return v.Worker(ctx, t.worker)
}

// readBack reads the path to head, starting where the newest summary allows, and
// counts damaged entries on the way.
func readBack(ctx context.Context, v *store.View, head int64) (path []tidemark.Entry, damaged int, err error) {
	for from := int64(0); len(path) < loadMost; {
		next := v.Tail(ctx, head, loadStep)
		if from > 0 {
			next = v.Before(ctx, from, loadStep)
		}
		step, bad, err := readable(next)
		if err != nil {
			return nil, 0, err
		}
		damaged += bad
		if len(step) == 0 {
			return path, damaged, nil
		}
		path = append(step, path...)
		from = path[0].Seq
		for _, e := range slices.Backward(path) {
			if e.Kind == compact.Kind {
				if from <= markOf[summaryMark](e).From {
					return path, damaged, nil
				}
				break
			}
		}
	}
	return path, damaged, nil
}

// readable collects entries and counts the damaged ones.
func readable(entries iter.Seq2[tidemark.Entry, error]) (all []tidemark.Entry, damaged int, err error) {
	for e, err := range entries {
		if errors.Is(err, tidemark.ErrCorrupt) {
			damaged++
			continue
		}
		if err != nil {
			return nil, 0, err
		}
		all = append(all, e)
	}
	return all, damaged, nil
}

// Results for calls that have no outcome.
const (
	notBegun = "interrupted before this began: it was not run."
	begun    = "interrupted while this ran: it may have had effects, in whole or in part. It was not run again."
	branched = "interrupted: the conversation was taken back to this point. Whatever this did on another branch stands; it was not run again."
)

// mend adds results for calls that have no outcome because their process died
// or could not keep it: the model has to know, and nothing is run again
// unasked. What such a call left beside the file that it was about to replace is
// removed first: once its result is kept, nobody looks for it again.
func (t *thread) mend(ctx context.Context, onBranch bool) error {
	open := unanswered(t.context)
	if len(open) == 0 {
		return nil
	}
	var results []tidemark.Entry
	for _, call := range open {
		why := notBegun
		switch {
		case onBranch:
			why = branched
		case t.began[call.ID]:
			why = begun
			t.box().Tidy(call.Name, call.Input)
		}
		results = append(results, resultEntry(call.ID, tool.Result{Text: why, IsError: true}))
	}
	if _, err := t.append(ctx, results...); err != nil {
		return err
	}
	if !onBranch {
		t.notice("%d tool call(s) have no outcome; the model is told that they were interrupted.", len(open))
	}
	return nil
}

// notice reports something about this thread to people.
func (t *thread) notice(format string, args ...any) {
	t.c.emit(Event{Worker: t.worker, Notice: fmt.Sprintf(format, args...)})
}
