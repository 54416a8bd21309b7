package wire

import (
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark/api"
	"github.com/tidemark-sessions/tidemark/backend/memory"
)

// TestTheExamplesOfTheWirePageAreAnsweredAsTheyStand sends each example to a
// server, in the order of the page, and compares its answer.
func TestTheExamplesOfTheWirePageAreAnsweredAsTheyStand(t *testing.T) {
	const page = "../../docs/formats/wire.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	s := backendServed(t, memory.New())
	media := map[string]string{"json": api.MediaJSON, "ndjson": api.MediaLines}
	var answer, call string
	called := map[string]bool{}
	for _, m := range regexp.MustCompile("(?ms)^```(json|ndjson) ([a-zA-Z]+)\n(.*?)^```$").FindAllStringSubmatch(string(text), -1) {
		if m[2] == "answer" {
			if d := cmp.Diff(m[3], answer); d != "" {
				t.Errorf("%s (-page +server):\n%s", call, d)
			}
			continue
		}
		call = m[2]
		called[call] = true
		method, path := http.MethodPost, call
		if call == "GET" {
			method, path = call, ""
		}
		r, err := http.NewRequestWithContext(t.Context(), method, s.URL+api.BackendPath+path, strings.NewReader(m[3]))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", media[m[1]])
		r.Header.Set("Authorization", "Bearer "+backendToken)
		res, err := s.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		answer = string(body)
	}
	for name := range calls {
		if !called[name] && !strings.Contains(string(text), "`"+name+"` takes") {
			t.Errorf("the page says nothing of %s", name)
		}
	}
}
