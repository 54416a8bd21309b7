package redact

// keywords finds many words in one pass over a text, whatever their case. Nearly all
// positions of a text are ruled out by the classes of three bytes, whose table is small
// enough to stay beside the processor.
type keywords struct {
	class   [256]uint8                 // of a byte of a word, from 1 on; large letters have that of small ones
	classes int                        // how many were given away
	begin   [1 << (runBits - 6)]uint64 // a bit for each run of classes that a word begins with
	groups  [1 << runBits]uint16       // 1 + the index of the words of such a run
	words   [][]keyword
}

type keyword struct {
	word string // in lower case
	rule int
}

// Three classes make a run. Words have more than 31 different bytes, so that some share
// a class: what begins like a word is compared with it anyway.
const (
	classBits = 5
	runBits   = 3 * classBits
	runMask   = 1<<runBits - 1
)

func small(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c | 0x20
	}
	return c
}

// add adds a word of at least two bytes.
func (k *keywords) add(word string, rule int) {
	low := []byte(word)
	for i, c := range low {
		low[i] = small(c)
	}
	run := k.classOf(low[0])<<classBits | k.classOf(low[1])
	if len(low) > 2 {
		k.begins(run<<classBits|k.classOf(low[2]), keyword{string(low), rule})
		return
	}
	for any := range 1 << classBits {
		k.begins(run<<classBits|any, keyword{string(low), rule})
	}
}

// begins notes that a word begins with a run.
func (k *keywords) begins(run int, word keyword) {
	k.begin[run>>6] |= 1 << (run & 63)
	group := &k.groups[run]
	if *group == 0 {
		k.words = append(k.words, nil)
		*group = uint16(len(k.words))
	}
	words := &k.words[*group-1]
	*words = append(*words, word)
}

// classOf returns the class of a lower-case byte, and gives it one when it has none
// yet.
func (k *keywords) classOf(c byte) int {
	if k.class[c] == 0 {
		k.class[c] = uint8(1 + k.classes%(1<<classBits-1))
		k.classes++
		if c >= 'a' && c <= 'z' {
			k.class[c&^0x20] = k.class[c]
		}
	}
	return int(k.class[c])
}

// find calls yield for each place at which a keyword of a rule begins.
func (k *keywords) find(text string, yield func(rule, at int)) {
	run := uint(0)
	for i := range len(text) {
		run = (run<<classBits | uint(k.class[text[i]])) & runMask
		if k.begin[run>>6]>>(run&63)&1 != 0 {
			k.at(text, i-2, run, yield)
		}
	}
	// A word of two bytes may be the last one.
	run = run << classBits & runMask
	k.at(text, len(text)-2, run, yield)
}

// at calls yield for each word of a run that text has at i.
func (k *keywords) at(text string, i int, run uint, yield func(rule, at int)) {
	group := k.groups[run]
	if i < 0 || group == 0 {
		return
	}
	for _, w := range k.words[group-1] {
		if begins(text[i:], w.word) {
			yield(w.rule, i)
		}
	}
}

// begins reports whether text begins with a lower-case word, whatever the case
// of text.
func begins(text, word string) bool {
	if len(text) < len(word) {
		return false
	}
	for i := range len(word) {
		if small(text[i]) != word[i] {
			return false
		}
	}
	return true
}
