package files_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc64"
	"math/rand/v2"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/backendtest"
	"github.com/tidemark-sessions/tidemark/backend/files"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/internal/durable/crashfs"
)

var crashKeys = []tidemark.Key{{Kind: "session", ID: "a"}, {Kind: "session", ID: "b"}, {Kind: "lease", ID: "a"}, {Kind: "notes", ID: "a"}}

// storyteller makes batches that each fit the state that the ones before left.
type storyteller struct {
	*rand.Rand
	model  *memory.Backend
	made   int
	circle bool
	cold   bool
	away   []tidemark.Line // of the first log
}

func (s *storyteller) at(k tidemark.Key) tidemark.Record {
	r, _ := s.model.Get(context.Background(), k)
	return r
}

func (s *storyteller) append(k tidemark.Key, n int) tidemark.Append {
	a := tidemark.Append{Log: k}
	length := s.at(k).Head.Length
	for i := range n {
		l := backendtest.NewLine(k, length+int64(i)+1, fmt.Sprintf(`{"n":%d,"text":%q}`, s.made, strings.Repeat("x", s.IntN(300))))
		if s.IntN(3) == 0 {
			l.Key = fmt.Sprintf("k%d.%d", s.made, i)
			l.Sum = l.Checksum(k)
		}
		a.Lines = append(a.Lines, l)
	}
	return a
}

func (s *storyteller) put(k tidemark.Key) tidemark.Record {
	return backendtest.NewRecord(k, s.at(k).Version+1, fmt.Sprintf(`{"made":%d,"text":%q}`, s.made, strings.Repeat("y", s.IntN(700))))
}

// turn draws what the next batch does. A third of the stories make something
// with an intent, destroy it and begin again: what comes back from the dead
// shows there.
func (s *storyteller) turn() int {
	if s.cold {
		return []int{11, 12, 14, 14, 15, 15}[(s.made-1)%6]
	}
	if s.circle {
		return []int{11, 10, 12, 10, 11}[s.made%5]
	}
	return []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 13}[s.IntN(11)]
}

// tell returns the next batch.
func (s *storyteller) tell() tidemark.Batch {
	s.made++
	b := tidemark.Batch{ID: tidemark.NewBatchID(), At: backendtest.NewLine(crashKeys[0], int64(s.made), "").At}
	switch s.turn() {
	case 0, 1, 2:
		b.Appends = append(b.Appends, s.append(crashKeys[s.IntN(2)], 1))
		b.Require = append(b.Require, tidemark.Precondition{Key: crashKeys[2], Version: s.at(crashKeys[2]).Version})
	case 3:
		b.Appends = append(b.Appends, s.append(crashKeys[s.IntN(2)], 2+s.IntN(5)))
	case 4:
		b.Puts = append(b.Puts, s.put(crashKeys[s.IntN(4)]))
	case 5:
		k := crashKeys[s.IntN(2)]
		b.Puts = append(b.Puts, s.put(k))
		b.Appends = append(b.Appends, s.append(k, 1+s.IntN(3)))
	case 6:
		b.Puts = append(b.Puts, s.put(crashKeys[2]), s.put(crashKeys[1]))
		b.Appends = append(b.Appends, s.append(crashKeys[0], 1), s.append(crashKeys[3], 2))
	case 7:
		b.Drops = append(b.Drops, crashKeys[s.IntN(2)])
	case 8:
		k := crashKeys[s.IntN(4)]
		if v := s.at(k).Version; v > 0 {
			b.Deletes = append(b.Deletes, tidemark.Precondition{Key: k, Version: v})
		} else {
			b.Puts = append(b.Puts, s.put(k))
		}
	case 9:
		if v := s.at(crashKeys[0]).Version; v > 0 {
			b.Deletes = append(b.Deletes, tidemark.Precondition{Key: crashKeys[0], Version: v})
		}
		b.Drops = append(b.Drops, crashKeys[0])
		b.Puts = append(b.Puts, s.put(crashKeys[1]))
		b.Appends = append(b.Appends, s.append(crashKeys[1], 2))
	case 10:
		if v := s.at(crashKeys[0]).Version; v > 0 && s.IntN(2) == 0 {
			b.Deletes = append(b.Deletes, tidemark.Precondition{Key: crashKeys[0], Version: v})
			break
		}
		b.Drops = append(b.Drops, crashKeys[0])
	case 11:
		b.Puts = append(b.Puts, s.put(crashKeys[0]))
		b.Appends = append(b.Appends, s.append(crashKeys[0], 3))
	case 12:
		b.Appends = append(b.Appends, s.append(crashKeys[0], 1))
	case 13:
		s.adopt(&b)
	case 14:
		k, h := crashKeys[0], s.at(crashKeys[0]).Head
		most := h.Length - 1
		if s.made%6 == 3 {
			most-- // something is left for the next
		}
		upto := h.Trimmed + 1 + s.Int64N(most-h.Trimmed)
		for l := range s.model.Lines(context.Background(), k, tidemark.Span{From: h.Trimmed + 1, To: upto}) {
			s.away = append(s.away, l)
		}
		b.Trims = append(b.Trims, tidemark.Trim{Log: k, Length: h.Length, Upto: upto})
		b.Puts = append(b.Puts, s.put(crashKeys[3]))
	case 15:
		from := 0
		if s.made%6 == 5 {
			from = s.IntN(len(s.away)-1) + 1
		}
		b.Fills = append(b.Fills, tidemark.Append{Log: crashKeys[0], Lines: s.away[from:]})
		b.Puts = append(b.Puts, s.put(crashKeys[s.IntN(2)*3]))
		s.away = s.away[:from]
	}
	if _, err := s.model.Commit(context.Background(), b); err != nil {
		panic(err)
	}
	return b
}

// adopt makes b bring two logs, and the records that are not there, as if from
// elsewhere.
func (s *storyteller) adopt(b *tidemark.Batch) {
	b.Adopt = true
	for _, k := range crashKeys[:1+s.IntN(3)] {
		if s.at(k).Version == 0 {
			r := s.put(k)
			r.Version, r.UpdatedAt, r.Batch = int64(5+s.IntN(9)), b.At.Add(-time.Hour), "from-elsewhere"
			b.Puts = append(b.Puts, r)
		}
	}
	for _, k := range crashKeys[:1+s.IntN(2)] {
		a := s.append(k, 1+s.IntN(4))
		a.At = b.At.Add(-time.Minute)
		for i := range a.Lines {
			a.Lines[i].Batch = fmt.Sprintf("elsewhere-%d", i/2)
		}
		b.Appends = append(b.Appends, a)
	}
}

// photo is everything that a backend shows, as text.
func photo(b tidemark.Backend) string {
	var s strings.Builder
	for _, k := range crashKeys {
		r, err := b.Get(context.Background(), k)
		if errors.Is(err, tidemark.ErrNotFound) {
			continue
		}
		fmt.Fprintf(&s, "%s v%d %s %v %d:%08x %v %v\n", k, r.Version, r.Batch, r.UpdatedAt, len(r.Body), r.Sum, r.Head, err)
		for l, err := range b.Lines(context.Background(), k, tidemark.Span{From: r.Head.Trimmed + 1}) {
			fmt.Fprintf(&s, "  %d %s %s %d:%08x %v\n", l.Seq, l.Key, l.Batch, len(l.Body), l.Sum, err)
		}
	}
	return s.String()
}

// crashes is one run of the test over many states.
type crashes struct {
	*testing.T
	seen   map[uint64]bool
	want   int
	few    bool // rather many histories than every call of some
	random *rand.Rand
	open   func(*crashfs.FS) (*files.Backend, error)
}

// randomNames are drawn anew in each run and do not make another state.
var randomNames = regexp.MustCompile(`^(\./(?:tmp|intents|torn/[a-z]+)/).*`)
var randomChain = regexp.MustCompile(`"[Cc]hain":"[0-9a-f]*"|"sum":"[0-9a-f]{8}"`)
var randomLife = regexp.MustCompile(`"life":"[0-9a-f]*"|"sum":"[0-9a-f]{8}"`)

// fresh reports whether this state was not seen before, for a story that was
// acknowledged so far.
func (c *crashes) fresh(disk *crashfs.FS, story []tidemark.Batch, acked int) bool {
	h := disk.Hash(func(name string, data []byte) (string, []byte) {
		switch {
		case strings.HasPrefix(name, "./heads/"):
			data = randomLife.ReplaceAll(data, nil)
		case name == "./locks/reserve":
			data = nil
		case strings.HasPrefix(name, "./journal/"), name == "./locks/journal":
			data = bytes.TrimRight(randomChain.ReplaceAll(data, nil), "\x00")
		}
		return randomNames.ReplaceAllString(name, "$1"), data
	})
	h ^= crc64.Checksum([]byte(story[0].ID), crc64.MakeTable(crc64.ECMA)) + uint64(acked)
	if c.seen[h] {
		return false
	}
	c.seen[h] = true
	return true
}

func openOn(disk *crashfs.FS) (*files.Backend, error) {
	return files.Open(context.Background(), "store", &files.Options{Create: true, FS: disk})
}

// openJournaling opens a store that uses its journal, in which few batches have room.
func openJournaling(disk *crashfs.FS) (*files.Backend, error) {
	return files.OpenJournaling("store", &files.Options{Create: true, FS: disk}, 0, 4000)
}

// TestEveryCrashLeavesWholeBatches stops the power, or the process, before
// every call of random histories, loses every kind of part of what was not
// synced, does the same again inside the recovery, and wants what was
// acknowledged to be there once, and nothing else but whole batches.
// TIDEMARK_CRASH_STATES says how many different states to visit.
func TestEveryCrashLeavesWholeBatches(t *testing.T) {
	want := 2500
	if n, err := strconv.Atoi(os.Getenv("TIDEMARK_CRASH_STATES")); err == nil {
		want = n
	}
	shards := uint64(runtime.GOMAXPROCS(0))
	var visited atomic.Int64
	t.Run("shard", func(t *testing.T) {
		for shard := range shards {
			t.Run(fmt.Sprint(shard), func(t *testing.T) {
				t.Parallel()
				c := &crashes{T: t, seen: map[uint64]bool{}, want: want/int(shards) + 1, few: want < 100_000, random: rand.New(rand.NewPCG(7, shard))}
				for seed := 1 + shard; len(c.seen) < c.want && !t.Failed(); seed += shards {
					c.history(seed)
				}
				visited.Add(int64(len(c.seen)))
			})
		}
	})
	t.Logf("%d different states visited", visited.Load())
}

// history tells one story: a beginning that is kept, and some batches that
// are cut at every call.
func (c *crashes) history(seed uint64) {
	s := &storyteller{Rand: rand.New(rand.NewPCG(seed, 2)), model: memory.New(), circle: seed%3 == 0, cold: seed%4 == 1}
	base := crashfs.New()
	begin := 0
	if c.open = openOn; seed/2%2 == 0 {
		c.open = openJournaling
	}
	if seed%8 != 0 { // now and then the cuts also hit the making of the store
		begin = 1 + s.IntN(4)
		b, err := c.open(base)
		if err != nil {
			c.Fatal(err)
		}
		for range begin {
			if _, err := b.Commit(context.Background(), s.tell()); err != nil {
				c.Fatalf("seed %d: %v", seed, err)
			}
		}
		if seed%5 != 0 { // else what is in the journal stays there, as of a process that was killed
			b.Close()
		}
		base = base.Copy()
	}
	var story []tidemark.Batch
	photos := []string{photo(s.model)}
	for range 2 + s.IntN(4) {
		story = append(story, s.tell())
		photos = append(photos, photo(s.model))
	}
	for n := 1; len(c.seen) < c.want && !c.Failed(); n++ {
		disk := base.Copy()
		disk.StopAt(n)
		acked := c.tell(disk, story)
		last := disk.Changes() < n
		c.after(disk, story, photos, acked, fmt.Sprintf("seed %d, call %d", seed, n))
		if last {
			return
		}
	}
}

// tell commits a story until the power fails and returns how many batches were
// acknowledged.
func (c *crashes) tell(disk *crashfs.FS, story []tidemark.Batch) (acked int) {
	b, err := c.open(disk)
	if err != nil {
		return 0
	}
	defer b.Close()
	for _, batch := range story {
		if _, err := b.Commit(context.Background(), batch); err != nil {
			return acked
		}
		acked++
	}
	return acked
}

// after looks at what a failure leaves: of the process, and of the power in
// every kind.
func (c *crashes) after(disk *crashfs.FS, story []tidemark.Batch, photos []string, acked int, where string) {
	left := []*crashfs.FS{disk.Copy()}
	names := []string{"killed"}
	for _, l := range crashfs.Losses {
		left = append(left, disk.Cut(l, c.random.Uint64()))
		names = append(names, fmt.Sprintf("cut %v", l))
	}
	for i, d := range left {
		at := where + ", " + names[i]
		if !c.fresh(d, story, acked) && i > 0 {
			continue
		}
		if i > 0 && (acked == len(story) || len(story[acked].Drops) == 0) {
			c.readOnly(d.Copy(), photos[acked:], at)
		}
		c.verify(d.Copy(), story, photos, acked, at)
		// The same again at every call of the recovery.
		for m := 1; !c.Failed(); m++ {
			if c.few && m > 1 && c.random.IntN(12) != 0 {
				if m > 60 {
					break
				}
				continue
			}
			again := d.Copy()
			again.StopAt(m)
			b, err := c.open(again)
			if err == nil {
				b.Commit(context.Background(), story[min(acked, len(story)-1)])
				b.Close()
			}
			if again.Changes() < m {
				break
			}
			l := crashfs.Losses[c.random.IntN(len(crashfs.Losses))]
			next := again.Cut(l, c.random.Uint64())
			if !c.fresh(next, story, acked) {
				continue
			}
			c.verify(next, story, photos, acked, fmt.Sprintf("%s, again at call %d, cut %v", at, m, l))
		}
	}
}

// readOnly looks at what a power cut left before anybody recovers it. Whoever only reads
// sees what was acknowledged, and half a batch only where an intent says so.
func (c *crashes) readOnly(disk *crashfs.FS, photos []string, where string) {
	c.Helper()
	before := disk.Hash(nil)
	b, err := files.Open(context.Background(), "store", &files.Options{ReadOnly: true, FS: disk})
	if errors.Is(err, tidemark.ErrNoStore) {
		return
	}
	if err != nil {
		c.Fatalf("%s: Open for reading = %v", where, err)
	}
	defer b.Close()
	if half, err := disk.Names("intents"); err != nil || len(half) > 0 {
		return
	}
	if got := photo(b); !oneOf(photos, got) {
		c.Fatalf("%s: read\n%s\nwant\n%s", where, got, strings.Join(photos, "\nor\n"))
	}
	if disk.Hash(nil) != before {
		c.Fatalf("%s: who reads has written", where)
	}
}

// verify opens what was left, without help, and compares it with the story.
func (c *crashes) verify(disk *crashfs.FS, story []tidemark.Batch, photos []string, acked int, where string) {
	c.Helper()
	b, err := c.open(disk)
	if err != nil {
		c.Fatalf("%s: Open = %v", where, err)
	}
	defer b.Close()
	got := photo(b)
	if !oneOf(photos[acked:], got) {
		c.Fatalf("%s: %d acknowledged; found\n%s\nwant\n%s", where, acked, got, strings.Join(photos[acked:], "\nor\n"))
	}
	// Whoever repeats the batch is told the truth, for good.
	if acked < len(story) {
		b.Commit(context.Background(), story[acked])
		got = photo(b)
		if !oneOf(photos[acked+1:], got) {
			c.Fatalf("%s: repeated; found\n%s\nwant\n%s", where, got, photos[acked+1])
		}
	}
	for err := range b.Check(context.Background()) {
		c.Fatalf("%s: Check: %v", where, err)
	}
	later, err := c.open(disk.Cut(crashfs.Loss{}, 0))
	if err != nil {
		c.Fatalf("%s: Open after the last cut = %v", where, err)
	}
	defer later.Close()
	if acked < len(story) && photo(later) != got {
		c.Fatalf("%s: after the last cut\n%s\nwant\n%s", where, photo(later), got)
	}
}

func oneOf(photos []string, got string) bool {
	for _, p := range photos {
		if p == got {
			return true
		}
	}
	return false
}
