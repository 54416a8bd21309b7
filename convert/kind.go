package convert

import (
	"strings"

	"github.com/tidemark-sessions/tidemark"
)

// The kinds of entries that converters make besides messages, so that all of
// them use the same words.
const (
	KindContext       = tidemark.KindContext     // what the tool added to a prompt
	KindCompaction    = tidemark.KindCompaction  // a summary that replaces what was before
	KindInterrupted   = tidemark.KindInterrupted // a turn that ended early
	KindError         = tidemark.KindError       // an error on the way to the model
	KindNotice        = "notice"                 // a message of the tool to the person
	KindCommand       = tidemark.KindCommand     // a command that a person gave to the tool or to the shell
	KindCommandOutput = "command_output"         // the output of the command
	KindEvent         = "event"                  // something that happened in the tool
	KindOther         = "other"                  // anything whose name cannot be a kind
)

// IsKind reports whether a tool's word can be the kind of an entry: short, in
// lower case, and without another meaning here.
func IsKind(word string) bool {
	switch {
	case word == "", len(word) > 32, strings.Trim(word, "abcdefghijklmnopqrstuvwxyz_") != "", tidemark.Role(word).Valid(),
		word == tidemark.KindMessage, word == tidemark.KindBranch, word == tidemark.KindGap:
		return false
	}
	return true
}

// Begins reports whether a text begins, white space aside, with one of the marks
// that a tool puts before its own text in the user's role.
func Begins(text string, marks ...string) bool {
	text = strings.TrimSpace(text)
	for _, mark := range marks {
		if strings.HasPrefix(text, mark) {
			return true
		}
	}
	return false
}
