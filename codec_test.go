package tidemark

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// The model is encoding/json: it alone decides what a body means.

func modelEncode(e *Entry) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(body{e.Blocks, e.Model, e.Usage, e.Extra}); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

func modelDecode(b []byte) (Entry, error) {
	var v body
	err := json.Unmarshal(b, &v)
	return Entry{Blocks: v.Blocks, Model: v.Model, Usage: v.Usage, Extra: v.Extra}, err
}

type fataler interface {
	Helper()
	Fatalf(string, ...any)
}

// checkEncode wants what the model writes, and that reading gives it back.
func checkEncode(t fataler, e Entry) {
	t.Helper()
	want, wantErr := modelEncode(&e)
	got, err := appendBody(nil, &e)
	if (err != nil) != (wantErr != nil) {
		t.Fatalf("appendBody = %v, encoding/json says %v", err, wantErr)
	}
	if err != nil {
		return
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("wrote\n%s\nencoding/json writes\n%s", got, want)
	}
	if p := (parser{b: got, d: new(Decoder)}); !p.body(new(body)) {
		t.Fatalf("its own form is not read by the parser that knows it: %s", got)
	}
	checkDecode(t, got)
}

// checkDecode wants what the model reads, or an error where it has one.
func checkDecode(t fataler, b []byte) {
	t.Helper()
	want, wantErr := modelDecode(b)
	var got Entry
	err := new(Decoder).parseBody(b, &got)
	if (err != nil) != (wantErr != nil) {
		t.Fatalf("parseBody(%q) = %v, encoding/json says %v", b, err, wantErr)
	}
	if err != nil {
		want = Entry{}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("parseBody(%q) differs from encoding/json:\n%s", b, diff)
	}
}

var sampleEntries = []Entry{
	{},
	Say(User, "hello"),
	Say(User, ""),
	Say(User, "quotes \" and \\ and / and \b\f\n\r\t\x00\x1f\x7f <b>&amp;</b>"),
	Say(User, "日本語 é 👩🏽\u200d💻 \u2028\u2029 \ufffd"),
	Say(User, "not UTF-8: \xff \xe2\x82 \xed\xa0\x80 \xc0\x80"),
	Say(User, strings.Repeat("long ", 1000)+"\n"),
	{Model: "m", Usage: &Usage{}},
	{Usage: &Usage{InputTokens: 1, OutputTokens: -2, CacheReadTokens: math.MaxInt64, CacheWriteTokens: math.MinInt64, CostUSD: 0.0123}},
	{Usage: &Usage{CostUSD: 1e-7}}, {Usage: &Usage{CostUSD: 1e21}}, {Usage: &Usage{CostUSD: -1.5e300}}, {Usage: &Usage{CostUSD: math.SmallestNonzeroFloat64}},
	{Usage: &Usage{CostUSD: math.Copysign(0, -1)}}, {Usage: &Usage{CostUSD: 1e-6}}, {Usage: &Usage{CostUSD: 999999999999999999999}},
	{Usage: &Usage{CostUSD: math.NaN()}}, {Usage: &Usage{CostUSD: math.Inf(-1)}},
	{Extra: json.RawMessage(`{"a":[1,2.5e-3,true,false,null,"x\u00e9\n"],"b":{}}`)},
	{Extra: json.RawMessage(" { \"a\" : [ ] ,\n\t\"b\" : { } } ")},
	{Extra: json.RawMessage(`null`)}, {Extra: json.RawMessage(`"\ud800"`)}, {Extra: json.RawMessage("\"\xff\u2028\"")},
	{Extra: json.RawMessage(`{`)}, {Extra: json.RawMessage(`{} {}`)}, {Extra: json.RawMessage(` `)}, {Extra: json.RawMessage(`01`)},
	{Extra: json.RawMessage{}}, {Extra: json.RawMessage("\"\n\"")}, {Extra: json.RawMessage(`"\x"`)}, {Extra: json.RawMessage(`"\u00g0"`)},
	{Blocks: []Block{}},
	{Blocks: []Block{{}}},
	{Blocks: []Block{
		{Type: BlockThinking, Text: "hm", Provider: "anthropic", Raw: `{"signature":"x\/y"}`},
		{Type: BlockToolUse, ID: "1", Name: "bash", Input: json.RawMessage(`{"command": "ls -l"}`)},
		{Type: BlockToolResult, ToolUseID: "1", IsError: true, Blocks: []Block{Text("a"), {Type: BlockImage, MediaType: "image/png", Data: []byte{0, 255, 1}}}},
		{Type: BlockFile, Name: "f", URL: "https://example.org/?a&b", Data: []byte{}},
	}},
	{Blocks: []Block{{Type: BlockToolUse, Name: "x", Input: json.RawMessage(`{bad}`)}}},
}

func TestBodiesAreWrittenAsEncodingJSONWritesThem(t *testing.T) {
	for _, e := range sampleEntries {
		checkEncode(t, e)
	}
}

var sampleBodies = []string{
	`{}`, `null`, ``, ` {}`, `{} `, `{}x`, `[]`, `{"blocks":null}`, `{"blocks":[]}`, `{"blocks":[null]}`, `{"blocks":[{}]}`,
	`{"blocks":[{"type":"text","text":"a"}]}`, `{"blocks":[{"text":"a","type":"text"}]}`, `{"blocks":[{"type":"text"},]}`,
	`{"blocks":[{"type":"a"}],"blocks":[{"text":"b"}]}`, `{"Model":"x"}`, `{"model":"x","model":"y"}`, `{"model":"x",}`, `{,"model":"x"}`,
	`{"model":"\ud83d\ude00 \ud800 \u0041 \/"}`, `{"model":"\uD83D"}`, `{"model":"\u00"}`, `{"model":"\q"}`, `{"model":"\`, `{"model":"\"`, `{"model":"\\"}`,
	"{\"model\":\"\xff\"}", "{\"model\":\"a\n\"}", "{\"model\":\"\\n\xe2\"}", `{"model":1}`, `{"model":null}`, `{"model":"a"b}`,
	`{"usage":{"input_tokens":-0,"output_tokens":1e3}}`, `{"usage":{"input_tokens":1.0}}`, `{"usage":{"input_tokens":01}}`, `{"usage":{"input_tokens":9223372036854775808}}`,
	`{"usage":{"cost_usd":1e999}}`, `{"usage":{"cost_usd":-1.5E+3}}`, `{"usage":{"cost_usd":.5}}`, `{"usage":{"cost_usd":1.}}`, `{"usage":{"cost_usd":0x1}}`, `{"usage":null}`, `{"usage":[]}`,
	`{"extra":null}`, `{"extra":1}`, `{"extra":tru}`, `{"extra":truex}`, `{"extra":"` + "\x01" + `"}`, `{"extra": 1}`, `{"extra":[1,]}`, `{"extra":{"a"}}`, `{"extra":{"a":1,}}`, `{"extra":-}`,
	`{"blocks":[{"type":"image","data":"AAEC"}]}`, `{"blocks":[{"type":"image","data":""}]}`, `{"blocks":[{"type":"image","data":"A"}]}`, `{"blocks":[{"type":"image","data":null}]}`,
	"{\"blocks\":[{\"type\":\"image\",\"data\":\"AA\nEC\"}]}", `{"blocks":[{"type":"image","data":"AA\nEC"}]}`, `{"blocks":[{"type":"image","data":"AAE="}]}`, `{"blocks":[{"type":"image","data":"AAF="}]}`,
	`{"blocks":[{"type":"x","is_error":false}]}`, `{"blocks":[{"type":"x","is_error":true}]}`, `{"blocks":[{"type":"x","is_error":1}]}`, `{"blocks":[{"type":"x","future":1}]}`,
	`{"blocks":[{"type":"x","blocks":[{"type":"y"}]}]}`, `{"blocks":{"type":"x"}}`, `{"blocks":[[]]}`, `{"blocks":[{"type":"x"}`, `{"blocks":[{"type":"x"}]`, `{"type":"x"}`, `{"":1}`,
}

func TestBodiesMeanWhatEncodingJSONSays(t *testing.T) {
	for _, s := range sampleBodies {
		checkDecode(t, []byte(s))
	}
}

func TestAFailedReadLeavesTheEntryAsItWas(t *testing.T) {
	e := Entry{Model: "before"}
	if err := new(Decoder).parseBody([]byte(`{"blocks":[{"type":"text"}],"model":7}`), &e); err == nil {
		t.Fatal("a number was read as a model")
	}
	if diff := cmp.Diff(Entry{Model: "before"}, e); diff != "" {
		t.Error(diff)
	}
}

func TestAnEntryKeepsNothingOfTheBytesItWasReadFrom(t *testing.T) {
	e := sampleEntries[len(sampleEntries)-2]
	b, err := appendBody(nil, &e)
	if err != nil {
		t.Fatal(err)
	}
	want, _ := modelDecode(b)
	var got Entry
	if err := new(Decoder).parseBody(b, &got); err != nil {
		t.Fatal(err)
	}
	for i := range b {
		b[i] = 'X'
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestABodyIsAddedBehindWhatIsThere(t *testing.T) {
	e := Say(User, "x")
	got, err := appendBody([]byte("front "), &e)
	if want := `front {"blocks":[{"type":"text","text":"x"}]}`; err != nil || string(got) != want {
		t.Errorf("appendBody = %q, %v, want %q", got, err, want)
	}
}

// nested returns an entry whose blocks lie so many deep in each other.
func nested(levels int) Entry {
	b := Text("core")
	for range levels - 1 {
		b = Block{Type: BlockToolResult, Blocks: []Block{b}}
	}
	return Entry{Blocks: []Block{b}}
}

func TestWhatIsWrittenCanBeReadAgainHoweverDeepItIs(t *testing.T) {
	lists := func(n int) json.RawMessage {
		return json.RawMessage(strings.Repeat("[", n) + strings.Repeat("]", n))
	}
	const blocks = (maxNesting - 1) / 2 // the body is a bracket, each block two
	for _, c := range []struct {
		name string
		e    Entry
		ok   bool
	}{
		{"blocks to the limit", nested(blocks), true},
		{"blocks beyond it", nested(blocks + 1), false},
		{"a million blocks", nested(1_000_000), false},
		{"extra to the limit", Entry{Extra: lists(maxNesting - 1)}, true},
		{"extra beyond it", Entry{Extra: lists(maxNesting)}, false},
		{"extra with blanks beyond it", Entry{Extra: append(lists(maxNesting), ' ')}, false},
		{"extra of a million", Entry{Extra: lists(1_000_000)}, false},
		{"input to the limit", Entry{Blocks: []Block{{Input: lists(maxNesting - 3)}}}, true},
		{"input beyond it", Entry{Blocks: []Block{{Input: lists(maxNesting - 2)}}}, false},
	} {
		b, err := appendBody(nil, &c.e)
		if (err == nil) != c.ok {
			t.Errorf("%s: written with %v", c.name, err)
			continue
		}
		if err == nil {
			var got Entry
			if err := new(Decoder).parseBody(b, &got); err != nil {
				t.Errorf("%s: written, but not read: %v", c.name, err)
			}
			if _, err := modelDecode(b); err != nil {
				t.Errorf("%s: encoding/json does not read it: %v", c.name, err)
			}
		}
	}
	for _, s := range []string{
		strings.Repeat(`{"blocks":[`, 1_000_000), `{"extra":` + strings.Repeat(`{"a":`, 1_000_000), `{"blocks":[` + strings.Repeat(`{"type":"x","blocks":[`, 1_000_000),
	} {
		if err := new(Decoder).parseBody([]byte(s), new(Entry)); err == nil {
			t.Errorf("%.30s… was read", s)
		}
	}
}

// drawEntry makes entries with every field, texts that need escaping, and
// foreign JSON that is sometimes loose and sometimes broken.
func drawEntry(t *rapid.T) Entry {
	text := rapid.OneOf(rapid.Just(""), rapid.String(), rapid.SampledFrom([]string{"\"", "\\", "\n", "\u2028", "\xff", "12345678", "1234567\"", "é"}),
		rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }))
	raw := rapid.Map(rapid.OneOf(rapid.Just(""), rapid.SampledFrom([]string{
		`null`, `1`, `-0.5e+7`, `"a\u0000"`, `[]`, `{}`, `[1,{"a":[{}]}]`, ` [ 1 , 2 ] `, "{\n \"b\": true}", "[1", "\"\xff\"", `{"a":nul}`,
	})), func(s string) json.RawMessage { return json.RawMessage(s) })
	var block func(deep int) Block
	block = func(deep int) Block {
		b := Block{
			Type: text.Draw(t, "type"), Text: text.Draw(t, "text"), ID: text.Draw(t, "id"), Name: text.Draw(t, "name"),
			Input: raw.Draw(t, "input"), ToolUseID: text.Draw(t, "tool_use_id"), IsError: rapid.Bool().Draw(t, "is_error"),
			MediaType: text.Draw(t, "media_type"), Data: rapid.SliceOfN(rapid.Byte(), 0, 9).Draw(t, "data"), URL: text.Draw(t, "url"),
			Provider: text.Draw(t, "provider"), Raw: text.Draw(t, "raw"),
		}
		if deep < 2 {
			for range rapid.IntRange(0, 2).Draw(t, "inner") {
				b.Blocks = append(b.Blocks, block(deep+1))
			}
		}
		return b
	}
	e := Entry{Model: text.Draw(t, "model"), Extra: raw.Draw(t, "extra")}
	for range rapid.IntRange(0, 3).Draw(t, "blocks") {
		e.Blocks = append(e.Blocks, block(0))
	}
	if rapid.Bool().Draw(t, "usage") {
		e.Usage = &Usage{rapid.Int64().Draw(t, "input"), rapid.Int64().Draw(t, "output"), 0, rapid.Int64().Draw(t, "cache"), rapid.Float64().Draw(t, "cost")}
	}
	return e
}

func TestAnyEntryIsWrittenAndReadAsEncodingJSONDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { checkEncode(t, drawEntry(t)) })
}

func TestABodyWithAnyByteChangedMeansWhatEncodingJSONSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := rapid.SampledFrom(sampleEntries).Draw(t, "entry")
		b, err := modelEncode(&e)
		if err != nil || len(b) > 2000 {
			t.Skip()
		}
		at := rapid.IntRange(0, len(b)-1).Draw(t, "at")
		switch rapid.IntRange(0, 2).Draw(t, "how") {
		case 0:
			b[at] = rapid.OneOf(rapid.Byte(), rapid.SampledFrom([]byte("{}[]\",:\\ \n0nt"))).Draw(t, "byte")
		case 1:
			b = append(b[:at], b[at+1:]...)
		case 2:
			b = append(b[:at], append([]byte{rapid.SampledFrom([]byte("{}[]\",:\\ \n0nt")).Draw(t, "byte")}, b[at:]...)...)
		}
		checkDecode(t, b)
	})
}

func FuzzParseBody(f *testing.F) {
	for _, s := range sampleBodies {
		f.Add([]byte(s))
	}
	for _, e := range sampleEntries {
		if b, err := modelEncode(&e); err == nil {
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		checkDecode(t, b)
		if e, err := modelDecode(b); err == nil {
			checkEncode(t, e)
		}
	})
}

func FuzzAppendBody(f *testing.F) {
	f.Add("text", "model", []byte(`{"a":1}`), []byte("data"), int64(7), 0.25)
	f.Add("\"\\\n\u2028\xff", "", []byte(` [ ] `), []byte{}, int64(-1), 1e-9)
	f.Fuzz(func(t *testing.T, text, model string, raw, data []byte, n int64, cost float64) {
		checkEncode(t, Entry{
			Blocks: []Block{{Type: model, Text: text, Name: text, Input: raw, Data: data, Raw: text, IsError: n > 0}},
			Model:  model, Usage: &Usage{InputTokens: n, CostUSD: cost}, Extra: raw,
		})
	})
}

// The bodies that are measured have some 250 bytes.
var benchEntries = []struct {
	name  string
	entry Entry
}{
	{"text", Say(User, strings.Repeat("Please look at the parser again. ", 6))},
	{"answer", Entry{
		Blocks: []Block{Text("The parser stops at the first byte it does not know.\nThen \"odd\" input costs a little more.")},
		Model:  "claude-sonnet-4", Usage: &Usage{InputTokens: 1234, OutputTokens: 56, CostUSD: 0.0123},
	}},
	{"call", Entry{
		Blocks: []Block{{Type: BlockToolUse, ID: "toolu_01A2b3C4", Name: "bash", Input: json.RawMessage(`{"command":"go test ./... 2>&1 | tail -20","timeout":60}`)}},
		Model:  "claude-sonnet-4", Usage: &Usage{InputTokens: 1234, OutputTokens: 56},
	}},
}

func BenchmarkAppendBody(b *testing.B) {
	for _, c := range benchEntries {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				appendBody(nil, &c.entry)
			}
		})
		b.Run(c.name+"_encoding_json", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				modelEncode(&c.entry)
			}
		})
	}
}

func BenchmarkParseBody(b *testing.B) {
	for _, c := range benchEntries {
		text, err := appendBody(nil, &c.entry)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			var d Decoder
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				var e Entry
				d.parseBody(text, &e)
			}
		})
		b.Run(c.name+"_encoding_json", func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				var e Entry
				parseAnyBody(text, &e)
			}
		})
	}
}
