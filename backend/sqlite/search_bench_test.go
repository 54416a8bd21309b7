package sqlite

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// corpus makes the words of lines as people and agents write them: 1.2 KB of
// text, a few words frequent and most of them rare.
type corpus struct {
	rnd   *rand.Rand
	zipf  *rand.Zipf
	words []string
}

func newCorpus() *corpus {
	rnd := rand.New(rand.NewPCG(1, 2))
	c := &corpus{rnd: rnd, zipf: rand.NewZipf(rnd, 1.2, 4, 199_999)}
	for i := range 200_000 {
		c.words = append(c.words, fmt.Sprintf("%s%x", []string{"a", "the", "con", "ret", "file", "err"}[i%6], i))
	}
	return c
}

// text returns the words of one entry, each once, and how many bytes it has.
func (c *corpus) text() (words []string, bytes int) {
	seen := make(map[string]bool)
	for n := 100 + c.rnd.IntN(200); n > 0; n-- {
		w := c.words[c.zipf.Uint64()]
		bytes += len(w) + 1
		if !seen[w] {
			seen[w] = true
			words = append(words, w)
		}
	}
	return words, bytes
}

// built is a store with an index, and what the index cost.
type built struct {
	*Backend
	bytes, pages int64
	took, worst  time.Duration
}

// corpusStore makes a store of so many lines, in sessions of 500 within a year,
// and indexes them in batches.
func corpusStore(b *testing.B, lines int) *built {
	const session, batch = 500, 2000
	s, c := &built{Backend: benchStore(b)}, newCorpus()
	start := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	var wait []tidemark.Indexed
	for n := 0; n < lines; {
		log := tidemark.Key{Kind: "session", ID: fmt.Sprint("s", n)}
		at := start.Add(time.Duration(n) * (365 * 24 * time.Hour / time.Duration(lines))).Truncate(time.Millisecond)
		a := tidemark.Append{Log: log}
		for seq := int64(1); seq <= session; seq++ {
			n++
			at = at.Add(time.Duration(c.rnd.IntN(60_000)) * time.Millisecond)
			l := tidemark.Line{Seq: seq, Kind: "user", Body: []byte(`{}`), At: at, Position: tidemark.Position{Parent: seq - 1, Depth: seq}}
			l.Sum = l.Checksum(log)
			a.Lines = append(a.Lines, l)
			words, size := c.text()
			s.bytes += int64(size)
			if n%1000 == 0 {
				words = append(words, fmt.Sprint("rare", n/1000))
			}
			wait = append(wait, tidemark.Indexed{Log: log, Seq: seq, At: at, Words: words})
		}
		keep(b, s, tidemark.Batch{Appends: []tidemark.Append{a}})
		if len(wait) >= batch || n >= lines {
			s.index(b, wait)
			wait = wait[:0]
		}
	}
	return s
}

func (s *built) index(b *testing.B, lines []tidemark.Indexed) {
	before, start := s.used(b), time.Now()
	index(b, s, lines)
	took := time.Since(start)
	s.took, s.worst = s.took+took, max(s.worst, took)
	s.pages += s.used(b) - before
}

// used returns how many pages hold something.
func (s *built) used(b *testing.B) int64 {
	var n [2]int64
	for i, pragma := range []string{"page_count", "freelist_count"} {
		err := s.snapshot(context.Background(), func(c *conn) (err error) {
			n[i], err = c.number("PRAGMA " + pragma)
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	return n[0] - n[1]
}

// BenchmarkSearch asks for the newest 20 lines. A million lines take minutes to
// make, and are made when TIDEMARK_BENCH_LARGE is set.
func BenchmarkSearch(b *testing.B) {
	sizes := []int{10_000, 100_000}
	if os.Getenv("TIDEMARK_BENCH_LARGE") != "" {
		sizes = append(sizes, 1_000_000)
	}
	for _, lines := range sizes {
		b.Run(fmt.Sprint(lines), func(b *testing.B) {
			s, c := corpusStore(b, lines), newCorpus()
			word := func(i int) []tidemark.Term { return []tidemark.Term{{Word: c.words[i]}} }
			rare := func(i int) []tidemark.Term { return []tidemark.Term{{Word: fmt.Sprint("rare", 1+i%(lines/1000))}} }
			took := make(map[string][]float64)
			for b.Loop() {
				for i := range 40 {
					for name, a := range map[string]tidemark.IndexQuery{
						"rare":     {All: [][]tidemark.Term{rare(i)}},
						"frequent": {All: [][]tidemark.Term{word(i % 20)}},
						"middling": {All: [][]tidemark.Term{word(1000 + i)}},
						"both":     {All: [][]tidemark.Term{word(i % 20), word(300 + i)}},
						"one-rare": {All: [][]tidemark.Term{word(i % 20), rare(i)}},
						"without":  {All: [][]tidemark.Term{word(300 + i)}, None: word(100 + i%3)},
						"prefix":   {All: [][]tidemark.Term{{{Word: c.words[100_000+i], Prefix: true}}}},
					} {
						a.Limit = 20
						start := time.Now()
						foundBy(b, s, a)
						took[name] = append(took[name], float64(time.Since(start).Microseconds()))
					}
				}
			}
			for name, v := range took {
				slices.Sort(v)
				b.ReportMetric(v[len(v)*95/100], "p95-µs/"+name)
			}
			b.ReportMetric(float64(lines)/s.took.Seconds(), "lines/s")
			b.ReportMetric(float64(s.bytes)/1e6/s.took.Seconds(), "MB/s")
			b.ReportMetric(float64(s.pages*4096)/float64(s.bytes), "index/text")
			b.ReportMetric(float64(s.worst.Milliseconds()), "worst-index-ms")
		})
	}
}
