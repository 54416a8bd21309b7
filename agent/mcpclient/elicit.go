package mcpclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/render"
)

// A server may ask the person for something in the middle of a call. What it says
// is shown as its words, the person sees all answers before they are sent, and
// nothing is answered for them.

const (
	maxFields  = 16
	maxChoices = 64
	maxAsked   = 2 << 10 // bytes of one text of a form
)

// The answers of the protocol.
const (
	accepted  = "accept"
	declined  = "decline"
	cancelled = "cancel"
)

// elicit asks the person what a server wants to know.
func (k *client) elicit(ctx context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
	k.of.mu.Lock()
	gate := k.of.gate
	k.of.mu.Unlock()
	form, err := formOf(r.Params)
	if err == nil && gate == nil {
		err = tidemark.Deniedf("there is nobody to ask")
	}
	var answers map[string]any
	if err == nil {
		form.From = "the MCP server " + k.server.Name
		if k.server.Remote() {
			form.From += " at " + render.CleanLine(k.server.URL)
		}
		answers, err = gate.AskForm(ctx, form)
	}
	switch {
	case err == nil:
		return &sdk.ElicitResult{Action: accepted, Content: answers}, nil
	case ctx.Err() != nil:
		return &sdk.ElicitResult{Action: cancelled}, nil
	}
	k.of.notify("MCP server %s: its question was declined: %s", k.server.Name, err)
	if errors.Is(err, tidemark.ErrDenied) || errors.Is(err, tidemark.ErrUnsupported) {
		return &sdk.ElicitResult{Action: declined}, nil
	}
	return &sdk.ElicitResult{Action: cancelled}, nil
}

// property is a field in the schema of a form.
type property struct {
	Type        string   `json:"type"`
	Title       string   `json:"title"`
	Description string   `json:"description"`
	Enum        []string `json:"enum"`
	EnumNames   []string `json:"enumNames"`
	OneOf       []option `json:"oneOf"`
	Items       *struct {
		Enum  []string `json:"enum"`
		AnyOf []option `json:"anyOf"`
	} `json:"items"`
	Default   any      `json:"default"`
	Minimum   *float64 `json:"minimum"`
	Maximum   *float64 `json:"maximum"`
	MinLength *float64 `json:"minLength"`
	MaxLength *float64 `json:"maxLength"`
}

type option struct {
	Const string `json:"const"`
	Title string `json:"title"`
}

// formOf reads what a server asks for. ErrUnsupported: it is no form of flat
// fields.
func formOf(p *sdk.ElicitParams) (chat.Form, error) {
	f := chat.Form{Message: shown(p.Message)}
	if p.URL != "" || p.Mode == "url" {
		return f, tidemark.Unsupportedf("it wants a page to be opened (%s), which is not done here", shown(p.URL))
	}
	raw, err := json.Marshal(p.RequestedSchema)
	var schema struct {
		Properties map[string]property `json:"properties"`
		Required   []string            `json:"required"`
	}
	if err == nil {
		err = json.Unmarshal(raw, &schema)
	}
	switch {
	case err != nil:
		return f, tidemark.Unsupportedf("it asks in a form that is not known: %w", err)
	case len(schema.Properties) > maxFields:
		return f, tidemark.Unsupportedf("it asks for %d things at once, more than %d", len(schema.Properties), maxFields)
	}
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		field, err := schema.Properties[name].field()
		if err != nil {
			return f, tidemark.Unsupportedf("%.60q: %w", name, err)
		}
		field.Name, field.Required = name, slices.Contains(schema.Required, name)
		f.Fields = append(f.Fields, field)
	}
	slices.SortStableFunc(f.Fields, func(a, b chat.FormField) int {
		if a.Required == b.Required {
			return 0
		} else if a.Required {
			return -1
		}
		return 1
	})
	return f, nil
}

// shown is a text of a server as people see it.
func shown(text string) string { return render.Truncate(render.CleanLine(text), maxAsked) }

// field is what a property asks for.
func (p property) field() (chat.FormField, error) {
	f := chat.FormField{Title: shown(p.Title), Description: shown(p.Description), Default: p.Default, Min: p.Minimum, Max: p.Maximum}
	switch {
	case p.Type == "array" && p.Items != nil && len(p.Items.Enum)+len(p.Items.AnyOf) > 0:
		f.Kind = chat.FieldChoices
		p.Enum, p.OneOf = p.Items.Enum, p.Items.AnyOf
	case p.Type == "string" && len(p.Enum)+len(p.OneOf) > 0:
		f.Kind = chat.FieldChoice
	case p.Type == "string":
		f.Kind, f.Min, f.Max = chat.FieldText, p.MinLength, p.MaxLength
	case p.Type == "number":
		f.Kind = chat.FieldNumber
	case p.Type == "integer":
		f.Kind = chat.FieldInteger
	case p.Type == "boolean":
		f.Kind = chat.FieldYesNo
	default:
		return f, fmt.Errorf("a field of type %.40q is not known", p.Type)
	}
	for i, value := range p.Enum {
		title := value
		if i < len(p.EnumNames) {
			title = p.EnumNames[i]
		}
		f.Choices = append(f.Choices, chat.FieldOption{Value: value, Title: shown(title)})
	}
	for _, o := range p.OneOf {
		f.Choices = append(f.Choices, chat.FieldOption{Value: o.Const, Title: shown(strings.TrimSpace(o.Title))})
	}
	if len(f.Choices) > maxChoices {
		return f, fmt.Errorf("%d choices, more than %d", len(f.Choices), maxChoices)
	}
	return f, nil
}
