package openai

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/model"
	"github.com/tidemark-sessions/tidemark/model/modeltest"
)

// serving answers by method and path, and 404 for everything else.
func serving(t *testing.T, o Options, pages map[string]string) (*Client, *modeltest.Server) {
	t.Helper()
	return client(t, o, func(w http.ResponseWriter, r *http.Request) {
		page, ok := pages[r.Method+" "+r.URL.RequestURI()]
		if !ok {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, page)
	})
}

func TestEachServerTellsTheWindowOfItsModelsInItsOwnWay(t *testing.T) {
	const list = `{"object":"list","data":[{"id":"m:latest"},{"id":"other"}]}`
	for name, c := range map[string]struct {
		kind  Kind
		pages map[string]string
		ask   string
		want  int
	}{
		"Ollama, set for the model": {Ollama, map[string]string{"POST /api/show": `{"parameters":"stop \"x\"\nnum_ctx    8192","model_info":{"llama.context_length":131072}}`}, "m", 8192},
		"Ollama, as it was loaded": {Ollama, map[string]string{"POST /api/show": `{"parameters":"","model_info":{"llama.context_length":131072}}`,
			"GET /api/ps": `{"models":[{"name":"other:latest","context_length":1},{"name":"m:latest","context_length":4096}]}`}, "m", 4096},
		"Ollama, not loaded yet":      {Ollama, map[string]string{"POST /api/show": `{"model_info":{"llama.context_length":131072}}`, "GET /api/ps": `{"models":[]}`}, "m", 0},
		"llama.cpp":                   {LlamaCpp, map[string]string{"GET /props?model=m": `{"default_generation_settings":{"n_ctx":32768},"total_slots":4}`}, "m", 32768},
		"llama.cpp of another shape":  {LlamaCpp, map[string]string{"GET /props?model=m": `{"default_generation_settings":[]}`}, "m", 0},
		"vLLM":                        {VLLM, map[string]string{"GET /v1/models": `{"data":[{"id":"a","max_model_len":1},{"id":"m","max_model_len":40960}]}`}, "m", 40960},
		"OpenRouter":                  {OpenRouter, map[string]string{"GET /v1/models": `{"data":[{"id":"v/m","context_length":200000}]}`}, "v/m", 200000},
		"OpenRouter, who takes less":  {OpenRouter, map[string]string{"GET /v1/models": `{"data":[{"id":"v/m","context_length":200000,"top_provider":{"context_length":64000}}]}`}, "v/m", 64000},
		"a model that nobody has":     {VLLM, map[string]string{"GET /v1/models": list}, "m", 0},
		"a server that is not asked":  {"", nil, "m", 0},
		"nonsense instead of numbers": {VLLM, map[string]string{"GET /v1/models": `{"data":[{"id":"m","max_model_len":"many"}]}`}, "m", 0},
	} {
		t.Run(name, func(t *testing.T) {
			client, _ := serving(t, Options{Name: "local", Kind: c.kind}, c.pages)
			if got, err := client.Describe(t.Context(), c.ask); err != nil || got.Window != c.want {
				t.Errorf("%+v, %v, want %d", got, err, c.want)
			}
		})
	}
	client, _ := serving(t, Options{Name: "local", Kind: LlamaCpp}, nil)
	if _, err := client.Describe(t.Context(), "m"); err == nil {
		t.Error("a server without the page gives no error")
	}
}

func TestEachServerTellsWhetherAModelTakesImages(t *testing.T) {
	for name, c := range map[string]struct {
		kind  Kind
		pages map[string]string
		want  bool // text only
	}{
		"Ollama, text":           {Ollama, map[string]string{"POST /api/show": `{"parameters":"num_ctx 8","capabilities":["completion","tools"]}`}, true},
		"Ollama, vision":         {Ollama, map[string]string{"POST /api/show": `{"parameters":"num_ctx 8","capabilities":["completion","vision"]}`}, false},
		"Ollama, an older one":   {Ollama, map[string]string{"POST /api/show": `{"parameters":"num_ctx 8"}`}, false},
		"Ollama, not loaded yet": {Ollama, map[string]string{"POST /api/show": `{"capabilities":["completion"]}`, "GET /api/ps": `{"models":[]}`}, true},
		"llama.cpp, text":        {LlamaCpp, map[string]string{"GET /props?model=m": `{"default_generation_settings":{"n_ctx":8},"modalities":{"vision":false}}`}, true},
		"llama.cpp, vision":      {LlamaCpp, map[string]string{"GET /props?model=m": `{"default_generation_settings":{"n_ctx":8},"modalities":{"vision":true}}`}, false},
		"llama.cpp, older":       {LlamaCpp, map[string]string{"GET /props?model=m": `{"default_generation_settings":{"n_ctx":8}}`}, false},
		"OpenRouter, text":       {OpenRouter, map[string]string{"GET /v1/models": `{"data":[{"id":"m","architecture":{"input_modalities":["text"]}}]}`}, true},
		"OpenRouter, vision":     {OpenRouter, map[string]string{"GET /v1/models": `{"data":[{"id":"m","architecture":{"input_modalities":["text","image"]}}]}`}, false},
		"vLLM does not tell":     {VLLM, map[string]string{"GET /v1/models": `{"data":[{"id":"m"}]}`}, false},
	} {
		t.Run(name, func(t *testing.T) {
			client, _ := serving(t, Options{Name: "local", Kind: c.kind}, c.pages)
			if got, err := client.Describe(t.Context(), "m"); err != nil || got.TextOnly != c.want {
				t.Errorf("%+v, %v, want text only: %t", got, err, c.want)
			}
		})
	}
}

func TestTheModelsOfAServerAreListed(t *testing.T) {
	client, server := serving(t, Options{Name: "local", Kind: Ollama, Key: "secret"}, map[string]string{
		"GET /v1/models": `{"data":[{"id":"a"},{"id":""},7,{"id":"b"}]}`, "POST /api/show": `{"parameters":"num_ctx 2048"}`})
	got, err := client.Models(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]model.Listed{{Name: "a", Window: 2048}, {Name: "b", Window: 2048}}, got); diff != "" {
		t.Error(diff)
	}
	if server.Bodies[1] != `{"model":"a"}` || server.Heads[1].Get("Authorization") != "Bearer secret" {
		t.Errorf("asked %q with %v", server.Bodies[1], server.Heads[1])
	}
}

func TestWhatIsNoListOfModelsIsAnError(t *testing.T) {
	for name, c := range map[string]struct {
		page  http.HandlerFunc
		cause error
		words string
	}{
		"half a list":      {modeltest.Page(200, `{"data":`), nil, "else than a list"},
		"another list":     {modeltest.Page(200, `[]`), nil, "else than a list"},
		"another object":   {modeltest.Page(200, `{"object":"list"}`), nil, "else than a list"},
		"a refusal":        {modeltest.Page(401, `{"error":{"message":"not with secret"}}`), tidemark.ErrDenied, "not with [key]"},
		"a list of no end": {modeltest.Then(modeltest.Write(`{"data":[`), modeltest.Forever(strings.Repeat("7,", 32<<10))), model.ErrEndless, ""},
	} {
		t.Run(name, func(t *testing.T) {
			client, _ := client(t, Options{Name: "local", Key: "secret"}, c.page)
			_, err := client.Models(t.Context())
			modeltest.WantError(t, err, c.cause, c.words)
		})
	}
}

func FuzzWhatAServerTellsOfItsModels(f *testing.F) {
	f.Add([]byte(`{"data":[{"id":"m","max_model_len":1e9,"context_length":-1,"top_provider":{"context_length":8}}],"parameters":"num_ctx 99999999999999999999"}`))
	f.Add([]byte(`{"models":[{"name":"m","context_length":4096}],"default_generation_settings":{"n_ctx":1.5}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		windows := []int{shown(raw, "m").Window, loadedWindow(raw, "m"), props(raw, "m").Window}
		all, _ := model.ReadListing("fuzz", raw)
		for _, m := range all {
			if m.Name == "" {
				t.Fatal("a model without a name")
			}
			windows = append(windows, m.Window)
		}
		for _, n := range windows {
			if n < 0 || n > 1<<30 {
				t.Fatalf("a window of %d tokens", n)
			}
		}
	})
}
