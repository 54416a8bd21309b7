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

// expected is the file that describes what was done in a sample.
const expected = "expected.json"

//go:embed own.txt
var ownLines string

// usual is the number of consecutive words that make a vendor's sentence,
// short the number where only vendors' texts are found.
const usual, short = 6, 2

// own is what we wrote ourselves: a pattern that finds each of the texts.
// Tools repeat themselves, so results are cached.
type own struct {
	*regexp.Regexp
	done map[string]string
}

// known collects our own texts: those of own.txt, and all in an
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

// kept also stays unchanged: tags, by which a tool marks its own texts, and
// files below the home folder of the user who made the samples.
const kept = `</?[A-Za-z][A-Za-z0-9_-]*>|/home/tester[^\s"'<>]*`

// phrases builds the pattern. Tools break lines and trim, so a text is
// recognised by its lines, with any white space; the longest is tried first.
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

// text replaces the letters of a text in which a line has at least most of
// the vendor's words; then everything that is not our own is replaced. Only
// letters change.
func (o own) text(s string, most int) string {
	if !mayBe(s, most) {
		return s // most texts are too short, and need no search
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

// speaks reports whether a line of a text has at least most meaningful words.
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

// mayBe reports whether a text could have that many words in a line at all:
// it counts runs of letters.
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
