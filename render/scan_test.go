package render

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// A reader of HTML that is stricter than any browser: it takes the few tags
// that pages are made of, written in one way, and calls everything else a
// fault. A browser that reads the same bytes cannot see anything else in them.

// globals are attributes that each tag may have.
var globals = map[string]string{
	"class":           `(top|skip|tree|entry (system|user|assistant|tool|other|damaged)|seq|label|quiet|fact|note|text|thinking|context|worker|tool|result( failed)?|hint|input|diff|file|pair|numbered|tasks|a-[0rgybmc134]( a-[134])*|plain|definition|goal|wide|center|end|self|hl-[cskntaid]|language-[\w+#.-]+)`,
	"id":              `(transcript|(w\d+)?[eh]-?\d+|w\d+h?)`,
	"tabindex":        `(0|-1)`,
	"dir":             `auto`,
	"aria-label":      `[^<>"]+`,
	"aria-labelledby": `(w\d+)?h(-?\d+)?`,
}

// tags are the allowed tags with their own attributes. A meta tag is compared
// whole.
var tags = map[string]map[string]string{
	"html": {"lang": `en`}, "head": {}, "title": {}, "style": {}, "body": {}, "header": {}, "nav": {}, "main": {}, "footer": {},
	"section": {},
	"article": {}, "h1": {}, "h2": {}, "h3": {}, "h4": {}, "h5": {}, "h6": {}, "p": {}, "div": {}, "span": {}, "bdi": {},
	"a":       {"href": `(#(transcript|(w\d+)?e-?\d+|w\d+)|(?i:https?|mailto):[!-~]*)`, "rel": `noopener noreferrer`, "title": `[^<>"]*`},
	"details": {"open": ``}, "summary": {}, "dl": {}, "dt": {}, "dd": {}, "pre": {"aria-hidden": `true`}, "code": {}, "del": {}, "ins": {},
	"em": {}, "strong": {}, "blockquote": {}, "ul": {}, "ol": {"start": `\d+`}, "li": {}, "table": {}, "tr": {}, "td": {},
	"th": {"scope": `col`}, "figure": {}, "figcaption": {}, "br": {}, "hr": {},
	"img":  {"loading": `lazy`, "alt": `[^<>"]*`, "src": `data:image/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/]*=*`},
	"time": {"datetime": `[-0-9T:Z]+`},
}

// phrasing are the tags that may stand within a paragraph, a heading or the
// line of a folded block: a browser ends those where another tag begins.
var (
	phrasing = []string{"a", "span", "bdi", "code", "del", "ins", "em", "strong", "br", "time"}
	lineTags = []string{"p", "h1", "h2", "h3", "h4", "h5", "h6", "summary", "pre", "dt", "title", "time", "figcaption"}
	voidTags = []string{"br", "hr", "img"}
)

var (
	tagForm   = regexp.MustCompile(`^<(/?)([a-z0-9]+)((?: [a-z-]+(?:="[^"<]*")?)*)>`)
	attrForm  = regexp.MustCompile(` ([a-z-]+)(?:="([^"<]*)")?`)
	ampForm   = regexp.MustCompile(`^&(lt|gt|amp|#34|#39);`)
	metaForm  = regexp.MustCompile(`(?m)^<meta .*>$`)
	attrForms = map[string]*regexp.Regexp{}
)

var wantMeta = []string{
	`<meta charset="utf-8">`,
	`<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src ` + StyleHash() +
		`; img-src data:; base-uri 'none'; form-action 'none'">`,
	`<meta name="viewport" content="width=device-width, initial-scale=1">`,
	`<meta name="referrer" content="no-referrer">`,
	`<meta name="color-scheme" content="light dark">`,
}

// scanPage returns what is wrong with a whole page.
func scanPage(page string) error {
	page, ok := strings.CutPrefix(page, "<!doctype html>\n")
	if !ok {
		return fmt.Errorf("no doctype")
	}
	page, ok = strings.CutSuffix(page, "</html>\n")
	if !ok {
		return fmt.Errorf("no end")
	}
	shell, rest, ok := strings.Cut(page, "<style>"+style+"</style>")
	if !ok || strings.Contains(rest, "<style") || strings.Contains(shell, "<style") {
		return fmt.Errorf("its style is not the style")
	}
	if got := metaForm.FindAllString(shell, -1); !slices.Equal(got, wantMeta) {
		return fmt.Errorf("meta tags are %q", got)
	}
	return scanTags(metaForm.ReplaceAllString(shell, "")+rest+"</html>\n", nil)
}

// scanTags returns what is wrong with a part of a page that stands within the
// open tags.
func scanTags(s string, open []string) error {
	for at := 0; at < len(s); {
		rest := s[at:]
		switch {
		case rest[0] == '<':
			m := tagForm.FindStringSubmatch(rest)
			if m == nil {
				return fmt.Errorf("not a tag at %q", rest[:min(len(rest), 80)])
			}
			var err error
			if open, err = scanTag(open, m[2], m[1] != "", m[3]); err != nil {
				return fmt.Errorf("%w at %q", err, s[max(at-60, 0):min(at+80, len(s))])
			}
			at += len(m[0])
		case rest[0] == '&':
			m := ampForm.FindString(rest)
			if m == "" {
				return fmt.Errorf("a bare & at %q", rest[:min(len(rest), 40)])
			}
			at += len(m)
		case rest[0] == '>':
			return fmt.Errorf("a bare > at %q", s[max(at-40, 0):at+1])
		default:
			at++
		}
	}
	if len(open) > 0 {
		return fmt.Errorf("%v left open", open)
	}
	return nil
}

func scanTag(open []string, name string, ends bool, attrs string) ([]string, error) {
	own, ok := tags[name]
	switch {
	case !ok:
		return nil, fmt.Errorf("tag %s", name)
	case ends && (len(open) == 0 || open[len(open)-1] != name || attrs != ""):
		return nil, fmt.Errorf("%s ended within %v", name, open)
	case ends:
		return open[:len(open)-1], nil
	}
	for _, m := range attrForm.FindAllStringSubmatch(attrs, -1) {
		form, ok := own[m[1]]
		if !ok {
			form, ok = globals[m[1]]
		}
		if !ok {
			return nil, fmt.Errorf("attribute %s of %s", m[1], name)
		}
		re := attrForms[form]
		if re == nil {
			re = regexp.MustCompile("^(?:" + form + ")$")
			attrForms[form] = re
		}
		if !re.MatchString(m[2]) {
			return nil, fmt.Errorf("value %q of %s in %s", m[2], m[1], name)
		}
	}
	if name == "a" && slices.Contains(open, "a") {
		return nil, fmt.Errorf("a link in a link")
	}
	for _, outer := range open {
		if slices.Contains(lineTags, outer) && !slices.Contains(phrasing, name) && !(outer == "summary" && name == "code") {
			return nil, fmt.Errorf("%s within %s", name, outer)
		}
	}
	if slices.Contains(voidTags, name) {
		return open, nil
	}
	return append(open, name), nil
}
