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
	// maxWords bounds what is shown of a provider's own words.
	maxWords = 600
	// MaxRefusalBytes bounds what is read of an answer that is an error: a proxy
	// may send any page.
	MaxRefusalBytes = 64 << 10
)

// Refused returns the error that an HTTP answer other than 200 means. One that
// another attempt may cure is marked by Again.
func Refused(provider string, status int, header http.Header, body []byte) error {
	err := Judge(provider, status, Words(body))
	switch header.Get("X-Should-Retry") {
	case "true":
		return Again(err, retryAfter(header))
	case "false":
		return err
	}
	if bytes.Contains(body, []byte("insufficient_quota")) {
		return err // it comes as a 429, and stays until somebody pays
	}
	if status == http.StatusRequestTimeout || status == http.StatusConflict || status == http.StatusTooManyRequests || status >= 500 {
		return Again(err, retryAfter(header))
	}
	return err
}

// Judge returns the Error for a status and a provider's words, with the cause
// that callers can ask for: ErrTooLong, or a sentinel of the house.
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

// saysTooLong reports whether an error is about the length of the
// conversation. There is no common code for it, so the words decide.
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

// Lost returns the error for a connection that could not be made or broke. It
// is marked by Again, unless the other side is not who it has to be.
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

// Nonsense returns the error for an answer that is none. Asking again would
// give the same: what answers is not a model.
func Nonsense(provider, what string, seen []byte) error {
	if words := Words(seen); words != "" {
		what += ": " + words
	}
	return &Error{Provider: provider, Status: http.StatusOK, Message: Clean(what)}
}

// Words returns what an error body says, in whatever shape it says it.
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
		// A code that is a number makes Unmarshal complain and go on.
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

// Clean makes foreign words fit to be shown in one line: no control
// characters, no invalid UTF-8, no more than a few hundred bytes.
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
