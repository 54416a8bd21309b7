// Package redact finds secrets in text before it is written: keys, tokens and
// passwords, by a table of rules.
//
// It returns where they are and of which kind; callers decide what happens to
// them. It reads nothing, writes nothing, asks no service whether a key works,
// and never puts a secret into an error. Text without the words that the rules
// look for costs about a nanosecond per byte, and no regular expression is
// compiled before a text needs it.
//
//	r, err := redact.New(nil)
//	for _, s := range r.Find(text) { … text[s.From:s.To] … }
package redact

import (
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/tidemark-sessions/tidemark"
)

// Rule is a kind of secret. A text is matched with Regexp when it holds one of
// the Keywords, whatever their case, or when there are none.
type Rule struct {
	ID          string   // lower-case letters, digits, - and _; names the secret in its mask
	Description string   //
	Keywords    []string // of at least two bytes of ASCII
	Regexp      string   // in the syntax of package regexp
	Group       int      // the group of Regexp that is the secret, 0: all of it
	Entropy     float64  // in bits per byte; a value with less is no secret
}

// Secret is a part of a text.
type Secret struct {
	Rule     string // the ID of the rule that found it
	From, To int    // in bytes
}

// Redactor finds secrets. It never changes, and may be used from several
// goroutines.
type Redactor struct {
	rules    []*rule
	always   []int // rules without keywords
	keywords keywords
}

// rule is a Rule and how to search for it.
type rule struct {
	Rule
	start func(text string, keyword int) int     // where a match begins, -1: nowhere; nil: anywhere in the text
	reach int                                    // how far after that it may end
	weak  bool                                   // gives way to another rule that matches the beginning of the same text
	test  func(value, text string, m match) bool // nil: every match counts
	re    func() *regexp.Regexp
}

// match is the position of a match and of the secret in it.
type match struct{ from, to, secretFrom, secretTo int }

// New returns a Redactor with the built-in rules and the given ones; earlier
// given rules are more specific. ErrInvalid names a rule that cannot be used.
func New(extra []Rule) (*Redactor, error) {
	r := &Redactor{}
	for i, e := range extra {
		own, err := check(e)
		if err != nil {
			return nil, tidemark.Invalidf("redaction rule %d (%.40q): %w", i+1, e.ID, err)
		}
		if slices.ContainsFunc(r.rules, func(o *rule) bool { return o.ID == e.ID }) {
			return nil, tidemark.Invalidf("redaction rule %d (%.40q): the id is taken by an earlier rule", i+1, e.ID)
		}
		r.rules = append(r.rules, own)
	}
	r.rules = append(r.rules, builtinRules()...)
	for i, rule := range r.rules {
		if len(rule.Keywords) == 0 {
			r.always = append(r.always, i)
		}
		for _, k := range rule.Keywords {
			r.keywords.add(k, i)
		}
	}
	return r, nil
}

// Rules returns the built-in rules, the most specific first.
func Rules() []Rule {
	var rules []Rule
	for _, r := range builtinRules() {
		rules = append(rules, r.Rule)
	}
	return rules
}

// maxID bounds the id of a rule, which is part of every mask.
const maxID = 64

func check(r Rule) (*rule, error) {
	if r.ID == "" || len(r.ID) > maxID || strings.Trim(r.ID, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
		return nil, tidemark.Invalidf("an id has 1 to %d small letters, digits, - and _", maxID)
	}
	for _, k := range r.Keywords {
		if len(k) < 2 || strings.IndexFunc(k, func(c rune) bool { return c < ' ' || c > '~' }) >= 0 {
			return nil, tidemark.Invalidf("keyword %.40q: want at least two characters of ASCII", k)
		}
	}
	re, err := regexp.Compile(r.Regexp)
	switch {
	case err != nil:
		return nil, tidemark.Invalidf("regexp: %w", err)
	case re.MatchString(""):
		return nil, tidemark.Invalidf("regexp: it matches the empty text")
	case r.Group < 0 || r.Group > re.NumSubexp():
		return nil, tidemark.Invalidf("group %d: the regexp has %d", r.Group, re.NumSubexp())
	case r.Entropy < 0 || r.Entropy > 8:
		return nil, tidemark.Invalidf("entropy %g: want 0 to 8 bits", r.Entropy)
	}
	return &rule{Rule: r, re: func() *regexp.Regexp { return re }}, nil
}

// builtin has only the built-in rules.
var builtin = sync.OnceValue(func() *Redactor {
	r, _ := New(nil) // without extra rules there is no error
	return r
})

// Find returns the secrets that the built-in rules find in text.
func Find(text string) []Secret { return builtin().Find(text) }

// FindJSON is Find for JSON; see Redactor.FindJSON.
func FindJSON(raw string) []Secret { return builtin().FindJSON(raw) }

// Apply replaces each secret in text by what name returns. The secrets are in
// order and do not overlap, as Find returns them.
func Apply(text string, secrets []Secret, name func(rule, value string) string) string {
	if len(secrets) == 0 {
		return text
	}
	var b strings.Builder
	end := 0
	for _, s := range secrets {
		b.WriteString(text[end:s.From])
		b.WriteString(name(s.Rule, text[s.From:s.To]))
		end = s.To
	}
	b.WriteString(text[end:])
	return b.String()
}
