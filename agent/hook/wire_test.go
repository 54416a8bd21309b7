package hook

import (
	"encoding/json"
	"testing"

	"github.com/tidemark-sessions/tidemark/chat"
)

func FuzzAnswer(f *testing.F) {
	for _, s := range []string{"", "text", "{", `{"continue":false}`, `{"decision":"block"}`, `{"hookSpecificOutput":{"permissionDecision":"ask","updatedInput":null}}`, `{"hookSpecificOutput":{"updatedInput":{}}}`} {
		f.Add(0, s, "")
		f.Add(2, s, "why")
	}
	f.Fuzz(func(t *testing.T, code int, out, err string) {
		for _, event := range []chat.HookEvent{chat.HookPrompt, chat.HookBefore, chat.HookAfter, chat.HookStop} {
			a, _, failed := answerOf(event, ended{code: code, out: out, err: err})
			switch {
			case code == 2 && a.Veto == "":
				t.Fatalf("%s: exit code 2 is no veto: %+v", event, a)
			case failed != nil && a != chat.HookAnswer{}:
				t.Fatalf("%s: %v, and yet %+v", event, failed, a)
			case a.Ask != "" && event != chat.HookBefore:
				t.Fatalf("%s: asks: %+v", event, a)
			}
		}
	})
}

func FuzzToolInput(f *testing.F) {
	for _, s := range []string{"", "null", "{}", `{"path":"a"}`, `{"path":"/a","file_path":"b"}`, `{"path":1}`, `[1]`, `{`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		in, err := inputOf(chat.Moment{Event: chat.HookBefore, Tool: "edit", Input: input}, "/project")
		if err != nil || !json.Valid(in) {
			t.Fatalf("%q: %v", in, err)
		}
	})
}
