package hook

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/tool"
)

// inputOf is what a hook reads: the fields that Claude Code gives to it, as far
// as they mean something here.
func inputOf(m chat.Moment, project string) ([]byte, error) {
	in := map[string]any{"session_id": m.Session, "transcript_path": "", "cwd": project, "hook_event_name": m.Event, "permission_mode": modes[m.Permission]}
	switch m.Event {
	case chat.HookPrompt:
		in["prompt"] = m.Prompt
	case chat.HookStop, chat.HookWorkerStop:
		in["stop_hook_active"] = m.Again
	case chat.HookStart:
		in["source"] = m.Kind
	case chat.HookCompact:
		in["trigger"] = m.Kind
	case chat.HookAsks:
		in["notification_type"], in["message"] = m.Kind, m.Prompt
	case chat.HookAfter:
		in["tool_response"] = map[string]any{"text": m.Result.Text, "is_error": m.Result.IsError}
		fallthrough
	case chat.HookBefore:
		in["tool_name"], in["tool_use_id"], in["tool_input"] = tool.Names(m.Tool)[0], m.CallID, toolInput(m.Input, project)
	}
	return json.Marshal(in)
}

// modes are what hooks call the permissions.
var modes = map[chat.Permission]string{chat.PermissionAsk: "default", chat.PermissionEdits: "acceptEdits", chat.PermissionPlan: "plan", chat.PermissionAuto: "auto"}

// toolInput is the input of a call, with the path of a file also under the name
// and in the form in which hooks expect it.
func toolInput(input json.RawMessage, project string) json.RawMessage {
	var fields map[string]json.RawMessage
	if json.Unmarshal(input, &fields) != nil || fields == nil {
		return orNull(input)
	}
	var path string
	if json.Unmarshal(fields["path"], &path) != nil || path == "" || strings.HasPrefix(path, "session:") {
		return input
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(project, path)
	}
	absolute, err := json.Marshal(path)
	if _, taken := fields["file_path"]; taken || err != nil {
		return input
	}
	fields["file_path"] = absolute
	if both, err := json.Marshal(fields); err == nil {
		return both
	}
	return input
}

// orNull is an input, or null where there is none.
func orNull(input json.RawMessage) json.RawMessage {
	if !json.Valid(input) {
		return json.RawMessage("null")
	}
	return input
}

// output is what a hook may say as JSON. Whatever would allow a call is not
// among it.
type output struct {
	Continue      *bool  `json:"continue"`
	StopReason    string `json:"stopReason"`
	SystemMessage string `json:"systemMessage"`
	Decision      string `json:"decision"`
	Reason        string `json:"reason"`
	Specific      struct {
		Decision string          `json:"permissionDecision"`
		Reason   string          `json:"permissionDecisionReason"`
		Updated  json.RawMessage `json:"updatedInput"`
		Context  string          `json:"additionalContext"`
	} `json:"hookSpecificOutput"`
}

// noReason stands for a reason that a hook did not give.
const noReason = "it gave no reason"

// answerOf reads how a hook ended: exit code 2 is a veto with its error output
// as the reason, another code but 0 an error, and JSON on its output says more.
// tell is for people.
func answerOf(event chat.HookEvent, e ended) (a chat.HookAnswer, tell string, err error) {
	switch {
	case e.code == 2:
		a.Veto = cmp.Or(strings.TrimSpace(e.err), noReason)
		return a, "", nil
	case e.code != 0:
		return a, "", fmt.Errorf("it ended with code %d: %.500s", e.code, strings.TrimSpace(e.err))
	}
	text := strings.TrimSpace(e.out)
	if !strings.HasPrefix(text, "{") {
		if event == chat.HookPrompt || event == chat.HookStart {
			a.Context = text
		}
		return a, "", nil
	}
	var o output
	if e.cut {
		return a, "", fmt.Errorf("its output is longer than %d bytes", outputBytes)
	}
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return a, "", errors.Join(errors.New("its output is no JSON that is understood"), err)
	}
	if o.Continue != nil && !*o.Continue {
		a.Halt = cmp.Or(o.StopReason, noReason)
	}
	reason := cmp.Or(o.Specific.Reason, o.Reason, noReason)
	switch {
	case o.Decision == "block" || o.Decision == "deny" || event == chat.HookBefore && o.Specific.Decision == "deny":
		a.Veto = reason
	case event == chat.HookBefore && len(o.Specific.Updated) > 0 && string(o.Specific.Updated) != "null":
		// Another input is another call, which the model can make.
		a.Veto = fmt.Sprintf("it wants this input instead: %s", o.Specific.Updated)
	case event == chat.HookBefore && o.Specific.Decision == "ask":
		a.Ask = reason
	}
	a.Context = o.Specific.Context
	return a, o.SystemMessage, nil
}
