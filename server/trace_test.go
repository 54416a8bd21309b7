package server

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestACollectorIsToldOfEachRequestUnderTheCallersTrace(t *testing.T) {
	var got struct {
		ResourceSpans []struct {
			ScopeSpans []struct {
				Spans []struct {
					TraceID, SpanID, ParentSpanID, Name string
					Kind                                int
					Attributes                          []struct {
						Key   string
						Value struct{ StringValue, IntValue string }
					}
				}
			}
		}
	}
	c := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s as %s", r.URL.Path, r.Header.Get("Content-Type"))
		}
		body, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(body, &got); err != nil {
			t.Error(err)
		}
	}))
	defer c.Close()
	tracer, end := Tracing(c.URL+"/", "test", nil)
	s := newTestServer(t, func(o *Options) { o.Tracer = tracer })
	s.call(t, "reader-a", "GET", "/api/v1/nothing?word=mango", nil, "Traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	if err := end(context.Background()); err != nil {
		t.Fatal(err)
	}
	if len(got.ResourceSpans) != 1 || len(got.ResourceSpans[0].ScopeSpans) != 1 || len(got.ResourceSpans[0].ScopeSpans[0].Spans) != 1 {
		t.Fatalf("got %+v", got)
	}
	span := got.ResourceSpans[0].ScopeSpans[0].Spans[0]
	if span.TraceID != "0af7651916cd43dd8448eb211c80319c" || span.ParentSpanID != "b7ad6b7169203331" || span.Name != "GET /api/" || span.Kind != 2 {
		t.Errorf("span %+v", span)
	}
	for _, a := range span.Attributes {
		if a.Key == "http.response.status_code" && a.Value.IntValue == "404" {
			return
		}
	}
	t.Errorf("no status in %+v", span.Attributes)
}
