package fleet

import (
	"strings"

	"github.com/tidemark-sessions/tidemark"
)

// MaxName leaves room for what is made of two names in one id.
const MaxName = 48

// MaxAgentName is for names with dots. In capitals, with the hash of a
// schedule behind it, one is still the name of a file.
const MaxAgentName = 64

// IsAgentName reports whether a name can be an agent's. What an id begins with
// up to its first dot may be the session that it belongs to, so that is no
// session's id.
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

// IsName reports whether a name can be a fleet's, a schedule's, or a part of an
// agent's: letters, digits, - and _, beginning with a letter or a digit.
func IsName(s string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	return s != "" && len(s) <= MaxName && strings.Trim(s, letters+"_-") == "" && strings.IndexByte(letters, s[0]) >= 0
}
