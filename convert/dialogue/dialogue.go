// Package dialogue makes of the entries of a session what a tool can go on with
// and a model accepts: one path of prompts, answers and results, in which every
// call has exactly one result right behind it. Writers of tools begin with it, so
// that each of them only has to say how a message looks. It reads no files and
// knows no tool.
//
// What a model would refuse is mended, and each Fault says in plain words what was
// wrong. What a writer has no place for becomes text; what becomes nothing at all
// is counted in Lost.
//
//	d, err := dialogue.Of(ctx, session, dialogue.Takes{Thinking: true})
package dialogue

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// Takes is what the format of a tool has a place for, besides texts, calls and
// results.
type Takes struct {
	Thinking bool // thoughts without a signature
	// Files reports whether files of a media type are taken that are no images; nil:
	// none are.
	Files func(mediaType string) bool
	Links bool // images that are elsewhere, by their URL
	// MaxImage is how many bytes an image may have; 0: any number.
	MaxImage int
	// MaxSide is how many pixels an image may be wide or high; 0: any number.
	MaxSide int
	// Summary says that the tool can keep what was said before a summary without
	// sending it. Where it cannot, that is left out.
	Summary bool
	// Signed reports whether thinking with a provider's signature is kept as it is,
	// and if not, what is wrong with the signature; "": nothing, it belongs elsewhere.
	// Nil: none is kept.
	Signed func(b tidemark.Block) (keep bool, wrong string)
}

// Message is one message. Its Role is User, Assistant or Tool.
type Message struct {
	convert.Entry
	// Summary says that it stands for everything before it.
	Summary bool
}

// Fault is something in a session that a tool or a model refuses.
type Fault struct {
	Kind  string `json:"kind"`
	Entry string `json:"entry,omitempty"` // the tool's id of the entry
	What  string `json:"what"`            // for people
}

// The kinds of faults.
const (
	FaultDamaged   = "damaged"
	FaultNoResult  = "call_without_result"
	FaultNoCall    = "result_without_call"
	FaultTwice     = "call_twice"
	FaultAgain     = "result_twice"
	FaultInput     = "call_input"
	FaultID        = "call_id"
	FaultName      = "call_name"
	FaultSignature = "signature"
	FaultImage     = "image"
	FaultEmpty     = "empty"
	FaultBegin     = "beginning"
	FaultPlace     = "place" // who knows the tool finds it: see convert.Adrift
)

// Dialogue is a path of messages.
type Dialogue struct {
	Messages []Message
	Lost     convert.Losses
	Faults   []Fault
}

// NoResult is the result of a call that has none.
const NoResult = "The result of this call was not kept."

// Of reads a session up to its head.
func Of(ctx context.Context, s *convert.Session, takes Takes) (*Dialogue, error) {
	b := &builder{takes: takes, used: map[string]bool{}, waits: map[string][]string{}, names: map[string]string{}}
	b.out.Lost = convert.Losses{}
	path, err := convert.BranchTo(ctx, s.Entries, s.Head)
	if err != nil {
		return nil, err
	}
	if path.Beside > 0 {
		b.out.Lost["entries of other branches"] += path.Beside
	}
	if path.Damaged > 0 {
		b.out.Lost["damaged entries"] += path.Damaged
		b.fault(FaultDamaged, "", "%s could not be read", count(path.Damaged, "line"))
	}
	if s.Fork != nil {
		b.out.Lost.Add("the part that it shares with the session it was forked from")
	}
	for _, e := range path.Entries {
		b.add(e)
	}
	b.answerAll()
	b.ofSession(s)
	return &b.out, nil
}

func count(n int, what string) string {
	if n == 1 {
		return "one " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// ofSession counts what a session has besides its messages.
func (b *builder) ofSession(s *convert.Session) {
	for what, n := range map[string]int{
		"labels of entries": len(s.Labels), "tags": len(s.Tags), "the checkpoint": min(1, len(s.Checkpoint)),
		"files of the session": len(s.Files), "transcripts of helper agents": len(s.Workers),
	} {
		if n > 0 {
			b.out.Lost[what] += n
		}
	}
}

// builder makes the messages of one path.
type builder struct {
	takes Takes
	out   Dialogue
	at    time.Time
	open  []string            // the calls of the last answer, by the ids that they have now
	waits map[string][]string // the ids that they have now, by those that they had
	used  map[string]bool     // ids of calls
	names map[string]string   // what was called, by id
	begun bool
}

func (b *builder) fault(kind, entry, what string, args ...any) {
	b.out.Faults = append(b.out.Faults, Fault{kind, entry, fmt.Sprintf(what, args...)})
}

// put appends a message, or nothing if there is nothing in it.
func (b *builder) put(e convert.Entry, role tidemark.Role, blocks []tidemark.Block, summary bool) {
	if len(blocks) == 0 {
		return
	}
	if !b.begun && role == tidemark.Assistant {
		b.fault(FaultBegin, e.ID, "it begins with an answer; models want a prompt first")
		b.begun = true
		first := e
		first.ID, first.Usage, first.Extra = e.ID+"-prompt", nil, nil
		b.put(first, tidemark.User, []tidemark.Block{tidemark.Text("(What was asked first was not kept.)")}, false)
	}
	b.begun = true
	if e.At.IsZero() || e.At.Before(b.at) {
		e.At = b.at
	}
	b.at = e.At
	e.Kind, e.Role, e.Blocks, e.Parent, e.Extra, e.Draft = tidemark.KindMessage, role, blocks, "", nil, false
	b.out.Messages = append(b.out.Messages, Message{e, summary})
}

// add makes messages of an entry.
func (b *builder) add(e convert.Entry) {
	switch {
	case e.Role == tidemark.Tool:
		b.results(e)
		return
	case e.Role == tidemark.Assistant:
		b.answerAll()
		b.answer(e)
		return
	case e.Role == tidemark.User:
		b.prompt(e)
		return
	case e.Kind == convert.KindCompaction && says(e):
		b.answerAll()
		b.compaction(e)
	case (e.Kind == convert.KindCommand || e.Kind == convert.KindCommandOutput) && says(e):
		b.answerAll()
		b.put(e, tidemark.User, []tidemark.Block{tidemark.Text(e.Text())}, false)
	case e.Kind == convert.KindContext && e.Extra == nil && says(e): // whoever gives the tool a session has something to tell
		b.answerAll()
		b.put(e, tidemark.User, []tidemark.Block{tidemark.Text(e.Text())}, false)
	case e.Role == tidemark.System || e.Kind == convert.KindContext:
		if says(e) {
			b.out.Lost.Add("texts that the tool it came from told the model")
		}
	case e.Kind == tidemark.KindBranch || e.Kind == tidemark.KindGap || e.Empty():
	default:
		b.out.Lost.Add("entries of the kind " + e.Kind)
	}
}

// says reports whether there is text in an entry.
func says(e convert.Entry) bool { return strings.TrimSpace(e.Text()) != "" }

// compaction puts a summary in the place of what was before.
func (b *builder) compaction(e convert.Entry) {
	if n := len(b.out.Messages); n > 0 && !b.takes.Summary {
		b.out.Lost["messages before a summary, which stands for them"] += n
		b.out.Messages = nil
	}
	b.put(e, tidemark.User, []tidemark.Block{tidemark.Text(e.Text())}, true)
}

// prompt takes what a person said.
func (b *builder) prompt(e convert.Entry) {
	var blocks []tidemark.Block
	for _, one := range e.Blocks {
		switch one.Type {
		case tidemark.BlockToolResult: // some tools keep results with what was said next
			b.results(convert.Entry{Entry: tidemark.Entry{At: e.At, Role: tidemark.Tool, Blocks: []tidemark.Block{one}}, ID: e.ID + "-result"})
		case tidemark.BlockToolUse, tidemark.BlockThinking:
			blocks = append(blocks, b.folded(one))
		default:
			blocks = b.said(blocks, e.ID, one)
		}
	}
	b.answerAll()
	if len(blocks) == 0 && len(e.Blocks) > 0 && e.Blocks[0].Type != tidemark.BlockToolResult {
		b.fault(FaultEmpty, e.ID, "there is a message with nothing in it")
	}
	b.put(e, tidemark.User, blocks, false)
}

// answer takes what a model said.
func (b *builder) answer(e convert.Entry) {
	var blocks []tidemark.Block
	for _, one := range e.Blocks {
		switch one.Type {
		case tidemark.BlockToolUse:
			blocks = append(blocks, b.call(e.ID, one))
		case tidemark.BlockThinking:
			blocks = b.thought(blocks, e.ID, one)
		case tidemark.BlockToolResult:
			blocks = append(blocks, b.folded(one))
		default:
			blocks = b.said(blocks, e.ID, one)
		}
	}
	if len(blocks) == 0 && len(e.Blocks) == 0 {
		b.fault(FaultEmpty, e.ID, "there is an answer with nothing in it")
	}
	b.put(e, tidemark.Assistant, blocks, false)
}

// thought keeps thinking that nobody signed. A signature is valid only where it
// was made, and thoughts without theirs are refused there.
func (b *builder) thought(blocks []tidemark.Block, entry string, one tidemark.Block) []tidemark.Block {
	switch {
	case one.Raw != "":
		keep, wrong := false, ""
		if b.takes.Signed != nil {
			keep, wrong = b.takes.Signed(one)
		}
		if keep {
			return append(blocks, one)
		}
		if wrong != "" {
			b.fault(FaultSignature, entry, "there is thinking whose signature %s", wrong)
		}
		b.out.Lost.Add("thinking that is signed by its provider")
	case strings.TrimSpace(one.Text) == "":
	case !b.takes.Thinking:
		b.out.Lost.Add("thinking")
	default:
		blocks = append(blocks, tidemark.Block{Type: tidemark.BlockThinking, Text: one.Text})
	}
	return blocks
}

// said keeps texts and media, and makes text of what the tool has no place for.
func (b *builder) said(blocks []tidemark.Block, entry string, one tidemark.Block) []tidemark.Block {
	switch one.Type {
	case tidemark.BlockText:
		if one.Text == "" && one.Raw != "" {
			return append(blocks, b.folded(one))
		}
		if strings.TrimSpace(one.Text) == "" {
			return blocks // models refuse it
		}
		return append(blocks, tidemark.Text(one.Text))
	case tidemark.BlockImage, tidemark.BlockFile:
		return append(blocks, b.media(entry, one))
	}
	return append(blocks, b.folded(one))
}

// Calls reports whether there is a call in a message.
func (m Message) Calls() bool {
	return slices.ContainsFunc(m.Blocks, func(b tidemark.Block) bool { return b.Type == tidemark.BlockToolUse })
}
