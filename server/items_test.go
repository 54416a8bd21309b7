package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
	routes "github.com/tidemark-sessions/tidemark/server/api"
	"github.com/tidemark-sessions/tidemark/store"
)

// anItem is what each kind of item takes.
var anItem = map[string]string{
	"run-steps":                     `{"run_id":"r","sequence":1,"status":"completed","cost_usd":0.5,"started_at":"2026-11-15T12:00:00Z","own":[1]}`,
	"sandbox-snapshots":             `{"sandbox_id":"s","context_paths":["/a"],"volume_name":"v"}`,
	"datasets":                      `{"name":"d","row_count":3,"format":"jsonl","module_slug":"m"}`,
	"optimization-runs":             `{"optimizer":"gepa","train_ratio":0.8}`,
	"optimization-runs/run/results": `{"example_index":1,"score":0.25,"predicted":{"x":1}}`,
}

func TestItemsAreKeptChangedAndRemoved(t *testing.T) {
	everyStore(t, func(t *testing.T, change func(*Options)) {
		s := newTestServer(t, change)
		s.call(t, "writer-a", "PUT", "/api/v1/optimization-runs/run", api.PutItem{}).want(t, 201)
		for path, data := range anItem {
			t.Run(strings.ReplaceAll(path, "/", "-"), func(t *testing.T) {
				url, session := "/api/v1/"+path, string(tidemark.NewSessionID())
				made := s.call(t, "writer-a", "POST", url, api.PutItem{Title: "one", Session: session, Data: json.RawMessage(data)}).want(t, 201)
				var i api.Item
				made.into(t, &i)
				if i.ID == "" || i.Version != 1 || string(i.Data) != data || made.Header.Get("ETag") != `"1"` {
					t.Fatalf("made %+v", i)
				}
				one := url + "/" + i.ID
				got := s.call(t, "reader-a", "GET", one, nil).want(t, 200)
				if s.call(t, "reader-a", "GET", one, nil, "If-None-Match: "+got.Header.Get("ETag")).Status != http.StatusNotModified {
					t.Error("it was sent to who has it")
				}
				s.call(t, "writer-a", "POST", url, api.PutItem{ID: i.ID}).want(t, 409).problem(t)
				s.call(t, "writer-a", "PUT", one, api.PutItem{Title: "two", Session: session}, `If-Match: "1"`).want(t, 200)
				s.call(t, "writer-a", "PUT", one, api.PutItem{Title: "late"}, `If-Match: "1"`).want(t, 412).problem(t)
				s.call(t, "writer-a", "PUT", one, api.PutItem{Title: "late"}, `If-None-Match: *`).want(t, 412).problem(t)
				s.call(t, "writer-a", "PUT", url+"/absent", api.PutItem{}, `If-Match: *`).want(t, 412).problem(t)
				s.call(t, "writer-a", "PUT", one, api.PutItem{ID: "another"}).want(t, 400).problem(t)
				var page routes.Page[api.Item]
				s.call(t, "reader-a", "GET", url+"?session="+session, nil).want(t, 200).into(t, &page)
				if len(page.Items) != 1 || page.Items[0].ID != i.ID || page.Items[0].Title != "two" || page.Items[0].Version != 2 {
					t.Errorf("listed %+v", page)
				}
				s.call(t, "reader-a", "GET", url+"?session="+string(tidemark.NewSessionID()), nil).want(t, 200).into(t, &page)
				if len(page.Items) != 0 {
					t.Errorf("of another session: %+v", page)
				}
				s.call(t, "reader-a", "DELETE", one, nil).want(t, 403).problem(t)
				s.call(t, "writer-a", "DELETE", one, nil, `If-Match: "1"`).want(t, 412).problem(t)
				s.call(t, "writer-a", "DELETE", one, nil, `If-Match: "2"`).want(t, 204)
				s.call(t, "writer-a", "DELETE", one, nil).want(t, 404).problem(t)
			})
		}
	})
}

func TestItemsHavePagesByWhatTheyAreAPartOf(t *testing.T) {
	everyStore(t, func(t *testing.T, change func(*Options)) {
		s := newTestServer(t, change)
		for n := range 9 {
			s.call(t, "writer-a", "PUT", fmt.Sprintf("/api/v1/run-steps/s%d", n), api.PutItem{Parent: fmt.Sprintf("run%d", n%2)}).want(t, 201)
		}
		var got []string
		for next := ""; ; {
			var page routes.Page[api.Item]
			s.call(t, "reader-a", "GET", "/api/v1/run-steps?parent=run0&limit=2&cursor="+next, nil).want(t, 200).into(t, &page)
			for _, i := range page.Items {
				got = append(got, i.ID)
			}
			if next = page.Next; next == "" {
				break
			}
		}
		slices.Sort(got)
		if text := fmt.Sprint(got); text != "[s0 s2 s4 s6 s8]" {
			t.Errorf("parts of run0: %s", text)
		}
	})
}

func TestItemsAreTheirOwnersAlone(t *testing.T) {
	s := newTestServer(t)
	s.call(t, "writer-a", "PUT", "/api/v1/datasets/d", api.PutItem{Title: "mine"}).want(t, 201)
	for _, who := range []string{"admin-b", "other-a"} {
		s.call(t, who, "GET", "/api/v1/datasets/d", nil).want(t, 404).problem(t)
		s.call(t, who, "DELETE", "/api/v1/datasets/d", nil).want(t, 404).problem(t)
		if got := s.call(t, who, "GET", "/api/v1/datasets", nil).want(t, 200); strings.Contains(string(got.Body), "mine") {
			t.Errorf("%s sees %s", who, got.Body)
		}
		s.call(t, who, "PUT", "/api/v1/datasets/d", api.PutItem{Title: "theirs"}).want(t, 201)
	}
	if got := s.call(t, "reader-a", "GET", "/api/v1/datasets/d", nil).want(t, 200); !strings.Contains(string(got.Body), "mine") {
		t.Errorf("got %s", got.Body)
	}
}

func TestDataThatDoesNotFitIsRefusedAndNamed(t *testing.T) {
	s := newTestServer(t)
	for data, where := range map[string]string{
		`{"row_count":"three"}`: "body.data.row_count",
		`{"row_count":1.5}`:     "body.data.row_count",
		`{"rows":{}}`:           "body.data.rows",
		`{"metadata":[]}`:       "body.data.metadata",
		`{"name":7}`:            "body.data.name",
		`[1]`:                   "body.data",
		`"text"`:                "body.data",
	} {
		p := s.call(t, "writer-a", "POST", "/api/v1/datasets", `{"data":`+data+`}`).want(t, 422).problem(t)
		if len(p.Errors) == 0 || p.Errors[0].Where != where {
			t.Errorf("%s: %+v, want %s", data, p.Errors, where)
		}
	}
	s.call(t, "writer-a", "POST", "/api/v1/run-steps", `{"data":{"started_at":"yesterday"}}`).want(t, 422).problem(t)
	s.call(t, "writer-a", "POST", "/api/v1/datasets", `{"data":{"name":null}}`).want(t, 201)
	s.call(t, "writer-a", "POST", "/api/v1/datasets", `{"session":"nobody"}`).want(t, 400).problem(t)
	s.call(t, "writer-a", "PUT", "/api/v1/datasets/a%2Fb", `{}`).want(t, 400).problem(t)
	s.call(t, "writer-a", "GET", "/api/v1/datasets/a%2Fb", nil).want(t, 404).problem(t)
	s.call(t, "writer-a", "PUT", "/api/v1/datasets/d", `{"data":{"name":"`+strings.Repeat("x", store.MaxItemBytes)+`"}}`).want(t, 400).problem(t)
	s.call(t, "writer-a", "PUT", "/api/v1/datasets/d", `{"data":`+strings.Repeat("[", 20_000)).want(t, 400).problem(t)
}

func TestResultsGoWithTheirRun(t *testing.T) {
	s := newTestServer(t)
	s.call(t, "writer-a", "POST", "/api/v1/optimization-runs/run/results", api.PutItem{}).want(t, 404).problem(t)
	for _, run := range []string{"run", "other"} {
		s.call(t, "writer-a", "PUT", "/api/v1/optimization-runs/"+run, api.PutItem{}).want(t, 201)
		s.call(t, "writer-a", "PUT", "/api/v1/optimization-runs/"+run+"/results/first", api.PutItem{Title: run}).want(t, 201)
	}
	s.call(t, "writer-a", "PUT", "/api/v1/optimization-runs/run/results/a.b", api.PutItem{}).want(t, 400).problem(t)
	var i api.Item
	s.call(t, "writer-a", "GET", "/api/v1/optimization-runs/run/results/first", nil).want(t, 200).into(t, &i)
	if i.ID != "first" || i.Title != "run" || i.Parent != "run" {
		t.Errorf("result %+v", i)
	}
	s.call(t, "writer-a", "DELETE", "/api/v1/optimization-runs/run", nil).want(t, 204)
	s.call(t, "writer-a", "PUT", "/api/v1/optimization-runs/run", api.PutItem{}).want(t, 201)
	var page routes.Page[api.Item]
	s.call(t, "reader-a", "GET", "/api/v1/optimization-runs/run/results", nil).want(t, 200).into(t, &page)
	if len(page.Items) != 0 {
		t.Errorf("the results of a run that was removed: %+v", page)
	}
	s.call(t, "reader-a", "GET", "/api/v1/optimization-runs/other/results/first", nil).want(t, 200)
}

func TestMemoryIsKeptOnceAndChangedAtItsVersion(t *testing.T) {
	everyStore(t, func(t *testing.T, change func(*Options)) {
		s := newTestServer(t, change)
		session := string(tidemark.NewSessionID())
		var m api.MemoryItem
		s.call(t, "writer-a", "POST", "/api/v1/memory", api.PutMemory{Text: "Tabs.", Project: "/p", Session: session}).want(t, 201).into(t, &m)
		s.call(t, "writer-a", "POST", "/api/v1/memory", api.PutMemory{Text: "tabs.", Project: "/p"}).want(t, 200)
		s.call(t, "writer-a", "POST", "/api/v1/memory", api.PutMemory{Text: "Elsewhere."}).want(t, 201)
		one := "/api/v1/memory/" + m.ID
		s.call(t, "writer-a", "PUT", one, api.PutMemory{Text: "Spaces.", Project: "/p", Session: session}, `If-Match: "1"`).want(t, 200)
		s.call(t, "writer-a", "PUT", one, api.PutMemory{Text: "Late."}, `If-Match: "1"`).want(t, 412).problem(t)
		for query, want := range map[string]string{"?project=/p": "[Spaces.]", "?session=" + session: "[Spaces.]", "": "[Spaces. Elsewhere.]"} {
			var page routes.Page[api.MemoryItem]
			s.call(t, "reader-a", "GET", "/api/v1/memory"+query, nil).want(t, 200).into(t, &page)
			var texts []string
			for _, m := range page.Items {
				texts = append(texts, m.Text)
			}
			if got := fmt.Sprint(texts); got != want {
				t.Errorf("%q: %s, want %s", query, got, want)
			}
		}
		s.call(t, "other-a", "GET", one, nil).want(t, 404).problem(t)
		s.call(t, "writer-a", "DELETE", one, nil, `If-Match: "1"`).want(t, 412).problem(t)
		s.call(t, "writer-a", "DELETE", one, nil).want(t, 204)
		s.call(t, "reader-a", "GET", one, nil).want(t, 404).problem(t)
	})
}

func TestTheDescriptionNamesWhatItemsHave(t *testing.T) {
	s := newTestServer(t)
	text := string(s.call(t, "", "GET", "/openapi.json", nil).want(t, 200).Body)
	for _, want := range []string{"row_count", "volume_subpath", "train_ratio", "example_index", "/api/v1/ws", "/api/v1/jobs/{id}/output/stream"} {
		if !strings.Contains(text, want) {
			t.Errorf("the description does not name %s", want)
		}
	}
}
