package acp

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	sdk "github.com/coder/acp-go-sdk"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/compact"
	"github.com/tidemark-sessions/tidemark/store"
)

// screen shows an editor what happens in one session. Stored entries, whether
// new or old, ours or somebody else's, are shown by the same code; our own
// turns are also shown while they stream.
type screen struct {
	send func(sdk.SessionUpdate)

	mu       sync.Mutex
	folder   string   // base of paths
	muted    bool     // nothing is shown, because it will be read from the log later
	notes    []string // notes to show nevertheless
	answers  int      // number of our answers, which names their messages
	asides   int      // number of notes, which names theirs
	streamed bool     // a part of the current answer was shown
	calls    map[sdk.ToolCallId]*shownCall
	running  map[string]*shownCall // by worker
	tasks    []store.Task          // as they were last sent
	seq      int64                 // the newest entry that was shown
}

// shownCall is a call without an outcome yet.
type shownCall struct {
	id      sdk.ToolCallId
	change  []sdk.ToolCallContent
	output  strings.Builder
	pending bool // an update of its output is scheduled
}

func newScreen(folder string, send func(sdk.SessionUpdate)) *screen {
	return &screen{folder: folder, send: send, calls: make(map[sdk.ToolCallId]*shownCall), running: make(map[string]*shownCall)}
}

// shown is the newest entry that the editor was shown.
func (s *screen) shown() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seq
}

// from restarts after an entry.
func (s *screen) from(seq int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seq, s.tasks = seq, nil
	clear(s.calls)
	clear(s.running)
}

// move changes the folder that paths are relative to.
func (s *screen) move(folder string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.folder = folder
}

// mute shows nothing until unmute.
func (s *screen) mute() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.muted = true
}

func (s *screen) unmute() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.muted = false
	for _, n := range s.notes {
		s.noteLocked(n)
	}
	s.notes = nil
}

// note shows people a message that is not part of the conversation.
func (s *screen) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noteLocked(fmt.Sprintf(format, args...))
}

// noteLocked sends a note as a thought: the protocol has no notices, and a
// thought is not mistaken for an answer.
func (s *screen) noteLocked(text string) {
	s.asides++
	s.send(thought(text+"\n", "note-"+strconv.Itoa(s.asides)))
}

// say shows an answer that is ours and not the model's, and is not kept.
func (s *screen) say(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers++
	s.send(answer(text, s.message()))
}

// message is the id of the message in progress. Stored ones use their seq.
func (s *screen) message() string { return "now-" + strconv.Itoa(s.answers) }

func answer(text, message string) sdk.SessionUpdate {
	return sdk.SessionUpdate{AgentMessageChunk: &sdk.SessionUpdateAgentMessageChunk{Content: sdk.TextBlock(text), MessageId: &message}}
}

func thought(text, message string) sdk.SessionUpdate {
	return sdk.SessionUpdate{AgentThoughtChunk: &sdk.SessionUpdateAgentThoughtChunk{Content: sdk.TextBlock(text), MessageId: &message}}
}

// event handles an event of the chat. Of workers an editor sees what they do,
// and not what they say: that comes as the result of a call.
func (s *screen) event(e chat.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.muted {
		if e.Notice != "" {
			s.notes = append(s.notes, e.Notice)
		}
		return
	}
	switch {
	case e.Notice != "":
		s.noteLocked(e.Notice)
	case e.Kept != nil:
		s.keptLocked(*e.Kept, e.Worker)
	case e.Call != nil:
		s.run(e.Worker, e.Call.ID)
	case e.Output != "":
		s.output(e.Worker, e.Output)
	case e.Worker != "":
	case e.Text != "":
		s.streamed = true
		s.send(answer(e.Text, s.message()))
	case e.Thinking != "":
		s.streamed = true
		s.send(thought(e.Thinking, s.message()))
	case e.Wait != nil:
		// The output of this attempt is not part of the answer.
		s.streamed = false
		s.noteLocked(fmt.Sprintf("%s; asking again in %s", e.Wait.Why, e.Wait.For.Round(time.Millisecond)))
		s.answers++
	}
}

// keptLocked shows the parts of our own entry that were not shown while it
// streamed.
func (s *screen) keptLocked(e tidemark.Entry, worker string) {
	if worker == "" {
		s.seq = max(s.seq, e.Seq)
	}
	switch e.Role {
	case tidemark.Assistant:
		if worker == "" && !s.streamed {
			s.spoken(e)
		}
		s.streamed = false
		s.answers++
		s.called(e, worker, true)
	case tidemark.Tool:
		s.results(e, worker)
	}
}

// entry shows an entry that was stored earlier, or by somebody else.
func (s *screen) entry(e tidemark.Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seq = max(s.seq, e.Seq)
	name := strconv.FormatInt(e.Seq, 10)
	switch {
	case e.Kind == compact.Kind:
		s.send(thought("The conversation before this was summed up for the model:\n"+e.Text()+"\n", name))
	case e.Kind == tidemark.KindBranch:
		s.send(thought("The conversation goes on from an earlier point.\n", name))
	case e.Kind == "error":
		s.send(thought("There was no answer: "+e.Text()+"\n", name))
	case e.Role == tidemark.User:
		for _, b := range e.Blocks {
			// What a tool wrapped around the message is not part of it.
			if said, context := tidemark.Spoken(b.Text); b.Type == tidemark.BlockText && len(context) > 0 {
				if b.Text = said; said == "" {
					continue
				}
			}
			if c, ok := contentOf(b); ok {
				s.send(sdk.SessionUpdate{UserMessageChunk: &sdk.SessionUpdateUserMessageChunk{Content: c, MessageId: &name}})
			}
		}
	case e.Role == tidemark.Assistant:
		s.spoken(e)
		s.called(e, "", false)
	case e.Role == tidemark.Tool:
		s.results(e, "")
	}
}

// spoken shows the text of an answer.
func (s *screen) spoken(e tidemark.Entry) {
	name := strconv.FormatInt(e.Seq, 10)
	for _, b := range e.Blocks {
		switch {
		case b.Type == tidemark.BlockThinking && b.Text != "":
			s.send(thought(b.Text, name))
		case b.Type != tidemark.BlockThinking:
			if c, ok := contentOf(b); ok {
				s.send(sdk.SessionUpdate{AgentMessageChunk: &sdk.SessionUpdateAgentMessageChunk{Content: c, MessageId: &name}})
			}
		}
	}
}

// called shows the calls of an answer.
func (s *screen) called(e tidemark.Entry, worker string, before bool) {
	for _, b := range e.Blocks {
		if b.Type != tidemark.BlockToolUse {
			continue
		}
		c := newCall(s.folder, worker, b.ID, b.Name, b.Input)
		u := c.begun(before)
		s.calls[u.ToolCall.ToolCallId] = &shownCall{id: u.ToolCall.ToolCallId, change: u.ToolCall.Content}
		s.send(u)
	}
}

func (s *screen) results(e tidemark.Entry, worker string) {
	for _, b := range e.Blocks {
		if b.Type != tidemark.BlockToolResult {
			continue
		}
		var change []sdk.ToolCallContent
		id := callID(worker, b.ToolUseID)
		if c := s.calls[id]; c != nil {
			change = c.change
		}
		delete(s.calls, id)
		delete(s.running, worker)
		s.send(ended(worker, b, change))
	}
}

func (s *screen) run(worker, id string) {
	c := s.calls[callID(worker, id)]
	if c == nil {
		return
	}
	s.running[worker] = c
	s.send(sdk.UpdateToolCall(c.id, sdk.WithUpdateStatus(sdk.ToolCallStatusInProgress)))
}

// outputEvery is how often more of a command's output is shown, each time all
// of it: an update replaces the previous one.
const outputEvery = 100 * time.Millisecond

func (s *screen) output(worker, text string) {
	c := s.running[worker]
	if c == nil {
		return
	}
	c.output.WriteString(text)
	if c.pending {
		return
	}
	c.pending = true
	time.AfterFunc(outputEvery, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if c.pending = false; s.running[worker] != c {
			return // it has ended
		}
		content := append(slices.Clone(c.change), sdk.ToolContent(sdk.TextBlock(c.output.String())))
		s.send(sdk.UpdateToolCall(c.id, sdk.WithUpdateContent(content)))
	})
}

// plan sends the task list if it changed.
func (s *screen) plan(tasks []store.Task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Equal(tasks, s.tasks) {
		return
	}
	s.tasks = tasks
	entries := []sdk.PlanEntry{}
	for _, t := range tasks {
		e := sdk.PlanEntry{Content: t.Text, Priority: sdk.PlanEntryPriorityMedium, Status: sdk.PlanEntryStatusPending}
		if t.Done {
			e.Status = sdk.PlanEntryStatusCompleted
		}
		entries = append(entries, e)
	}
	s.send(sdk.UpdatePlan(entries...))
}
