package fleet

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/tidemark-sessions/tidemark"
)

// JobRequest is what an agent is to do now because somebody wants it.
type JobRequest struct {
	Agent    string
	Prompt   string
	Schedule string             // as this one would; its prompt when there is no other
	Resume   tidemark.SessionID // goes on with this session
	Fork     tidemark.SessionID // goes on with a copy of this one
	Entry    int64              // of that session, to go on from; 0: from where it is
}

// RequestJob adds the job that somebody asks for: ErrNotFound when there is no
// such agent or schedule, ErrInvalid when its parts exclude each other.
func (s *Store) RequestJob(ctx context.Context, r JobRequest) (tidemark.Job, error) {
	if _, err := s.AgentRecord(ctx, r.Agent); err != nil {
		return tidemark.Job{}, err
	}
	j := tidemark.Job{Agent: r.Agent, Trigger: tidemark.TriggerManual, Prompt: r.Prompt, Schedule: r.Schedule, SessionID: string(r.Resume)}
	if r.Schedule != "" {
		d, err := s.Schedule(ctx, r.Agent, r.Schedule)
		if err != nil {
			return j, err
		}
		j.Prompt = cmp.Or(j.Prompt, d.Prompt)
	}
	switch {
	case r.Resume != "" && r.Fork != "":
		return j, tidemark.Invalidf("to resume a session and to fork one exclude each other")
	case r.Fork != "":
		j.SessionID, j.ForkedFrom, j.Trigger = string(r.Fork), string(r.Fork), tidemark.TriggerFork
	}
	if j.SessionID != "" {
		j.Resume = &tidemark.Resume{Session: j.SessionID, Entry: r.Entry, Fork: r.Fork != ""}
	}
	return s.AddJob(ctx, j)
}

// RepeatJob adds a job that does what another one did, or prompt instead when
// that is not empty, in the same session or, with fork, in a copy of it.
func (s *Store) RepeatJob(ctx context.Context, id, prompt string, fork bool) (tidemark.Job, error) {
	old, err := s.Job(ctx, id)
	if err != nil {
		return old, err
	}
	said, err := s.JobPrompt(ctx, old)
	if err != nil {
		return old, err
	}
	j := tidemark.Job{Agent: old.Agent, Schedule: old.Schedule, Trigger: tidemark.TriggerManual, Prompt: cmp.Or(prompt, said), SessionID: old.SessionID, Resume: old.Next()}
	if fork {
		j.Trigger, j.ForkedFrom = tidemark.TriggerFork, old.ID
	}
	if j.Resume != nil {
		j.Resume.Fork = j.Resume.Fork || fork
	}
	return s.AddJob(ctx, j)
}

// MaxMessageBytes bounds what somebody writes to an agent, as what comes to its
// inbox is.
const MaxMessageBytes = 1 << 20

// ErrNoInbox means that nobody can write to an agent, because it has no schedule
// of type chat.
var ErrNoInbox = tidemark.Errorf(tidemark.ErrNotFound, "no schedule of type chat")

// SendMessage makes a job of what somebody writes to an agent: the prompt of its
// schedule of type chat, and the text after it. ErrNoInbox when it has none,
// ErrConflict when its schedule is disabled, or skips it because a job of it is
// under way.
func (s *Store) SendMessage(ctx context.Context, from tidemark.Holder, agent, text string) (tidemark.Job, error) {
	switch {
	case len(text) > MaxMessageBytes:
		return tidemark.Job{}, tidemark.Invalidf("the message has more than %d bytes", MaxMessageBytes)
	case strings.TrimSpace(text) == "":
		return tidemark.Job{}, tidemark.Invalidf("the message is empty")
	}
	if _, err := s.AgentRecord(ctx, agent); err != nil {
		return tidemark.Job{}, err
	}
	to, err := s.ChatSchedule(ctx, agent)
	switch {
	case err != nil:
		return tidemark.Job{}, err
	case to.Name == "":
		return tidemark.Job{}, tidemark.Errorf(ErrNoInbox, "agent %s has no schedule of type chat", agent)
	case to.Status == tidemark.Disabled:
		return tidemark.Job{}, tidemark.Conflictf("schedule %s/%s: %w", to.Agent, to.Name, ErrDisabled)
	}
	text = strings.ToValidUTF8(text, "\uFFFD")
	got, err := s.Trigger(ctx, from, s.k.Now(), Trigger{Agent: to.Agent, Schedule: to.Name, Type: tidemark.TriggerChat,
		Text: func(prompt string) string { return Message(prompt, text) }})
	if err == nil && got.Skipped != "" {
		err = tidemark.Conflictf("schedule %s/%s skips it: %s", to.Agent, to.Name, got.Skipped)
	}
	return got.Job, err
}

// Message is what an agent is told when somebody writes to it: the prompt of
// its schedule, and the text.
func Message(prompt, text string) string {
	if strings.TrimSpace(prompt) == "" {
		return text
	}
	return prompt + "\n\n" + text
}

// ChatSchedule finds the schedule of type chat of an agent, one that is enabled
// if there is one; the zero Schedule when there is none.
func (s *Store) ChatSchedule(ctx context.Context, agent string) (found tidemark.Schedule, err error) {
	for d, err := range s.Schedules(ctx, agent) {
		if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
			return found, err
		}
		if err == nil && d.Type == TypeChat && (found.Name == "" || found.Status == tidemark.Disabled) {
			found = d
		}
	}
	return found, nil
}
