package transfer

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/converttest"
	"github.com/tidemark-sessions/tidemark/convert/dialogue"
)

// callRounds is how many calls the sessions have that are broken.
const callRounds = 6

// soundSession writes a session of a tool in which every round has a call with its
// result, and returns its file.
func soundSession(t *testing.T, tool convert.Tool, dir string) string {
	t.Helper()
	var all []convert.Entry
	add := func(role tidemark.Role, blocks ...tidemark.Block) {
		e := tidemark.Say(role, "")
		e.Blocks, e.Model = blocks, "m-1"
		all = append(all, convert.Entry{Entry: e, ID: fmt.Sprint("e", len(all))})
	}
	for n := range callRounds {
		id := fmt.Sprintf("call_%d", n)
		add(tidemark.User, tidemark.Text(fmt.Sprintf("prompt %d", n)))
		think := tidemark.Block{Type: tidemark.BlockThinking, Text: "hm", Provider: "anthropic", Raw: `{"type":"thinking","thinking":"hm","signature":"c2lnbmVk"}`}
		if tool.Name != "claude-code" {
			think = tidemark.Text("hm")
		}
		add(tidemark.Assistant, think, tidemark.Block{Type: tidemark.BlockToolUse, ID: id, Name: "bash", Input: json.RawMessage(`{"command":"ls"}`)})
		add(tidemark.Tool, tidemark.Block{Type: tidemark.BlockToolResult, ToolUseID: id, Text: fmt.Sprintf("result %d", n)})
		add(tidemark.Assistant, tidemark.Text(fmt.Sprintf("answer %d", n)))
	}
	s := &convert.Session{Session: tidemark.Session{ID: tidemark.NewSessionID(), Title: "tea", Project: "/w"}, Entries: convert.All(all)}
	s.ForeignID = newID(tool)
	out, err := OpenFolder(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if _, err := tool.Export(t.Context(), out, s); err != nil {
		t.Fatal(err)
	}
	return out.full(out.Created()[0])
}

// breakages are ways in which a session breaks, at one of its rounds, as text. They
// return "" where a tool cannot have them.
var breakages = map[string]struct {
	kind   string
	breaks func(tool, text string, n int) string
}{
	"no result": {dialogue.FaultNoResult, func(tool, text string, n int) string {
		if tool == "opencode" {
			return swap(text, fmt.Sprintf(`"output":"result %d",`, n), "", `"status":"completed"`, `"status":"running"`, n)
		}
		return without(text, fmt.Sprintf(`"result %d"`, n))
	}},
	"no call": {dialogue.FaultNoCall, func(tool, text string, n int) string {
		mark := map[string]string{"claude-code": `"tool_use"`, "codex": `"function_call"`}[tool]
		if mark == "" {
			return ""
		}
		return without(text, mark, fmt.Sprintf(`"call_%d"`, n))
	}},
	"call twice": {dialogue.FaultTwice, func(_, text string, n int) string {
		if n == 0 {
			return ""
		}
		return strings.ReplaceAll(text, fmt.Sprintf(`"call_%d"`, n), `"call_0"`)
	}},
	"damaged line": {dialogue.FaultDamaged, func(tool, text string, n int) string {
		if tool == "opencode" {
			return ""
		}
		lines := strings.SplitAfter(text, "\n")
		for i, l := range lines {
			if strings.Contains(l, fmt.Sprintf(`"answer %d"`, n)) {
				lines[i] = l[:len(l)/2] + "\n"
			}
		}
		return strings.Join(lines, "")
	}},
	"dead signature": {dialogue.FaultSignature, func(tool, text string, n int) string {
		if tool != "claude-code" {
			return ""
		}
		return nth(text, `"signature":"c2lnbmVk"`, `"signature":""`, n)
	}},
	"large image": {dialogue.FaultImage, func(tool, text string, n int) string {
		data := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, maxImageBytes+1+n))
		prompt := fmt.Sprintf("prompt %d", n)
		switch tool {
		case "claude-code":
			return strings.Replace(text, fmt.Sprintf(`"content":%q`, prompt), fmt.Sprintf(`"content":[{"type":"text","text":%q},{"type":"image","source":{"type":"base64","media_type":"image/png","data":%q}}]`, prompt, data), 1)
		case "codex":
			return strings.Replace(text, fmt.Sprintf(`"content":[{"text":%q,"type":"input_text"}]`, prompt), fmt.Sprintf(`"content":[{"text":%q,"type":"input_text"},{"type":"input_image","image_url":"data:image/png;base64,%s"}]`, prompt, data), 1)
		}
		at := regexp.MustCompile(fmt.Sprintf(`\{[^{}]*"text":%q[^{}]*\}`, prompt))
		return at.ReplaceAllStringFunc(text, func(part string) string {
			return part + "," + strings.NewReplacer(`"text":"`+prompt+`"`, `"mime":"image/png","url":"data:image/png;base64,`+data+`"`, `"type":"text"`, `"type":"file"`, `"prt_`, `"prt_z`).Replace(part)
		})
	}},
}

// without drops the lines that have all of these.
func without(text string, marks ...string) string {
	var kept []string
	for l := range strings.Lines(text) {
		has := true
		for _, m := range marks {
			has = has && strings.Contains(l, m)
		}
		if !has {
			kept = append(kept, l)
		}
	}
	return strings.Join(kept, "")
}

// nth replaces the n-th occurrence.
func nth(text, old, with string, n int) string {
	at := 0
	for range n {
		at += strings.Index(text[at:], old) + len(old)
	}
	return text[:at] + strings.Replace(text[at:], old, with, 1)
}

func swap(text, old, with, old2, with2 string, n int) string {
	return nth(strings.Replace(text, old, with, 1), old2, with2, n)
}

func TestWhatAToolRefusesIsFoundAndMendedInACopy(t *testing.T) {
	for _, name := range []string{"claude-code", "codex", "opencode"} {
		tool, err := ToolNamed(name)
		if err != nil {
			t.Fatal(err)
		}
		base := soundSession(t, tool, t.TempDir())
		text, err := os.ReadFile(base)
		if err != nil {
			t.Fatal(err)
		}
		if r := repaired(t, tool, base); len(r.Found) > 0 || r.ForeignID != "" {
			t.Errorf("%s: a sound session has %v", name, r.Found)
		}
		tried := 0
		for what, b := range breakages {
			for n := range callRounds {
				broken := b.breaks(name, string(text), n)
				if broken == "" {
					continue
				}
				tried++
				t.Run(fmt.Sprintf("%s/%s/%d", name, what, n), func(t *testing.T) {
					file := filepath.Join(t.TempDir(), filepath.Base(base))
					if broken == string(text) {
						t.Fatal("the test breaks nothing")
					}
					if err := os.WriteFile(file, []byte(broken), 0o600); err != nil {
						t.Fatal(err)
					}
					checkRepair(t, tool, file, b.kind)
					if after, err := os.ReadFile(file); err != nil || string(after) != broken {
						t.Errorf("the original was changed: %v", err)
					}
				})
			}
		}
		t.Logf("%s: %d broken sessions", name, tried)
	}
}

func repaired(t *testing.T, tool convert.Tool, file string) *Repair {
	t.Helper()
	r, err := OpenRepair(tool.Name, t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.File(context.Background(), file); err != nil {
		t.Fatal(err)
	}
	return r
}

// checkRepair mends a file: the fault is named, the copy has none, and everything
// that was said is in it.
func checkRepair(t *testing.T, tool convert.Tool, file, kind string) {
	t.Helper()
	r := repaired(t, tool, file)
	found := false
	for _, f := range r.Found {
		found = found || f.Kind == kind
	}
	if !found || r.ForeignID == "" {
		t.Fatalf("found %v, written %q; want a %s", r.Found, r.ForeignID, kind)
	}
	copied := r.Folder.full(r.Folder.Created()[0])
	if again := repaired(t, tool, copied); len(again.Found) > 0 {
		t.Errorf("the copy has %v", again.Found)
	}
	p, done, err := openSource(copied, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	got := converttest.ReadWhole(t, tool, p)
	said := strings.Join(converttest.Texts(got.Sessions[0].Entries, tidemark.User), "\n") + strings.Join(converttest.Texts(got.Sessions[0].Entries, tidemark.Assistant), "\n")
	lost := 0
	for n := range callRounds {
		for _, text := range []string{fmt.Sprintf("prompt %d", n), fmt.Sprintf("answer %d", n)} {
			if !strings.Contains(said, text) {
				lost++
			}
		}
	}
	if kind == dialogue.FaultDamaged && lost > 1 || kind != dialogue.FaultDamaged && lost > 0 {
		t.Errorf("%d texts are not in the copy:\n%s", lost, said)
	}
}
