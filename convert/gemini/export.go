package gemini

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/dialogue"
)

// object is a JSON object that is written.
type object = map[string]any

// handover is how the tool is given a session. It goes on in the same file only
// within the minute that the name of the file says: later it begins a second file,
// takes the two for broken when it lists sessions, and deletes both.
var handover = convert.Handover{
	InNames: shortID,
	Note: "Gemini CLI deletes sessions that were resumed later than in the minute of their file's name when it next lists sessions. " +
		"What it added comes in with the next import; import before it is started again.",
}

// shortID is what the names of files have of an id.
func shortID(id string) string { return id[:min(len(id), 8)] }

// export writes the path to the head of a session below a folder like ~/.gemini.
func export(ctx context.Context, out convert.Out, s *convert.Session) ([]string, error) {
	d, err := dialogue.Of(ctx, s, dialogue.Takes{Thinking: true, Files: func(string) bool { return true }})
	if err != nil {
		return nil, err
	}
	id := string(s.ID)
	if own, err := tidemark.ParseSessionID(s.ForeignID); err == nil {
		id = string(own)
	}
	dir, known := folderOf(out.There(), s.WorkFolder())
	now := time.Now().UTC()
	file := path.Join(dir, "chats", "session-"+now.Format("2006-01-02T15-04")+"-"+shortID(id)+".jsonl")
	err = convert.WriteLines(out, file, func(put func(any)) {
		sum := sha256.Sum256([]byte(s.WorkFolder()))
		// By lastUpdated the tool decides which sessions are old enough to be deleted.
		put(object{"sessionId": id, "projectHash": fmt.Sprintf("%x", sum), "startTime": convert.FormatTime(s.CreatedAt),
			"lastUpdated": convert.FormatTime(now), "kind": "main"})
		w := &writer{put: put, session: id}
		for _, m := range d.Messages {
			w.message(m)
		}
		w.flush()
		if s.Title != "" {
			put(object{"$set": object{"summary": strings.Join(strings.Fields(s.Title), " ")}})
		}
	})
	if err == nil && !known {
		err = convert.WriteFile(out, path.Join(dir, rootFile), []byte(s.WorkFolder()))
	}
	return d.Lost.List(), err
}

// rootFile names the project that a folder belongs to.
const rootFile = ".project_root"

// folderOf returns the folder of a project: the one that the tool has for it, or a
// new one. The tool finds the owner of a folder by the file in it; its list of
// projects need not name it.
func folderOf(home fs.FS, project string) (dir string, known bool) {
	if home != nil {
		for _, file := range convert.Glob(home, ".", path.Join("tmp/*", rootFile)) {
			if b, err := convert.Head(home, file, 1<<16); err == nil && strings.TrimSpace(string(b)) == project {
				return path.Dir(file), true
			}
		}
	}
	sum := sha256.Sum256([]byte(project))
	slug := strings.Trim(strings.Map(func(c rune) rune {
		if '0' <= c && c <= '9' || 'a' <= c && c <= 'z' {
			return c
		}
		return '-'
	}, strings.ToLower(path.Base(project))), "-")
	return path.Join("tmp", slug+"-"+fmt.Sprintf("%x", sum[:4])), false
}

// writer writes the messages of one session. Results are in the message of their
// calls, which waits for them.
type writer struct {
	put     func(any)
	session string
	open    object
	calls   []object
}

func (w *writer) flush() {
	if w.open == nil {
		return
	}
	if len(w.calls) > 0 {
		w.open["toolCalls"] = w.calls
	}
	w.put(w.open)
	w.open, w.calls = nil, nil
}

func (w *writer) message(m dialogue.Message) {
	at := convert.FormatTime(m.At)
	if m.Role == tidemark.Tool {
		for _, b := range m.Blocks {
			w.result(b)
		}
		return
	}
	w.flush()
	id := string(tidemark.DerivedSessionID(name, w.session, m.ID))
	if m.Role == tidemark.User {
		w.put(object{"id": id, "timestamp": at, "type": "user", "content": partsFor(m.Blocks)})
		return
	}
	w.open = object{"id": id, "timestamp": at, "type": "gemini", "model": m.Model}
	var said []tidemark.Block
	var thoughts []object
	for _, b := range m.Blocks {
		switch b.Type {
		case tidemark.BlockThinking:
			thoughts = append(thoughts, object{"subject": "", "description": b.Text, "timestamp": at})
		case tidemark.BlockToolUse:
			w.calls = append(w.calls, object{"id": b.ID, "name": b.Name, "args": b.Input, "timestamp": at, "status": "success"})
		default:
			said = append(said, b)
		}
	}
	w.open["content"] = contentFor(said)
	if thoughts != nil {
		w.open["thoughts"] = thoughts
	}
	if u := m.Usage; u != nil {
		input := u.InputTokens + u.CacheReadTokens
		w.open["tokens"] = object{"input": input, "output": u.OutputTokens, "cached": u.CacheReadTokens, "thoughts": 0, "tool": 0, "total": input + u.OutputTokens}
	}
}

// result puts a result to its call.
func (w *writer) result(b tidemark.Block) {
	text, media := dialogue.Split(b)
	for _, c := range w.calls {
		if c["id"] != b.ToolUseID {
			continue
		}
		key := "output"
		if b.IsError {
			key, c["status"] = "error", "error"
		}
		c["result"] = append([]object{{"functionResponse": object{"id": b.ToolUseID, "name": b.Name, "response": object{key: text}}}}, partsFor(media)...)
	}
}

// contentFor is a string for one text, as the tool writes it, else a list.
func contentFor(blocks []tidemark.Block) any {
	switch {
	case len(blocks) == 0:
		return ""
	case len(blocks) == 1 && blocks[0].Type == tidemark.BlockText:
		return blocks[0].Text
	}
	return partsFor(blocks)
}

func partsFor(blocks []tidemark.Block) (all []object) {
	for _, b := range blocks {
		switch {
		case b.Type == tidemark.BlockText:
			all = append(all, object{"text": b.Text})
		case b.Name != "":
			all = append(all, object{"text": "[" + b.Name + "]"}) // a part has no place for it
			fallthrough
		default:
			all = append(all, object{"inlineData": object{"mimeType": b.MediaType, "data": b.Data}})
		}
	}
	return all
}
