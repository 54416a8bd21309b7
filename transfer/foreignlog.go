package transfer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"iter"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/store"
)

// log imports the entries of the session, or of one of its workers.
func (g *sessionImport) log(ctx context.Context, worker string, entries iter.Seq2[convert.Entry, error]) error {
	if entries == nil {
		return nil
	}
	l := &logImport{sessionImport: g, worker: worker, seqs: make(map[shortSum]int64), kept: make(map[shortSum]keptEntry)}
	if err := l.look(ctx); err != nil {
		return err
	}
	for e, err := range entries {
		if convert.IsSkip(err) {
			g.skip(err)
			continue
		}
		if err != nil {
			return err
		}
		if err := l.add(ctx, e); err != nil {
			return err
		}
	}
	if err := l.flush(ctx); err != nil {
		return err
	}
	if worker != "" {
		return nil
	}
	if g.from.Fork != nil && g.here == nil && !g.DryRun {
		// A fork in which nothing was said yet is still a fork.
		if err := l.open(ctx); err != nil {
			return err
		}
	}
	return l.finish(ctx)
}

// keptEntry is an existing entry.
type keptEntry struct {
	seq int64
	sum shortSum
}

// shortSum stands for a text, so that a session of a million entries does not
// keep all their names in memory.
type shortSum [16]byte

func shortSumOf(text string) shortSum {
	sum := sha256.Sum256([]byte(text))
	return shortSum(sum[:16])
}

// logImport is the import of the log of a session or a worker.
type logImport struct {
	*sessionImport
	worker  string
	kept    map[shortSum]keptEntry // by key
	seqs    map[shortSum]int64     // by the tool's id
	last    int64                  // the seq of the previous entry
	end     int64                  // the seq of the newest one, existing or pending
	pending []tidemark.Entry
	size    int
}

// look reads the existing entries, by key.
func (l *logImport) look(ctx context.Context) error {
	if l.here == nil {
		return nil
	}
	v := l.here
	if l.worker != "" {
		var err error
		v, err = v.Worker(ctx, l.worker)
		if errors.Is(err, tidemark.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	for e, err := range v.Unmasked().Log(ctx) {
		if errors.Is(err, tidemark.ErrCorrupt) {
			continue
		}
		if err != nil {
			return err
		}
		l.end = e.Seq
		if e.Key != "" {
			l.kept[shortSumOf(e.Key)] = keptEntry{e.Seq, sumOf(e)}
		}
	}
	return nil
}

// sumOf is a hash of an entry's content. Its cost may become known later, and
// does not make it another entry.
func sumOf(e tidemark.Entry) shortSum {
	if e.Usage != nil && e.Usage.CostUSD != 0 {
		u := *e.Usage
		u.CostUSD = 0
		e.Usage = &u
	}
	e.Seq, e.Position, e.Key = 0, tidemark.Position{}, ""
	l, err := e.Line()
	if err != nil {
		return shortSum{}
	}
	sum := sha256.Sum256(append([]byte(l.Kind+"\x00"), l.Body...))
	return shortSum(sum[:16])
}

// keyOf turns the tool's id for an entry into a key.
func (l *logImport) keyOf(id string) string {
	key := l.tool.Name + ":" + id
	if len(key) > tidemark.MaxIDBytes {
		sum := sha256.Sum256([]byte(id))
		key = l.tool.Name + ":" + hex.EncodeToString(sum[:])
	}
	return key
}

// existing returns the entry that is there under a key.
func (l *logImport) existing(key string) (have keptEntry, ok bool) {
	if len(l.kept) == 0 {
		return have, false
	}
	have, ok = l.kept[shortSumOf(key)]
	return have, ok
}

// add handles one entry: it exists, it is new, or it was changed.
func (l *logImport) add(ctx context.Context, e convert.Entry) error {
	id := shortSumOf(e.ID)
	if _, again := l.seqs[id]; again && e.ID != "" {
		return nil
	}
	kept := e.Entry
	if kept.Kind == "" {
		kept.Kind = tidemark.KindMessage
	}
	kept.At = kept.At.UTC().Truncate(time.Microsecond)
	if e.ID != "" {
		kept.Key = l.keyOf(e.ID)
		have, ok := l.existing(kept.Key)
		if ok {
			// Only what is there is compared: a sum costs as much as the line.
			if sum := sumOf(kept); have.sum != sum && have.sum != sumOf(l.s.Mask(kept)) {
				kept.Key = l.keyOf(e.ID + "~" + hex.EncodeToString(sum[:4]))
				have, ok = l.existing(kept.Key)
			}
		}
		if ok {
			l.seqs[id], l.last = have.seq, have.seq
			return nil
		}
	}
	l.result.Entries++
	if e.Draft {
		l.result.Drafts++
	}
	if l.result.State == "known" {
		l.result.State = "grown"
	}
	if l.result.Title == "" && l.worker == "" {
		l.result.Title = promptOf(kept)
	}
	if l.DryRun {
		l.seqs[id] = 0
		return nil
	}
	if l.here != nil || l.from.Fork != nil {
		if err := l.open(ctx); err != nil {
			return err
		}
	}
	kept.Parent = l.parent(e)
	l.pending = append(l.pending, kept)
	l.end++
	l.last = l.end
	if e.ID != "" {
		l.seqs[id] = l.end
	}
	for _, b := range kept.Blocks {
		l.size += len(b.Text) + len(b.Input) + len(b.Data) + len(b.Raw)
	}
	if len(l.pending) < importChunk && l.size < importBytes {
		return nil
	}
	if err := l.flush(ctx); err != nil {
		return err
	}
	return l.renew(ctx)
}

// importBytes bounds what is pending.
const importBytes = 4 << 20

// parent is the seq that an entry follows here.
func (l *logImport) parent(e convert.Entry) int64 {
	switch seq, ok := l.seqs[shortSumOf(e.Parent)]; {
	case e.Parent == convert.Root && l.end > 0:
		return store.Root
	case e.Parent != "" && ok:
		return seq
	case l.last > 0:
		return l.last
	}
	return 0
}

func (l *logImport) flush(ctx context.Context) error {
	if len(l.pending) == 0 {
		return nil
	}
	if err := l.open(ctx); err != nil {
		return err
	}
	var err error
	if l.worker == "" {
		_, err = l.w.Append(ctx, l.pending...)
	} else {
		_, err = l.w.AppendTo(ctx, l.worker, l.pending...)
	}
	l.pending, l.size = nil, 0
	if err == nil && l.here == nil && !l.alone {
		l.alone = true
		err = l.checkAlone(ctx)
	}
	return err
}

// finish sets the labels and the head of the session.
func (l *logImport) finish(ctx context.Context) error {
	if err := l.goTo(ctx); err != nil || l.w == nil {
		return err
	}
	for id, label := range l.from.Labels {
		if seq, ok := l.seqs[shortSumOf(id)]; ok && strings.TrimSpace(label) != "" {
			if err := l.s.Label(ctx, l.result.Session, seq, label); err != nil {
				return err
			}
		}
	}
	return nil
}

// goTo moves the head to where the tool has it. In an existing session it does
// so only if the tool moved it since the last import; otherwise what was said
// here since would lose its place.
func (l *logImport) goTo(ctx context.Context) error {
	head, ok := l.last, l.last > 0
	switch l.from.Head {
	case "":
	case convert.Root:
		head, ok = store.Root, true
	default:
		head, ok = l.seqs[shortSumOf(l.from.Head)]
	}
	if !ok {
		return nil
	}
	if l.w != nil {
		if head == l.last || l.bare {
			return nil
		}
		return l.w.Branch(ctx, head)
	}
	if l.here == nil {
		return nil
	}
	if was := originOf(l.here.Session).Head; was == headName(l.from) || was == "" && head != store.Root {
		return nil
	}
	at, err := l.here.Head(ctx)
	if err != nil || at == max(head, 0) {
		return err
	}
	w, err := l.changed(ctx)
	if err != nil || w == nil {
		return err
	}
	return w.Branch(ctx, head)
}
