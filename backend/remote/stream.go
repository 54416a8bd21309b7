package remote

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
)

// reading is a long response. When it is cut off, the rest of it is requested
// again.
type reading[T any] struct {
	b    *Backend
	name string

	// rest returns the request for what remains, false when nothing does.
	rest func() (any, bool)
	// take returns what an element stands for. An error ends the reading.
	take func(api.Element) (found[T], error)
	// over is called when the last request was answered to its end.
	over func()
}

// found is one element of a long answer.
type found[T any] struct {
	v      T
	damage error // it is there and cannot be read
	again  bool  // it was yielded before
}

// run yields everything.
func (r *reading[T]) run(ctx context.Context, yield func(T, error) bool) {
	var none T
	within, stop, err := r.b.use(ctx)
	if err != nil {
		yield(none, err)
		return
	}
	defer stop()
	for t := r.b.tries(); ; {
		q, more := r.rest()
		if !more {
			return
		}
		c, err := question(r.name, q)
		if err == nil {
			err = r.request(within, c, t, yield)
		}
		if errors.Is(err, errStopped) {
			return
		}
		if err != nil {
			err = t.again(within, err)
		}
		if err != nil {
			yield(none, r.b.ended(ctx, err))
			return
		}
	}
}

// errStopped says that the reader wants no more.
var errStopped = errors.New("remote: stopped")

// request makes one request and yields its response.
func (r *reading[T]) request(ctx context.Context, c call, t *tries, yield func(T, error) bool) error {
	a, err := r.b.do(ctx, c)
	if err != nil {
		return err
	}
	defer a.close()
	in := api.NewReader(a.body, api.MaxItemBytes)
	for {
		var item api.Element
		if err := in.Next(&item); errors.Is(err, tidemark.ErrInvalid) {
			return r.b.badAnswer("%s: %w", r.name, err)
		} else if errors.Is(err, io.ErrUnexpectedEOF) {
			return &cut{fmt.Errorf("%s: the answer was cut off", r.b.base), true}
		} else if err != nil {
			return r.b.broken(err, true)
		}
		if item.End {
			if item.Problem != nil {
				return item.Problem.Clean().Err()
			}
			r.over()
			return nil
		}
		f, err := r.take(item)
		if err != nil {
			return err
		}
		if f.again {
			continue
		}
		t.progress()
		if item.Problem != nil {
			if f.damage = item.Problem.Clean().Err(); !errors.Is(f.damage, tidemark.ErrCorrupt) {
				return r.b.badAnswer("%s: an element with a problem that is no damage", r.name)
			}
		}
		if !yield(f.v, f.damage) {
			return errStopped
		}
	}
}

// maxSeen bounds what is remembered of a response in order to skip it when it
// comes again.
const maxSeen = 1 << 20

// seen remembers the elements of a response that has no order to continue in.
type seen[K comparable] map[K]struct{}

// again reports whether k was there before.
func (s seen[K]) again(k K) (bool, error) {
	if _, known := s[k]; known {
		return true, nil
	}
	if len(s) >= maxSeen {
		return false, tidemark.Unsupportedf("an answer of more than %d elements; ask for fewer", maxSeen)
	}
	s[k] = struct{}{}
	return false, nil
}
