package convert

import (
	"strings"

	"github.com/tidemark-sessions/tidemark"
)

// The kinds of entries that converters make beside messages, so that all of
// them use the same words.
const (
	KindContext       = tidemark.KindContext // what the tool added to a prompt
	KindCompaction    = "compaction"         // a summary that stands for what was before
	KindInterrupted   = "interrupted"        // a turn ended before its time
	KindError         = "error"              // what went wrong on the way to the model
	KindNotice        = "notice"             // what the tool told the person
	KindCommand       = "command"            // a command of the tool, or of the shell, that a person gave
	KindCommandOutput = "command_output"     // what the command said
	KindEvent         = "event"              // something that happened in the tool
	KindOther         = "other"              // what has no word that can be a kind
)

// IsKind reports whether a word of a tool can be the kind of an entry: short,
// of small letters, and none that means something else here.
func IsKind(word string) bool {
	switch {
	case word == "", len(word) > 32, strings.Trim(word, "abcdefghijklmnopqrstuvwxyz_") != "", tidemark.Role(word).Valid(),
		word == tidemark.KindMessage, word == tidemark.KindBranch, word == tidemark.KindGap:
		return false
	}
	return true
}

// Begins reports whether a text begins, but for blanks, with one of the marks
// that a tool puts before what it says itself in the user's role.
func Begins(text string, marks ...string) bool {
	text = strings.TrimSpace(text)
	for _, mark := range marks {
		if strings.HasPrefix(text, mark) {
			return true
		}
	}
	return false
}
