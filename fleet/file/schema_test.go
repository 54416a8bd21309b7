package file

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/tidemark-sessions/tidemark/internal/yaml"
)

const schemaFile = "../../docs/reference/fleet.schema.json"

func TestTheSchemaInTheDocsIsTheOneThatIsMade(t *testing.T) {
	if *update {
		if err := os.WriteFile(schemaFile, Schema(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if have, err := os.ReadFile(schemaFile); err != nil || !bytes.Equal(have, Schema()) {
		t.Errorf("%s is not what Schema returns, %v: go test ./fleet/file -run Schema -update", schemaFile, err)
	}
	if !strings.HasPrefix(string(Template()), "# yaml-language-server: $schema="+SchemaURL+"\n") {
		t.Error("the template does not name its schema first, where editors look")
	}
}

func schemaOf(t testing.TB) *jsonschema.Resolved {
	t.Helper()
	var s jsonschema.Schema
	if err := json.Unmarshal(Schema(), &s); err != nil {
		t.Fatal(err)
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return resolved
}

// plainOf is a value as JSON has it.
func plainOf(n *yaml.Node) any {
	switch n.Shape {
	case yaml.Map:
		out := map[string]any{}
		for _, e := range n.Entries {
			out[e.Key] = plainOf(e.Value)
		}
		return out
	case yaml.List:
		out := []any{}
		for _, item := range n.Items {
			out = append(out, plainOf(item))
		}
		return out
	case yaml.Bool:
		return strings.EqualFold(n.Text, "true")
	case yaml.Number:
		if f, err := strconv.ParseFloat(strings.ReplaceAll(n.Text, "_", ""), 64); err == nil {
			return f
		}
	case yaml.Null:
		return nil
	}
	return n.Text
}

func bySchema(s *jsonschema.Resolved, text []byte) error {
	root, _ := yaml.Parse(text, bounds())
	if root == nil {
		return nil
	}
	return s.Validate(plainOf(root))
}

func TestWhatParseTakesTheSchemaTakes(t *testing.T) {
	s := schemaOf(t)
	lines := strings.Split(string(Template()), "\n")
	large, err := os.ReadFile("testdata/large.yaml")
	if err != nil {
		t.Fatal(err)
	}
	samples := [][]byte{Template(), []byte(uncommented(lines, examples(lines)...)), large, thousands(),
		[]byte(agentWith("sandbox: off\n    runner: claude")), []byte(agentWith("command: make\n    runner: command")), []byte(agentWith("limits: {timeout: 1w2d}\n    keep:")),
		[]byte("version: 1\nx-mine: [1, {a: b}]\nagents:\n  - {name: 7, limits: {output_bytes: 10MB}, description: 1.5}\n")}
	for _, block := range examples(lines) {
		samples = append(samples, []byte(uncommented(lines, block)))
	}
	for i, text := range samples {
		if _, err := Parse("f", text, inFolder()); err != nil {
			t.Errorf("sample %d: %v", i, err)
		}
		if err := bySchema(s, text); err != nil {
			t.Errorf("sample %d: the schema refuses %.300s: %v", i, text, err)
		}
	}
}

func TestTheSchemaRefusesWhatEditorsShouldMark(t *testing.T) {
	s := schemaOf(t)
	for _, text := range []string{
		"version: 1\n", "agents: []\n", "agents: x\n", "version: 2\nagents: [{name: a}]\n", "agents: [{description: no name}]\n", "zzz: 1\nagents: [{name: a}]\n",
		"limits: {max_concurrent: many}\nagents: [{name: a}]\n", "defaults: {name: a}\nagents: [{name: a}]\n", "defaults: {schedule: {every: 1h}}\nagents: [{name: a}]\n",
		agentWith("runner: nothing"), agentWith("promt: x"), agentWith("limits: {timeout: 90}"), agentWith("limits: {timeout: soon}"), agentWith("limits: {output_bytes: 10 apples}"),
		agentWith("command: make test"), agentWith("sandbox: of"), agentWith("env: [A]"), agentWith("env: {1A: x}"), agentWith("schedules: [{every: 1h, prompt: x}]"),
		scheduleWith("evry: 1h"), scheduleWith("type: intervall"), scheduleWith("every: 1h\n        missed: never"), scheduleWith("every: 1h\n        resume: perhaps"),
		"agents: [{name: a b}]\n",
	} {
		if _, err := Parse("f", []byte(text), inFolder()); err == nil {
			t.Errorf("Parse takes %q", text)
		}
		if bySchema(s, []byte(text)) == nil {
			t.Errorf("the schema takes %q", text)
		}
	}
}

// The schema is made of the types, and the checks have readers by key: both know
// the same keys.
func TestTheSchemaHasTheKeysThatAreRead(t *testing.T) {
	c := newChecker("", nil)
	var root struct {
		Properties struct {
			Agents struct {
				Items struct {
					Properties map[string]json.RawMessage `json:"properties"`
				} `json:"items"`
			} `json:"agents"`
		} `json:"properties"`
	}
	if err := json.Unmarshal(Schema(), &root); err != nil {
		t.Fatal(err)
	}
	agent := root.Properties.Agents.Items.Properties
	if got, want := slices.Sorted(maps.Keys(agent)), slices.Sorted(maps.Keys(c.agentFields(new(Agent)))); !slices.Equal(got, want) {
		t.Errorf("of an agent: %v, want %v", got, want)
	}
	var schedules struct {
		Items struct {
			Properties map[string]json.RawMessage `json:"properties"`
		} `json:"items"`
	}
	if err := json.Unmarshal(agent["schedules"], &schedules); err != nil {
		t.Fatal(err)
	}
	if got, want := slices.Sorted(maps.Keys(schedules.Items.Properties)), slices.Sorted(maps.Keys(c.scheduleFields(new(Schedule)))); !slices.Equal(got, want) {
		t.Errorf("of a schedule: %v, want %v", got, want)
	}
}
