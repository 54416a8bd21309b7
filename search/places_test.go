package search_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/search"
	"github.com/tidemark-sessions/tidemark/search/segment"
)

func placesOf(e tidemark.Entry) (words []string) {
	search.EachWord(e, func(word []byte, place int) { words = append(words, fmt.Sprintf("%s@%d", word, place)) })
	return words
}

func TestWordsHavePlaces(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"white space parts nothing", "the  cat\n\u00a0sat", "the@0 cat@1 sat@2"},
		{"a sign does", "the, cat sat.go", "the@0 cat@2 sat@3 go@5"},
		{"parts have none", "a parseHTTP b", "a@0 parsehttp@1 parse@-1 http@-1 b@2"},
		{"characters and pairs", "Go入門 3", "go@0 入@1 門@2 入門@1 3@3"},
		{"signs in front", "-- a", "a@1"},
	} {
		if diff := cmp.Diff(strings.Fields(tt.want), placesOf(tidemark.Say(tidemark.User, tt.text))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
	two := tidemark.Entry{Blocks: []tidemark.Block{tidemark.Text("one two"), tidemark.Text("three. "), tidemark.Text("four")}}
	if diff := cmp.Diff([]string{"one@0", "two@1", "three@2", "four@4"}, placesOf(two)); diff != "" {
		t.Errorf("fields are lines of one text (-want +got):\n%s", diff)
	}
}

func TestWordsWithPlacesAreTheWordsOfTheEntry(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := tidemark.Say(tidemark.User, strings.Join(drawText(t, "text", 30), ""))
		var words []string
		search.EachWord(e, func(word []byte, _ int) { words = append(words, string(word)) })
		slices.Sort(words)
		want := search.Words(search.Text(e))
		slices.Sort(want)
		if diff := cmp.Diff(want, slices.Compact(words)); len(want) > 0 && diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	})
}

func TestWordsOfASCIIHaveThePlacesThatFoldingGivesThem(t *testing.T) {
	ascii := rapid.SampledFrom([]string{"parseHTTPRequest2", "The", "x", "A", "HTTP", "2024-01-01", "v2", "7up", "a_b.c", " ", "\n", "\t ", ", ", "--", "\x00", "\x7f",
		strings.Repeat("long", 20), strings.Repeat("aB3", 40), "é", "ﬁne", "naïve", "入門", "\u0301", "\u200b", "\xff", "“", "Ǆ"})
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(ascii, 1, 60).Draw(t, "text"), "")
		var want []string
		search.FoldedWords(text, func(word []byte, place int) { want = append(want, fmt.Sprintf("%s@%d", word, place)) })
		if diff := cmp.Diff(want, placesOf(tidemark.Say(tidemark.User, text))); diff != "" {
			t.Fatalf("%q (-want +got):\n%s", text, diff)
		}
	})
}

func TestATextOfMoreWordsThanArePlacedSaysSo(t *testing.T) {
	for _, n := range []int{search.MaxPlaced, search.MaxPlaced + 1} {
		count := 0
		all := search.EachWord(tidemark.Say(tidemark.User, strings.Repeat("a ", n)), func([]byte, int) { count++ })
		if count != search.MaxPlaced || all != (n <= search.MaxPlaced) {
			t.Errorf("%d words: %d are yielded, all: %v", n, count, all)
		}
	}
}

func TestWhatAQueryAsksAnIndexWithPlacesFor(t *testing.T) {
	for _, tt := range []struct{ query, want string }{
		{`"the exit code"`, "the@0 exit@1 code*@2"},
		{`cat "the exit"`, "cat & the@0 exit*@1"},
		{"'exit.", "exit@0 ?"},
		{"'exit.code", "exit@0 code*@2 ?"},
		{"'全文検索", "全文@0 文検@1 検索@2 ?"},
		{`"検 go"`, "検@0 go*@1 ?"},
		{`cat !"the exit"`, "cat ?"},
		{`cat | "the exit"`, "cat|the ?"},
		{"cat '--", "cat ?"},
	} {
		l := parse(t, tt.query).Lookup()
		var s []string
		star := map[bool]string{true: "*"}
		for _, group := range l.All {
			var of []string
			for _, t := range group {
				of = append(of, t.Word+star[t.Prefix])
			}
			s = append(s, strings.Join(of, "|"))
		}
		for _, phrase := range l.Phrases {
			var of []string
			for _, step := range phrase {
				of = append(of, fmt.Sprintf("%s%s@%d", step.Term.Word, star[step.Term.Prefix], step.Place))
			}
			s = append(s, strings.Join(of, " "))
		}
		got := strings.Join(s, " & ")
		if l.Verify {
			got += " ?"
		}
		if got != tt.want {
			t.Errorf("%s asks %q, want %q", tt.query, got, tt.want)
		}
	}
}

// placed reports whether a segment with the words of an entry finds it.
func placed(t interface{ Fatal(...any) }, e tidemark.Entry, l search.Lookup) (found, sure bool) {
	b := segment.NewBuilder()
	b.Line(segment.Line{Log: "s", Seq: 1, At: 1})
	search.EachWord(e, b.Word)
	var blocks [][]byte
	if err := b.Write(func(block []byte) error { blocks = append(blocks, block); return nil }); err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	r, err := segment.Open(ctx, func(_ context.Context, numbers []int64) (got [][]byte, err error) {
		for _, n := range numbers {
			got = append(got, blocks[n-1])
		}
		return got, nil
	}, int64(len(blocks)))
	if err != nil {
		t.Fatal(err)
	}
	for hit, err := range segment.Search(ctx, []*segment.Reader{r}, segment.Query{All: l.All, None: l.None, Phrases: l.Phrases}) {
		if err != nil {
			t.Fatal(err)
		}
		return true, hit.Sure && !l.Verify
	}
	return false, true
}

func TestAnIndexWithPlacesFindsWhatTheQueryMatches(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := drawText(t, "text", 30)
		e := tidemark.Say(tidemark.User, strings.Join(parts, ""))
		query, q := drawQuery(t, parts)
		l := q.Lookup()
		if len(l.All) == 0 && len(l.Phrases) == 0 {
			t.Skip("no index can answer this")
		}
		found, sure := placed(t, e, l)
		match := q.MatchEntry(e)
		if match && !found {
			t.Fatalf("%q matches %q, but the index does not find it by %+v", query, search.Text(e), l)
		}
		if found && sure && !match {
			t.Fatalf("%q does not match %q, but the index is sure of it by %+v", query, search.Text(e), l)
		}
	})
}

// Places alone decide a phrase of whole words: nothing has to be opened for it.
func TestPlacesDecideAPhrase(t *testing.T) {
	e := tidemark.Say(tidemark.User, "what goes in with as little noise as that, in as with")
	for _, tt := range []struct {
		query       string
		found, sure bool
	}{
		{`"in with as"`, true, true},
		{`"as little noise"`, true, true},
		{`"with in as"`, false, true},
		{`"noise that"`, false, true},
		{`"that in"`, false, true}, // a comma is between them
		{`"that, in"`, true, false},
	} {
		q, err := search.Parse(tt.query)
		if err != nil {
			t.Fatal(err)
		}
		if found, sure := placed(t, e, q.Lookup()); found != tt.found || sure != tt.sure {
			t.Errorf("%s: found %v, sure %v; want %v, %v", tt.query, found, sure, tt.found, tt.sure)
		}
		if q.MatchEntry(e) != tt.found {
			t.Errorf("%s: the text itself says %v", tt.query, !tt.found)
		}
	}
}
