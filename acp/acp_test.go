package acp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	sdk "github.com/coder/acp-go-sdk"
	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/model"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/workshop/hostile"
)

func same(t testing.TB, got, want any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

func TestItSaysWhatItCanAndNoMore(t *testing.T) {
	e := newRig(t).editor()
	g := call[map[string]json.RawMessage](e, sdk.AgentMethodInitialize, sdk.InitializeRequest{ProtocolVersion: 9})
	if string(g["protocolVersion"]) != "1" || string(g["authMethods"]) != "[]" {
		t.Errorf("%s %s", g["protocolVersion"], g["authMethods"])
	}
	var can any
	if err := json.Unmarshal(g["agentCapabilities"], &can); err != nil {
		t.Fatal(err)
	}
	none := map[string]any{}
	same(t, can, map[string]any{"loadSession": true, "promptCapabilities": map[string]any{"image": true, "embeddedContext": true}, "mcpCapabilities": none,
		"sessionCapabilities": map[string]any{"list": none, "resume": none, "close": none, "delete": none, "fork": none}})
	for _, method := range []string{"authenticate", "session/set_mode", "nonsense", "_tidemark/nonsense"} {
		_, err := try[any](e, method, map[string]any{})
		refused(t, err, "Method not found")
	}
}

// TestAnAnswerThatWasCutOffIsNoEndOfATurn: an editor is told why it ended, as
// near as the protocol comes, and the person in words.
func TestAnAnswerThatWasCutOffIsNoEndOfATurn(t *testing.T) {
	r := newRig(t)
	e := r.editor()
	id := e.open(r.dir)
	for stop, want := range map[string]sdk.StopReason{
		model.StopEnd: sdk.StopReasonEndTurn, model.StopSequence: sdk.StopReasonEndTurn, model.StopMaxTokens: sdk.StopReasonMaxTokens,
		model.StopRefusal: sdk.StopReasonRefusal, model.StopPause: sdk.StopReasonMaxTurnRequests, model.StopUnknown: sdk.StopReasonMaxTurnRequests,
	} {
		if got := e.say(id, "stop: "+stop); got != want {
			t.Errorf("%s: %s, want %s", stop, got, want)
		}
	}
}

func TestATurnIsShownAsItComesAndKept(t *testing.T) {
	r := newRig(t)
	e := r.editor()
	id := e.open(r.dir)
	if got := e.list(sdk.ListSessionsRequest{}).Sessions; len(got) != 0 {
		t.Errorf("a session is kept before anything was said: %v", got)
	}
	if got := e.say(id, "think about tea"); got != sdk.StopReasonEndTurn {
		t.Error(got)
	}
	if got := e.shown(id); len(got) != 2 || !strings.HasPrefix(got[0], "thought: ") || !strings.HasPrefix(got[1], "agent: ") {
		t.Errorf("%q", got)
	}
	e.forget()
	e.say(id, "write notes.txt: one\ntwo")
	got := e.shown(id)
	if len(got) < 4 || !slices.Contains(got, "call: edit pending write: notes.txt") || !slices.Contains(got, "call: in_progress") || !slices.Contains(got, "call: completed") {
		t.Errorf("%q", got)
	}
	if b, err := os.ReadFile(filepath.Join(r.dir, "notes.txt")); err != nil || string(b) != "one\ntwo" {
		t.Errorf("%q %v", b, err)
	}
	q := e.questions()
	if len(q) != 1 || *q[0].ToolCall.Kind != sdk.ToolKindEdit || len(q[0].Options) != 3 {
		t.Fatalf("%+v", q)
	}
	diff := q[0].ToolCall.Content[0].Diff
	if diff == nil || diff.OldText != nil || diff.NewText != "one\ntwo" || diff.Path != filepath.Join(r.dir, "notes.txt") {
		t.Errorf("%+v", diff)
	}
	same(t, q[0].ToolCall.Locations[0].Path, filepath.Join(r.dir, "notes.txt"))
	same(t, q[0].ToolCall.RawInput, any(map[string]any{"path": "notes.txt", "content": "one\ntwo"}))
	// What is overwritten is shown, too.
	e.forget()
	e.say(id, "write notes.txt: three")
	if old := e.questions()[0].ToolCall.Content[0].Diff.OldText; old == nil || *old != "one\ntwo" {
		t.Errorf("%v", old)
	}
	list := e.list(sdk.ListSessionsRequest{}).Sessions
	if len(list) != 1 || list[0].SessionId != id || *list[0].Title != "think about tea" || list[0].Cwd != r.dir || list[0].UpdatedAt == nil {
		t.Errorf("%+v", list)
	}
}

func TestOutputOfACommandIsShownWhileItRuns(t *testing.T) {
	r := newRig(t)
	e := r.editor()
	id := e.open(r.dir)
	done := make(chan error, 1)
	go func() {
		_, err := try[sdk.PromptResponse](e, sdk.AgentMethodSessionPrompt, promptOf(id, "run echo early; until [ -e go ]; do sleep 0.05; done; echo late"))
		done <- err
	}()
	seen := func(words string) bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		return slices.ContainsFunc(e.updates, func(n sdk.SessionNotification) bool {
			u := n.Update.ToolCallUpdate
			return u != nil && len(u.Content) > 0 && strings.Contains(u.Content[0].Content.Content.Text.Text, words)
		})
	}
	for !seen("early") {
		<-e.news
	}
	if seen("late") {
		t.Error("it is over already")
	}
	if err := os.WriteFile(filepath.Join(r.dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil || !seen("late") {
		t.Errorf("%v", err)
	}
}

func TestWhatIsAlwaysAllowedIsKeptWithTheSession(t *testing.T) {
	r := newRig(t)
	e := r.editor()
	id := e.open(r.dir)
	e.answers(func(sdk.RequestPermissionRequest) sdk.RequestPermissionOutcome {
		return sdk.NewRequestPermissionOutcomeSelected("allow-always")
	})
	e.say(id, "run echo one")
	e.say(id, "run echo two")
	if q := e.questions(); len(q) != 1 {
		t.Errorf("asked %d times", len(q))
	}
	e.leave()
	e = r.editor()
	e.load(id, r.dir)
	e.say(id, "run echo three")
	if q := e.questions(); len(q) != 0 {
		t.Errorf("asked %d times after a restart", len(q))
	}
}

func TestWhatIsRejectedDoesNotRun(t *testing.T) {
	r := newRig(t)
	e := r.editor()
	id := e.open(r.dir)
	e.answers(func(sdk.RequestPermissionRequest) sdk.RequestPermissionOutcome {
		return sdk.NewRequestPermissionOutcomeSelected("reject-once")
	})
	if got := e.say(id, "run touch made"); got != sdk.StopReasonEndTurn {
		t.Error(got)
	}
	if _, err := os.Stat(filepath.Join(r.dir, "made")); err == nil {
		t.Error("it ran")
	}
	if got := e.shown(id); !slices.Contains(got, "call: failed") {
		t.Errorf("%q", got)
	}
}

func TestASessionThatIsOpenMovesWithTheEditor(t *testing.T) {
	r := newRig(t)
	e := r.editor()
	id := e.open(r.dir)
	other := t.TempDir()
	_, err := try[any](e, sdk.AgentMethodSessionLoad, sdk.LoadSessionRequest{SessionId: id, Cwd: other, McpServers: []sdk.McpServer{}})
	refused(t, err, "begin another one here")
	id = e.open(r.dir)
	e.say(id, "run touch first")
	e.load(id, other)
	e.say(id, "run touch second")
	for dir, want := range map[string]string{r.dir: "first", other: "second"} {
		found, err := os.ReadDir(dir)
		if err != nil || len(found) != 1 || found[0].Name() != want {
			t.Errorf("in %s are %v, %v; want %s", dir, found, err, want)
		}
	}
}

func TestAForkThatCannotBeOpenedIsNotLeft(t *testing.T) {
	r := newRig(t)
	e := r.editor()
	id := e.open(r.dir)
	e.say(id, "hello")
	for _, cwd := range []string{"here", filepath.Join(r.dir, "not", "there")} {
		if _, err := try[any](e, sdk.AgentMethodSessionFork, map[string]any{"sessionId": id, "cwd": cwd}); err == nil {
			t.Errorf("forked in %s", cwd)
		}
	}
	if got := e.list(sdk.ListSessionsRequest{}); len(got.Sessions) != 1 {
		t.Errorf("%d sessions are listed", len(got.Sessions))
	}
}

func TestWhoIsAskedIsShownAllThatWouldRun(t *testing.T) {
	r := newRig(t)
	e := r.editor()
	id := e.open(r.dir)
	hidden := "touch " + strings.Repeat("a", 200)
	for input, want := range map[string]string{
		`{"command":"echo hi\n` + hidden + `"}`: "```\n@ bash\n@ command:\n  echo hi\n  " + hidden + "\n```\n",
		`{"command":"echo hi; ` + hidden + `"}`: "```\n@ bash\n@ command:\n  echo hi; " + hidden + "\n```\n",
		`{"command":"echo hi"}`:                 "```\n@ bash\n@ command:\n  echo hi\n```\n",
	} {
		before := len(e.questions())
		e.say(id, "call bash "+input)
		q := e.questions()[before:]
		if len(q) != 1 {
			t.Fatalf("%s: asked %d times", input, len(q))
		}
		got := ""
		for _, c := range q[0].ToolCall.Content {
			got += c.Content.Content.Text.Text
		}
		same(t, got, want)
	}
}

func TestAnEditorIsShownHostileCallsWhole(t *testing.T) {
	r := newRig(t)
	e := r.editor()
	id := e.open(r.dir)
	for name, command := range hostile.Commands() {
		input, err := json.Marshal(map[string]string{"command": command})
		if err != nil {
			t.Fatal(err)
		}
		before := len(e.questions())
		e.say(id, "call bash "+string(input))
		q := e.questions()[before:]
		if len(q) != 1 || len(q[0].ToolCall.Content) != 1 {
			t.Fatalf("%s: %+v", name, q)
		}
		got := q[0].ToolCall.Content[0].Content.Content.Text.Text
		fence, _, _ := strings.Cut(got, "\n")
		if want := render.ApprovalText(render.ApprovalLines("bash", input, nil)); got != fence+"\n"+want+fence+"\n" || strings.Contains(want, fence) {
			t.Errorf("%s: %q, want %q", name, got[:min(len(got), 300)], want[:min(len(want), 300)])
		}
		if name := string(q[0].Options[1].Name); strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsGraphic(r) }) {
			t.Errorf("an option is called %q", name)
		}
	}
	input, err := json.Marshal(map[string]string{"command": hostile.HugeCommand()})
	if err != nil {
		t.Fatal(err)
	}
	before := len(e.questions())
	e.say(id, "call bash "+string(input))
	if shown := strings.Join(e.shown(id), "\n"); len(e.questions()) != before || !strings.Contains(shown, "more than a person can be shown") {
		t.Error("a call that nobody can read was asked for")
	}
}

func TestCancelEndsATurnAndKeepsWhatCame(t *testing.T) {
	r := newRig(t)
	e := r.editor()
	id := e.open(r.dir)
	stop := make(chan sdk.StopReason, 1)
	go func() {
		a, _ := try[sdk.PromptResponse](e, sdk.AgentMethodSessionPrompt, promptOf(id, "hang"))
		stop <- a.StopReason
	}()
	e.until(id, "well")
	// A second prompt is refused, and does not disturb the first.
	_, err := try[sdk.PromptResponse](e, sdk.AgentMethodSessionPrompt, promptOf(id, "hello"))
	refused(t, err, "a turn is under way", `"code":"conflict"`)
	_, err = try[any](e, sdk.AgentMethodSessionLoad, sdk.LoadSessionRequest{SessionId: id, Cwd: r.dir, McpServers: []sdk.McpServer{}})
	refused(t, err, "a turn is under way")
	if err := e.conn.SendNotification(context.Background(), sdk.AgentMethodSessionCancel, sdk.CancelNotification{SessionId: id}); err != nil {
		t.Fatal(err)
	}
	same(t, <-stop, sdk.StopReasonCancelled)
	if got := e.say(id, "hello"); got != sdk.StopReasonEndTurn {
		t.Error(got)
	}
	e.leave()
	e = r.editor()
	e.load(id, r.dir)
	if got := e.shown(id); len(got) < 4 || got[0] != "user: hang" || got[1] != "agent: well " || got[2] != "user: hello" {
		t.Errorf("%q", got)
	}
}

func TestCancelWhileItAsksRunsNothing(t *testing.T) {
	r := newRig(t)
	e := r.editor()
	id := e.open(r.dir)
	e.answers(func(sdk.RequestPermissionRequest) sdk.RequestPermissionOutcome {
		return sdk.NewRequestPermissionOutcomeCancelled()
	})
	same(t, e.say(id, "run touch made"), sdk.StopReasonCancelled)
	if _, err := os.Stat(filepath.Join(r.dir, "made")); err == nil {
		t.Error("it ran")
	}
}

func TestLoadShowsWhatWasShown(t *testing.T) {
	r := newRig(t)
	e := r.editor()
	id := e.open(r.dir)
	for _, text := range []string{"think about tea", "write a.txt: one", "run cat a.txt", `call task {"action":"add","text":"drink"}`} {
		e.say(id, text)
	}
	var live []string
	for _, line := range e.shown(id) {
		if line != "call: in_progress" {
			live = append(live, line)
		}
	}
	e.leave()
	e = r.editor()
	e.load(id, r.dir)
	var loaded []string
	for _, line := range e.shown(id) {
		if !strings.HasPrefix(line, "user: ") {
			loaded = append(loaded, line)
		}
	}
	// The task list is told when it changes, and when a session is opened.
	tasks := "plan: drink(pending)"
	if !slices.Contains(live, tasks) || loaded[len(loaded)-1] != tasks {
		t.Errorf("%q\n%q", live, loaded)
	}
	isPlan := func(line string) bool { return line == tasks }
	same(t, slices.DeleteFunc(loaded, isPlan), slices.DeleteFunc(live, isPlan))
	// Going on without the past shows nothing of it.
	e.leave()
	e = r.editor()
	call[sdk.ResumeSessionResponse](e, sdk.AgentMethodSessionResume, sdk.ResumeSessionRequest{SessionId: id, Cwd: r.dir})
	same(t, e.shown(id), []string{tasks})
	e.say(id, "what have I said so far?")
	if got := strings.Join(e.shown(id), "\n"); !strings.Contains(got, "1. think about tea") || !strings.Contains(got, "3. run cat a.txt") {
		t.Errorf("%s", got)
	}
}

func TestListGoesNewestFirstInPages(t *testing.T) {
	r := newRig(t)
	other := t.TempDir()
	for i := range 120 {
		dir := r.dir
		if i%2 == 1 {
			dir = other
		}
		_, err := r.store.CreateEmpty(context.Background(), tidemark.Session{ID: tidemark.NewSessionID(), Title: fmt.Sprint(i), Project: dir})
		if err != nil {
			t.Fatal(err)
		}
	}
	e := r.editor()
	for name, p := range map[string]sdk.ListSessionsRequest{"all": {}, "one project": {Cwd: &r.dir}} {
		var titles []string
		pages := 0
		for {
			a := e.list(p)
			pages++
			for _, s := range a.Sessions {
				titles = append(titles, *s.Title)
			}
			if p.Cursor = a.NextCursor; p.Cursor == nil {
				break
			}
		}
		var want []string
		for i := 119; i >= 0; i-- {
			if p.Cwd == nil || i%2 == 0 {
				want = append(want, fmt.Sprint(i))
			}
		}
		if !slices.Equal(titles, want) || pages != (len(want)+49)/50 {
			t.Errorf("%s: %d pages, %q", name, pages, titles)
		}
	}
	for _, p := range []sdk.ListSessionsRequest{{Cwd: sdk.Ptr("here")}, {Cursor: sdk.Ptr("nonsense")}} {
		_, err := try[sdk.ListSessionsResponse](e, sdk.AgentMethodSessionList, p)
		refused(t, err, "-32602")
	}
}

func TestCloseLetsGoAndDeleteMovesToTheTrash(t *testing.T) {
	r := newRig(t)
	e := r.editor()
	id, never := e.open(r.dir), e.open(r.dir)
	e.say(id, "hello")
	_, err := r.store.Attach(context.Background(), tidemark.SessionID(id), tidemark.Holder{Program: "other", PID: 3, Host: "ada"})
	refused(t, err, "editor Test")
	call[sdk.CloseSessionResponse](e, sdk.AgentMethodSessionClose, sdk.CloseSessionRequest{SessionId: id})
	if err := r.writer(id).Close(context.Background()); err != nil {
		t.Error(err)
	}
	if c, err := r.store.Checkpoint(context.Background(), tidemark.SessionID(id), ""); err != nil || c.Reason != "left" {
		t.Errorf("%+v %v", c, err)
	}
	_, err = try[any](e, sdk.AgentMethodSessionPrompt, promptOf(id, "hello"))
	refused(t, err, "not open here", "-32002")
	e.load(id, r.dir)
	call[any](e, "session/delete", map[string]any{"sessionId": id}) // it is open
	call[any](e, "session/delete", map[string]any{"sessionId": never})
	if got := e.list(sdk.ListSessionsRequest{}).Sessions; len(got) != 0 {
		t.Errorf("%v", got)
	}
	if i, err := r.store.Session(context.Background(), tidemark.SessionID(id)); err != nil || i.State != store.Trash {
		t.Errorf("%+v %v", i, err)
	}
	for _, id := range []sdk.SessionId{id, never, "nonsense", ""} {
		_, err := try[any](e, sdk.AgentMethodSessionLoad, sdk.LoadSessionRequest{SessionId: id, Cwd: r.dir, McpServers: []sdk.McpServer{}})
		if id != "" {
			refused(t, err, "-32002")
		}
		refused(t, err, "session")
	}
	_, err = try[any](e, "session/delete", map[string]any{"sessionId": "nonsense"})
	refused(t, err, "-32002")
}

func TestASessionThatIsOpenElsewhereIsReadAlong(t *testing.T) {
	r := newRig(t)
	e := r.editor()
	id := e.open(r.dir)
	e.say(id, "hello")
	call[sdk.CloseSessionResponse](e, sdk.AgentMethodSessionClose, sdk.CloseSessionRequest{SessionId: id})
	w := r.writer(id)
	e.forget()
	e.load(id, r.dir)
	e.until(id, "is open in tidemark chat (pid 2 on ada)")
	_, err := w.Append(context.Background(), tidemark.Say(tidemark.User, "from elsewhere"), tidemark.Say(tidemark.Assistant, "heard elsewhere"))
	if err != nil {
		t.Fatal(err)
	}
	e.until(id, "agent: heard elsewhere")
	_, err = try[any](e, sdk.AgentMethodSessionPrompt, promptOf(id, "from here"))
	refused(t, err, "is open in tidemark chat (pid 2 on ada)", "/take-over", "tidemark lock", `"code":"held"`)
	_, err = try[any](e, "session/delete", map[string]any{"sessionId": id})
	refused(t, err, "is open in tidemark chat")
	// Deleting closed it here. It is free as soon as the other one lets go.
	e.load(id, r.dir)
	e.forget()
	if _, err = w.Append(context.Background(), tidemark.Say(tidemark.User, "last words")); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	same(t, e.say(id, "what have I said so far?"), sdk.StopReasonEndTurn)
	got := e.shown(id)
	if n := strings.Count(strings.Join(got, "\n"), "user: last words"); n != 1 {
		t.Errorf("shown %d times: %q", n, got)
	}
	if !strings.Contains(got[len(got)-1], "2. from elsewhere") {
		t.Errorf("%q", got)
	}
}

func TestASessionIsHandedOverBetweenEditors(t *testing.T) {
	r := newRig(t)
	first, second := r.editor(), r.editor()
	id := first.open(r.dir)
	first.say(id, "hello")
	second.load(id, r.dir)
	second.until(id, "it is read along here")
	same(t, second.say(id, "/take-over"), sdk.StopReasonEndTurn)
	first.until(id, "Handed over to")
	second.say(id, "from the second")
	first.until(id, "user: from the second")
	_, err := try[any](first, sdk.AgentMethodSessionPrompt, promptOf(id, "from the first"))
	refused(t, err, "is open in editor Test")
}

func TestSessionsOfOneEditorDoNotWaitForEachOther(t *testing.T) {
	r := newRig(t)
	e := r.editor()
	one, two := e.open(r.dir), e.open(r.dir)
	hung := make(chan error, 1)
	go func() {
		_, err := try[any](e, sdk.AgentMethodSessionPrompt, promptOf(one, "hang"))
		hung <- err
	}()
	e.until(one, "well")
	e.say(two, "hello")
	// Closing a session ends its turn.
	call[sdk.CloseSessionResponse](e, sdk.AgentMethodSessionClose, sdk.CloseSessionRequest{SessionId: one})
	if err := <-hung; err != nil {
		t.Error(err)
	}
}

func TestAnEditorThatGoesMidTurnLeavesASessionThatIsFree(t *testing.T) {
	r := newRig(t)
	e := r.editor()
	id := e.open(r.dir)
	go try[any](e, sdk.AgentMethodSessionPrompt, promptOf(id, "hang"))
	e.until(id, "well")
	e.leave()
	if err := r.writer(id).Close(context.Background()); err != nil {
		t.Error(err)
	}
	e = r.editor()
	e.load(id, r.dir)
	same(t, e.shown(id), []string{"user: hang", "agent: well "})
}

func TestTheModelOfASessionCanBeChosen(t *testing.T) {
	r := newRig(t)
	e := r.editor()
	a := call[sdk.NewSessionResponse](e, sdk.AgentMethodSessionNew, sdk.NewSessionRequest{Cwd: r.dir, McpServers: []sdk.McpServer{}})
	now := a.ConfigOptions[0].Select
	if now.CurrentValue != "demo/demo" || len(*now.Options.Ungrouped) != 2 || a.Models.CurrentModelId != "demo/demo" {
		t.Errorf("%+v %+v", now, a.Models)
	}
	set := func(option, value string) (sdk.SetSessionConfigOptionResponse, error) {
		return try[sdk.SetSessionConfigOptionResponse](e, sdk.AgentMethodSessionSetConfigOption, map[string]any{"sessionId": a.SessionId, "configId": option, "value": value})
	}
	b, err := set("model", "demo/other")
	if err != nil || b.ConfigOptions[0].Select.CurrentValue != "demo/other" {
		t.Errorf("%+v %v", b, err)
	}
	e.say(a.SessionId, "hello")
	if i, err := r.store.Checkpoint(context.Background(), tidemark.SessionID(a.SessionId), ""); err != nil || !strings.Contains(string(i.Extra), `"model":"other"`) {
		t.Errorf("%s %v", i.Extra, err)
	}
	call[any](e, sdk.AgentMethodSessionSetModel, map[string]any{"sessionId": a.SessionId, "modelId": "demo/third"})
	_, err = set("model", "nonsense")
	refused(t, err, "no model")
	_, err = set("colour", "blue")
	refused(t, err, "one thing to choose")
}

func TestCommandsAreCarriedOutAndOtherSlashesAreSaid(t *testing.T) {
	r := newRig(t)
	e := r.editor()
	id := e.open(r.dir)
	e.say(id, "hello")
	e.forget()
	e.say(id, "/count sheep")
	same(t, e.shown(id), []string{"agent: ```\nsheep: 3\nin " + r.dir + "\n```\n"})
	e.forget()
	e.say(id, "/count")
	same(t, e.shown(id), []string{"agent: count what?\n"})
	e.say(id, "/usr/bin is a folder")
	e.say(id, "what have I said so far?")
	if got := strings.Join(e.shown(id), "\n"); !strings.Contains(got, "2. /usr/bin is a folder") || strings.Contains(got, "sheep") {
		t.Errorf("%s", got)
	}
}

func TestServersThatGoUnusedAreNamed(t *testing.T) {
	r := newRig(t)
	e := r.editor()
	open := func(server string) (sdk.NewSessionResponse, error) {
		return try[sdk.NewSessionResponse](e, sdk.AgentMethodSessionNew, json.RawMessage(fmt.Sprintf(`{"cwd":%q,"mcpServers":[%s]}`, r.dir, server)))
	}
	a, err := open(`{"name":"search","command":"/bin/search","args":[],"env":[]}`)
	if err != nil {
		t.Fatal(err)
	}
	e.until(a.SessionId, "does not use MCP servers: search.")
	_, err = open(`{"type":"http","name":"web","url":"https://example.com","headers":[]}`)
	refused(t, err, "-32602", "not used by this agent")
	_, err = try[any](e, sdk.AgentMethodSessionNew, sdk.NewSessionRequest{Cwd: "here", McpServers: []sdk.McpServer{}})
	refused(t, err, "-32602", "not an absolute path")
	_, err = try[any](e, sdk.AgentMethodSessionNew, sdk.NewSessionRequest{Cwd: filepath.Join(r.dir, "missing"), McpServers: []sdk.McpServer{}})
	refused(t, err, "missing")
}

func TestAForkSharesThePast(t *testing.T) {
	r := newRig(t)
	e := r.editor()
	id := e.open(r.dir)
	e.say(id, "apple")
	fork := call[sdk.NewSessionResponse](e, sdk.AgentMethodSessionFork, map[string]any{"sessionId": id, "cwd": r.dir}).SessionId
	e.say(fork, "pear")
	e.say(fork, "what have I said so far?")
	if got := strings.Join(e.shown(fork), "\n"); !strings.Contains(got, "1. apple") || !strings.Contains(got, "2. pear") {
		t.Errorf("%s", got)
	}
	e.say(id, "what have I said so far?")
	if got := strings.Join(e.shown(id), "\n"); strings.Contains(got, "pear") {
		t.Errorf("%s", got)
	}
}

func TestWhatAnEditorSendsAlongIsPartOfTheMessage(t *testing.T) {
	r := newRig(t)
	e := r.editor()
	id := e.open(r.dir)
	pixel := "iVBORw0KGgo="
	call[any](e, sdk.AgentMethodSessionPrompt, sdk.PromptRequest{SessionId: id, Prompt: []sdk.ContentBlock{
		sdk.ResourceBlock(sdk.EmbeddedResourceResource{TextResourceContents: &sdk.TextResourceContents{Uri: "file:///p/my%20file.go", Text: "package p"}}),
		sdk.TextBlock("Look at "), sdk.ResourceLinkBlock("main.go", "file:///p/main.go"), sdk.ImageBlock(pixel, "image/png"),
		sdk.ResourceBlock(sdk.EmbeddedResourceResource{BlobResourceContents: &sdk.BlobResourceContents{Uri: "file:///p/a.pdf", Blob: "JVBERg==", MimeType: sdk.Ptr("application/pdf")}}),
	}})
	v, err := r.store.View(context.Background(), tidemark.SessionID(id))
	if err != nil {
		t.Fatal(err)
	}
	for entry, err := range v.Path(context.Background(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if entry.Role != tidemark.User {
			continue
		}
		same(t, entry.Blocks, []tidemark.Block{
			tidemark.Text("<document path=\"/p/my file.go\">\npackage p\n</document>"), tidemark.Text("Look at "), tidemark.Text(`<link name="main.go" path="/p/main.go" />`),
			{Type: tidemark.BlockImage, MediaType: "image/png", Data: []byte("\x89PNG\r\n\x1a\n")},
			{Type: tidemark.BlockFile, MediaType: "application/pdf", Name: "a.pdf", Data: []byte("%PDF")},
		})
	}
	same(t, v.Title, "Look at main.go")
	for name, b := range map[string]sdk.ContentBlock{
		"sound is not taken": sdk.AudioBlock("AAAA", "audio/wav"), "not base64": sdk.ImageBlock("%", "image/png"), "neither data nor": sdk.ImageBlock("", "image/png"),
		"is not taken; models read": sdk.ResourceBlock(sdk.EmbeddedResourceResource{BlobResourceContents: &sdk.BlobResourceContents{Uri: "file:///a.zip", Blob: "AAAA", MimeType: sdk.Ptr("application/zip")}}),
	} {
		_, err := try[any](e, sdk.AgentMethodSessionPrompt, sdk.PromptRequest{SessionId: id, Prompt: []sdk.ContentBlock{b}})
		refused(t, err, name)
	}
	_, err = try[any](e, sdk.AgentMethodSessionPrompt, promptOf(id, ""))
	refused(t, err, "without words")
}

func TestALeaseThatIsLostMakesAReaderOfTheEditor(t *testing.T) {
	r := newRig(t)
	e := r.editor()
	id := e.open(r.dir)
	e.say(id, "hello")
	if err := r.store.Release(context.Background(), tidemark.SessionID(id), true); err != nil {
		t.Fatal(err)
	}
	w := r.writer(id)
	_, err := try[any](e, sdk.AgentMethodSessionPrompt, promptOf(id, "too late"))
	refused(t, err, "the lease was lost to tidemark chat")
	if _, err := w.Append(context.Background(), tidemark.Say(tidemark.User, "from elsewhere")); err != nil {
		t.Fatal(err)
	}
	e.until(id, "user: from elsewhere")
	if err := w.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	e.say(id, "what have I said so far?")
	if got := e.shown(id); strings.Contains(strings.Join(got, "\n"), "too late") || !strings.Contains(got[len(got)-1], "2. from elsewhere") {
		t.Errorf("%q", got)
	}
}

func TestOfABranchedSessionOnlyTheBranchAndWhatFollowsIsShown(t *testing.T) {
	r := newRig(t)
	e := r.editor()
	id := e.open(r.dir)
	e.load(id, r.dir) // nothing was said yet, and that is no error
	e.say(id, "hello")
	call[sdk.CloseSessionResponse](e, sdk.AgentMethodSessionClose, sdk.CloseSessionRequest{SessionId: id})
	ctx := context.Background()
	w := r.writer(id)
	before := w.Head()
	if _, err := w.Append(ctx, tidemark.Say(tidemark.User, "left aside")); err != nil {
		t.Fatal(err)
	}
	if err := w.Branch(ctx, before); err != nil {
		t.Fatal(err)
	}
	e.forget()
	e.load(id, r.dir)
	if _, err := w.Append(ctx, tidemark.Say(tidemark.User, "gone on")); err != nil {
		t.Fatal(err)
	}
	e.until(id, "user: gone on")
	if err := w.Branch(ctx, before); err != nil {
		t.Fatal(err)
	}
	e.until(id, "goes on from an earlier point")
	if got := strings.Join(e.shown(id), "\n"); strings.Contains(got, "left aside") || strings.Count(got, "user: hello") != 1 {
		t.Errorf("%s", got)
	}
}
