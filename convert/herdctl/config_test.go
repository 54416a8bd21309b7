package herdctl

import (
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func project(files map[string]string) fs.FS {
	all := fstest.MapFS{}
	for name, text := range files {
		all[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return all
}

func surroundings(env map[string]string) ConfigOptions {
	return ConfigOptions{Root: "/srv/p", Env: func(name string) (string, bool) { v, ok := env[name]; return v, ok }}
}

func TestAFleetOfFleetsIsOneListOfAgents(t *testing.T) {
	c, err := ReadConfig(project(map[string]string{
		"herdctl.yaml": `
fleet: {name: all}
defaults:
  model: ${MODEL:-small}
  session: {timeout: 1h, max_turns: 3}
  working_directory: ./work
  allowed_tools: [Read]
agents:
  - {path: ./agents/one.yaml, overrides: {schedules: {s: {interval: 9m}}, session: {max_turns: 5}}}
fleets:
  - {path: ops/herdctl.yaml, name: ops, overrides: {defaults: {model: forced}}}
  - path: /srv/p/dev/herdctl.yaml
`,
		"agents/one.yaml":          "name: one\nallowed_tools: [Bash]\nschedules: {s: {type: interval, interval: 5m, prompt: hi}}\n",
		"ops/herdctl.yaml":         "fleet: {name: other}\ndefaults: {session: {timeout: 2h}}\nagents: [{path: a.yaml}]\nfleets: [{path: ../deep/herdctl.yaml}]\n",
		"ops/a.yaml":               "name: auditor\nworkspace: here\n",
		"deep/herdctl.yaml":        "agents: [{path: b.yaml}]\n",
		"deep/b.yaml":              "name: digger\nworking_directory: {root: ../far}\nmodel: own\n",
		"dev/herdctl.yaml":         "agents: [{path: c.yaml}]\n",
		"dev/c.yaml":               "name: coder\ndescription: '${WHO} and ${GONE} ${ not} ${X:-}'\n",
		"never/read/herdctl.yaml":  "agents: [{path: x.yaml}]\n",
		"agents/never-listed.yaml": "name: x\n",
	}), "herdctl.yaml", surroundings(map[string]string{"WHO": "me ${MODEL}"}))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, a := range c.Agents {
		s := a.Node.Get("session")
		got = append(got, strings.Join([]string{a.Name, a.Dir, textOf(a.Node.Get("model")), textOf(s.Get("timeout")), textOf(s.Get("max_turns")), textOf(listOf(a.Node.Get("allowed_tools"))[0])}, " "))
	}
	want := []string{"one /srv/p/work small 1h 5 Bash", "ops.auditor /srv/p/ops/here forced 2h 3 Read", "ops.deep.digger /srv/p/far own 2h 3 Read", "dev.coder /srv/p/work small 1h 3 Read"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	one := c.Agents[0].Node.Get("schedules").Get("s")
	if textOf(one.Get("interval")) != "9m" || textOf(one.Get("prompt")) != "hi" || textOf(one.Get("type")) != "interval" {
		t.Errorf("%+v", one)
	}
	if d := cmp.Diff("me ${MODEL} and ${GONE} ${ not} ", textOf(c.Agents[3].Node.Get("description"))); d != "" {
		t.Error(d)
	}
	if len(c.Left) != 1 || c.Left[0].Key != "${GONE}" || c.Left[0].File != "dev/c.yaml" {
		t.Errorf("%v", c.Left)
	}
}

func TestHostileConfigurationsAreLeftOutAndSaid(t *testing.T) {
	good := "agents/good.yaml"
	base := func(more string) map[string]string {
		return map[string]string{"herdctl.yaml": "agents: [{path: " + good + "}]\n" + more, good: "name: good\n"}
	}
	with := func(files map[string]string, name, text string) map[string]string { files[name] = text; return files }
	for name, files := range map[string]map[string]string{
		"a path up":        base("fleets: [{path: ../../etc/herdctl.yaml}]\n"),
		"an absolute path": base("fleets: [{path: /etc/herdctl.yaml}]\n"),
		"the root itself":  base("fleets: [{path: .}]\n"),
		"no path":          base("fleets: [{name: x}]\n"),
		"not there":        base("fleets: [{path: gone.yaml}]\n"),
		"itself":           base("fleets: [{path: ./herdctl.yaml, name: me}]\n"),
		"a circle":         with(base("fleets: [{path: b/h.yaml}]\n"), "b/h.yaml", "fleets: [{path: ../herdctl.yaml}]\n"),
		"a bomb":           with(base("fleets: [{path: b.yaml, name: b}]\n"), "b.yaml", bomb()),
		"a huge file":      with(base("fleets: [{path: b.yaml, name: b}]\n"), "b.yaml", "a: "+strings.Repeat("x", maxDoc)),
		"no YAML":          with(base("fleets: [{path: b.yaml, name: b}]\n"), "b.yaml", "a: [\n"),
		"a bad name":       with(base("fleets: [{path: b.yaml, name: a.b}]\n"), "b.yaml", "agents: []\n"),
		"an agent's name":  with(base("fleets: [{path: b/h.yaml}]\n"), "b/h.yaml", "agents: [{path: a.yaml}]\n"),
		"a name twice":     with(with(base("fleets: [{path: b/h.yaml}]\n"), "b/h.yaml", "agents: [{path: a.yaml}, {path: a.yaml}]\n"), "b/a.yaml", "name: a\n"),
	} {
		c, err := ReadConfig(project(files), "herdctl.yaml", surroundings(nil))
		if err != nil || len(c.Agents) < 1 || c.Agents[0].Name != "good" || len(c.Left) != 1 || len(c.Left[0].String()) > 500 {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
	for name, text := range map[string]string{"a list": "- a\n", "a bomb": bomb(), "half": "agents: ["} {
		if _, err := ReadConfig(project(map[string]string{"herdctl.yaml": text}), "herdctl.yaml", surroundings(nil)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// A few files that name each other many times would be read for ever.
func TestFleetsThatMultiplyAreBounded(t *testing.T) {
	files := map[string]string{}
	for i := range 12 {
		text := "fleets:\n"
		for k := range 6 {
			text += fmt.Sprintf("  - {path: f%d.yaml, name: n%d}\n", i+1, k)
		}
		files[fmt.Sprintf("f%d.yaml", i)] = text
	}
	c, err := ReadConfig(project(files), "f0.yaml", surroundings(nil))
	if err != nil || len(c.Left) == 0 {
		t.Errorf("%v, %v", c, err)
	}
}

func TestALinkOutOfTheFolderIsNotRead(t *testing.T) {
	outside, inside := t.TempDir(), t.TempDir()
	if err := os.WriteFile(outside+"/secret.yaml", []byte("name: stolen\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(inside+"/herdctl.yaml", []byte("agents: [{path: link.yaml}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside+"/secret.yaml", inside+"/link.yaml"); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(inside)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	c, err := ReadConfig(root.FS(), "herdctl.yaml", surroundings(nil))
	if err != nil || len(c.Agents) != 0 || len(c.Left) != 1 {
		t.Errorf("%+v, %v", c, err)
	}
}

func FuzzReadConfig(f *testing.F) {
	f.Add("agents: [{path: a.yaml}]\nfleets: [{path: b.yaml, name: b}]\n", "name: a\ndocker: {enabled: true}\n")
	f.Add("fleets: [{path: herdctl.yaml}]", "agents: [{path: ../a.yaml, overrides: {name: b}}]")
	f.Add("defaults: {working_directory: {root: ./x}}\nagents: [{path: a.yaml}]", "name: ${A:-b}\nworking_directory: &a ${A}\nrepo: *a\n")
	f.Fuzz(func(t *testing.T, fleet, other string) {
		c, err := ReadConfig(project(map[string]string{"herdctl.yaml": fleet, "a.yaml": other, "b.yaml": other}), "herdctl.yaml", surroundings(map[string]string{"A": "x"}))
		if err != nil {
			return
		}
		for _, a := range c.Agents {
			if a.Name == "" || !strings.HasPrefix(a.Dir, "/") && !isAbsolute(a.Dir) {
				t.Errorf("%+v", a)
			}
		}
	})
}
