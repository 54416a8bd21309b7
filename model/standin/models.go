package standin

import (
	"io"
	"net/http"
	"strings"
)

// Model is the model that the stand-in says it has. It answers by any name.
const Model = "fake-1"

// The windows that the stand-in tells for Model, each in the way of one kind of
// server.
const (
	ListedWindow = 40_000 // in the list of models, as vLLM, OpenRouter and Anthropic do
	OllamaWindow = 24_000
	SlotWindow   = 12_000 // of llama.cpp
)

// tellsOfModels answers what servers are asked about their models.
func tellsOfModels(w http.ResponseWriter, r *http.Request) bool {
	asked := r.Method + " " + r.URL.Path
	switch {
	case strings.HasSuffix(asked, "/models"):
		_, _ = w.Write(text(object{"object": "list", "data": []object{{"id": Model, "object": "model", "max_model_len": ListedWindow, "context_length": ListedWindow, "max_input_tokens": ListedWindow}}}))
	case asked == "POST /api/show":
		_, _ = io.WriteString(w, `{"parameters":"num_ctx 24000","model_info":{"llama.context_length":131072}}`)
	case asked == "GET /props":
		_, _ = io.WriteString(w, `{"default_generation_settings":{"n_ctx":12000},"total_slots":1}`)
	default:
		return false
	}
	return true
}
