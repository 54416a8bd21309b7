package main

import (
	_ "embed"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// expected is the file that says what was done in a sample.
const expected = "expected.json"

//go:embed own.txt
var ownLines string

// usual is the number of words in a row that make a vendor's sentence, short
// the number where nothing but vendors' texts are to be found.
const usual, short = 6, 2

// own is what we said ourselves: a pattern that finds each of the texts. Tools
// write the same again and again, so what was found out is remembered.
type own struct {
	*regexp.Regexp
	done map[string]string
}

// known collects our own texts: those of own.txt, and whatever stands in an
// expected.json below a folder.
func known(dir string) (own, error) {
	texts := strings.Split(strings.TrimSpace(ownLines), "\n")
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != expected {
			return err
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		var v any
		if err := json.Unmarshal(b, &v); err != nil {
			return err
		}
		texts = append(texts, strs(v)...)
		return nil
	})
	return phrases(texts), err
}

// strs returns the texts in a JSON value.
func strs(v any) (all []string) {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		for _, x := range v {
			all = append(all, strs(x)...)
		}
	case map[string]any:
		for _, x := range v {
			all = append(all, strs(x)...)
		}
	}
	return all
}

// kept stays as it is as well: tags, which are how a tool tells its own texts
// apart, and files below the home folder of whom the samples were made by.
const kept = `</?[A-Za-z][A-Za-z0-9_-]*>|/home/tester[^\s"'<>]*`

// phrases makes the pattern. Tools break lines and trim, so a text is known by
// its lines, and space is space; the longest is tried first.
func phrases(texts []string) own {
	var all []string
	for _, t := range texts {
		for line := range strings.Lines(t) {
			if words := strings.Fields(line); len(words) > 1 {
				for i := range words {
					words[i] = regexp.QuoteMeta(words[i])
				}
				all = append(all, strings.Join(words, `\s+`))
			}
		}
	}
	slices.SortFunc(all, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	return own{regexp.MustCompile(strings.Join(append(slices.Compact(all), kept), "|")), map[string]string{}}
}

// word is what sentences are made of.
var word = regexp.MustCompile(`^["'(*\x60-]*[A-Za-z][A-Za-z'’/-]*["')*\x60.,:;!?]*$`)

// text replaces the letters of a text in which a line has so many of the
// vendor's words; all that are not our own go then. It has the same bytes but
// for the letters.
func (o own) text(s string, most int) string {
	if !mayBe(s, most) {
		return s // most are too short, and need not be searched
	}
	key := string(rune(most)) + s
	if now, ok := o.done[key]; ok {
		return now
	}
	now := o.written(s, most)
	o.done[key] = now
	return now
}

func (o own) written(s string, most int) string {
	rest := []byte(s)
	for _, k := range o.FindAllStringIndex(s, -1) {
		for i := k[0]; i < k[1]; i++ {
			if rest[i] != '\n' {
				rest[i] = ' '
			}
		}
	}
	if !speaks(string(rest), most) {
		return s
	}
	out := []byte(s)
	for i, c := range rest {
		switch {
		case 'a' <= c && c <= 'z':
			out[i] = 'x'
		case 'A' <= c && c <= 'Z':
			out[i] = 'X'
		}
	}
	return string(out)
}

// speaks reports whether a line of a text has so many words that say something.
func speaks(s string, most int) bool {
	for line := range strings.Lines(s) {
		n := 0
		for _, w := range strings.Fields(line) {
			if word.MatchString(w) && strings.Trim(w, "xX\"'(*`-)/.,:;!?’") != "" {
				n++
			}
		}
		if n >= most {
			return true
		}
	}
	return false
}

// mayBe reports whether a text could have so many words in a line, whatever
// they are: it counts runs of letters.
func mayBe(s string, most int) bool {
	n, says := 0, false
	for i := range len(s) {
		switch c := s[i] | 0x20; {
		case s[i] == '\n':
			n, says = 0, false
		case c < 'a' || c > 'z':
			says = false
		case c != 'x' && !says:
			n, says = n+1, true
		}
		if n >= most {
			return true
		}
	}
	return false
}
