package redact

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// Find returns the secrets of text, in order and without overlaps. Overlapping
// matches of several rules become one secret, named by the most specific of
// them. Masks are not found again.
func (r *Redactor) Find(text string) []Secret {
	f := search{Redactor: r, text: text}
	r.keywords.find(text, f.hit)
	for _, i := range r.always {
		f.everywhere(i)
	}
	return f.secrets()
}

// found is a secret with the position of its rule in the table.
type found struct{ rule, from, to int }

// search is one run over a text.
type search struct {
	*Redactor
	text  string
	found []found
	until []int // by rule: everything before it is settled
}

func (f *search) hit(i, pos int) {
	if f.until == nil {
		f.until = make([]int, len(f.rules))
	}
	if pos < f.until[i] {
		return
	}
	r := f.rules[i]
	if r.start == nil {
		f.until[i] = len(f.text)
		f.everywhere(i)
		return
	}
	from := r.start(f.text, pos)
	if from < 0 {
		return
	}
	end := min(len(f.text), from+r.reach)
	if m, ok := r.next(f.text[:end], from); ok && !goesOn(f.text[:end], m.secretTo) {
		f.keep(i, f.whole(m))
		if !r.weak { // its match may be dropped, and must not hide another one then
			f.until[i] = m.secretTo
		}
	}
}

// whole extends a secret that is longer than the rule's reach to the end of its
// word.
func (f *search) whole(m match) match {
	for m.secretTo == m.to && goesOn(f.text, m.to) {
		m.to++
		m.secretTo++
	}
	return m
}

func (f *search) everywhere(i int) {
	for from := 0; from < len(f.text); {
		m, ok := f.rules[i].next(f.text, from)
		if !ok {
			return
		}
		f.keep(i, m)
		from = max(m.to, from+1)
	}
}

// next returns the first match in text at or after from.
func (r *rule) next(text string, from int) (match, bool) {
	m := r.re().FindStringSubmatchIndex(text[from:])
	if m == nil {
		return match{}, false
	}
	found := match{from + m[0], from + m[1], from + m[0], from + m[1]}
	if g := 2 * r.Group; m[g] >= 0 {
		found.secretFrom, found.secretTo = from+m[g], from+m[g+1]
	}
	return found, true
}

func (f *search) keep(i int, m match) {
	r := f.rules[i]
	value := f.text[m.secretFrom:m.secretTo]
	if value == "" || placeholder(value) || entropy(value) < r.Entropy || r.test != nil && !r.test(value, f.text, m) {
		return
	}
	f.found = append(f.found, found{i, m.secretFrom, m.secretTo})
}

// secrets orders and merges what was found.
func (f *search) secrets() []Secret {
	if len(f.found) == 0 {
		return nil
	}
	masks := maskPlaces(f.text)
	slices.SortFunc(f.found, func(a, b found) int { return cmp.Or(a.from-b.from, b.to-a.to, a.rule-b.rule) })
	var joined []found
	for _, s := range f.found {
		if slices.ContainsFunc(masks, func(m [2]int) bool { return s.from < m[1] && m[0] < s.to }) {
			continue
		}
		if n := len(joined); n > 0 && s.from < joined[n-1].to {
			joined[n-1] = f.join(joined[n-1], s)
			continue
		}
		joined = append(joined, s)
	}
	secrets := make([]Secret, len(joined))
	for i, s := range joined {
		secrets[i] = Secret{f.rules[s.rule].ID, s.from, s.to}
	}
	return secrets
}

// join merges two overlapping findings, of which a begins first. The result
// covers both, unless one of them only guessed its length.
func (f *search) join(a, b found) found {
	switch {
	case a.from == b.from && f.rules[a.rule].weak:
		return b
	case a.from == b.from && f.rules[b.rule].weak:
		return a
	}
	return found{min(a.rule, b.rule), a.from, max(a.to, b.to)}
}

// maskPlaces returns where masks are in text.
func maskPlaces(text string) (places [][2]int) {
	const opening = "[redacted:"
	for from := 0; ; {
		i := strings.Index(text[from:], opening)
		if i < 0 {
			return places
		}
		from += i
		end := strings.IndexByte(text[from:min(len(text), from+2*maxID+len(opening)+2)], ']')
		if end < 0 {
			from += len(opening)
			continue
		}
		places = append(places, [2]int{from, from + end + 1})
		from += end + 1
	}
}

func isWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z'
}

// tokenStart is where a token begins that begins with its keyword. A letter
// before it does not hide it when the letter belongs to an escape of JSON, of a
// programming language or of a URL, or to a terminal colour code.
func tokenStart(text string, i int) int {
	if i == 0 || !isWord(text[i-1]) || !isWord(text[i]) {
		return i
	}
	before := text[:i]
	switch c := text[i-1]; {
	case i >= 2 && text[i-2] == '\\' && strings.IndexByte("nrtbfv", c) >= 0,
		i >= 3 && text[i-3] == '%' && isHex(text[i-2]) && isHex(c),
		i >= 6 && strings.HasPrefix(before[i-6:], `\u00`),
		c == 'm' && strings.HasSuffix(strings.TrimRight(before[:i-1], "0123456789;"), "\x1b["):
		return i
	}
	return -1
}

// keywordStart is where a match begins that begins with its keyword, whatever
// precedes it.
func keywordStart(_ string, i int) int { return i }

// urlStart is where the scheme of a URL begins, whose :// is at i.
func urlStart(text string, i int) int {
	from := i
	for from > max(0, i-maxScheme) && (isWord(text[from-1]) || strings.IndexByte("+.-", text[from-1]) >= 0) {
		from--
	}
	return from
}

// maxScheme bounds the scheme of a URL, which is a short word.
const maxScheme = 24

// telegramStart is where the number begins whose : is at i; in URLs it follows
// the word bot.
func telegramStart(text string, i int) int {
	from := i
	for from > 0 && i-from < 11 && text[from-1] >= '0' && text[from-1] <= '9' {
		from--
	}
	if from > 0 && isWord(text[from-1]) && !strings.HasSuffix(text[:from], "bot") {
		return -1
	}
	return from
}

// azureStart is where a secret begins that has its keyword at its fourth byte.
func azureStart(text string, i int) int {
	if i < 3 || i > 3 && (isWord(text[i-4]) || strings.IndexByte("~.-", text[i-4]) >= 0) {
		return -1
	}
	return i - 3
}

func isHex(c byte) bool { return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'f' }

// goesOn reports whether a word continues at i, so that what ends there is only
// its beginning.
func goesOn(text string, i int) bool { return i < len(text) && isWord(text[i]) && isWord(text[i-1]) }

// placeholders occur in what stands for a secret in documentation.
var placeholders = []string{"example", "xxxx", "placeholder", "changeme", "change-me", "change_me", "redacted", "dummy",
	"****", "....", "${", "{{", "1234567890", "abcdefgh", "foobar"}

func placeholder(value string) bool {
	low := strings.ToLower(value)
	return slices.ContainsFunc(placeholders, func(p string) bool { return strings.Contains(low, p) })
}

// entropy returns how many bits each byte of value carries, by the frequency of
// its bytes.
func entropy(value string) float64 {
	var counts [256]int
	for i := range len(value) {
		counts[value[i]]++
	}
	bits, n := 0.0, float64(len(value))
	for _, c := range counts {
		if c > 0 {
			p := float64(c) / n
			bits -= p * math.Log2(p)
		}
	}
	return bits
}
