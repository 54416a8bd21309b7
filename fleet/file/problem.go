package file

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet/due"
	"github.com/tidemark-sessions/tidemark/internal/yaml"
	"github.com/tidemark-sessions/tidemark/redact"
)

// Problem is one thing that is wrong with a fleet file.
type Problem struct {
	Line    int    `json:"line"`   // from 1
	Column  int    `json:"column"` // from 1, in characters
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
	// Excerpt is the line, and below it a caret at the column; "" for a line
	// that is long or may contain a secret.
	Excerpt string `json:"excerpt,omitempty"`
}

// Problems is everything that is wrong with a fleet file, in order. It matches
// tidemark.ErrInvalid.
type Problems struct {
	Name string // of the file
	List []Problem
	More int // number left out of List
}

// Is makes it a tidemark.ErrInvalid.
func (p *Problems) Is(target error) bool { return target == tidemark.ErrInvalid }

// Error has one line NAME:LINE:COLUMN: MESSAGE for each problem, and below it
// the excerpt and the hint, indented.
func (p *Problems) Error() string {
	var b strings.Builder
	for i, problem := range p.List {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s:%d:%d: %s", p.Name, problem.Line, problem.Column, problem.Message)
		for line := range strings.SplitSeq(problem.Excerpt, "\n") {
			if line != "" {
				b.WriteString("\n    " + line)
			}
		}
		if problem.Hint != "" {
			b.WriteString("\n    hint: " + problem.Hint)
		}
	}
	if p.More > 0 {
		fmt.Fprintf(&b, "\n%s: and %d more", p.Name, p.More)
	}
	return b.String()
}

const (
	// maxProblems is more than a person reads before correcting the first.
	maxProblems = 100
	// maxExcerpt is what fits on a terminal with the indent.
	maxExcerpt = 100
)

// checker turns a text into a File and collects problems.
type checker struct {
	name     string
	o        Options
	lines    []string
	problems []Problem
	more     int // number of problems that were not kept
	seen     map[Problem]bool
	hidden   map[int]bool // lines that contain a secret
	filled   int          // number of values that came from the defaults

	// Caches: an alias and a default bring the same value again and again.
	book    due.Book
	widths  map[int]int
	zones   map[string]bool
	secrets map[*yaml.Node]bool
	prompts map[string]prompt
}

// prompt is a file that was read.
type prompt struct {
	text string
	err  error
}

func newChecker(name string, o *Options) *checker {
	c := &checker{name: name, seen: map[Problem]bool{}, hidden: map[int]bool{},
		widths: map[int]int{}, zones: map[string]bool{}, secrets: map[*yaml.Node]bool{}, prompts: map[string]prompt{}}
	if o != nil {
		c.o = *o
	}
	return c
}

// err returns the problems as an error, nil when there are none.
func (c *checker) err() error {
	if len(c.problems) == 0 {
		return nil
	}
	slices.SortStableFunc(c.problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	kept := min(len(c.problems), maxProblems)
	p := &Problems{Name: c.name, List: c.problems[:kept], More: c.more + len(c.problems) - kept}
	for i := range p.List {
		p.List[i].Excerpt = c.excerpt(p.List[i])
	}
	return p
}

// report records a problem, once: a default is checked with every agent.
func (c *checker) report(line, column int, message, hint string) {
	line = max(1, min(line, len(c.lines)))
	column = max(1, column)
	column = min(column, c.width(line)+1)
	p := Problem{Line: line, Column: column, Message: message, Hint: hint}
	switch {
	case c.seen[p]:
	case c.full():
		c.more++
	default:
		c.seen[p] = true
		c.problems = append(c.problems, p)
	}
}

// width is the number of characters of a line. It is cached: a file may be
// one long line with a thousand problems.
func (c *checker) width(line int) int {
	if line > len(c.lines) {
		return 0
	}
	if _, ok := c.widths[line]; !ok {
		c.widths[line] = utf8.RuneCountInString(c.lines[line-1])
	}
	return c.widths[line]
}

// full reports that there are more problems than anybody reads.
func (c *checker) full() bool { return len(c.problems) >= 10*maxProblems }

// hide marks lines that contain a secret, which no excerpt may show.
func (c *checker) hide(lines ...int) {
	for _, line := range lines {
		c.hidden[line] = true
	}
}

// reportAt reports a problem of a value, and reportKey one of a key.
func (c *checker) reportAt(n *yaml.Node, message, hint string) {
	c.report(n.Line, n.Column, message, hint)
}
func (c *checker) reportKey(e yaml.Entry, message, hint string) {
	c.report(e.Line, e.Column, message, hint)
}

// excerpt shows the line of a problem. What looks like a secret is not shown:
// errors end up in logs.
func (c *checker) excerpt(p Problem) string {
	if p.Line > len(c.lines) {
		return ""
	}
	line := c.lines[p.Line-1]
	if c.width(p.Line) > maxExcerpt || strings.TrimSpace(line) == "" || c.hidden[p.Line] || mayHoldSecret(line) {
		return ""
	}
	line = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) { // it would move the caret
			return ' '
		}
		return r
	}, line)
	indent := len(line) - len(strings.TrimLeft(line, " "))
	indent = min(indent, p.Column-1)
	return strings.TrimRight(line[indent:], " ") + "\n" + strings.Repeat(" ", p.Column-1-indent) + "^"
}

// mayHoldSecret reports whether a line may contain a secret: something that looks
// like one, or a value with a name such as token.
func mayHoldSecret(line string) bool {
	if len(redact.Find(line)) > 0 {
		return true
	}
	key, value, ok := strings.Cut(line, ":")
	for ok {
		words := strings.FieldsFunc(key, func(r rune) bool { return strings.ContainsRune(" -{,\"'", r) })
		if len(words) > 0 && isSecretName(words[len(words)-1]) && strings.Trim(value, " \"'") != "" {
			return true
		}
		key, value, ok = strings.Cut(value, ":")
	}
	return false
}

// isSecretName reports whether a value of this name is a secret itself, and
// not the name of a variable that has it.
func isSecretName(name string) bool {
	name = strings.ToLower(name)
	if strings.HasSuffix(name, "_env") {
		return false
	}
	for _, word := range []string{"key", "apikey", "token", "secret", "password", "passwd", "passphrase", "credential", "credentials"} {
		if name == word || strings.HasSuffix(name, "_"+word) {
			return true
		}
	}
	return false
}

// choices joins words for people: a, b or c.
func choices(all []string) string {
	if len(all) == 1 {
		return all[0]
	}
	return strings.Join(all[:len(all)-1], ", ") + " or " + all[len(all)-1]
}

// Plain lists the problems without lines and columns, for a schedule that is not
// in a file.
func (p *Problems) Plain() string {
	var all []string
	for _, problem := range p.List {
		text := problem.Message
		if problem.Hint != "" {
			text += " (" + problem.Hint + ")"
		}
		all = append(all, text)
	}
	return strings.Join(all, "\n")
}
