package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
	"github.com/tidemark-sessions/tidemark/workshop/nodes"
)

// Refused clients retry at another node, after a growing pause.
const (
	firstPause = 10 * time.Millisecond
	longPause  = 500 * time.Millisecond
)

// entryTimeout is how long one entry may take to be acknowledged, or to arrive,
// whatever happens: longer than an abandoned lease lasts.
const entryTimeout = 3 * time.Minute

// kindOf summarises why a call was refused.
func kindOf(err error) string {
	var r *nodes.Refusal
	var u *url.Error
	var n *net.OpError
	switch {
	case errors.As(err, &r):
		return fmt.Sprintf("%d %s: %s", r.Status, r.Code, general(r.Detail))
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nobody listens"
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection ended"
	case errors.As(err, &n):
		return "the connection broke: " + n.Err.Error()
	case errors.As(err, &u):
		return u.Err.Error()
	}
	return err.Error()
}

// general removes what differs in each message: ids and numbers.
func general(text string) string {
	out := []rune(text)
	for i, c := range out {
		if c >= '0' && c <= '9' {
			out[i] = '0'
		}
	}
	return string(out[:min(len(out), 120)])
}

// away pauses before a retry, and returns the next pause.
func away(ctx context.Context, pause time.Duration) (time.Duration, error) {
	select {
	case <-ctx.Done():
		return pause, ctx.Err()
	case <-time.After(pause/2 + rand.N(pause)):
		return min(2*pause, longPause), nil
	}
}

// write writes the entries of a session, retrying each until it is
// acknowledged.
func (t *trial) write(ctx context.Context, w int) error {
	s := t.book.sessions[w]
	defer close(s.wrote)
	node := w
	for n := range s.acks {
		if err := t.keepStep(ctx, n); err != nil {
			return err
		}
		text := s.textOf(n)
		e := api.NewEntry{Role: tidemark.User, Content: text, Key: fmt.Sprintf("entry-%d", n)}
		began, pause := time.Now(), firstPause
		for {
			t.book.sent.Add(1)
			seq, err := t.client.Append(ctx, t.nodes[node%len(t.nodes)].URL, s.id, text, e)
			if err == nil {
				s.seqs[n] = seq
				s.acks[n].Store(int64(time.Since(t.book.began)))
				t.acknowledged(t.book.acknowledged.Add(1))
				break
			}
			t.book.refuse("append", err)
			if time.Since(began) > entryTimeout {
				return fmt.Errorf("%s: not acknowledged in %s: %w", text, entryTimeout, err)
			}
			node++
			if pause, err = away(ctx, pause); err != nil {
				return err
			}
		}
		if t.o.pause > 0 {
			if _, err := away(ctx, t.o.pause); err != nil {
				return err
			}
		}
	}
	return nil
}

// follower follows one session.
type follower struct {
	name     string
	seen     seen
	node     int
	connects int
	last     string  // the id of the last event
	arrived  []int64 // when, in nanoseconds since the beginning; 0: not yet
	there    chan struct{}
	done     chan struct{} // closed when it has all
}

// errAll means that a follower has everything.
var errAll = errors.New("nothing more to come")

// follow follows until the follower has all entries of its session.
func (t *trial) follow(ctx context.Context, f *follower) {
	defer close(f.done)
	pause := firstPause
	for ctx.Err() == nil {
		err := t.streams.Follow(ctx, t.nodes[f.node%len(t.nodes)].URL, f.seen.s.id, f.last, func(e nodes.Event) error {
			pause = firstPause
			return t.event(f, e)
		})
		if errors.Is(err, errAll) || ctx.Err() != nil {
			return
		}
		t.book.refuse("stream", err)
		f.node++
		pause, _ = away(ctx, pause)
	}
}

// event handles one message of a stream.
func (t *trial) event(f *follower, e nodes.Event) error {
	switch {
	case e.Name == "" && e.Data == nil:
		if f.connects++; f.connects == 1 {
			close(f.there)
		}
		return nil
	case e.Name == "bye":
		return errors.New("the server says bye")
	case e.Name == "problem":
		var p api.Problem
		json.Unmarshal(e.Data, &p)
		return &nodes.Refusal{Status: p.Status, Code: p.Code, Detail: p.Detail}
	case e.Name != "":
		t.book.fault("%s: the stream says %s: %s", f.name, e.Name, e.Data)
		return errors.New(e.Name)
	}
	var entry api.LogEntry
	if err := json.Unmarshal(e.Data, &entry); err != nil {
		t.book.fault("%s: %v: %.80q", f.name, err, e.Data)
		return err
	}
	number, _, _ := strings.Cut(e.ID, "-")
	seq, err := strconv.ParseInt(number, 10, 64)
	if err != nil || seq != entry.Seq {
		t.book.fault("%s: the event %s has entry %d", f.name, e.ID, entry.Seq)
	}
	f.last = e.ID
	n, wrong := f.seen.take(seq, entry.Text())
	if wrong != "" {
		t.book.fault("%s: %s", f.name, wrong)
	}
	if n >= 0 && f.arrived[n] == 0 {
		f.arrived[n] = int64(time.Since(t.book.began))
	}
	t.heard.Add(1)
	if f.seen.next == len(f.seen.has) {
		return errAll
	}
	return nil
}
