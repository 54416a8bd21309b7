package mcpclient

import (
	"encoding/json"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

func FuzzForm(f *testing.F) {
	for _, s := range []string{"null", "{}", `{"properties":{"a":{"type":"string","enum":["x"],"enumNames":["X","Y"]}}}`, `{"properties":{"a":{"type":"array","items":{"anyOf":[{"const":"x"}]}},"b":{"type":"object"}}}`,
		`{"properties":{"a":{"type":"number","default":"x"}},"required":["a","b"]}`} {
		f.Add([]byte(s), "why")
	}
	f.Fuzz(func(t *testing.T, schema []byte, message string) {
		if !json.Valid(schema) {
			return
		}
		form, err := formOf(&sdk.ElicitParams{Message: message, RequestedSchema: json.RawMessage(schema)})
		if err != nil {
			return
		}
		if len(form.Fields) > maxFields || len(form.Message) > 4*maxAsked {
			t.Fatalf("%+v", form)
		}
		for _, field := range form.Fields {
			if field.Kind == "" || len(field.Choices) > maxChoices {
				t.Fatalf("%+v", field)
			}
		}
	})
}
