package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	routes "github.com/tidemark-sessions/tidemark/server/api"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/store/hits"
)

func TestACheckpointIsReplacedWhole(t *testing.T) {
	s := newTestServer(t)
	path := newSession(t, s, wA, "tides", "one")
	s.call(t, wA, "GET", path+"/checkpoint", nil).want(t, 404).problem(t)
	s.call(t, wA, "PUT", path+"/checkpoint", `{"core_memory":{"human":"Ada","mood":"calm"},"document_paths":["/a"],"tasks":[{"id":1,"text":"sail"}]}`).want(t, 200)
	a := s.call(t, wA, "PUT", path+"/checkpoint", `{"core_memory":{"persona":"pilot"}}`).want(t, 200)
	var c routes.SessionState
	a.into(t, &c)
	want := map[string]string{"persona": "pilot", "human": "", "scratchpad": ""}
	if !cmp.Equal(c.CoreMemory, want) || len(c.DocumentPaths) != 0 || len(c.Tasks) != 0 || c.Seq != 2 || c.SavedAt.IsZero() {
		t.Errorf("%+v", c)
	}
	s.call(t, wA, "GET", path+"/checkpoint", nil, "If-None-Match: "+a.Header.Get("ETag")).want(t, 304)
	s.call(t, wA, "PUT", path+"/checkpoint?name=before", `{"reason":"x"}`).want(t, 200)
	s.call(t, wA, "GET", path+"/checkpoint?name=Before", nil).want(t, 200)
	var l struct{ Items []routes.SessionState }
	if s.call(t, wA, "GET", path+"/checkpoints", nil).want(t, 200).into(t, &l); len(l.Items) != 2 {
		t.Errorf("%+v", l)
	}
	s.call(t, wA, "PUT", path+"/checkpoint", `{"core":{}}`).want(t, 422).problem(t)
	s.call(t, wA, "PUT", path+"/checkpoint", `{"seq":99}`).want(t, 400).problem(t)
	s.call(t, "reader-a", "PUT", path+"/checkpoint", `{}`).want(t, 403).problem(t)
}

func TestFilesComeBackAsTheyWere(t *testing.T) {
	s := newTestServer(t)
	path := newSession(t, s, wA, "tides", "one")
	content := bytes.Repeat([]byte("<script>\x00\xff"), 60_000)
	a := s.call(t, wA, "PUT", path+"/files/artifacts%2Fa.html", content).want(t, 200)
	sum := sha256.Sum256(content)
	if tag := a.Header.Get("ETag"); tag != `"`+hex.EncodeToString(sum[:])+`"` {
		t.Errorf("tag %s", tag)
	}
	for _, name := range []string{"artifacts%2Fa.html", "artifacts/a.html"} {
		got := s.call(t, "reader-a", "GET", path+"/files/"+name, nil).want(t, 200)
		if !bytes.Equal(got.Body, content) || got.Header.Get("Content-Type") != "application/octet-stream" ||
			!strings.HasPrefix(got.Header.Get("Content-Disposition"), "attachment") || got.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d bytes, %v", name, len(got.Body), got.Header)
		}
	}
	s.call(t, wA, "GET", path+"/files/artifacts%2Fa.html", nil, "If-None-Match: "+a.Header.Get("ETag")).want(t, 304)
	s.call(t, wA, "PUT", path+"/files/artifacts/a.html", "small").want(t, 200)
	s.call(t, wA, "PUT", path+"/files/empty", "").want(t, 200)
	var l struct{ Items []store.File }
	s.call(t, wA, "GET", path+"/files", nil).want(t, 200).into(t, &l)
	if len(l.Items) != 2 || l.Items[0].Name != "artifacts/a.html" || l.Items[0].Size != 5 {
		t.Errorf("%+v", l)
	}
	s.call(t, wA, "DELETE", path+"/files/empty", nil).want(t, 200)
	s.call(t, wA, "DELETE", path+"/files/empty", nil).want(t, 404).problem(t)
	s.call(t, wA, "GET", path+"/files/empty", nil).want(t, 404).problem(t)
	s.call(t, wA, "GET", path+"/files/a%2F..%2Fb", nil).want(t, 400).problem(t)
	s.call(t, "reader-a", "PUT", path+"/files/x", "x").want(t, 403).problem(t)
	s.call(t, "reader-a", "DELETE", path+"/files/artifacts/a.html", nil).want(t, 403).problem(t)
}

// texting is an export and an import of one format: the text of the session.
func texting(o *Options) {
	o.Formats = []string{"fleet-rlm", "text", "broken"}
	o.Export = func(ctx context.Context, _ *store.Store, at store.Point, format string) (string, func(io.Writer) error, error) {
		return "text/plain; charset=utf-8", func(w io.Writer) error {
			for e, err := range at.Path(ctx, at.Seq) {
				if err != nil {
					return err
				}
				fmt.Fprintln(w, format, e.Text())
			}
			if format == "broken" {
				return errors.New("the disk is full")
			}
			return nil
		}, nil
	}
	o.Import = func(ctx context.Context, s *store.Store, name string, content io.Reader) ([]routes.Imported, error) {
		b, err := io.ReadAll(content)
		if err != nil {
			return nil, err
		}
		if !json.Valid(b) {
			return nil, tidemark.Invalidf("no tool is known to write this")
		}
		i, err := s.CreateEmpty(ctx, tidemark.Session{Title: name})
		return []routes.Imported{{ID: i.ID, Title: name}}, err
	}
}

func TestASessionGoesOutInEveryFormatAndComesIn(t *testing.T) {
	s := newTestServer(t, texting, func(o *Options) { o.Limits.Import = 1 << 10 })
	path := newSession(t, s, wA, "tides", "one", "two")
	for query, want := range map[string]string{"": "fleet-rlm one\nfleet-rlm re one\nfleet-rlm two\nfleet-rlm re two\n", "?format=text&at=n0": "text one\ntext re one\n"} {
		a := s.call(t, "reader-a", "POST", path+"/export"+query, nil).want(t, 200)
		if string(a.Body) != want || a.Header.Get("Content-Type") != "text/plain; charset=utf-8" || a.Header.Get("Content-Disposition") != "attachment" {
			t.Errorf("%s: %q %v", query, a.Body, a.Header)
		}
	}
	s.call(t, wA, "POST", path+"/export?format=doc", nil).want(t, 400).problem(t)
	s.call(t, wA, "POST", path+"/export?at=n9", nil).want(t, 404).problem(t)
	// What could not be written whole does not look as if it were.
	r, _ := http.NewRequest("POST", s.URL+path+"/export?format=broken", nil)
	r.Header.Set("Authorization", "Bearer "+wA)
	if res, err := http.DefaultClient.Do(r); err == nil {
		if _, err := io.ReadAll(res.Body); err == nil {
			t.Error("a broken export ended well")
		}
		res.Body.Close()
	}
	var got struct{ Sessions []routes.Imported }
	s.call(t, wA, "POST", "/api/v1/import?name=a.json", `{}`).want(t, 200).into(t, &got)
	if len(got.Sessions) != 1 || got.Sessions[0].Title != "a.json" {
		t.Errorf("%+v", got)
	}
	s.call(t, wA, "POST", "/api/v1/import", `nonsense`).want(t, 400).problem(t)
	s.call(t, wA, "POST", "/api/v1/import", strings.Repeat("x", 2<<10)).want(t, 413).problem(t)
	s.call(t, wA, "POST", "/api/v1/import", io.MultiReader(strings.NewReader(strings.Repeat("x", 2<<10)))).want(t, 413).problem(t)
	s.call(t, "reader-a", "POST", "/api/v1/import", `{}`).want(t, 403).problem(t)
	newTestServer(t).call(t, wA, "POST", "/api/v1/import", `{}`).want(t, 501).problem(t)
}

func TestSearchStatsAndReferencesSeeOnesOwnSessions(t *testing.T) {
	s := newTestServer(t)
	path := newSession(t, s, wA, "Tide tables", "when is high water", "thanks")
	id := strings.TrimPrefix(path, request.SessionsPath+"/")
	newSession(t, s, "writer-b", "Tide secrets", "high water")
	var found struct{ Items []hits.Hit }
	s.call(t, wA, "GET", "/api/v1/search?q=high+water&role=user", nil).want(t, 200).into(t, &found)
	if len(found.Items) != 1 || found.Items[0].Ref != id+"@1" || !strings.Contains(found.Items[0].Snippet, "high water") || len(found.Items[0].Marks) == 0 {
		t.Errorf("%+v", found)
	}
	var first, second struct {
		Items    []hits.Hit
		Next     string
		Sessions []hits.InSession
		Facets   []store.Facet
	}
	s.call(t, wA, "GET", "/api/v1/search?q=high&limit=1&facets=true", nil).want(t, 200).into(t, &first)
	if len(first.Items) != 1 || first.Next == "" || len(first.Sessions) != 1 || len(first.Facets) == 0 || len(first.Facets[0].Values) != 2 {
		t.Errorf("the first answer: %+v", first)
	}
	s.call(t, wA, "GET", "/api/v1/search?q=high&limit=1&cursor="+first.Next, nil).want(t, 200).into(t, &second)
	if len(second.Items) != 1 || second.Next != "" || second.Items[0].Ref == first.Items[0].Ref {
		t.Errorf("the second answer: %+v", second)
	}
	s.call(t, wA, "GET", "/api/v1/search?q=other&limit=2&cursor="+first.Next, nil).want(t, 400)
	s.call(t, wA, "GET", "/api/v1/search?q=other&cursor=forged", nil).want(t, 400)
	for query, want := range map[string]int{"?q=high&session=" + id: 200, "?q=high&session=" + absent: 404, "?q=": 422, "?q=a&since=x": 400, "?q=!x": 0, "?q=a&limit=0": 422} {
		if a := s.call(t, wA, "GET", "/api/v1/search"+query, nil); want != 0 && a.Status != want {
			t.Errorf("%s: %d %s", query, a.Status, a.Body)
		}
	}
	var r struct {
		Ref, Session, Title string
		Seq                 int64
	}
	for ref, want := range map[string]string{"last": id, "Tide+tables@n0": id + "@2", id[:8]: id, "last~1": id + "@2"} {
		if s.call(t, wA, "GET", "/api/v1/resolve?ref="+ref, nil).want(t, 200).into(t, &r); r.Ref != want {
			t.Errorf("%s: %s, want %s", ref, r.Ref, want)
		}
	}
	newSession(t, s, wA, "tide tables", "x")
	p := s.call(t, wA, "GET", "/api/v1/resolve?ref=tide+tables", nil).want(t, 400).problem(t)
	if !strings.Contains(p.Detail, id) {
		t.Errorf("%q", p.Detail)
	}
	s.call(t, wA, "GET", "/api/v1/resolve?ref=Tide+secrets", nil).want(t, 404).problem(t)
	var st struct{ Items []store.Tally }
	s.call(t, wA, "GET", "/api/v1/stats", nil).want(t, 200).into(t, &st)
	if len(st.Items) != 1 || st.Items[0].Turns != 3 || st.Items[0].Sessions != 2 || st.Items[0].OutputTokens != 6 {
		t.Errorf("%+v", st)
	}
	for query, want := range map[string]int{"?by=day": 200, "?by=model&since=2020-01-01": 200, "?by=agent": 200, "?by=day&zone=Europe/Oslo": 200, "?by=moon": 422, "?zone=Local": 400, "?zone=../x": 400} {
		if a := s.call(t, wA, "GET", "/api/v1/stats"+query, nil); a.Status != want {
			t.Errorf("%s: %d %s", query, a.Status, a.Body)
		}
	}
}

func TestTheDescriptionHoldsEveryRoute(t *testing.T) {
	s := newTestServer(t)
	var d struct {
		Paths map[string]map[string]struct {
			Parameters []struct{ Name string }
		}
	}
	s.call(t, "", "GET", "/openapi.json", nil).want(t, 200).into(t, &d)
	for _, route := range []string{"GET /sessions/state", "GET /sessions", "POST /sessions", "GET /sessions/{id}", "PATCH /sessions/{id}", "DELETE /sessions/{id}",
		"GET /sessions/{id}/turns", "POST /sessions/{id}/export", "POST /sessions/{id}/entries", "GET /sessions/{id}/entries", "GET /sessions/{id}/entries/stream",
		"GET /sessions/{id}/tree", "POST /sessions/{id}/branch", "POST /sessions/{id}/fork", "POST /sessions/{id}/labels", "GET /sessions/{id}/checkpoint",
		"PUT /sessions/{id}/checkpoint", "GET /sessions/{id}/checkpoints", "GET /sessions/{id}/files", "GET /sessions/{id}/files/{name}", "PUT /sessions/{id}/files/{name}",
		"DELETE /sessions/{id}/files/{name}", "GET /sessions/{id}/lease", "POST /sessions/{id}/lease", "PUT /sessions/{id}/lease", "DELETE /sessions/{id}/lease",
		"POST /sessions/{id}/lease/hand-over", "POST /sessions/{id}/restore", "POST /sessions/{id}/verify", "PUT /sessions/{id}/share", "GET /sessions/{id}/share",
		"POST /import", "GET /stats", "GET /search", "GET /resolve"} {
		method, path, _ := strings.Cut(route, " ")
		o, ok := d.Paths["/api/v1"+path][strings.ToLower(method)]
		if !ok {
			t.Errorf("%s is not described", route)
		}
		for part := range strings.SplitSeq(path, "/") {
			if name, ok := strings.CutPrefix(part, "{"); ok && !strings.Contains(fmt.Sprint(o.Parameters), strings.TrimSuffix(name, "}")) {
				t.Errorf("%s: %s is not described", route, part)
			}
		}
	}
}
