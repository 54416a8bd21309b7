package transfer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"iter"
	"strconv"
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
	l := &logImport{sessionImport: g, worker: worker, kept: make(map[shortSum]keptEntry), costs: make(map[int64]float64)}
	if worker == "" {
		g.main = l
	}
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
	if len(l.drafts) == 0 {
		l.stay()
	}
	if err := l.flush(ctx); err != nil {
		return err
	}
	if worker != "" {
		g.odd = g.odd || len(l.drafts) > 0
		return l.settle(ctx)
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
	seq    int64
	parent int64
	sum    shortSum
	cost   float64
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
	seqs    entrySeqs
	last    int64 // the seq of the previous entry
	end     int64 // the seq of the newest one, existing, pending or a draft
	pending []tidemark.Entry
	size    int

	at         time.Time         // of the previous entry
	view       *store.View       // of the existing log; nil if there is none
	drafts     []tidemark.Entry  // what may still change
	draftBytes int               // of them
	costs      map[int64]float64 // that became known later, by seq
	appended   bool              // something was appended to the existing log here, and not by an import
	moved      bool              // the existing log ends with a move of its head that is not of an import
	head       int64             // where the session was before
	added      int64             // the newest entry that this import appends, 0 if there is none
}

// look reads the existing entries, by key.
func (l *logImport) look(ctx context.Context) error {
	if l.from.From != nil && l.worker == "" {
		return l.lookAtEnd(ctx)
	}
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
	l.view = v
	begin, tip := l.keysBegin(l.under), int64(0)
	if l.handed != nil {
		tip = l.handed.Tip
	}
	if l.worker == "" {
		var err error
		if l.head, err = v.Head(ctx); err != nil {
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
		if v.Base != nil && e.Seq <= v.Base.Seq {
			continue // of the session that it was forked from, whose ids may be the same
		}
		if e.Key != "" {
			l.kept[shortSumOf(e.Key)] = keptEntry{e.Seq, e.Parent, sumOf(e), costOf(e)}
		}
		// A note that a draft ended early is no reason to stay there when its tool has
		// the session again.
		if e.Kind != tidemark.KindBranch && e.Kind != tidemark.KindInterrupted && e.Seq > tip && !strings.HasPrefix(e.Key, begin) {
			l.appended = true
		}
		l.moved = movedHere(e, begin)
	}
	return nil
}

func costOf(e tidemark.Entry) float64 {
	if e.Usage == nil {
		return 0
	}
	return e.Usage.CostUSD
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

// keyOf turns the tool's id for an entry into a key; under is that of namesUnder.
func (b *toolImport) keyOf(under, id string) string {
	begin := b.keysBegin(under)
	if len(begin)+len(id) > tidemark.MaxIDBytes {
		sum := sha256.Sum256([]byte(id))
		id = hex.EncodeToString(sum[:])
	}
	return begin + id
}

// keysBegin is what the keys of all entries of a session begin with.
func (b *toolImport) keysBegin(under string) string {
	if under == "" {
		return b.tool.Name + ":"
	}
	return b.tool.Name + ":" + under + "/"
}

// existing returns the entry that is there under a key.
func (l *logImport) existing(key string) (have keptEntry, ok bool) {
	if len(l.kept) == 0 {
		return have, false
	}
	have, ok = l.kept[shortSumOf(key)]
	return have, ok
}

// add handles one entry: it exists, it is new, it was changed, or it may still
// change.
func (l *logImport) add(ctx context.Context, e convert.Entry) error {
	if _, again := l.seqs.of(e.ID); again && e.ID != "" {
		return nil
	}
	if l.worker == "" {
		l.saw(e.Entry)
	}
	if seq, given := l.handed.Seq(l.worker, e.ID); given {
		if seq > 0 {
			l.seqs.set(e.ID, seq)
			l.last = seq
		}
		l.at = e.At
		return nil
	}
	if e.At.IsZero() {
		e.At = l.at // the time of the import is another one at each
	}
	l.at = e.At
	kept := e.Entry
	kept.Draft = false
	if kept.Kind == "" {
		kept.Kind = tidemark.KindMessage
	}
	kept.At = kept.At.UTC().Truncate(time.Microsecond)
	if e.ID != "" {
		kept.Key = l.keyOf(l.under, e.ID)
		have, ok := l.existing(kept.Key)
		if ok {
			// Only what is there is compared: a sum costs as much as the line.
			if sum := sumOf(kept); have.sum != sum && have.sum != sumOf(l.s.Mask(kept)) {
				l.odd = true
				kept.Key = l.keyOf(l.under, e.ID+"~"+hex.EncodeToString(sum[:4]))
				have, ok = l.existing(kept.Key)
			}
		}
		if ok && l.elsewhere(e, have) {
			l.odd = true
			kept.Key = l.keyOf(l.under, e.ID+"~"+strconv.FormatInt(have.seq, 36)+"~"+strconv.FormatInt(l.parent(e), 36))
			have, ok = l.existing(kept.Key)
		}
		if ok {
			l.odd = l.odd || have.seq < l.last
			l.seqs.set(e.ID, have.seq)
			l.last = have.seq
			if cost := costOf(kept); cost != have.cost {
				l.costs[have.seq] = cost
			}
			return nil
		}
	}
	if _, known := l.seqOf(e.Parent); !known && e.Parent != "" && e.Parent != convert.Root && l.from.From != nil {
		return convert.ErrWhole
	}
	if e.Draft || len(l.drafts) > 0 {
		return l.addDraft(ctx, kept, e)
	}
	l.result.Entries++
	if l.result.State == "known" {
		l.result.State = "grown"
	}
	if l.DryRun {
		l.seqs.set(e.ID, 0)
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
	l.last, l.added = l.end, l.end
	if e.ID != "" {
		l.seqs.set(e.ID, l.end)
	}
	l.size += size(kept)
	if len(l.pending) < importChunk && l.size < importBytes {
		return nil
	}
	if err := l.flush(ctx); err != nil {
		return err
	}
	return l.renew(ctx)
}

// elsewhere reports whether an entry that is there follows another one now, because
// its tool wrote what was before it anew. It then goes with that to a new branch, so
// that the branch of the head is what the tool has. One before which the tool left
// out what it had stays where it is.
func (l *logImport) elsewhere(e convert.Entry, have keptEntry) bool {
	parent := l.parent(e)
	return parent > 0 && parent != have.parent && !l.tool.Grows && l.handed == nil && !l.appended
}

// saw notes what the session's own entries say about it.
func (g *sessionImport) saw(e tidemark.Entry) {
	if g.prompt == "" {
		g.prompt = promptOf(e)
	}
	for _, b := range e.Blocks {
		switch b.Type {
		case tidemark.BlockToolUse:
			g.calls[b.ID] = true
		case tidemark.BlockToolResult:
			delete(g.calls, b.ToolUseID)
		}
	}
}

// importBytes bounds what is pending, and maxDraftBytes what is kept of a draft.
const (
	importBytes   = 4 << 20
	maxDraftBytes = 16 << 20
)

// addDraft adds an entry to the draft.
func (l *logImport) addDraft(ctx context.Context, kept tidemark.Entry, e convert.Entry) error {
	l.result.Drafts++
	if l.draftBytes += size(kept); l.DryRun || l.draftBytes > maxDraftBytes && len(l.drafts) > 0 {
		l.seqs.set(e.ID, 0)
		return nil // it is here once it is final
	}
	if len(l.drafts) == 0 {
		l.stay() // what follows is numbered
	}
	if l.from.Fork != nil {
		if err := l.open(ctx); err != nil { // it says where the entries begin
			return err
		}
	}
	kept.Parent = l.parent(e)
	l.drafts = append(l.drafts, kept)
	l.end++
	l.last = l.end
	if e.ID != "" {
		l.seqs.set(e.ID, l.end)
	}
	return nil
}

// size is about how many bytes an entry has.
func size(e tidemark.Entry) (n int) {
	n = len(e.Extra)
	for _, b := range e.Blocks {
		n += len(b.Text) + len(b.Input) + len(b.Data) + len(b.Raw)
	}
	return n
}

// parent is the seq that an entry follows here.
func (l *logImport) parent(e convert.Entry) int64 {
	switch seq, ok := l.seqOf(e.Parent); {
	case e.Parent == convert.Root && l.end > 0:
		return store.Root
	case e.Parent != "" && ok:
		return seq
	case l.last > 0:
		return l.last
	case l.end > 0 && !l.tool.Grows && l.handed == nil:
		return store.Root // the first one, written anew
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
	if err != nil {
		return err
	}
	return l.committed(ctx)
}

// committed looks, after the first commit of a new session, whether another
// import began the same one.
func (l *logImport) committed(ctx context.Context) error {
	if l.here != nil || l.alone {
		return nil
	}
	l.alone = true
	return l.checkAlone(ctx)
}
