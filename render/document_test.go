package render

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
)

// read yields entries, and a damage where an entry's kind is "damaged".
func read(all ...tidemark.Entry) iter.Seq2[tidemark.Entry, error] {
	return func(yield func(tidemark.Entry, error) bool) {
		for _, e := range all {
			var err error
			if e.Kind == "damaged" {
				err = &tidemark.Damage{Key: tidemark.Key{Kind: "session", ID: "s"}, Seq: e.Seq, What: "its checksum does not match"}
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

type writes func(io.Writer, Document, iter.Seq2[tidemark.Entry, error]) error

// formats are the documents that can be made of a session.
var formats = map[string]writes{"md": Markdown, "html": HTML}

func document(t testing.TB, write writes, d Document, all ...tidemark.Entry) string {
	t.Helper()
	var b strings.Builder
	if err := write(&b, d, read(all...)); err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
		t.Fatal(err)
	}
	return b.String()
}

// dot is a picture of one pixel.
var dot, _ = base64.StdEncoding.DecodeString("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")

// realistic is a conversation as they are: a question, tools, an edit, an
// answer, a branch, and an entry that did not survive.
func realistic() (Document, []tidemark.Entry) {
	at := noon
	seq := int64(0)
	var all []tidemark.Entry
	add := func(e tidemark.Entry) {
		seq++
		e.Seq, e.At = seq, at
		if e.Kind == "" {
			e.Kind = tidemark.KindMessage
		}
		if e.Role == tidemark.Assistant {
			e.Model = "model-x"
			e.Usage = &tidemark.Usage{InputTokens: 1200 * seq, OutputTokens: 85}
		}
		at = at.Add(7 * time.Second)
		all = append(all, e)
	}
	use := func(id, name, input string) tidemark.Block {
		return tidemark.Block{Type: tidemark.BlockToolUse, ID: id, Name: name, Input: json.RawMessage(input)}
	}
	result := func(id, text string, failed bool) tidemark.Entry {
		return tidemark.Entry{Role: tidemark.Tool, Blocks: []tidemark.Block{
			{Type: tidemark.BlockToolResult, ToolUseID: id, Text: text, IsError: failed}}}
	}
	add(tidemark.Say(tidemark.System, "You are a careful engineer. Answer briefly."))
	add(tidemark.Entry{Role: tidemark.User, Blocks: []tidemark.Block{
		tidemark.Text("The parser drops the last line of `notes.txt`. Can you find out why?\n\nIt looks like this, see <https://example.org/issues/12>:"),
		{Type: tidemark.BlockImage, Name: "screen.png", MediaType: "image/png", Data: dot},
		{Type: tidemark.BlockFile, Name: "notes.txt", MediaType: "text/plain", Data: make([]byte, 2345)},
	}})
	add(tidemark.Entry{Role: tidemark.Assistant, Blocks: []tidemark.Block{
		{Type: tidemark.BlockThinking, Text: "The last line has no newline.\n\n1. Look at the loop.\n2. Look at its tests."},
		tidemark.Text("Let me look at the loop first."),
		use("t1", "bash", `{"command":"grep -n 'ReadString' parse.go\nsed -n 10,30p parse.go","timeout":30}`),
	}})
	add(result("t1", "14:\t\tline, err := r.ReadString('\\n')\n15:\t\tif err != nil {\n16:\t\t\tbreak\n17:\t\t}\n", false))
	add(tidemark.Entry{Role: tidemark.Assistant, Blocks: []tidemark.Block{
		use("t2", "edit", `{"path":"parse.go","old_string":"\tfor {\n\t\tline, err := r.ReadString('\\n')\n\t\tif err != nil {\n\t\t\tbreak\n\t\t}\n","new_string":"\tfor {\n\t\tline, err := r.ReadString('\\n')\n\t\tif err != nil && line == \"\" {\n\t\t\tbreak\n\t\t}\n"}`),
		use("t3", "bash", `{"command":"go test ./..."}`),
	}})
	add(result("t3", "--- FAIL: TestEmpty (0.00s)\n    parse_test.go:21: got 1 line, want 0\nFAIL", true))
	add(tidemark.Entry{Kind: "damaged"})
	add(tidemark.Entry{Role: tidemark.Assistant, Blocks: []tidemark.Block{tidemark.Text(`# Found

The loop stops at **any** error, also at ` + "`io.EOF`" + ` with text before it:

` + "```go\nif err != nil && line == \"\" { // <- here\n\tbreak\n}\n```" + `

| file | line | state |
| :--- | ---: | :---: |
| parse.go | 15 | ~~broken~~ fixed |
| parse_test.go | 21 | to do |

- [x] find it
- [ ] add a test, see https://example.org/go/bufio

> Text is <b>text</b>, and ![a picture](https://example.org/p.png) is a link.
`)}})
	add(tidemark.Entry{Kind: tidemark.KindBranch, Position: tidemark.Position{Parent: 4}})
	add(tidemark.Say(tidemark.User, "שלום! What about the \u202eother\u202c way?\x1b[2J"))
	d := Document{
		Session: tidemark.Session{ID: "7f3a9c1e-2b4d-4f6a-8c0e-1d2f3a4b5c6d", Title: "Why is the last line lost?", Agent: "builder",
			Model: "model-x", Mode: tidemark.ModeLocal, Project: "/home/ada/notes", Tags: []string{"bug", "parser"}, CreatedAt: noon},
		Messages: 9, UpdatedAt: at, ExportedAt: at.Add(time.Hour),
		Tree: []Node{{Number: 0, Parent: -1, Messages: 4, Seq: 4, At: noon, Text: "My parser loses <the> last line"}, {Number: 1, Parent: 0, Messages: 8, Seq: 8, Label: "fix by hand"},
			{Number: 2, Parent: 0, Messages: 5, Seq: 10, Current: true}},
		Labels: map[int64]string{8: "fix by hand"},
		Workers: []Worker{{Name: "scout", Call: "t3", Entries: read(
			tidemark.Entry{Seq: 1, Kind: "worker"},
			tidemark.Entry{Seq: 2, At: noon, Kind: tidemark.KindMessage, Role: tidemark.User, Blocks: []tidemark.Block{tidemark.Text("Count the lines.")}},
			tidemark.Entry{Seq: 3, At: noon, Kind: tidemark.KindMessage, Role: tidemark.Assistant, Blocks: []tidemark.Block{tidemark.Text("There are *21*.")}})}},
	}
	return d, all
}

func TestDocumentsLookLikeTheKeptOnes(t *testing.T) {
	d, all := realistic()
	for format, write := range formats {
		got := document(t, write, d, all...)
		name := filepath.Join("testdata", "transcript."+format)
		if os.Getenv("TIDEMARK_UPDATE") != "" {
			if err := os.WriteFile(name, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(strings.ReplaceAll(string(want), "\r\n", "\n"), got); diff != "" {
			t.Errorf("%s has changed; if it should, run TIDEMARK_UPDATE=1 go test -run KeptOnes ./render\n%s", name, diff)
		}
	}
}

func TestDamageIsShownInItsPlaceAndTheRestGoesOn(t *testing.T) {
	for format, write := range formats {
		var b strings.Builder
		err := write(&b, Document{}, read(tidemark.Say(tidemark.User, "before"),
			tidemark.Entry{Seq: 7, Kind: "damaged"}, tidemark.Entry{Seq: 8, Kind: "damaged"}, tidemark.Say(tidemark.User, "behind")))
		var damage *tidemark.Damage
		if !errors.As(err, &damage) || damage.Seq != 7 {
			t.Errorf("%s: error = %v, want the first damage", format, err)
		}
		out := b.String()
		before, notice, behind := strings.Index(out, "before"), strings.Index(out, "its checksum does not match"), strings.Index(out, "behind")
		if before < 0 || notice < before || behind < notice {
			t.Errorf("%s: before, notice and behind stand at %d, %d, %d", format, before, notice, behind)
		}
		if format == "html" && !strings.HasSuffix(out, "</html>\n") {
			t.Errorf("the page does not end: …%s", out[max(len(out)-40, 0):])
		}
	}
}

func TestOtherErrorsEndADocument(t *testing.T) {
	gone := errors.New("the disk is gone")
	for format, write := range formats {
		read := 0
		err := write(io.Discard, Document{}, func(yield func(tidemark.Entry, error) bool) {
			for read = 1; yield(tidemark.Entry{}, gone); read++ {
			}
		})
		if !errors.Is(err, gone) || read != 1 {
			t.Errorf("%s: %v after %d reads, want %v after 1", format, err, read, gone)
		}
		err = write(brokenWriter{}, Document{}, func(yield func(tidemark.Entry, error) bool) {
			for read = 1; yield(tidemark.Say(tidemark.User, strings.Repeat("x", bufferSize)), nil); read++ {
			}
		})
		if !errors.Is(err, errBroken) || read > 2 {
			t.Errorf("%s: %v after %d reads, want %v at once", format, err, read, errBroken)
		}
		if err := write(brokenWriter{}, Document{}, read0()); !errors.Is(err, errBroken) {
			t.Errorf("%s: %v for an empty document, want %v", format, err, errBroken)
		}
		err = write(io.Discard, Document{Tree: []Node{{Number: 1, Parent: 1}}}, read0())
		if !errors.Is(err, tidemark.ErrInvalid) {
			t.Errorf("%s: %v for a circle in the tree, want ErrInvalid", format, err)
		}
	}
}

func read0() iter.Seq2[tidemark.Entry, error] { return read() }

func TestEntriesAreWrittenWhileTheyAreRead(t *testing.T) {
	for format, write := range formats {
		var out bytes.Buffer
		behind := 0
		err := write(&out, Document{}, func(yield func(tidemark.Entry, error) bool) {
			for i := range 200 {
				behind = max(behind, i*1000-out.Len())
				if !yield(tidemark.Say(tidemark.Assistant, strings.Repeat("word ", 200)), nil) {
					return
				}
			}
		})
		if err != nil || behind > bufferSize {
			t.Errorf("%s: %v; up to %d bytes waited, want at most %d", format, err, behind, bufferSize)
		}
	}
}

func TestAPageSpeaksTheWordsItIsGiven(t *testing.T) {
	words := English
	words.Lang, words.User, words.ToolCall, words.NoTitle = "fr", "L'utilisateur", "Appel d'outil", "<sans titre>"
	d := Document{Words: &words}
	e := tidemark.Say(tidemark.User, "salut")
	e.Blocks = append(e.Blocks, tidemark.Block{Type: tidemark.BlockToolUse, Name: "bash"})
	page := document(t, HTML, d, e)
	for _, want := range []string{`<html lang="fr">`, "L&#39;utilisateur</h2>", "Appel d&#39;outil", "&lt;sans titre&gt;</h1>"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if md := document(t, Markdown, d, e); !strings.Contains(md, "L'utilisateur") || strings.Contains(md, "<sans") {
		t.Errorf("Markdown says %s", md)
	}
}

func TestATranscriptIsThePageWithoutItsShell(t *testing.T) {
	d, all := realistic()
	d.Workers = nil // calls lead to them
	page := document(t, HTML, d, all...)
	shared := &Transcript{Labels: d.Labels}
	var b strings.Builder
	if err := shared.Entries(&b, read(all...)); !errors.Is(err, tidemark.ErrCorrupt) {
		t.Errorf("Entries = %v, want the damage", err)
	}
	if !strings.Contains(page, b.String()) || b.Len() == 0 {
		t.Error("the page does not hold the transcript as it is")
	}
	b.Reset()
	if err := shared.Entry(&b, all[7]); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(page, b.String()) || !strings.HasPrefix(b.String(), "<article") {
		t.Error("the page does not hold the entry as it is")
	}
}

func ExampleMarkdown() {
	one := tidemark.Say(tidemark.User, "What is <b>in</b> here?")
	one.Seq = 1
	var b strings.Builder
	if err := Markdown(&b, Document{Session: tidemark.Session{Title: "A look"}}, read(one)); err != nil {
		fmt.Println(err)
	}
	fmt.Print(b.String())
	// Output:
	// # A look
	//
	// ## 1 · User
	//
	// What is &lt;b>in&lt;/b> here?
}
