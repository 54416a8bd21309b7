package codex_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/codex"
	"github.com/tidemark-sessions/tidemark/convert/converttest"
)

// The lines of a rollout, as small as they can be.

func line(kind, payload string) string {
	return fmt.Sprintf(`{"timestamp":"2025-11-01T10:00:01.000Z","type":%q,"payload":%s}`, kind, payload) + "\n"
}

func numbered(n int, lines string) string {
	var b strings.Builder
	for l := range strings.Lines(lines) {
		b.WriteString(strings.Replace(l, `"type"`, fmt.Sprintf(`"ordinal":%d,"type"`, n), 1))
		n++
	}
	return b.String()
}

func meta(n int, more ...string) string {
	return line("session_meta", fmt.Sprintf(`{"id":%q,"timestamp":"2025-11-01T10:00:00.000Z","cwd":"/home/ada/tea"%s}`, id(n), strings.Join(more, "")))
}

func item(payload string) string  { return line("response_item", payload) }
func event(payload string) string { return line("event_msg", payload) }

func quote(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

func message(role, kind, text string) string {
	return item(fmt.Sprintf(`{"type":"message","role":%q,"content":[{"type":%q,"text":%s}]}`, role, kind, quote(text)))
}

func user(text string) string {
	return message("user", "input_text", text) + event(fmt.Sprintf(`{"type":"user_message","message":%s}`, quote(text)))
}

func client(text string) string { return message("user", "input_text", text) }
func reply(text string) string  { return message("assistant", "output_text", text) }

func store(files map[int]string) convert.Source {
	all := fstest.MapFS{}
	for n, text := range files {
		all["sessions/2025/11/01/"+rolloutName(n)] = &fstest.MapFile{Data: []byte(text)}
	}
	return convert.Source{FS: all, Path: "."}
}

func TestWhatLinesBecome(t *testing.T) {
	png := "data:image/png;base64,iVBORw0K"
	for name, c := range map[string]struct {
		lines string
		want  []string
	}{
		"client text without a mark, where the file tells prompts": {
			user("Hello?") + client("Warning: too many processes") + reply("Hi."),
			[]string{"1 user Hello?", "2 context Warning: too many processes", "3 assistant Hi."}},
		"a prompt in a file that never tells":    {client("Hello?") + reply("Hi."), []string{"1 user Hello?", "2 assistant Hi."}},
		"a prompt whose event was never written": {user("One?") + reply("A.") + client("Two?"), []string{"1 user One?", "2 assistant A.", "3 user Two?"}},
		"a prompt whose event came first": {
			user("One?") + event(`{"type":"user_message","message":"Two?"}`) + client("Two?") + reply("B."),
			[]string{"1 user One?", "2 user Two?", "3 assistant B."}},
		"a prompt that looks like the client's": {
			user("<environment_context> is what?"), []string{"1 user <environment_context> is what?"}},
		"a prompt by its metadata": {
			item(`{"type":"message","role":"user","content":[{"type":"input_text","text":"Hello?"}],"internal_chat_message_metadata_passthrough":{"content_item_kinds":["user.text"]}}`) +
				item(`{"type":"message","role":"user","content":[{"type":"input_text","text":"Listen."}],"internal_chat_message_metadata_passthrough":{"content_item_kinds":["hook.context"]}}`),
			[]string{"1 user Hello?", "2 context Listen."}},
		"the words of an editor": {
			user("# Context from my IDE setup:\n\n## Open tabs:\n- a.go\n\n## My request for Codex:\nFix it."),
			[]string{"1 user Fix it."}},
		"an image and its tags": {
			item(`{"type":"message","role":"user","content":[{"type":"input_text","text":"<image name=[Image #1] path=\"a.png\">"},{"type":"input_image","image_url":"`+png+`","detail":"high"},{"type":"input_text","text":"</image>"},{"type":"input_text","text":"What?"}]}`) +
				event(`{"type":"user_message","message":"What?"}`),
			[]string{"1 user image:image/png:6 What?"}},
		"an image elsewhere": {
			item(`{"type":"message","role":"user","content":[{"type":"input_image","image_url":"https://example.com/a.png"}]}`) + event(`{"type":"user_message","message":""}`),
			[]string{"1 user image::0https://example.com/a.png"}},
		"arguments that are not JSON": {
			item(`{"type":"function_call","name":"shell","arguments":"{\"command\":","call_id":"c"}`), []string{`1 assistant shell("{\"command\":")c`}},
		"a shell of the provider": {
			item(`{"type":"local_shell_call","call_id":"c","status":"completed","action":{"type":"exec","command":["ls"]}}`) + item(`{"type":"function_call_output","call_id":"c","output":{"content":"a","success":false}}`),
			[]string{`1 assistant local_shell({"type":"exec","command":["ls"]})c`, "2 tool failed:c"}},
		"an output of pieces": {
			item(`{"type":"function_call","name":"view","arguments":"{}","call_id":"c"}`) + item(`{"type":"function_call_output","call_id":"c","output":[{"type":"input_text","text":"a"},{"type":"input_image","image_url":"`+png+`"}]}`),
			[]string{"1 assistant view({})c", "2 tool done:c"}},
		"a command that failed": {
			item(`{"type":"function_call","name":"exec_command","arguments":"{}","call_id":"c"}`) + item(`{"type":"function_call_output","call_id":"c","output":"Chunk ID: 1\nProcess exited with code 3\nOutput:\nno"}`),
			[]string{"1 assistant exec_command({})c", "2 tool failed:c"}},
		"an item that is not known": {
			item(`{"type":"web_search_call","status":"completed","action":{"type":"search","query":"tea"}}`) + reply("Found."),
			[]string{"1 item", "2 assistant Found."}},
		"a turn that failed": {
			user("Hello?") + event(`{"type":"task_complete","turn_id":"t","error":{"message":"refused"}}`), []string{"1 user Hello?", "1.1 error refused"}},
		"a rewind in the file": {
			client("<environment_context>") + user("One?") + reply("A.") + user("Two?") + reply("B.") + event(`{"type":"thread_rolled_back","num_turns":1}`) + user("Three?"),
			[]string{"1 context <environment_context>", "2 user One?", "3 assistant A.", "4 user Two?", "5 assistant B.", "5.1 <3 rewind", "6 user Three?"}},
		"a rewind to before everything": {
			user("One?") + event(`{"type":"thread_rolled_back","num_turns":99}`) + user("Two?"),
			[]string{"1 user One?", "1.1 <root rewind", "2 user Two?"}},
		"the model's own writing of a summary": {
			user("One?") + reply("A.") + reply("It was about A.") + line("compacted", `{"message":"Summary: It was about A.","replacement_history":[]}`) + user("Two?"),
			[]string{"1 user One?", "2 assistant A.", "3 context It was about A.", "4 compaction Summary: It was about A.", "5 user Two?"}},
		"tokens of an answer that never came": {
			user("One?") + event(`{"type":"token_count","info":{"total_token_usage":{"input_tokens":5,"output_tokens":1},"last_token_usage":{"input_tokens":5,"output_tokens":1}}}`),
			[]string{"1 user One?", "1.1 usage [5 0 1]"}},
		"a file of the first versions": {
			`{"record_type":"state"}` + "\n" + `{"type":"message","role":"user","content":[{"type":"input_text","text":"Hello?"}]}` + "\n" + `{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Hi."}]}` + "\n",
			[]string{"1 user Hello?", "2 assistant Hi."}},
	} {
		t.Run(name, func(t *testing.T) {
			got := converttest.Read(t, codex.Tool(), store(map[int]string{1: meta(1) + c.lines}))
			if len(got.Skips) > 0 || len(got.Sessions) != 1 {
				t.Fatalf("skips %v, %d sessions", got.Skips, len(got.Sessions))
			}
			if d := cmp.Diff(c.want, outline(got.Sessions[0].Entries)); d != "" {
				t.Error(d)
			}
			again := roundTrip(t, got, got.Sessions[0])
			// A branch that was left is not written, nor that it was.
			kept := slices.DeleteFunc(live(got.Sessions[0].Entries), func(e convert.Entry) bool { return e.Kind == "rewind" })
			if strings.HasPrefix(name, "a rewind") {
				kept, again.Entries = plain(kept), plain(again.Entries)
			}
			if d := cmp.Diff(kept, again.Entries, butDrafts); d != "" {
				t.Errorf("after an export: %s", d)
			}
		})
	}
}

// butDrafts leaves out whether an entry may still change, which depends on what
// follows it.
var butDrafts = cmpopts.IgnoreFields(convert.Entry{}, "Draft")

func TestAGrownFileKeepsWhatItHad(t *testing.T) {
	whole := meta(1) + user("One?") + reply("A.") + item(`{"type":"function_call","name":"shell","arguments":"{}","call_id":"c"}`) +
		item(`{"type":"function_call_output","call_id":"c","output":"ok"}`) + user("Two?") + reply("B.")
	all := converttest.Read(t, codex.Tool(), store(map[int]string{1: whole})).Sessions[0].Entries
	part := ""
	for l := range strings.Lines(whole) {
		part += l
		got := converttest.Read(t, codex.Tool(), store(map[int]string{1: part})).Sessions[0].Entries
		if d := cmp.Diff(all[:len(got)], got, butDrafts); d != "" && len(got) > 0 {
			t.Errorf("%d entries: %s", len(got), d)
		}
	}
}

func TestAnAnswerThatWasShownWithItsTokensIsFinal(t *testing.T) {
	shown := event(`{"type":"agent_message","message":"Hello."}`)
	count := event(`{"type":"token_count","info":{"total_token_usage":{"input_tokens":5,"output_tokens":2},"last_token_usage":{"input_tokens":5,"output_tokens":2}}}`)
	summary := line("compacted", `{"message":"So far: Hello."}`)
	for name, c := range map[string]struct {
		lines string
		want  string // role or kind of the entry, and whether it is a draft
	}{
		"shown, counted after it":          {shown + reply("Hello.") + count, "assistant false"},
		"shown, counted before it":         {shown + count + reply("Hello."), "assistant false"},
		"counted, shown after it":          {reply("Hello.") + count + shown, "assistant false"},
		"shown, not counted":               {shown + reply("Hello."), "assistant true"},
		"another one was shown":            {event(`{"type":"agent_message","message":"Hm."}`) + reply("Hello.") + count, "assistant true"},
		"counted, and not shown":           {reply("Hello.") + count, "assistant true"},
		"it was the model's summary":       {reply("Hello.") + count + summary, "context false"},
		"a summary ends with what it said": {shown + reply("Hello.") + count + summary, "assistant false"},
	} {
		got := converttest.Read(t, codex.Tool(), store(map[int]string{1: meta(1) + user("Hi.") + c.lines}))
		e := got.Sessions[0].Entries[1]
		if is := fmt.Sprintf("%s %v", strings.TrimPrefix(e.Kind+string(e.Role), "message"), e.Draft); is != c.want {
			t.Errorf("%s: %s, want %s", name, is, c.want)
		}
	}
}
