package file

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark/fleet"
)

// example is a line of the template that is commented out: its # stands right
// before what it says.
var example = regexp.MustCompile(`^( *)#([^ #].*)$`)

// examples returns the blocks of lines of the template that belong together,
// by number: a line, those right below it, and those further in.
func examples(lines []string) (blocks [][]int) {
	indent, adjacent := 0, false
	for i, line := range lines {
		m := example.FindStringSubmatch(line)
		if m == nil {
			adjacent = false
			if body := strings.TrimSpace(line); body != "" && body[0] != '#' {
				indent = 1 << 20 // a line in use ends what is above it
			}
			continue
		}
		if n := len(blocks); n > 0 && (len(m[1]) > indent || adjacent && len(m[1]) == indent) {
			blocks[n-1] = append(blocks[n-1], i)
		} else {
			blocks, indent = append(blocks, []int{i}), len(m[1])
		}
		adjacent = true
	}
	return blocks
}

// uncommented returns the template with blocks of examples in use.
func uncommented(lines []string, blocks ...[]int) string {
	out := append([]string(nil), lines...)
	for _, block := range blocks {
		for _, i := range block {
			out[i] = example.ReplaceAllString(out[i], "$1$2")
		}
	}
	return strings.Join(out, "\n")
}

func TestTemplateIsAFleetThatRunsWithoutAKey(t *testing.T) {
	f, err := Parse("fleet.yaml", Template(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Agents) != 1 || f.Agents[0].Provider != "demo" || len(f.Agents[0].Schedules) != 1 {
		t.Errorf("the template says %+v", f)
	}
}

func TestEveryExampleOfTheTemplateIsValidAloneAndWithAllOthers(t *testing.T) {
	lines := strings.Split(string(Template()), "\n")
	blocks := examples(lines)
	if len(blocks) < 20 {
		t.Errorf("found %d examples", len(blocks))
	}
	plain, err := Parse("fleet.yaml", Template(), nil)
	if err != nil {
		t.Fatal(err)
	}
	holdAnyway := []string{"#dir: .", "#session_timeout: 1d", "#x-careful: &careful"}
	for _, block := range blocks {
		f, err := Parse("fleet.yaml", []byte(uncommented(lines, block)), nil)
		if err != nil {
			t.Errorf("%s\n%v", lines[block[0]], err)
			continue
		}
		if len(f.Changes(plain)) == 0 && !slices.Contains(holdAnyway, strings.TrimSpace(lines[block[0]])) {
			t.Errorf("line %d, %s: changes nothing", block[0]+1, lines[block[0]])
		}
	}
	f, err := Parse("fleet.yaml", []byte(uncommented(lines, blocks...)), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Agents) != 3 || len(f.Agents[0].Schedules) != 4 || f.Agents[0].Schedules[1].Zone != "America/New_York" || f.Agents[0].Schedules[0].Overlap != fleet.OverlapQueue {
		t.Errorf("the template says %+v", f)
	}
}

func TestTemplateHasEveryKeyThereIs(t *testing.T) {
	lines := strings.Split(string(Template()), "\n")
	all := uncommented(lines, examples(lines)...)
	for _, key := range append(keysOf(reflect.TypeFor[File]()), "defaults", "schedule") {
		if !regexp.MustCompile(`(?m)^ *(- )?`+key+`:`).MatchString(all) && !strings.Contains(all, "{"+key+":") {
			t.Errorf("no %s", key)
		}
	}
}

// keysOf returns the keys of everything in a struct that is read from the
// file.
func keysOf(t reflect.Type) (keys []string) {
	switch {
	case t.Kind() == reflect.Slice || t.Kind() == reflect.Pointer:
		return keysOf(t.Elem())
	case t.Kind() != reflect.Struct || t == reflect.TypeFor[Permission]() || t == reflect.TypeFor[Mount]():
		return nil
	}
	for i := range t.NumField() {
		if field := t.Field(i); field.IsExported() && field.Name != "Text" && field.Name != "Off" {
			keys = append(append(keys, keyName(field)), keysOf(field.Type)...)
		}
	}
	return keys
}
