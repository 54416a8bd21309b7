package web

import (
	"html/template"
	"strconv"
	"strings"
)

// icons are the drawings of the pages, by name: lines on a field of 16 by 16.
var icons = map[string]string{
	"shell":  "M2.5 3.5h11v9h-11zM5 6.5l2 1.75L5 10M8.5 10.5H11",
	"read":   "M4 2.5h5.5L12 5v8.5H4zM9.25 2.5V5.5H12M6 8h4M6 10.5h4",
	"edit":   "M3 13l.75-3L11 2.75 13.25 5 6 12.25zM9.5 4.25 11.75 6.5",
	"search": "M7 2.75a4.25 4.25 0 1 0 0 8.5 4.25 4.25 0 0 0 0-8.5M10.25 10.25 13.5 13.5",
	"web":    "M8 2.25a5.75 5.75 0 1 0 0 11.5 5.75 5.75 0 0 0 0-11.5M2.25 8h11.5M8 2.25c-3.5 3.5-3.5 8 0 11.5M8 2.25c3.5 3.5 3.5 8 0 11.5",
	"agent":  "M3.5 6h9v6.5h-9zM8 6V3M8 2.25v.01M6 8.75v1M10 8.75v1",
	"plan":   "M2.75 4.5 4 5.75 6 3.5M8 4.5h5.5M2.75 11 4 12.25 6 10M8 11h5.5",
	"other":  "M8 2.75 12.75 5.5v5L8 13.25 3.25 10.5v-5zM3.25 5.5 8 8.25l4.75-2.75M8 8.25v5",
	"back":   "M9.75 3.5 5.25 8l4.5 4.5",
	"copy":   "M5.5 5.5h7v8h-7zM3.5 10.5v-8h7",
	"rail":   "M2.5 3h11v10h-11zM9.5 3v10",
	"more":   "M3.5 8h.01M8 8h.01M12.5 8h.01",
	"image":  "M2.5 3.5h11v9h-11zM2.5 11 6 7.5l3 3 2-2 2.5 2.5M10.5 6h.01",
	"branch": "M4.5 3v10M4.5 9.5c5 0 7-1.5 7-4.5M10 6.5 11.5 5 13 6.5",
}

// ownMark returns our sign. Drawn in the page, it costs a browser less than an image,
// for which it opens a document.
func ownMark() template.HTML {
	a, _ := AssetNamed("mark.svg")
	return template.HTML(strings.Replace(string(a.Content), "<svg ", `<svg width="24" height="24" aria-hidden="true" focusable="false" `, 1))
}

// icon returns a drawing. It says nothing that the text beside it does not.
func icon(name string) template.HTML {
	d, ok := icons[name]
	if !ok {
		d = icons["other"]
	}
	return template.HTML(`<svg class="icon" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true" focusable="false"><path d="` + d + `"/></svg>`)
}

// clients are the marks of the tools that sessions come from, drawn like icons,
// each with one of seven colours.
var clients = map[string]struct {
	color int
	d     string
}{
	"claude-code":   {1, "M8 2.5v11M2.5 8h11M4 4l8 8M12 4l-8 8"},
	"claude-ai":     {1, "M3 3h10v7.5H7.5L4.5 13v-2.5H3zM8 4.75v4M6 6.75h4"},
	"codex":         {2, "M8 2.25 13 5.1v5.8L8 13.75 3 10.9V5.1zM5.5 6.5 8 8l2.5-1.5M8 8v3"},
	"chatgpt":       {2, "M3 3h10v7.5H7.5L4.5 13v-2.5H3zM5.5 6.75h.01M8 6.75h.01M10.5 6.75h.01"},
	"gemini-cli":    {0, "M8 2c.6 3.9 2.1 5.4 6 6-3.9.6-5.4 2.1-6 6-.6-3.9-2.1-5.4-6-6 3.9-.6 5.4-2.1 6-6z"},
	"qwen-code":     {3, "M8 2.5 13.5 12.5h-11zM8 6.5l1.75 3.5h-3.5z"},
	"opencode":      {6, "M6 3H3v10h3M10 3h3v10h-3"},
	"kilo-cli":      {4, "M4 2.75v10.5M11.5 2.75 5.5 8l6 5.25"},
	"copilot-cli":   {5, "M2.5 6.5h4.5v4H2.5zM9 6.5h4.5v4H9zM7 8.25h2M4 6.5C4 4 12 4 12 6.5"},
	"copilot-chat":  {5, "M2.5 7h4.5v3.5H2.5zM9 7h4.5v3.5H9zM7 8.5h2M3 4.5h10"},
	"pi":            {3, "M3 5h10M6 5v7.5M10.5 5v6c0 1 .5 1.5 1.5 1.5"},
	"continue":      {0, "M4 3v10l4.5-5zM9.5 3v10L14 8z"},
	"cline":         {4, "M4 4.5h8v7H4zM8 4.5v-2M6.5 7.5v1M9.5 7.5v1M2.5 7v2M13.5 7v2"},
	"kimi-code":     {5, "M10.5 2.75A5.5 5.5 0 1 0 13.25 10 4.5 4.5 0 0 1 10.5 2.75z"},
	"factory-droid": {1, "M8 5.25a2.75 2.75 0 1 0 0 5.5 2.75 2.75 0 0 0 0-5.5M8 2v2M8 12v2M2 8h2M12 8h2M3.75 3.75l1.4 1.4M10.85 10.85l1.4 1.4M12.25 3.75l-1.4 1.4M5.15 10.85l-1.4 1.4"},
	"goose":         {6, "M3 12.5c6 0 8-2 8-6V4.5l2.5-1M11 6.5C9 8 5 7.5 3 12.5"},
	"cursor":        {6, "M3.5 2.75 13 8l-4.25 1L7 13.25z"},
}

// client is the mark of a tool; waves, if it is this program or unknown.
func client(name string) template.HTML {
	c, ok := clients[name]
	if !ok {
		c.d = "M2 6.5c2-2 4-2 6 0s4 2 6 0M2 10.5c2-2 4-2 6 0s4 2 6 0"
	}
	return template.HTML(`<svg class="icon client k` + strconv.Itoa(c.color) + `" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true" focusable="false"><path d="` + c.d + `"/></svg>`)
}
