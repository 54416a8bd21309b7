package model

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestWaitsDoubleAndAreBounded(t *testing.T) {
	r := Retry{First: time.Second, Most: 10 * time.Second}
	rapid.Check(t, func(t *rapid.T) {
		attempt := rapid.IntRange(1, 1_000_000).Draw(t, "attempt")
		asked := time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "asked"))
		wait := r.pause(attempt, asked)
		full := 10 * time.Second
		if attempt <= 4 {
			full = time.Second << (attempt - 1)
		}
		if wait < min(full/2, r.Most) || wait > max(full, min(asked, r.Most)) || wait < min(asked, r.Most) {
			t.Fatalf("attempt %d, asked for %v: waits %v", attempt, asked, wait)
		}
	})
}

func TestServerSaysHowLongToWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := time.Now().Add(90 * time.Second).UTC().Format(http.TimeFormat)
		for value, want := range map[string]time.Duration{
			"7": 7 * time.Second, "0.5": 500 * time.Millisecond, "-3": 0, "soon": 0, "": 0, "NaN": 0, "1e300": 24 * time.Hour, "+Inf": 24 * time.Hour, at: 90 * time.Second,
		} {
			if got := retryAfter(http.Header{"Retry-After": {value}}); got != want {
				t.Errorf("Retry-After: %s is %v, want %v", value, got, want)
			}
		}
	})
}

func TestAttemptThatCannotBeCuredIsNotRepeated(t *testing.T) {
	broken := errors.New("broken")
	asked := 0
	var last error
	for _, err := range (Retry{}).Stream(t.Context(), func(context.Context, func(), func(Event) error) (*Answer, error) {
		asked++
		return nil, broken
	}) {
		last = err
	}
	if asked != 1 || last != broken {
		t.Errorf("asked %d times, then %v", asked, last)
	}
}

func TestEventsAreReadInAnyPieces(t *testing.T) {
	stream := ": hello\n\nevent: a\ndata: 1\ndata: 2\n\nid: 9\nretry: 5\n\r\ndata:3\r\n\r\nevent: lonely\n\ndata\n\ndata: {\"x\""
	want := []Sent{{Name: "a", Data: []byte("1\n2")}, {Data: []byte("3")}, {Data: []byte{}}, {Data: []byte(`{"x"`), Cut: true}}
	for name, r := range map[string]io.Reader{
		"whole": strings.NewReader(stream), "one by one": iotest.OneByteReader(strings.NewReader(stream)), "with its end": iotest.DataErrReader(strings.NewReader(stream)),
	} {
		in := NewEvents("openai", r, func() {})
		var got []Sent
		for {
			s, err := in.Next()
			if err != nil {
				if !errors.Is(err, io.EOF) {
					t.Error(err)
				}
				break
			}
			s.Data = append([]byte{}, s.Data...)
			got = append(got, s)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestCutConnectionIsNoEnd(t *testing.T) {
	in := NewEvents("openai", io.MultiReader(strings.NewReader("data: 1\n"), iotest.ErrReader(io.ErrUnexpectedEOF)), func() {})
	if s, err := in.Next(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %+v, %v", s, err)
	}
}

func TestForeignWordsAreCleaned(t *testing.T) {
	for body, want := range map[string]string{
		`{"error":{"message":"slow\ndown"}}`:                     "slow down",
		`{"error":"plain"}`:                                      "plain",
		`{"message":"flat"}`:                                     "flat",
		`{"error":{"code":400,"message":"numbered"}}`:            "numbered",
		`{"detail":[{"msg":"x"}]}`:                               `{"detail":[{"msg":"x"}]}`,
		"<html><title>No</title>\n<p>gate\x1b[31mway</p></html>": "No gate[31mway",
		"\xff\xfe":                       "\uFFFD\uFFFD",
		"":                               "",
		strings.Repeat("long ", 1000):    strings.TrimSpace(strings.Repeat("long ", 120)) + " l…",
		"<" + strings.Repeat("<", 100):   "",
		"a\u202eb\u200bc\x00d\u0085e\tf": "abcd e f",
	} {
		if got := Words([]byte(body)); got != want {
			t.Errorf("%.60q: %q, want %q", body, got, want)
		}
	}
}

func FuzzWordsAreFitToBeShown(f *testing.F) {
	f.Add([]byte(`{"error":{"message":"x","code":"context_length_exceeded"}}`))
	f.Add([]byte("<html>\x1b]0;x\x07"))
	f.Fuzz(func(t *testing.T, body []byte) {
		s := Words(body)
		if !utf8.ValidString(s) || len(s) > maxWords+16 || strings.ContainsFunc(s, unicode.IsControl) {
			t.Errorf("%q", s)
		}
	})
}
