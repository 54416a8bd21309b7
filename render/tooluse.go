package render

import (
	"encoding/json"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark-sessions/tidemark"
)

// ToolKind is what a tool does, as far as its name tells. It chooses the icon of
// a call, and how its input and its result are shown.
type ToolKind string

// The kinds of tools.
const (
	ShellTool  ToolKind = "shell"
	ReadTool   ToolKind = "read"
	EditTool   ToolKind = "edit"
	SearchTool ToolKind = "search"
	WebTool    ToolKind = "web"
	AgentTool  ToolKind = "agent"
	PlanTool   ToolKind = "plan"
	OtherTool  ToolKind = "other"
)

// toolNames are the tools of the clients that are imported, by what they do; in
// small letters, and without what stands between words.
var toolNames = map[ToolKind]string{
	ShellTool:  "bash shell execute exec execcommand executecommand runcommands runcommand runshellcommand localshell powershell runinterminal terminal writestdin bashoutput killshell",
	ReadTool:   "read readfile readfiles readmanyfiles view viewfile viewimage open openfile cat notebookread",
	EditTool:   "edit editfile editfiles multiedit replace replaceinfile strreplace strreplaceeditor strreplacebasededittool applypatch patch searchreplace notebookedit inserteditintofile write writefile writetofile create createfile",
	SearchTool: "grep glob find findfiles ls list listdir listdirectory listfiles rg searchcontents searchfiles searchfilecontent filesearch grepsearch codebasesearch semanticsearch",
	WebTool:    "fetch webfetch websearch search googlewebsearch browser fetchurl fetchwebpage urlfetch",
	AgentTool:  "task agent spawnagent waitagent readagent invokeagent runsubagent subagent closeagent sendinput newtask",
	PlanTool:   "todowrite todoread updateplan taskcreate taskupdate tasklist taskget writetodos todo todolist updatetodolist managetodolist exitplanmode",
}

// KindOfTool returns what a tool does. A name that nobody knows is OtherTool.
func KindOfTool(name string) ToolKind {
	if i := strings.LastIndex(name, "__"); i >= 0 { // mcp__SERVER__TOOL
		name = name[i+2:]
	}
	plain := strings.Map(func(r rune) rune {
		switch {
		case 'A' <= r && r <= 'Z':
			return r + 'a' - 'A'
		case 'a' <= r && r <= 'z':
			return r
		}
		return -1
	}, name)
	for kind, names := range toolNames {
		for known := range strings.FieldsSeq(names) {
			if plain == known {
				return kind
			}
		}
	}
	return OtherTool
}

// pathNames and fieldNames are the fields of an input that say most about a call,
// the first one first.
var (
	pathNames  = []string{"file_path", "filePath", "filepath", "absolute_path", "path", "target_file", "notebook_path"}
	fieldNames = slices.Concat([]string{"command", "cmd", "commands"}, pathNames, []string{"url", "pattern", "name", "key", "code", "query", "subject", "description"})
)

// field returns the text of the first member with one of these names. A command
// that is a list of words is put together.
func field(input []member, names []string) string {
	for _, name := range names {
		for _, m := range input {
			if m.name != name {
				continue
			}
			if s, ok := jsonString(m.value); ok && s != "" {
				return s
			}
			var words []string
			if json.Unmarshal(m.value, &words) == nil && len(words) > 0 {
				if len(words) == 3 && strings.HasPrefix(words[1], "-") { // bash -lc COMMAND
					return words[2]
				}
				return strings.Join(words, " ")
			}
		}
	}
	return ""
}

// Argument is the most telling part of a call's input, in one line: the command,
// the file, the words that are searched for.
func Argument(call tidemark.Block) string { return ArgumentIn(call, "") }

// ArgumentIn is Argument for who knows the folder of the project: a file below it is
// called as it is there.
func ArgumentIn(call tidemark.Block, folder string) string {
	below := func(name string) string {
		if inside, ok := strings.CutPrefix(name, strings.TrimRight(folder, "/")+"/"); ok && folder != "" && inside != "" && KindOfTool(call.Name) != ShellTool {
			return inside
		}
		return name
	}
	if patch := patchOf(call.Input, nil); patch != "" {
		if files := patchedFiles(patch); len(files) > 0 {
			for i, name := range files {
				files[i] = below(name)
			}
			return hint(strings.Join(files, ", "))
		}
	}
	input, ok := members(call.Input)
	if !ok {
		if s, is := jsonString(call.Input); is {
			return hint(s)
		}
		return ""
	}
	if KindOfTool(call.Name) == PlanTool {
		if tasks := tasksOf(input); len(tasks) > 0 {
			return planGist(tasks)
		}
	}
	// Of a search the words say more than the place.
	if s := field(input, []string{"pattern", "query", "regex"}); s != "" && KindOfTool(call.Name) == SearchTool {
		if in := below(field(input, pathNames)); in != "" && in != folder {
			s += " · " + in
		}
		return hint(s)
	}
	if s := field(input, fieldNames); s != "" {
		return hint(below(s))
	}
	for _, m := range input {
		if s, isText := jsonString(m.value); isText && s != "" {
			return hint(s)
		}
	}
	return ""
}

// ChangedLines counts the lines that a call adds to files and takes from them,
// as far as its input says so.
func ChangedLines(call tidemark.Block) (added, removed int) { return Changed(DiffOf(call)) }

// DiffOf is what a call changes in files, as far as its input says so. The lines of
// several files have the name of theirs above them.
func DiffOf(call tidemark.Block) (lines []DiffLine) {
	input, _ := members(call.Input)
	for _, d := range changesOf(call, input) {
		if d.path != "" {
			lines = append(lines, DiffLine{Kind: MarkerLine, Text: visible(d.path)})
		}
		lines = append(lines, d.lines...)
	}
	return lines
}

// fileDiff is what a call does to a file; path is "" where the call names but one.
type fileDiff struct {
	path  string
	lines []DiffLine
}

// contentNames are the fields that hold a whole file that is written.
var contentNames = []string{"content", "file_text", "contents"}

// changesOf returns what a call of an editing tool changes: by replacements, by a
// patch, or by a file that is written.
func changesOf(call tidemark.Block, input []member) []fileDiff {
	var all []fileDiff
	for _, e := range edits(input) {
		all = append(all, fileDiff{lines: Diff(Change{Old: e.old, New: e.new})})
	}
	if len(all) > 0 {
		return all
	}
	if patch := patchOf(call.Input, input); patch != "" {
		return patchDiffs(patch)
	}
	if KindOfTool(call.Name) != EditTool {
		return nil
	}
	if text := field(input, contentNames); text != "" {
		return []fileDiff{{lines: Diff(Change{New: text})}}
	}
	return nil
}

// patchBegin begins the text of a patch as Codex has its models write it.
const patchBegin = "*** Begin Patch"

// patchOf returns the patch in an input: the input itself, or one of its fields.
func patchOf(raw json.RawMessage, input []member) string {
	if s, ok := jsonString(raw); ok && isPatch(s) {
		return s
	}
	if input == nil {
		input, _ = members(raw)
	}
	if s := field(input, []string{"patch", "input", "diff", "patchText", "patch_text"}); isPatch(s) {
		return s
	}
	return ""
}

func isPatch(s string) bool {
	s = strings.TrimLeft(s, " \t\r\n")
	return strings.HasPrefix(s, patchBegin) || strings.HasPrefix(s, "diff --git ") || strings.HasPrefix(s, "--- ") && strings.Contains(s, "\n+++ ")
}

// patchFile returns the file that a line of a patch names, and false for any
// other line.
func patchFile(line string) (name string, is bool) {
	for _, begin := range []string{"*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: ", "+++ b/", "+++ "} {
		if name, is = strings.CutPrefix(line, begin); is {
			return strings.TrimSpace(name), true
		}
	}
	return "", false
}

func patchedFiles(patch string) []string {
	var all []string
	for line := range strings.SplitSeq(patch, "\n") {
		if name, is := patchFile(line); is {
			all = append(all, name)
		}
	}
	return all
}

// patchDiffs reads a patch. What is no line of it is shown as a marker, so that
// nothing is left out.
func patchDiffs(patch string) []fileDiff {
	var all []fileDiff
	put := func(kind LineKind, text string) {
		if len(all) == 0 {
			all = append(all, fileDiff{})
		}
		last := &all[len(all)-1]
		last.lines = append(last.lines, DiffLine{Kind: kind, Text: visible(text)})
	}
	for line := range strings.SplitSeq(strings.TrimRight(patch, "\n"), "\n") {
		name, isFile := patchFile(line)
		switch {
		case isFile:
			all = append(all, fileDiff{path: name})
			if strings.HasPrefix(line, "*** Delete") {
				put(MarkerLine, line)
			}
		case line == patchBegin, line == "*** End Patch", strings.HasPrefix(line, "--- "), strings.HasPrefix(line, "diff --git "), strings.HasPrefix(line, "index "):
		case strings.HasPrefix(line, "+"):
			put(AddedLine, line[1:])
		case strings.HasPrefix(line, "-"):
			put(RemovedLine, line[1:])
		case strings.HasPrefix(line, " "):
			put(PlainLine, line[1:])
		case line == "":
			put(PlainLine, "")
		default:
			put(MarkerLine, line)
		}
	}
	return all
}

// task is a step of a plan.
type task struct{ text, status string }

// tasksOf returns the steps of a plan in an input.
func tasksOf(input []member) []task {
	var all []task
	for _, m := range input {
		var list []map[string]any
		switch m.name {
		case "todos", "plan", "tasks", "items", "todoList", "steps":
			if json.Unmarshal(m.value, &list) != nil {
				continue
			}
		}
		for _, item := range list {
			all = append(all, taskOf(item))
		}
	}
	return all
}

func taskOf(item map[string]any) task {
	t := task{}
	for _, name := range []string{"content", "step", "subject", "title", "text", "description"} {
		if s, ok := item[name].(string); ok && t.text == "" {
			t.text = s
		}
	}
	t.status, _ = item["status"].(string)
	if done, _ := item["completed"].(bool); done {
		t.status = "completed"
	}
	return t
}

// repeatsPlan reports whether a tool answers with the plan that it was called with, and
// with nothing else.
func repeatsPlan(call, result tidemark.Block) bool {
	var list []map[string]any
	if KindOfTool(call.Name) != PlanTool || result.IsError || json.Unmarshal([]byte(result.Text), &list) != nil || len(list) == 0 {
		return false
	}
	input, _ := members(call.Input)
	told := make([]task, len(list))
	for i, item := range list {
		told[i] = taskOf(item)
	}
	return slices.Equal(tasksOf(input), told)
}

func (t task) done() bool { return t.status == "completed" || t.status == "done" }

// planGist is a plan in one line: how far it is, and what is under way.
func planGist(tasks []task) string {
	done, now := 0, ""
	for _, t := range tasks {
		switch {
		case t.done():
			done++
		case now == "" && strings.HasPrefix(t.status, "in"):
			now = t.text
		}
	}
	s := strconv.Itoa(done) + "/" + strconv.Itoa(len(tasks))
	if now != "" {
		s += " · " + now
	}
	return hint(s)
}

// languageOf is the language of a file, for its colours.
func languageOf(file string) string { return strings.TrimPrefix(path.Ext(file), ".") }
