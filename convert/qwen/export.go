package qwen

import (
	"context"
	"fmt"
	"path"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/dialogue"
	"github.com/tidemark-sessions/tidemark/internal/expression"
)

// object is a JSON object that is written.
type object = map[string]any

// formatVersion is the version of the client whose records are written.
const formatVersion = "0.24.4"

// export writes the path to the head of a session below a folder like ~/.qwen.
func export(ctx context.Context, out convert.Out, s *convert.Session) ([]string, error) {
	// The client sends a note in place of all other files.
	files := func(mediaType string) bool { return mediaType == "application/pdf" }
	d, err := dialogue.Of(ctx, s, dialogue.Takes{Thinking: true, Files: files, Summary: true})
	if err != nil {
		return nil, err
	}
	w := &writer{session: string(s.ID), project: s.WorkFolder()}
	if id, err := tidemark.ParseSessionID(s.ForeignID); err == nil {
		w.session = string(id)
	}
	err = convert.WriteLines(out, path.Join("projects", Folder(s.WorkFolder()), "chats", w.session+".jsonl"), func(put func(any)) {
		w.put = put
		for _, m := range d.Messages {
			w.message(m)
		}
		if s.Title != "" {
			w.record("title", convert.FormatTime(s.UpdatedAt), object{"type": "system", "subtype": "custom_title", "provenance": "system", "systemPayload": object{"customTitle": s.Title}})
		}
	})
	return d.Lost.List(), err
}

// unfit is what the name of a project's folder has a dash for.
var unfit = expression.WhenNeeded(`[^a-zA-Z0-9]`)

// Folder is the client's name for the folder of a project.
func Folder(project string) string { return unfit().ReplaceAllString(project, "-") }

// writer writes the records of one session, each behind the one before.
type writer struct {
	put              func(any)
	session, project string
	last             any // the uuid of the last record, nil for none
}

func (w *writer) record(of, at string, fields object) {
	id := string(tidemark.DerivedSessionID(name, w.session, of))
	fields["uuid"], fields["parentUuid"], fields["sessionId"] = id, w.last, w.session
	fields["timestamp"], fields["cwd"], fields["version"] = at, w.project, formatVersion
	w.put(fields)
	w.last = id
}

func (w *writer) message(m dialogue.Message) {
	at := convert.FormatTime(m.At)
	switch {
	case m.Summary:
		history := []object{{"role": "user", "parts": partsOf(m.Blocks)}}
		w.record(m.ID, at, object{"type": "system", "subtype": "chat_compression", "provenance": "system", "systemPayload": object{"compressedHistory": history}})
	case m.Role == tidemark.User:
		w.record(m.ID, at, object{"type": "user", "provenance": "real_user", "message": object{"role": "user", "parts": partsOf(m.Blocks)}})
	case m.Role == tidemark.Assistant:
		fields := object{"type": "assistant", "provenance": "assistant_output", "model": m.Model, "message": object{"role": "model", "parts": partsOf(m.Blocks)}}
		if u := m.Usage; u != nil {
			prompt := u.InputTokens + u.CacheReadTokens
			fields["usageMetadata"] = object{"promptTokenCount": prompt, "candidatesTokenCount": u.OutputTokens,
				"cachedContentTokenCount": u.CacheReadTokens, "totalTokenCount": prompt + u.OutputTokens}
		}
		w.record(m.ID, at, fields)
	default:
		for n, b := range m.Blocks {
			w.result(fmt.Sprint(m.ID, "/", n), at, b)
		}
	}
}

func (w *writer) result(of, at string, b tidemark.Block) {
	text, media := dialogue.Split(b)
	status, key := "success", "output"
	if b.IsError {
		status, key = "error", "error"
	}
	response := object{"id": b.ToolUseID, "name": b.Name, "response": object{key: text}}
	if len(media) > 0 {
		response["parts"] = partsOf(media)
	}
	w.record(of, at, object{"type": "tool_result", "provenance": "tool_result", "message": object{"role": "user", "parts": []object{{"functionResponse": response}}},
		"toolCallResult": object{"callId": b.ToolUseID, "status": status, "resultDisplay": text}})
}

func partsOf(blocks []tidemark.Block) (all []object) {
	for _, b := range blocks {
		switch b.Type {
		case tidemark.BlockThinking:
			all = append(all, object{"text": b.Text, "thought": true})
		case tidemark.BlockToolUse:
			all = append(all, object{"functionCall": object{"id": b.ID, "name": b.Name, "args": b.Input}})
		case tidemark.BlockImage, tidemark.BlockFile:
			data := object{"mimeType": b.MediaType, "data": b.Data}
			if b.Name != "" {
				data["displayName"] = b.Name
			}
			all = append(all, object{"inlineData": data})
		default:
			all = append(all, object{"text": b.Text})
		}
	}
	return all
}
