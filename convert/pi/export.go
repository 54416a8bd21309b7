package pi

import (
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/dialogue"
)

// object is a JSON object that is written.
type object = map[string]any

// export writes the path to the head of a session into a folder of sessions.
func export(ctx context.Context, out convert.Out, s *convert.Session) ([]string, error) {
	d, err := dialogue.Of(ctx, s, dialogue.Takes{Thinking: true, Summary: true})
	if err != nil {
		return nil, err
	}
	id := string(s.ID)
	if tidemark.CheckID(s.ForeignID) == nil {
		id = s.ForeignID
	}
	began := convert.FormatTime(s.CreatedAt)
	name := path.Join(Folder(s.WorkFolder()), strings.NewReplacer(":", "-", ".", "-").Replace(began)+"_"+id+".jsonl")
	err = convert.WriteLines(out, name, func(put func(any)) {
		put(object{"type": "session", "version": 3, "id": id, "timestamp": began, "cwd": s.WorkFolder()})
		w := &writer{put: put, ids: map[string]bool{}, began: began}
		if s.Title != "" {
			w.line("title", began, object{"type": "session_info", "name": s.Title})
		}
		for _, m := range d.Messages {
			w.message(m)
		}
	})
	return d.Lost.List(), err
}

// Folder is pi's name for the folder of a project.
func Folder(project string) string {
	if project != "" && strings.ContainsRune(`/\`, rune(project[0])) {
		project = project[1:]
	}
	return "--" + strings.NewReplacer("/", "-", `\`, "-", ":", "-").Replace(project) + "--"
}

// writer writes the lines of one session, each behind the one before.
type writer struct {
	put   func(any)
	ids   map[string]bool
	last  any // the id of the last line, nil for none
	began string
}

// line writes a line with an id of pi's form, made from the id of what it stands for.
func (w *writer) line(of, at string, fields object) {
	id := ""
	for n := 0; id == "" || w.ids[id]; n++ {
		id = strings.ReplaceAll(string(tidemark.DerivedSessionID("pi", w.began, of, fmt.Sprint(n))), "-", "")[:8]
	}
	w.ids[id] = true
	fields["id"], fields["parentId"], fields["timestamp"] = id, w.last, at
	if fields["type"] == convert.KindCompaction {
		fields["firstKeptEntryId"] = id // nothing of what is before it is sent
	}
	w.put(fields)
	w.last = id
}

func (w *writer) message(m dialogue.Message) {
	at := convert.FormatTime(m.At)
	said := object{"timestamp": convert.ToMilli(m.At)}
	switch {
	case m.Summary:
		w.line(m.ID, at, object{"type": convert.KindCompaction, "summary": m.Text(), "tokensBefore": 0})
		return
	case m.Role == tidemark.Tool:
		for n, b := range m.Blocks {
			w.line(fmt.Sprint(m.ID, "/", n), at, object{"type": "message", "message": object{"timestamp": said["timestamp"], "role": "toolResult",
				"toolCallId": b.ToolUseID, "toolName": b.Name, "content": resultContent(b), "isError": b.IsError}})
		}
		return
	case m.Role == tidemark.Assistant:
		stop := "stop"
		if m.Calls() {
			stop = "toolUse"
		}
		// pi compares these with the model in use: another one is not sent its
		// signatures, of which there are none.
		said["api"], said["provider"], said["model"], said["stopReason"] = "tidemark", "tidemark", m.Model, stop
		said["usage"] = usageFields(m.Usage)
	}
	said["role"], said["content"] = m.Role, contentFields(m.Blocks)
	w.line(m.ID, at, object{"type": "message", "message": said})
}

func usageFields(u *tidemark.Usage) object {
	if u == nil {
		u = &tidemark.Usage{}
	}
	return object{"input": u.InputTokens, "output": u.OutputTokens, "cacheRead": u.CacheReadTokens, "cacheWrite": u.CacheWriteTokens,
		"totalTokens": u.InputTokens + u.OutputTokens + u.CacheReadTokens + u.CacheWriteTokens,
		"cost":        object{"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": u.CostUSD}}
}

func resultContent(b tidemark.Block) []object {
	if b.Blocks == nil {
		return []object{{"type": "text", "text": b.Text}}
	}
	return contentFields(b.Blocks)
}

func contentFields(blocks []tidemark.Block) (all []object) {
	for _, b := range blocks {
		switch b.Type {
		case tidemark.BlockThinking:
			all = append(all, object{"type": "thinking", "thinking": b.Text})
		case tidemark.BlockToolUse:
			all = append(all, object{"type": "toolCall", "id": b.ID, "name": b.Name, "arguments": b.Input})
		case tidemark.BlockImage:
			all = append(all, object{"type": "image", "data": b.Data, "mimeType": b.MediaType})
		default:
			all = append(all, object{"type": "text", "text": b.Text})
		}
	}
	return all
}
