package transfer

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/store"
)

// Feed appends entries, one JSON object per line, to a session as they come.
type Feed struct {
	Writer *store.Writer
	Worker string                // the log of this worker; "": of the session
	Kept   func(seq int64) error // after each line that is durable
	Skip   func(error)           // why a line cannot be kept

	line int
}

// Run appends the lines of r until r ends, ctx ends, or the session is handed
// over to somebody else, which is ErrHeld.
func (f *Feed) Run(ctx context.Context, r io.Reader) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() {
		err := f.Writer.KeepAlive(ctx, func(ask store.HandoverRequest) {
			stop(hint.With(fmt.Errorf("%w: handed over to %s", tidemark.ErrHeld, ask.From), "go on later with: tidemark append %.8s", f.Writer.ID()))
		})
		if err != nil {
			stop(err)
		}
	}()
	lines := make(chan Line)
	go sendLines(ctx, r, lines)
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case in, more := <-lines:
			if !more {
				return nil
			}
			if err := f.take(ctx, in); err != nil {
				return err
			}
		}
	}
}

// take keeps one line, or says why it cannot be kept.
func (f *Feed) take(ctx context.Context, in Line) error {
	f.line++
	if in.Err != nil && !errors.Is(in.Err, tidemark.ErrInvalid) {
		return in.Err
	}
	if in.Err == nil && len(bytes.TrimSpace(in.Text)) == 0 {
		return nil
	}
	var e tidemark.Entry
	err := in.Err
	if err == nil {
		e, err = ParseEntry(in.Text)
	}
	var seqs []int64
	switch {
	case err != nil:
	case f.Worker == "":
		seqs, err = f.Writer.Append(ctx, e)
	default:
		seqs, err = f.Writer.AppendTo(ctx, f.Worker, e)
	}
	if errors.Is(err, tidemark.ErrInvalid) {
		f.Skip(fmt.Errorf("line %d: %w: skipped", f.line, err))
		return nil
	}
	if err != nil {
		return err
	}
	return f.Kept(seqs[0])
}

// sendLines sends the lines of r until it ends. A line over maxLineBytes is
// skipped without being held in memory.
func sendLines(ctx context.Context, r io.Reader, lines chan<- Line) {
	defer close(lines)
	buf := bufio.NewReaderSize(r, 1<<16)
	for {
		in, last := ReadLine(buf)
		if len(in.Text) == 0 && in.Err == nil && last {
			return
		}
		select {
		case lines <- in:
		case <-ctx.Done():
			return
		}
		if last {
			return
		}
	}
}
