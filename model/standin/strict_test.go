package standin

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestAStrictModelRefusesWhatProvidersRefuse(t *testing.T) {
	const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
	messages := `{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + pixel + `"}}]},
		{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"` + Signature + `"},{"type":"tool_use","id":"c1","name":"bash","input":{}}]},
		{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"ok"}]},{"role":"assistant","content":"b"},{"role":"user","content":"c"}]}`
	chat := `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + pixel + `"}}]},
		{"role":"assistant","tool_calls":[{"id":"c1","function":{"name":"bash","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c1","content":"ok"},{"role":"user","content":"c"}]}`
	responses := `{"input":[{"type":"message","role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,` + pixel + `"}]},{"type":"reasoning","encrypted_content":"` + Sealed + `"},
		{"type":"function_call","call_id":"c1","name":"bash","arguments":"{}"},{"type":"function_call_output","call_id":"c1","output":"ok"}]}`
	for path, c := range map[string]struct {
		sound  string
		broken [][2]string // what is replaced, and with what
	}{
		"/v1/messages": {messages, [][2]string{{`"tool_use_id":"c1"`, `"tool_use_id":"c2"`}, {`"id":"c1"`, `"id":"c 1"`}, {`"name":"bash"`, `"name":""`}, {`"input":{}`, `"input":"ls"`},
			{Signature, "b3RoZXI="}, {"image/png", "image/gif"}, {pixel, "bm8="}, {`"text":"a"`, `"text":""`}, {`"content":"b"`, `"content":[]`}, {`[{"role":"user"`, `[{"role":"assistant"`}}},
		"/v1/chat/completions": {chat, [][2]string{{`"tool_call_id":"c1"`, `"tool_call_id":"c2"`}, {`"name":"bash"`, `"name":"a b"`}, {pixel, "bm8="}, {`"id":"c1"`, fmt.Sprintf(`"id":"%065d"`, 1)}}},
		"/v1/responses":        {responses, [][2]string{{`"c1","output"`, `"c2","output"`}, {Sealed, "b3RoZXI="}, {pixel, "bm8="}, {`"arguments":"{}"`, `"arguments":"ls"`}}},
	} {
		status := func(body string) int {
			w := httptest.NewRecorder()
			Strict().ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, strings.NewReader(body)))
			return w.Code
		}
		if got := status(c.sound); got != http.StatusOK {
			t.Errorf("%s: a sound request is answered with %d", path, got)
		}
		for _, b := range c.broken {
			if body := strings.Replace(c.sound, b[0], b[1], 1); body == c.sound || status(body) != http.StatusBadRequest {
				t.Errorf("%s: with %s it is not refused", path, b[1])
			}
		}
	}
}
