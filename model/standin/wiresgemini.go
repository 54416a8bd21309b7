package standin

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
)

// geminiWire is that of Google's Gemini API.
type geminiWire struct{}

func (geminiWire) name() string { return "gemini" }

// geminiMethod is what follows the colon in the path of a request to that API, ""
// for a request to another one.
func geminiMethod(path string) string {
	if _, after, found := strings.Cut(path, "/models/"); found {
		if _, method, found := strings.Cut(after, ":"); found {
			return method
		}
	}
	return ""
}

func hearGemini(at *url.URL, b []byte) (h heard, err error) {
	var r struct {
		Contents []struct {
			Role  string
			Parts json.RawMessage
		}
		Tools []struct {
			FunctionDeclarations []struct {
				Name                 string
				Parameters           schema
				ParametersJSONSchema schema `json:"parametersJsonSchema"`
			} `json:"functionDeclarations"`
		}
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return h, err
	}
	_, model, _ := strings.Cut(at.Path, "/models/")
	model, method, _ := strings.Cut(model, ":")
	h = heard{wire: geminiWire{}, model: model, stream: method == "streamGenerateContent"}
	for _, c := range r.Contents {
		m := message{Role: c.Role, Content: c.Parts}
		if c.Role == "model" {
			m.Role = "assistant"
		}
		h.hear(m)
	}
	for _, t := range r.Tools {
		for _, f := range t.FunctionDeclarations {
			s := f.ParametersJSONSchema
			if s.Properties == nil {
				s = f.Parameters
			}
			h.tools = append(h.tools, offered{f.Name, "", s})
		}
	}
	return h, nil
}

func (geminiWire) part(h heard, a answer, n int, parts []object, last bool) object {
	one := object{"index": 0, "content": object{"role": "model", "parts": parts}}
	o := object{"responseId": fmt.Sprintf("response-%d", n), "modelVersion": h.model, "candidates": []object{one}}
	if last {
		one["finishReason"] = "STOP"
		if a.stop == "max_tokens" {
			one["finishReason"] = "MAX_TOKENS"
		}
		o["usageMetadata"] = object{"promptTokenCount": a.usage.in, "candidatesTokenCount": a.usage.out, "totalTokenCount": a.usage.in + a.usage.out,
			"cachedContentTokenCount": a.usage.cacheRead}
	}
	return o
}

func (geminiWire) parts(a answer) (all []object) {
	if a.thoughts != "" {
		all = append(all, object{"text": a.thoughts, "thought": true})
	}
	if a.text != "" {
		all = append(all, object{"text": a.text})
	}
	for _, c := range a.calls {
		all = append(all, object{"functionCall": object{"name": c.name, "args": c.input}})
	}
	return all
}

func (w geminiWire) whole(h heard, a answer, n int) any { return w.part(h, a, n, w.parts(a), true) }

func (w geminiWire) events(h heard, a answer, n int) (all []event) {
	parts := w.parts(a)
	for i, p := range parts {
		all = append(all, event{"", w.part(h, a, n, []object{p}, i == len(parts)-1)})
	}
	return all
}

func (geminiWire) failure(status int) any {
	kind, message := failures(status)
	return object{"error": object{"code": status, "message": message, "status": strings.ToUpper(kind)}}
}

func (w geminiWire) late(status int) event { return event{"", w.failure(status)} }
