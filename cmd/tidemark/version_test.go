package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark/open"
)

func TestFormatsAreThoseOfTheirPages(t *testing.T) {
	says := map[string]string{
		"sqlite":   "`PRAGMA user_version` the version of the schema[^.\n]*: ([0-9]+)\\.",
		"files":    `"format":"tidemark-files","version":([0-9]+),`,
		"postgres": `the version of the schema is ([0-9]+)\.`,
		"archive":  `the version of the format: ([0-9]+)\.`,
		"seal":     "\\| `format` \\| ([0-9]+)\\.",
		"wire":     `"service":"tidemark","format":([0-9]+),`,
	}
	if got, want := slices.Sorted(maps.Keys(open.Formats())), slices.Sorted(maps.Keys(says)); !slices.Equal(got, want) {
		t.Fatalf("formats %q, want %q", got, want)
	}
	for name, f := range open.Formats() {
		page, err := os.ReadFile(filepath.Join("../../docs/formats", name+".md"))
		if err != nil {
			t.Fatal(err)
		}
		m := regexp.MustCompile(says[name]).FindSubmatch(page)
		if m == nil || string(m[1]) != strconv.Itoa(f.Writes) {
			t.Errorf("%s: writes %d, and its page says %q", name, f.Writes, m)
		}
		if !slices.Contains(f.Reads, f.Writes) || slices.Max(f.Reads) != f.Writes || slices.Min(f.Reads) < 1 {
			t.Errorf("%s: reads %d and writes %d", name, f.Reads, f.Writes)
		}
	}
}

// asked runs `version` with flags and returns what it printed.
func asked(t *testing.T, flags ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	a := newApp()
	a.out, a.json = &out, "*"
	cmd := versionCommand(a)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(append([]string{}, flags...)) // with nil, those of the test itself
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestVersionSaysWhatTheBuildSaid(t *testing.T) {
	version, commit, date = "1.2.3", "abcdef", "2026-01-02T03:04:05Z"
	t.Cleanup(func() { version, commit, date = "dev", "", "" })
	out, err := asked(t)
	if err != nil {
		t.Fatal(err)
	}
	var v versionView
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		t.Fatal(err)
	}
	if v.Version != "1.2.3" || v.Commit != "abcdef" || v.Date != "2026-01-02T03:04:05Z" || v.Go == "" || !strings.Contains(v.Platform, "/") {
		t.Errorf("%+v", v)
	}
}

func TestVersionOfAServerIsThatOfAReadyOne(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		ready  string
		want   string
	}{
		"ready":       {200, "ready\n", ""},
		"draining":    {503, `{"title":"drains"}`, "503"},
		"not a store": {200, "<html>hello</html>", "no Tidemark server"},
	} {
		t.Run(name, func(t *testing.T) {
			mux := http.NewServeMux()
			mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(c.status)
				w.Write([]byte(c.ready))
			})
			mux.HandleFunc("/openapi.json", func(w http.ResponseWriter, _ *http.Request) {
				w.Write([]byte(`{"info":{"title":"Tidemark","version":"7.7.7"}}`))
			})
			s := httptest.NewServer(mux)
			defer s.Close()
			out, err := asked(t, "--server", s.URL+"/")
			switch {
			case c.want == "" && (err != nil || !strings.Contains(out, `"server":{"url":"`+s.URL+`","version":"7.7.7"}`)):
				t.Errorf("%s, %v", out, err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
	gone := httptest.NewServer(nil)
	gone.Close()
	if _, err := asked(t, "--server", gone.URL); err == nil || strings.Contains(err.Error(), "readyz") {
		t.Errorf("nobody is there: %v", err)
	}
}
