package tidemark

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func fullEntry() Entry {
	return Entry{Kind: KindMessage, Role: Assistant, Extra: json.RawMessage(`{"x":"eight"}`), Blocks: []Block{
		{Type: BlockText, Text: "one"},
		{Type: BlockToolUse, ID: "t", Name: "two", Input: json.RawMessage(`{"a":"three"}`)},
		{Type: BlockToolResult, Text: "four", Blocks: []Block{{Type: BlockText, Text: "five"}}},
		{Type: BlockImage, URL: "si", Raw: `"seven"`},
	}}
}

func TestEveryTextOfAnEntryIsMetOnceInOneOrder(t *testing.T) {
	var met []string
	var numbers []int
	same := fullEntry().EachText(func(i int, text string, raw bool) string {
		if raw != (text[0] == '{' || text[0] == '"') {
			t.Errorf("text %q is raw: %v", text, raw)
		}
		met, numbers = append(met, strings.Trim(text, `{}":ax`)), append(numbers, i)
		return text
	})
	if d := cmp.Diff([]string{"one", "two", "three", "four", "five", "si", "seven", "eight"}, met); d != "" {
		t.Error(d)
	}
	for i := range numbers[1:] {
		if numbers[i+1] <= numbers[i] {
			t.Errorf("texts are numbered %v", numbers)
		}
	}
	if d := cmp.Diff(fullEntry(), same); d != "" {
		t.Errorf("an entry whose texts were kept changed:\n%s", d)
	}
}

func TestChangedTextsLeaveTheGivenEntryAlone(t *testing.T) {
	e := fullEntry()
	upper := e.EachText(func(_ int, text string, _ bool) string { return strings.ReplaceAll(text, "e", "E") })
	if d := cmp.Diff(fullEntry(), e); d != "" {
		t.Errorf("the given entry changed:\n%s", d)
	}
	if got := upper.Blocks[2].Blocks[0].Text + string(upper.Extra) + upper.Blocks[0].Text; got != `fivE{"x":"Eight"}onE` {
		t.Errorf("changed to %s", got)
	}
}

func TestAMaskIsFoundAgainByItsFingerprint(t *testing.T) {
	text := "key " + Mask("aws-key", "0123456789ab") + " and " + Mask("token", "ffff")
	if d := cmp.Diff([]string{"0123456789ab", "ffff"}, Fingerprints(text)); d != "" {
		t.Error(d)
	}
	got := Unmask(text, func(f string) (string, bool) { return "open sesame", f == "ffff" })
	if want := "key [redacted:aws-key:0123456789ab] and open sesame"; got != want {
		t.Errorf("Unmask = %q, want %q", got, want)
	}
}
