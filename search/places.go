package search

import (
	"unicode"
	"unicode/utf8"

	"github.com/tidemark-sessions/tidemark"
)

// A place counts the runs of a text, and the characters of scripts without
// spaces: a word that follows another with nothing but white space, or nothing at
// all, between them is at the next place, any other word at the one after that. So
// places alone tell whether a text has a phrase of words with spaces between them.

// MaxPlaced bounds the words of one entry that EachWord yields. Some 600 KB of
// prose have as many; what is beyond is a dump of data.
const MaxPlaced = 100_000

// EachWord calls yield with the words that an entry is found by, as often as they
// occur, and with their places; the parts of an identifier have none, which is −1. It
// reports whether that was all of them: beyond MaxPlaced it ends. A word is
// valid until yield returns.
func EachWord(e tidemark.Entry, yield func(word []byte, place int)) (all bool) {
	p := placer{yield: yield, place: -1}
	p.f.low, p.f.class = p.low[:0], p.classes[:0]
	fields(e.Blocks, p.add)
	return p.count <= MaxPlaced
}

// placer counts places.
type placer struct {
	yield func(word []byte, place int)
	f     folded
	place int  // of the run before
	apart bool // there is more than white space behind it
	count int
	word  [MaxWordBytes]byte // of ASCII, folded

	low     [2 * wideBytes]byte // where f begins
	classes [2 * wideBytes]class
}

// wideBytes is about how much of a text is folded at a time from a character beyond
// ASCII on: others are often near it.
const wideBytes = 256

// add continues with another field, on a line of its own.
func (p *placer) add(text string) {
	for len(text) > 0 && p.count <= MaxPlaced {
		chunk := text[:chunkEnd(text, chunkBytes)]
		n := p.ascii(chunk)
		if rest := chunk[n:]; rest != "" {
			wide := chunkEnd(rest, wideBytes)
			p.wide(rest[:wide])
			n += wide
		}
		text = text[n:]
	}
}

// wide continues with any text, of which no word goes on behind its end.
func (p *placer) wide(text string) {
	p.f.classes = true
	p.f.low, p.f.class = p.f.low[:0], p.f.class[:0]
	p.f.add(text)
	p.folded(p.f.low, p.f.class)
}

// ascii continues with text up to the first run that has a character beyond ASCII, and
// returns where that begins. It yields what wide would in a third of the time: nearly
// all text is ASCII, of which each byte is looked at once.
func (p *placer) ascii(text string) int {
	for i := 0; i < len(text); {
		from, first := i, asciiFolds[text[i]]
		if first < 1<<foldClass {
			p.apart = p.apart || !isSpace(text[i])
			i++
			continue
		}
		p.word[0] = byte(first)
		var rest uint16
		for i++; i < len(text); i++ {
			fold := asciiFolds[text[i]]
			if fold < 1<<foldClass {
				break
			}
			rest |= fold
			if n := i - from; n < len(p.word) {
				p.word[n] = byte(fold)
			}
		}
		head, tail := class(first>>foldClass), class(rest>>foldClass)
		if (head|tail)&inner != 0 {
			return from
		}
		p.next()
		p.put(p.word[:min(i-from, len(p.word))], p.place)
		// A word with or without a capital at its front has no parts.
		if tail != lower || head == digit {
			p.parts(text[from:i], head|tail)
		}
	}
	return len(text)
}

// parts yields the parts of a run of ASCII.
func (p *placer) parts(run string, all class) {
	if all&(all-1) == 0 {
		return // as eachPart would, for less
	}
	p.f.classes = true
	p.f.low, p.f.class = p.f.low[:0], p.f.class[:0]
	p.f.addASCII(run, 0)
	eachPart(p.f.low, p.f.class, 0, len(run), all, func(from, to int) { p.put(p.f.low[from:to], -1) })
}

// folded continues with folded text.
func (p *placer) folded(low []byte, classes []class) {
	behind := 0 // the run before
	eachRun(classes, func(from, to int, all class) {
		p.between(low[behind:from])
		behind = to
		if all == unspaced {
			p.characters(low, classes, from)
			return
		}
		p.next()
		p.put(low[from:cut(low, from, to)], p.place)
		eachPart(low, classes, from, to, all, func(from, to int) { p.put(low[from:to], -1) })
	})
	p.between(low[behind:])
}

// characters counts each character of a run. A pair stands where its first
// character does.
func (p *placer) characters(low []byte, classes []class, from int) {
	last := -1 // where the last character begins
	characters(classes, from, func(from, to int) {
		if from > last {
			last = from
			p.next()
			p.put(low[from:cut(low, from, to)], p.place)
		} else {
			p.put(low[from:cut(low, from, to)], p.place-1)
		}
	})
}

func (p *placer) put(word []byte, place int) {
	if p.count++; p.count <= MaxPlaced {
		p.yield(word, place)
	}
}

// next goes to the place of the next run.
func (p *placer) next() {
	p.place++
	if p.apart {
		p.place++
	}
	p.apart = false
}

// between looks at what stands between two runs.
func (p *placer) between(low []byte) {
	for i := 0; i < len(low) && !p.apart; {
		if c := low[i]; c < utf8.RuneSelf {
			p.apart = !isSpace(c)
			i++
			continue
		}
		r, size := utf8.DecodeRune(low[i:])
		p.apart = !unicode.IsSpace(r)
		i += size
	}
}

// isSpace reports whether a byte of ASCII is white space.
func isSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }

// Lookup is what to ask an index for that knows the places of words: lines that
// have one of the terms in each of All, none of the terms in None, and every phrase.
// Every text that the query matches is among them; Verify says that there may be
// others, and that each has to be passed to Match.
type Lookup struct {
	All     [][]tidemark.Term
	None    []tidemark.Term
	Phrases [][]tidemark.Step
	Verify  bool
}

// Lookup returns what to ask an index with places for.
func (q Query) Lookup() Lookup {
	var l Lookup
	rest := q
	rest.groups = nil
	for _, group := range q.groups {
		if a := group[0]; len(group) == 1 && !a.not && a.phrase != nil && len(a.phrase.steps) > 0 {
			l.Phrases = append(l.Phrases, a.phrase.steps)
			l.Verify = l.Verify || !a.phrase.plain
			continue
		}
		rest.groups = append(rest.groups, group)
	}
	var verify bool
	l.All, l.None, verify = rest.Terms()
	l.Verify = l.Verify || verify
	return l
}

// Phrases are those that every text has which the query matches, for an index with
// places that is asked for Terms as well.
func (q Query) Phrases() [][]tidemark.Step { return q.Lookup().Phrases }

// stepsOf returns the words of a phrase with their places, and whether a text
// that has them at such places has the phrase: it is words of scripts with spaces,
// whole ones, with white space between them and nothing else.
func stepsOf(f *folded) (steps []tidemark.Step, plain bool) {
	plain = true
	first := 0
	p := placer{place: -1}
	behind := 0
	eachRun(f.class, func(from, to int, all class) {
		p.between(f.low[behind:from])
		plain = plain && !p.apart && all != unspaced && to-from <= MaxWordBytes && f.class[from] != mark
		behind = to
		add := func(word []byte, place int, last bool) {
			if len(steps) == 0 {
				first = place
			}
			steps = append(steps, tidemark.Step{Term: tidemark.Term{Word: string(word), Prefix: last}, Place: place - first})
		}
		if all != unspaced {
			p.next()
			add(f.low[from:cut(f.low, from, to)], p.place, to == len(f.low))
			return
		}
		var char []byte
		n := 0
		p.yield = func(word []byte, place int) {
			if n++; n == 1 {
				char = append(char, word...)
			} else if n%2 == 1 {
				add(word, place, false)
			}
		}
		p.characters(f.low, f.class[:to], from)
		if n == 1 {
			add(char, p.place, false)
		}
	})
	p.between(f.low[behind:])
	return steps, plain && !p.apart && len(steps) > 0
}
