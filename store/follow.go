package store

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"iter"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// draftLook is how often Follow looks for another draft: nothing tells of one.
const draftLook = time.Second

// Follow yields the entries after seq as they are written, by any process, until
// ctx ends; it then yields the error of ctx. ErrWentBack: entries that were
// yielded, or seq itself, are no longer there. A View with its draft also yields
// the entries of the draft, again when they change, and once more when they are
// final.
func (v *View) Follow(ctx context.Context, seq int64) iter.Seq2[tidemark.Entry, error] {
	return func(yield func(tidemark.Entry, error) bool) {
		f := &following{v: v, seq: seq}
		if v.showsDraft && v.Tool != "" {
			f.drafts = newDraftFollowing(v, seq)
			f.seq = min(seq, f.drafts.end)
			plain := *v
			plain.draft = nil
			f.v = &plain
		}
		for f.news(ctx, yield) {
			if err := f.wait(ctx); err != nil {
				yield(tidemark.Entry{}, err)
				return
			}
		}
	}
}

// following is where a Follow is.
type following struct {
	v      *View
	seq    int64  // the newest entry that was yielded
	stamp  string // its Stamp, "" as long as that is not known
	drafts *draftFollowing
}

// Stamp tells an entry from every other one that may have the same seq: after a
// failover that lost the end of a log, the next entries get the numbers of those
// that were lost. It stays when an entry is masked.
func Stamp(e tidemark.Entry) string {
	return fmt.Sprintf("%08x", crc32.ChecksumIEEE(fmt.Appendf(nil, "%d %s %s", e.At.UnixMicro(), e.Kind, e.Key)))
}

// news yields what is new, and reports whether to go on.
func (f *following) news(ctx context.Context, yield func(tidemark.Entry, error) bool) bool {
	segments, err := f.v.trail(ctx)
	if err != nil {
		yield(tidemark.Entry{}, err)
		return false
	}
	// The last one is read again: the log may have gone back meanwhile.
	again := f.seq > 0
	for e, err := range f.v.entries(ctx, segments, max(1, f.seq), 1<<62) {
		switch {
		case again && e.Seq == f.seq && errors.Is(err, tidemark.ErrCorrupt):
			again = false
			continue
		case again && e.Seq == f.seq && err == nil && (f.stamp == "" || f.stamp == Stamp(e)):
			again, f.stamp = false, Stamp(e)
			continue
		case again && f.stamp != "" && e.Seq >= f.seq && (err == nil || errors.Is(err, tidemark.ErrCorrupt)):
			yield(tidemark.Entry{}, tidemark.ErrWentBack)
			return false
		}
		// Damage without an entry of its own is that of the whole log:
		// nothing can be read after it.
		if !yield(e, err) || err != nil && (e.Seq <= f.seq || !errors.Is(err, tidemark.ErrCorrupt)) {
			return false
		}
		again, f.seq, f.stamp = false, e.Seq, ""
		if err == nil {
			f.stamp = Stamp(e)
		}
	}
	if again && f.stamp != "" {
		yield(tidemark.Entry{}, tidemark.ErrWentBack)
		return false
	}
	if f.drafts == nil {
		return true
	}
	entries, err := f.v.Draft(ctx)
	if err != nil {
		yield(tidemark.Entry{}, err)
		return false
	}
	for _, e := range entries {
		if !structural(e) && f.drafts.isNews(e) && !yield(e, nil) {
			return false
		}
	}
	return true
}

// wait waits until there may be news.
func (f *following) wait(ctx context.Context) error {
	within, cancel := ctx, context.CancelFunc(func() {})
	if f.drafts != nil {
		within, cancel = context.WithTimeout(ctx, draftLook)
	}
	defer cancel()
	err := f.v.s.k.Wait(within, f.v.log(), f.seq-f.v.offset())
	if f.drafts != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}

// draftFollowing is what was yielded of drafts.
type draftFollowing struct {
	end   int64            // the newest entry that is final
	shown map[int64]string // the body of each, by seq
}

// newDraftFollowing returns what somebody has seen who read v up to seq.
func newDraftFollowing(v *View, seq int64) *draftFollowing {
	d := &draftFollowing{end: v.Entries, shown: make(map[int64]string)}
	if v.draft == nil {
		return d
	}
	d.end = v.draft.after + v.offset()
	for _, l := range v.draft.lines {
		if l.Seq += v.offset(); l.Seq <= seq {
			d.shown[l.Seq] = l.Kind + string(l.Body)
		}
	}
	return d
}

// isNews reports whether an entry of a draft was not yielded as it is now.
func (d *draftFollowing) isNews(e tidemark.Entry) bool {
	l, err := e.Line()
	text := l.Kind + string(l.Body)
	if err != nil || d.shown[e.Seq] == text {
		return false
	}
	d.shown[e.Seq] = text
	return true
}
