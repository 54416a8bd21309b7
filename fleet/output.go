package fleet

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/vault"
)

// What a job puts out, and what an agent logs, is the log of its record.

// Output yields what a job put out.
func (s *Store) Output(ctx context.Context, job string, spans ...tidemark.Span) iter.Seq2[tidemark.Event, error] {
	return s.events(ctx, jobKey(job), spans)
}

// AgentLog yields what an agent logged.
func (s *Store) AgentLog(ctx context.Context, agent string, spans ...tidemark.Span) iter.Seq2[tidemark.Event, error] {
	return s.events(ctx, agentKey(agent), spans)
}

// AppendOutput adds to what a job put out. The log is as long as from says;
// ErrConflict when somebody else was quicker.
func (s *Store) AppendOutput(ctx context.Context, job string, from int64, events ...tidemark.Event) error {
	return s.appendEvents(ctx, jobKey(job), from, events)
}

// AppendAgentLog is AppendOutput for what an agent logged.
func (s *Store) AppendAgentLog(ctx context.Context, agent string, from int64, events ...tidemark.Event) error {
	return s.appendEvents(ctx, agentKey(agent), from, events)
}

// OutputLength is how many events a job put out.
func (s *Store) OutputLength(ctx context.Context, job string) (int64, error) {
	return s.length(ctx, jobKey(job))
}

// AgentLogLength is how many events an agent logged.
func (s *Store) AgentLogLength(ctx context.Context, agent string) (int64, error) {
	return s.length(ctx, agentKey(agent))
}

func (s *Store) length(ctx context.Context, log tidemark.Key) (int64, error) {
	r, err := s.k.Backend().Get(ctx, log)
	if errors.Is(err, tidemark.ErrNotFound) {
		return 0, nil
	}
	return r.Head.Length, err
}

func (s *Store) events(ctx context.Context, log tidemark.Key, spans []tidemark.Span) iter.Seq2[tidemark.Event, error] {
	return func(yield func(tidemark.Event, error) bool) {
		for l, err := range s.k.Backend().Lines(ctx, log, spans...) {
			e := tidemark.Event{Type: l.Kind, Timestamp: l.At}
			if err == nil {
				e, err = tidemark.EventOf(l)
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

func (s *Store) appendEvents(ctx context.Context, log tidemark.Key, from int64, events []tidemark.Event) error {
	if len(events) == 0 {
		return nil
	}
	a, err := s.eventLines(ctx, log, from, events)
	if err != nil {
		return err
	}
	_, err = s.k.Commit(ctx, tidemark.Batch{Appends: []tidemark.Append{a}})
	return err
}

// eventLines are events, without the secrets in them, as the lines of a log that
// is as long as from says.
func (s *Store) eventLines(ctx context.Context, log tidemark.Key, from int64, events []tidemark.Event) (tidemark.Append, error) {
	a := tidemark.Append{Log: log, Lines: make([]tidemark.Line, len(events))}
	for i, e := range events {
		if err := s.vault.Keep(ctx, log.ID, s.redactEvent(log.ID, &e)); err != nil {
			return a, err
		}
		l, err := e.Line()
		if err != nil {
			return a, err
		}
		l.Seq = from + int64(i) + 1
		l.Sum = l.Checksum(log)
		a.Lines[i] = l
	}
	return a, nil
}

func (s *Store) redactEvent(id string, e *tidemark.Event) vault.Values {
	return s.vault.Redact(id, []*string{&e.Content, &e.Error, &e.Message, &e.Stack}, &e.Input, &e.Result, &e.Extra)
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
		for l, err := range s.k.Backend().Lines(ctx, log, spans...) {
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
	l, err := s.JobLease(ctx, id)
	if err != nil || l.Living() {
		return false, err
	}
	// It may have ended between the two looks; then the next look tells.
	j, err = s.Job(ctx, id)
	return err == nil && j.Status == tidemark.JobRunning, err
}

// Tail yields the newest events that a job put out, 0 for all, and with follow
// what comes from then on, until the job ends; nothing twice. One that cannot be
// read is ErrCorrupt, and reading goes on past it.
func (s *Store) Tail(ctx context.Context, job string, newest int, follow bool) iter.Seq2[tidemark.Event, error] {
	return func(yield func(tidemark.Event, error) bool) {
		length, err := s.OutputLength(ctx, job)
		if err != nil {
			yield(tidemark.Event{}, err)
			return
		}
		if length > 0 {
			for e, err := range s.Output(ctx, job, tidemark.Span{To: length, Newest: max(0, newest)}) {
				if !yield(e, err) {
					return
				}
			}
		}
		if !follow {
			return
		}
		for e, err := range s.FollowOutput(ctx, job, length) {
			if !yield(e.Event, err) {
				return
			}
		}
	}
}
