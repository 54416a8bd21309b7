package transfer

import (
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/store"
)

// The server stands in some folder of its machine. That is not the project of
// a session that somebody sends to it.
func TestUploadDoesNotGetTheFolderOfTheServer(t *testing.T) {
	for name, c := range map[string]struct{ session, want string }{
		"none said": {`{"id":"9338e4f5-ff75-4df7-98e4-7404df13e398","created_at":"2026-11-15T22:17:32Z"}`, ""},
		"its own":   {`{"id":"9338e4f5-ff75-4df7-98e4-7404df13e398","project":"/home/ada/tides","created_at":"2026-11-15T22:17:32Z"}`, "/home/ada/tides"},
	} {
		s := store.New(memory.New(), nil)
		body := `{"format":"tidemark-session","version":1,"session":` + c.session + `,"entries":[
{"seq":1,"depth":1,"nodes":1,"at":"2026-11-15T22:17:32Z","kind":"message","role":"user","blocks":[{"type":"text","text":"hi"}]}
]}`
		in, err := Upload(t.Context(), s, "x.json", strings.NewReader(body), store.Self("test"), nil)
		if err != nil || len(in) != 1 {
			t.Fatalf("%s: Upload = %v, %v", name, in, err)
		}
		got, err := s.Session(t.Context(), in[0].Session)
		if err != nil || got.Project != c.want {
			t.Errorf("%s: project %q, %v; want %q", name, got.Project, err, c.want)
		}
	}
}
