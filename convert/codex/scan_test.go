package codex

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func FuzzSplit(f *testing.F) {
	for _, seed := range []string{`{}`, `{"a":1,"b":"x\"}","c":{"d":[1,{"e":null}]}}`, ` { "a" : [ ] , "b\u0041" : true } `, `[1,"a,b",[2],{}]`, `"\\"`, `{"a":"\\","b":-1e5}`, `{"a":1,"a":2}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if !json.Valid(b) {
			return
		}
		var object map[string]json.RawMessage
		if err := json.Unmarshal(b, &object); err == nil {
			if d := cmp.Diff(object, split(b)); d != "" && len(object) > 0 {
				t.Error(d)
			}
		}
		var array []json.RawMessage
		if err := json.Unmarshal(b, &array); err == nil && array != nil {
			got, ok := elements(b)
			if d := cmp.Diff(array, got); d != "" || !ok {
				t.Error(d)
			}
		}
		var want, got string
		if json.Unmarshal(b, &want) == nil && text(bytes.TrimSpace(b), &got) && want != got {
			t.Errorf("text(%q) = %q, want %q", b, got, want)
		}
	})
}
