package tidemark

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// sessionBody writes a session as the body of its record is written.
func sessionBody(s Session) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(s)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// checkSession wants of ParseSession what encoding/json reads, wherever it reads
// anything.
func checkSession(t fataler, b []byte) (read bool) {
	t.Helper()
	got, ok := ParseSession(b)
	if !ok {
		return false
	}
	var want Session
	if err := json.Unmarshal(b, &want); err != nil {
		t.Fatalf("ParseSession(%q) reads what encoding/json does not: %v", b, err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("ParseSession(%q) differs from encoding/json:\n%s", b, diff)
	}
	return true
}

func drawSession(t *rapid.T) Session {
	text := rapid.OneOf(rapid.Just(""), rapid.String(), rapid.SampledFrom([]string{"\"", "\\", "a\nb", "\u2028", "<&>", "/a/b", "日本語 é", "12345678"}))
	number := rapid.OneOf(rapid.Just(int64(0)), rapid.Int64())
	when := rapid.Map(rapid.Int64Range(-1<<53, 1<<57), func(micros int64) time.Time { return time.UnixMicro(micros).UTC() })
	s := Session{
		ID: SessionID(text.Draw(t, "id")), Title: text.Draw(t, "title"), Agent: text.Draw(t, "agent"), Model: text.Draw(t, "model"),
		Mode: text.Draw(t, "mode"), Project: text.Draw(t, "project"), Tool: text.Draw(t, "tool"), ForeignID: text.Draw(t, "foreign_id"),
		Tags: rapid.SliceOfN(text, 0, 3).Draw(t, "tags"), CreatedAt: when.Draw(t, "created_at"),
		Pinned: rapid.Bool().Draw(t, "pinned"), OnHold: rapid.Bool().Draw(t, "on_hold"), Handed: rapid.Bool().Draw(t, "handed"),
		Redacted: number.Draw(t, "redacted"), Charged: number.Draw(t, "charged"),
		Extra: json.RawMessage(rapid.SampledFrom([]string{"", `null`, `1`, `{}`, `[1,{"a":[{}]}]`, `{"imported":{"tool":"x"}}`, ` { "a" : 1 } `}).Draw(t, "extra")),
	}
	if rapid.Bool().Draw(t, "gone") {
		s.Gone = when.Draw(t, "since")
	}
	if rapid.Bool().Draw(t, "base") {
		s.Base = &Base{Session: SessionID(text.Draw(t, "base of")), Seq: number.Draw(t, "seq"), Owned: rapid.Bool().Draw(t, "owned")}
	}
	if rapid.Bool().Draw(t, "draft") {
		s.Draft = &DraftSize{After: number.Draw(t, "after"), Messages: number.Draw(t, "messages")}
	}
	return s
}

func TestAnySessionThatIsWrittenIsReadAsEncodingJSONDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, err := sessionBody(drawSession(t))
		if err != nil {
			t.Fatal(err)
		}
		if !checkSession(t, b) {
			t.Fatalf("the own form is not read: %s", b)
		}
	})
}

func TestASessionWithAnyByteChangedMeansWhatEncodingJSONSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, err := sessionBody(drawSession(t))
		if err != nil {
			t.Fatal(err)
		}
		odd := rapid.OneOf(rapid.Byte(), rapid.SampledFrom([]byte("{}[]\",:\\ \n0ntZ-+")))
		at := rapid.IntRange(0, len(b)-1).Draw(t, "at")
		switch rapid.IntRange(0, 2).Draw(t, "how") {
		case 0:
			b[at] = odd.Draw(t, "byte")
		case 1:
			b = append(b[:at], b[at+1:]...)
		case 2:
			b = append(b[:at], append([]byte{odd.Draw(t, "byte")}, b[at:]...)...)
		}
		checkSession(t, b)
	})
}

func FuzzParseSession(f *testing.F) {
	for _, s := range []Session{
		{},
		{ID: NewSessionID(), Title: "a \"title\"\n", Tags: []string{"a", "b"}, CreatedAt: time.Unix(1, 0), Pinned: true, Extra: json.RawMessage(`{"a":null}`)},
		{Base: &Base{Session: NewSessionID(), Seq: 7, Owned: true}, Draft: &DraftSize{1, 2}, Gone: time.Unix(2, 5).UTC(), Redacted: 3, Charged: 4, Handed: true, OnHold: true},
	} {
		b, err := sessionBody(s)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte(`{"id":"x","created_at":null}`))
	f.Add([]byte(`{"id":"x","id":"y"}`))
	f.Fuzz(func(t *testing.T, b []byte) { checkSession(t, b) })
}

func BenchmarkParseSession(b *testing.B) {
	text, err := sessionBody(Session{ID: NewSessionID(), Title: "session 17 about the list of files", Model: "demo", Mode: ModeLocal, Project: "/projects/p17", CreatedAt: time.Now().UTC()})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := ParseSession(text); !ok {
			b.Fatal("not read")
		}
	}
}
