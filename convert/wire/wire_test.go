package wire

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// loose is a Decoder that takes in all that there is.
func loose() *Decoder {
	return &Decoder{
		Provider: "p",
		Result: func(b *tidemark.Block, content json.RawMessage, _ int) error {
			b.Text, _, _ = Content(content)
			return nil
		},
		Media: func(p Part, raw json.RawMessage) (tidemark.Block, []string, bool) {
			if p.Source == nil {
				return LinkedMedia(p, raw)
			}
			b, whole := Media(p, raw)
			if !whole {
				return b, nil, true
			}
			return b, []string{"type", "source", "title"}, true
		},
		Unknown: func(p Part) tidemark.Block { return tidemark.Block{Type: tidemark.BlockFile, Name: p.Type} },
	}
}

func TestABlockGoesAlongWholeWhereOursDoesNotSayAllOfIt(t *testing.T) {
	for raw, want := range map[string]tidemark.Block{
		`{"type":"text","text":"a"}`:                                          {Type: "text", Text: "a"},
		`{"type":"text","text":"a","citations":[]}`:                           {Type: "text", Text: "a", Raw: "+"},
		`{"type":"text","text":7}`:                                            {Type: "text"},
		`{"type":"thinking","thinking":"hm"}`:                                 {Type: "thinking", Text: "hm", Raw: "+"},
		`{"type":"redacted_thinking","data":"x"}`:                             {Type: "thinking", Raw: "+"},
		`{"type":"tool_use","id":"c","name":"ls","input":{"a":1}}`:            {Type: "tool_use", ID: "c", Name: "ls", Input: json.RawMessage(`{"a":1}`)},
		`{"type":"server_tool_use","id":"c"}`:                                 {Type: "file", Name: "server_tool_use", Raw: "+"},
		`{"type":"tool_result","tool_use_id":"c","content":"a"}`:              {Type: "tool_result", ToolUseID: "c", Text: "a"},
		`{"type":"tool_result","tool_use_id":"c","is_error":true}`:            {Type: "tool_result", ToolUseID: "c", IsError: true},
		`{"type":"image","source":{"type":"base64","data":"aGk="}}`:           {Type: "image", Data: []byte("hi")},
		`{"type":"image","source":{"type":"base64","data":"?"}}`:              {Type: "image", Raw: "+"},
		`{"type":"image","source":{"type":"base64","data":"aGk=","more":1}}`:  {Type: "image", Data: []byte("hi"), Raw: "+"},
		`{"type":"image","source":{"type":"url","url":"u","media_type":"m"}}`: {Type: "image", URL: "u", MediaType: "m", Raw: "+"},
		`{"type":"document","source":{"type":"text","data":"hi"}}`:            {Type: "file", Data: []byte("hi"), Raw: "+"},
		`{"type":"document","title":"t","source":{"type":"url","url":"u"}}`:   {Type: "file", Name: "t", URL: "u"},
		`{"type":"image_url","image_url":{"url":"data:i/p;base64,aGk="}}`:     {Type: "image", MediaType: "i/p", Data: []byte("hi")},
		`{"type":"image_url","image_url":{"url":"u","detail":"low"}}`:         {Type: "image", URL: "u", Raw: "+"},
		`{"type":"file","file":{"filename":"f","file_data":"u"}}`:             {Type: "file", Name: "f", URL: "u"},
		`{"type":"file","file":{"file_id":"f"}}`:                              {Type: "file", Raw: "+"},
		`{}`:                                                                  {Type: "file", Raw: "+"},
		`"text"`:                                                              {Type: "file", Raw: "+"},
	} {
		if want.Raw != "" {
			want.Provider, want.Raw = "p", raw
		}
		got, err := loose().Block(json.RawMessage(raw), 0)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", raw, err, diff)
		}
	}
}

func TestWhatTellsToolsApartIsSaidInTheDecoder(t *testing.T) {
	d := loose()
	d.ServerTools = true
	for raw, kind := range map[string]string{`{"type":"server_tool_use","id":"c"}`: tidemark.BlockToolUse, `{"type":"web_search_tool_result"}`: tidemark.BlockToolResult} {
		if b, err := d.Block(json.RawMessage(raw), 0); b.Type != kind || b.Raw != raw || err != nil {
			t.Errorf("%s: %+v, %v", raw, b, err)
		}
	}
	d = loose()
	d.Strict = true
	if b, err := d.Block(json.RawMessage(`{"type":"text","text":7}`), 0); err == nil {
		t.Errorf("a strict decoder takes a number for a text: %+v", b)
	}
	d = loose()
	d.Result = nil
	if b, _ := d.Block(json.RawMessage(`{"type":"tool_result"}`), 0); b.Type != tidemark.BlockFile || b.Raw == "" {
		t.Errorf("a result where there are none: %+v", b)
	}
	d = loose()
	d.Same = func(tidemark.Block, json.RawMessage) bool { return true }
	if b, _ := d.Block(json.RawMessage(`{"type":"text","text":"a","more":1}`), 0); b.Raw != "" {
		t.Errorf("kept whole, whatever Same says: %+v", b)
	}
}

func TestWhatStandsInAnAddressIsTaken(t *testing.T) {
	media, data, ok := parseDataURL("data:image/png;base64,aGk=")
	if media != "image/png" || string(data) != "hi" || !ok {
		t.Errorf("%q, %q, %v", media, data, ok)
	}
	for _, address := range []string{"", "https://x/y.png", "data:image/png,hi", "data:image/png;base64,?", "image/png;base64,aGk="} {
		if _, _, ok := parseDataURL(address); ok {
			t.Errorf("%q holds something", address)
		}
	}
}

func TestArgumentsAreTheJSONInTheirString(t *testing.T) {
	for raw, want := range map[string]string{``: ``, `"{\"a\":1}"`: `{"a":1}`, `{"a":1}`: `{"a":1}`, `""`: ``, `"{\"a\":"`: `"{\"a\":"`} {
		got := Call{Function: Function{Arguments: json.RawMessage(raw)}}.Block().Input
		if string(got) != want {
			t.Errorf("%s: %s, want %s", raw, got, want)
		}
	}
}

// FuzzBlock wants that what is not kept whole is written as what it was.
func FuzzBlock(f *testing.F) {
	for _, seed := range []string{`{"type":"text","text":"a<b"}`, `{"type":"tool_use","id":"c","name":"ls","input":{"a":[1]}}`,
		`{"type":"tool_result","tool_use_id":"c","content":"a","is_error":true}`, `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGk="}}`,
		`{"type":"document","title":"t","source":{"type":"url","url":"u"}}`, `{"type":"thinking","thinking":"a","signature":"b"}`, `[]`, `null`} {
		f.Add([]byte(seed))
	}
	e := Encoder{Whole: func(tidemark.Block) bool { return true }, Input: func(in json.RawMessage) any { return in }, Result: func(b tidemark.Block) any { return b.Text }}
	f.Fuzz(func(t *testing.T, raw []byte) {
		b, err := loose().Block(raw, 0)
		if err != nil {
			return
		}
		object, whole := e.Block(b)
		if whole != nil {
			if string(whole) != string(raw) {
				t.Errorf("%s is written as %s", raw, whole)
			}
			return
		}
		written, err := json.Marshal(object)
		if err != nil || object == nil {
			return
		}
		again, err := loose().Block(written, 0)
		if err != nil || again.Type != b.Type || again.Text != strings.ToValidUTF8(b.Text, "\uFFFD") || again.ID != b.ID || !convert.SameJSON(again.Input, b.Input) {
			t.Errorf("%s: %+v is written as %s: %+v, %v", raw, b, written, again, err)
		}
	})
}

// FuzzScannedBlock wants that a block in the usual spelling becomes what
// encoding/json makes of it.
func FuzzScannedBlock(f *testing.F) {
	for _, seed := range []string{`{"type":"text","text":"a<b"}`, `{"type":"text","text":"a\n\ud83c","Text":"b"}`, `{"type":"text","type":"tool_use","text":null}`,
		`{"type":"tool_use","id":"c","name":"ls","input":{"a":[1]},"is_error":"x"}`, `{"type":"tool_use","id":7,"input":null}`, `{"TYPE":"text","text":"x"}`,
		`{"type":"tool_result","tool_use_id":"c","content":[{"type":"text","text":"a"}],"is_error":true}`, `{"type":"thinking","thinking":"a","signature":"b","title":7}`,
		`{"type":"text","text":"a","citations":null}`, `{"type":"image","source":null}`, `{"type":"document","title":"t"}`, `[]`, `null`, `{"\u0074ype":"text"}`} {
		f.Add([]byte(seed))
	}
	strict, same := loose(), loose()
	strict.Strict = true
	same.Same = func(b tidemark.Block, raw json.RawMessage) bool { return len(raw)%2 == 0 && b.Text != "" }
	same.ServerTools = true
	f.Fuzz(func(t *testing.T, raw []byte) {
		before := string(raw)
		for _, d := range []*Decoder{loose(), strict, same} {
			want, wantErr := d.decodeAny(json.RawMessage(raw), 0)
			got, err := d.Block(raw, 0)
			for i := range raw { // what is kept is a copy
				raw[i] ^= 0xff
			}
			diff := cmp.Diff(want, got)
			for i := range raw {
				raw[i] ^= 0xff
			}
			if diff != "" || (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
				t.Fatalf("%s: %v, want %v (-want +got):\n%s", before, err, wantErr, diff)
			}
		}
	})
}

func TestNestedResultsAreReadToADepthAndKeptBelowIt(t *testing.T) {
	raw := `{"type":"text","text":"deep"}`
	for range maxResults + 3 {
		raw = `{"type":"tool_result","tool_use_id":"c","content":[` + raw + `,{"type":"odd"}]}`
	}
	b := NewDecoder("p").Any(json.RawMessage(raw), 0)
	depth := 0
	for ; len(b.Blocks) > 0; depth++ {
		if b.Type != tidemark.BlockToolResult || b.Blocks[1].Raw != `{"type":"odd"}` {
			t.Fatalf("at %d: %+v", depth, b)
		}
		b = b.Blocks[0]
	}
	if depth != maxResults+1 || !strings.Contains(b.Raw, "deep") {
		t.Errorf("%d results deep: %+v", depth, b)
	}
	if got := NewDecoder("p").Any(json.RawMessage(`7`), 0); got.Raw != "7" || got.Provider != "p" {
		t.Errorf("%+v", got)
	}
}
