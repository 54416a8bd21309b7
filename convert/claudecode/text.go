package claudecode

import (
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// The kinds of entries that are no messages.
const (
	kindBoundary = "compaction_cut" // where the client compacted
)

// clientTags begin texts in the user's role that the client wrote.
var clientTags = [...]struct{ tag, kind string }{
	{"<system-reminder>", convert.KindContext},
	{"<task-notification>", convert.KindContext},
	{"<teammate-message", convert.KindContext},
	{"<local-command-caveat>", convert.KindContext},
	{"<ide_", convert.KindContext},
	{"<local-command-stdout>", convert.KindCommandOutput},
	{"<local-command-stderr>", convert.KindCommandOutput},
	{"<bash-stdout>", convert.KindCommandOutput},
	{"<bash-stderr>", convert.KindCommandOutput},
}

// notTheUsers returns the kind of a record in the user's role that the user
// did not write, "" for the user's own.
func notTheUsers(r record, text string) string {
	origin := convert.Field(r.Origin, "kind")
	switch {
	case r.Summarizes:
		return convert.KindCompaction
	case r.Meta, origin != "" && origin != "human", r.Source == "system":
		return convert.KindContext
	case strings.HasPrefix(text, "[Request interrupted by user") && strings.HasSuffix(text, "]") && len(text) < 80:
		return convert.KindInterrupted
	}
	return ""
}

// typed returns the part of a text that the user typed: a command as it was
// entered, a prompt without what the client put around it. Kind is not "" when
// none of it is the user's.
func typed(text string) (own, kind string) {
	trimmed := strings.TrimSpace(text)
	if strings.HasPrefix(trimmed, "<command-name>") || strings.HasPrefix(trimmed, "<command-message>") {
		if command := strings.TrimSpace(inside(trimmed, "command-name")); command != "" {
			return strings.TrimSpace("/" + strings.TrimPrefix(command, "/") + " " + strings.TrimSpace(inside(trimmed, "command-args"))), ""
		}
	}
	if strings.HasPrefix(trimmed, "<bash-input>") {
		return "!" + inside(trimmed, "bash-input"), ""
	}
	if own = stripReminders(trimmed); own != trimmed {
		if own == "" {
			return text, convert.KindContext
		}
		return own, ""
	}
	for _, c := range clientTags {
		if strings.HasPrefix(trimmed, c.tag) {
			return text, c.kind
		}
	}
	return text, ""
}

// stripReminders cuts reminders off the ends of a text. One in the middle was
// quoted by the user.
func stripReminders(text string) string {
	const opening, closing = "<system-reminder>", "</system-reminder>"
	for strings.HasPrefix(text, opening) {
		_, rest, ok := strings.Cut(text, closing)
		if !ok {
			break
		}
		text = strings.TrimSpace(rest)
	}
	for strings.HasSuffix(text, closing) {
		at := strings.LastIndex(text, opening)
		if at < 0 {
			break
		}
		text = strings.TrimSpace(text[:at])
	}
	return text
}

// inside returns the text between the tags of that name.
func inside(text, tag string) string {
	_, rest, ok := strings.Cut(text, "<"+tag+">")
	if !ok {
		return ""
	}
	got, _, _ := strings.Cut(rest, "</"+tag+">")
	return got
}

// clean reduces the blocks of a prompt to what the user typed. The second result
// is the kind of an entry in which nothing is the user's.
func clean(blocks []tidemark.Block) ([]tidemark.Block, string) {
	var own []tidemark.Block
	last := ""
	for _, b := range blocks {
		if b.Type != tidemark.BlockText {
			own = append(own, b)
			continue
		}
		text, kind := typed(b.Text)
		if kind != "" {
			last = kind
			continue
		}
		b.Text = text
		own = append(own, b)
	}
	if len(own) == 0 && last != "" {
		return blocks, last
	}
	return own, ""
}

// kindOf makes a kind of entry from a word of the client.
func kindOf(word string) string {
	word = strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z' || r == '_':
			return r
		case 'A' <= r && r <= 'Z':
			return r + 'a' - 'A'
		case r == '-':
			return '_'
		}
		return -1
	}, word)
	if !convert.IsKind(word) {
		return convert.KindOther
	}
	return word
}
