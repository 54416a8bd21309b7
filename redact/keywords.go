package redact

// keywords finds many words in one pass over a text, whatever their case. Most
// positions of a text are ruled out by looking at two bytes.
type keywords struct {
	class   [256]uint8      // of a byte that is among the first two of a word, from 1 on
	classes uint8           // how many there are
	pairs   [1 << 14]uint16 // by two classes: 1 + the index of their words
	words   [][]keyword     // grouped by their first two bytes
}

type keyword struct {
	word string // in lower case
	rule int
}

func small(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c | 0x20
	}
	return c
}

func (k *keywords) add(word string, rule int) {
	low := []byte(word)
	for i, c := range low {
		low[i] = small(c)
	}
	pair := &k.pairs[k.classOf(low[0])<<7|k.classOf(low[1])]
	if *pair == 0 {
		k.words = append(k.words, nil)
		*pair = uint16(len(k.words))
	}
	words := &k.words[*pair-1]
	*words = append(*words, keyword{string(low), rule})
}

// classOf returns the class of a lower-case byte, a new one when it has none
// yet. ASCII has fewer than 128 of them.
func (k *keywords) classOf(c byte) int {
	if k.class[c] == 0 {
		k.classes++
		k.class[c] = k.classes
		if c >= 'a' && c <= 'z' {
			k.class[c&^0x20] = k.classes
		}
	}
	return int(k.class[c])
}

// find calls yield for each place at which a keyword of a rule begins.
func (k *keywords) find(text string, yield func(rule, at int)) {
	first := 0
	for i := range len(text) {
		second := int(k.class[text[i]])
		pair := k.pairs[(first<<7|second)&(1<<14-1)]
		first = second
		if pair == 0 {
			continue
		}
		for _, w := range k.words[pair-1] {
			if begins(text[i-1:], w.word) {
				yield(w.rule, i-1)
			}
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
