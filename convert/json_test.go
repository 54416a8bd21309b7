package convert_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark/convert"
)

func TestAFieldOfAnotherTypeStaysEmptyAndTheRestIsTaken(t *testing.T) {
	var v struct {
		Name  string
		Count int
	}
	if err := convert.Loose([]byte(`{"Name":["odd"],"Count":3}`), &v); err != nil || v.Name != "" || v.Count != 3 {
		t.Errorf("%+v, %v", v, err)
	}
	if err := convert.Loose([]byte(`{"Name":`), &v); err == nil {
		t.Error("half an object is taken")
	}
}

func TestTextIsEncodedAsItWasTyped(t *testing.T) {
	b, err := convert.Encode(map[string]string{"a": "<b> & \u2028"})
	if err != nil || string(b) != `{"a":"<b> & \u2028"}` {
		t.Errorf("%s, %v", b, err)
	}
}

func TestOnlyATextIsAField(t *testing.T) {
	object := json.RawMessage(`{"a":"x","b":1,"c":null}`)
	for key, want := range map[string]string{"a": "x", "b": "", "c": "", "d": ""} {
		if got := convert.Field(object, key); got != want {
			t.Errorf("Field(%s) = %q", key, got)
		}
	}
	if convert.Field(json.RawMessage(`["a"]`), "a") != "" {
		t.Error("a list has a field")
	}
}

func TestFieldsAreKeptUnderTheirTool(t *testing.T) {
	if got := convert.Keep("x", map[string]json.RawMessage{"b": json.RawMessage("1")}); string(got) != `{"x":{"b":1}}` {
		t.Errorf("%s", got)
	}
	if got := convert.Keep("x", nil); got != nil {
		t.Errorf("nothing is kept as %s", got)
	}
}

func TestTheSameValueIsTheSameHoweverItIsWritten(t *testing.T) {
	for pair, want := range map[[2]string]bool{
		{`{"a":1,"b":[true]}`, `{ "b":[ true ],"a":1 }`}: true,
		{`{"a":"<"}`, `{"a":"\u003c"}`}:                  true,
		{`1.0`, `1`}:                                     false,
		{`12345678901234567890`, `12345678901234567891`}: false,
		{`{`, `{`}: true,
		{`{`, `[`}: false,
		{``, `{}`}: false,
	} {
		if got := convert.SameJSON([]byte(pair[0]), []byte(pair[1])); got != want {
			t.Errorf("SameJSON(%s, %s) = %v", pair[0], pair[1], got)
		}
	}
}

func TestPartsAreTheCommasOutsideOfTexts(t *testing.T) {
	for raw, want := range map[string]int{``: 0, `[1,2,3]`: 2, `{"a,b":"\",,","c":[1,2]}`: 2} {
		if got := convert.Parts([]byte(raw)); got != want {
			t.Errorf("Parts(%s) = %d, want %d", raw, got, want)
		}
	}
}

func TestABlobIsDecodedWhereItCanBe(t *testing.T) {
	if got := []string{string(convert.Blob("aGk=")), string(convert.Blob("hi there")), string(convert.Blob(""))}; !cmp.Equal(got, []string{"hi", "hi there", ""}) {
		t.Errorf("%q", got)
	}
}

func TestATimeIsOneThatTheStoreCanKeep(t *testing.T) {
	for text, want := range map[string]string{
		"2026-05-01T12:00:00.123456789+02:00": "2026-05-01T10:00:00.123456Z",
		"9999-12-31T23:59:59-01:00":           "0001-01-01T00:00:00Z",
		"0000-01-01T00:00:00Z":                "0001-01-01T00:00:00Z",
		"yesterday":                           "0001-01-01T00:00:00Z",
	} {
		if got := convert.ParseTime(text).Format(time.RFC3339Nano); got != want {
			t.Errorf("ParseTime(%s) = %s, want %s", text, got, want)
		}
	}
	if got := convert.Milli(1500); !got.Equal(time.Unix(1, 5e8)) {
		t.Errorf("Milli(1500) = %s", got)
	}
	for _, ms := range []float64{0, -1, 1e300} {
		if got := convert.Milli(ms); !got.IsZero() {
			t.Errorf("Milli(%g) = %s", ms, got)
		}
	}
}

// The counting of parts and the one form of a value meet foreign bytes before
// anything has checked them.
func FuzzCanonical(f *testing.F) {
	for _, seed := range []string{``, `{"b":1,"a":[1.50,"<\u2028"]}`, `[[[`, `{"a":1,"a":2}`, `"\ud800"`, `1 2`, strings.Repeat("[", 20_000)} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		one := convert.Canonical(raw)
		if !json.Valid(raw) {
			return
		}
		if !json.Valid(one) || string(convert.Canonical(one)) != string(one) {
			t.Errorf("%q: its form %q is not one", raw, one)
		}
		if !convert.SameJSON(raw, one) || convert.Parts(one) > convert.Parts(raw) {
			t.Errorf("%q is not %q", raw, one)
		}
	})
}
