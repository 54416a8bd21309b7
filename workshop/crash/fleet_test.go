package main

import (
	"strings"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

func TestNoOccurrenceAndNoJobIsLostBySIGKILL(t *testing.T) {
	for _, b := range backends {
		t.Run(b, func(t *testing.T) { trial(t, "fleet", "-backend", b, "-n", "8") })
	}
}

func TestTheFleetTrialSeesWhatIsLostOrDoubled(t *testing.T) {
	var said []string
	c := &crowd{name: "fleet", t: &fleeting{book: &book{say: func(format string, args ...any) { said = append(said, format) }}}}
	begin := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	at := func(n int) int64 { return begin.Add(time.Duration(n) * time.Second).UnixMilli() }
	s := tidemark.Schedule{Agent: "a", CreatedAt: begin, NextRunAt: begin.Add(4 * time.Second)}
	c.grid(s, time.Second, map[int64]int{at(1): 1, at(3): 1, at(4): 1})
	if b := c.t.book; b.lost != 1 || b.doubled != 1 {
		t.Errorf("%d lost, %d doubled: %q", b.lost, b.doubled, said)
	}
	c.t.book.lost, c.t.book.doubled = 0, 0
	printed := c.ranOnce([]mark{{what: "begin", job: "j"}, {what: "begin", job: "j"}, {what: "end", job: "j", pid: 3}, {what: "over", job: "j"}, {what: "begin", job: "k"}},
		map[string]tidemark.Job{"j": {ID: "j", Status: tidemark.JobCompleted}})
	if b := c.t.book; b.doubled != 1 || b.lost != 1 || b.aid != 1 || printed["j"] != 3 {
		t.Errorf("%d lost, %d doubled, %d over, %v: %q", b.lost, b.doubled, b.aid, printed, strings.Join(said, "\n"))
	}
}
