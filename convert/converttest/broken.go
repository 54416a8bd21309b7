package converttest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/dialogue"
)

// Broken is a session of a tool that is broken in one place.
type Broken struct {
	Name string
	Kind string // of the dialogue.Fault
	Text string // of its file
	// Signed says that the fault shows only to the provider, and that nothing is
	// found unless all signed thinking is to be dropped.
	Signed bool
}

// Rounds is how many prompts the sessions have that are broken.
const Rounds = 6

// signed is thinking with the signature of the stand-in for a model.
const signed = `{"type":"thinking","thinking":"hm","signature":"ZmFrZS1zaWduYXR1cmU="}`

// Sound is a session that nothing is wrong with: every round has a call with its
// result, and for Claude Code signed thinking.
func Sound(tool string) *convert.Session {
	return of(rounds(&talk{}, tool, 0, Rounds))
}

// Compacted is a Sound session that was compacted half way: behind a summary that has
// all that was said before it.
func Compacted(tool string) *convert.Session {
	c := rounds(&talk{}, tool, 0, Rounds/2)
	c.entry(tidemark.Entry{Kind: convert.KindCompaction, Blocks: []tidemark.Block{tidemark.Text(half)}})
	return of(rounds(c, tool, Rounds/2, Rounds))
}

// half is a summary of what the first half of the rounds said.
const half = "They said: prompt 0, answer 0, prompt 1, answer 1, prompt 2, answer 2."

func rounds(c *talk, tool string, from, to int) *talk {
	for n := from; n < to; n++ {
		id := fmt.Sprintf("call_%d", n)
		c.ask(fmt.Sprintf("prompt %d", n))
		think := tidemark.Text("hm")
		if tool == "claude-code" {
			think = tidemark.Block{Type: tidemark.BlockThinking, Text: "hm", Provider: "anthropic", Raw: signed}
		}
		c.add(tidemark.Assistant, think, call(id, "bash", `{"command":"ls"}`)).add(tidemark.Tool, result(id, fmt.Sprintf("result %d", n))).answer(fmt.Sprintf("answer %d", n))
	}
	return c
}

// object is a JSON object that is changed.
type object = map[string]any

// breakage breaks one round of a session, and reports whether the session can have
// that.
type breakage struct {
	name, kind string
	breaks     func(*wreck) bool
}

// BrokenSessions are the text of a Sound session in the form of a tool, broken in each
// way and at each round, and that of a Compacted one, broken where it was compacted.
// There are some for claude-code, codex and opencode.
func BrokenSessions(tool, sound, compacted string) (all []Broken) {
	for _, b := range lostPlaces {
		if w := newWreck(tool, compacted, Rounds/2); b.breaks(w) {
			all = append(all, Broken{Name: b.name, Kind: b.kind, Text: w.text()})
		}
	}
	for _, b := range breakages {
		for n := range Rounds {
			w := newWreck(tool, sound, n)
			if b.breaks(w) {
				all = append(all, Broken{fmt.Sprintf("%s, round %d", b.name, n+1), b.kind, w.text(), b.name == othersSignature})
			}
		}
	}
	return all
}

// othersSignature is thinking whose signature nobody but the provider knows to be dead.
const othersSignature = "a signature of somebody else"

var breakages = []breakage{
	{"a call without a result", dialogue.FaultNoResult, func(w *wreck) bool {
		if w.doc == nil {
			return w.drop(w.at(`"result %d"`))
		}
		s := w.part()["state"].(object)
		delete(s, "output")
		s["status"] = "running"
		return true
	}},
	{"a result without a call", dialogue.FaultNoCall, func(w *wreck) bool { return w.doc == nil && w.drop(w.at(`"call_%d"`)) }},
	{"a result twice", dialogue.FaultAgain, func(w *wreck) bool {
		if w.doc != nil {
			return false
		}
		i := w.at(`"result %d"`)
		again := strings.Replace(w.lines[i], `"uuid":"`, `"uuid":"0`, 1)
		w.lines = append(w.lines[:i+1], append([]string{again}, w.lines[i+1:]...)...)
		return true
	}},
	{"a call twice", dialogue.FaultTwice, func(w *wreck) bool { return w.n > 0 && w.swap(`"call_%d"`, `"call_0"`) }},
	{"an id that is none", dialogue.FaultID, func(w *wreck) bool { return w.swap(`"call_%d"`, `"call:%d | x"`) }},
	{"an id that is too long", dialogue.FaultID, func(w *wreck) bool { return w.swap(`"call_%d"`, `"`+strings.Repeat("call_%d", 60)+`"`) }},
	{"a name that is none", dialogue.FaultName, func(w *wreck) bool { return w.name("read file (2)") }},
	{"a name that is missing", dialogue.FaultName, func(w *wreck) bool { return w.name("") }},
	{"an input that is none", dialogue.FaultInput, func(w *wreck) bool { return w.input("ls") }},
	{"a signature that is missing", dialogue.FaultSignature, func(w *wreck) bool { return w.sign("") }},
	{"a signature that was cut off", dialogue.FaultSignature, func(w *wreck) bool { return w.sign("ZmFrZS1zaWduYXR1c") }},
	{othersSignature, dialogue.FaultSignature, func(w *wreck) bool { return w.sign("c29tZWJvZHkgZWxzZQ==") }},
	{"an image of 5 MB", dialogue.FaultImage, func(w *wreck) bool { return w.attach("image/png", append(Picture(2, 2).Data, make([]byte, 5<<20)...)) }},
	{"an image of 9,000 pixels", dialogue.FaultImage, func(w *wreck) bool { return w.attach("image/png", Picture(9000, 1).Data) }},
	{"an image that is none", dialogue.FaultImage, func(w *wreck) bool { return w.attach("image/png", []byte("<html>not found</html>")) }},
	{"an image of another kind", dialogue.FaultImage, func(w *wreck) bool { return w.attach("image/jpeg", Picture(2, 2).Data) }},
	{"a line that was torn", dialogue.FaultDamaged, func(w *wreck) bool {
		if w.doc != nil {
			return false
		}
		i := w.at(`"answer %d"`)
		w.lines[i] = w.lines[i][:len(w.lines[i])/2] + "\n"
		return true
	}},
}

// lostPlaces are what is wrong around a summary. opencode finds its place without it.
var lostPlaces = []breakage{
	{"a summary that is gone", dialogue.FaultPlace, func(w *wreck) bool { return w.tool == "claude-code" && w.drop(w.at(half)) }},
	{"a summary that is empty", dialogue.FaultPlace, func(w *wreck) bool {
		return w.tool == "codex" && w.edit(w.at(half), func(line object) { line["payload"].(object)["message"] = "" })
	}},
	{"a summary in whose place is nothing", dialogue.FaultPlace, func(w *wreck) bool {
		return w.tool == "codex" && w.edit(w.at(half), func(line object) { line["payload"].(object)["replacement_history"] = []any{} })
	}},
	{"a prompt behind a summary that follows nothing", dialogue.FaultPlace, func(w *wreck) bool {
		return w.tool == "claude-code" && w.edit(w.at(half)+1, func(line object) { line["parentUuid"] = nowhere })
	}},
	{"an answer behind a summary that follows nothing", dialogue.FaultPlace, func(w *wreck) bool {
		return w.tool == "claude-code" && w.edit(w.at(`"answer %d"`), func(line object) { line["parentUuid"] = nowhere })
	}},
}

// nowhere is the id of a record that is not there.
const nowhere = "00000000-0000-4000-8000-00000000dead"

// wreck is a session that is being broken: the lines of a transcript, or a document.
type wreck struct {
	tool  string
	n     int // the round
	lines []string
	doc   object
}

func newWreck(tool, sound string, n int) *wreck {
	w := &wreck{tool: tool, n: n}
	if tool != "opencode" {
		w.lines = strings.SplitAfter(strings.TrimSuffix(sound, "\n"), "\n")
		w.lines[len(w.lines)-1] += "\n"
	} else if err := json.Unmarshal([]byte(sound), &w.doc); err != nil {
		panic(err) // what was written is JSON
	}
	return w
}

func (w *wreck) text() string {
	if w.doc == nil {
		return strings.Join(w.lines, "")
	}
	return encoded(w.doc)
}

func encoded(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // it was JSON
	}
	return b.String()
}

// at returns the first line of the model's input that has a mark of the round in it.
func (w *wreck) at(mark string) int {
	if strings.Contains(mark, "%") {
		mark = fmt.Sprintf(mark, w.n)
	}
	for i, l := range w.lines {
		if strings.Contains(l, mark) && !strings.Contains(l, `"event_msg"`) {
			return i
		}
	}
	panic("no line has " + mark)
}

func (w *wreck) drop(i int) bool {
	w.lines = append(w.lines[:i], w.lines[i+1:]...)
	return true
}

// swap replaces a mark of the round wherever it is.
func (w *wreck) swap(mark, with string) bool {
	mark, with = fmt.Sprintf(mark, w.n), strings.ReplaceAll(with, "%d", fmt.Sprint(w.n))
	if w.doc != nil {
		w.part()["callID"] = strings.Trim(with, `"`)
		return true
	}
	for i := range w.lines {
		w.lines[i] = strings.ReplaceAll(w.lines[i], mark, with)
	}
	return true
}

// edit changes the object of a line.
func (w *wreck) edit(i int, change func(line object)) bool {
	var line object
	if err := json.Unmarshal([]byte(w.lines[i]), &line); err != nil {
		panic(err) // what was written is JSON
	}
	change(line)
	w.lines[i] = encoded(line)
	return true
}

// part is the part of the document that has the call of the round.
func (w *wreck) part() object {
	var found object
	w.parts(func(message, part object) {
		if part["callID"] == fmt.Sprintf("call_%d", w.n) {
			found = part
		}
	})
	return found
}

func (w *wreck) parts(see func(message, part object)) {
	for _, m := range w.doc["messages"].([]any) {
		for _, p := range m.(object)["parts"].([]any) {
			see(m.(object), p.(object))
		}
	}
}

func (w *wreck) name(name string) bool {
	switch w.tool {
	case "claude-code":
		return w.edit(w.at(`"call_%d"`), func(line object) { firstBlock(line)["name"] = name })
	case "codex":
		return w.edit(w.at(`"call_%d"`), func(line object) { line["payload"].(object)["name"] = name })
	}
	w.part()["tool"] = name
	return true
}

func (w *wreck) input(input string) bool {
	switch w.tool {
	case "claude-code":
		return w.edit(w.at(`"call_%d"`), func(line object) { firstBlock(line)["input"] = input })
	case "codex":
		return w.edit(w.at(`"call_%d"`), func(line object) { line["payload"].(object)["arguments"] = input })
	}
	w.part()["state"].(object)["input"] = input
	return true
}

// firstBlock is the first block of a message of Claude Code.
func firstBlock(line object) object {
	return line["message"].(object)["content"].([]any)[0].(object)
}

// sign changes the signature of the thinking before the call.
func (w *wreck) sign(signature string) bool {
	if w.tool != "claude-code" {
		return false
	}
	return w.edit(w.at(`"call_%d"`)-1, func(line object) { firstBlock(line)["signature"] = signature })
}

// attach puts an image behind the prompt.
func (w *wreck) attach(kind string, data []byte) bool {
	encoded := base64.StdEncoding.EncodeToString(data)
	prompt := fmt.Sprintf("prompt %d", w.n)
	switch w.tool {
	case "claude-code":
		return w.edit(w.at(`"prompt %d"`), func(line object) {
			line["message"].(object)["content"] = []any{object{"type": "text", "text": prompt}, object{"type": "image", "source": object{"type": "base64", "media_type": kind, "data": encoded}}}
		})
	case "codex":
		return w.edit(w.at(`"prompt %d"`), func(line object) {
			payload := line["payload"].(object)
			payload["content"] = append(payload["content"].([]any), object{"type": "input_image", "image_url": "data:" + kind + ";base64," + encoded})
		})
	}
	w.parts(func(message, part object) {
		if part["text"] == prompt {
			image := object{"id": part["id"].(string) + "z", "sessionID": part["sessionID"], "messageID": part["messageID"], "type": "file", "mime": kind, "url": "data:" + kind + ";base64," + encoded}
			message["parts"] = append(message["parts"].([]any), image)
		}
	})
	return true
}
