package dialogue

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"image"
	_ "image/gif" // for their sizes
	_ "image/jpeg"
	_ "image/png"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// maxFolded bounds what becomes text of something that is none.
const maxFolded = 64 << 10

// folded returns a block as text.
func (b *builder) folded(one tidemark.Block) tidemark.Block {
	b.out.Lost.Add("parts that are kept as text: " + one.Type)
	text := one.Text
	switch {
	case one.Type == tidemark.BlockToolUse:
		text = fmt.Sprintf("[call of %s: %s]", one.Name, one.Input)
	case one.Type == tidemark.BlockToolResult:
		text = "[result of a call]\n" + convert.Losses{}.ResultText(one)
	case text == "" && one.Raw != "":
		text = fmt.Sprintf("[%s: %s]", one.Type, one.Raw)
	}
	if strings.TrimSpace(text) == "" {
		text = "[" + one.Type + "]"
	}
	if len(text) > maxFolded {
		text = strings.ToValidUTF8(text[:maxFolded], "") + "…"
	}
	return tidemark.Text(text)
}

// media keeps an image or a file, or says in a text what it was.
func (b *builder) media(entry string, one tidemark.Block) tidemark.Block {
	isImage := one.Type == tidemark.BlockImage
	kind := one.Type
	if one.Name != "" {
		kind += " " + one.Name
	}
	kind = strings.TrimSpace(kind + " " + one.MediaType)
	why := ""
	switch {
	case len(one.Data) == 0 && one.URL == "":
		why = "it is empty"
	case len(one.Data) == 0 && isImage && b.takes.Links:
	case len(one.Data) == 0:
		b.out.Lost.Add("contents of an " + one.Type + " that is elsewhere")
		return tidemark.Text(fmt.Sprintf("[%s: %s]", kind, one.URL))
	case !isImage && (b.takes.Files == nil || !b.takes.Files(one.MediaType)):
		b.out.Lost.Add("files that are kept as text")
		if utf8.Valid(one.Data) && len(one.Data) <= maxFolded {
			return tidemark.Text(fmt.Sprintf("[%s]\n%s", kind, one.Data))
		}
		return tidemark.Text(fmt.Sprintf("[%s, %d bytes]", kind, len(one.Data)))
	case isImage:
		if why = b.refused(one.Data); why == "" {
			one.MediaType = b.kindOf(entry, one)
		}
	}
	if why != "" {
		b.fault(FaultImage, entry, "an %s cannot be sent: %s", one.Type, why)
		b.out.Lost.Add("images that models refuse")
		return tidemark.Text(fmt.Sprintf("[%s, left out: %s]", kind, why))
	}
	return tidemark.Block{Type: one.Type, Name: one.Name, MediaType: one.MediaType, Data: one.Data, URL: one.URL}
}

// refused says why an image cannot be sent, "" if it can.
func (b *builder) refused(data []byte) string {
	if most := b.takes.MaxImage; most > 0 && len(data) > most {
		return fmt.Sprintf("it has %d bytes, and %d are allowed", len(data), most)
	}
	if b.takes.MaxSide == 0 {
		return ""
	}
	if !strings.HasPrefix(http.DetectContentType(data), "image/") {
		return "it is not an image"
	}
	c, _, err := image.DecodeConfig(bytes.NewReader(data))
	if err == nil && max(c.Width, c.Height) > b.takes.MaxSide {
		return fmt.Sprintf("it is %d pixels wide and %d high, and %d are allowed", c.Width, c.Height, b.takes.MaxSide)
	}
	return ""
}

// kindOf is the media type of an image by its content: providers refuse one that is
// something else than it says.
func (b *builder) kindOf(entry string, one tidemark.Block) string {
	is := http.DetectContentType(one.Data)
	if !strings.HasPrefix(is, "image/") || is == one.MediaType {
		return one.MediaType
	}
	if one.MediaType != "" {
		b.fault(FaultImage, entry, "an image is said to be %s and is %s", one.MediaType, is)
	}
	return is
}

// call keeps a call under an id that is its own and that every provider accepts.
func (b *builder) call(entry string, one tidemark.Block) tidemark.Block {
	id := callID(one.ID)
	if id != one.ID {
		b.fault(FaultID, entry, "providers do not accept the id of a call of %s: %.80q", one.Name, one.ID)
	}
	if b.used[id] {
		b.fault(FaultTwice, entry, "the call %s of %s is there twice", one.ID, one.Name)
		for n := 2; b.used[id]; n++ {
			id = callID(fmt.Sprintf("%.40s-%d", one.ID, n))
		}
	}
	b.used[id] = true
	b.open, b.waits[one.ID], b.names[id] = append(b.open, id), append(b.waits[one.ID], id), one.Name
	var object map[string]json.RawMessage
	input := one.Input
	if json.Unmarshal(input, &object) != nil || object == nil {
		if len(bytes.TrimSpace(input)) > 0 && string(input) != "null" {
			b.fault(FaultInput, entry, "the input of a call of %s is not an object", one.Name)
			object = map[string]json.RawMessage{"input": input}
			if !json.Valid(input) {
				object["input"], _ = json.Marshal(string(input)) // a string always can be
			}
		}
		if input, _ = json.Marshal(object); object == nil {
			input = json.RawMessage("{}")
		}
	}
	name := callName(one.Name)
	if name != one.Name {
		b.fault(FaultName, entry, "providers do not accept the name of a tool: %.80q", one.Name)
		b.names[id] = name
	}
	return tidemark.Block{Type: tidemark.BlockToolUse, ID: id, Name: name, Input: input}
}

// plain reports whether providers accept a character in ids and names.
func plain(c rune) bool {
	return c == '-' || c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// maxName is how long ids and names may be that all providers accept.
const maxName = 64

// callName is the name of a tool that providers accept.
func callName(name string) string {
	name = strings.Map(func(c rune) rune {
		if plain(c) {
			return c
		}
		return '_'
	}, name)
	if name == "" {
		return "unknown"
	}
	return name[:min(len(name), maxName)]
}

// callID is an id that providers accept: at most 64 letters, digits, dashes and
// underscores.
func callID(id string) string {
	if id != "" && len(id) <= maxName && !strings.ContainsFunc(id, func(c rune) bool { return !plain(c) }) {
		return id
	}
	sum := sha256.Sum256([]byte("call " + id))
	return "call_" + hex.EncodeToString(sum[:12])
}

// results takes the results of calls; each belongs to a call of the last answer.
func (b *builder) results(e convert.Entry) {
	var results, rest []tidemark.Block
	for _, one := range e.Blocks {
		if one.Type != tidemark.BlockToolResult {
			rest = b.said(rest, e.ID, one)
			continue
		}
		id, ok := b.waiting(one.ToolUseID)
		if !ok {
			kind, what := FaultNoCall, "there is a result of the call %s, which is not there"
			if b.used[callID(one.ToolUseID)] {
				kind, what = FaultAgain, "the call %s has another result, or one in the wrong place"
			}
			b.fault(kind, e.ID, what, one.ToolUseID)
			rest = append(rest, b.folded(one))
			continue
		}
		results = append(results, b.result(e.ID, id, one))
	}
	b.put(e, tidemark.Tool, results, false)
	if len(rest) > 0 { // people may say something while a tool runs: it comes behind all results
		b.answerAll()
		e.ID, e.Usage = e.ID+"-rest", nil
		b.put(e, tidemark.User, rest, false)
	}
}

// waiting returns the call that a result belongs to.
func (b *builder) waiting(id string) (string, bool) {
	for _, now := range b.waits[id] {
		if at := slices.Index(b.open, now); at >= 0 {
			b.open = slices.Delete(b.open, at, at+1)
			return now, true
		}
	}
	return "", false
}

// result is a result with a text, or with texts and media in Blocks. Its Name is
// that of the tool.
func (b *builder) result(entry, id string, one tidemark.Block) tidemark.Block {
	r := tidemark.Block{Type: tidemark.BlockToolResult, ToolUseID: id, Name: b.names[id], IsError: one.IsError}
	if one.Text != "" {
		r.Blocks = append(r.Blocks, tidemark.Text(one.Text))
	}
	for _, in := range one.Blocks {
		r.Blocks = b.said(r.Blocks, entry, in)
	}
	if !slices.ContainsFunc(r.Blocks, func(in tidemark.Block) bool { return in.Type != tidemark.BlockText }) {
		r.Text, r.Blocks = convert.Losses{}.ResultText(r), nil
	}
	return r
}

// answerAll gives a result to every call of the last answer that has none.
func (b *builder) answerAll() {
	if len(b.open) == 0 {
		return
	}
	var blocks []tidemark.Block
	for _, id := range b.open {
		b.fault(FaultNoResult, "", "the call %s of %s has no result", id, b.names[id])
		blocks = append(blocks, tidemark.Block{Type: tidemark.BlockToolResult, ToolUseID: id, Name: b.names[id], Text: NoResult, IsError: true})
	}
	b.open = nil
	last := b.out.Messages[len(b.out.Messages)-1]
	e := convert.Entry{ID: last.ID + "-missing", Entry: tidemark.Entry{At: last.At}}
	b.put(e, tidemark.Tool, blocks, false)
}

// Split returns the text of a result and the media in it.
func Split(result tidemark.Block) (text string, media []tidemark.Block) {
	var texts []string
	if result.Text != "" {
		texts = append(texts, result.Text)
	}
	for _, b := range result.Blocks {
		if b.Type == tidemark.BlockText {
			texts = append(texts, b.Text)
		} else {
			media = append(media, b)
		}
	}
	return strings.Join(texts, "\n"), media
}
