package transfer

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/store"
)

// asTheTool is what a tool appends to its transcript when it answers a prompt: text
// is what is there, id what the next records may be named with.
var asTheTool = map[string]func(text, session, id, at, prompt, answer string) string{
	"pi": func(text, _, id, at, prompt, answer string) string {
		line := func(n, parent, role, said string) string {
			return fmt.Sprintf(`{"type":"message","id":%q,"parentId":%q,"timestamp":%q,"message":{"role":%q,"content":[{"type":"text","text":%q}]}}`+"\n", id[:7]+n, parent, at, role, said)
		}
		return text + line("1", lastField(text, "id"), "user", prompt) + line("2", id[:7]+"1", "assistant", answer)
	},
	"qwen-code": func(text, session, id, at, prompt, answer string) string {
		line := func(n, parent, kind, said string) string {
			return fmt.Sprintf(`{"uuid":%q,"parentUuid":%q,"sessionId":%q,"timestamp":%q,"type":%q,"cwd":"/","version":"0.24.4","message":{"role":"x","parts":[{"text":%q}]}}`+"\n",
				id+n, parent, session, at, kind, said)
		}
		return text + line("1", lastField(text, "uuid"), "user", prompt) + line("2", id+"1", "assistant", answer)
	},
	"kimi-code": func(text, _, id, at, prompt, answer string) string {
		when, _ := time.Parse(time.RFC3339, at)
		record := func(kind, rest string) string {
			return fmt.Sprintf(`{"type":%q,"agentId":"main","time":%d,%s}`+"\n", kind, when.UnixMilli(), rest)
		}
		event := func(kind, rest string) string {
			return record("context.append_loop_event", fmt.Sprintf(`"event":{"type":%q,"turnId":"9","step":1,%s}`, kind, rest))
		}
		return text + record("context.append_message", fmt.Sprintf(`"message":{"role":"user","content":[{"type":"text","text":%q}],"id":"msg_%s","toolCalls":[],"origin":{"kind":"user"}}`, prompt, id)) +
			event("step.begin", fmt.Sprintf(`"uuid":%q`, id)) + event("content.part", fmt.Sprintf(`"uuid":%q,"stepUuid":%q,"part":{"type":"text","text":%q}`, id+"p", id, answer)) +
			event("step.end", fmt.Sprintf(`"uuid":%q,"finishReason":"end_turn"`, id))
	},
	"gemini-cli": func(text, _, id, at, prompt, answer string) string {
		return text + fmt.Sprintf(`{"id":%q,"timestamp":%q,"type":"user","content":[{"text":%q}]}`+"\n"+`{"id":%q,"timestamp":%q,"type":"gemini","content":%q,"model":"m"}`+"\n",
			id+"1", at, prompt, id+"2", at, answer)
	},
	"opencode": asOpencode,
	"kilo-cli": asOpencode,
}

// asOpencode adds two messages to an exported session, as the tool does in its
// database.
func asOpencode(text, session, id, at, prompt, answer string) string {
	var file map[string]any
	if err := json.Unmarshal([]byte(text), &file); err != nil {
		panic(err)
	}
	when, _ := time.Parse(time.RFC3339, at)
	message := func(n, role, said string) any {
		name := "msg_f" + id + n
		return map[string]any{"info": map[string]any{"id": name, "sessionID": session, "role": role, "time": map[string]any{"created": when.UnixMilli(), "completed": when.UnixMilli()}},
			"parts": []any{map[string]any{"id": "prt_f" + id + n, "sessionID": session, "messageID": name, "type": "text", "text": said}}}
	}
	file["messages"] = append(file["messages"].([]any), message("1", "user", prompt), message("2", "assistant", answer))
	b, err := json.Marshal(file)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// lastField is a field of the last line that has it.
func lastField(text, key string) (found string) {
	for line := range strings.Lines(text) {
		var r map[string]any
		if s, ok := "", false; json.Unmarshal([]byte(line), &r) == nil {
			if s, ok = r[key].(string); ok {
				found = s
			}
		}
	}
	return found
}

// transcript is the file of a session below a folder.
func transcript(t *testing.T, dir, part string) (found string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(file string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && strings.Contains(file, part) && path.Base(file) != "state.json" {
			found = file
		}
		return err
	})
	if err != nil || found == "" {
		t.Fatalf("no transcript of %s: %v", part, err)
	}
	return found
}

func TestEveryToolThatIsGivenASessionBringsBackOnlyWhatItAdded(t *testing.T) {
	for name, goesOn := range asTheTool {
		t.Run(name, func(t *testing.T) {
			tool, err := ToolNamed(name)
			if err != nil {
				t.Fatal(err)
			}
			s := store.New(memory.New(), nil)
			id := newTalk(t, s, "which tea?", "green", "how warm?", "80 degrees")
			want := branchOf(t, s, id)
			h := &toolHome{tool: name, dir: filepath.Join(t.TempDir(), path.Base(tool.Homes[0]))}
			handed, err := h.give(t.Context(), s, id)
			if err != nil || handed.Before {
				t.Fatalf("%+v, %v", handed, err)
			}
			if (tool.Handover.Load != nil) != (len(handed.Load) > 0) {
				t.Errorf("to be loaded with %q", handed.Load)
			}
			if again, err := h.give(t.Context(), s, id); err != nil || !again.Before || again.ForeignID != handed.ForeignID {
				t.Errorf("given again: %+v, %v", again, err)
			}
			file := transcript(t, h.dir, inNames(tool, handed.ForeignID))
			for n := range 2 {
				text, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				at := time.Now().UTC().Add(time.Duration(n+1) * time.Hour).Format("2006-01-02T15:04:05.000Z")
				prompt, answer := fmt.Sprintf("prompt %d", n), fmt.Sprintf("answer %d", n)
				more := goesOn(string(text), handed.ForeignID, strings.ReplaceAll(string(tidemark.NewSessionID()), "-", ""), at, prompt, answer)
				if err := os.WriteFile(file, []byte(more), 0o600); err != nil {
					t.Fatal(err)
				}
				want = append(want, "user "+prompt, "assistant "+answer)
				h.back(t, s)
				if d := cmp.Diff(want, branchOf(t, s, id)); d != "" {
					t.Fatal(d)
				}
			}
			for _, r := range h.back(t, s).Results {
				if r.Entries != 0 {
					t.Errorf("%+v came again", r)
				}
			}
			if d := cmp.Diff([]tidemark.SessionID{id}, sessionsOf(t, s)); d != "" {
				t.Error(d)
			}
		})
	}
}
