package transfer

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/store"
)

// What a tool may still change is not appended: it is the draft of its log, which
// each import replaces. So a session that is imported while it grows ends as one
// that is imported when it is complete. Where the tool is in a session may change,
// too: it is a branch marker at the end of the draft.

// finish keeps the draft of the session, with where the tool is in it, late costs,
// and labels.
func (l *logImport) finish(ctx context.Context) error {
	final := l.end - int64(len(l.drafts))
	if !l.appended {
		if err := l.goTo(ctx); err != nil {
			return err
		}
	} else if len(l.drafts) > 0 {
		l.drafts = append(l.drafts, l.marker(l.head))
		l.end++
	}
	if err := l.nameBranch(ctx); err != nil {
		return err
	}
	if err := l.settle(ctx); err != nil || len(l.from.Labels) == 0 || l.DryRun || l.s == nil || l.result.Session == "" {
		return err
	}
	here := map[int64]string{}
	if l.here != nil {
		var err error
		if here, err = l.here.Labels(ctx); err != nil {
			return err
		}
	}
	for id, label := range l.from.Labels {
		seq, ok := l.seqOf(id)
		if !ok && l.from.From != nil {
			return convert.ErrWhole
		}
		if label = strings.TrimSpace(label); !ok || seq > final || label == "" || here[seq] == label || here[seq] == l.s.MaskText(label) {
			continue
		}
		if _, err := l.changed(ctx); err != nil {
			return err
		}
		if err := l.s.Label(ctx, l.result.Session, seq, label); err != nil {
			return err
		}
	}
	return nil
}

// stay leaves the head where it is: once something was appended here, the tool no
// longer moves it, and what it adds is a branch beside that.
func (l *logImport) stay() {
	if !l.appended || l.added == 0 || l.worker != "" {
		return
	}
	l.pending = append(l.pending, l.marker(l.head))
	l.end++
}

// marker is a branch marker: the session goes on behind the entry seq.
func (l *logImport) marker(seq int64) tidemark.Entry {
	if seq == 0 {
		seq = store.Root
	}
	return tidemark.Entry{Kind: tidemark.KindBranch, At: l.clock, Position: tidemark.Position{Parent: seq}}
}

// nameBranch gives the branch that the tool goes on with beside the session here
// the name of the tool. A label of a person stays where it is.
func (l *logImport) nameBranch(ctx context.Context) error {
	if !l.appended || l.added == 0 || l.DryRun {
		return nil
	}
	labels, err := l.here.Labels(ctx)
	if err != nil {
		return err
	}
	for seq, label := range labels {
		if !strings.EqualFold(label, l.tool.Name) {
			continue
		}
		for e, err := range l.here.LogRange(ctx, seq, seq) {
			if err != nil || !strings.HasPrefix(e.Key, l.tool.Name+":") {
				return nil
			}
		}
	}
	return l.s.Label(ctx, l.result.Session, l.added, l.tool.Name)
}

// goTo moves the head to where the tool has it.
func (l *logImport) goTo(ctx context.Context) error {
	head, ok := l.last, l.last > 0 && l.view != nil && l.w == nil && len(l.drafts) == 0
	if l.tookAllBack() {
		head, ok = store.Root, true
	}
	switch l.from.Head {
	case "": // its last entry is the newest, unless an earlier import left it elsewhere
	case convert.Root:
		head, ok = store.Root, true
	default:
		if head, ok = l.seqOf(l.from.Head); !ok && l.from.From != nil {
			return convert.ErrWhole
		}
	}
	if !ok || l.bare || l.s == nil {
		return nil
	}
	at := l.end
	if l.view != nil && l.w == nil && len(l.drafts) == 0 {
		var err error
		if at, err = l.view.Head(ctx); err != nil {
			return err
		}
	}
	switch {
	case at == max(head, 0):
		return nil
	case l.tool.Grows && l.from.Head != "":
		l.drafts = append(l.drafts, l.marker(max(head, 0)))
		l.end++
		return nil
	case head == l.last && l.w != nil, l.here == nil && l.w == nil, head > l.end-int64(len(l.drafts)):
		return nil
	case l.w != nil:
		return l.w.Branch(ctx, head)
	}
	if l.tookBack() {
		return l.goBack(ctx, head)
	}
	if was := originOf(l.here.Session).Head; was == headName(l.from) || was == "" && head != store.Root {
		return nil
	}
	w, err := l.changed(ctx)
	if err != nil || w == nil {
		return err
	}
	return w.Branch(ctx, head)
}

// tookBack reports whether the tool has no longer all that it had, where it ends with
// an entry that is not the newest here. One that only appends does not do that, and
// where a person is in the session here is not changed.
func (l *logImport) tookBack() bool {
	return !l.tool.Grows && l.from.Head == "" && l.handed == nil && !l.moved
}

// tookAllBack reports whether the tool has nothing of the session any more but that it
// is there. What could not be read was not taken back.
func (l *logImport) tookAllBack() bool {
	_, bare := l.existing(l.keyOf(l.under, importedName))
	return l.worker == "" && l.view != nil && l.from.From == nil && l.from.Fork == nil && l.seqs.ids.Len() == 0 && len(l.drafts) == 0 &&
		!bare && len(l.kept) > 0 && len(l.reports.skipped) == 0 && l.tookBack()
}

// backName begins the key of a marker for what a tool took back.
const backName = "@back~"

// goBack moves the head to the last entry that the tool still has. The key of the
// marker says that no person moved it.
func (l *logImport) goBack(ctx context.Context, head int64) error {
	w, err := l.changed(ctx)
	if err != nil || w == nil {
		return err
	}
	m := l.marker(head)
	m.Key = l.keyOf(l.under, backName+strconv.FormatInt(l.end, 36))
	l.odd = true
	_, err = w.Append(ctx, m)
	return err
}

// movedHere reports whether an entry moves the head, and is none of goBack; keys of
// the tool's entries begin with begin.
func movedHere(e tidemark.Entry, begin string) bool {
	return e.Kind == tidemark.KindBranch && !strings.HasPrefix(e.Key, begin+backName)
}

// finalUpTo appends the draft of a session up to the entry of a key, and returns
// its seq, 0 when it is not there: another session was forked from that entry, and
// no tool forks from what may still change.
func (g *sessionImport) finalUpTo(ctx context.Context, source store.Info, key string) (seq int64, err error) {
	v, err := g.s.View(ctx, source.ID)
	if err != nil {
		return 0, err
	}
	drafts, err := v.Draft(ctx)
	n := slices.IndexFunc(drafts, func(e tidemark.Entry) bool { return e.Key == key }) + 1
	if err != nil || n == 0 {
		return 0, err
	}
	defer func(now time.Time) { g.clock = now }(g.clock)
	g.setClock(source.UpdatedAt)
	w, err := g.s.AttachSource(ctx, source.ID, g.Holder)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, w.Close(context.WithoutCancel(ctx))) }()
	for i := range drafts {
		if drafts[i].Draft = false; drafts[i].Parent == 0 {
			drafts[i].Parent = store.Root // 0 would be the newest entry
		}
	}
	seqs, err := w.Append(ctx, drafts[:n]...)
	if err != nil {
		return 0, err
	}
	return seqs[n-1], w.KeepDraft(ctx, "", drafts[n:]...)
}

// settle keeps the draft and the late costs of a log.
func (l *logImport) settle(ctx context.Context) error {
	if l.DryRun || l.s == nil {
		return nil
	}
	same, err := l.sameDraft(ctx)
	if err != nil {
		return err
	}
	if !same {
		if l.result.State == "known" {
			l.result.State = "changed"
			if l.result.Drafts > 0 {
				l.result.State = "grown"
			}
		}
		if err := l.open(ctx); err != nil {
			return err
		}
		if err := l.w.KeepDraft(ctx, l.worker, l.drafts...); err != nil {
			return err
		}
		if err := l.committed(ctx); err != nil {
			return err
		}
	}
	if len(l.costs) == 0 {
		return nil
	}
	if _, err := l.changed(ctx); err != nil {
		return err
	}
	return l.s.Charge(ctx, l.result.Session, l.worker, l.costs)
}

// sameDraft reports whether the log has this draft already.
func (l *logImport) sameDraft(ctx context.Context) (bool, error) {
	if l.view == nil {
		return len(l.drafts) == 0, nil
	}
	have, err := l.view.Draft(ctx)
	if err != nil {
		return false, err
	}
	after := l.end - int64(len(l.drafts))
	return slices.EqualFunc(have, l.drafts, func(was, is tidemark.Entry) bool {
		sameParent := was.Parent == max(is.Parent, 0) || is.Parent == 0 && was.Parent == was.Seq-1
		if was.Kind != is.Kind || was.Key != is.Key || !sameParent || have[0].Seq != after+1 || costOf(was) != costOf(is) {
			return false
		}
		if was.Kind == tidemark.KindBranch {
			return true
		}
		was.Draft = false
		sum := sumOf(was)
		return sum == sumOf(is) || sum == sumOf(l.s.Mask(is))
	}), nil
}
