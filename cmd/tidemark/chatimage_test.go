//go:build !windows

package main

import (
	"bytes"
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark/model/standin"
)

// TestADraggedImageIsSentAndKept drags a picture into the terminal, which pastes
// its path, and looks at what both wires send and at what the session keeps.
func TestADraggedImageIsSentAndKept(t *testing.T) {
	t.Parallel()
	const picture = "\x89PNG\r\n\x1a\nwaves"
	code := base64.StdEncoding.EncodeToString([]byte(picture))
	for provider, want := range map[string]string{
		"anthropic":        `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + code + `"}}`,
		"openai":           `{"type":"image_url","image_url":{"url":"data:image/png;base64,` + code + `"}}`,
		"openai-responses": `{"type":"input_image","image_url":"data:image/png;base64,` + code + `"}`,
	} {
		t.Run(provider, func(t *testing.T) {
			t.Parallel()
			sent := make(chan string, 10)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				sent <- string(body)
				r.Body = io.NopCloser(bytes.NewReader(body))
				standin.Handler().ServeHTTP(w, r)
			}))
			t.Cleanup(server.Close)
			file := filepath.Join(t.TempDir(), "high tide.png")
			if err := os.WriteFile(file, []byte(picture), 0o600); err != nil {
				t.Fatal(err)
			}
			c := openChat(t, projectFor(t), 80, "--provider", provider, "--base-url", server.URL+"/v1", "--model", "m", "--no-encrypt", "--sandbox", "off")
			c.types("\x1b[200~" + strings.ReplaceAll(file, " ", `\ `) + "\x1b[201~[[fake say A wave.]]")
			c.shows("you> [image: high tide.png, 13 bytes] [[fake say A wave.]]")
			c.types("\r")
			if got := <-sent; !strings.Contains(got, want) {
				t.Errorf("what was sent has no\n%s\nbut\n%.2000s", want, got)
			}
			c.types("/exit\r")
			c.ends()
			kept, err := tidemarkIn(c.dir, "cat", "last").Output()
			if err != nil || !strings.Contains(string(kept), `"type":"image","name":"high tide.png","media_type":"image/png","data":"`+code+`"`) {
				t.Errorf("kept: %v\n%s", err, kept)
			}
		})
	}
}
