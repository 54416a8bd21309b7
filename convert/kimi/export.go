package kimi

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"path"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/dialogue"
	"github.com/tidemark-sessions/tidemark/internal/expression"
)

// object is a JSON object that is written.
type object = map[string]any

// newID makes an id as the tool does.
func newID() string { return "session_" + string(tidemark.NewSessionID()) }

// export writes the path to the head of a session below a folder like
// ~/.kimi-code. No model and no profile is written: the tool binds its own when it
// goes on, and has its own system prompt only then.
func export(ctx context.Context, out convert.Out, s *convert.Session) ([]string, error) {
	d, err := dialogue.Of(ctx, s, dialogue.Takes{Thinking: true, Links: true, Summary: true})
	if err != nil {
		return nil, err
	}
	id := s.ForeignID
	if !strings.HasPrefix(id, "session_") || tidemark.CheckID(id) != nil {
		id = "session_" + string(s.ID)
	}
	dir := path.Join("sessions", Folder(s.WorkFolder()), id)
	w := &writer{session: id}
	err = convert.WriteLines(out, path.Join(dir, journal), func(put func(any)) {
		w.put = put
		put(object{"type": "metadata", "protocol_version": "1.5", "created_at": convert.ToMilli(s.CreatedAt)})
		for _, m := range d.Messages {
			w.message(m)
		}
		w.endStep()
	})
	if err != nil {
		return nil, err
	}
	state := object{"id": id, "version": 2, "cwd": s.WorkFolder(), "createdAt": convert.ToMilli(s.CreatedAt), "updatedAt": convert.ToMilli(s.UpdatedAt),
		"archived": false, "lastPrompt": w.prompt, "custom": object{}, "agents": object{"main": object{"type": "main"}}}
	if s.Title != "" {
		state["title"], state["isCustomTitle"] = s.Title, true
	}
	text, err := convert.Encode(state)
	if err != nil {
		return nil, err
	}
	return d.Lost.List(), convert.WriteFile(out, path.Join(dir, "state.json"), text)
}

// unfit is what the name of a project's folder has a dash for.
var unfit = expression.WhenNeeded(`[^a-z0-9._-]+`)

// Folder is the tool's name for the folder of a project.
func Folder(project string) string {
	project = strings.TrimRight(strings.ReplaceAll(project, `\`, "/"), "/")
	sum := sha256.Sum256([]byte(project))
	slug := strings.Trim(unfit().ReplaceAllString(strings.ToLower(project[strings.LastIndexByte(project, '/')+1:]), "-"), "-")
	slug = strings.Trim(slug[:min(len(slug), 40)], "-")
	if strings.Trim(slug, ".") == "" && len(slug) < 3 {
		slug = "workspace"
	}
	return "wd_" + slug + "_" + hex.EncodeToString(sum[:6])
}

// writer writes a journal. An answer is a step, which ends behind the results of
// its calls.
type writer struct {
	put        func(any)
	session    string
	prompt     string // the last one
	turn, step int
	open       string // the uuid of the step that has begun
	calls      bool   // there is a call in it
	usage      *tidemark.Usage
	at         int64
}

// idOf makes an id from that of what it stands for.
func (w *writer) idOf(parts ...any) string {
	return string(tidemark.DerivedSessionID(name, w.session, fmt.Sprint(parts...)))
}

func (w *writer) record(kind string, fields object) {
	fields["type"], fields["agentId"], fields["time"] = kind, "main", w.at
	w.put(fields)
}

func (w *writer) event(kind string, fields object) {
	fields["type"] = kind
	w.record("context.append_loop_event", object{"event": fields})
}

func (w *writer) message(m dialogue.Message) {
	at := convert.ToMilli(m.At)
	switch {
	case m.Role == tidemark.Tool:
		w.at = at
		for _, b := range m.Blocks {
			result := object{"output": output(b)}
			if b.IsError {
				result["isError"] = true
			}
			w.event("tool.result", object{"parentUuid": w.idOf("call", b.ToolUseID), "toolCallId": b.ToolUseID, "result": result})
		}
		return
	case m.Role == tidemark.Assistant:
		w.endStep()
		w.at = at
		w.beginStep(m)
		return
	}
	w.endStep()
	w.at = at
	if m.Summary {
		w.record("context.apply_compaction", object{"summary": m.Text(), "contextSummary": m.Text(), "compactedCount": 0})
		return
	}
	w.turn, w.step, w.prompt = w.turn+1, 0, m.Text()
	w.record("context.append_message", object{"message": object{"role": "user", "content": content(m.Blocks), "id": "msg_" + w.idOf(m.ID),
		"toolCalls": []object{}, "origin": object{"kind": "user"}}})
}

func (w *writer) beginStep(m dialogue.Message) {
	w.step++
	w.open, w.calls, w.usage = w.idOf("step", m.ID), m.Calls(), m.Usage
	turn := fmt.Sprint(max(0, w.turn-1))
	w.event("step.begin", object{"uuid": w.open, "turnId": turn, "step": w.step})
	for n, b := range m.Blocks {
		in := object{"uuid": w.idOf("part", m.ID, "/", n), "turnId": turn, "step": w.step, "stepUuid": w.open}
		if b.Type == tidemark.BlockToolUse {
			in["uuid"], in["toolCallId"], in["name"], in["args"] = w.idOf("call", b.ID), b.ID, b.Name, b.Input
			w.event("tool.call", in)
			continue
		}
		in["part"] = content([]tidemark.Block{b})[0]
		w.event("content.part", in)
	}
}

func (w *writer) endStep() {
	if w.open == "" {
		return
	}
	reason := "end_turn"
	if w.calls {
		reason = "tool_use"
	}
	end := object{"uuid": w.open, "turnId": fmt.Sprint(max(0, w.turn-1)), "step": w.step, "finishReason": reason}
	if u := w.usage; u != nil {
		end["usage"] = object{"inputOther": u.InputTokens, "output": u.OutputTokens, "inputCacheRead": u.CacheReadTokens, "inputCacheCreation": u.CacheWriteTokens}
	}
	w.event("step.end", end)
	w.open = ""
}

func output(b tidemark.Block) any {
	if b.Blocks == nil {
		return b.Text
	}
	return content(b.Blocks)
}

func content(blocks []tidemark.Block) (all []object) {
	for _, b := range blocks {
		switch b.Type {
		case tidemark.BlockThinking:
			all = append(all, object{"type": "think", "think": b.Text})
		case tidemark.BlockImage:
			url := b.URL
			if len(b.Data) > 0 {
				url = "data:" + b.MediaType + ";base64," + base64.StdEncoding.EncodeToString(b.Data)
			}
			all = append(all, object{"type": "image_url", "imageUrl": object{"url": url}})
		default:
			all = append(all, object{"type": "text", "text": b.Text})
		}
	}
	return all
}
