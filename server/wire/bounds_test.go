package wire

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
	"github.com/tidemark-sessions/tidemark/backend/backendtest"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/backend/remote"
)

func TestARequestThatIsNotOneIsRefused(t *testing.T) {
	var zip bytes.Buffer
	z := gzip.NewWriter(&zip)
	z.Write(bytes.Repeat([]byte(" "), api.MaxQuestionBytes+10))
	z.Close()
	h := Handler(func(*http.Request) (tidemark.Backend, error) { return memory.New(), nil })
	for _, c := range []struct {
		name, method, call, media, packed, body string
		want                                    int
	}{
		{"unknown call", "POST", "drop", api.MediaJSON, "", "{}", 404},
		{"another method", "GET", "get", api.MediaJSON, "", "{}", 405},
		{"a change by a link", "GET", "share", api.MediaJSON, "", "{}", 405},
		{"a form", "POST", "share", "application/x-www-form-urlencoded", "", "{}", 415},
		{"no media type", "POST", "get", "", "", "{}", 415},
		{"another packing", "POST", "get", api.MediaJSON, "br", "{}", 415},
		{"not packed", "POST", "get", api.MediaJSON, "gzip", "{}", 400},
		{"too large", "POST", "get", api.MediaJSON, "", strings.Repeat(" ", api.MaxQuestionBytes+10), 413},
		{"too large when unpacked", "POST", "get", api.MediaJSON, "gzip", zip.String(), 413},
		{"no JSON", "POST", "get", api.MediaJSON, "", "kind=session", 400},
		{"nested deeply", "POST", "list", api.MediaJSON, "", strings.Repeat("[", 1<<20), 400},
		{"a bad key", "POST", "lines", api.MediaJSON, "", `{"kind":"session","id":"../../etc"}`, 400},
		{"a bad kind", "POST", "list", api.MediaJSON, "", `{"kind":"Session"}`, 400},
		{"a bad order", "POST", "list", api.MediaJSON, "", `{"kind":"session","order":"random"}`, 400},
		{"a bad limit", "POST", "list", api.MediaJSON, "", `{"kind":"session","limit":-1}`, 400},
		{"too many spans", "POST", "lines", api.MediaJSON, "", `{"kind":"session","id":"s","spans":[{}` + strings.Repeat(",{}", api.MaxSpans) + `]}`, 400},
		{"half a batch", "POST", "commit", api.MediaLines, "", `{"batch":{"id":"b"}}` + "\n", 400},
		{"a line of no log", "POST", "commit", api.MediaLines, "", `{"batch":{"id":"b"}}` + "\n" + `{"line":{}}` + "\n", 400},
		{"two things at once", "POST", "commit", api.MediaLines, "", `{"batch":{"id":"b"},"end":true}` + "\n", 400},
		{"a bad batch", "POST", "commit", api.MediaLines, "", `{"batch":{"id":"../b"}}` + "\n" + `{"end":true}` + "\n", 400},
		{"a session that is none", "POST", "shared", api.MediaJSON, "", `{"session":"7f3a"}`, 400},
	} {
		r := httptest.NewRequest(c.method, api.BackendPath+c.call, strings.NewReader(c.body))
		r.Header.Set("Content-Type", c.media)
		r.Header.Set("Content-Encoding", c.packed)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if p, err := api.ReadProblem(w.Body.Bytes()); w.Code != c.want || err != nil || w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: status %d, %v, %v; want a problem with %d", c.name, w.Code, p, err, c.want)
		}
	}
}

func TestAnAttemptIsNotTakenForAnother(t *testing.T) {
	h := Handler(func(*http.Request) (tidemark.Backend, error) { return memory.New(), nil })
	send := func(token, batch string) (int, string) {
		r := httptest.NewRequest(http.MethodPost, api.BackendPath+"commit", strings.NewReader(fmt.Sprintf(`{"batch":{"id":%q}}`+"\n"+`{"end":true}`+"\n", batch)))
		r.Header.Set("Content-Type", api.MediaLines)
		r.Header.Set("Authorization", token)
		r.Header.Set(api.AttemptHeader, "one")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code, w.Header().Get(api.RepeatedHeader)
	}
	for _, c := range []struct {
		token, batch string
		want         int
		repeated     string
	}{{"ada", "a", 200, ""}, {"ada", "a", 200, "true"}, {"ada", "b", 400, ""}, {"bob", "a", 200, ""}} {
		if got, repeated := send(c.token, c.batch); got != c.want || repeated != c.repeated {
			t.Errorf("%s, batch %s: status %d, repeated %q; want %d, %q", c.token, c.batch, got, repeated, c.want, c.repeated)
		}
	}
}

// backendEndless has no end of records.
type backendEndless struct {
	*memory.Backend
	left chan error
}

func (e backendEndless) List(ctx context.Context, q tidemark.Query) iter.Seq2[tidemark.Record, error] {
	return func(yield func(tidemark.Record, error) bool) {
		for i := 0; ; i++ {
			if !yield(backendtest.NewRecord(tidemark.Key{Kind: q.Kind, ID: fmt.Sprint("r", i)}, 1, strings.Repeat("x", 1000)), nil) {
				e.left <- nil
				return
			}
		}
	}
}

func TestTheServerStopsWhenTheClientGoesAway(t *testing.T) {
	be := backendEndless{memory.New(), make(chan error, 1)}
	b := backendOpened(t, backendServed(t, be).URL)
	n := 0
	for _, err := range b.List(t.Context(), tidemark.Query{Kind: "job"}) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == 100 {
			break
		}
	}
	<-be.left
}

// backendTorn has a record and a line that cannot be read.
type backendTorn struct{ *memory.Backend }

func (b backendTorn) List(ctx context.Context, q tidemark.Query) iter.Seq2[tidemark.Record, error] {
	return func(yield func(tidemark.Record, error) bool) {
		for r, err := range b.Backend.List(ctx, q) {
			if r.ID == "torn" {
				r, err = tidemark.Record{Key: r.Key}, &tidemark.Damage{Key: r.Key, Place: "page 7", What: "torn"}
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

func (b backendTorn) Lines(ctx context.Context, log tidemark.Key, spans ...tidemark.Span) iter.Seq2[tidemark.Line, error] {
	return func(yield func(tidemark.Line, error) bool) {
		for l, err := range b.Backend.Lines(ctx, log, spans...) {
			if l.Seq == 1 {
				l, err = tidemark.Line{Seq: 1}, &tidemark.Damage{Key: log, Seq: 1, What: "torn"}
			}
			if !yield(l, err) {
				return
			}
		}
		yield(tidemark.Line{}, tidemark.Storagef("the disk is gone"))
	}
}

func TestDamageIsReadOverAndOtherErrorsEndAReading(t *testing.T) {
	kept := memory.New()
	log := tidemark.Key{Kind: "session", ID: "s"}
	backendKeep(t, kept, backendLine(log))
	for _, id := range []string{"a", "torn", "z"} {
		backendKeep(t, kept, tidemark.Batch{Puts: []tidemark.Record{backendtest.NewRecord(tidemark.Key{Kind: "job", ID: id}, 1, "{}")}})
	}
	b := backendOpened(t, backendServed(t, backendTorn{kept}).URL)
	var got []string
	for r, err := range b.List(t.Context(), tidemark.Query{Kind: "job", Order: tidemark.ByID}) {
		got = append(got, fmt.Sprint(r.ID, " ", err))
	}
	for l, err := range b.Lines(t.Context(), log) {
		got = append(got, fmt.Sprint(l.Seq, " ", err, " ", errors.Is(err, tidemark.ErrStorage)))
	}
	backendSame(t, "reading", []string{"a <nil>", "torn job/torn (page 7): damaged: torn", "z <nil>", "1 session/s: line 1: damaged: torn false", "0 the disk is gone true"}, got)
}

func TestLongAnswersToOtherHostsArePacked(t *testing.T) {
	kept := memory.New()
	log := tidemark.Key{Kind: "session", ID: "s"}
	for seq := int64(1); seq <= 300; seq++ {
		backendKeep(t, kept, tidemark.Batch{Appends: []tidemark.Append{{Log: log, Lines: []tidemark.Line{backendtest.NewLine(log, seq, strings.Repeat("tide ", 100))}}}})
	}
	s := backendServed(t, kept)
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+api.BackendPath+"lines", strings.NewReader(`{"kind":"session","id":"s","spans":[{}]}`))
	r.Header.Set("Content-Type", api.MediaJSON)
	r.Header.Set("Authorization", "Bearer "+backendToken)
	r.Header.Set("Accept-Encoding", "gzip")
	res, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	packed, err := io.ReadAll(res.Body)
	if err != nil || res.Header.Get("Content-Encoding") != "gzip" || len(packed) > 50_000 {
		t.Errorf("%d bytes, packed with %q, %v", len(packed), res.Header.Get("Content-Encoding"), err)
	}
	b, err := remote.Open(t.Context(), "http://tidemark.test", &remote.Options{Plain: true, Token: backendTokens, HTTP: &http.Client{Transport: backendToward(s.Listener.Addr().String())}})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	backendSame(t, "lines", backendAll(t, kept.Lines(t.Context(), log)), backendAll(t, b.Lines(t.Context(), log)))
	large := tidemark.Batch{ID: "large", Appends: []tidemark.Append{{Log: log, Lines: []tidemark.Line{backendtest.NewLine(log, 301, strings.Repeat("x", 1<<20))}}}}
	if _, err := b.Commit(t.Context(), large); err != nil {
		t.Errorf("Commit = %v", err)
	}
}
