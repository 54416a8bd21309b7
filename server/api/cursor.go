package api

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/server/request"
)

// Page is a part of a list.
type Page[T any] struct {
	Items []T    `json:"items" nullable:"false"`
	Next  string `json:"next,omitempty" doc:"the cursor of the next page; absent on the last"`
}

// PageInput is what every list takes. It is exported because huma ignores
// embedded unexported structs.
type PageInput struct {
	Limit  int    `query:"limit" minimum:"1" default:"50" doc:"how many, at most"`
	Cursor string `query:"cursor" maxLength:"2048" doc:"next of the page before"`
}

// limit is the number of elements on a page.
func (s *Server) limit(n int) int { return min(max(n, 1), s.o.Limits.Page) }

// newCursorKey is for servers that share none with others. A cursor from
// before a restart is refused like a forged one, and the client starts
// over.
func newCursorKey() []byte {
	key := make([]byte, 32)
	rand.Read(key)
	return key
}

// Cursor encodes where a list continues. It contains nothing that the caller
// did not see, and nobody else can make one.
func (s *Server) Cursor(caller request.Caller, v any) string {
	body, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(append(s.cursorSum(caller, body), body...))
}

// ParseCursor decodes what Cursor encoded for the same caller.
func (s *Server) ParseCursor(caller request.Caller, text string, into any) error {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(b) < 16 || !hmac.Equal(b[:16], s.cursorSum(caller, b[16:])) {
		return tidemark.Invalidf("cursor: not one that this server gave; begin again without it")
	}
	if err := json.Unmarshal(b[16:], into); err != nil {
		return tidemark.Invalidf("cursor: of another list; begin again without it")
	}
	return nil
}

func (s *Server) cursorSum(caller request.Caller, body []byte) []byte {
	m := hmac.New(sha256.New, s.o.CursorKey)
	m.Write([]byte(caller.Tenant + "/" + caller.User + "/"))
	m.Write(body)
	return m.Sum(nil)[:16]
}
