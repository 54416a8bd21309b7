package convert

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func TestScanSplitsWhatAProgramWrote(t *testing.T) {
	var s Scanner
	v, ok := s.Scan([]byte(`{"a":[1,"x\n",{"b":null}],"c":{"d":true,"<":-0.5e+3},"e":""}`))
	if !ok || v.Kind() != '{' || !v.Plain() {
		t.Fatalf("Scan = %v, kind %q", ok, v.Kind())
	}
	var got []string
	for key, member := range v.Members() {
		got = append(got, string(key)+"="+string(member.Raw()))
		for e := range member.Elements() {
			got = append(got, string(e.Raw()))
		}
		for key, inner := range member.Members() {
			got = append(got, string(key)+":"+string(inner.Raw()))
		}
		if key[0] == 'c' && member.Plain() {
			t.Error("an object whose key json.Marshal escapes is plain")
		}
	}
	want := `a=[1,"x\n",{"b":null}] 1 "x\n" {"b":null} c={"d":true,"<":-0.5e+3} d:true <:-0.5e+3 e=""`
	if strings.Join(got, " ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, " "), want)
	}
}

func TestScanLeavesToOthersWhatItCannotCopy(t *testing.T) {
	var s Scanner
	for _, text := range []string{``, ` {}`, `{} `, `{"a": 1}`, `{"a" :1}`, `[1, 2]`, "[\n1]", `{"a":1,}`, `[1,]`, `{"a"}`, `{a:1}`, `{"a":}`, `01`, `1.`, `-`, `+1`, `1e`,
		`.5`, `tru`, `nul`, `"`, `"a`, `"\x"`, `"\u12"`, `"\u12g4"`, "\"\x01\"", "\"a\nb\"", `{}{}`, `[]]`, `{"a":1 }`, `'a'`,
		strings.Repeat("[", maxScanned+2) + strings.Repeat("]", maxScanned+2)} {
		if _, ok := s.Scan([]byte(text)); ok {
			t.Errorf("%q is taken", text)
		}
	}
}

// FuzzScan compares what a Scanner makes of a text with encoding/json: it takes
// only JSON without white space, and texts, values and escapes are the same.
func FuzzScan(f *testing.F) {
	for _, seed := range []string{`{"a":[1,"x\n",{"b":null}],"c":{"d":true}}`, `"\ud83c\udf0a \ud83c \u00e9 <&> \/"`, "\"\u2028 \xff \xe2\x80\xa8 \xe2\x80\"", `[-0,1E5,0.10,1e-7,[[[]]],{}]`,
		"{\"\u00e9\":1,\"a<\":2,\"\\u0061\":3}", `{"a": 1}`, `"12345678\"12345678\\"`, "\"1234567\x00\"", `"\u0000\b\f\r\t"`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var s Scanner
		v, ok := s.Scan(text)
		if !ok {
			return
		}
		var tight bytes.Buffer
		if err := json.Compact(&tight, text); err != nil || !bytes.Equal(tight.Bytes(), text) {
			t.Fatalf("%q is taken; it is %q, %v", text, tight.Bytes(), err)
		}
		if want, err := json.Marshal(json.RawMessage(text)); err != nil || !bytes.Equal(AppendHTML(nil, text), want) {
			t.Fatalf("AppendHTML(%q) = %q, want %q", text, AppendHTML(nil, text), want)
		}
		compareScanned(t, v)
	})
}

func compareScanned(t *testing.T, v Value) {
	t.Helper()
	switch v.Kind() {
	case '{':
		var want map[string]json.RawMessage
		if err := json.Unmarshal(v.Raw(), &want); err != nil {
			t.Fatal(err)
		}
		got := map[string]json.RawMessage{}
		for key, member := range v.Members() {
			got[string(key)] = member.Raw()
			compareScanned(t, member)
		}
		for key, raw := range got {
			if v.Plain() && !bytes.Equal(want[key], raw) || v.Plain() && len(got) != len(want) {
				t.Fatalf("%s: %q is %s, want %s", v.Raw(), key, raw, want[key])
			}
		}
	case '[':
		var want []json.RawMessage
		if err := json.Unmarshal(v.Raw(), &want); err != nil {
			t.Fatal(err)
		}
		n := 0
		for e := range v.Elements() {
			if !bytes.Equal(e.Raw(), want[n]) {
				t.Fatalf("%s: element %d is %s", v.Raw(), n, e.Raw())
			}
			n++
			compareScanned(t, e)
		}
		if n != len(want) {
			t.Fatalf("%s has %d elements", v.Raw(), n)
		}
	case '"':
		var want string
		if err := json.Unmarshal(v.Raw(), &want); err != nil {
			t.Fatal(err)
		}
		if got, ok := v.Text(); got != want || !ok {
			t.Fatalf("the text of %s is %q, want %q", v.Raw(), got, want)
		}
	default:
		if _, ok := v.Text(); ok {
			t.Fatalf("%s is a text", v.Raw())
		}
	}
}

// FuzzText compares Text with encoding/json, for anything between quotes.
func FuzzText(f *testing.F) {
	for _, seed := range []string{`a`, `a\nb`, `\`, `\"`, `"`, `\ud800`, `\ud83c\udf0a`, "\xff\\n", `\u00`, "\x01\\n", `\x`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, inner []byte) {
		raw := append(append([]byte{'"'}, inner...), '"')
		var want string
		if err := json.Unmarshal(raw, &want); err != nil {
			if bytes.IndexByte(inner, '\\') >= 0 {
				if s, ok := Text(raw); ok {
					t.Fatalf("%q is no string, but the text %q", raw, s)
				}
			}
			return
		}
		if got, ok := Text(raw); got != want || !ok {
			t.Fatalf("Text(%q) = %q, %v, want %q", raw, got, ok, want)
		}
	})
}

// BenchmarkScan is what checking and splitting a line costs, beside json.Valid.
func BenchmarkScan(b *testing.B) {
	line := []byte(`{"type":"assistant","uuid":"0000","message":{"content":[{"type":"text","text":"` + strings.Repeat(`some words\nof an \"answer\", and more of them `, 40) + `"}]},"n":12.5}`)
	b.Run("own", func(b *testing.B) {
		b.SetBytes(int64(len(line)))
		var s Scanner
		for b.Loop() {
			if _, ok := s.Scan(line); !ok {
				b.Fatal("refused")
			}
		}
	})
	b.Run("json.Valid", func(b *testing.B) {
		b.SetBytes(int64(len(line)))
		for b.Loop() {
			if !json.Valid(line) {
				b.Fatal("refused")
			}
		}
	})
}
