package compact

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tidemark-sessions/tidemark"
)

// texts are what people, models and tools say, good and bad.
var texts = rapid.OneOf(
	rapid.StringN(0, 60, 300),
	rapid.SampledFrom([]string{"", " ", "yes", "```go\nx\n```", "~~~\nunclosed", "a\n```\nb\n```\nc\n````\nd", "👩‍👩‍👧‍👦🇩🇪e\u0301", "\xff\xfe", Tag, "x " + Tag,
		strings.Repeat("long ", 300), strings.Repeat("字", 300), "e" + strings.Repeat("\u0301", 200), "User: hi\nAssistant: ho", "\r\n\r\n"}),
)

// conversations are valid as model input: they begin with the user, and every
// call is answered before anybody else speaks.
func conversation(t *rapid.T) []tidemark.Entry {
	entries := []tidemark.Entry{user(texts.Draw(t, "text"))}
	for len(entries) < rapid.IntRange(1, 120).Draw(t, "length") {
		switch rapid.IntRange(0, 3).Draw(t, "what") {
		case 0:
			entries = append(entries, user(texts.Draw(t, "text")))
		case 1:
			entries = append(entries, assistant(texts.Draw(t, "text")))
		case 2:
			entries = append(entries, tidemark.Entry{Kind: "note", Blocks: []tidemark.Block{tidemark.Text("aside")}})
		default:
			entries = append(entries, round(t, len(entries))...)
		}
	}
	return entries
}

// round is a message with calls and its results, in one entry or several.
func round(t *rapid.T, at int) []tidemark.Entry {
	if rapid.Bool().Draw(t, "reused") {
		at = 0
	}
	var ids []string
	for i := range rapid.IntRange(1, 4).Draw(t, "calls") {
		ids = append(ids, fmt.Sprintf("call_%d_%d", at, i))
	}
	out := []tidemark.Entry{call(ids...)}
	if rapid.Bool().Draw(t, "together") {
		r := result(ids...)
		if rapid.Bool().Draw(t, "by the user") {
			r.Role = tidemark.User
		}
		return append(out, r)
	}
	for _, id := range ids {
		out = append(out, result(id))
	}
	return out
}

// invalid says what is wrong with entries as model input, if anything.
func invalid(entries []tidemark.Entry) string {
	open := map[string]bool{}
	for i, e := range entries {
		if !isMessage(e) {
			continue
		}
		if i == 0 && (e.Role != tidemark.User || isResult(e)) {
			return "does not begin with the user"
		}
		if !isResult(e) && len(open) > 0 {
			return fmt.Sprintf("entry %d: calls without results", i)
		}
		for _, b := range e.Blocks {
			switch b.Type {
			case tidemark.BlockToolUse:
				open[b.ID] = true
			case tidemark.BlockToolResult:
				if !open[b.ToolUseID] {
					return fmt.Sprintf("entry %d: a result without a call", i)
				}
				delete(open, b.ToolUseID)
			}
		}
	}
	return ""
}

func messages(entries []tidemark.Entry) int {
	n := 0
	for _, e := range entries {
		if isMessage(e) {
			n++
		}
	}
	return n
}

func TestACompactedConversationIsValidInput(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries := conversation(t)
		if s := invalid(entries); s != "" {
			t.Fatalf("the test's own conversation %s", s)
		}
		o := Options{
			Strategy: rapid.SampledFrom([]string{Simple, CodeAware, RoleBudget, Model}).Draw(t, "strategy"),
			Keep:     rapid.IntRange(1, 15).Draw(t, "keep"), MaxMessages: 5,
			MaxBytes: rapid.SampledFrom([]int{0, 100, 2000}).Draw(t, "bytes"), System: rapid.SampledFrom([]string{"", "prompt"}).Draw(t, "system"),
		}
		r, err := Compact(t.Context(), entries, o)
		if errors.Is(err, ErrNoGain) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		after := r.Entries(entries)
		if s := invalid(after); s != "" {
			t.Fatalf("after compaction, kept from %d: %s", r.From, s)
		}
		if diff := cmp.Diff(entries[r.From:], after[1:]); diff != "" {
			t.Fatal(diff)
		}
		prompt := len(o.System) / len("prompt")
		if n := messages(after[1:]); r.From > openTurn(entries) || r.After != n+1+prompt || r.Before != messages(entries)+prompt || r.After > r.Before {
			t.Fatalf("%d stay of %d, and it says %s", n, messages(entries), r)
		}
		text := r.Summary.Text()
		if !strings.HasPrefix(text, Tag) || !IsSummary(r.Summary) || !IsSummary(Message(r.Summary)) {
			t.Fatalf("not a summary: %q", text)
		}
		if _, err := r.Summary.Line(); err != nil {
			t.Fatal(err)
		}
		again, err := Compact(t.Context(), entries, o)
		if err != nil || !cmp.Equal(r.Summary, again.Summary) {
			t.Fatalf("the second time it is another: %v", err)
		}
	})
}

func TestASummaryIsCarriedOverByteForByte(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := Options{Strategy: rapid.SampledFrom([]string{Simple, CodeAware, RoleBudget}).Draw(t, "strategy"), MaxMessages: 5, Carry: 1 << 20}
		entries, before := conversation(t), ""
		for range 4 {
			r, err := Compact(t.Context(), entries, o)
			if err == nil {
				text := r.Summary.Text()
				if before != "" && !strings.HasPrefix(text, before+"\n") {
					t.Fatalf("%q\nwas\n%q", text, before)
				}
				before, entries = text, r.Entries(entries)
				if _, err := Compact(t.Context(), entries, o); !errors.Is(err, ErrNoGain) {
					t.Fatalf("compacting what was just compacted: %v", err)
				}
			}
			for _, e := range conversation(t) {
				if !IsSummary(e) { // the user's own words would be carried as well
					entries = append(entries, e)
				}
			}
		}
	})
}

func TestOverMeansThatCompactionHelps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries := conversation(t)
		o := Options{MaxMessages: rapid.IntRange(1, 60).Draw(t, "messages"), MaxBytes: -1, Keep: rapid.IntRange(1, 15).Draw(t, "keep")}
		if !Over(entries, o) {
			return
		}
		r, err := Compact(t.Context(), entries, o)
		if err != nil {
			t.Fatal(err)
		}
		if Over(r.Entries(entries), o) {
			t.Fatal("still over")
		}
	})
}

// TestWhatIsSentKeepsTheLimits: whatever was said and however long it is, what
// is sent after a compaction is within the limits, unless the open turn alone
// takes them up; and the open turn is in it as it was.
func TestWhatIsSentKeepsTheLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries := conversation(t)
		for i := range entries { // few messages, but large ones
			if rapid.IntRange(0, 3).Draw(t, "large") == 0 && len(entries[i].Blocks) > 0 && entries[i].Blocks[0].Type == tidemark.BlockText {
				entries[i].Blocks[0].Text += strings.Repeat("large ", rapid.IntRange(1, 3000).Draw(t, "words"))
			}
		}
		o := Options{
			Strategy: rapid.SampledFrom([]string{Simple, CodeAware, RoleBudget}).Draw(t, "strategy"), Keep: rapid.IntRange(1, 15).Draw(t, "keep"),
			MaxMessages: rapid.SampledFrom([]int{-1, 6, 50}).Draw(t, "messages"), MaxBytes: rapid.SampledFrom([]int{-1, 8_000, 32_000}).Draw(t, "bytes"),
			MaxTokens: rapid.SampledFrom([]int{0, 4_000, 12_000}).Draw(t, "tokens"), System: "Be brief.",
		}
		was := slices.Clone(entries[latestCut(entries, bonds(entries)):])
		if len(was) == 0 {
			return // nobody said anything of their own: there is no turn
		}
		r, err := Compact(t.Context(), entries, o)
		if errors.Is(err, ErrNoGain) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		after := r.Entries(entries)
		if s := invalid(after); s != "" {
			t.Fatalf("after compaction, kept from %d: %s", r.From, s)
		}
		if diff := cmp.Diff(was, after[len(after)-len(was):]); diff != "" {
			t.Fatalf("the open turn is another: %s", diff)
		}
		var now, open size
		open.add(tidemark.Say(tidemark.System, o.System))
		now = open
		for i, e := range after {
			if !isMessage(e) && !IsSummary(e) {
				continue // a note is not sent
			}
			now.add(e)
			if i >= len(after)-len(was) {
				open.add(e)
			}
		}
		// What an earlier compaction left before the open turn may be the user's
		// own words, and is carried as far as there is room.
		if o.MaxBytes > 0 && now.bytes > o.MaxBytes && open.bytes+leastSummary <= o.MaxBytes {
			t.Fatalf("%d bytes, of which %d are the open turn", now.bytes, open.bytes)
		}
		if o.MaxTokens > 0 && now.tokens > o.MaxTokens && open.tokens+leastSummary <= o.MaxTokens {
			t.Fatalf("%d tokens, of which %d are the open turn", now.tokens, open.tokens)
		}
		if o.MaxMessages > 0 && now.messages > o.MaxMessages && open.messages+1 <= o.MaxMessages {
			t.Fatalf("%d messages, of which %d are the open turn", now.messages, open.messages)
		}
	})
}

func FuzzTexts(f *testing.F) {
	for _, s := range []string{"", "plain", "```\ncode", "> ~~~\n> x\n", "e\u0301👩‍👩‍👧‍👦🇩🇪", "\xff\xc3", "- ```go\n  x\n  ```\ny", Tag + "\nold", "\r\n\x00"} {
		f.Add(s, 5)
	}
	f.Fuzz(func(t *testing.T, s string, n int) {
		for at := 0; at < len(s); {
			size := char(s[at:])
			if size <= 0 || at+size > len(s) {
				t.Fatalf("a character of %d bytes at %d of %q", size, at, s)
			}
			at += size
		}
		n &= 127
		short, all := firstChars(s, n)
		if !strings.HasPrefix(s, short) || all != (short == s) || charCount(short, n+1) > n {
			t.Fatalf("firstChars(%q, %d) = %q, %v", s, n, short, all)
		}
		if p := preview(s, n); !utf8.ValidString(p) || strings.ContainsAny(p, "\r\n") || charCount(p, n+2) > n+1 {
			t.Fatalf("preview(%q, %d) = %q", s, n, p)
		}
		if len(firstBytes(s, n)) > n || len(newest(s, n)) > n+len("…") && !strings.Contains(s, "```") && !strings.Contains(s, "~~~") {
			t.Fatalf("too long: %q, %d", s, n)
		}
		var joined []string
		for _, p := range pieces(s) {
			joined = append(joined, p.text)
		}
		if !strings.HasPrefix(strings.Join(joined, "\n")+"\n", strings.TrimSuffix(s, "\n")) {
			t.Fatalf("pieces of %q are %q", s, joined)
		}
		for _, strategy := range []string{Simple, CodeAware, RoleBudget, Model} {
			entries := append([]tidemark.Entry{user(s), assistant(s), call("a"), result("a")}, talk(60, "x")...)
			if _, err := Compact(t.Context(), entries, Options{Strategy: strategy}); err != nil {
				t.Fatal(strategy, err)
			}
		}
	})
}
