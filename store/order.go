package store

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
)

// Order is what an agent is to do now because somebody wants it.
type Order struct {
	Agent    string
	Prompt   string
	Schedule string             // as this one would; its prompt when there is no other
	Resume   tidemark.SessionID // goes on with this session
	Fork     tidemark.SessionID // goes on with a copy of this one
	Entry    int64              // of that session, to go on from; 0: from where it is
}

// OrderJob adds the job that an order asks for: ErrNotFound when there is no
// such agent or schedule, ErrInvalid when its parts exclude each other.
func (s *Store) OrderJob(ctx context.Context, o Order) (tidemark.Job, error) {
	if _, err := s.AgentRecord(ctx, o.Agent); err != nil {
		return tidemark.Job{}, err
	}
	j := tidemark.Job{Agent: o.Agent, Trigger: tidemark.TriggerManual, Prompt: o.Prompt, Schedule: o.Schedule, SessionID: string(o.Resume)}
	if o.Schedule != "" {
		d, err := s.Schedule(ctx, o.Agent, o.Schedule)
		if err != nil {
			return j, err
		}
		j.Prompt = cmp.Or(j.Prompt, d.Prompt)
	}
	switch {
	case o.Resume != "" && o.Fork != "":
		return j, tidemark.Invalidf("to resume a session and to fork one exclude each other")
	case o.Fork != "":
		j.SessionID, j.ForkedFrom, j.Trigger = string(o.Fork), string(o.Fork), tidemark.TriggerFork
	}
	if j.SessionID != "" {
		j.Resume = &tidemark.Resume{Session: j.SessionID, Entry: o.Entry, Fork: o.Fork != ""}
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

// typeChat is the type of the schedules that take messages.
const typeChat = "chat"

// SendMessage makes a job of what somebody writes to an agent: the prompt of its
// schedule of type chat, and the text after it. ErrNotFound when nobody can
// write to it, ErrConflict when its schedule is disabled, or skips it because a
// job of it is under way.
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
		return tidemark.Job{}, tidemark.NotFoundf("agent %s has no schedule of type chat", agent)
	case to.Status == tidemark.Disabled:
		return tidemark.Job{}, tidemark.Conflictf("schedule %s/%s: %w", to.Agent, to.Name, ErrDisabled)
	}
	text = strings.ToValidUTF8(text, "\uFFFD")
	got, err := s.Deliver(ctx, from, s.k.Now(), Delivery{Agent: to.Agent, Schedule: to.Name, Trigger: tidemark.TriggerChat,
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
		if err == nil && d.Type == typeChat && (found.Name == "" || found.Status == tidemark.Disabled) {
			found = d
		}
	}
	return found, nil
}

// KeptJob is a job with where a listing goes on behind it.
type KeptJob struct {
	tidemark.Job
	Mark Mark
}

// JobsAfter lists jobs as Jobs does, behind a mark of an earlier listing.
func (s *Store) JobsAfter(ctx context.Context, f JobFilter, after Mark) iter.Seq2[KeptJob, error] {
	q := tidemark.Query{Kind: kindJob, Group: f.Agent, State: f.Status, Limit: f.Limit, After: after.After(jobKey(after.ID))}
	return func(yield func(KeptJob, error) bool) {
		if err := f.check(); err != nil {
			yield(KeptJob{}, err)
			return
		}
		for r, err := range s.backend.List(ctx, q) {
			var j KeptJob
			if err == nil {
				err = records.Decode(r, &j.Job)
			}
			j.Mark = Mark{ID: r.ID, At: r.Touched()}
			if !yield(j, err) || err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
				return
			}
		}
	}
}

// Numbered is an event with its place in the output that it is of.
type Numbered struct {
	Seq int64 `json:"seq"`
	tidemark.Event
}

// NumberedOutput is Output with the place of each event.
func (s *Store) NumberedOutput(ctx context.Context, job string, spans ...tidemark.Span) iter.Seq2[Numbered, error] {
	return s.numbered(ctx, jobKey(job), spans)
}

// NumberedAgentLog is AgentLog with the place of each event.
func (s *Store) NumberedAgentLog(ctx context.Context, agent string, spans ...tidemark.Span) iter.Seq2[Numbered, error] {
	return s.numbered(ctx, agentKey(agent), spans)
}

func (s *Store) numbered(ctx context.Context, log tidemark.Key, spans []tidemark.Span) iter.Seq2[Numbered, error] {
	return func(yield func(Numbered, error) bool) {
		for l, err := range s.backend.Lines(ctx, log, spans...) {
			e := tidemark.Event{Type: l.Kind, Timestamp: l.At}
			if err == nil {
				e, err = tidemark.EventOf(l)
			}
			if !yield(Numbered{l.Seq, e}, err) {
				return
			}
		}
	}
}

// outputLook is how often a follower looks whether the job has ended: that
// makes no line.
const outputLook = 250 * time.Millisecond

// FollowOutput yields what a job put out after seq, and what it puts out from
// now on, until it has ended or nobody runs it any more. What is damaged is
// yielded as a *tidemark.Damage, and it goes on.
func (s *Store) FollowOutput(ctx context.Context, job string, after int64) iter.Seq2[Numbered, error] {
	return func(yield func(Numbered, error) bool) {
		for {
			// The job is looked at first: what it put out before it ended is there.
			over, err := s.over(ctx, job)
			if err != nil {
				yield(Numbered{}, err)
				return
			}
			length, err := s.OutputLength(ctx, job)
			if err != nil {
				yield(Numbered{}, err)
				return
			}
			if length > after {
				for e, err := range s.NumberedOutput(ctx, job, tidemark.Span{From: after + 1, To: length}) {
					if !yield(e, err) || err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
						return
					}
				}
				after = length
				continue
			}
			if over {
				return
			}
			look, stop := context.WithTimeout(ctx, outputLook)
			err = s.k.Wait(look, jobKey(job), after)
			stop()
			if ctx.Err() != nil {
				err = ctx.Err()
			} else if errors.Is(err, context.DeadlineExceeded) {
				err = nil
			}
			if err != nil {
				yield(Numbered{}, err)
				return
			}
		}
	}
}

// over reports whether a job puts out no more: it has ended, or it runs and
// nobody is there who does it, because its owner died or it came from
// elsewhere.
func (s *Store) over(ctx context.Context, id string) (bool, error) {
	j, err := s.Job(ctx, id)
	if err != nil || j.Status == tidemark.JobPending {
		return false, err
	}
	if j.Status != tidemark.JobRunning {
		return true, nil
	}
	l, err := s.k.Lease(ctx, jobKey(id))
	if err != nil || l.Living() {
		return false, err
	}
	// It may have ended between the two looks; then the next look tells.
	j, err = s.Job(ctx, id)
	return err == nil && j.Status == tidemark.JobRunning, err
}
