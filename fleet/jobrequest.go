package fleet

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/tidemark-sessions/tidemark"
)

// JobRequest is a job that somebody wants an agent to run now.
type JobRequest struct {
	Agent    string
	Prompt   string
	Schedule string             // run as this schedule would; gives the prompt if Prompt is empty
	Resume   tidemark.SessionID // continue this session
	Fork     tidemark.SessionID // continue a copy of this session
	Entry    int64              // of that session, to continue from; 0: from its head
}

// RequestJob adds the requested job: ErrNotFound when there is no such agent or
// schedule, ErrInvalid when both Resume and Fork are set.
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

// RepeatJob adds a job with the prompt of another one, or with prompt if that is
// not empty, in the same session or, with fork, in a copy of it.
func (s *Store) RepeatJob(ctx context.Context, id, prompt string, fork bool) (tidemark.Job, error) {
	old, err := s.Job(ctx, id)
	if err != nil {
		return old, err
	}
	oldPrompt, err := s.JobPrompt(ctx, old)
	if err != nil {
		return old, err
	}
	j := tidemark.Job{Agent: old.Agent, Schedule: old.Schedule, Trigger: tidemark.TriggerManual, Prompt: cmp.Or(prompt, oldPrompt), SessionID: old.SessionID, Resume: old.Next()}
	if fork {
		j.Trigger, j.ForkedFrom = tidemark.TriggerFork, old.ID
	}
	if j.Resume != nil {
		j.Resume.Fork = j.Resume.Fork || fork
	}
	return s.AddJob(ctx, j)
}

// MaxMessageBytes bounds a message to an agent, like a file in its inbox.
const MaxMessageBytes = 1 << 20

// ErrNoInbox means that an agent takes no messages, because it has no schedule of
// type chat.
var ErrNoInbox = tidemark.Errorf(tidemark.ErrNotFound, "no schedule of type chat")

// SendMessage makes a job of a message to an agent: its prompt is that of the
// agent's schedule of type chat, with the text after it. ErrNoInbox when the
// agent has no such schedule, ErrConflict when the schedule is disabled, or skips
// the message because a job of it is pending or running.
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

// Message returns the prompt of a job for a message to an agent: the prompt of
// the schedule, and the text.
func Message(prompt, text string) string {
	if strings.TrimSpace(prompt) == "" {
		return text
	}
	return prompt + "\n\n" + text
}

// ChatSchedule returns the schedule of type chat of an agent, an enabled one if
// there is one; the zero Schedule when there is none.
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
