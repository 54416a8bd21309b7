package search

// FoldedWords calls yield with the words of a text as EachWord does, and takes none of
// it for ASCII.
func FoldedWords(text string, yield func(word []byte, place int)) {
	p := placer{yield: yield, place: -1}
	p.wide(text)
}
