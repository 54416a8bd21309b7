package transfer_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/transfer"
)

// FuzzEntryLine feeds lines to append's parser: what it accepts can be kept
// and comes back the same, and what it refuses is the user's mistake.
func FuzzEntryLine(f *testing.F) {
	for _, seed := range []string{
		`{"role":"user","content":"hello"}`,
		`{"role":"assistant","blocks":[{"type":"tool_use","id":"t","name":"bash","input":{"a":[1,null,"\u0000"]}}],"usage":{"cost_usd":0.1}}`,
		`{"role":"user","content":"x","parent":3,"at":"2026-01-02T03:04:05.678901+02:00","key":"k","extra":{"a":1}}`,
		`{"role":"user","role":"user"}`, `[[[[`, `{"seq":1,"depth":2,"nodes":3,"turn":4,"kind":"branch"}`, "\xff", `null`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		e, err := transfer.ParseEntry(line)
		if err != nil {
			if !errors.Is(err, tidemark.ErrInvalid) {
				t.Fatalf("error %v, want ErrInvalid", err)
			}
			return
		}
		l, err := e.Line()
		if err != nil {
			return // the store refuses it with the same error
		}
		back, err := tidemark.EntryOf(l)
		if err != nil {
			t.Fatalf("kept as %s, which cannot be read: %v", l.Body, err)
		}
		if !e.Role.Valid() || e.Kind != "" && e.Kind != tidemark.KindMessage {
			return // the store refuses or writes these otherwise
		}
		e.Kind, back.Kind = "", ""
		want, _ := json.Marshal(e)
		got, _ := json.Marshal(back)
		if !reflect.DeepEqual(want, got) {
			t.Fatalf("kept %s, read back %s", want, got)
		}
	})
}
