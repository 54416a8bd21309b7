package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet"
)

// audit checks everything that a stopped fleet left.
func (c *crowd) audit(ctx context.Context) error {
	marks, err := readMarks(c.marks)
	if err != nil {
		return err
	}
	jobs := make(map[string]tidemark.Job)
	for j, err := range c.fleet.Jobs(ctx, fleet.JobFilter{}) {
		if err != nil {
			c.t.fault(&c.t.book.unreadable, "%s: %v", c.name, err)
			continue
		}
		jobs[j.ID] = j
	}
	c.t.jobs.Add(int64(len(jobs)))
	running, err := c.fleet.Running(ctx, "")
	if err != nil {
		return err
	}
	if len(running) > 0 {
		c.t.fault(&c.t.book.aid, "%s: %q have slots, and nobody is there", c.name, running)
	}
	printed := c.ranOnce(marks, jobs)
	for _, j := range jobs {
		switch j.Status {
		case tidemark.JobRunning:
			c.t.fault(&c.t.book.aid, "%s: %s runs, and nobody is there", c.name, j.ID)
		case tidemark.JobInterrupted:
			c.t.interrupted.Add(1)
		}
		if err := c.output(ctx, j, printed); err != nil {
			return err
		}
	}
	if err := c.accounts(ctx, jobs); err != nil {
		return err
	}
	a, err := c.ask("", "verify")
	if err == nil && a.code != 0 {
		c.t.fault(&c.t.book.unreadable, "%s: verify ends with %d: %s%s", c.name, a.code, a.out, a.err)
	}
	return err
}

// ranOnce compares what the agents recorded with the jobs, and returns how
// many lines each finished job printed.
func (c *crowd) ranOnce(marks []mark, jobs map[string]tidemark.Job) map[string]int {
	begun, printed := make(map[string]int), make(map[string]int)
	for _, m := range marks {
		switch m.what {
		case "begin":
			if begun[m.job]++; begun[m.job] > 1 {
				c.t.fault(&c.t.book.doubled, "%s: %s ran %d times", c.name, m.job, begun[m.job])
			}
			if _, ok := jobs[m.job]; !ok {
				c.t.fault(&c.t.book.lost, "%s: %s ran and is not kept", c.name, m.job)
			}
		case "end":
			printed[m.job] = m.pid
		case "over":
			c.t.fault(&c.t.book.aid, "%s: %s of %s met more than are allowed: %d", c.name, m.job, m.name, m.pid)
		}
		if (m.what == "begin" || m.what == "child") && m.alive() {
			c.t.fault(&c.t.book.aid, "%s: process %d of %s outlives the fleet", c.name, m.pid, m.job)
		}
	}
	for id, j := range jobs {
		if _, ended := printed[id]; j.Status == tidemark.JobCompleted && !ended {
			c.t.fault(&c.t.book.doubled, "%s: %s is completed, and its agent did not come to its end", c.name, id)
		}
	}
	return printed
}

// output checks whether the output of a job is complete and in order.
func (c *crowd) output(ctx context.Context, j tidemark.Job, printed map[string]int) error {
	n := 0
	for e, err := range c.fleet.Output(ctx, j.ID) {
		if err != nil {
			c.t.fault(&c.t.book.unreadable, "%s: %s: %v", c.name, j.ID, err)
			continue
		}
		if !strings.HasPrefix(e.Content, "line ") {
			continue
		}
		if n++; e.Content != agentLine(j.ID, n) {
			c.t.fault(&c.t.book.lost, "%s: line %d of %s is %.60q", c.name, n, j.ID, e.Content)
			return nil
		}
	}
	if want := printed[j.ID]; j.Status == tidemark.JobCompleted && n != want {
		c.t.fault(&c.t.book.lost, "%s: %s printed %d lines, and %d are kept", c.name, j.ID, want, n)
	}
	c.t.book.heard(func() { c.t.book.acknowledged += n })
	return nil
}

// accounts requires one answer for each instant of a schedule up to its next.
func (c *crowd) accounts(ctx context.Context, jobs map[string]tidemark.Job) error {
	for s, err := range c.fleet.Schedules(ctx, "") {
		if err != nil {
			return err
		}
		answers := make(map[int64]int)
		for _, j := range jobs {
			if j.Agent == s.Agent && j.Schedule == s.Name && !j.Occurrence.IsZero() && j.Attempt <= 1 {
				answers[j.Occurrence.UnixMilli()]++
			}
		}
		every, err := time.ParseDuration(s.Every)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		skips, err := c.fleet.Skips(ctx, s.Agent, s.Name, 1<<30)
		if err != nil {
			return err
		}
		for _, skip := range skips {
			for at := skip.Instant; !at.After(skip.Until) || at.Equal(skip.Instant); at = at.Add(every) {
				answers[at.UnixMilli()]++
			}
		}
		c.t.occurrences.Add(int64(len(answers)))
		for at, n := range answers {
			if n > 1 {
				c.t.fault(&c.t.book.doubled, "%s: %s has %d answers for %s", c.name, s.Agent, n, time.UnixMilli(at).UTC())
			}
		}
		if s.From == "completion" {
			continue // its instants depend on the ends of its runs
		}
		c.grid(s, every, answers)
	}
	return nil
}

// grid walks over the instants of an interval.
func (c *crowd) grid(s tidemark.Schedule, every time.Duration, answers map[int64]int) {
	settled := s.NextRunAt
	if s.SettledAt.After(settled) {
		settled = s.SettledAt.Add(time.Millisecond)
	}
	first := s.CreatedAt.Add(s.NextRunAt.Sub(s.CreatedAt) % every) // wherever its splay puts it
	if !first.After(s.CreatedAt) {
		first = first.Add(every)
	}
	for at := first; at.Before(settled); at = at.Add(every) {
		if answers[at.UnixMilli()] == 0 && !at.Equal(s.NextRunAt) {
			c.t.fault(&c.t.book.lost, "%s: nobody accounts for %s of %s; its next is %s", c.name, at, s.Agent, s.NextRunAt)
		}
		delete(answers, at.UnixMilli())
	}
	for at := range answers {
		c.t.fault(&c.t.book.doubled, "%s: %s was taken for %s, which is none or not yet due", c.name, s.Agent, time.UnixMilli(at).UTC())
	}
}
