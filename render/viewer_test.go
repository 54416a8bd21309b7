package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// viewers read Markdown as programs that show it do: by the book, and with
// tables, bare addresses, footnotes and lists of definitions.
var viewers = []goldmark.Markdown{
	goldmark.New(),
	goldmark.New(goldmark.WithExtensions(extension.GFM, extension.Footnote, extension.DefinitionList)),
}

var (
	ownContext = regexp.MustCompile(`^<details><summary>Context( · [\w -]+)? · [\d.]+ k?B</summary>$`)
	ownHTML    = []string{"<details><summary>Thinking</summary>", "</details>"}
	entryHead  = regexp.MustCompile(`^((scout )?-?\d+ · |Worker scout$)`)
	anyScheme  = regexp.MustCompile(`^[^/?#]*:`)
)

// scanMarkdown looks at a document as viewers see it: no HTML but its own, no
// image, no definition, no link to what may run, and every entry with a
// section of its own.
func scanMarkdown(md string, entries int) error {
	for i, v := range viewers {
		if err := scanView(v, []byte(md), entries); err != nil {
			return fmt.Errorf("viewer %d: %w", i, err)
		}
	}
	return nil
}

func scanView(v goldmark.Markdown, source []byte, entries int) error {
	sections := 0
	err := ast.Walk(v.Parser().Parse(text.NewReader(source)), func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.HTMLBlock:
			raw := string(n.Lines().Value(source))
			if n.HasClosure() {
				raw += string(n.ClosureLine.Value(source))
			}
			if raw = strings.TrimSpace(raw); !slices.Contains(ownHTML, raw) && !ownContext.MatchString(raw) {
				return 0, fmt.Errorf("HTML %q", raw)
			}
		case *ast.RawHTML:
			return 0, fmt.Errorf("HTML %q", n.Segments.Value(source))
		case *ast.Image:
			return 0, fmt.Errorf("an image of %q", n.Destination)
		case *ast.LinkReferenceDefinition:
			return 0, fmt.Errorf("a definition of %q", n.Label)
		case *ast.Link:
			return ast.WalkContinue, scanGoal(n.Destination)
		case *ast.AutoLink:
			if n.AutoLinkType == ast.AutoLinkURL {
				return ast.WalkContinue, scanGoal(n.URL(source))
			}
		case *ast.Heading:
			_, top := n.Parent().(*ast.Document)
			switch {
			case top && n.Level == 1 && sections > 0:
				return 0, fmt.Errorf("a second title")
			case top && n.Level == 2:
				sections++
				if line := n.Lines().Value(source); !entryHead.Match(line) {
					return 0, fmt.Errorf("a section called %q", line)
				}
			}
		}
		return ast.WalkContinue, nil
	})
	if err == nil && sections != entries {
		return fmt.Errorf("%d sections for %d entries", sections, entries)
	}
	return err
}

func scanGoal(destination []byte) error {
	dest := string(util.URLEscape(destination, true))
	lower := strings.ToLower(dest)
	for _, ok := range []string{"http:", "https:", "ftp:", "mailto:"} {
		if strings.HasPrefix(lower, ok) {
			return nil
		}
	}
	if anyScheme.MatchString(dest) {
		return fmt.Errorf("a link to %q", dest)
	}
	return nil
}

func sameJSON(a, b []byte) bool {
	var x, y bytes.Buffer
	return json.Compact(&x, a) == nil && json.Compact(&y, b) == nil && x.String() == y.String()
}
