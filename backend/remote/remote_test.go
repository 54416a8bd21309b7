package remote_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
	"github.com/tidemark-sessions/tidemark/backend/backendtest"
	"github.com/tidemark-sessions/tidemark/backend/remote"
)

// The suite runs over the server of this house, in package server. Here are
// servers of other houses: those that lie, babble, and send callers away.

const about = `{"service":"tidemark","format":2,"max_request_bytes":1000000}`

// host answers the first question rightly, and everything else as it likes.
func host(t testing.TB, answer http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == api.BackendPath {
			io.WriteString(w, about)
			return
		}
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func says(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, text) }
}

// accept says that a batch is kept.
func accept(w http.ResponseWriter, r *http.Request) {
	b, _ := api.DecodeBatch(r.Body)
	fmt.Fprintf(w, `{"done":true,"batch":%q}`, b.ID)
}

func opened(t testing.TB, address string, o *remote.Options) *remote.Backend {
	t.Helper()
	if o == nil {
		o = &remote.Options{}
	}
	if o.RetryFor == 0 {
		o.RetryFor = -1
	}
	b, err := remote.Open(context.Background(), address, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func TestAnAddressThatCannotBeOneIsRefused(t *testing.T) {
	for _, address := range []string{"", "tidemark.example.org", "ftp://host", "https://", "https://ada:secret@host", "https://host?x=1", "https://host#x",
		"http://tidemark.example.org", "http://192.0.2.7:8080", "http://localhost.example.org", "::"} {
		_, err := remote.Open(t.Context(), address, nil)
		if !errors.Is(err, tidemark.ErrInvalid) {
			t.Errorf("%q: %v, want ErrInvalid", address, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: the error tells the password: %v", address, err)
		}
	}
}

func TestOpenSaysWhatIsWrongWithAServer(t *testing.T) {
	problem := func(p *api.Problem) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", p.ContentType(""))
			w.WriteHeader(p.Status)
			fmt.Fprintf(w, `{"status":%d,"code":%q,"detail":"no valid token\u001b[2J","hint":"send one"}`, p.Status, p.Code)
		}
	}
	gone := httptest.NewServer(nil)
	gone.Close()
	secure := httptest.NewTLSServer(says(about))
	defer secure.Close()
	serve := func(h http.HandlerFunc) string {
		s := httptest.NewServer(h)
		t.Cleanup(s.Close)
		return s.URL
	}
	for _, c := range []struct {
		name, address string
		want          error
		text          string
	}{
		{"nobody is there", gone.URL, tidemark.ErrNoStore, "refused"},
		{"a page", serve(says("<html>hello")), tidemark.ErrNoStore, "not a Tidemark server"},
		{"no such page", serve(http.NotFound), tidemark.ErrNoStore, "404"},
		{"a server without these calls", serve(problem(&api.Problem{Status: 404, Code: "not_found"})), tidemark.ErrNoStore, "no store"},
		{"a wrong token", serve(problem(&api.Problem{Status: 401, Code: "denied"})), tidemark.ErrDenied, "no valid token [2J"},
		{"a newer server", serve(says(`{"service":"tidemark","format":3,"max_request_bytes":1}`)), tidemark.ErrUnsupported, "format 3"},
		{"a stranger's certificate", secure.URL, tidemark.ErrNoStore, "certificate"},
		{"no TLS", "https" + strings.TrimPrefix(serve(says(about)), "http"), tidemark.ErrNoStore, "TLS"},
		{"more than an answer", serve(says(strings.Repeat(" ", 1<<20))), tidemark.ErrNoStore, "cannot be"},
	} {
		_, err := remote.Open(t.Context(), c.address, nil)
		if !errors.Is(err, c.want) || !strings.Contains(fmt.Sprint(err), c.text) {
			t.Errorf("%s: %v, want %v with %q", c.name, err, c.want, c.text)
		}
	}
}

func TestATokenGoesToNoOtherHost(t *testing.T) {
	var asked atomic.Bool
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Store(true) }))
	defer other.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL+r.URL.Path, status)
		}))
		defer s.Close()
		_, err := remote.Open(t.Context(), s.URL, &remote.Options{Token: func(context.Context) (string, error) { return "secret", nil }})
		if !errors.Is(err, tidemark.ErrNoStore) || !strings.Contains(err.Error(), "elsewhere") {
			t.Errorf("status %d: %v", status, err)
		}
	}
	if asked.Load() {
		t.Error("the other host was asked")
	}
}

func TestATokenThatIsRefusedIsAskedForOnceMore(t *testing.T) {
	var good atomic.Value
	good.Store("one")
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+good.Load().(string) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(401)
			io.WriteString(w, `{"code":"denied","detail":"no valid token was sent"}`)
			return
		}
		io.WriteString(w, about)
	}))
	defer s.Close()
	var asked int
	token := func(context.Context) (string, error) {
		asked++
		return []string{"old", "one", "old", "older"}[asked-1], nil
	}
	opened(t, s.URL, &remote.Options{Token: token})
	if _, err := remote.Open(t.Context(), s.URL, &remote.Options{Token: token}); !errors.Is(err, tidemark.ErrDenied) {
		t.Errorf("Open = %v, want ErrDenied", err)
	}
	if asked != 4 {
		t.Errorf("the token was asked for %d times, want 4", asked)
	}
}

func line(seq int64, body string) string {
	text, err := api.Append(nil, api.Element{Line: api.LineOf(backendtest.NewLine(log, seq, body))})
	if err != nil {
		panic(err)
	}
	return string(text)
}

var log = tidemark.Key{Kind: "session", ID: "s"}

const end = `{"end":true}` + "\n"

// TestWhatAServerSaysIsNotBelieved has servers that answer a question for the
// lines 2 to 4 with something else.
func TestWhatAServerSaysIsNotBelieved(t *testing.T) {
	for name, text := range map[string]string{
		"not JSON":          "hello\n" + end,
		"a line before":     line(1, "x") + end,
		"a line behind":     line(2, "x") + line(5, "x") + end,
		"a line twice":      line(2, "x") + line(2, "x") + end,
		"lines backwards":   line(3, "x") + line(2, "x") + end,
		"another span":      strings.Replace(line(2, "x"), `{"line"`, `{"span":7,"line"`, 1) + end,
		"a span before":     strings.Replace(line(2, "x"), `{"line"`, `{"span":-1,"line"`, 1) + end,
		"a record":          `{"record":{"kind":"session","id":"s"}}` + "\n" + end,
		"nothing":           "{}\n" + end,
		"only empty lines":  strings.Repeat("\n", 5000),
		"no damage":         `{"line":{"seq":2},"problem":{"code":"denied","status":403,"title":"x"}}` + "\n" + end,
		"a huge kind":       strings.Replace(line(2, "x"), `"kind":"user"`, `"kind":"`+strings.Repeat("k", 99)+`"`, 1) + end,
		"cut off":           line(2, "x"),
		"cut in a line":     line(2, "x")[:30],
		"an empty answer":   "",
		"one endless chunk": strings.Repeat("x", 1<<20),
	} {
		b := opened(t, host(t, says(text)).URL, nil)
		var last error
		for _, err := range b.Lines(t.Context(), log, tidemark.Span{From: 2, To: 4}) {
			last = err
		}
		if !errors.Is(last, tidemark.ErrStorage) {
			t.Errorf("%s: the last error is %v, want ErrStorage", name, last)
		}
	}
}

func TestAChangedBodyIsDamage(t *testing.T) {
	wrong := strings.Replace(line(2, "xxx"), `"body":"eHh4"`, `"body":"eHh5"`, 1)
	b := opened(t, host(t, says(wrong+line(3, "y")+end)).URL, nil)
	var got []string
	for l, err := range b.Lines(t.Context(), log, tidemark.Span{From: 2}) {
		got = append(got, fmt.Sprint(l.Seq, " ", string(l.Body), " ", errors.Is(err, tidemark.ErrCorrupt)))
	}
	if want := "[2  true 3 y false]"; fmt.Sprint(got) != want {
		t.Errorf("lines %v, want %s", got, want)
	}
	r := api.RecordOf(backendtest.NewRecord(log, 1, "abc"))
	r.Body = []byte("abd")
	text, _ := api.Append(nil, api.Element{Record: r})
	b = opened(t, host(t, says(string(text))).URL, nil)
	if _, err := b.Get(t.Context(), log); !errors.Is(err, tidemark.ErrCorrupt) {
		t.Errorf("Get = %v, want ErrCorrupt", err)
	}
}

// TestAServerThatNeverEndsIsLeft has one that sends for ever; the client takes
// no more than the longest line there can be.
func TestAServerThatNeverEndsIsLeft(t *testing.T) {
	chunk := bytes.Repeat([]byte("x"), 1<<20)
	var sent atomic.Int64
	b := opened(t, host(t, func(w http.ResponseWriter, _ *http.Request) {
		for {
			n, err := w.Write(chunk)
			sent.Add(int64(n))
			if err != nil {
				return
			}
		}
	}).URL, nil)
	if _, err := b.Get(t.Context(), log); !errors.Is(err, tidemark.ErrStorage) {
		t.Errorf("Get = %v, want ErrStorage", err)
	}
	for _, err := range b.Lines(t.Context(), log) {
		if !errors.Is(err, tidemark.ErrStorage) {
			t.Errorf("Lines = %v, want ErrStorage", err)
		}
	}
	if most := int64(2*api.MaxItemBytes + 64<<20); sent.Load() > most {
		t.Errorf("%d bytes were taken, want at most %d", sent.Load(), most)
	}
}

func TestABusyServerIsAskedAgain(t *testing.T) {
	var n atomic.Int64
	s := host(t, func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1) < 3 {
			w.Header().Set("Content-Type", "application/problem+json")
			w.Header().Set("Retry-After", "1")
			w.WriteHeader([]int{503, 429}[n.Load()-1])
			io.WriteString(w, `{"code":"storage","detail":"the store cannot be reached"}`)
			return
		}
		accept(w, r)
	})
	batch := tidemark.Batch{ID: tidemark.NewBatchID(), Puts: []tidemark.Record{backendtest.NewRecord(log, 1, "{}")}}
	if _, err := opened(t, s.URL, nil).Commit(t.Context(), batch); !errors.Is(err, tidemark.ErrStorage) || errors.Is(err, tidemark.ErrUnknown) {
		t.Errorf("without patience: %v, want ErrStorage", err)
	}
	if _, err := opened(t, s.URL, &remote.Options{RetryFor: remote.DefaultRetryFor}).Commit(t.Context(), batch); err != nil {
		t.Errorf("with patience: %v", err)
	}
}

func TestACommitWithoutAnyAnswerIsUnknown(t *testing.T) {
	s := host(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	batch := tidemark.Batch{ID: tidemark.NewBatchID(), Puts: []tidemark.Record{backendtest.NewRecord(log, 1, "{}")}}
	for _, text := range []string{"<html>please pay for this network", "", "{}", `{"done":true}`, `{"done":true,"batch":"other"}`} {
		if _, err := opened(t, host(t, says(text)).URL, nil).Commit(t.Context(), batch); !errors.Is(err, tidemark.ErrUnknown) {
			t.Errorf("Commit answered with %q = %v, want ErrUnknown", text, err)
		}
	}
	b := opened(t, s.URL, nil)
	if _, err := b.Commit(t.Context(), batch); !errors.Is(err, tidemark.ErrUnknown) || errors.Is(err, tidemark.ErrStorage) {
		t.Errorf("Commit = %v, want ErrUnknown", err)
	}
	s.Close()
	if _, err := b.Commit(t.Context(), batch); !errors.Is(err, tidemark.ErrStorage) || errors.Is(err, tidemark.ErrUnknown) {
		t.Errorf("Commit to nobody = %v, want ErrStorage", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	slow := host(t, func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		cancel()
		<-r.Context().Done()
	})
	if _, err := opened(t, slow.URL, nil).Commit(ctx, batch); !errors.Is(err, tidemark.ErrUnknown) || !errors.Is(err, context.Canceled) {
		t.Errorf("Commit that was given up = %v, want ErrUnknown and Canceled", err)
	}
}

func TestWhatAServerCannotTakeIsNotSent(t *testing.T) {
	b := opened(t, host(t, func(http.ResponseWriter, *http.Request) { t.Error("it was sent") }).URL, nil)
	text := backendtest.NewRecord(log, 1, "{}")
	text.Group = "\xff"
	large := backendtest.NewRecord(log, 1, strings.Repeat("x", 1<<20))
	for name, r := range map[string]tidemark.Record{"text": text, "large": large} {
		_, err := b.Commit(t.Context(), tidemark.Batch{ID: tidemark.NewBatchID(), Puts: []tidemark.Record{r}})
		if !errors.Is(err, tidemark.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
	only := opened(t, b.Address(), &remote.Options{ReadOnly: true})
	for name, err := range map[string]error{
		"commit": second(only.Commit(t.Context(), tidemark.Batch{ID: "b"})),
		"share":  only.Share(t.Context(), tidemark.NewSessionID(), tidemark.Scope{With: tidemark.Private}),
	} {
		if !errors.Is(err, tidemark.ErrDenied) {
			t.Errorf("%s of what is only read = %v, want ErrDenied", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// toward returns a client that reaches a server under any name.
func toward(s *httptest.Server) *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, s.Listener.Addr().String())
	}}}
}

func TestLargeRequestsToOtherHostsArePacked(t *testing.T) {
	var how atomic.Value
	s := host(t, func(w http.ResponseWriter, r *http.Request) {
		how.Store(r.Header.Get("Content-Encoding") + "/" + r.Header.Get("Accept-Encoding"))
		if r.Header.Get("Content-Encoding") == "gzip" {
			r.Body, _ = gzip.NewReader(r.Body)
		}
		accept(w, r)
	})
	for _, c := range []struct {
		address string
		bytes   int
		want    string
	}{{"http://tidemark.test", 100_000, "gzip/gzip"}, {"http://tidemark.test", 10, "/gzip"}, {s.URL, 100_000, "/identity"}} {
		b := opened(t, c.address, &remote.Options{HTTP: toward(s), Plain: true})
		batch := tidemark.Batch{ID: tidemark.NewBatchID(), Puts: []tidemark.Record{backendtest.NewRecord(log, 1, strings.Repeat("x", c.bytes))}}
		if _, err := b.Commit(t.Context(), batch); err != nil || how.Load() != c.want {
			t.Errorf("%s, %d bytes: %v, %v; want %s", c.address, c.bytes, how.Load(), err, c.want)
		}
	}
}

func FuzzAnswers(f *testing.F) {
	f.Add([]byte(line(1, "x") + line(2, "y") + end))
	f.Add([]byte(`{"record":{"kind":"session","id":"s","version":1,"body":"e30=","sum":1}}` + "\n" + end))
	f.Add([]byte(`{"hit":{"log":{"kind":"session","id":"s"},"seq":1}}` + "\n" + `{"problem":{"code":"corrupt","damage":{"what":"x"}},"end":true}`))
	f.Add([]byte(`{"key":{"kind":"a","id":"b"}}` + "\n" + `{"lag":{"log":{"kind":"a","id":"b"},"from":1,"to":2}}`))
	f.Add([]byte(`{"span":1,"line":{"seq":9223372036854775807},"problem":{}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		b := opened(t, "http://tidemark.test", &remote.Options{Plain: true, HTTP: &http.Client{Transport: canned(text)}})
		ctx := t.Context()
		if r, err := b.Get(ctx, log); err == nil && (r.Key != log || r.Version > 0 && r.Sum != r.Checksum()) {
			t.Errorf("Get = %+v", r)
		}
		last := int64(0)
		for l, err := range b.Lines(ctx, log, tidemark.Span{To: 5}, tidemark.Span{From: 6}) {
			if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
				break
			}
			if l.Seq <= last || err == nil && l.Sum != l.Checksum(log) {
				t.Errorf("line %d after %d", l.Seq, last)
			}
			last = l.Seq
		}
		for r, err := range b.List(ctx, tidemark.Query{Kind: "session", Limit: 3}) {
			if err == nil && (r.Kind != "session" || r.Sum != r.Checksum()) {
				t.Errorf("List: %+v", r)
			}
		}
		for range b.Walk(ctx, tidemark.Key{}) {
		}
		b.Shared(ctx, "x")
	})
}

// canned answers every question with the same bytes.
type canned []byte

func (c canned) RoundTrip(r *http.Request) (*http.Response, error) {
	text := []byte(c)
	if r.URL.Path == api.BackendPath {
		text = []byte(about)
	}
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(text)), Request: r}, nil
}
