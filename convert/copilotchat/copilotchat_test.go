package copilotchat_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/converttest"
	"github.com/tidemark-sessions/tidemark/convert/copilotchat"
)

const (
	id   = "aaaaaaaa-0000-4000-8000-000000000001"
	user = ".config/Code/User/"
	dir  = user + "workspaceStorage/0a1b/chatSessions/"
)

func chat(requests ...string) string {
	return fmt.Sprintf(`{"version":3,"sessionId":%q,"creationDate":1700000000000,"lastMessageDate":1700000009000,"customTitle":"tea","requesterUsername":"ada","inputState":{"a":1},"tomorrow":1,"requests":[%s]}`,
		id, strings.Join(requests, ","))
}

func request(id, text, more string) string {
	return fmt.Sprintf(`{"requestId":%q,"responseId":"r-%s","timestamp":1700000001000,"message":{"text":%q,"parts":[]},"modelId":"copilot/gpt-x"%s}`, id, id, text, strings.ReplaceAll(more, "\n", ""))
}

func answer(text string) string {
	return fmt.Sprintf(`,"response":[{"value":%q}],"result":{"timings":{"totalElapsed":5}}`, text)
}

// store is a home with one chat, as a log of these lines.
func store(lines ...string) convert.Source {
	return convert.Source{Path: ".", FS: fstest.MapFS{dir + id + ".jsonl": converttest.Lines(lines...),
		user + "workspaceStorage/0a1b/workspace.json": {Data: []byte(`{"folder":"file:///w/My%20Tea"}`)}}}
}

func begin(requests ...string) string { return `{"kind":0,"v":` + chat(requests...) + `}` }

func read(t *testing.T, lines ...string) converttest.Session {
	t.Helper()
	return converttest.ReadWhole(t, copilotchat.Tool(), store(lines...)).Sessions[0]
}

func TestARequestComesInWithItsCallsAndResults(t *testing.T) {
	s := read(t, begin(request("q1", "Look.", `,"variableData":{"variables":[7]},"response":[{"value":"shown"},{"kind":"textEditGroup","edits":[1]}],"result":{"timings":{"totalElapsed":5},"metadata":{"promptTokens":10,"outputTokens":3,"resolvedModel":"gpt-x-2",
		"toolCallRounds":[{"thinking":{"text":"Hm."},"response":"I look.","toolCalls":[{"id":"c1","name":"read_file","arguments":"{\"a\":1}"},{"id":"c2","name":"odd","arguments":"{"}]},{"response":"Done.","toolCalls":[]}],
		"toolCallResults":{"c1":{"content":[{"value":"text"},{"$mid":21,"data":1}]}}}}`)))
	if d := cmp.Diff([]string{"q1< user Look.", "q1.0< assistant Hm.+I look.+read_file+odd", "q1.1< tool ", "q1.2< assistant Done."}, converttest.Shape(s.Entries)); d != "" {
		t.Fatal(d)
	}
	if s.Title != "tea" || s.Project != "/w/My Tea" || s.Model != "gpt-x-2" || s.CreatedAt.UnixMilli() != 1700000000000 || s.UpdatedAt.UnixMilli() != 1700000009000 {
		t.Errorf("session %+v", s.Session.Session)
	}
	if x := string(s.Extra); !strings.Contains(x, `"tomorrow":1`) || strings.Contains(x, "ada") || strings.Contains(x, "inputState") {
		t.Errorf("extra %s", x)
	}
	calls, results := s.Entries[1].Blocks, s.Entries[2].Blocks
	if string(calls[2].Input) != `{"a":1}` || string(calls[3].Input) != `"{"` || results[0].ToolUseID != "c1" || results[0].Blocks[0].Text != "text" || !strings.Contains(results[0].Blocks[1].Raw, "$mid") {
		t.Errorf("calls %+v, results %+v", calls, results)
	}
	if d := cmp.Diff(&tidemark.Usage{InputTokens: 10, OutputTokens: 3}, s.Entries[3].Usage); d != "" || s.Entries[1].Usage != nil || s.Entries[3].Model != "gpt-x-2" {
		t.Error(d)
	}
	if x := string(s.Entries[1].Extra); !strings.Contains(x, "textEditGroup") || !strings.Contains(string(s.Entries[0].Extra), "variableData") {
		t.Errorf("extra %s", x)
	}
}

func TestARequestThatWasCutOffHasWhatThePanelShowed(t *testing.T) {
	s := read(t, begin(
		request("q1", "Look.", `,"isCanceled":true,"response":[{"kind":"thinking","value":"Hm."},{"value":"I "},{"value":{"value":"look."}},{"kind":"prepareToolInvocation"},{"kind":"toolInvocationSerialized","toolId":"run","toolCallId":"c1","resultDetails":{"input":"{\"a\":1}","output":[{"value":"text"}],"isError":true}},{"value":"So"}]`),
		request("q2", "Fail.", `,"response":[],"result":{"errorDetails":{"message":"refused"}}`)))
	want := []string{"q1< user Look.", "q1.0< assistant Hm.+I look.+run", "q1.1< tool text", "q1.2< assistant So", "q1.cancelled< interrupted ", "q2<q1.cancelled user Fail.", "q2.error< error refused"}
	if d := cmp.Diff(want, converttest.Shape(s.Entries)); d != "" {
		t.Error(d)
	}
	if r := s.Entries[2].Blocks[0]; !r.IsError || r.ToolUseID != "c1" {
		t.Errorf("%+v", r)
	}
}

func TestALogOfChangesIsReplayed(t *testing.T) {
	s := read(t, begin(), `{"kind":1,"k":["customTitle"],"v":"new"}`, `{"kind":2,"k":["requests"],"v":[`+request("q1", "One?", "")+`]}`,
		`{"kind":1,"k":["requests",0,"response"],"v":[{"value":"1"}]}`, `{"kind":2,"k":["requests",0,"response"],"v":[{"value":"."}],"i":1}`,
		`{"kind":1,"k":["requests",0,"result"],"v":{"timings":{}}}`, `{"kind":3,"k":["tomorrow"]}`, `{"kind":2,"k":["requests"],"v":[`+request("q2", "Two?", `,"response":[{"value":"2"}]`)+`]}`)
	if d := cmp.Diff([]string{"q1< user One?", "q1.0< assistant 1.", "q2<q1.0 user Two?", "q2.0< assistant 2"}, converttest.Shape(s.Entries)); d != "" || s.Title != "new" || strings.Contains(string(s.Extra), `"tomorrow":1`) {
		t.Errorf("title %q, extra %s: %s", s.Title, s.Extra, d)
	}
	for i, draft := range []bool{false, false, false, true} {
		if s.Entries[i].Draft != draft {
			t.Errorf("%s is a draft: %v", s.Entries[i].ID, s.Entries[i].Draft)
		}
	}
}

func TestRequestsThatWereTakenBackAreBranches(t *testing.T) {
	s := read(t, begin(request("q1", "One?", answer("1.")), request("q2", "Two?", answer("2.")), request("q3", "Three?", answer("3."))), `{"kind":2,"k":["requests"],"v":[`+request("q4", "Four?", answer("4."))+`],"i":1}`)
	want := []string{"q1< user One?", "q1.0< assistant 1.", "q2<q1.0 user Two?", "q2.0< assistant 2.", "q3<q2.0 user Three?", "q3.0< assistant 3.", "q4<q1.0 user Four?", "q4.0< assistant 4."}
	if d := cmp.Diff(want, converttest.Shape(s.Entries)); d != "" {
		t.Error(d)
	}
}

func TestBadChangesAndFilesAreSkipped(t *testing.T) {
	good := begin(request("q1", "One?", answer("1."))) + "\n"
	place := func(data string) convert.Source {
		p := store()
		p.FS.(fstest.MapFS)[dir+id+".jsonl"].Data = []byte(data)
		return p
	}
	converttest.CheckDamage(t, copilotchat.Tool(), place, map[string]converttest.Damaged{
		"empty":             {Data: "", Skips: 1},
		"other tool":        {Data: `{"type":"session"}` + "\n", Skips: 1},
		"no beginning":      {Data: `{"kind":1,"k":["a"],"v":1}` + "\n", Skips: 1},
		"bad id":            {Data: strings.Replace(good, id, "../up", 1), Skips: 1},
		"cut off":           {Data: good + `{"kind":1,"k":["cust`, Skips: 1, Sessions: 1, Entries: 2},
		"far away":          {Data: good + `{"kind":1,"k":["requests",1000000000],"v":1}` + "\n", Skips: 1, Sessions: 1, Entries: 2},
		"through a text":    {Data: good + `{"kind":1,"k":["customTitle","a"],"v":1}` + "\n", Skips: 1, Sessions: 1, Entries: 2},
		"before the start":  {Data: good + `{"kind":2,"k":["requests"],"i":-1}` + "\n", Skips: 1, Sessions: 1, Entries: 2},
		"half an index":     {Data: good + `{"kind":1,"k":["requests",0.5],"v":1}` + "\n", Skips: 1, Sessions: 1, Entries: 2},
		"no path":           {Data: good + `{"kind":1,"k":[],"v":1}` + "\n", Skips: 1, Sessions: 1, Entries: 2},
		"requests are none": {Data: good + `{"kind":1,"k":["requests"],"v":7}` + "\n", Sessions: 1},
	})
}

func TestEveryWayToNameAStoreIsDetected(t *testing.T) {
	p := store(begin(request("q1", "One?", answer("1."))))
	files := p.FS.(fstest.MapFS)
	files[dir+id+".json"] = converttest.Lines(chat(request("q0", "older", answer("0."))))
	other := strings.Replace(id, "1", "2", 1)
	files[user+"globalStorage/emptyWindowChatSessions/"+other+".json"] = converttest.Lines(strings.Replace(chat(request("q1", "Two?", answer("2."))), id, other, 1))
	for name, sessions := range map[string]int{".": 2, ".config/Code/User": 2, user + "workspaceStorage": 1, user + "workspaceStorage/0a1b": 1, user + "workspaceStorage/0a1b/chatSessions": 1, dir + id + ".jsonl": 1} {
		p.Path = name
		if got := converttest.ReadWhole(t, copilotchat.Tool(), p); !copilotchat.Tool().Detect(t.Context(), p) || len(got.Sessions) != sessions || got.Find(id).Entries[0].ID != "q1" {
			t.Errorf("%s: %d sessions, want %d", name, len(got.Sessions), sessions)
		}
	}
	converttest.CheckStops(t, copilotchat.Tool(), p)
	if copilotchat.Tool().Detect(t.Context(), convert.Source{Path: ".", FS: fstest.MapFS{"a.json": {Data: []byte(`{"sessionId":"x"}`)}}}) {
		t.Error("something else is detected")
	}
}

func FuzzLog(f *testing.F) {
	f.Add([]byte(`{"kind":1,"k":["requests",0,"response"],"v":[{"value":"1"}]}` + "\n" + `{"kind":2,"k":["requests"],"v":[7],"i":0}`))
	f.Add([]byte(`{"kind":2,"k":["requests"],"v":[` + request("q1", "again", "") + "," + request("q1", "again", "") + `]}`))
	f.Add([]byte(`{"kind":0,"v":{"sessionId":"x","requests":[{"message":"text","response":["a",{"kind":"toolInvocationSerialized"}],"result":{"metadata":{"toolCallRounds":[{"toolCalls":[7]}]}}}]}}`))
	f.Fuzz(func(t *testing.T, changes []byte) {
		p := store(begin(request("q1", "One?", answer("1."))), string(changes))
		copilotchat.Tool().Detect(t.Context(), p)
		if got := converttest.Read(t, copilotchat.Tool(), p); len(got.Sessions)+len(got.Skips) == 0 {
			t.Error("neither a session nor a reason why not")
		}
	})
}
