package file

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tidemark-sessions/tidemark/internal/yaml"
)

const (
	// maxFile is enough for ten thousand schedules.
	maxFile = 1 << 20
	// maxFilled bounds what the defaults add to a file.
	maxFilled = 1_000_000
)

// bounds are the limits of a fleet file.
func bounds() yaml.Limits {
	return yaml.Limits{
		Bytes: maxFile,
		Parts: 250_000,
		Keys:  1000, // the longest mapping that makes sense is the environment of an agent
		// A file needs seven levels.
		Depth:   32,
		Anchors: 1000,
		Values:  200_000,
	}
}

const longPrompts = "put long prompts into files of their own: system: {file: prompts/agent.md}"

// load returns the one mapping of a file, or nil when there is nothing to
// check further.
func (c *checker) load(data []byte) *yaml.Node {
	if len(data) > maxFile {
		c.report(1, 1, fmt.Sprintf("the file is larger than %d bytes", maxFile), longPrompts)
		return nil
	}
	if !c.readable(yaml.Lines(string(data))) {
		return nil
	}
	root, problems := yaml.Parse(data, bounds())
	for _, p := range problems {
		if column := c.unquotedCron(p.Line); p.Syntax && column > 0 {
			p.Column = column
			p.Message, p.Hint = "cron begins with a character of YAML's own", `put it into quotes, like cron: "*/5 * * * *" or cron: "@daily"`
		}
		c.report(p.Line, p.Column, p.Message, p.Hint)
	}
	switch {
	case root == nil && len(problems) == 0:
		c.report(1, 1, "the file is empty", "tidemark fleet init writes one to begin with")
	case root != nil && root.Shape != yaml.Map:
		c.report(root.Line, root.Column, "the file is "+string(root.Shape)+", and should be a mapping", "begin with: agents:")
		return nil
	}
	return root
}

// readable keeps the lines of a text for excerpts, and reports what cannot
// be a text that a person wrote.
func (c *checker) readable(text string) bool {
	c.lines = strings.Split(strings.ToValidUTF8(text, "\ufffd"), "\n")
	line, column := 1, 0
	for i, r := range text {
		column++
		_, width := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == '\n':
			line, column = line+1, 0
		case r == utf8.RuneError && width == 1:
			c.report(line, column, "the file is not UTF-8", "save it as UTF-8")
			return false
		case unicode.IsControl(r) && r != '\t':
			c.report(line, column, fmt.Sprintf("a control character, %U", r), fmt.Sprintf("take it out; in double quotes it can be written as \\x%02x", r))
			return false
		}
	}
	return true
}

// unquotedCron returns the column of a cron expression in a line that YAML
// takes for an alias or refuses, 0 when there is none.
func (c *checker) unquotedCron(line int) int {
	if line < 1 || line > len(c.lines) {
		return 0
	}
	before, value, ok := strings.Cut(c.lines[line-1], "cron: ")
	bare := strings.TrimLeft(value, " ")
	if !ok || bare == "" || strings.IndexByte("*@%", bare[0]) < 0 {
		return 0
	}
	return utf8.RuneCountInString(before) + len("cron: ") + len(value) - len(bare) + 1
}
