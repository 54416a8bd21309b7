package tool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
)

// The arguments of a tool are a struct of strings, ints, bools and a request to
// the sandbox. Its tags are the only source of both the schema that the model
// is shown and the checks of its calls:
//
//	Path string `json:"path" say:"what it is" need:"yes"`

// schemaOf returns the JSON Schema of an arguments struct. It is built by
// hand because its bytes must never change order: they are part of the prefix
// that providers cache.
func schemaOf(args any) json.RawMessage {
	var props, need []string
	for _, f := range reflect.VisibleFields(reflect.TypeOf(args)) {
		name := quote(f.Tag.Get("json"))
		if f.Type == reflect.TypeFor[request]() {
			props = append(props, name+":"+requestSchema)
			continue
		}
		props = append(props, fmt.Sprintf(`%s:{"type":%s,"description":%s}`, name, quote(kindName(f.Type)), quote(f.Tag.Get("say"))))
		if f.Tag.Get("need") != "" {
			need = append(need, name)
		}
	}
	return json.RawMessage(`{"type":"object","properties":{` + strings.Join(props, ",") +
		`},"required":[` + strings.Join(need, ",") + `],"additionalProperties":false}`)
}

func quote(s string) string {
	b, _ := json.Marshal(s) // strings always encode
	return string(b)
}

func kindName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Int:
		return "integer"
	case reflect.Bool:
		return "boolean"
	}
	return "string"
}

// readArgs fills the arguments struct that into points to. Its error is a
// sentence for the model.
func readArgs(input json.RawMessage, into any) error {
	fields, err := readObject(input)
	if err != nil {
		return err
	}
	v := reflect.ValueOf(into).Elem()
	var names []string
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name := f.Tag.Get("json")
		names = append(names, name)
		raw, given := fields[name]
		delete(fields, name)
		if !given || string(raw) == "null" {
			if f.Tag.Get("need") != "" {
				return fmt.Errorf("the argument %q is missing: %s", name, f.Tag.Get("say"))
			}
			continue
		}
		if err := readField(raw, v.Field(i)); err != nil {
			return fmt.Errorf("the argument %q: %w", name, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		return fmt.Errorf("there is no argument %.60q; this tool takes: %s", name, strings.Join(names, ", "))
	}
	return nil
}

func readObject(input json.RawMessage) (map[string]json.RawMessage, error) {
	if len(bytes.TrimSpace(input)) == 0 {
		return nil, nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(input, &fields); err != nil {
		if json.Valid(input) {
			return nil, fmt.Errorf("the arguments must be a JSON object, not %s", jsonKind(input))
		}
		return nil, fmt.Errorf("the arguments are not valid JSON (%v); send the call again with all of them", err)
	}
	return fields, nil
}

func readField(raw json.RawMessage, v reflect.Value) error {
	switch v.Kind() {
	case reflect.String:
		var s string
		if json.Unmarshal(raw, &s) != nil {
			return fmt.Errorf("want a string, got %s", jsonKind(raw))
		}
		v.SetString(s)
	case reflect.Int:
		// Models also write whole numbers as 10.0.
		var n float64
		if json.Unmarshal(raw, &n) != nil || n != math.Trunc(n) || math.Abs(n) > math.MaxInt32 {
			return fmt.Errorf("want a whole number, got %.40s", raw)
		}
		v.SetInt(int64(n))
	case reflect.Bool:
		var b bool
		if json.Unmarshal(raw, &b) != nil {
			return fmt.Errorf("want true or false, got %s", jsonKind(raw))
		}
		v.SetBool(b)
	case reflect.Struct:
		return readRequest(raw, v.Addr().Interface().(*request))
	}
	return nil
}

// readRequest reads what a call requests of the sandbox.
func readRequest(raw json.RawMessage, into *request) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if d.Decode(into) != nil {
		return fmt.Errorf(`want {"allow_hosts": ["HOST"], "allow_write": ["/absolute/folder"]}, got %.100s`, raw)
	}
	return nil
}

func jsonKind(raw json.RawMessage) string {
	raw = bytes.TrimSpace(raw)
	switch {
	case len(raw) == 0:
		return "nothing"
	case raw[0] == '{':
		return "an object"
	case raw[0] == '[':
		return "an array"
	case raw[0] == '"':
		return "a string"
	case raw[0] == 't', raw[0] == 'f':
		return "a boolean"
	case raw[0] == 'n':
		return "null"
	}
	return "a number"
}
