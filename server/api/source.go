package api

import (
	"context"
	"errors"
	"sync"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/store"
)

// How much of what it read a source keeps for followers that are a little
// behind. Followers further behind read by themselves until they have
// caught up.
const (
	sourceEvents = 256
	sourceBytes  = 1 << 20
)

// source reads the log of a session once for all followers with the same
// rights, and keeps the newest events in encoded form: otherwise a thousand
// followers would read and encode each entry a thousand times.
type source struct {
	mu        sync.Mutex
	floor     int64 // events has everything after it
	events    []Event
	bytes     int
	news      chan struct{} // closed when there is more, or err
	err       error         // why it ended
	followers int
	stop      context.CancelFunc
}

// sourceOf identifies a source. All who share one are the same principal, and
// so may read the same.
type sourceOf struct {
	principal string
	session   string
	worker    string
}

// sources are the active ones.
type sources struct {
	mu   sync.Mutex
	open map[sourceOf]*source
}

// join returns the source of a log, which v shows, and a function to leave it
// again.
func (all *sources) join(name sourceOf, v *store.View) (src *source, leave func()) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if src = all.open[name]; src == nil {
		// It outlives the request that started it.
		ctx, stop := context.WithCancel(context.Background())
		src = &source{floor: v.Entries, news: make(chan struct{}), stop: stop}
		if all.open == nil {
			all.open = make(map[sourceOf]*source)
		}
		all.open[name] = src
		go func() {
			src.run(ctx, v)
			all.forget(name, src)
		}()
	}
	src.followers++
	return src, func() {
		all.mu.Lock()
		defer all.mu.Unlock()
		if src.followers--; src.followers == 0 {
			src.stop()
			if all.open[name] == src {
				delete(all.open, name)
			}
		}
	}
}

// forget makes the next follower start a new source.
func (all *sources) forget(name sourceOf, src *source) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.open[name] == src {
		delete(all.open, name)
	}
}

// run reads until it is stopped or fails.
func (src *source) run(ctx context.Context, v *store.View) {
	at := src.floor
	for e, err := range v.Follow(ctx, at) {
		if err != nil && (e.Seq <= at || !errors.Is(err, tidemark.ErrCorrupt)) {
			src.end(err)
			return
		}
		at = e.Seq
		src.add(entryEvent(e, err))
	}
}

func (src *source) add(e Event) {
	e.sent, _ = e.text() // an encoding error is left to each follower
	src.mu.Lock()
	defer src.mu.Unlock()
	src.events = append(src.events, e)
	src.bytes += len(e.sent)
	for len(src.events) > 1 && (len(src.events) > sourceEvents || src.bytes > sourceBytes) {
		src.floor = src.events[0].ID
		src.bytes -= len(src.events[0].sent)
		src.events = src.events[1:]
	}
	close(src.news)
	src.news = make(chan struct{})
}

func (src *source) end(err error) {
	src.mu.Lock()
	defer src.mu.Unlock()
	src.err = err
	close(src.news)
}

// after returns what came after a seq: nothing below floor, up to which the
// follower has to read by itself. Where there is nothing, news says when to
// ask again, or err why there will be none.
func (src *source) after(seq int64) (events []Event, floor int64, news <-chan struct{}, err error) {
	src.mu.Lock()
	defer src.mu.Unlock()
	at := len(src.events)
	for at > 0 && src.events[at-1].ID > seq {
		at--
	}
	return src.events[at:], src.floor, src.news, src.err
}
