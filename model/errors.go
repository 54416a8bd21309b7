package model

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/tidemark-sessions/tidemark"
)

const (
	// maxWords bounds what is shown of a provider's message.
	maxWords = 600
	// MaxRefusalBytes bounds what is read of an answer that is an error: a proxy
	// may send any page.
	MaxRefusalBytes = 64 << 10
)

// Refused returns the error of an HTTP response other than 200. One that a retry
// may cure is marked by Again.
func Refused(provider string, status int, header http.Header, body []byte) error {
	err := Judge(provider, status, Words(body))
	switch header.Get("X-Should-Retry") {
	case "true":
		return Again(err, retryAfter(header))
	case "false":
		return err
	}
	if bytes.Contains(body, []byte("insufficient_quota")) {
		return err // it comes as a 429, and lasts until somebody pays
	}
	if status == http.StatusRequestTimeout || status == http.StatusConflict || status == http.StatusTooManyRequests || status >= 500 {
		return Again(err, retryAfter(header))
	}
	return err
}

// Judge returns the Error for a status and a provider's message, with the cause
// that callers can test for: ErrTooLong, or a sentinel of package tidemark.
func Judge(provider string, status int, words string) *Error {
	if words == "" {
		words = strings.ToLower(http.StatusText(status))
	}
	err := &Error{Provider: provider, Status: status, Message: Clean(words)}
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		err.Cause = tidemark.ErrDenied
	case status == http.StatusRequestEntityTooLarge, status < 500 && status != http.StatusTooManyRequests && saysTooLong(words):
		err.Cause = ErrTooLong
	case status == http.StatusNotFound:
		err.Cause = tidemark.ErrNotFound
	}
	return err
}

// saysTooLong reports whether an error is about the length of the conversation.
// There is no common code for it, so the text decides.
func saysTooLong(words string) bool {
	words = strings.ToLower(words)
	for _, sign := range []string{"prompt is too long", "input is too long", "context_length_exceeded", "maximum context length",
		"context length", "context window", "context size", "exceed context limit", "too many tokens", "request_too_large"} {
		if strings.Contains(words, sign) {
			return true
		}
	}
	return false
}

// Lost returns the error of a connection that could not be made or broke. It is
// marked by Again, unless the server could not prove its identity.
func Lost(provider string, err error) error {
	var about *url.Error
	if errors.As(err, &about) {
		err = about.Err // the address is the user's own, and may hold a secret
	}
	what := "the connection was lost"
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		what += ": " + err.Error()
	}
	lost := &Error{Provider: provider, Message: Clean(what), Cause: err}
	var forged *tls.CertificateVerificationError
	if errors.As(err, &forged) || errors.Is(err, http.ErrSchemeMismatch) {
		return lost
	}
	return Again(lost, 0)
}

// Nonsense returns the error of a response that is not an answer. It is not
// retried: the server is not a model.
func Nonsense(provider, what string, seen []byte) error {
	if words := Words(seen); words != "" {
		what += ": " + words
	}
	return &Error{Provider: provider, Status: http.StatusOK, Message: Clean(what)}
}

// Words returns the message in an error body, whatever its shape.
func Words(body []byte) string {
	var shapes struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
		Detail  json.RawMessage `json:"detail"`
	}
	if json.Unmarshal(body, &shapes) != nil {
		return Clean(withoutTags(string(body)))
	}
	for _, raw := range []json.RawMessage{shapes.Error, shapes.Detail} {
		var inner struct{ Message, Code string }
		var text string
		if json.Unmarshal(raw, &text) == nil && text != "" {
			return Clean(text)
		}
		// Unmarshal reports a numeric code as an error, but decodes the rest.
		if _ = json.Unmarshal(raw, &inner); inner.Message != "" {
			if saysTooLong(inner.Code) && !saysTooLong(inner.Message) {
				return Clean(inner.Message + " (" + inner.Code + ")")
			}
			return Clean(inner.Message)
		}
	}
	if shapes.Message != "" {
		return Clean(shapes.Message)
	}
	return Clean(string(body))
}

// withoutTags returns the text of an HTML page, and other text as it is.
func withoutTags(s string) string {
	s = s[:min(len(s), MaxRefusalBytes)]
	if !strings.HasPrefix(strings.TrimSpace(s), "<") {
		return s
	}
	var text strings.Builder
	for len(s) > 0 {
		before, after, _ := strings.Cut(s, "<")
		text.WriteString(before + " ")
		_, s, _ = strings.Cut(after, ">")
	}
	return text.String()
}

// Clean makes foreign text fit for one line: no control characters, no invalid
// UTF-8, no more than a few hundred bytes.
func Clean(s string) string {
	var out strings.Builder
	blank := true
	for _, r := range s {
		if out.Len() > maxWords {
			return out.String() + "…"
		}
		switch {
		case unicode.IsSpace(r):
			if !blank {
				out.WriteByte(' ')
			}
			blank = true
			continue
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r):
			continue
		}
		out.WriteRune(r)
		blank = false
	}
	return strings.TrimSpace(out.String())
}

// retryAfter returns how long the server asks to wait, 0 when it does not say.
func retryAfter(h http.Header) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil {
		return asDuration(ms, time.Millisecond)
	}
	after := h.Get("Retry-After")
	if s, err := strconv.ParseFloat(after, 64); err == nil {
		return asDuration(s, time.Second)
	}
	if at, err := http.ParseTime(after); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}

// asDuration refuses what overflows or is no number.
func asDuration(n float64, unit time.Duration) time.Duration {
	const day = 24 * time.Hour
	if !(n > 0) {
		return 0
	}
	if n > float64(day/unit) {
		return day
	}
	return time.Duration(n * float64(unit))
}
