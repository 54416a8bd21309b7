package opencode

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"path"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/dialogue"
)

// object is a JSON object that is written.
type object = map[string]any

// exportFolder is where sessions are written that the tool has not taken in yet. Its
// name says for which: an exported file does not.
func (of product) exportFolder() string { return of.file + "-import" }

// exportFile is the file that a session is written to.
func (of product) exportFile(id string) string { return path.Join(of.exportFolder(), id+".json") }

// formatVersion is the version whose form is written.
const formatVersion = "1.18.33"

// export writes the path to the head of a session in the form of `opencode export`.
// The database is not written to: the tool keeps a log of events that has to agree
// with it.
func (of product) export(ctx context.Context, out convert.Out, s *convert.Session) ([]string, error) {
	d, err := dialogue.Of(ctx, s, dialogue.Takes{Thinking: true})
	if err != nil {
		return nil, err
	}
	id := s.ForeignID
	if !strings.HasPrefix(id, "ses_") || tidemark.CheckID(id) != nil {
		id = newID()
	}
	w := &writer{of: of, session: s, id: id, seed: rand.New(rand.NewPCG(uint64(s.CreatedAt.UnixNano()), uint64(len(d.Messages))))}
	// The tool sorts by id, and what it adds has to come after what is here.
	w.last = uint64(time.Now().UnixMilli())<<12 - uint64(w.count(d.Messages))
	for _, m := range d.Messages {
		w.message(m)
	}
	file := object{"messages": w.messages, "info": object{"id": id, "slug": "tidemark", "projectID": "global", "directory": s.WorkFolder(),
		"title": cmp.Or(s.Title, "Untitled"), "version": formatVersion, "time": object{"created": convert.ToMilli(s.CreatedAt), "updated": convert.ToMilli(s.UpdatedAt)}}}
	text, err := convert.Encode(file)
	if err != nil {
		return nil, err
	}
	return d.Lost.List(), convert.WriteFile(out, of.exportFile(id), text)
}

// newID makes the id of a session as the tool does: newer ones sort before older
// ones.
func newID() string {
	return "ses_" + idFor(^(uint64(time.Now().UnixMilli())<<12), rand.IntN)
}

// idFor is an id with a time in it, in units of a 4096th of a millisecond.
func idFor(at uint64, random func(int) int) string {
	const letters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	b := fmt.Appendf(nil, "%012x", at&(1<<48-1))
	for range 14 {
		b = append(b, letters[random(len(letters))])
	}
	return string(b)
}

// writer makes the messages of one session.
type writer struct {
	of       product
	session  *convert.Session
	id       string
	last     uint64 // in the last id
	seed     *rand.Rand
	messages []object
	prompt   string            // the id of the last prompt
	calls    map[string]object // parts of the last answer, by the id of the call
}

// count is how many ids are needed at most.
func (w *writer) count(all []dialogue.Message) (n int) {
	for _, m := range all {
		n += 2 + len(m.Blocks)
		for _, b := range m.Blocks {
			n += len(b.Blocks)
		}
	}
	return n
}

func (w *writer) next(begin string) string {
	w.last++
	return begin + idFor(w.last, w.seed.IntN)
}

func (w *writer) message(m dialogue.Message) {
	at := convert.ToMilli(m.At)
	if m.Role == tidemark.Tool {
		for _, b := range m.Blocks {
			w.result(b, at)
		}
		return
	}
	id := w.next("msg_")
	provider, model := providerOf(m.Model), cmp.Or(m.Model, w.session.Model, "unknown")
	info := object{"id": id, "sessionID": w.id, "role": m.Role, "agent": w.of.agent, "time": object{"created": at}}
	if m.Role == tidemark.User {
		provider = providerOf(w.session.Model)
		info["model"] = object{"providerID": provider, "modelID": cmp.Or(w.session.Model, "unknown")}
		w.prompt = id
	} else {
		u := tidemark.Usage{}
		if m.Usage != nil {
			u = *m.Usage
		}
		finish := "stop"
		if m.Calls() {
			finish = "tool-calls"
		}
		info["parentID"], info["modelID"], info["providerID"], info["mode"], info["finish"] = w.prompt, model, provider, w.of.agent, finish
		info["time"], info["path"] = object{"created": at, "completed": at}, object{"cwd": w.session.WorkFolder(), "root": w.session.WorkFolder()}
		info["cost"], info["tokens"] = u.CostUSD, object{"input": u.InputTokens, "output": u.OutputTokens, "reasoning": 0,
			"cache": object{"read": u.CacheReadTokens, "write": u.CacheWriteTokens}}
	}
	w.calls = map[string]object{}
	var parts []object
	for _, b := range m.Blocks {
		parts = append(parts, w.part(id, b, at))
	}
	w.messages = append(w.messages, object{"info": info, "parts": parts})
}

// part makes a part of a message.
func (w *writer) part(message string, b tidemark.Block, at int64) object {
	p := object{"id": w.next("prt_"), "sessionID": w.id, "messageID": message}
	switch b.Type {
	case tidemark.BlockThinking:
		p["type"], p["text"], p["time"] = "reasoning", b.Text, object{"start": at, "end": at}
	case tidemark.BlockToolUse:
		p["type"], p["callID"], p["tool"] = "tool", b.ID, b.Name
		p["state"] = object{"input": b.Input}
		w.calls[b.ID] = p
	case tidemark.BlockImage:
		p["type"], p["mime"] = "file", b.MediaType
		if b.Name != "" {
			p["filename"] = b.Name
		}
		p["url"] = "data:" + b.MediaType + ";base64," + base64.StdEncoding.EncodeToString(b.Data)
	default:
		p["type"], p["text"] = "text", b.Text
	}
	return p
}

// result completes the part of a call. Every call has one.
func (w *writer) result(b tidemark.Block, at int64) {
	p := w.calls[b.ToolUseID]
	if p == nil {
		return
	}
	state := p["state"].(object)
	text, media := dialogue.Split(b)
	state["time"], state["metadata"] = object{"start": at, "end": at}, object{}
	if b.IsError {
		state["status"], state["error"] = "error", text
		return
	}
	state["status"], state["output"], state["title"] = "completed", text, b.Name
	var attached []object
	for _, one := range media {
		attached = append(attached, w.part(p["messageID"].(string), one, at))
	}
	if attached != nil {
		state["attachments"] = attached
	}
}

// providerOf guesses who offers a model; the tool asks for another one if it does
// not know it.
func providerOf(model string) string {
	for begin, provider := range map[string]string{"claude": "anthropic", "gpt": "openai", "o3": "openai", "o4": "openai", "gemini": "google", "kimi": "moonshotai", "qwen": "alibaba"} {
		if strings.HasPrefix(strings.ToLower(model), begin) {
			return provider
		}
	}
	return "opencode"
}
