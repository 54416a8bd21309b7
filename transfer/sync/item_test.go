package sync

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark/internal/records"
)

// items are lines as pack writes them, and others that have to be read as JSON.
var items = []item{
	{Line: &line{Kind: "user", At: time.Date(2026, 3, 4, 5, 6, 7, 8, time.UTC), Body: json.RawMessage(`{"blocks":[{"type":"text","text":"\"}}"}]}`)}},
	{Line: &line{Kind: "assistant", Key: "tool-1", At: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC), Parent: 7, Body: json.RawMessage(`{}`)}},
	{Line: &line{Kind: "branch", At: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC), Parent: 1}},
	{Line: &line{Kind: "user", At: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC), Born: &Name{Machine: "0123456789abcdef", Line: 12}, Body: json.RawMessage(`{"x":1}`)}},
	{Line: &line{Kind: "user", At: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC), Past: &Name{Session: "s", Past: 3}, Body: json.RawMessage(`{"x":1}`)}},
	{Line: &line{Kind: "user", Key: "ключ \\ \"", At: time.Date(2026, 3, 4, 5, 6, 7, 0, time.FixedZone("", 3600)), Body: json.RawMessage(`{"x":1}`)}},
	{Same: &same{Machine: "0123456789abcdef", Line: 5, Count: 9}},
	{Local: 4},
}

func TestAnItemIsReadAsJSONWouldBe(t *testing.T) {
	fast := 0
	for _, i := range items {
		text, err := records.Encode(i)
		if err != nil {
			t.Fatal(err)
		}
		fast += btoi((&itemReader{append(text, '\n')}).line(&line{}))
		sameAsJSON(t, append(text, '\n'))
	}
	if fast != 4 {
		t.Errorf("%d items were read without JSON, want 4", fast)
	}
}

func sameAsJSON(t *testing.T, text []byte) {
	t.Helper()
	got, err := readItem(text)
	if err == nil && got.Line != nil && len(got.Line.Body) > 0 && !json.Valid(got.Line.Body) {
		return // who makes an entry of it finds out
	}
	var want item
	if wantErr := json.Unmarshal(text, &want); (wantErr == nil) != (err == nil) {
		t.Fatalf("%s: %v, want %v", text, err, wantErr)
	}
	if err == nil {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", text, diff)
		}
	}
}

func FuzzItem(f *testing.F) {
	for _, i := range items {
		text, err := records.Encode(i)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) { sameAsJSON(t, text) })
}
