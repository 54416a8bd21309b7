package tool

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// maxPattern bounds a glob pattern, and with it the regular expression.
const maxPattern = 1000

// Glob turns a glob pattern for paths below a folder into a regular expression: * and ?
// stay within a name, ** crosses folders, [a-z] is a class and {a,b} a
// choice. Go's expressions match in linear time, whatever the pattern. A
// pattern without a slash matches the name alone, at any depth.
func Glob(pattern string) (*regexp.Regexp, error) {
	switch {
	case pattern == "":
		return nil, errors.New("the pattern is empty")
	case strings.HasPrefix(pattern, "/"), strings.HasPrefix(pattern, "../"), strings.HasPrefix(pattern, storedPrefix):
		return nil, fmt.Errorf("pattern %q: it is matched with paths below a folder; name the folder in path, and leave it out here", pattern)
	case len(pattern) > maxPattern:
		return nil, fmt.Errorf("the pattern has %d bytes, at most %d are allowed", len(pattern), maxPattern)
	}
	pattern = strings.TrimPrefix(pattern, "./")
	g := globReader{rest: pattern, start: true}
	if err := g.translate(); err != nil {
		return nil, fmt.Errorf("pattern %q: %w", pattern, err)
	}
	prefix := ""
	if !strings.Contains(pattern, "/") {
		prefix = "(?:.*/)?"
	}
	re, err := regexp.Compile(`\A(?s:` + prefix + `(?:` + g.out.String() + `))\z`)
	if err != nil {
		return nil, fmt.Errorf("pattern %q: %w", pattern, err)
	}
	return re, nil
}

type globReader struct {
	rest   string
	out    strings.Builder
	braces int
	start  bool // at the start of a name
}

func (g *globReader) translate() error {
	for g.rest != "" {
		if err := g.next(); err != nil {
			return err
		}
	}
	if g.braces > 0 {
		return errors.New("a { without its }")
	}
	return nil
}

func (g *globReader) next() error {
	start := g.start
	g.start = strings.HasPrefix(g.rest, "/") || strings.HasPrefix(g.rest, "{") || strings.HasPrefix(g.rest, ",")
	switch {
	case start && g.take("**/"):
		g.out.WriteString("(?:.*/)?")
		g.start = true
	case g.take("**"):
		g.out.WriteString(".*")
	case g.take("*"):
		g.out.WriteString("[^/]*")
	case g.take("?"):
		g.out.WriteString("[^/]")
	case g.take("{"):
		g.braces++
		g.out.WriteString("(?:")
	case g.braces > 0 && g.take("}"):
		g.braces--
		g.out.WriteString(")")
	case g.braces > 0 && g.take(","):
		g.out.WriteString("|")
	case g.take("["):
		return g.class()
	case g.take(`\`):
		if g.rest == "" {
			return errors.New(`a \ at its end`)
		}
		g.literal()
	default:
		g.literal()
	}
	return nil
}

func (g *globReader) take(s string) (ok bool) {
	g.rest, ok = strings.CutPrefix(g.rest, s)
	return ok
}

func (g *globReader) literal() {
	for i := range g.rest {
		if i > 0 {
			g.out.WriteString(regexp.QuoteMeta(g.rest[:i]))
			g.rest = g.rest[i:]
			return
		}
	}
	g.out.WriteString(regexp.QuoteMeta(g.rest))
	g.rest = ""
}

// class reads what follows a [.
func (g *globReader) class() error {
	not := g.take("!") || g.take("^")
	end := strings.IndexByte(g.rest[min(1, len(g.rest)):], ']')
	if end < 0 {
		return errors.New("a [ without its ]")
	}
	members := g.rest[:end+1]
	g.rest = g.rest[end+2:]
	if strings.ContainsAny(members, "/") {
		return errors.New("a / inside of [ ]")
	}
	var class strings.Builder
	for i, r := range members {
		if i == 0 && r == '-' || strings.ContainsRune(`\[]^&~:`, r) {
			class.WriteByte('\\')
		}
		class.WriteRune(r)
	}
	if not {
		g.out.WriteString("[^/" + class.String() + "]")
		return nil
	}
	g.out.WriteString("[" + class.String() + "]")
	return nil
}
