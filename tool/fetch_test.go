package tool

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"unicode/utf8"
)

func site(t *testing.T) *httptest.Server {
	t.Helper()
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("the other host")) }))
	t.Cleanup(other.Close)
	mux := http.NewServeMux()
	page := func(path, kind, body string) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.Write([]byte(body))
		})
	}
	page("/page", "text/html; charset=utf-8", "<html><head><title>T &amp; U</title><style>x{}</style></head><body><h1>Head</h1><p>one <b>two</b><script>bad()</script></p></body></html>")
	page("/json", "application/json", `{"a":1}`)
	page("/latin", "text/plain; charset=iso-8859-1", "caf\xe9")
	page("/binary", "application/octet-stream", "a\x00b")
	page("/png", "image/png", "\x89PNG\r\n\x1a\n0000")
	page("/huge", "text/plain", strings.Repeat("0123456789", 1_000_000))
	mux.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/json", http.StatusFound) })
	mux.HandleFunc("/away", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL+"/x", http.StatusFound) })
	mux.HandleFunc("/file", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
	})
	mux.HandleFunc("/circle", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/circle", http.StatusFound) })
	mux.HandleFunc("/hang", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func TestFetchShowsPagesAsText(t *testing.T) {
	s := site(t)
	b := newBox(t, Options{PrivateNetwork: true, OutputBytes: 1000})
	get := func(path string) Result { return call(t, b, "fetch", m{"url": s.URL + path}) }
	wantText(t, get("/page#part"), s.URL+"/page\n200 OK, text/html\n\nT & U\n\n# Head\n\none two")
	wantHas(t, call(t, b, "fetch", m{"url": s.URL + "/page", "raw": true}), "<h1>Head</h1>")
	wantHas(t, get("/json"), `{"a":1}`)
	wantHas(t, get("/latin"), "café")
	wantHas(t, get("/moved"), `{"a":1}`, s.URL+"/json")
	wantError(t, get("/binary"), "not text")
	wantError(t, get("/none"), "404")
	if res := get("/png"); len(res.Blocks) != 1 || res.IsError {
		t.Errorf("%+v", res)
	}
	if res := get("/huge"); !res.Truncated || len(res.Text) > 1200 {
		t.Errorf("%d bytes, truncated %v", len(res.Text), res.Truncated)
	}
}

func TestFetchStaysAtTheHostThatWasApproved(t *testing.T) {
	s := site(t)
	b := newBox(t, Options{PrivateNetwork: true})
	res := call(t, b, "fetch", m{"url": s.URL + "/away"})
	wantError(t, res, "redirects to another host", "/x")
	if strings.Contains(res.Text, "the other host") {
		t.Error("the redirect was followed")
	}
	wantError(t, call(t, b, "fetch", m{"url": s.URL + "/file"}), "http://")
	wantError(t, call(t, b, "fetch", m{"url": s.URL + "/circle"}), "more than 5 times")
	for url, want := range map[string]string{
		"https://Example.com/x": "example.com", "https://example.com:443": "example.com", "http://example.com:8080/": "example.com:8080", "ftp://x": "", "": "",
	} {
		input, _ := json.Marshal(m{"url": url})
		if scope, ask := b.Find("fetch").Asks(input); scope != want || !ask {
			t.Errorf("%s: scope %q, ask %v", url, scope, ask)
		}
	}
}

func TestFetchRefusesOtherSchemesAndPrivateAddresses(t *testing.T) {
	s := site(t)
	b := newBox(t, Options{})
	for _, url := range []string{"file:///etc/passwd", "ftp://x/y", "x", "", "http://", "http://user:pw@example.com/", "http://[::1", "data:text/plain,x"} {
		wantError(t, call(t, b, "fetch", m{"url": url}))
	}
	_, port, _ := strings.Cut(strings.TrimPrefix(s.URL, "http://"), ":")
	for _, host := range []string{"127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0"} {
		wantError(t, call(t, b, "fetch", m{"url": "http://" + host + ":" + port + "/json"}), "private network")
	}
}

func TestPublicAddressesAreToldFromPrivateOnes(t *testing.T) {
	for _, a := range []string{"1.1.1.1", "93.184.216.34", "2606:4700::1111"} {
		if !isPublic(netip.MustParseAddr(a)) {
			t.Errorf("%s is not public", a)
		}
	}
	for _, a := range []string{
		"10.1.2.3", "172.16.0.1", "192.168.1.1", "127.0.0.53", "169.254.169.254", "100.64.0.1", "0.0.0.0", "0.1.2.3", "224.0.0.1", "255.255.255.255",
		"::1", "::", "fe80::1", "fe80::1%eth0", "fd00:ec2::254", "::ffff:10.0.0.1", "64:ff9b::a00:1", "2002:a00:1::", "::10.0.0.1", "ff02::1",
	} {
		if isPublic(netip.MustParseAddr(a)) {
			t.Errorf("%s is public", a)
		}
	}
}

func TestFetchCanBeStopped(t *testing.T) {
	s := site(t)
	b := newBox(t, Options{PrivateNetwork: true})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := try(t, ctx, b, "fetch", m{"url": s.URL + "/hang"}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestHTMLBecomesReadableText(t *testing.T) {
	for page, want := range map[string]string{
		"a &lt;b&gt; c":                        "a <b> c",
		"<p>one<p>two<br>three":                "one\n\ntwo\nthree",
		"<ul><li>a</li><li>b</li></ul>":        "- a\n- b",
		`<a href="https://x/y">link</a> next`:  "link (https://x/y) next",
		`<a href="#top">up</a>`:                "up",
		"<pre>a\n  b</pre>c":                   "a\n  b\n\nc",
		"a<!-- no > -->b":                      "ab",
		"<SCRIPT>if (a<b) {}</Script>x":        "x",
		`<img alt="a > b" src=x>after`:         "[a > b]after",
		"1 < 2 and 3 > 2":                      "1 < 2 and 3 > 2",
		"<script>never closed":                 "",
		"<div>a</div>\n\n<div>b</div>":         "a\n\nb",
		"<td>a</td><td>b</td>":                 "a b",
		"a\n\n  b":                             "a b",
		"<h2>x</h2>y":                          "## x\n\ny",
		"<":                                    "<",
		"<a":                                   "",
		"<head><title>t":                       "t",
		"<svg/>x":                              "x",
		"<nobody knows='>'>x</nobody>":         "x",
		"one<b> two</b> three":                 "one two three",
		"<body><head></head><title>x</title>y": "xy",
	} {
		if got := htmlText(page); got != want {
			t.Errorf("%q: %q, want %q", page, got, want)
		}
	}
}

func TestAPageCannotChooseNotToBeRead(t *testing.T) {
	for _, page := range []string{
		strings.Repeat("<div>", 100_000) + "the end",
		strings.Repeat("<b><p>", 10_000) + "the end",
		strings.Repeat("<table><tr><td>", 10_000) + "the end",
		strings.Repeat("</ul>", 100_000) + "the end",
		"<table><tr><th>a<th>b<tr><td>1<td>2</table><p" + strings.Repeat(" x=1", 100_000) + ">the end",
	} {
		if got := htmlText(page); !strings.HasSuffix(got, "the end") {
			t.Errorf("%.60q…: %.100q", page, got)
		}
	}
	if got, want := htmlText("<table><tr><th>a<th>b<tr><td>1<td>2</table>"), "a b\n1 2"; got != want {
		t.Errorf("a table: %q, want %q", got, want)
	}
}

func FuzzHTMLText(f *testing.F) {
	for _, s := range []string{"<p>a", "<a href='x'>", "<!--", "<pre><li>", "</", "<script", "&#x0;&amp", "<head><title>x</head>", "<h1><h9>"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, page string) {
		if got := htmlText(page); utf8.ValidString(page) && !utf8.ValidString(got) {
			t.Errorf("%q is not valid", got)
		}
	})
}
