package cold

import (
	"container/list"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/hint"
)

// Place is where segments are kept: blobs by name. Errors other than ErrNotFound and
// ErrExists mean that the place cannot be used now.
type Place interface {
	Get(ctx context.Context, name string) ([]byte, error)
	// PutNew makes a blob, which is durable when it returns nil. ErrExists: another
	// one is there.
	PutNew(ctx context.Context, name string, data []byte) error
	// List yields the names that begin with a prefix, which ends with a slash.
	List(ctx context.Context, prefix string) iter.Seq2[string, error]
	// Delete removes a blob. A missing one is no error.
	Delete(ctx context.Context, name string) error
	Close() error
}

// Places are the places that are open, and the segments that were read of late.
// Backends of several owners may share them.
type Places struct {
	open func(ctx context.Context, url string) (Place, error)
	now  func() time.Time

	mu    sync.Mutex
	at    map[string]Place
	kept  map[string]*list.Element // by the SHA-256 of the segment
	queue *list.List               // of *keptSegment, the one used last in front
	bytes int
	away  map[string]silence // of places that did not answer a moment ago

	counts   counts
	unpacker unpacker
}

// silence is that of a place that did not answer.
type silence struct {
	until time.Time
	err   error
}

const (
	// readingFor is how long a place may take to answer somebody who reads.
	readingFor = 30 * time.Second
	// silentFor is how long nobody else waits for a place that did not answer.
	silentFor = 5 * time.Second
)

type keptSegment struct {
	sum   string
	lines []tidemark.Line
	bytes int
}

// keptBytes bounds the segments that are kept in memory, as they are when unpacked.
const keptBytes = 32 << 20

// NewPlaces returns places that are opened by their URL when they are needed.
func NewPlaces(open func(ctx context.Context, url string) (Place, error)) *Places {
	return &Places{open: open, now: time.Now, at: make(map[string]Place), kept: make(map[string]*list.Element), queue: list.New(), away: make(map[string]silence)}
}

// Close closes the places that are open.
func (p *Places) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var err error
	for url, place := range p.at {
		err = errors.Join(err, place.Close())
		delete(p.at, url)
	}
	return err
}

// place returns the place at a URL. An error answers to ErrStorage: it is not about
// something that is missing there.
func (p *Places) place(ctx context.Context, url string) (Place, error) {
	p.mu.Lock()
	place := p.at[url]
	p.mu.Unlock()
	if place != nil {
		return place, nil
	}
	place, err := p.open(ctx, url)
	if err != nil {
		return nil, unreachable(url, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if other := p.at[url]; other != nil {
		place.Close()
		return other, nil
	}
	p.at[url] = place
	return place, nil
}

// unreachable says that a place cannot be used now.
func unreachable(url string, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	away := error(&awayError{url, err})
	if way := hint.Of(err); way != "" {
		away = hint.With(away, "%s", way)
	}
	return away
}

// awayError says that a place does not answer. What it wraps may say that there is no
// such folder, which is no answer to what was asked for.
type awayError struct {
	url string
	err error
}

func (e *awayError) Error() string { return "the cold place " + e.url + ": " + e.err.Error() }
func (e *awayError) Is(target error) bool {
	return target == tidemark.ErrStorage || target == tidemark.ErrColdAway
}

// goneError says that a segment is not what was put there.
type goneError struct{ what string }

func (e *goneError) Error() string { return e.what }

// fetch reads a segment from its place. One that did not answer is not asked again for
// a moment, so that those who read do not all wait for it.
func (p *Places) fetch(ctx context.Context, s Segment) ([]byte, error) {
	p.mu.Lock()
	silent := p.away[s.Place]
	p.mu.Unlock()
	if p.now().Before(silent.until) {
		return nil, silent.err
	}
	within, stop := context.WithTimeout(ctx, readingFor)
	defer stop()
	place, err := p.place(within, s.Place)
	var data []byte
	if err == nil {
		data, err = place.Get(within, s.Name)
	}
	switch {
	case err == nil:
		return data, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, tidemark.ErrNotFound) && !errors.Is(err, tidemark.ErrColdAway):
		return nil, &goneError{"its segment is missing"}
	case within.Err() != nil:
		err = &awayError{s.Place, fmt.Errorf("no answer within %s", readingFor)}
	case !errors.Is(err, tidemark.ErrColdAway):
		err = unreachable(s.Place, err)
	}
	p.mu.Lock()
	p.away[s.Place] = silence{p.now().Add(silentFor), err}
	p.mu.Unlock()
	return nil, err
}

// unpack takes a segment apart that was fetched.
func (p *Places) unpack(log tidemark.Key, s Segment, data []byte) ([]tidemark.Line, error) {
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != s.SHA256 {
		return nil, &goneError{"its segment is not the one that was put there"}
	}
	lines, size, err := p.unpacker.decode(data, log)
	if err == nil && (lines[0].Seq != s.First || lines[len(lines)-1].Seq != s.Last) {
		err = errors.New("its segment has other lines")
	}
	if err != nil {
		return nil, &goneError{err.Error()}
	}
	p.remember(&keptSegment{s.SHA256, lines, size})
	return lines, nil
}

func (p *Places) remembered(sum string) []tidemark.Line {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.kept[sum]
	if e == nil {
		return nil
	}
	p.queue.MoveToFront(e)
	return e.Value.(*keptSegment).lines
}

func (p *Places) remember(s *keptSegment) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.kept[s.sum] != nil || s.bytes > keptBytes {
		return
	}
	p.kept[s.sum] = p.queue.PushFront(s)
	for p.bytes += s.bytes; p.bytes > keptBytes; {
		p.drop(p.queue.Back())
	}
}

func (p *Places) drop(e *list.Element) {
	old := p.queue.Remove(e).(*keptSegment)
	delete(p.kept, old.sum)
	p.bytes -= old.bytes
}

// forget drops a segment that is to be nowhere any more.
func (p *Places) forget(sum string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.kept[sum]; e != nil {
		p.drop(e)
	}
}
