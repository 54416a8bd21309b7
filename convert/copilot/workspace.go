package copilot

import (
	"encoding/json"
	"io"
	"io/fs"
	"strings"
)

// workspace reads the plain fields of a workspace.yaml. The tool writes a flat
// list of names and scalars; anything else is left out.
func workspace(fsys fs.FS, file string) map[string]string {
	f, err := fsys.Open(file)
	if err != nil {
		return nil
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 1<<20))
	if err != nil {
		return nil
	}
	fields := map[string]string{}
	block := "" // the field whose lines follow, indented
	for line := range strings.SplitSeq(string(b), "\n") {
		line = strings.TrimSuffix(line, "\r")
		if indented := strings.TrimLeft(line, " "); block != "" && indented != line {
			fields[block] = strings.TrimSpace(fields[block] + " " + indented)
			continue
		}
		key, value, ok := strings.Cut(line, ":")
		if block = ""; !ok || key == "" || strings.ContainsAny(key, " #\"'-") {
			continue
		}
		value = strings.TrimSpace(value)
		switch {
		case strings.HasPrefix(value, "|"), strings.HasPrefix(value, ">"):
			block = key
		default:
			fields[key] = scalar(value)
			block = key // a long plain text continues on the next line
		}
	}
	return fields
}

func scalar(s string) string {
	switch {
	case s == "null" || s == "~":
		return ""
	case strings.HasPrefix(s, `"`):
		var text string
		if json.Unmarshal([]byte(s), &text) == nil {
			return text
		}
	case len(s) > 1 && s[0] == '\'' && s[len(s)-1] == '\'':
		return strings.ReplaceAll(s[1:len(s)-1], "''", "'")
	}
	return s
}
