package fleet

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/vault"
)

// The output of a job is the log of its record, and so is the log of an agent.

// Output yields the output of a job.
func (s *Store) Output(ctx context.Context, job string, spans ...tidemark.Span) iter.Seq2[tidemark.Event, error] {
	return s.events(ctx, jobKey(job), spans)
}

// AgentLog yields the log of an agent.
func (s *Store) AgentLog(ctx context.Context, agent string, spans ...tidemark.Span) iter.Seq2[tidemark.Event, error] {
	return s.events(ctx, agentKey(agent), spans)
}

// AppendOutput appends to the output of a job, which must have from events by now:
// ErrConflict otherwise.
func (s *Store) AppendOutput(ctx context.Context, job string, from int64, events ...tidemark.Event) error {
	return s.appendEvents(ctx, jobKey(job), from, events)
}

// AppendAgentLog is AppendOutput for the log of an agent.
func (s *Store) AppendAgentLog(ctx context.Context, agent string, from int64, events ...tidemark.Event) error {
	return s.appendEvents(ctx, agentKey(agent), from, events)
}

// OutputLength returns the number of events in the output of a job.
func (s *Store) OutputLength(ctx context.Context, job string) (int64, error) {
	return s.length(ctx, jobKey(job))
}

// AgentLogLength returns the number of events in the log of an agent.
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

// eventLines returns events, with their secrets masked, as the lines that follow
// line from of a log.
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

// Numbered is an event with its number in its log.
type Numbered struct {
	Seq int64 `json:"seq"`
	tidemark.Event
}

// NumberedOutput is Output with the number of each event.
func (s *Store) NumberedOutput(ctx context.Context, job string, spans ...tidemark.Span) iter.Seq2[Numbered, error] {
	return s.numbered(ctx, jobKey(job), spans)
}

// NumberedAgentLog is AgentLog with the number of each event.
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

// endPollInterval is how often FollowOutput checks whether the job has ended: the
// end adds no line that would wake it.
const endPollInterval = 250 * time.Millisecond

// FollowOutput yields the output of a job after the event numbered after, and
// what follows as it arrives, until the job has ended or nobody runs it any more.
// It yields a damaged event as a *tidemark.Damage, and continues.
func (s *Store) FollowOutput(ctx context.Context, job string, after int64) iter.Seq2[Numbered, error] {
	return func(yield func(Numbered, error) bool) {
		for {
			// The job is read before its output: if it has ended, its output is complete.
			over, err := s.outputEnded(ctx, job)
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
			look, stop := context.WithTimeout(ctx, endPollInterval)
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

// outputEnded reports whether the output of a job is complete: the job has ended,
// or its status is running but nobody runs it, because its owner died or it was
// imported.
func (s *Store) outputEnded(ctx context.Context, id string) (bool, error) {
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
	// If the job ended between reading it and its lease, the next call reports that.
	j, err = s.Job(ctx, id)
	return err == nil && j.Status == tidemark.JobRunning, err
}

// Tail yields the newest events of a job's output, all if newest is 0, and with
// follow what comes after them until the job ends, each event once. A damaged
// event is ErrCorrupt, and Tail continues after it.
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
