package web

import (
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestAPageThatIsNotThereIsAnErrorAndWritesNothing(t *testing.T) {
	var buf bytes.Buffer
	if err := Render(&buf, Frame{Page: "nowhere"}, nil); err == nil || buf.Len() > 0 {
		t.Errorf("error %v, %d bytes", err, buf.Len())
	}
}

func TestAPageOfTroubleHelpsAndEscapes(t *testing.T) {
	var buf bytes.Buffer
	err := Render(&buf, Frame{Page: "error", User: "<b>jo</b>"}, struct {
		Status                int
		Detail, Request, Read string
		Sealed                bool
	}{404, "<script>alert(1)</script>", "r1", "", false})
	if err != nil {
		t.Fatal(err)
	}
	page := buf.String()
	if strings.Contains(page, "<script>alert") || strings.Contains(page, "<b>jo") {
		t.Errorf("not escaped: %s", page)
	}
	for _, want := range []string{"Nothing is here.", "&lt;script&gt;alert", "r1", `href="/sessions"`} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in %s", want, page)
		}
	}
}

// Every text that a template asks for by a fixed name is there in English.
func TestNoTextIsMissing(t *testing.T) {
	names, err := fs.Glob(files, "templates/*.html")
	if err != nil {
		t.Fatal(err)
	}
	asked := regexp.MustCompile(`text [.$]+Lang "([^"]+)"`)
	for _, name := range names {
		content, err := files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range asked.FindAllStringSubmatch(string(content), -1) {
			if _, ok := languages()["en"][m[1]]; !ok {
				t.Errorf("%s: no text %q", name, m[1])
			}
		}
		if regexp.MustCompile(`(?i)\son[a-z]+=|<script>|style="|javascript:`).Match(content) {
			t.Errorf("%s: script or style inside the page, which the policy forbids", name)
		}
	}
}

func TestScriptsAndStylesAreSmall(t *testing.T) {
	size := make(map[string]int)
	for name, a := range assets() {
		size[path.Ext(name)] += len(a.Packed())
		if a.MediaType == "" || a.Version == "" {
			t.Errorf("%s: %q %q", name, a.MediaType, a.Version)
		}
		z, err := gzip.NewReader(bytes.NewReader(a.Packed()))
		if err != nil {
			t.Fatal(err)
		}
		if content, err := io.ReadAll(z); err != nil || !bytes.Equal(content, a.Content) {
			t.Errorf("%s unpacks to something else: %v", name, err)
		}
	}
	t.Logf("compressed: %v", size)
	for kind, most := range map[string]int{".js": 60_000, ".css": 30_000} {
		if size[kind] == 0 || size[kind] > most {
			t.Errorf("%s files have %d bytes compressed, at most %d are allowed", kind, size[kind], most)
		}
	}
}

func TestNumbersAndTimesAreShort(t *testing.T) {
	now := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	for want, got := range map[string]string{
		"12.3k": count(12_345), "9999": count(9_999), "1.5M": count(int64(1_500_000)), "4.1 KB": size(4_100), "$0.42": money(0.42),
		"<$0.01": money(0.001), "": money(0), "now": age(now, now), "5 min ago": age(now, now.Add(-5*time.Minute)), "in 2 h": age(now, now.Add(2*time.Hour)),
		"–": age(now, time.Time{}), "/sessions?a=2&b=3": withQuery("/sessions?a=1", "a", "2", "b", "3"), "/sessions": withQuery("/sessions?a=1", "a", ""),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestProjectsThatEndAlikeAreToldApart(t *testing.T) {
	p := HomePart{Name: "project"}
	for _, path := range []string{"/home/jo/one/alpha", `C:\work\alpha`, "/alpha", "/home/jo/beta", ""} {
		p.Rows = append(p.Rows, HomeRow{Name: path})
	}
	for i, want := range []string{"one/alpha", "work/alpha", "alpha", "beta", ""} {
		if got := p.Short(p.Rows[i]); got != want {
			t.Errorf("%q is called %q, not %q", p.Rows[i].Name, got, want)
		}
	}
}
