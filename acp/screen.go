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

// screen tells an editor what happens in one session. Entries that were kept,
// now or long ago, by us or by somebody else, are shown by the same code; a
// turn of ours is shown while it comes, too.
type screen struct {
	send func(sdk.SessionUpdate)

	mu       sync.Mutex
	folder   string   // that paths are of
	muted    bool     // what happens is not shown, because it is going to be read
	notes    []string // what people should know of it nevertheless
	answers  int      // of ours, as the numbers of their messages
	asides   int      // notes, as theirs
	streamed bool     // something of the answer that comes was shown
	calls    map[sdk.ToolCallId]*shownCall
	running  map[string]*shownCall // by worker
	tasks    []store.Task          // as they were told last
	seq      int64                 // the newest entry that was shown
}

// shownCall is a call that has no outcome yet.
type shownCall struct {
	id      sdk.ToolCallId
	change  []sdk.ToolCallContent
	output  strings.Builder
	pending bool // output is going to be shown
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

// from begins anew, behind an entry.
func (s *screen) from(seq int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seq, s.tasks = seq, nil
	clear(s.calls)
	clear(s.running)
}

// move makes paths those of another folder.
func (s *screen) move(folder string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.folder = folder
}

// mute keeps what happens from the editor until unmute.
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

// note tells people something that nobody said.
func (s *screen) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noteLocked(fmt.Sprintf(format, args...))
}

// noteLocked is a thought: the protocol has no notices, and a thought is not
// taken for an answer.
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

// message names what is being said now. What was kept has its seq as a name.
func (s *screen) message() string { return "now-" + strconv.Itoa(s.answers) }

func answer(text, message string) sdk.SessionUpdate {
	return sdk.SessionUpdate{AgentMessageChunk: &sdk.SessionUpdateAgentMessageChunk{Content: sdk.TextBlock(text), MessageId: &message}}
}

func thought(text, message string) sdk.SessionUpdate {
	return sdk.SessionUpdate{AgentThoughtChunk: &sdk.SessionUpdateAgentThoughtChunk{Content: sdk.TextBlock(text), MessageId: &message}}
}

// event is told by the chat what happens. Of workers an editor sees what they
// do, and not what they say: that comes as the result of a call.
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
		// What came of this attempt is not part of the answer.
		s.streamed = false
		s.noteLocked(fmt.Sprintf("%s; asking again in %s", e.Wait.Why, e.Wait.For.Round(time.Millisecond)))
		s.answers++
	}
}

// keptLocked shows what of an entry of ours was not shown while it came.
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

// entry shows an entry that was kept before, or by somebody else.
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
			// What a tool put around it is no part of what was asked.
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

// spoken shows what an answer says.
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

// outputEvery is how often more of a command's output is shown. Each time it is
// all of it: an update replaces what there was.
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

// plan tells the task list when it is another one than it was.
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
