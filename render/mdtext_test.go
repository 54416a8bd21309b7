package render

import (
	"bufio"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
)

// asMarkdown makes the text of one message safe.
func asMarkdown(s string) string {
	var b strings.Builder
	w := bufio.NewWriter(&b)
	(&mdText{w: w}).text(s)
	w.Flush()
	return b.String()
}

func TestMarkdownOfMessagesStaysAsItIs(t *testing.T) {
	for _, s := range []string{
		"plain\n", "a *b* **c** `d` ~~e~~\n", "- a\n  - b\n\n1. c\n", "| a | b |\n| - | - |\n| `<c>` | d |\n",
		"Use `<div>` and ``a ` <b>``, or 1 < 2.\n", "[a](https://b.c \"d\") [e](f/g.md) [h](#i)\n",
		"```html\n<div>\n![x](y)\n[a]: b\n```\n", "~~~\n```\n<b>\n~~~\n", "````\n```\n````\n", "    indented\n", "> quoted\n> `<b>`\n",
		"a\n\n---\n\nb\n", "- [ ] `<a>`\n", "$5 and $6\n", "\\* \\_ \\\\\n", "#hashtag\n", "C:\\dir `x`\n",
	} {
		if got := asMarkdown(s); got != s {
			t.Errorf("%q\n got %q", s, got)
		}
	}
}

func TestMarkdownThatReachesFurtherIsHeldBack(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"a tag", "a <b>c</b> <!-- d", "a &lt;b>c&lt;/b> &lt;!-- d\n"},
		{"an escaped tag", "\\<b> \\\\<b>", "&lt;b> \\\\&lt;b>\n"},
		{"an address in brackets", "<https://a.b> <a@b.c>", "&lt;https://a.b> &lt;a@b.c>\n"},
		{"an image", "![a](b.png) \\![c](d)", "&#33;[a](b.png) &#33;[c](d)\n"},
		{"a definition", "[a]: https://b", "[a]&#58; https://b\n"},
		{"a link to a script", "[a](javascript:b) [c](JAVA&#115;cript:d)", "[a]&#40;javascript:b) [c]&#40;JAVA&#115;cript:d)\n"},
		{"a link over two lines", "[a](\njavascript:b)", "[a]&#40;\njavascript:b)\n"},
		{"an open fence", "```\n<b>", "```\n<b>\n```\n"},
		{"an open fence of many signs", "~~~~\n~~~\n```", "~~~~\n~~~\n```\n~~~~\n"},
		{"a fence in a list", "1. a\n\n   ```go\n   <b>\n     c\n   ```\n2. d", "1. a\n\n```go\n<b>\n  c\n```\n2. d\n"},
		{"a fence that is an item", "x\n- ```\n  a\n  ```", "x\n\n-\n```\na\n```\n"},
		{"a fence that would run", "```{r, echo=FALSE}\nx\n```", "```\nx\n```\n"},
		{"three signs that are no fence", "``` `<b>", "&#96;`` `&lt;b>\n"},
		{"a span over two lines", "a ` b\n` <b> ` c\n\n`<b>`", "a ` b\n` &lt;b> ` c\n\n`<b>`\n"},
		{"a span over two cells", "| ` | <b> | ` |", "| ` | &lt;b> | ` |\n"},
		{"a span in an address", "http://a.b/`<b>`", "http://a.b/`&lt;b>`\n"},
		{"a span in an address of mail", "1`@b.c><b>`", "1`@b.c>&lt;b>`\n"},
		{"a span in a definition", "[`a]: javascript:b '`'", "[`a]&#58; javascript:b '`'\n"},
		{"a span with an escape", "\\`<b>`", "\\`&lt;b>`\n"},
		{"headings", "# a\n###### b\n#\nc\n===\nd\n---\n", "### a\n###### b\n###\nc\n&#61;==\nd\n\n---\n"},
		{"controls", "a\x1b[2J\u202eb\x00", "a\\x1b[2J\\u202eb\\x00\n"},
		{"lines of Windows", "```\r\n<b>\r\n```\r\n<b>", "```\n<b>\n```\n&lt;b>\n"},
	} {
		if got := asMarkdown(c.in); got != c.want {
			t.Errorf("%s: %q\n got %q\nwant %q", c.name, c.in, got, c.want)
		}
	}
}

func TestAFenceIsLongerThanAnyWithin(t *testing.T) {
	md := document(t, Markdown, Document{}, answer(
		tidemark.Block{Type: tidemark.BlockToolResult, Text: "a ````` b\n```\n"},
		tidemark.Block{Type: tidemark.BlockToolUse, Name: "x\n## 9 · y", Input: []byte("{\"a\":\"```\"}")},
	))
	for _, want := range []string{"``````\na ````` b\n```\n``````\n", "````json\n{\n  \"a\": \"```\"\n}\n````\n", `x\\n\#\# 9 · y`} {
		if !strings.Contains(md, want) {
			t.Errorf("no %q in\n%s", want, md)
		}
	}
}

func TestJSONIsLaidOutWhateverItIs(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`{"a":1,"b":[],"c":[{"d":"e\"}"}],"f":{ }}`, "{\n  \"a\": 1,\n  \"b\": [],\n  \"c\": [\n    {\n      \"d\": \"e\\\"}\"\n    }\n  ],\n  \"f\": {}\n}"},
		{"", ""}, {"1", "1"}, {`"open`, `"open`}, {"]]", "]]"}, {"not json", "not json"},
	} {
		if got := string(appendJSON(nil, []byte(c.in))); got != c.want {
			t.Errorf("%s\n got %q\nwant %q", c.in, got, c.want)
		}
	}
}
