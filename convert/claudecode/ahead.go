package claudecode

import (
	"context"
	"io/fs"
	"iter"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// A transcript is read twice, and the first reading of a long one would keep everybody
// else waiting, on a machine whose other cores have nothing to do. So that one goes on
// beside some shorter transcripts, which come first.

const (
	// longTranscript is how many bytes make a transcript long.
	longTranscript = 8 << 20
	// beforeLong is what part of its bytes those have that come before it: in that time it is
	// read once. It depends on sizes alone, so that the order does, too.
	beforeLong = 8
)

// ahead is a session whose transcript is read for the first time beside others.
type ahead struct {
	source
	left int64 // bytes that come before it

	done chan struct{} // closed when the rest is final
	is   *convert.Session
	err  error
	bad  any // what the reading panicked with
}

// ahead begins to read a long transcript.
func (src source) ahead(ctx context.Context, fsys fs.FS, size int64) *ahead {
	a := &ahead{source: src, left: size / beforeLong, done: make(chan struct{})}
	go func() {
		defer close(a.done)
		defer func() { a.bad = recover() }()
		a.is, a.err = src.session(ctx, fsys)
	}()
	return a
}

// wait waits until nothing is read any more. A nil one does nothing.
func (a *ahead) wait() {
	if a != nil {
		<-a.done
	}
}

// session is that of the source, once it was read.
func (a *ahead) session() (*convert.Session, error) {
	a.wait()
	if a.bad != nil {
		panic(a.bad)
	}
	return a.is, a.err
}

// size is that of the transcript, 0 if nobody can tell.
func (src source) size(fsys fs.FS) int64 {
	info, err := fs.Stat(fsys, src.file)
	if err != nil {
		return 0
	}
	return info.Size()
}

// sessions yields the sessions of all sources, originals before their forks.
func sessions(ctx context.Context, fsys fs.FS, sources []source) iter.Seq2[*convert.Session, error] {
	return func(yield func(*convert.Session, error) bool) {
		var long *ahead
		defer func() { long.wait() }()
		pass := func(s *convert.Session, err error) bool {
			return yield(s, err) && (err == nil || convert.IsSkip(err))
		}
		for i, src := range sources {
			if err := ctx.Err(); err != nil {
				yield(nil, err)
				return
			}
			if src.same {
				if !yield(&convert.Session{Session: tidemark.Session{ForeignID: src.ID}, Unchanged: true}, nil) {
					return
				}
				continue
			}
			size := src.size(fsys)
			isLong := size >= longTranscript && src.growth == nil
			if long != nil && (long.left <= 0 || isLong || src.copied == long.ID) {
				if !pass(long.session()) {
					return
				}
				long = nil
			}
			if isLong && i < len(sources)-1 {
				long = src.ahead(ctx, fsys, size)
				continue
			}
			if long != nil {
				long.left -= size
			}
			if !pass(src.session(ctx, fsys)) {
				return
			}
		}
		if long != nil {
			pass(long.session())
		}
	}
}
