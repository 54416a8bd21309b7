package anthropic

import (
	"io"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark/model"
	"github.com/tidemark-sessions/tidemark/model/modeltest"
)

func TestModelsAreListed(t *testing.T) {
	server, h := modeltest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.URL.RequestURI() != "/v1/models?limit=1000" {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, `{"data":[{"type":"model","id":"claude-a","max_input_tokens":1000000},{"type":"model","id":"claude-b"}],"has_more":false}`)
	})
	got, err := New(Options{BaseURL: "http://model.test", Key: "k", HTTP: h}).Models(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]model.Listed{{Name: "claude-a", Window: 1_000_000}, {Name: "claude-b"}}, got); diff != "" {
		t.Error(diff)
	}
	if server.Heads[0].Get("X-Api-Key") != "k" || server.Heads[0].Get("Anthropic-Version") == "" {
		t.Errorf("asked with %v", server.Heads[0])
	}
}
