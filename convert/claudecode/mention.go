package claudecode

import (
	"encoding/base64"
	"encoding/json"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// A file that somebody mentions with an @ becomes a record of its own, an
// attachment that is a child of the prompt. A picture or a document is part of
// the prompt, and so becomes a block of that message.

// mention is an attachment that holds a file.
type mention struct {
	Type    string `json:"type"`
	Name    string `json:"filename"`
	Shown   string `json:"displayPath"`
	Content struct {
		Type string `json:"type"`
		File struct {
			Data      string `json:"base64"`
			MediaType string `json:"type"`
			Content   string `json:"content"` // of a text
		} `json:"file"`
	} `json:"content"`
}

func mentionOf(attached json.RawMessage) mention {
	var m mention
	if convert.Loose(attached, &m) != nil {
		return mention{}
	}
	return m
}

// media is the type of block for the file, "" for a text.
func (m mention) media() string {
	switch {
	case m.Content.File.Data == "":
		return ""
	case m.Content.Type == "image":
		return tidemark.BlockImage
	case m.Content.Type == "pdf":
		return tidemark.BlockFile
	}
	return ""
}

// mentioned makes a block of an attachment that is a picture or a document, and
// removes its bytes from the record, which would otherwise hold them, too.
func (k *kept) mentioned(attached json.RawMessage) (tidemark.Block, bool) {
	m := mentionOf(attached)
	b := tidemark.Block{Type: m.media(), Name: m.Shown, MediaType: m.Content.File.MediaType}
	if b.Type == "" {
		return b, false
	}
	if b.Name == "" {
		b.Name = m.Name
	}
	if b.MediaType == "" && b.Type == tidemark.BlockFile {
		b.MediaType = "application/pdf"
	}
	data, err := base64.StdEncoding.DecodeString(m.Content.File.Data)
	if err != nil || len(data) == 0 {
		return b, false
	}
	if b.Data = data; k.refillFile("") {
		k.Shape, k.Blocks = shapeFile, 1
	}
	return b, true
}

// refillFile puts the bytes of a file into its record, or removes them.
func (k *kept) refillFile(data string) bool {
	var attached, content, file map[string]json.RawMessage
	if json.Unmarshal(k.Record["attachment"], &attached) != nil || json.Unmarshal(attached["content"], &content) != nil ||
		json.Unmarshal(content["file"], &file) != nil {
		return false
	}
	file["base64"] = quote(data)
	var err error
	if content["file"], err = json.Marshal(file); err == nil {
		if attached["content"], err = json.Marshal(content); err == nil {
			k.Record["attachment"], err = json.Marshal(attached)
		}
	}
	return err == nil
}

// mention joins a mentioned picture to the prompt that it is a child of.
func (o *outline) mention(it item) {
	switch {
	case it.asks():
		o.prompt, o.asked, o.askedAt = it.UUID, it.n, it.start
	case it.Type == "attachment" && o.prompt != "" && it.Parent == o.prompt && it.start-o.askedAt <= joinBytes && mentionOf(it.Attached).media() != "":
		o.prompt = it.UUID
		o.lead[it.n], o.until[o.asked] = int32(o.asked), int32(it.n)
		o.dropPoints(o.asked)
	}
}
