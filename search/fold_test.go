package search

import (
	"iter"
	"testing"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"
)

func fold(s string) string {
	var f folded
	f.add(s)
	return string(f.low)
}

// assigned yields the characters from first on, without the large planes in
// which there are none.
func assigned(first rune) iter.Seq[rune] {
	return func(yield func(rune) bool) {
		for r := first; r < 0xe1000; r++ {
			if r == 0x33480 {
				r = 0xe0000
			}
			if utf8.ValidRune(r) && !yield(r) {
				return
			}
		}
	}
}

func TestFoldingForgetsCaseAccentsAndForms(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"Hello, World_2", "hello, world_2"},
		{"Crème BRÛLÉE", "creme brulee"},
		{"e\u0301", "e"},
		{"Straße STRASSE STRAẞE", "strasse strasse strasse"},
		{"İstanbul ISTANBUL ıstanbul", "istanbul istanbul istanbul"},
		{"ΣΊΣΥΦΟΣ σίσυφος", "σισυφοσ σισυφοσ"},
		{"Йод", "иод"},
		{"eﬃcient ﬁle ① ｆｕｌｌ", "efficient file 1 full"},
		{"K Å µ", "k a μ"},
		{"soft\u00adhyphen zero\u200djoin\ufeff", "softhyphen zerojoin"},
		{"כָּתַב كَتَبَ", "כתב كتب"},
		{"がか か\u3099 ｶﾞ", "がか が ガ"},
		{"한국 \u1112\u1161\u11ab", "한국 한"},
		{"हिन्दी", "हिन्दी"},
		{"a\u00a0b", "a b"},
		{"bad\xff\xfebytes", "bad\ufffd\ufffdbytes"},
	} {
		if got := fold(tt.in); got != tt.want {
			t.Errorf("fold(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
}

// A fold that kept two forms of one letter apart would hide one from a search
// for the other.
func TestEveryLetterFoldsLikeItsOtherCases(t *testing.T) {
	for r := range assigned(0) {
		if r == 0x345 {
			continue // the iota below a Greek vowel is an accent here
		}
		want := fold(string(r))
		for o := unicode.SimpleFold(r); o != r; o = unicode.SimpleFold(o) {
			if got := fold(string(o)); got != want && o != 0x345 {
				t.Errorf("fold(%U) = %q, fold(%U) = %q", r, want, o, got)
			}
		}
	}
}

func TestFoldedTextStaysAsItIsWhenFoldedAgain(t *testing.T) {
	for r := range assigned(0) {
		if once := fold(string(r)); fold(once) != once {
			t.Errorf("%U folds to %q and then to %q", r, once, fold(once))
		}
	}
}

// Match looks at the classes of folded characters, Words at those of the
// characters before; they have to agree on where words are.
func TestClassesSurviveFolding(t *testing.T) {
	for r := range assigned(0) {
		f := folded{classes: true}
		f.add(string(r))
		for i, got := range string(f.low) {
			c := f.class[i]
			if c == upper {
				c = lower
			}
			if runeClass(got) != c {
				t.Errorf("%U: class %d, and %d when folded to %U", r, c, runeClass(got), got)
			}
		}
	}
}

// The short way for characters that keep to themselves has to give what the
// normalisation of the whole stretch gives.
func TestShortWayFoldsLikeTheLongOne(t *testing.T) {
	check := func(t interface{ Errorf(string, ...any) }, s string) {
		var short, long folded
		short.addWide(s, 0)
		long.addMelted(s, 0)
		if string(short.low) != string(long.low) {
			t.Errorf("%q (%U): %q the short way, %q the long way", s, []rune(s), short.low, long.low)
		}
	}
	for r := range assigned(utf8.RuneSelf) {
		check(t, string(r))
	}
	wide := rapid.StringOfN(rapid.RuneFrom(nil, unicode.Latin, unicode.Greek, unicode.Hebrew, unicode.Arabic, unicode.Mn,
		unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Han, unicode.Thai, unicode.Devanagari).
		Filter(func(r rune) bool { return r >= utf8.RuneSelf }), 1, 6, -1)
	rapid.Check(t, func(t *rapid.T) { check(t, wide.Draw(t, "text")) })
}

func TestEveryFoldedByteKnowsItsOrigin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "text")
		f := folded{classes: true, origins: true}
		f.add(s)
		if len(f.low) != len(f.class) || len(f.low) != len(f.from) {
			t.Fatalf("%d bytes, %d classes, %d origins", len(f.low), len(f.class), len(f.from))
		}
		for i, from := range f.from {
			if i > 0 && from < f.from[i-1] || int(from) >= len(s) || !utf8.RuneStart(s[from]) {
				t.Fatalf("%q: origins %v", s, f.from)
			}
		}
	})
}

func TestDecomposedAndComposedTextFoldAlike(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringOf(rapid.RuneFrom(nil, unicode.Latin, unicode.Greek, unicode.Cyrillic, unicode.Katakana,
			unicode.Hangul, unicode.Devanagari, unicode.Thai)).Draw(t, "text")
		if c, d := fold(norm.NFC.String(s)), fold(norm.NFD.String(s)); c != d {
			t.Fatalf("%q: %q composed, %q decomposed", s, c, d)
		}
	})
}
