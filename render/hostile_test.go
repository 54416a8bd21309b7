package render

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	corpora "github.com/tidemark-sessions/tidemark/workshop/hostile"
)

// The hostile corpus is that of package hostile, with documents around it.
var payloads, goals, links, contexts, sequences = corpora.Payloads, corpora.Goals, corpora.Links, corpora.Contexts, corpora.Sequences

type corpus struct{ corpora.Corpus }

func newCorpus(seed uint64) corpus { return corpus{corpora.New(seed)} }

func fill(pattern, s string) string { return corpora.Fill(pattern, s) }

// transcript returns a hostile session. A sequence is cut in two over blocks,
// and over entries.
func (c corpus) transcript(first int64, entries int) (Document, []tidemark.Entry) {
	var all []tidemark.Entry
	for i := range entries {
		e := tidemark.Entry{Seq: first + int64(i), At: noon, Kind: tidemark.KindMessage, Role: tidemark.Role(c.Of([]string{"user", "assistant", "tool", "system", c.Of(payloads)})), Model: c.Disguise(c.Of(payloads))}
		if c.IntN(6) == 0 {
			e.Kind, e.Role = c.Of([]string{tidemark.KindBranch, tidemark.KindGap, "damaged", c.Of(payloads)}), ""
		}
		for range 1 + c.IntN(3) {
			e.Blocks = append(e.Blocks, c.Block(0))
		}
		s := c.Of(sequences) + c.Of(payloads)
		cut := c.IntN(len(s))
		e.Blocks = append(e.Blocks, tidemark.Text(s[:cut]), tidemark.Text(s[cut:]))
		all = append(all, e)
	}
	d := Document{
		Session: tidemark.Session{ID: tidemark.SessionID(c.Of(payloads)), Title: c.Disguise(c.Of(payloads)), Agent: c.Of(payloads), Model: c.Of(payloads),
			Project: c.Of(goals), Tags: []string{c.Of(payloads), c.Of(sequences)}, ForeignID: c.Of(payloads), CreatedAt: noon},
		State: c.Of(payloads), Node: c.Of(payloads), Labels: map[int64]string{first: c.Disguise(c.Of(payloads))},
		Tree: []Node{{Number: 0, Parent: -1, Seq: first, Label: c.Disguise(c.Of(payloads)), Text: c.Of(payloads)}, {Number: 1, Parent: 0, Label: c.Of(sequences), Text: c.Disguise(c.Of(payloads))}},
	}
	told := tidemark.Entry{Seq: 1, At: noon, Kind: tidemark.KindContext, Blocks: []tidemark.Block{tidemark.Text("<system-reminder>" + c.Of(payloads) + c.Of(sequences) + "</system-reminder>")}}
	asked := tidemark.Say(tidemark.User, told.Text()+c.Of(payloads)+told.Text())
	asked.Seq = 2
	d.Workers = []Worker{{Name: "scout", Call: c.Of(payloads), Entries: read(told, asked, all[0])}}
	return d, all
}

func TestNoHostileTranscriptGetsThrough(t *testing.T) {
	for seed := range uint64(hostileCount(t)) {
		c := newCorpus(seed)
		d, all := c.transcript(1, 2)
		page := document(t, HTML, d, all...)
		if err := scanPage(page); err != nil {
			t.Fatalf("seed %d: HTML: %v", seed, err)
		}
		md := document(t, Markdown, d, all...)
		if err := scanMarkdown(md, len(all)+4); err != nil {
			t.Fatalf("seed %d: Markdown: %v", seed, err)
		}
		var term strings.Builder
		for _, e := range all {
			if err := Entry(&term, e, nil); err != nil {
				t.Fatal(err)
			}
		}
		for name, out := range map[string]string{"html": page, "md": md, "terminal": term.String()} {
			if Clean(out) != out {
				t.Fatalf("seed %d: %s is not clean", seed, name)
			}
			for _, r := range out {
				if r != '\n' && r != '\t' && !harmless(r) {
					t.Fatalf("seed %d: %s holds %U", seed, name, r)
				}
			}
		}
	}
}

func TestEveryPayloadInEveryContextStaysText(t *testing.T) {
	// All of the links with all of the goals in all of the contexts are a
	// hundred thousand; one in seven a run of the default, by turns.
	step := 7
	if testing.Short() {
		step = 50
	}
	n := 0
	for _, context := range contexts {
		for _, p := range payloads {
			checkText(t, fill(context, p))
		}
		for _, link := range links {
			for _, goal := range goals {
				if n++; n%step == 0 {
					checkText(t, fill(context, fill(link, goal)))
				}
			}
		}
	}
}

// checkText renders s as the text of a message, and as everything else that
// can hold a text, and looks at the outcome.
func checkText(t interface{ Fatalf(string, ...any) }, s string) {
	h := strings.Builder{}
	e := tidemark.Entry{Seq: 3, Kind: tidemark.KindMessage, Role: tidemark.User, Blocks: []tidemark.Block{tidemark.Text(s)}}
	if err := (&Transcript{}).Entry(&h, e); err != nil {
		t.Fatalf("%v", err)
	}
	if err := scanTags(h.String(), nil); err != nil {
		t.Fatalf("of %q: %v", s, err)
	}
	if h := h.String(); Clean(h) != h {
		t.Fatalf("of %q: %q is not clean", s, h)
	}
	var m strings.Builder
	if err := Markdown(&m, Document{}, read(e, e)); err != nil {
		t.Fatalf("%v", err)
	}
	sections := 2
	if e.Empty() {
		sections = 0 // there is nothing to read
	}
	if err := scanMarkdown(m.String(), sections); err != nil {
		t.Fatalf("of %q: %v in\n%s", s, err, m.String())
	}
}

func FuzzTextOfMessages(f *testing.F) {
	c := newCorpus(1)
	for range 40 {
		f.Add(c.Text())
	}
	f.Fuzz(func(t *testing.T, s string) { checkText(t, s) })
}

func FuzzToolInput(f *testing.F) {
	f.Add([]byte(`{"old_string":"a\nb","new_string":"a\nc","n":[1,{"x":"]}"}]}`))
	f.Add([]byte(`{"edits":[{"oldText":"a","newText":"b"},{"old_str":"`))
	f.Add([]byte(`[[[{"a`))
	f.Fuzz(func(t *testing.T, input []byte) {
		e := answer(tidemark.Block{Type: tidemark.BlockToolUse, Name: "edit", Input: input})
		if err := scanPage(document(t, HTML, Document{}, e)); err != nil {
			t.Fatal(err)
		}
		document(t, Markdown, Document{}, e)
		if json.Valid(input) {
			if again := appendJSON(nil, input); !sameJSON(input, again) {
				t.Fatalf("%s became %s", input, again)
			}
		}
	})
}
