package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// book records what happened, and what must follow from it.
type book struct {
	o         options
	sessions  []*session
	followers []*follower
	began     time.Time
	took      time.Duration

	sent, acknowledged atomic.Int64
	struck             strikes

	mu      sync.Mutex
	refused map[string]int // refused writes and streams, by the answer
	kept    count          // in the store, in the end
	audit   lines          // of the audit log, in the end
	faults  []string       // what was wrong, the first of it
}

// strikes counts the blows by kind.
type strikes struct {
	drains, kills, cut, crashes, failovers, upgrades, moves, movers, chills int
	reads                                                                   atomic.Int64 // of quiet sessions
}

// count is how many acknowledged entries are not as they should be.
type count struct{ lost, doubled, disorder int }

func (c *count) add(d count) {
	c.lost += d.lost
	c.doubled += d.doubled
	c.disorder += d.disorder
}

// lines is what the audit log says about the writes: how many lines it has,
// how many of them are not chained yet, how many entries have none or more
// than one, and how many lines are about entries that do not exist.
type lines struct{ all, unchained, missing, doubled, stray int }

// session is what one writer wrote. Its entries are numbered from 0.
type session struct {
	id    tidemark.SessionID
	name  string
	acks  []atomic.Int64 // when each entry was acknowledged, in nanoseconds since the beginning; 0: not yet
	seqs  []int64        // seq of each entry
	wrote chan struct{}  // closed when its writer has ended
}

// textOf is the text of entry n of a session, and its key.
func (s *session) textOf(n int) string { return fmt.Sprintf("%s entry %d", s.name, n) }

// numberOf is the reverse of textOf, -1 for a text that was not written here.
func (s *session) numberOf(text string) int {
	var n int
	if _, err := fmt.Sscanf(text, s.name+" entry %d", &n); err != nil || n < 0 || n >= len(s.acks) || s.textOf(n) != text {
		return -1
	}
	return n
}

// maxFaults bounds the list of faults.
const maxFaults = 20

func (b *book) fault(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.faults) < maxFaults {
		b.faults = append(b.faults, "  "+fmt.Sprintf(format, args...)+"\n")
	}
}

func (b *book) refuse(what string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refused[what+": "+kindOf(err)]++
}

// seen is a reader of a session: it finds what is missing, duplicated or out
// of order.
type seen struct {
	s    *session
	has  []bool
	next int   // the entry that comes next
	last int64 // the seq before
	count
}

func newSeen(s *session) seen { return seen{s: s, has: make([]bool, len(s.acks))} }

// take notes one entry, and returns its number and what is wrong with it.
func (v *seen) take(seq int64, text string) (n int, wrong string) {
	n = v.s.numberOf(text)
	switch {
	case n < 0:
		v.disorder++
		return n, fmt.Sprintf("seq %d says %.60q, which nobody wrote", seq, text)
	case v.has[n]:
		v.doubled++
		wrong = fmt.Sprintf("seq %d: entry %d is there twice", seq, n)
	case n != v.next || seq <= v.last:
		v.disorder++
		wrong = fmt.Sprintf("seq %d behind %d: entry %d where %d belongs", seq, v.last, n, v.next)
	}
	v.has[n], v.next, v.last = true, n+1, seq
	return n, wrong
}

// missing counts acknowledged entries that did not arrive.
func (v *seen) missing() (n int) {
	for i := range v.has {
		if !v.has[i] && v.s.acks[i].Load() != 0 {
			n++
		}
	}
	return n
}

func (b *book) told() (c count, reconnects int) {
	for _, f := range b.followers {
		c.add(f.seen.count)
		c.lost += f.seen.missing()
		reconnects += f.connects - 1
	}
	return c, reconnects
}

func (b *book) broken() bool {
	told, _ := b.told()
	return told != (count{}) || b.audit.missing+b.audit.doubled+b.audit.stray > 0 || b.kept != (count{}) || len(b.faults) > 0 || int(b.acknowledged.Load()) != b.o.writers*b.o.entries
}

// lags are the times from the acknowledgement of an entry to its arrival at a
// follower, sorted. An entry that arrives before its acknowledgement counts
// as 0.
func (b *book) lags() (all []time.Duration) {
	for _, f := range b.followers {
		for n, at := range f.arrived {
			if ack := f.seen.s.acks[n].Load(); at > 0 && ack > 0 {
				all = append(all, time.Duration(max(0, at-ack)))
			}
		}
	}
	slices.Sort(all)
	return all
}

func share(sorted []time.Duration, part float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[int(part*float64(len(sorted)-1))]
}

// table is what was found, as a table of one row.
func (b *book) table() string {
	told, reconnects := b.told()
	lags := b.lags()
	cells := [][2]string{
		{"followers", fmt.Sprint(b.o.followers)}, {"writers", fmt.Sprint(b.o.writers)}, {"nodes", fmt.Sprint(b.o.nodes)},
		{"drained", fmt.Sprint(b.struck.drains)}, {"killed", fmt.Sprint(b.struck.kills)}, {"backends cut", fmt.Sprint(b.struck.cut)},
		{"crashes", fmt.Sprint(b.struck.crashes)}, {"failovers", fmt.Sprint(b.struck.failovers)}, {"upgraded", fmt.Sprint(b.struck.upgrades)}, {"moved", fmt.Sprint(b.struck.moves)}, {"movers killed", fmt.Sprint(b.struck.movers)}, {"chilled", fmt.Sprint(b.struck.chills)}, {"audit lines", fmt.Sprint(b.audit.all)}, {"not chained", fmt.Sprint(b.audit.unchained)},
		{"missing/doubled/stray", fmt.Sprintf("%d/%d/%d", b.audit.missing, b.audit.doubled, b.audit.stray)},
		{"sent", fmt.Sprint(b.sent.Load())}, {"acknowledged", fmt.Sprint(b.acknowledged.Load())},
		{"lost (kept/told)", fmt.Sprintf("%d/%d", b.kept.lost, told.lost)}, {"doubled", fmt.Sprintf("%d/%d", b.kept.doubled, told.doubled)},
		{"out of order", fmt.Sprintf("%d/%d", b.kept.disorder, told.disorder)}, {"told", fmt.Sprint(len(lags))}, {"reconnects", fmt.Sprint(reconnects)},
		{"p50", share(lags, 0.5).Round(time.Millisecond).String()}, {"p99", share(lags, 0.99).Round(time.Millisecond).String()},
		{"seconds", fmt.Sprintf("%.0f", b.took.Seconds())},
	}
	var lines [3]strings.Builder
	for i := range lines {
		lines[i].WriteString("|")
	}
	for _, c := range cells {
		width := max(len(c[0]), len(c[1]))
		fmt.Fprintf(&lines[0], " %*s |", width, c[0])
		fmt.Fprintf(&lines[1], " %s |", strings.Repeat("-", width))
		fmt.Fprintf(&lines[2], " %*s |", width, c[1])
	}
	return lines[0].String() + "\n" + lines[1].String() + "\n" + lines[2].String() + "\n"
}

// object is the row as JSON. What was lost, doubled or out of order is counted
// together, in the sessions and at the followers.
func (b *book) object() string {
	told, reconnects := b.told()
	lags := b.lags()
	o, _ := json.Marshal(map[string]any{
		"followers": b.o.followers, "writers": b.o.writers, "nodes": b.o.nodes, "drained": b.struck.drains, "killed": b.struck.kills,
		"crashes": b.struck.crashes, "failovers": b.struck.failovers, "upgraded": b.struck.upgrades, "moved": b.struck.moves, "movers_killed": b.struck.movers, "chilled": b.struck.chills, "audit_lines": b.audit.all, "audit_unchained": b.audit.unchained, "audit_faults": b.audit.missing + b.audit.doubled + b.audit.stray,
		"cut": b.struck.cut, "sent": b.sent.Load(), "acknowledged": b.acknowledged.Load(), "lost": b.kept.lost + told.lost,
		"doubled": b.kept.doubled + told.doubled, "disorder": b.kept.disorder + told.disorder, "told": len(lags), "reconnects": reconnects,
		"p50_ms": share(lags, 0.5).Milliseconds(), "p99_ms": share(lags, 0.99).Milliseconds(), "seconds": b.took.Seconds(),
	}) // numbers alone
	return string(o)
}

// reasons lists the unexpected answers, most frequent first.
func (b *book) reasons() (lines []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, what := range slices.SortedFunc(maps.Keys(b.refused), func(x, y string) int { return b.refused[y] - b.refused[x] }) {
		lines = append(lines, fmt.Sprintf("%6d × %s", b.refused[what], what))
	}
	return lines
}
