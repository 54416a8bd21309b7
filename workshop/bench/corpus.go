package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// corpus is text like that of people and agents, some 1 KB per entry: a few
// words are everywhere and most are rare, as in any language, and tools answer
// with code, paths and numbers. Entry number i is always the same.
type corpus struct {
	entries int
	words   []string // the most frequent first
	names   []string // identifiers of programs, the most frequent first
}

const (
	corpusWords   = 50_000
	corpusNames   = 50_000
	corpusSession = 500 // entries
	// rareEvery is the number of entries per entry with a word of its own.
	rareEvery = 1000
)

// The most frequent words are those of English.
const frequentWords = "the of and to in is it that for on with as be this file not are was at by from or have an we can test error which all if has code there when run will one so no but what use line then more same after first function only into other value does may now also read write return call while"

func newCorpus(entries int) *corpus {
	c := &corpus{entries: entries, words: strings.Fields(frequentWords)}
	var (
		onsets = strings.Fields("b c d f g h l m n p r s t v w br cl dr fl gr pl pr st tr sh ch th")
		vowels = strings.Fields("a e i o u ai ea ou")
		codas  = []string{"", "n", "r", "s", "t", "l", "d", "m", "nt", "rd", "st", "ck"}
		ends   = []string{"", "", "s", "ed", "ing", "er", "ion", "ly"}
	)
	rnd := rand.New(rand.NewPCG(3, 1))
	of := func(parts []string) string { return parts[rnd.IntN(len(parts))] }
	known := make(map[string]bool)
	for _, w := range c.words {
		known[w] = true
	}
	for len(c.words) < corpusWords {
		syllables := 1 + rnd.IntN(2)
		if len(c.words) > 2000 {
			syllables++ // rare words are longer
		}
		var w strings.Builder
		for range syllables {
			w.WriteString(of(onsets) + of(vowels) + of(codas))
		}
		w.WriteString(of(ends))
		if !known[w.String()] {
			known[w.String()] = true
			c.words = append(c.words, w.String())
		}
	}
	s := c.scribe(-1)
	for range corpusNames {
		c.names = append(c.names, s.newName())
	}
	return c
}

// rare returns the word that only entry n*rareEvery has; no entry has it if
// there is no such entry.
func rare(n int) string {
	const letters = "bcdfghjklmnprstvwz"
	w := []byte("qx")
	for range 5 {
		w = append(w, letters[n%len(letters)])
		n /= len(letters)
	}
	return string(w)
}

// rares is how many rare words there are.
func (c *corpus) rares() int { return (c.entries + rareEvery - 1) / rareEvery }

// session returns the entries of one session, and what it is about.
func (c *corpus) session(n int) (tidemark.Session, []tidemark.Entry) {
	from := n * corpusSession
	var all []tidemark.Entry
	for i := from; i < min(from+corpusSession, c.entries); i++ {
		all = append(all, c.entry(i))
	}
	s := c.scribe(from)
	return tidemark.Session{Title: strings.TrimSpace(s.prose(40)), Model: "demo", Agent: "bench", Project: project(n)}, all
}

func (c *corpus) sessions() int { return (c.entries + corpusSession - 1) / corpusSession }

// entry returns entry number i: a question, an answer that calls a tool, what
// the tool says, an answer. The sessions are spread over a year.
func (c *corpus) entry(i int) tidemark.Entry {
	s := c.scribe(i)
	var e tidemark.Entry
	switch i % 4 {
	case 0:
		e = tidemark.Say(tidemark.User, s.prose(500))
		if i%rareEvery == 0 {
			e.Blocks = append(e.Blocks, tidemark.Text("see commit "+rare(i/rareEvery)+" for that"))
		}
	case 1:
		e = tidemark.Say(tidemark.Assistant, s.prose(600))
		input, _ := json.Marshal(map[string]any{"path": s.path(), "command": s.prose(60), "limit": s.rnd.IntN(1000)})
		e.Blocks = append(e.Blocks, tidemark.Block{Type: tidemark.BlockToolUse, ID: s.number(), Name: "read_file", Input: input})
	case 2:
		e = tidemark.Entry{Kind: tidemark.KindMessage, Role: tidemark.Tool}
		e.Blocks = []tidemark.Block{{Type: tidemark.BlockToolResult, ToolUseID: s.number(), Text: s.code(1900)}}
	case 3:
		e = tidemark.Say(tidemark.Assistant, s.prose(1000))
		e.Model, e.Usage = "demo", &tidemark.Usage{InputTokens: int64(i), OutputTokens: 300}
	}
	const year = 365 * 24 * time.Hour
	begin := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC).Add(year / time.Duration(c.sessions()) * time.Duration(i/corpusSession))
	e.At = begin.Add(time.Duration(i%corpusSession)*20*time.Second + time.Duration(s.rnd.IntN(20_000))*time.Millisecond)
	return e
}

// scribe writes one entry.
type scribe struct {
	c    *corpus
	rnd  *rand.Rand
	zipf *rand.Zipf
}

func (c *corpus) scribe(i int) *scribe {
	rnd := rand.New(rand.NewPCG(uint64(i), 7))
	return &scribe{c, rnd, rand.NewZipf(rnd, 1.08, 2.7, min(corpusWords, corpusNames)-1)}
}

func (s *scribe) word() string { return s.c.words[s.zipf.Uint64()] }

func (s *scribe) number() string { return fmt.Sprintf("call_%06x", s.rnd.IntN(1<<24)) }

// prose returns sentences of some n bytes.
func (s *scribe) prose(n int) string {
	var b strings.Builder
	for b.Len() < n {
		w := s.word()
		b.WriteString(strings.ToUpper(w[:1]) + w[1:])
		for range 4 + s.rnd.IntN(12) {
			b.WriteByte(' ')
			switch s.rnd.IntN(40) {
			case 0:
				b.WriteString("`" + s.identifier() + "`")
			case 1:
				b.WriteString(s.path())
			case 2:
				b.WriteString(s.word() + ",")
			default:
				b.WriteString(s.word())
			}
		}
		b.WriteString([]string{". ", ".\n", "? ", ". "}[s.rnd.IntN(4)])
	}
	return b.String()
}

// code returns lines of code and of logs, some n bytes.
func (s *scribe) code(n int) string {
	var b strings.Builder
	for b.Len() < n {
		switch s.rnd.IntN(4) {
		case 0:
			fmt.Fprintf(&b, "func %s(%s string) error {\n", s.identifier(), s.word())
		case 1:
			fmt.Fprintf(&b, "\t%s := %s.%s(%s, %d)\n", s.word(), s.word(), s.identifier(), s.word(), s.rnd.IntN(100))
		case 2:
			fmt.Fprintf(&b, "%s:%d: %s %s %s\n", s.path(), s.rnd.IntN(900), s.word(), s.word(), s.word())
		case 3:
			fmt.Fprintf(&b, "\t// %s %s %s %s %s\n", s.word(), s.word(), s.word(), s.word(), s.word())
		}
	}
	return b.String()
}

// identifier returns one of the names that programs use over and over.
func (s *scribe) identifier() string { return s.c.names[s.zipf.Uint64()] }

// newName joins two or three words as programs do.
func (s *scribe) newName() string {
	w := s.word()
	for range 1 + s.rnd.IntN(2) {
		next := s.word()
		if s.rnd.IntN(3) == 0 {
			w += "_" + next
		} else {
			w += strings.ToUpper(next[:1]) + next[1:]
		}
	}
	return w
}

func (s *scribe) path() string { return "src/" + s.word() + "/" + s.identifier() + ".go" }
