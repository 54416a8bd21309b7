package segment_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/search"
	"github.com/tidemark-sessions/tidemark/search/segment"
)

// corpus is text as people and agents write it: few words are everywhere and most
// are rare; some are identifiers, paths and numbers. It is that of workshop/bench
// in small.
type corpus struct {
	entries []tidemark.Entry
	words   []string // the most frequent first
	bytes   int
}

const benchEntries = 100_000

var text = sync.OnceValue(func() *corpus {
	rnd := rand.New(rand.NewPCG(3, 1))
	c := &corpus{words: strings.Fields("the of and to in is it that for on with as be this file not are was at by from or have an we can")}
	of := func(s string) string { f := strings.Fields(s); return f[rnd.IntN(len(f))] }
	known := make(map[string]bool)
	for len(c.words) < 50_000 {
		var w strings.Builder
		for range 1 + min(len(c.words)/2000, 1) + rnd.IntN(2) {
			w.WriteString(of("b c d f g h l m n p r s t v w br cl dr st tr sh ch") + of("a e i o u ai ea ou") + of("n r s t l d m nt rd st ck"))
		}
		if !known[w.String()] {
			known[w.String()] = true
			c.words = append(c.words, w.String())
		}
	}
	zipf := rand.NewZipf(rnd, 1.08, 2.7, uint64(len(c.words)-1))
	word := func() string { return c.words[zipf.Uint64()] }
	names := make([]string, 50_000)
	for i := range names {
		next := word()
		names[i] = word() + strings.ToUpper(next[:1]) + next[1:]
	}
	for i := range benchEntries {
		var b strings.Builder
		for size := []int{500, 700, 1900, 1000}[i%4]; b.Len() < size; {
			switch rnd.IntN(30) {
			case 0:
				b.WriteString(names[zipf.Uint64()])
			case 1:
				fmt.Fprintf(&b, "src/%s/%s.go:%d", word(), names[zipf.Uint64()], rnd.IntN(900))
			case 2:
				b.WriteString(word() + ".")
			default:
				b.WriteString(word())
			}
			b.WriteByte(' ')
		}
		e := tidemark.Say(tidemark.User, b.String())
		e.Seq = int64(i%500) + 1
		e.At = time.UnixMicro(int64(i/500)*150_000_000_000 + int64(i%500)*20_000_000).UTC()
		c.entries = append(c.entries, e)
		c.bytes += b.Len()
	}
	return c
})

// segments builds segments of so many entries each.
func (c *corpus) segments(b *testing.B, each int) (all []*segment.Reader, bytes int) {
	for from := 0; from < len(c.entries); from += each {
		builder := segment.NewBuilder()
		for i, e := range c.entries[from:min(from+each, len(c.entries))] {
			builder.Line(segment.Line{Log: fmt.Sprintf("session %08d", (from+i)/500), Seq: e.Seq, At: e.At.UnixMicro()})
			search.EachWord(e, builder.Word)
			builder.Word([]byte("\x00r:user"), -1)
		}
		var blocks blocks
		if err := builder.Write(blocks.emit); err != nil {
			b.Fatal(err)
		}
		for _, block := range blocks {
			bytes += len(block)
		}
		all = append(all, open(b, blocks))
	}
	return all, bytes
}

// BenchmarkWords makes the words alone: what building is compared with.
func BenchmarkWords(b *testing.B) {
	c := text()
	b.SetBytes(int64(c.bytes))
	for b.Loop() {
		for _, e := range c.entries {
			search.EachWord(e, func([]byte, int) {})
		}
	}
}

// BenchmarkBuild makes words and a segment of 100,000 entries.
func BenchmarkBuild(b *testing.B) {
	c := text()
	b.SetBytes(int64(c.bytes))
	b.ReportAllocs()
	for b.Loop() {
		_, bytes := c.segments(b, benchEntries)
		b.ReportMetric(100*float64(bytes)/float64(c.bytes), "%ofText")
	}
}

// BenchmarkMerge makes one segment of eight.
func BenchmarkMerge(b *testing.B) {
	c := text()
	eight, _ := c.segments(b, benchEntries/8)
	b.SetBytes(int64(c.bytes))
	b.ReportAllocs()
	for b.Loop() {
		bytes := 0
		_, err := segment.Merge(b.Context(), eight, func(block []byte) error { bytes += len(block); return nil })
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(100*float64(bytes)/float64(c.bytes), "%ofText")
	}
}

// BenchmarkSearch asks 50 questions of each sort for the newest 20 lines.
func BenchmarkSearch(b *testing.B) {
	c := text()
	one, _ := c.segments(b, benchEntries)
	rnd := rand.New(rand.NewPCG(9, 9))
	word := func(from, to int) string { return c.words[from+rnd.IntN(to-from)] }
	for _, sort := range []struct {
		name  string
		query func() string
	}{
		{"rare", func() string { return word(20_000, 50_000) }},
		{"frequent", func() string { return word(0, 50) }},
		{"two", func() string { return word(0, 200) + " " + word(200, 5000) }},
		{"phrase", func() string { return fmt.Sprintf("%q", word(0, 40)+" "+word(0, 40)+" "+word(0, 40)) }},
		{"phraseNowhere", func() string { return fmt.Sprintf("%q", word(0, 9)+" "+word(0, 9)+" "+word(3000, 9000)) }},
		{"prefix", func() string { w := word(500, 20_000); return "^" + w[:min(3, len(w))] }},
		{"absent", func() string { return word(0, 50_000) + "q" }},
	} {
		b.Run(sort.name, func(b *testing.B) {
			var asked []segment.Query
			for range 50 {
				q, err := search.Parse(sort.query())
				if err != nil {
					b.Fatal(err)
				}
				l := q.Lookup()
				asked = append(asked, segment.Query{All: l.All, None: l.None, Phrases: l.Phrases})
			}
			best := make([]time.Duration, len(asked))
			unsure, opened := 0, 0
			for b.Loop() {
				for i, q := range asked {
					begin := time.Now()
					n := 0
					opened = 0
					for hit, err := range segment.Search(b.Context(), one, q) {
						if err != nil {
							b.Fatal(err)
						}
						if !hit.Sure {
							opened++
							continue
						}
						if n++; n == 20 {
							break
						}
					}
					unsure = max(unsure, opened)
					if took := time.Since(begin); best[i] == 0 || took < best[i] {
						best[i] = took
					}
				}
			}
			slices.Sort(best)
			b.ReportMetric(float64(best[len(best)/2].Nanoseconds())/1000, "p50µs")
			b.ReportMetric(float64(best[len(best)*95/100].Nanoseconds())/1000, "p95µs")
			b.ReportMetric(float64(unsure), "opened")
		})
	}
}
