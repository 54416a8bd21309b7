package chat_test

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/chat"
)

func limit(n float64) *float64 { return &n }

func TestFieldsTakeWhatFits(t *testing.T) {
	colours := []chat.FieldOption{{Value: "r", Title: "Red"}, {Value: "g", Title: "Green"}}
	for name, c := range map[string]struct {
		field chat.FormField
		typed string
		want  any
		wrong bool
	}{
		"text":                {chat.FormField{Kind: chat.FieldText}, " hello ", "hello", false},
		"too short":           {chat.FormField{Kind: chat.FieldText, Min: limit(3)}, "ab", nil, true},
		"characters count":    {chat.FormField{Kind: chat.FieldText, Max: limit(2)}, "äö", "äö", false},
		"nothing":             {chat.FormField{Kind: chat.FieldText}, "", nil, false},
		"nothing, needed":     {chat.FormField{Kind: chat.FieldText, Required: true}, " ", nil, true},
		"nothing, a default":  {chat.FormField{Kind: chat.FieldText, Required: true, Default: "x"}, "", "x", false},
		"a number":            {chat.FormField{Kind: chat.FieldNumber}, "1.5", 1.5, false},
		"no number":           {chat.FormField{Kind: chat.FieldNumber}, "NaN", nil, true},
		"too much":            {chat.FormField{Kind: chat.FieldInteger, Max: limit(10)}, "11", nil, true},
		"no integer":          {chat.FormField{Kind: chat.FieldInteger}, "1.5", nil, true},
		"yes":                 {chat.FormField{Kind: chat.FieldYesNo}, "Y", true, false},
		"neither yes nor no":  {chat.FormField{Kind: chat.FieldYesNo}, "perhaps", nil, true},
		"a choice":            {chat.FormField{Kind: chat.FieldChoice, Choices: colours}, "green", "g", false},
		"a choice by number":  {chat.FormField{Kind: chat.FieldChoice, Choices: colours}, "1", "r", false},
		"no choice":           {chat.FormField{Kind: chat.FieldChoice, Choices: colours}, "3", nil, true},
		"some choices":        {chat.FormField{Kind: chat.FieldChoices, Choices: colours}, "Red, g", []any{"r", "g"}, false},
		"some wrong choices":  {chat.FormField{Kind: chat.FieldChoices, Choices: colours}, "Red,", nil, true},
		"a number that is no": {chat.FormField{Kind: chat.FieldNumber}, "1e999", nil, true},
	} {
		got, err := c.field.Parse(c.typed)
		if (err != nil) != c.wrong || err != nil && !errors.Is(err, tidemark.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(c.want, got); err == nil && diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestWhereNobodyCanBeAskedAFormIsDeclined(t *testing.T) {
	r := newRig(t, newMemory(), nil)
	asked := 0
	r.o.AskForm = func(context.Context, chat.Form) (map[string]any, error) {
		asked++
		return map[string]any{"a": "b"}, nil
	}
	if got, err := r.new().AskForm(t.Context(), chat.Form{From: "the server x"}); err != nil || got["a"] != "b" {
		t.Errorf("%v %v", got, err)
	}
	r.o.Unattended = true
	if _, err := r.new().AskForm(t.Context(), chat.Form{}); !errors.Is(err, tidemark.ErrDenied) || asked != 1 {
		t.Errorf("unattended: %v, asked %d times", err, asked)
	}
	r.o.Unattended, r.o.AskForm = false, nil
	if _, err := r.new().AskForm(t.Context(), chat.Form{}); !errors.Is(err, tidemark.ErrDenied) {
		t.Errorf("no way to ask: %v", err)
	}
}

func FuzzField(f *testing.F) {
	for _, s := range []string{"", "1", "-0", "yes", "Red", "Red,2", "1e400"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, typed string) {
		for _, kind := range []chat.FieldKind{chat.FieldText, chat.FieldNumber, chat.FieldInteger, chat.FieldYesNo, chat.FieldChoice, chat.FieldChoices} {
			v, err := chat.FormField{Kind: kind, Required: true, Choices: []chat.FieldOption{{Value: "r", Title: "Red"}}}.Parse(typed)
			if err == nil && v == nil {
				t.Fatalf("%s: %q is nothing", kind, typed)
			}
			if n, ok := v.(float64); ok && (math.IsNaN(n) || math.IsInf(n, 0)) {
				t.Fatalf("%s: %q is %v", kind, typed, n)
			}
		}
	})
}
