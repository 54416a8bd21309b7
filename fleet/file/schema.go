package file

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/internal/expression"
	"github.com/tidemark-sessions/tidemark/model"
)

// SchemaURL is the address of the fleet file's schema, for editors.
const SchemaURL = "https://raw.githubusercontent.com/tidemark-sessions/tidemark/main/docs/reference/fleet.schema.json"

// Schema returns the JSON Schema of a fleet file, for editors that complete and
// check one while it is written. It is derived from the types that Parse fills
// in, with explanations from the template. Parse is stricter, and its messages
// name the line and the way out: references, cron expressions, zones, folders and
// secrets are beyond a schema. Whatever Parse accepts, the schema accepts.
func Schema() []byte {
	s := schemaMaker{explanations: templateExplanations()}
	root := s.object(reflect.TypeFor[File](), "")
	agent := s.object(reflect.TypeFor[Agent](), "agents")
	agent["required"] = []string{"name"}
	properties(agent)["schedules"] = listOf(s.schedule("schedules"))
	properties(root)["agents"] = merged(listOf(agent), map[string]any{"type": "array", "minItems": 1}, s.description("", "agents"))
	properties(root)["defaults"] = merged(s.defaults(), s.description("", "defaults"))
	properties(root)["version"] = merged(map[string]any{"enum": []any{1, "1", nil}}, s.description("", "version"))
	root["patternProperties"] = map[string]any{"^x-": true}
	root["required"], root["type"] = []string{"agents"}, "object"
	root["$schema"], root["$id"], root["title"] = "https://json-schema.org/draft/2020-12/schema", SchemaURL, "A fleet of Tidemark"
	text, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		panic(err) // cannot happen: maps of strings and numbers
	}
	return append(text, '\n')
}

// schemaMaker derives schemas from the types of a file.
type schemaMaker struct {
	explanations map[string]string // the template's comment on each key, by PARENT.KEY
}

// orNothing returns values, and that there may be none.
func orNothing(values []string) []any {
	var all []any
	for _, v := range values {
		all = append(all, v)
	}
	return append(all, nil)
}

// words are the values of keys that have a fixed set.
var words = map[string][]any{
	"runner":   {fleet.RunnerBuiltin, fleet.RunnerClaude, fleet.RunnerCodex, fleet.RunnerACP, fleet.RunnerCommand, nil},
	"provider": orNothing(model.Providers),
	"run_mode": {fleet.RunAutonomous, fleet.RunInteractive, fleet.RunReview, nil},
	"type":     {fleet.TypeInterval, fleet.TypeCron, fleet.TypeWebhook, fleet.TypeChat, nil},
	"missed":   {fleet.MissedSkip, fleet.MissedOnce, fleet.MissedAll, nil},
	"overlap":  {fleet.OverlapSkip, fleet.OverlapQueue, fleet.OverlapReplace, nil},
	"from":     {fleet.FromStart, fleet.FromCompletion, nil},
	"engine":   {"docker", "podman", nil},
}

const (
	spanPattern     = `^(0|([0-9]{1,9}w)?([0-9]{1,9}d)?([0-9]{1,9}h)?([0-9]{1,9}m)?([0-9]{1,9}s)?)$`
	sizePattern     = `^[0-9]+ *(B|[kKMGT]B|[KMGT]iB)?$`
	variablePattern = `^[A-Za-z_][A-Za-z0-9_]{0,127}$`
	agentPattern    = `^[A-Za-z0-9][A-Za-z0-9_-]*(\.[A-Za-z0-9][A-Za-z0-9_-]*)*$`
)

// textType is the schema of a text. It also accepts what YAML takes for a number or a
// boolean, and null, which removes a default.
func textType() map[string]any {
	return map[string]any{"type": []string{"string", "number", "boolean", "null"}}
}

func listOf(item any) map[string]any {
	return map[string]any{"type": []string{"array", "null"}, "items": item}
}

func properties(of map[string]any) map[string]any { return of["properties"].(map[string]any) }

func merged(all ...map[string]any) map[string]any {
	out := make(map[string]any)
	for _, m := range all {
		maps.Copy(out, m)
	}
	return out
}

// description returns the schema's description of a key, if the template has one.
func (s schemaMaker) description(under, key string) map[string]any {
	if text := s.explanations[under+"."+key]; text != "" {
		return map[string]any{"description": text}
	}
	return nil
}

// object returns the schema of a mapping.
func (s schemaMaker) object(t reflect.Type, key string) map[string]any {
	all := make(map[string]any)
	for i := range t.NumField() {
		if field := t.Field(i); field.IsExported() && field.Name != "Agents" && field.Name != "Schedules" && field.Name != "Off" {
			name := keyName(field)
			all[name] = merged(s.value(field.Type, name), s.description(key, name))
		}
	}
	return map[string]any{"type": []string{"object", "null"}, "properties": all, "additionalProperties": false}
}

func (s schemaMaker) value(t reflect.Type, key string) map[string]any {
	if key == "command" {
		return map[string]any{"type": []string{"string", "array", "null"}, "pattern": `^\S+$`, "items": textType(), "minItems": 1}
	}
	if all, ok := words[key]; ok {
		return map[string]any{"enum": all}
	}
	switch t {
	case reflect.TypeFor[time.Duration]():
		return map[string]any{"type": []string{"string", "integer", "null"}, "pattern": spanPattern, "minLength": 1, "minimum": 0, "maximum": 0}
	case reflect.TypeFor[System]():
		file := map[string]any{"file": map[string]any{"type": []string{"string", "null"}}}
		return map[string]any{"type": []string{"string", "number", "boolean", "object", "null"}, "properties": file, "additionalProperties": false}
	case reflect.TypeFor[Sandbox]():
		return merged(s.object(t, key), map[string]any{"type": []string{"string", "boolean", "object", "null"}, "pattern": "^(on|off|true|false)$"})
	case reflect.TypeFor[Permission](), reflect.TypeFor[Mount]():
		return map[string]any{"type": "string"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return s.value(t.Elem(), key)
	case reflect.Struct:
		return s.object(t, key)
	case reflect.Slice:
		return listOf(s.value(t.Elem(), ""))
	case reflect.Map:
		return map[string]any{"type": []string{"object", "null"}, "additionalProperties": textType(), "propertyNames": map[string]any{"pattern": variablePattern}}
	case reflect.Bool:
		return map[string]any{"type": []string{"boolean", "null"}}
	case reflect.Int64:
		return map[string]any{"type": []string{"string", "integer", "null"}, "pattern": sizePattern, "minimum": 1}
	case reflect.Int:
		return map[string]any{"type": []string{"integer", "null"}, "minimum": 0, "maximum": maxCount}
	case reflect.Float64:
		return map[string]any{"type": []string{"number", "null"}, "minimum": 0}
	}
	switch key {
	case "secret_env":
		return map[string]any{"type": []string{"string", "null"}, "pattern": variablePattern}
	case "name":
		return merged(textType(), map[string]any{"pattern": agentPattern, "maxLength": fleet.MaxAgentName})
	}
	return textType()
}

func (s schemaMaker) schedule(key string) map[string]any {
	one := s.object(reflect.TypeFor[Schedule](), key)
	one["required"] = []string{"name"}
	return one
}

// defaults returns the schema of the section defaults: an agent and a schedule,
// without the keys that cannot have a default.
func (s schemaMaker) defaults() map[string]any {
	agent, schedule := s.object(reflect.TypeFor[Agent](), "agents"), s.object(reflect.TypeFor[Schedule](), "schedules")
	delete(properties(agent), "name")
	for _, own := range keysWithoutDefault {
		delete(properties(schedule), own)
	}
	properties(agent)["schedule"] = schedule
	return agent
}

// templateKey matches a line of the template with a key, which may be commented
// out.
var templateKey = expression.WhenNeeded(`^( *)#?(- )?([a-z_]+):`)

// templateExplanations returns the template's comments on keys, by PARENT.KEY.
func templateExplanations() map[string]string {
	type level struct {
		indent int
		key    string
	}
	explanations, comments, above := make(map[string]string), []string(nil), []level(nil)
	for line := range strings.SplitSeq(string(template), "\n") {
		if comment, ok := strings.CutPrefix(strings.TrimSpace(line), "# "); ok {
			comments = append(comments, comment)
			continue
		}
		key := templateKey().FindStringSubmatch(line)
		if key == nil {
			comments = nil
			continue
		}
		indent := len(key[1]) + len(key[2])
		for len(above) > 0 && above[len(above)-1].indent >= indent {
			above = above[:len(above)-1]
		}
		under := ""
		if len(above) > 0 {
			under = above[len(above)-1].key
		}
		if name := under + "." + key[3]; explanations[name] == "" && !slices.Contains(comments, "") {
			explanations[name] = strings.Join(comments, " ")
		}
		above, comments = append(above, level{indent, key[3]}), nil
	}
	return explanations
}
