package fleet

import (
	"strings"

	"github.com/tidemark-sessions/tidemark"
)

// MaxName bounds a name, so that an id made of two names is not too long.
const MaxName = 48

// MaxAgentName bounds the name of an agent, which may contain dots. Even in
// capitals, and with the hash of a schedule appended, it is a valid file name.
const MaxAgentName = 64

// IsAgentName reports whether s is a valid name of an agent. The part of an id
// before its first dot may name the session that the id belongs to, so an agent's
// name must not begin with the id of a session.
func IsAgentName(s string) bool {
	first, _, _ := strings.Cut(s, ".")
	if _, err := tidemark.ParseSessionID(first); err == nil || len(s) > MaxAgentName {
		return false
	}
	for part := range strings.SplitSeq(s, ".") {
		if !IsName(part) {
			return false
		}
	}
	return true
}

// IsName reports whether s is a valid name of a fleet or a schedule, or a valid
// part of an agent's: letters, digits, - and _, beginning with a letter or a digit.
func IsName(s string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	return s != "" && len(s) <= MaxName && strings.Trim(s, letters+"_-") == "" && strings.IndexByte(letters, s[0]) >= 0
}
