package main

import (
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/txtar"
)

// archives are the tasks, one a file.
//
//go:embed testdata/*.txtar
var archives embed.FS

// task is a small repository and what is wanted of it.
type task struct {
	name   string
	prompt string
	repo   []txtar.File // the repository as the agent finds it
	check  []txtar.File // put over it when the agent is done; checkFile decides
	// What the scripted model does, and what one does that is mistaken: the
	// check tells them apart.
	solve, wrong script
}

// checkFile is run by bash in the repository. It exits with 0 when the task is
// solved.
const checkFile = "check.sh"

// language is what a task is about, by its name: go, sh, text or py.
func (t task) language() string {
	language, _, _ := strings.Cut(t.name, "-")
	return language
}

// script is what a scripted model answers, one step a round. The last one says
// something, and all others call a tool.
type script []step

type step struct {
	tool  string // "": it says something
	input string // of the tool, a JSON object
	say   string
}

// marks is a script in the words of the stand-in for a model.
func (s script) marks() string {
	var b strings.Builder
	for _, one := range s {
		if one.tool == "" {
			fmt.Fprintf(&b, "[[fake say %s]]\n", one.say)
		} else {
			fmt.Fprintf(&b, "[[fake call %s %s]]\n", one.tool, one.input)
		}
	}
	return b.String()
}

// allTasks reads the tasks, by name.
func allTasks() ([]task, error) {
	names, err := fs.Glob(archives, "testdata/*.txtar")
	if err != nil {
		return nil, err
	}
	var all []task
	for _, name := range names {
		raw, err := archives.ReadFile(name)
		if err != nil {
			return nil, err
		}
		t, err := readTask(strings.TrimSuffix(path.Base(name), ".txtar"), raw)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, t)
	}
	return all, nil
}

// readTask reads an archive: what is asked for comes first, then files of the
// folders repo and check, and the two scripts.
func readTask(name string, raw []byte) (task, error) {
	a := txtar.Parse(raw)
	t := task{name: name, prompt: strings.TrimSpace(string(a.Comment))}
	if t.prompt == "" {
		return t, fmt.Errorf("nothing is asked for")
	}
	for _, f := range a.Files {
		folder, rest, _ := strings.Cut(f.Name, "/")
		var err error
		switch {
		case folder == "repo" && fs.ValidPath(rest):
			t.repo = append(t.repo, txtar.File{Name: rest, Data: f.Data})
		case folder == "check" && fs.ValidPath(rest):
			t.check = append(t.check, txtar.File{Name: rest, Data: f.Data})
		case f.Name == "solve":
			t.solve, err = readScript(string(f.Data))
		case f.Name == "wrong":
			t.wrong, err = readScript(string(f.Data))
		default:
			err = fmt.Errorf("want repo/FILE, check/FILE, solve or wrong")
		}
		if err != nil {
			return t, fmt.Errorf("%q: %w", f.Name, err)
		}
	}
	decides := slices.ContainsFunc(t.check, func(f txtar.File) bool { return f.Name == checkFile })
	if len(t.repo) == 0 || !decides || t.solve == nil || t.wrong == nil {
		return t, fmt.Errorf("want files of a repository, check/%s, solve and wrong", checkFile)
	}
	return t, nil
}

// readScript reads lines of the form TOOL {JSON}, and say TEXT at the end.
func readScript(text string) (script, error) {
	var s script
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		word, rest, _ := strings.Cut(line, " ")
		var object map[string]any
		switch {
		case line == "":
			continue
		case len(s) > 0 && s[len(s)-1].tool == "":
			return nil, fmt.Errorf("%q comes after the last word", line)
		case word == "say" && rest != "" && !strings.Contains(rest, "]]"):
			s = append(s, step{say: rest})
		case word != "" && json.Unmarshal([]byte(rest), &object) == nil && object != nil:
			s = append(s, step{tool: word, input: rest})
		default:
			return nil, fmt.Errorf("%q: want TOOL {…}, or say TEXT", line)
		}
	}
	if len(s) == 0 || s[len(s)-1].tool != "" {
		return nil, fmt.Errorf("it does not end with: say TEXT")
	}
	return s, nil
}
