package transfer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
)

// spellings write the same JSON, or nearly the same, in another way. They leave
// alone what is not JSON.
var spellings = []struct {
	name   string
	change func([]byte) []byte
}{
	{"white space between tokens", func(b []byte) []byte { return respell(b, spacing{}) }},
	{"texts with special characters", func(b []byte) []byte { return respell(b, special{}) }},
	{"texts that are not UTF-8", func(b []byte) []byte { return respell(b, invalid{}) }},
	{"keys in other letters", func(b []byte) []byte { return respell(b, shouting{}) }},
	{"keys twice", func(b []byte) []byte { return respell(b, stutter{}) }},
	{"odd numbers and nulls", func(b []byte) []byte { return respell(b, odd{}) }},
}

// speller writes the tokens of a JSON text; all do what plainly does, but for
// one thing.
type speller interface {
	key(n int, raw []byte) []byte   // the n-th key, with its colon
	text(n int, raw []byte) []byte  // the n-th string that is no key
	other(n int, raw []byte) []byte // the n-th number or word
}

type plainly struct{}

func (plainly) key(_ int, raw []byte) []byte   { return append(raw, ':') }
func (plainly) text(_ int, raw []byte) []byte  { return raw }
func (plainly) other(_ int, raw []byte) []byte { return raw }

type spacing struct{ plainly }

func (spacing) key(n int, raw []byte) []byte {
	return []byte(fmt.Sprintf("%s%s:\t ", strings.Repeat(" ", n%3), raw))
}
func (spacing) text(n int, raw []byte) []byte { return append(raw, " \t"[:n%3]...) }

// hardTexts are the insides of JSON strings that do not come out of every
// encoder as they went in.
var hardTexts = []string{`a<b>c&d`, `\u003ca\u003e\u0026`, "a\u2028b\u2029c", `\u2028\u2029`, "caf\u00e9 \u65e5\u672c \U0001f30a", `caf\u00e9`, `\ud83c\udf0a`,
	`\ud83c alone`, `\udf0a\ud83c turned`, `\ud83cx`, `a\/b`, `tab\tnew\nline\r`, `\b\f\u0001\u001f\u007f`, "\u007f", `\"quoted\" \\ back`, ``, ` `, `\u0000`, `\ufffd`, "\ufffd", "\ufeff",
	`\u0041\u00C9`, `{\"a\":1}`, `null`}

// invalidTexts are insides of strings that are not UTF-8.
var invalidTexts = []string{"\xff", "a\xc3", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xc0\xaf <", "ok \x80 ok"}

// someTexts puts texts at the end of every third text that looks like prose:
// ids and paths stay what they are.
func someTexts(n int, raw []byte, texts []string) []byte {
	if n%3 != 0 || !bytes.ContainsAny(raw, " ") {
		return raw
	}
	return []byte(string(raw[:len(raw)-1]) + texts[n/3%len(texts)] + `"`)
}

type special struct{ plainly }

func (special) text(n int, raw []byte) []byte { return someTexts(n, raw, hardTexts) }

type invalid struct{ plainly }

func (invalid) text(n int, raw []byte) []byte { return someTexts(n, raw, invalidTexts) }

type shouting struct{ plainly }

func (shouting) key(n int, raw []byte) []byte {
	switch n % 7 {
	case 0:
		raw = bytes.ToUpper(raw)
	case 3:
		copy(raw[1:2], bytes.ToUpper(raw[1:2]))
	}
	return append(raw, ':')
}

type stutter struct{ plainly }

func (stutter) key(n int, raw []byte) []byte {
	if n%4 == 0 {
		return []byte(fmt.Sprintf(`%s:"twice",%s:`, raw, raw))
	}
	return append(raw, ':')
}

type odd struct{ plainly }

func (odd) key(n int, raw []byte) []byte {
	if n%5 == 0 {
		return []byte(fmt.Sprintf(`"odd%d":[1E5,-0,0.0,1e-7,1.50,123456789012345678901234567890,%snull%s,{},[]],%s:`,
			n, strings.Repeat("[", n%40), strings.Repeat("]", n%40), raw))
	}
	return append(raw, ':')
}

func (odd) other(n int, raw []byte) []byte {
	if n%4 == 0 {
		return []byte("null")
	}
	if raw[0] >= '1' && raw[0] <= '9' && n%2 == 0 && !bytes.ContainsAny(raw, ".eE") {
		return append(raw, ".0e0"...)
	}
	return raw
}

// respell writes a JSON text token by token, with s for the words.
func respell(b []byte, s speller) []byte {
	if !json.Valid(b) {
		return b
	}
	var out []byte
	texts, keys, others := 0, 0, 0
	for i := 0; i < len(b); {
		end := i + 1
		switch c := b[i]; {
		case c == '"':
			for ; b[end] != '"'; end++ {
				if b[end] == '\\' {
					end++
				}
			}
			end++
			raw := bytes.Clone(b[i:end])
			rest := bytes.TrimLeft(b[end:], " \t\r\n")
			if len(rest) > 0 && rest[0] == ':' {
				end = len(b) - len(rest) + 1
				out = append(out, s.key(keys, raw)...)
				keys++
			} else {
				out = append(out, s.text(texts, raw)...)
				texts++
			}
		case strings.IndexByte("{}[],: \t\r\n", c) >= 0:
			out = append(out, c)
		default:
			for end < len(b) && strings.IndexByte("{}[],: \t\r\n", b[end]) < 0 {
				end++
			}
			out = append(out, s.other(others, bytes.Clone(b[i:end]))...)
			others++
		}
		i = end
	}
	return out
}

// hardRecords are records of Claude Code in which TEXT stands for a text, ID for
// the uuid, BEFORE for that of the record before.
var hardRecords = []string{
	`{"type":"user","uuid":"ID","parentUuid":"BEFORE","sessionId":"s","timestamp":"2026-01-02T03:04:05.678Z","cwd":"/a/TEXT","message":{"role":"user","content":"say TEXT"}}`,
	`{"parentUuid":"BEFORE","isSidechain":false,"type":"user","message":{"role":"user","content":[{"type":"text","text":"TEXT"},{"type":"text","text":"<system-reminder>TEXT</system-reminder>"}]},"uuid":"ID","timestamp":"2026-01-02T03:04:06Z","note":"TEXT"}`,
	`{"type":"assistant","uuid":"ID","parentUuid":"BEFORE","message":{"id":"mID","model":"claude-a","role":"assistant","content":[{"type":"text","text":"TEXT"}],"stop_reason":null,"usage":{"input_tokens":10,"output_tokens":2.0,"cache_read_input_tokens":1e3,"service_tier":"TEXT"}},"requestId":"TEXT"}`,
	`{"type":"assistant","uuid":"ID","parentUuid":"BEFORE","message":{"id":"mID","model":"claude-a","content":[{"type":"thinking","thinking":"TEXT","signature":"TEXT"},{"type":"tool_use","id":"call_ID","name":"Bash","input":{"command":"TEXT","n":[1.0,-0,1E2,null,true,{}],"TEXT":1}}]}}`,
	`{"type":"user","uuid":"ID","parentUuid":"BEFORE","message":{"role":"user","content":[{"tool_use_id":"call_BEFORE","type":"tool_result","content":"TEXT","is_error":false}]},"toolUseResult":{"stdout":"TEXT","stderr":"","interrupted":false}}`,
	`{"type":"user","uuid":"ID","parentUuid":"BEFORE","message":{"role":"user","content":[{"tool_use_id":"call_x","type":"tool_result","content":[{"type":"text","text":"TEXT"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGk="}}],"is_error":true}]},"toolUseResult":"TEXT"}`,
	`{"type":"user","uuid":"ID","parentUuid":"BEFORE","isMeta":true,"message":{"role":"user","content":[{"type":"document","title":"TEXT","source":{"type":"text","media_type":"text/plain","data":"TEXT"}},{"type":"image","source":{"type":"url","url":"TEXT"}},{"type":"text","text":"x","citations":["TEXT"]},{"type":"new","TEXT":"TEXT"},7,null,"TEXT"]}}`,
	`{"type":"system","subtype":"local_command","uuid":"ID","parentUuid":"BEFORE","content":"<command-name>/x</command-name><command-args>TEXT</command-args>","level":"info"}`,
	`{"type":"system","subtype":"compact_boundary","uuid":"ID","parentUuid":null,"logicalParentUuid":"BEFORE","content":"TEXT","compactMetadata":{"trigger":"TEXT","preTokens":1.5e4}}`,
	`{"type":"attachment","uuid":"ID","parentUuid":"BEFORE","attachment":{"type":"queued_command","prompt":"TEXT","commandMode":"prompt"}}`,
	`{"type":"attachment","uuid":"ID","parentUuid":"BEFORE","attachment":{"type":"x","content":"TEXT"},"rendered":[{"content":"TEXT"},{"content":"b"}]}`,
	`{"type":"attachment","uuid":"ID","parentUuid":"BEFORE","attachment":{"type":"file","filename":"TEXT","displayPath":"TEXT","content":{"type":"image","file":{"base64":"aGk=","type":"image/png","dimensions":{"TEXT":1}}}}}`,
	`{"type":"file-history-snapshot","messageId":"BEFORE","snapshot":{"TEXT":{"TEXT":"TEXT"}},"isSnapshotUpdate":false}`,
	`{"type":"progress","uuid":"ID","parentUuid":"BEFORE","data":{"type":"TEXT","deep":[[[[[[[["TEXT"]]]]]]]]}}`,
	`{"type":"assistant","uuid":"ID","parentUuid":"BEFORE","isApiErrorMessage":true,"message":{"id":"mID","model":"<synthetic>","content":"TEXT","usage":{"input_tokens":"TEXT"}}}`,
	`{"type":"assistant","uuid":"ID","parentUuid":"BEFORE","costUSD":0.25,"message":{"id":"mID","model":"claude-b","content":[{"type":"server_tool_use","id":"call_ID","name":"web","input":{"q":"TEXT"}},{"type":"web_search_tool_result","tool_use_id":"call_ID","content":[{"type":"text","text":"TEXT"}]}],"usage":null}}`,
	`{"type":"user","uuid":"ID","parentUuid":"BEFORE","origin":{"kind":"TEXT"},"promptSource":"typed","message":{"role":"user","content":null},"TEXT":[{"TEXT":"TEXT"}]}`,
	`{"type":"user","uuid":"ID","parentUuid":"BEFORE","message":{"role":"user","content":[]}}`,
	`{"type":"assistant","uuid":"ID","parentUuid":"BEFORE","message":{"id":"mBEFORE","model":"claude-a","content":[{"type":"text","text":"more TEXT"}],"usage":{"input_tokens":1,"output_tokens":1}}}`,
}

// hardTranscript is a transcript of Claude Code with each record and each text,
// some of them spelled in another way.
func hardTranscript() string {
	rnd := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	before := ""
	for i, text := range append(append([]string{"plain"}, hardTexts...), invalidTexts...) {
		for j, record := range hardRecords {
			id := fmt.Sprintf("id-%d-%d", i, j)
			line := strings.NewReplacer("TEXT", text, "BEFORE", before, "ID", id).Replace(record)
			if how := rnd.IntN(3 * len(spellings)); how < len(spellings) {
				line = string(spellings[how].change([]byte(line)))
			}
			b.WriteString(line + []string{"\n", "\n", "\r\n", "\n\n", " \n"}[rnd.IntN(5)])
			before = id
		}
	}
	b.WriteString(`{"type":"user","uuid":"torn","message":{"content":"x`)
	return b.String()
}
