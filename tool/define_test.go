package tool

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tidemark-sessions/tidemark"
)

func define(t *testing.T, b *Box, d Definition) {
	t.Helper()
	if err := b.Define(d); err != nil {
		t.Fatal(err)
	}
}

func TestDefinedToolGetsItsInputOnStdinAndInAVariable(t *testing.T) {
	b := shellBox(t, Options{})
	sh(t, b, "mkdir sub; cd sub; export SEEN=yes")
	define(t, b, Definition{Name: "echo_it", Description: "Echoes.", Schema: json.RawMessage(`{ "type": "object", "required": ["x"] }`),
		Command: `cat; echo; echo "$TOOL_INPUT"; echo "${PWD##*/} $SEEN"; echo err >&2`})
	res := call(t, b, "echo_it", m{"x": "it's \"so\""})
	in := `{"x":"it's \"so\""}`
	wantText(t, res, in+"\n"+in+"\nsub yes\nerr\n")
	wantError(t, call(t, b, "echo_it", m{"y": 1}), `"x" is missing`)
	big := strings.Repeat("x", 300_000)
	define(t, b, Definition{Name: "big", Command: `wc -c; echo "[${TOOL_INPUT-unset}]"`})
	wantHas(t, call(t, b, "big", m{"x": big}), "300008", "[unset]")
	define(t, b, Definition{Name: "deaf", Command: "exec true"})
	wantText(t, call(t, b, "deaf", m{"x": big}), "(no output)")
	define(t, b, Definition{Name: "fails", Command: "echo why; exit 4"})
	wantError(t, call(t, b, "fails", m{}), "why\n", "exit code 4")
}

func TestDefinedToolIsEndedWithItsChildren(t *testing.T) {
	b := shellBox(t, Options{Timeout: 2 * time.Second})
	define(t, b, Definition{Name: "slow", Command: stubborn["ignores SIGTERM"]})
	wantError(t, call(t, b, "slow", m{}), "stopped after 2s")
	gone(t, pidIn(t, b))

	b = shellBox(t, Options{})
	define(t, b, Definition{Name: "leaves", Command: "sleep 1000 & echo $! >pid"})
	call(t, b, "leaves", m{})
	gone(t, pidIn(t, b))

	b = shellBox(t, Options{})
	define(t, b, Definition{Name: "waits", Command: stubborn["child"]})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { pidIn(t, b); cancel() }()
	if _, err := try(t, ctx, b, "waits", m{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	gone(t, pidIn(t, b))

	b = shellBox(t, Options{})
	define(t, b, Definition{Name: "waits", Command: stubborn["child"]})
	go func() { pidIn(t, b); b.Close() }()
	// Its process may be there a moment before the box knows of it.
	if res, err := try(t, t.Context(), b, "waits", m{}); !res.IsError || err != nil && !errors.Is(err, errClosed) {
		t.Errorf("%+v, %v", res, err)
	}
	gone(t, pidIn(t, b))
	if _, err := try(t, t.Context(), b, "waits", m{}); err == nil {
		t.Error("a closed box runs a defined tool")
	}
}

func TestDefinitionsAreCheckedReplacedAndListedInOrder(t *testing.T) {
	b := newBox(t, Options{Shell: "/bin/bash", Reserved: []string{"spawn"}})
	for _, d := range []Definition{
		{Name: "", Command: "x"}, {Name: "bash", Command: "x"}, {Name: "python", Command: "x"}, {Name: "spawn", Command: "x"}, {Name: "a b", Command: "x"},
		{Name: "../x", Command: "x"}, {Name: "1x", Command: "x"}, {Name: strings.Repeat("x", 65), Command: "x"}, {Name: "x", Command: " "}, {Name: "x", Command: "a\x00"},
		{Name: "x", Command: "x", Schema: json.RawMessage(`[]`)}, {Name: "x", Command: "x", Schema: json.RawMessage(`{"type":"string"}`)},
		{Name: "x", Command: "x", Schema: json.RawMessage(`{`)}, {Name: "x", Command: strings.Repeat("x", maxDefinition+1)},
	} {
		if err := b.Define(d); !errors.Is(err, tidemark.ErrInvalid) {
			t.Errorf("%+v: %v, want ErrInvalid", d, err)
		}
	}
	define(t, b, Definition{Name: "one", Command: "1"})
	define(t, b, Definition{Name: "two", Command: "2"})
	before, _ := b.Find("one").Asks(nil)
	define(t, b, Definition{Name: "one", Command: "rm -r x"})
	if after, ask := b.Find("one").Asks(nil); after == before || !ask {
		t.Errorf("an approval of the old definition covers the new one: %q", after)
	}
	var names []string
	for _, d := range b.Defined() {
		names = append(names, d.Name)
	}
	if diff := cmp.Diff([]string{"one", "two"}, names); diff != "" {
		t.Error(diff)
	}
	if !b.Undefine("one") || b.Undefine("one") || b.Find("one") != nil || b.Find("two") == nil {
		t.Error("Undefine does not remove one tool once")
	}
}
