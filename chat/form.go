package chat

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tidemark-sessions/tidemark"
)

// Form is what somebody other than the agent wants to know from the person, such
// as an MCP server in the middle of a call.
type Form struct {
	From    string // who asks and gets the answers, in a few words
	Message string // why, in their words
	Fields  []FormField
}

// FieldKind is what a field takes.
type FieldKind string

// The kinds of fields.
const (
	FieldText    FieldKind = "text"
	FieldNumber  FieldKind = "number"
	FieldInteger FieldKind = "integer"
	FieldYesNo   FieldKind = "yes or no"
	FieldChoice  FieldKind = "choice"  // one of Choices
	FieldChoices FieldKind = "choices" // some of Choices, with commas between them
)

// FormField is one thing that is asked for.
type FormField struct {
	Name, Title, Description string
	Kind                     FieldKind
	Required                 bool
	Choices                  []FieldOption
	Default                  any // what an empty answer means; nil: nothing
	// Min and Max bound a number, or the length of a text; nil: nothing does.
	Min, Max *float64
}

// FieldOption is a value of a field, with what it is called.
type FieldOption struct{ Value, Title string }

// Label is what people call the field.
func (f FormField) Label() string { return cmp.Or(f.Title, f.Name) }

// Parse reads what a person typed. Nothing typed is the default, and nil where
// the field may be left out. What does not fit is ErrInvalid.
func (f FormField) Parse(typed string) (any, error) {
	typed = strings.TrimSpace(typed)
	if typed == "" {
		if f.Default == nil && f.Required {
			return nil, tidemark.Invalidf("%s is needed", f.Label())
		}
		return f.Default, nil
	}
	switch f.Kind {
	case FieldYesNo:
		switch strings.ToLower(typed) {
		case "y", "yes", "true":
			return true, nil
		case "n", "no", "false":
			return false, nil
		}
		return nil, tidemark.Invalidf("want yes or no")
	case FieldNumber, FieldInteger:
		n, err := strconv.ParseFloat(typed, 64)
		if err != nil || math.IsNaN(n) || math.IsInf(n, 0) || f.Kind == FieldInteger && n != math.Trunc(n) {
			return nil, tidemark.Invalidf("want a number of kind %s", f.Kind)
		}
		return n, f.within(n, "")
	case FieldChoice:
		return f.choose(typed)
	case FieldChoices:
		var all []any
		for one := range strings.SplitSeq(typed, ",") {
			v, err := f.choose(strings.TrimSpace(one))
			if err != nil {
				return nil, err
			}
			all = append(all, v)
		}
		return all, nil
	}
	return typed, f.within(float64(utf8.RuneCountInString(typed)), " characters")
}

// within checks the bounds of a number, or of a length.
func (f FormField) within(n float64, unit string) error {
	switch {
	case f.Min != nil && n < *f.Min:
		return tidemark.Invalidf("want at least %v%s", *f.Min, unit)
	case f.Max != nil && n > *f.Max:
		return tidemark.Invalidf("want at most %v%s", *f.Max, unit)
	}
	return nil
}

// choose returns the value that a person means by its title, itself or its
// number.
func (f FormField) choose(typed string) (any, error) {
	i := slices.IndexFunc(f.Choices, func(o FieldOption) bool { return typed == o.Value || strings.EqualFold(typed, o.Title) })
	if n, err := strconv.Atoi(typed); i < 0 && err == nil && 0 < n && n <= len(f.Choices) {
		i = n - 1
	}
	if i < 0 {
		return nil, tidemark.Invalidf("there is no choice %.60q", typed)
	}
	return f.Choices[i].Value, nil
}

// AskForm asks the person for something that somebody else wants to know. It
// waits while another question is asked. ErrDenied says why there are no answers;
// another error means that the person left the question.
func (c *Chat) AskForm(ctx context.Context, f Form) (map[string]any, error) {
	switch {
	case c.o.Unattended:
		return nil, tidemark.Deniedf("%s wants to know something, and nobody is there to ask", f.From)
	case c.o.AskForm == nil:
		return nil, tidemark.Deniedf("%s wants to know something, and there is no way to ask for it here", f.From)
	}
	select {
	case c.asking <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-c.asking }()
	answers, err := c.o.AskForm(ctx, f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.From, err)
	}
	return answers, nil
}
