package file

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestAFileSaysWhatHoldsItsAgents(t *testing.T) {
	f, err := Parse("f", []byte(`
defaults:
  runner: command
  command: ["true"]
  sandbox: {allow_hosts: [example.org], allow_read: [/srv/data]}
agents:
  - name: as-all
  - {name: off, sandbox: off}
  - {name: on, sandbox: on}
  - {name: more, sandbox: {allow_hosts: ["localhost:8080"], allow_write: [../shared]}}
  - {name: none, sandbox: null}
  - {name: boxed, container: {image: i}}
`), inFolder())
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]Sandbox{
		"as-all": {Hosts: []string{"example.org"}, Read: []string{"/srv/data"}},
		"off":    {Off: true},
		"on":     {},
		"more":   {Hosts: []string{"localhost:8080"}, Write: []string{"/srv/shared"}, Read: []string{"/srv/data"}},
		"none":   {},
		"boxed":  {},
	}
	for _, a := range f.Agents {
		if diff := cmp.Diff(want[a.Name], a.Sandbox); diff != "" {
			t.Errorf("%s (-want +got):\n%s", a.Name, diff)
		}
	}
	again, err := Parse("f", f.YAML(), inFolder())
	if err != nil {
		t.Fatalf("%v\n%s", err, f.YAML())
	}
	if diff := cmp.Diff(f, again, cmpopts.IgnoreUnexported(File{})); diff != "" {
		t.Errorf("what is written is read as something else (-want +got):\n%s", diff)
	}
}

func TestMistakesAboutTheSandbox(t *testing.T) {
	for line, want := range map[string]string{
		"sandbox: of":                                              `3:14: sandbox is "of" -> ` + sandboxHint,
		"sandbox: [off]":                                           `3:14: sandbox is a list -> ` + sandboxHint,
		"sandbox: {allow_host: [a.b]}":                             `3:15: "allow_host" is not a key of sandbox -> did you mean "allow_hosts"?`,
		"sandbox: {allow_hosts: a.b}":                              `3:28: allow_hosts is a text, and should be a list -> write it like [modules.example.org, "*.example.org", "localhost:8080"]`,
		`sandbox: {allow_hosts: ["*"]}`:                            `3:29: "*" is not a host -> write it like [modules.example.org, "*.example.org", "localhost:8080"]`,
		`sandbox: {allow_hosts: ["10.0.0.1"]}`:                     `3:29: "10.0.0.1" is not a host -> write it like [modules.example.org, "*.example.org", "localhost:8080"]`,
		"sandbox: {allow_write: [/]}":                              `3:29: allow_write is "/": everything would be in it -> name the folder that is needed`,
		"sandbox: {allow_read: [~/.ssh]}":                          `3:28: allow_read is "~/.ssh": ~ and variables are not replaced -> write the whole path, or one relative to the folder of this file`,
		"sandbox: {allow_hosts: [a.b]}\n    container: {image: i}": `3:5: sandbox means nothing in a container, which holds the agent already -> take it out`,
	} {
		text := agentWith(line + "\n    runner: claude")
		if got := problemsOf(t, text); len(got) != 1 || got[0] != want {
			t.Errorf("%s:\n got %q\nwant %q", line, got, want)
		}
	}
}
