package index

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
	"github.com/tidemark-sessions/tidemark/search/segment"
)

// Source says what is indexed.
type Source interface {
	// Touched yields the logs that may have grown since a time, with their
	// lengths, in any order; all of them, when it is zero. A log whose lines
	// were dated back must be among them until its Note is deleted. ErrCorrupt: a
	// log that cannot be told of, which does not keep it from telling of others.
	Touched(ctx context.Context, since time.Time) iter.Seq2[Log, error]

	// Words returns a function that says which words a line of a log has.
	Words(ctx context.Context, log tidemark.Key) (Words, error)

	// Length returns how many lines a log has, 0 when it is gone.
	Length(ctx context.Context, log tidemark.Key) (int64, error)

	// Lines yields a run of lines of a log, as a Backend does.
	Lines(ctx context.Context, log tidemark.Key, span tidemark.Span) iter.Seq2[tidemark.Line, error]
}

// Log is a log with its length.
type Log struct {
	tidemark.Key
	Length int64
	// Note, if it has a version, is a record that says that the log has to be
	// looked at. It is deleted in the commit after which the log is indexed.
	Note tidemark.Precondition
}

// Words calls put with the words of a line and their places, as a segment.Builder
// takes them. A line without words is never found.
type Words func(l tidemark.Line, put func(word []byte, place int))

// Pace says how an index catches up.
type Pace struct {
	// Bytes is about how much memory the words may take before they are written
	// as a segment. The default is DefaultPaceBytes.
	Bytes int
	// Alone takes the lease of the index, so that others wait: for large amounts.
	Alone bool
	// Only are the logs that the caller knows to have grown: while everything was
	// looked at not longer ago than Within, nothing else is. With a negative Within
	// nothing else is in any case.
	Only   []tidemark.Key
	Within time.Duration
	// Stamp has it said in the index that everything was looked at, also when there was
	// nothing to index, if that was said longer ago than this: so that whoever searches
	// has less to look at. 0: it is not said then.
	Stamp time.Duration
	// Progress is called as lines are indexed, with how many they are so far: by one
	// goroutine at a time, but not always by the same.
	Progress func(lines int64)
}

// DefaultPaceBytes makes segments of some 50,000 entries.
const DefaultPaceBytes = 64 << 20

// slack is how much the clocks of those who write may differ.
const slack = time.Minute

// CatchUp indexes what is not indexed yet, and returns how many lines that were.
// ErrHeld: somebody else does it at the moment. What cannot be read of the index
// itself is dropped, and made again.
func (ix *Index) CatchUp(ctx context.Context, src Source, p Pace) (total int64, err error) {
	if p.Bytes == 0 {
		p.Bytes = DefaultPaceBytes
	}
	if p.Progress == nil {
		p.Progress = func(int64) {}
	}
	do := func() error {
		for try := range records.Tries {
			err = ix.catchUp(ctx, src, p, &total)
			if errors.Is(err, tidemark.ErrCorrupt) {
				err = ix.heal(ctx, err)
			}
			if !conflict(err) || records.BackOff(ctx, try) != nil {
				break
			}
		}
		return err
	}
	if p.Alone {
		err = ix.alone(ctx, ix.key, func() error {
			if err := ix.Sweep(ctx); err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
				return err
			}
			return do()
		})
		return total, err
	}
	if err := ix.busy(ctx); err != nil {
		return 0, err
	}
	err = do()
	return total, err
}

// gathering is a catching up under way.
type gathering struct {
	ix    *Index
	v     *snapshot
	p     Pace
	total *int64 // lines that are indexed

	gathered // what is not indexed yet
	epoch    int64
	only     bool // not everything is looked at
	handed   bool // the lines come from who wrote them, see Handed
	listed   int
	crew     *crew // who gathers, where it is much; nil: this one alone does
}

// gathered is what one segment is made of.
type gathered struct {
	b       *segment.Builder
	lines   int64
	covered map[string][]segment.Span
	notes   []tidemark.Precondition
}

// begun returns that nothing was gathered, with the memory of a Builder that was used.
func begun(b *segment.Builder) gathered {
	if b == nil {
		b = segment.NewBuilder()
	}
	b.Reset()
	return gathered{b: b, covered: make(map[string][]segment.Span)}
}

func (ix *Index) catchUp(ctx context.Context, src Source, p Pace, total *int64) error {
	began := ix.k.Clock()
	v, err := ix.look(ctx)
	if errors.Is(err, tidemark.ErrCorrupt) {
		if err = ix.Reset(ctx); err == nil {
			v, err = ix.look(ctx)
		}
	}
	if err != nil {
		return err
	}
	g := &gathering{ix: ix, v: v, p: p, total: total, epoch: v.family.Epoch, gathered: begun(nil)}
	logs := touched(ctx, src, v)
	if g.only = p.Within < 0 || p.Within > 0 && (began.Sub(v.family.Until) < p.Within || len(v.family.Adopting) > 0); g.only {
		logs = lengths(ctx, src, p.Only)
	}
	defer g.dismiss()
	for log, err := range logs {
		if errors.Is(err, tidemark.ErrCorrupt) {
			continue // nothing will make it readable
		}
		if err != nil {
			return err
		}
		g.listed++
		if err := g.log(ctx, src, log); err != nil {
			return err
		}
	}
	if g.only {
		began = time.Time{}
	}
	return g.finish(ctx, began)
}

// lengths yields logs with their lengths.
func lengths(ctx context.Context, src Source, logs []tidemark.Key) iter.Seq2[Log, error] {
	return func(yield func(Log, error) bool) {
		for _, key := range logs {
			n, err := src.Length(ctx, key)
			if errors.Is(err, tidemark.ErrNotFound) || errors.Is(err, tidemark.ErrCorrupt) {
				err = nil
			}
			if !yield(Log{Key: key, Length: n}, err) || err != nil {
				return
			}
		}
	}
}

// touched yields the logs that may have lines that are not in some indexes.
func touched(ctx context.Context, src Source, of ...*snapshot) iter.Seq2[Log, error] {
	return func(yield func(Log, error) bool) {
		var again []tidemark.Key
		var since time.Time
		for i, v := range of {
			for _, name := range v.family.Again {
				again = append(again, LogOf(name))
			}
			if from := v.since(); i == 0 || from.Before(since) {
				since = from
			}
		}
		for log, err := range lengths(ctx, src, again) {
			if !yield(log, err) || err != nil {
				return
			}
		}
		for log, err := range src.Touched(ctx, since) {
			if err == nil && log.Note.Version == 0 && slices.Contains(again, log.Key) {
				continue
			}
			if !yield(log, err) || err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
				return
			}
		}
	}
}

// since is from when on logs have to be looked at; zero: all of them.
func (v *snapshot) since() time.Time {
	if v.family.Until.IsZero() || len(v.family.Adopting) > 0 {
		return time.Time{}
	}
	return v.family.Until.Add(-slack)
}

// log adds the lines of a log that are not indexed, or has them added.
func (g *gathering) log(ctx context.Context, src Source, log Log) error {
	missing, err := g.missing(ctx, log)
	if err != nil {
		return err
	}
	var words Words
	for _, span := range missing {
		if g.crew == nil {
			if words == nil {
				if words, err = src.Words(ctx, log.Key); err != nil {
					return err
				}
			}
			if span.From, err = g.read(ctx, src, log.Key, span, words); err != nil {
				return err
			}
			if span.From > span.To {
				continue
			}
			if err := g.call(ctx, src); err != nil {
				return err
			}
		}
		if err := g.crew.send(log.Key, span); err != nil {
			return err
		}
	}
	if g.crew != nil {
		g.crew.sent[nameOf(log.Key)] = log.Length
	}
	if log.Note.Version > 0 {
		g.notes = append(g.notes, log.Note)
	}
	if len(g.notes) < maxNotes {
		return nil
	}
	if err := g.wait(); err != nil {
		return err
	}
	return g.put(ctx, time.Time{})
}

// maxNotes bounds the notes that are deleted in one commit.
const maxNotes = 2000

// missing returns which lines of a log neither the index nor the segment under way
// has.
func (g *gathering) missing(ctx context.Context, log Log) ([]segment.Span, error) {
	if g.crew != nil {
		return g.crew.missing(ctx, log)
	}
	for {
		spans, err := g.v.missing(ctx, log)
		if err == nil {
			return segment.Less(spans, g.covered[nameOf(log.Key)]), nil
		}
		next, err := g.v.newer(ctx, err)
		if err != nil {
			return nil, err
		}
		g.v = next
	}
}

// missing returns which lines of a log the index does not have.
func (v *snapshot) missing(ctx context.Context, log Log) ([]segment.Span, error) {
	if log.Length < 1 {
		return nil, nil
	}
	left := []segment.Span{{From: 1, To: log.Length}}
	for i := len(v.readers) - 1; i >= 0 && len(left) > 0; i-- {
		spans, err := v.spans(ctx, i, nameOf(log.Key))
		if err != nil {
			return nil, err
		}
		left = segment.Less(left, spans)
	}
	return left, nil
}

// spans returns which lines of a log a segment has.
func (v *snapshot) spans(ctx context.Context, i int, name string) ([]segment.Span, error) {
	r, err := v.reader(ctx, i)
	if err != nil {
		return nil, &broken{v.family.Segments[i], err}
	}
	spans, err := r.Spans(ctx, name)
	if err != nil {
		return nil, &broken{v.family.Segments[i], err}
	}
	return spans, nil
}

// maxLines bounds the lines of a segment that is built at once.
const maxLines = segment.MaxLines / 4

// read adds a run of lines, until it is so much that others had better help, and
// returns where it ended. One that is damaged is passed over, as nothing will make it
// readable.
func (g *gathering) read(ctx context.Context, src Source, log tidemark.Key, span segment.Span, words Words) (next int64, err error) {
	name := nameOf(log)
	next = span.From
	for l, err := range src.Lines(ctx, log, tidemark.Span{From: span.From, To: span.To}) {
		if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
			return next, err
		}
		if l.Seq != next {
			break // it is another log by now
		}
		next++
		if g.add(log, name, l, words, err == nil) {
			if err := g.put(ctx, time.Time{}); err != nil {
				return next, err
			}
		}
		if g.needsHelp() {
			return next, nil
		}
	}
	return span.To + 1, nil
}

// add adds a line, with its words if it could be read, and reports whether what was
// gathered is enough for a segment.
func (g *gathering) add(log tidemark.Key, name string, l tidemark.Line, words Words, readable bool) (enough bool) {
	if enough = g.gathered.add(log, name, l, words, readable, g.p.Bytes); g.lines%progressLines == 0 {
		g.p.Progress(*g.total + g.lines)
	}
	return enough
}

// progressLines is after how many lines progress is told of.
const progressLines = 1000

// add adds a line, and reports whether all takes so many bytes that it is enough.
func (g *gathered) add(log tidemark.Key, name string, l tidemark.Line, words Words, readable bool, bytes int) (enough bool) {
	if readable {
		begun := false
		words(l, func(word []byte, place int) {
			if !begun {
				begun = true
				g.b.Line(LineOf(log, l))
			}
			g.b.Word(word, place)
		})
	}
	g.cover(name, l.Seq)
	g.lines++
	return g.b.Size() >= bytes || g.b.Len() >= maxLines
}

func (g *gathered) cover(name string, seq int64) {
	g.b.Cover(name, segment.Span{From: seq, To: seq})
	spans := g.covered[name]
	if n := len(spans); n > 0 && spans[n-1].To == seq-1 {
		spans[n-1].To = seq
		return
	}
	g.covered[name] = append(spans, segment.Span{From: seq, To: seq})
}

// put makes a segment of what was gathered, and has it count. With a time, all that
// was touched before is indexed then.
func (g *gathering) put(ctx context.Context, until time.Time) error {
	if err := g.write(ctx, until, &g.gathered); err != nil {
		return err
	}
	*g.total += g.lines
	g.gathered = begun(g.b)
	return nil
}

// write makes a segment of something, and has it count. It neither looks at what is
// gathered nor at what is counted meanwhile.
func (g *gathering) write(ctx context.Context, until time.Time, of *gathered) (err error) {
	var w *writing
	if len(of.covered) > 0 {
		w = g.v.newSegment(g.epoch)
		w.lines = of.b.Len()
		if err := of.b.Write(w.emit(ctx)); err != nil {
			w.abandon(ctx)
			if g.handed && errors.Is(err, tidemark.ErrInvalid) {
				// Lines are handed over in their order: one that came twice is that of a
				// log that was dropped and begun again meanwhile.
				return fmt.Errorf("%w: %w", tidemark.ErrConflict, err)
			}
			return err
		}
	}
	first := g.v.version == 0
	if g.handed {
		g.v, err = g.settleHanded(ctx, g.v, w, of)
	} else {
		g.v, err = g.ix.settle(ctx, g.v, w, g.after(ctx, until, of))
	}
	if err != nil {
		return err
	}
	if first && g.v.version == 1 { // nobody took anything out of the index that this began
		g.epoch = g.v.family.Epoch
	}
	return nil
}

// after says what becomes of the family: it does not change when something was
// taken out since, or somebody else indexed the same lines, unless this is so
// much work that it had better be done twice.
func (g *gathering) after(ctx context.Context, until time.Time, of *gathered) change {
	old := g.v
	return func(v *snapshot) (family, []kept, []tidemark.Precondition, error) {
		next := v.family
		if next.Epoch != g.epoch {
			return next, nil, nil, errLost
		}
		if v.version != old.version && !g.p.Alone {
			twice, err := of.twice(ctx, old, v)
			if err != nil || twice {
				return next, nil, nil, errors.Join(err, errLost)
			}
		}
		if g.p.Alone && !until.IsZero() {
			next.Adopting = slices.DeleteFunc(slices.Clone(next.Adopting), func(a adoption) bool { return until.Sub(a.Since) > adoptionAge })
		}
		if until.After(next.Until) && len(next.Adopting) == 0 {
			next.Until = until
		}
		if !until.IsZero() {
			next.Again = slices.DeleteFunc(slices.Clone(next.Again), func(name string) bool { return slices.Contains(old.family.Again, name) })
		}
		return next, nil, of.notes, nil
	}
}

// twice reports whether segments that came since have lines that were gathered.
func (g *gathered) twice(ctx context.Context, old, v *snapshot) (bool, error) {
	for i, s := range v.family.Segments {
		if old.family.has(s.ID) {
			continue
		}
		for name, spans := range g.covered {
			theirs, err := v.spans(ctx, i, name)
			if err != nil {
				return false, err
			}
			if !slices.Equal(segment.Less(spans, theirs), spans) {
				return true, nil
			}
		}
	}
	return false, nil
}

// manyListed is how many logs are looked at in vain before it is worth a commit to
// say that they are indexed.
const manyListed = 100

// finish writes what is left.
func (g *gathering) finish(ctx context.Context, began time.Time) error {
	if g.crew != nil {
		if err := g.wait(); err != nil {
			return err
		}
		err := g.put(ctx, began)
		g.p.Progress(*g.total)
		return err
	}
	stale := g.p.Stamp > 0 && !g.only && began.Sub(g.v.family.Until) >= g.p.Stamp && (g.listed > 0 || g.ix.o.Owned)
	idle := !stale && len(g.covered) == 0 && len(g.notes) == 0 && (g.only || len(g.v.family.Again)+len(g.v.family.Adopting) == 0)
	if idle && (g.only || g.listed == 0 || g.listed < manyListed && !g.v.family.Until.IsZero()) {
		return nil
	}
	err := g.put(ctx, began)
	g.p.Progress(*g.total)
	return err
}
