package atif

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/cline"
	"github.com/tidemark-sessions/tidemark/convert/continuecli"
	"github.com/tidemark-sessions/tidemark/convert/converttest"
	"github.com/tidemark-sessions/tidemark/convert/copilot"
	"github.com/tidemark-sessions/tidemark/convert/gemini"
)

func say(id, parent string, role tidemark.Role, minute int, blocks ...tidemark.Block) convert.Entry {
	e := convert.Entry{ID: id, Parent: parent}
	e.Role, e.Blocks, e.At = role, blocks, time.Date(2026, 3, 1, 10, minute, 0, 0, time.UTC)
	return e
}

// talk is a session with a bit of everything.
func talk() *convert.Session {
	call := func(id string) tidemark.Block {
		return tidemark.Block{Type: tidemark.BlockToolUse, ID: id, Name: "ls", Input: json.RawMessage(`{"dir":"."}`)}
	}
	result := func(id, text string) tidemark.Block {
		return tidemark.Block{Type: tidemark.BlockToolResult, ToolUseID: id, Text: text, IsError: text == "no"}
	}
	answer := say("a1", "u1", tidemark.Assistant, 2, tidemark.Block{Type: tidemark.BlockThinking, Text: "hm", Provider: "anthropic", Raw: "{}"},
		tidemark.Text("Looking."), call("c1"), call("c2"))
	answer.Model, answer.Usage = "claude-x", &tidemark.Usage{InputTokens: 5, OutputTokens: 2, CacheReadTokens: 3, CacheWriteTokens: 1, CostUSD: 0.5}
	answer.Extra = json.RawMessage(`{"cline":{"x":1}}`)
	compaction := say("k", "r2", "", 5, tidemark.Text("They looked."))
	compaction.Kind, compaction.Usage = "compaction", &tidemark.Usage{InputTokens: 10}
	entries := []convert.Entry{
		say("s", convert.Root, tidemark.System, 0, tidemark.Text("Be brief.")),
		say("u1", "s", tidemark.User, 1, tidemark.Text("What is this?"), tidemark.Block{Type: tidemark.BlockImage, MediaType: "image/png", Data: []byte("hi")}),
		answer,
		say("r1", "a1", tidemark.Tool, 3, result("c2", "no")),
		say("r2", "r1", tidemark.Tool, 4, result("c1", "a.txt"), result("c9", "of nothing")),
		compaction,
		say("lost", "u1", tidemark.Assistant, 6, tidemark.Text("another branch")),
		say("u2", "k", tidemark.User, 7, tidemark.Text("Go on.")),
	}
	s := &convert.Session{Entries: convert.All(entries), Labels: map[string]string{"u1": "here"}}
	s.ForeignID, s.Agent, s.Model, s.Title = "talk", "cline", "claude-x", "A talk"
	s.Workers = []convert.Worker{{Name: "helper", Call: "c1", Entries: convert.All([]convert.Entry{say("w", "", tidemark.User, 3, tidemark.Text("count"))})}}
	return s
}

func TestATrajectoryTellsThePathToTheHead(t *testing.T) {
	out := converttest.NewOut()
	lost, err := Tool().Export(t.Context(), out, talk())
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"entries of other branches (1)", "names of entries (1)", "signatures of thoughts (1)"}, lost); d != "" {
		t.Error(d)
	}
	if string(out.Files["talk.images/1.png"].Data) != "hi" {
		t.Errorf("files %v", out.Files)
	}
	got := check(t, out.Files["talk.trajectory.json"].Data)
	var lines []string
	for _, s := range got.Steps {
		line := fmt.Sprint(s.StepID, " ", s.Source, ": ", s.Message)
		if s.ReasoningContent != "" {
			line += " (" + s.ReasoningContent + ")"
		}
		for _, c := range s.ToolCalls {
			line += " call " + c.ToolCallID
		}
		if s.Observation != nil {
			for _, r := range s.Observation.Results {
				line += fmt.Sprint(" result ", r.SourceCallID, " ", r.Content, " ", r.Extra["is_error"], " ", r.Subagents)
			}
		}
		lines = append(lines, line)
	}
	want := []string{
		"1 system: Be brief.",
		"2 user: [map[text:What is this? type:text] map[source:map[media_type:image/png path:talk.images/1.png] type:image]]",
		"3 agent: Looking. (hm) call c1 call c2 result c2 no true [] result c1 a.txt <nil> [{talk/helper}]",
		"4 system:  result  of nothing <nil> []",
		"5 system: They looked.",
		"6 user: Go on.",
	}
	if d := cmp.Diff(want, lines); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(finalMetrics{PromptTokens: 19, CompletionTokens: 2, CachedTokens: 3, CostUSD: 0.5, Steps: 6}, got.FinalMetrics); d != "" {
		t.Error(d)
	}
	m := got.Steps[2].Metrics
	if m.PromptTokens != 9 || m.CachedTokens != 3 || m.Extra["cache_creation_input_tokens"] != 1.0 || got.Steps[2].Extra["cline"] == nil {
		t.Errorf("metrics %+v, extra %v", m, got.Steps[2].Extra)
	}
	if len(got.Subagents) != 1 || got.Subagents[0].Steps[0].Message != "count" || got.Extra["title"] != "A talk" {
		t.Errorf("helpers %+v, extra %v", got.Subagents, got.Extra)
	}
}

// check holds a trajectory against the rules of the format.
func check(t *testing.T, data []byte) *trajectory {
	t.Helper()
	var tr trajectory
	if err := json.Unmarshal(data, &tr); err != nil {
		t.Fatalf("%v: %s", err, data)
	}
	known := map[string]bool{}
	for _, sub := range tr.Subagents {
		if sub.TrajectoryID == "" || known[sub.TrajectoryID] {
			t.Errorf("helper %q has no id, or it is there twice", sub.TrajectoryID)
		}
		known[sub.TrajectoryID] = true
		checkSteps(t, sub, nil)
	}
	checkSteps(t, &tr, known)
	return &tr
}

func checkSteps(t *testing.T, tr *trajectory, subagents map[string]bool) {
	t.Helper()
	if tr.SchemaVersion != "ATIF-v1.7" || tr.Agent.Name == "" || tr.Agent.Version == "" || len(tr.Steps) == 0 || tr.FinalMetrics.Steps != len(tr.Steps) {
		t.Errorf("trajectory %+v", tr)
	}
	for i, s := range tr.Steps {
		if s.StepID != i+1 || !slices.Contains([]string{"system", "user", "agent"}, s.Source) || s.Message == nil {
			t.Errorf("step %d: %+v", i, s)
		}
		if s.Source != "agent" && (s.ModelName != "" || s.ReasoningContent != "" || s.ToolCalls != nil || s.Metrics != nil) {
			t.Errorf("step %d of the %s has what only an agent's has", i, s.Source)
		}
		calls := map[string]bool{"": true}
		for _, c := range s.ToolCalls {
			if _, ok := c.Arguments.(map[string]any); !ok || c.ToolCallID == "" || c.FunctionName == "" {
				t.Errorf("step %d: call %+v", i, c)
			}
			calls[c.ToolCallID] = true
		}
		if s.Observation == nil {
			continue
		}
		for _, r := range s.Observation.Results {
			if !calls[r.SourceCallID] {
				t.Errorf("step %d: result of %q, which the step does not call", i, r.SourceCallID)
			}
			for _, ref := range r.Subagents {
				if !subagents[ref.TrajectoryID] {
					t.Errorf("step %d: refers to %q, which is not there", i, ref.TrajectoryID)
				}
			}
		}
	}
}

func TestATrajectoryNeedsAStep(t *testing.T) {
	s := &convert.Session{Entries: convert.All(nil)}
	s.ForeignID = "empty"
	if _, err := Tool().Export(t.Context(), converttest.NewOut(), s); !errors.Is(err, tidemark.ErrInvalid) {
		t.Errorf("Export = %v, want ErrInvalid", err)
	}
}

func TestNothingIsTakenIn(t *testing.T) {
	for _, tool := range []convert.Tool{Tool(), OTel()} {
		p := convert.Source{FS: os.DirFS("."), Path: "."}
		if tool.Detect(t.Context(), p) {
			t.Errorf("%s detects something", tool.Name)
		}
		if tool.Import != nil {
			t.Errorf("%s reads something", tool.Name)
		}
	}
}

func TestSessionsOfOtherToolsGoOut(t *testing.T) {
	for dir, tool := range map[string]convert.Tool{
		"gemini": gemini.Tool(), "copilot": copilot.Tool(), "cline": cline.Tool(), "continuecli": continuecli.Tool(),
	} {
		got := converttest.Read(t, tool, convert.Source{FS: os.DirFS("../" + dir + "/testdata/home"), Path: "."})
		if len(got.Sessions) == 0 {
			t.Errorf("%s: no sessions", dir)
		}
		for _, s := range got.Sessions {
			out := converttest.NewOut()
			for _, to := range []convert.Tool{Tool(), OTel()} {
				if _, err := to.Export(t.Context(), out, s.Session); err != nil {
					t.Errorf("%s: %s: %s: %v", dir, s.ForeignID, to.Name, err)
				}
			}
			checkFiles(t, out.Files)
		}
	}
}

func checkFiles(t *testing.T, files fs.FS) {
	t.Helper()
	names, err := fs.Glob(files, "*.json")
	if err != nil || len(names) == 0 {
		t.Errorf("files %v, %v", names, err)
	}
	for _, n := range names {
		b, err := fs.ReadFile(files, n)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(n, ".trajectory.json") {
			check(t, b)
		} else {
			checkTrace(t, b)
		}
	}
}

// FuzzExport gives out whatever could be in a session.
func FuzzExport(f *testing.F) {
	f.Add([]byte(`[{"role":"user","blocks":[{"type":"text","text":"hi"}]},{"role":"assistant","blocks":[{"type":"tool_use","input":7}]},{"role":"tool","blocks":[{"type":"tool_result"}]}]`))
	f.Add([]byte(`[{"kind":"compaction","extra":[],"usage":{"cost_usd":1}},{"role":"assistant","blocks":[{"type":"image","data":"aGk=","media_type":"image/png"}]}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var list []tidemark.Entry
		if json.Unmarshal(data, &list) != nil || len(list) == 0 {
			return
		}
		var entries []convert.Entry
		for i, e := range list {
			if _, err := e.Line(); err != nil {
				return
			}
			entries = append(entries, convert.Entry{Entry: e, ID: fmt.Sprint(i)})
		}
		s := &convert.Session{Entries: convert.All(entries)}
		s.ForeignID = "f/../x"
		out := converttest.NewOut()
		for _, tool := range []convert.Tool{Tool(), OTel()} {
			if _, err := tool.Export(t.Context(), out, s); err != nil && !errors.Is(err, tidemark.ErrInvalid) {
				t.Fatal(err)
			}
		}
		checkFiles(t, out.Files)
	})
}
