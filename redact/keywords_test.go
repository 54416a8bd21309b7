package redact

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestEveryPlaceOfEveryKeywordIsFound(t *testing.T) {
	type place struct{ rule, at int }
	rapid.Check(t, func(t *rapid.T) {
		// Two bytes apart by one class are among these, and two that share one.
		bytes := rapid.SampledFrom([]byte("abAB01-_:. ~éz!#$%&'()*+,/;<=>?@[]^{|}2345678cdefghijklmnopq"))
		words := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string {
			return string(rapid.SliceOfN(rapid.ByteRange(' ', '~'), 2, 5).Draw(t, "word"))
		}), 1, 60).Draw(t, "words")
		var k keywords
		for i, w := range words {
			k.add(w, i)
		}
		pieces := rapid.SliceOfN(rapid.OneOf(rapid.SampledFrom(words), rapid.Map(bytes, func(b byte) string { return string([]byte{b}) })), 0, 30).Draw(t, "text")
		text := strings.Join(pieces, "")
		if len(pieces) > 0 && rapid.Bool().Draw(t, "large") {
			text = strings.ToUpper(text)
		}
		var want, got []place
		for at := range len(text) {
			for i, w := range words {
				if begins(text[at:], strings.ToLower(w)) {
					want = append(want, place{i, at})
				}
			}
		}
		k.find(text, func(rule, at int) { got = append(got, place{rule, at}) })
		if !slices.Equal(got, want) {
			t.Fatalf("keywords %q in %q: found %v, want %v", words, text, got, want)
		}
	})
}
