package server

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/sqlite"
	"github.com/tidemark-sessions/tidemark/internal/process"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/store"
)

const (
	// trialMemory is the budget of the server that is tried: a quarter of what a
	// server has.
	trialMemory = 128 << 20
	// trialFactor is how much more the process may take than its budget: what was
	// given up is not given back to the system at once.
	trialFactor = 2
	// trialServer is set for the process that serves.
	trialServer = "TIDEMARK_TRIAL_SERVER"
)

// TestServeForATrial is the server of the trial, when it is told to be.
func TestServeForATrial(t *testing.T) {
	dir := os.Getenv(trialServer)
	if dir == "" {
		return // somebody runs all tests
	}
	b, err := sqlite.Open(t.Context(), dir+"/store.db", &sqlite.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	st := store.New(b, nil)
	s, err := New(Options{Auth: people(), Holder: process.Self("trial"), Limits: request.Limits{Memory: trialMemory},
		Open:    func(context.Context, tidemark.Principal) (*store.Store, error) { return st, nil },
		Backend: func(context.Context, tidemark.Principal) (tidemark.Backend, error) { return b, nil },
		Import: func(_ context.Context, _ *store.Store, _ string, content io.Reader) ([]Imported, error) {
			_, err := io.ReadAll(content) // as what reads a session of another tool does
			return nil, errors.Join(err, tidemark.Invalidf("not a session"))
		}})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("http://" + l.Addr().String())
	t.Fatal(http.Serve(l, s))
}

// onTrial is a server that is a process of its own, so that all it takes is its
// own.
func onTrial(t *testing.T) (url string, peak func() int64) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestServeForATrial$")
	cmd.Env = append(os.Environ(), trialServer+"="+t.TempDir())
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "http://") {
		t.Fatalf("the server says %q, %v", line, err)
	}
	return strings.TrimSpace(line), func() int64 {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(status), "VmHWM:")
		kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return kib << 10
	}
}

// filled is a body of n bytes: the same again and again between two ends.
func filled(n int, begin, again, end string) []byte {
	return []byte(begin + strings.Repeat(again, (n-len(begin)-len(end))/len(again)) + end)
}

func packed(t *testing.T, body []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(body); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Each body is sent six times at once. What the process ever takes stays within
// a factor of the budget, whatever becomes of the requests.
func TestTheWorstBodiesStayWithinTheBudget(t *testing.T) {
	const body = 8<<20 - 100
	keys := func() []byte {
		var b bytes.Buffer
		b.WriteString(`{"entries":[{"role":"user","content":"x","extra":{"k":0`)
		for i := 0; b.Len() < body-100; i++ {
			fmt.Fprintf(&b, `,"k%d":1`, i)
		}
		b.WriteString(`}}]}`)
		return b.Bytes()
	}
	entry := `{"role":"user","content":"x"}`
	const entries, lines, bring = "/entries", "application/x-ndjson", "/api/v1/import?name=a.jsonl"
	for name, c := range map[string]struct {
		path, media string
		body        []byte
		packed      bool
	}{
		"empty entries":         {path: entries, body: filled(body, `{"entries":[`, `{},`, `{}]}`)},
		"small entries":         {path: entries, body: filled(body, `{"entries":[`, entry+`,`, entry+`]}`)},
		"80,000 entries":        {path: entries, body: []byte(`{"entries":[` + strings.Repeat(entry+`,`, 80_000) + entry + `]}`)},
		"blocks":                {path: entries, body: filled(body, `{"entries":[{"role":"user","blocks":[`, `{"type":"text","text":"x"},`, `{"type":"text","text":"x"}]}]}`)},
		"deep":                  {path: entries, body: []byte(`{"entries":[{"extra":` + strings.Repeat(`[`, body/2-100) + strings.Repeat(`]`, body/2-100) + `}]}`)},
		"as deep as it may be":  {path: entries, body: filled(body, `{"entries":[{"role":"user","content":"x","extra":{"a":[`, strings.Repeat(`[`, 5000)+strings.Repeat(`]`, 5000)+`,`, `0]}}]}`)},
		"keys":                  {path: entries, body: keys()},
		"numbers":               {path: entries, body: filled(body, `{"entries":[{"role":"user","content":"x","extra":{"a":[`, `1,`, `1]}}]}`)},
		"an image":              {path: entries, body: filled(body, `{"entries":[{"role":"user","blocks":[{"type":"image","media_type":"image/png","data":"`, `AAAA`, `"}]}]}`)},
		"escapes":               {path: entries, body: filled(body, `{"entries":[{"role":"user","content":"`, "\\u0001", `"}]}`)},
		"a packed call":         {path: entries, body: packed(t, filled(64<<20, `{"entries":[`, `{},`, `{}]}`)), packed: true},
		"a packed commit":       {path: "/api/v1/backend/commit", media: lines, body: packed(t, filled(128<<20, `{"batch":"`, `A`, `"}`)), packed: true},
		"packed lines":          {path: "/api/v1/backend/commit", media: lines, body: packed(t, filled(128<<20, `{"batch":"b","at":"2026-01-01T00:00:00Z"}`+"\n", `{"put":{"kind":"a","id":"b","version":1,"body":"e30="}}`+"\n", "\n")), packed: true},
		"an import of one line": {path: bring, body: filled(64<<20, `{"a":"`, `x`, `"}`)},
		"an import of objects":  {path: bring, body: filled(64<<20, `[`, `{},`, `{}]`)},
		"an import of zeros":    {path: bring, body: make([]byte, 64<<20)},
		"not a database":        {path: bring, body: append([]byte("SQLite format 3\x00"), make([]byte, 64<<20)...)},
	} {
		t.Run(name, func(t *testing.T) {
			url, peak := onTrial(t)
			s := &testServer{URL: url}
			path := c.path
			if path == entries {
				path = newSession(t, s, wA, "large") + entries
			}
			before := peak()
			var sending sync.WaitGroup
			for range 6 {
				sending.Go(func() {
					r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+path, bytes.NewReader(c.body))
					if err != nil {
						t.Error(err)
						return
					}
					r.Header.Set("Authorization", "Bearer "+wA)
					r.Header.Set("Content-Type", "application/json")
					if c.media != "" {
						r.Header.Set("Content-Type", c.media)
					}
					if c.packed {
						r.Header.Set("Content-Encoding", "gzip")
					}
					if res, err := http.DefaultTransport.RoundTrip(r); err == nil { // whoever is refused while they send may see no answer
						io.Copy(io.Discard, res.Body)
						res.Body.Close()
					}
				})
			}
			sending.Wait()
			took := peak() - before
			t.Logf("%s: %.1f MB of body, six times: %d MB more than %d MB", name, float64(len(c.body))/1e6, took>>20, before>>20)
			if took > trialFactor*trialMemory {
				t.Errorf("six of %d bytes took %d MB, with a budget of %d MB", len(c.body), took>>20, trialMemory>>20)
			}
		})
	}
}
