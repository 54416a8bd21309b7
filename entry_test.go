package tidemark

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func roundTrip(t fataler, e Entry) Entry {
	t.Helper()
	l, err := e.Line()
	if err != nil {
		t.Fatalf("Line: %v", err)
	}
	got, err := EntryOf(l)
	if err != nil {
		t.Fatalf("EntryOf: %v", err)
	}
	return got
}

func TestAnEntryComesBackFromItsLine(t *testing.T) {
	for _, e := range []Entry{
		{Seq: 1, At: noon, Kind: KindMessage, Role: User, Blocks: []Block{Text("hello\n")}},
		{Seq: 2, Position: Position{1, 2, 1, 0}, At: noon, Kind: KindMessage, Role: Assistant, Model: "m", Key: "k", Usage: &Usage{OutputTokens: 3, CostUSD: 0.5},
			Blocks: []Block{{Type: BlockThinking, Provider: "anthropic", Raw: "{ \"signature\": \"x\" }"}, {Type: BlockToolUse, ID: "1", Name: "bash", Input: json.RawMessage(`{"a":1}`)}}},
		{Seq: 3, At: noon, Kind: KindMessage, Role: Tool, Blocks: []Block{{Type: BlockToolResult, ToolUseID: "1", IsError: true, Text: "no"}}},
		{Seq: 4, At: noon, Kind: KindMessage, Role: System},
		{Seq: 5, Position: Position{Parent: 2}, At: noon, Kind: KindBranch},
		{Seq: 6, At: noon, Kind: KindGap, Extra: json.RawMessage(`{"was":[1,2]}`)},
		{Seq: 7, At: noon, Kind: "unheard_of"},
	} {
		if diff := cmp.Diff(e, roundTrip(t, e)); diff != "" {
			t.Errorf("entry %d:\n%s", e.Seq, diff)
		}
	}
}

func TestALineTellsTheRoleInTheClear(t *testing.T) {
	for _, r := range []Role{System, User, Assistant, Tool} {
		l, err := Say(r, "x").Line()
		if err != nil || l.Kind != string(r) {
			t.Errorf("the line of a message by %s has kind %q, %v", r, l.Kind, err)
		}
	}
	if l, err := (Entry{Kind: KindBranch}).Line(); err != nil || l.Kind != KindBranch {
		t.Errorf("the line of a branch has kind %q, %v", l.Kind, err)
	}
}

func TestAnyMessageComesBackFromItsLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := drawEntry(t)
		e.Kind, e.Role, e.At = KindMessage, rapid.SampledFrom([]Role{System, User, Assistant, Tool}).Draw(t, "role"), noon
		l, err := e.Line()
		if err != nil {
			if !errors.Is(err, ErrInvalid) {
				t.Fatalf("Line = %v, want ErrInvalid", err)
			}
			return
		}
		// Writing makes text UTF-8 and foreign JSON tight; after that nothing
		// changes any more.
		once, err := EntryOf(l)
		if err != nil {
			t.Fatalf("EntryOf: %v", err)
		}
		if diff := cmp.Diff(once, roundTrip(t, once)); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestAnEntryWithBrokenJSONIsInvalid(t *testing.T) {
	for _, e := range []Entry{
		{Kind: KindMessage, Role: User, Extra: json.RawMessage(`{`)},
		{Kind: KindMessage, Role: User, Blocks: []Block{{Type: BlockToolUse, Input: json.RawMessage(`nope`)}}},
	} {
		if _, err := e.Line(); !errors.Is(err, ErrInvalid) {
			t.Errorf("Line = %v, want ErrInvalid", err)
		}
	}
}

func TestALineWithoutABodyIsAnEntryWithoutBlocks(t *testing.T) {
	got, err := EntryOf(Line{Seq: 3, Kind: "user", At: noon, Key: "k"})
	want := Entry{Seq: 3, Kind: KindMessage, Role: User, At: noon, Key: "k"}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("EntryOf = %v\n%s", err, diff)
	}
}

func TestABodyThatIsNotAnEntrysIsCorrupt(t *testing.T) {
	for _, b := range []string{"{", "x", "[]", `{"blocks":7}`, "{} {}", `{"model":"a"}trailing`, "\x00", `{"blocks":[{"type":"image","data":"?"}]}`} {
		e, err := EntryOf(Line{Seq: 9, Kind: "user", Body: []byte(b)})
		if !errors.Is(err, ErrCorrupt) {
			t.Errorf("EntryOf(%q) = %v, want ErrCorrupt", b, err)
		}
		if e.Seq != 9 || e.Role != User || e.Blocks != nil {
			t.Errorf("EntryOf(%q) = %+v, want the line's own fields and no more", b, e)
		}
	}
}

func TestTheTextOfAnEntryIsItsTextBlocks(t *testing.T) {
	e := Entry{Blocks: []Block{Text("a"), {Type: BlockThinking, Text: "hm"}, Text("b"), {Type: BlockToolResult, Text: "c"}}}
	if got := e.Text(); got != "a\nb" {
		t.Errorf("Text = %q", got)
	}
	if got := (Entry{}).Text(); got != "" {
		t.Errorf("Text of nothing = %q", got)
	}
}

func TestThereAreFourRoles(t *testing.T) {
	for r, want := range map[Role]bool{System: true, User: true, Assistant: true, Tool: true, "": false, "User": false, "message": false} {
		if r.Valid() != want {
			t.Errorf("Role(%q).Valid() = %v", r, !want)
		}
	}
}

func TestAnEntryThatWouldNotComeBackIsRefused(t *testing.T) {
	for _, e := range []Entry{
		{},
		{Role: "king"},
		{Kind: "user"},
		{Kind: "note", Role: User},
		{Kind: "Not A Kind"},
		{Role: User, Blocks: []Block{{Text: "of no type"}}},
		{Role: User, Extra: []byte(`{"half":`)},
		{Role: User, Key: string(make([]byte, 129))},
	} {
		if _, err := e.Line(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: %v, want ErrInvalid", e, err)
		}
	}
}
