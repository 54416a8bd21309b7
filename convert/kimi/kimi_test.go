package kimi_test

import (
	"fmt"
	"os"
	"path"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/converttest"
	"github.com/tidemark-sessions/tidemark/convert/kimi"
)

func TestEverySampleComesInAsItWasHeld(t *testing.T) {
	// A list of things to do was not among the tools that the script was offered.
	tools := map[string][]string{"read": {"Read"}, "edit": {"Edit"}, "write": {"Write"}, "bash": {"Bash"}, "todo": nil, "task": {"Agent"}, "wait": nil}
	for _, s := range converttest.Samples(t, os.DirFS("../testdata/kimi-code")) {
		t.Run(s.Name, func(t *testing.T) {
			got := s.Check(t, kimi.Tool(), tools)
			if len(got.Sessions) != 14 {
				t.Errorf("%d sessions, want 14", len(got.Sessions))
			}
			for _, one := range got.Sessions {
				if one.Model != "fake-1" || one.CreatedAt.IsZero() || one.UpdatedAt.Before(one.CreatedAt) {
					t.Errorf("%s: model %q, created %v, updated %v", one.ForeignID, one.Model, one.CreatedAt, one.UpdatedAt)
				}
			}
			sub := got.Find("session_9f066498-cec3-4b84-a76b-35aa43d8896a")
			if len(sub.Workers) != 1 || sub.Workers[0].Call != "call_fake000016_0" || len(converttest.Texts(sub.Workers[0].Entries, tidemark.User)) != 1 {
				t.Errorf("workers %+v", sub.Workers)
			}
			tea := got.Find("session_1741f78d-6dfd-4847-8210-580b7e89d462")
			var used int64
			for _, e := range tea.Entries {
				if e.Usage != nil {
					used += e.Usage.InputTokens
				}
			}
			if used == 0 {
				t.Error("nothing is known of the tokens")
			}
			long := got.Find("session_e05b1e51-82aa-4aea-a7b6-2faf37867733")
			if lines := strings.Count(string(long.Files["kimi-code/agents/main/tasks/bash-08xcn5fl/output.log"]), "\n"); lines != 10000 {
				t.Errorf("the long output has %d lines", lines)
			}
		})
	}
}

func TestWhatIsFinalStaysAsAJournalGrows(t *testing.T) {
	for _, s := range converttest.Samples(t, os.DirFS("../testdata/kimi-code")) {
		drafts, entries := converttest.CheckGrowth(t, kimi.Tool(), s.Source, func(file string) (bool, []string) {
			main := path.Join(path.Dir(path.Dir(file)), "main", "wire.jsonl")
			if file == main {
				return true, nil
			}
			return path.Base(file) == "wire.jsonl", []string{main}
		})
		if drafts != 0 || entries == 0 {
			t.Errorf("%d of %d entries are drafts", drafts, entries)
		}
	}
	got := converttest.ReadWhole(t, kimi.Tool(), journal(append(step("s1", "1."), step("s2", "2.")[:2]...)...)).Sessions[0].Entries
	if len(got) != 2 || got[0].Draft || !got[1].Draft {
		t.Errorf("of a step that goes on: %+v", got)
	}
}

const dir = ".kimi-code/sessions/wd_tea_000000000000/session_1/"

const head = `{"type":"metadata","protocol_version":"1.5","created_at":1}`

// journal is a Source with one session of these records.
func journal(records ...string) convert.Source {
	for i, r := range records {
		records[i] = strings.TrimSuffix(r, "}") + fmt.Sprintf(`,"time":%d}`, 1_700_000_000_000+i)
	}
	return convert.Source{Path: ".", FS: fstest.MapFS{
		dir + "agents/main/wire.jsonl":        converttest.Lines(append([]string{head}, records...)...),
		dir + "agents/main/blobs/0a1b":        {Data: []byte("PNG")},
		dir + "agents/main/blobs/secret.json": {Data: []byte("{}")},
	}}
}

func said(id, text string) string {
	return fmt.Sprintf(`{"type":"context.append_message","message":{"role":"user","content":[{"type":"text","text":%q}],"id":%q,"origin":{"kind":"user"}}}`, text, id)
}

func event(kind, fields string) string {
	return fmt.Sprintf(`{"type":"context.append_loop_event","event":{"type":%q,%s}}`, kind, fields)
}

// step is a step that says one thing.
func step(id, text string) []string {
	return []string{event("step.begin", `"uuid":"`+id+`"`), event("content.part", `"stepUuid":"`+id+`","part":{"type":"text","text":"`+text+`"}`), event("step.end", `"uuid":"`+id+`"`)}
}

func shape(t *testing.T, records ...string) []string {
	t.Helper()
	return converttest.Shape(converttest.ReadWhole(t, kimi.Tool(), journal(records...)).Sessions[0].Entries)
}

func TestAnUndoGrowsABranchFromBeforeThePrompt(t *testing.T) {
	records := append([]string{said("p1", "One?")}, step("s1", "1.")...)
	records = append(append(records, said("p2", "Two?")), step("s2", "2.")...)
	records = append(records, `{"type":"context.undo","count":1}`, said("p3", "Three?"), `{"type":"context.clear"}`, said("p4", "Four?"), `{"type":"context.undo","count":7}`, said("p5", "Five?"))
	want := []string{"p1< user One?", "s1< assistant 1.", "p2< user Two?", "s2< assistant 2.", "line.10<s1 event ", "p3< user Three?",
		"line.12<root event ", "p4< user Four?", "line.14<line.12 event ", "p5< user Five?"}
	if d := cmp.Diff(want, shape(t, records...)); d != "" {
		t.Error(d)
	}
}

func TestResultsComeAfterTheAnswerThatCalled(t *testing.T) {
	got := converttest.ReadWhole(t, kimi.Tool(), journal(
		said("p", "Look."), event("step.begin", `"uuid":"s"`), `{"type":"llm.request","model":"k2","provider":"kimi"}`,
		event("content.part", `"stepUuid":"s","part":{"type":"think","think":"Hm."}`),
		event("tool.call", `"uuid":"c1","stepUuid":"s","toolCallId":"a","name":"Read","args":{"path":"x"}`),
		event("tool.result", `"parentUuid":"c1","toolCallId":"a","result":{"output":[{"type":"image_url","imageUrl":{"url":"blobref:image/png;0a1b"}},{"type":"odd"}],"isError":true,"durationMs":3}`),
		event("tool.call", `"uuid":"c2","stepUuid":"s","toolCallId":"b","name":"Read","args":{},"extras":{"signature":"x"}`),
		event("tool.result", `"parentUuid":"c2","toolCallId":"b","result":{"output":"late"}`),
		event("step.end", `"uuid":"s","usage":{"inputOther":10,"output":5,"inputCacheRead":3,"inputCacheCreation":2},"finishReason":"tool_use"`)))
	entries := got.Sessions[0].Entries
	if d := cmp.Diff([]string{"p< user Look.", "s< assistant Hm.+Read+Read", "c1.result< tool ", "c2.result< tool late"}, converttest.Shape(entries)); d != "" {
		t.Fatal(d)
	}
	answer, failed := entries[1], entries[2].Blocks[0]
	if d := cmp.Diff(&tidemark.Usage{InputTokens: 10, OutputTokens: 5, CacheReadTokens: 3, CacheWriteTokens: 2}, answer.Usage); d != "" || answer.Model != "k2" {
		t.Errorf("model %q, usage %s", answer.Model, d)
	}
	if !strings.Contains(answer.Blocks[2].Raw, "signature") || !strings.Contains(string(answer.Extra), "tool_use") {
		t.Errorf("blocks %+v, extra %s", answer.Blocks, answer.Extra)
	}
	if !failed.IsError || len(failed.Blocks) != 2 || string(failed.Blocks[0].Data) != "PNG" || failed.Blocks[0].MediaType != "image/png" || failed.Blocks[1].Raw != `{"type":"odd"}` {
		t.Errorf("result %+v", failed)
	}
	if s := got.Sessions[0]; s.Model != "k2" || s.Mode != tidemark.ModeRemote || s.ForeignID != "session_1" {
		t.Errorf("session %+v", s.Session.Session)
	}
}

func TestOnlyWhatSomebodyTypedIsTheUsers(t *testing.T) {
	message := func(origin string) string {
		return `{"type":"context.append_message","message":{"role":"user","content":[{"type":"text","text":"x"}],"origin":{"kind":"` + origin + `"}}}`
	}
	for origin, want := range map[string]string{"user": "user", "injection": "context", "system_trigger": "context", "compaction_summary": "compaction", "shell_command": "command",
		"retry": "context", "hook_result": "context", "something_new": "context"} {
		if d := cmp.Diff([]string{"line.2< " + want + " x"}, shape(t, message(origin))); d != "" {
			t.Errorf("%s: %s", origin, d)
		}
	}
}

func TestEveryRecordThatIsNotKnownIsKept(t *testing.T) {
	got := converttest.ReadWhole(t, kimi.Tool(), journal(
		said("p", "Hello"), `{"type":"brand.new","field":7}`, event("step.other", `"a":8`), `{"type":"context.append_message","message":9}`,
		`{"type":"profile.bind","systemPrompt":"You are.","environmentDisclosure":{"cwd":"/w/tea"}}`, `{"type":"turn.step.interrupted","message":"refused"}`,
		`{"type":"turn.cancel","reason":"user"}`, `{"type":"usage.record","model":"k2","usage":{"output":4}}`, `{"type":"context.apply_compaction","summary":"So far."}`))
	want := []string{"p< user Hello", "line.3< event ", "line.4< event ", "line.5< context ", "line.6< context You are.", "line.7< error refused", "line.8< interrupted ", "line.9< event ", "line.10< compaction So far."}
	entries := got.Sessions[0].Entries
	if d := cmp.Diff(want, converttest.Shape(entries)); d != "" {
		t.Error(d)
	}
	for i, part := range map[int]string{1: `"field":7`, 2: `"a":8`, 6: `"reason":"user"`} {
		if !strings.Contains(string(entries[i].Extra), part) {
			t.Errorf("%s has the extra %s", entries[i].ID, entries[i].Extra)
		}
	}
	if got.Sessions[0].Project != "/w/tea" || entries[7].Usage == nil {
		t.Errorf("project %q, usage %v", got.Sessions[0].Project, entries[7].Usage)
	}
}

func TestDamageIsSkippedAndTheRestComesIn(t *testing.T) {
	good := head + "\n" + said("p", "Hello") + "\n"
	place := func(data string) convert.Source {
		return convert.Source{Path: ".", FS: fstest.MapFS{dir + "agents/main/wire.jsonl": {Data: []byte(data)}, dir + "state.json": {Data: []byte(`{"id":"../up","title":`)}}}
	}
	converttest.CheckDamage(t, kimi.Tool(), place, map[string]converttest.Damaged{
		"empty":            {Data: "", Skips: 1, Sessions: 0, Entries: 0},
		"other tool":       {Data: `{"type":"session_meta"}` + "\n", Skips: 1, Sessions: 0, Entries: 0},
		"cut off":          {Data: good + `{"type":"context.app`, Skips: 1, Sessions: 1, Entries: 1},
		"not JSON":         {Data: good + "hello\n" + said("q", "Two") + "\n", Skips: 1, Sessions: 1, Entries: 2},
		"not an object":    {Data: good + "7\nnull\n", Skips: 2, Sessions: 1, Entries: 1},
		"same id":          {Data: good + said("p", "again") + "\n", Skips: 0, Sessions: 1, Entries: 2},
		"a step that dies": {Data: good + event("content.part", `"stepUuid":"s","part":{"type":"text","text":"x"}`) + "\n", Skips: 0, Sessions: 1, Entries: 2},
		"a blob outside":   {Data: good + event("content.part", `"stepUuid":"s","part":{"type":"image_url","imageUrl":{"url":"blobref:image/png;../../../state.json"}}`) + "\n", Skips: 0, Sessions: 1, Entries: 2},
	})
}

func TestAFolderWithoutRightsIsNamed(t *testing.T) {
	files := journal(said("p", "Hello")).FS.(fstest.MapFS)
	files[".kimi-code/sessions/wd_locked_1/session_2/agents/main/wire.jsonl"] = converttest.Lines(head)
	got := converttest.Read(t, kimi.Tool(), convert.Source{FS: converttest.Locked{MapFS: files, Folder: "wd_locked_1"}, Path: "."})
	if len(got.Sessions) != 1 || len(got.Skips) != 1 {
		t.Errorf("%d sessions, skips %v", len(got.Sessions), got.Skips)
	}
}

func TestEveryWayToNameAStoreIsDetected(t *testing.T) {
	p := journal(said("p", "Hello"))
	for _, name := range []string{".", ".kimi-code", ".kimi-code/sessions", ".kimi-code/sessions/wd_tea_000000000000", strings.TrimSuffix(dir, "/")} {
		p.Path = name
		if !kimi.Tool().Detect(t.Context(), p) || len(converttest.ReadWhole(t, kimi.Tool(), p).Sessions) != 1 {
			t.Errorf("%s is not detected", name)
		}
	}
	converttest.CheckStops(t, kimi.Tool(), journal(said("p", "Hello"), said("q", "Two")))
}

func FuzzJournal(f *testing.F) {
	f.Add([]byte(strings.Join(append([]string{said("p", "One?")}, step("s", "1.")...), "\n")), []byte(`{"id":"session_1","forkedFrom":"session_1","createdAt":1e300}`))
	f.Add([]byte(`{"type":"context.undo","count":-1}`+"\n"+`{"type":"context.clear","time":"x"}`), []byte(`[]`))
	f.Add([]byte(event("tool.result", `"result":{"output":[7,null,{"type":"image_url","imageUrl":{"url":"data:image/png;base64,!"}}]}`)), []byte(`null`))
	f.Add([]byte(`{"type":"context.append_message","message":{"role":"tool","toolCalls":[{"function":{"name":"x"}}],"content":[[]]}}`), []byte(`{"agents":7}`))
	f.Fuzz(func(t *testing.T, records, state []byte) {
		p := convert.Source{Path: ".", FS: fstest.MapFS{dir + "state.json": {Data: state}, dir + "agents/main/wire.jsonl": {Data: append([]byte(head+"\n"), records...)},
			dir + "agents/agent-0/wire.jsonl": {Data: append([]byte(head+"\n"), records...)}}}
		kimi.Tool().Detect(t.Context(), p)
		if got := converttest.Read(t, kimi.Tool(), p); len(got.Sessions)+len(got.Skips) == 0 {
			t.Error("neither a session nor a reason why not")
		}
	})
}
