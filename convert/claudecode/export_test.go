package claudecode_test

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/claudecode"
	"github.com/tidemark-sessions/tidemark/convert/converttest"
)

// foreign is a session that never was in Claude Code.
func foreign() *convert.Session {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	entry := func(id string, e tidemark.Entry) convert.Entry {
		e.At = at
		return convert.Entry{Entry: e, ID: id}
	}
	branch := entry("7", tidemark.Say(tidemark.User, "another way"))
	branch.Parent = "2"
	return &convert.Session{
		Session: tidemark.Session{ID: one, Title: "from elsewhere", Project: "/w/my 🍵.d", ForeignID: "x", Tags: []string{"tea"}},
		Entries: convert.All([]convert.Entry{
			entry("1", tidemark.Say(tidemark.User, "list the files")),
			entry("2", tidemark.Entry{Role: tidemark.Assistant, Model: "gpt", Usage: &tidemark.Usage{InputTokens: 5, OutputTokens: 6},
				Blocks: []tidemark.Block{{Type: tidemark.BlockThinking, Text: "hm"}, tidemark.Text("I look."),
					{Type: tidemark.BlockToolUse, ID: "call:1", Name: "shell", Input: json.RawMessage(`{"cmd":"ls"}`)}}}),
			entry("3", tidemark.Entry{Role: tidemark.Tool, Blocks: []tidemark.Block{{Type: tidemark.BlockToolResult, ToolUseID: "call:1", Text: "a.go"},
				{Type: tidemark.BlockToolResult, ToolUseID: "nobody", Text: "?"}}}),
			entry("4", tidemark.Entry{Kind: "context", Blocks: []tidemark.Block{tidemark.Text("It is May.")}}),
			entry("5", tidemark.Entry{Kind: "compaction", Blocks: []tidemark.Block{tidemark.Text("so far")}}),
			entry("6", tidemark.Entry{Kind: "strange"}),
			branch,
		}),
		Workers: []convert.Worker{{Name: "dig/1", Call: "call:1", Entries: convert.All([]convert.Entry{entry("1", tidemark.Say(tidemark.User, "dig"))})}},
		Files:   map[string][]byte{"memory/notes.md": []byte("x")},
	}
}

func TestASessionFromElsewhereIsWrittenAsTheClientWould(t *testing.T) {
	out := converttest.NewOut()
	lost, err := claudecode.Tool().Export(t.Context(), out, foreign())
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"entries of the kind strange", "results without their calls", "tags", "the file memory/notes.md",
		"thinking that another provider wrote"}, lost); d != "" {
		t.Error(d)
	}
	if out.Files["projects/-w-my----d/"+one+".jsonl"] == nil {
		t.Errorf("no transcript in the folder of its project")
	}
	got := converttest.Read(t, claudecode.Tool(), out.Source())
	if len(got.Sessions) != 1 || len(got.Skips) > 0 {
		t.Fatalf("%d sessions, skipped %q", len(got.Sessions), got.Skips)
	}
	s := got.Sessions[0]
	var is []string
	for _, e := range s.Entries {
		is = append(is, string(e.Role)+e.Kind+" "+e.Text())
	}
	if d := cmp.Diff([]string{"user list the files", "assistant I look.", "tool ", "context It is May.", "compaction_cut Conversation compacted",
		"compaction so far", "user another way"}, is); d != "" {
		t.Error(d)
	}
	if s.Title != "from elsewhere" || s.Project != "/w/my 🍵.d" || s.ForeignID != one || s.Head != "" && s.Head != s.Entries[6].ID {
		t.Errorf("session = %+v, head %q", s.Session.Session, s.Head)
	}
	if use, result := s.Entries[1].Blocks[1], s.Entries[2].Blocks[0]; use.ID != result.ToolUseID || strings.Contains(use.ID, ":") {
		t.Errorf("call %q is answered as %q", use.ID, result.ToolUseID)
	}
	if s.Entries[6].Parent != s.Entries[1].ID {
		t.Errorf("the branch grows from %q, want %q", s.Entries[6].Parent, s.Entries[1].ID)
	}
	if len(s.Workers) != 1 || s.Workers[0].Call != s.Entries[1].Blocks[1].ID {
		t.Errorf("workers %+v", s.Workers)
	}
}

func TestAnExportIsTheSameEachTime(t *testing.T) {
	a, b := converttest.NewOut(), converttest.NewOut()
	for _, out := range []*converttest.Out{a, b} {
		if _, err := claudecode.Tool().Export(t.Context(), out, foreign()); err != nil {
			t.Fatal(err)
		}
	}
	if d := cmp.Diff(a.Files, b.Files); d != "" {
		t.Error(d)
	}
}

func TestWhatWasTakenOutOfAnEntryDoesNotComeBackFromItsRecord(t *testing.T) {
	got := read(t, fstest.MapFS{file(one): converttest.Lines(
		line(one, "u1", "", 1, prompt("<system-reminder>x</system-reminder> my key is hunter2")),
		line(one, "a1", "u1", 2, answer("m1", text("hunter2 it is"))),
	)})
	entries := got.Sessions[0].Entries
	for i := range entries {
		for j := range entries[i].Blocks {
			entries[i].Blocks[j].Text = strings.ReplaceAll(entries[i].Blocks[j].Text, "hunter2", "***")
		}
	}
	s := *got.Sessions[0].Session
	s.Entries = convert.All(entries)
	out := converttest.NewOut()
	if _, err := claudecode.Tool().Export(t.Context(), out, &s); err != nil {
		t.Fatal(err)
	}
	for name, f := range out.Files {
		if strings.Contains(string(f.Data), "hunter2") {
			t.Errorf("%s has it again: %s", name, f.Data)
		}
	}
}

func TestASessionThatWentOnElsewhereGoesBack(t *testing.T) {
	got := read(t, fstest.MapFS{file(one): converttest.Lines(
		line(one, "u1", "", 1, prompt("first")),
		line(one, "a1", "u1", 2, answer("m1", text("one"))),
		`{"type":"last-prompt","leafUuid":"a1","sessionId":"`+one+`"}`,
	)})
	s := *got.Sessions[0].Session
	more := convert.Entry{Entry: tidemark.Say(tidemark.User, "second"), ID: "3", Parent: "a1"}
	s.Entries, s.Head = convert.All(append(got.Sessions[0].Entries, more)), "3"
	out := converttest.NewOut()
	if _, err := claudecode.Tool().Export(t.Context(), out, &s); err != nil {
		t.Fatal(err)
	}
	back := converttest.Read(t, claudecode.Tool(), out.Source()).Sessions[0]
	if len(back.Entries) != 3 || back.Entries[2].Parent != "a1" || back.Head != back.Entries[2].ID {
		t.Errorf("%v at %q", converttest.Shape(back.Entries), back.Head)
	}
}

func TestAnExportThatBreaksOffLeavesNoTranscript(t *testing.T) {
	s := foreign()
	s.Entries = func(yield func(convert.Entry, error) bool) { yield(convert.Entry{}, tidemark.ErrStorage) }
	out := converttest.NewOut()
	if _, err := claudecode.Tool().Export(t.Context(), out, s); err == nil || len(out.Files) > 0 {
		t.Errorf("Export = %v with %d files", err, len(out.Files))
	}
}

func TestAPictureThatWasMentionedIsABlockOfThePromptAndGoesBack(t *testing.T) {
	mention := func(kind, name, file string) string {
		return `"type":"attachment","attachment":{"type":"file","filename":"/w/` + name + `","content":{"type":"` + kind + `","file":{` + file + `}},"displayPath":"` + name + `"}`
	}
	got := read(t, fstest.MapFS{file(one): converttest.Lines(
		line(one, "u1", "", 1, prompt("what is in @dot.png and @a.pdf?")),
		line(one, "u2", "u1", 1, mention("image", "dot.png", `"base64":"iVBORw0=","type":"image/png","originalSize":5`)),
		line(one, "u3", "u2", 1, mention("pdf", "a.pdf", `"base64":"JVBERg==","originalSize":4`)),
		line(one, "u4", "u3", 1, mention("text", "a.go", `"filePath":"/w/a.go","content":"package a","numLines":1`)),
		line(one, "a1", "u4", 2, answer("m1", text("a dot"))),
		line(one, "u5", "a1", 3, mention("image", "late.png", `"base64":"iVBORw0=","type":"image/png"`)),
		line(one, "u6", "u5", 3, mention("image", "broken.png", `"base64":"?","type":"image/png"`)),
	)})
	said := []string{}
	for _, e := range got.Sessions[0].Entries {
		what := string(e.Role)
		if what == "" {
			what = e.Kind
		}
		for _, b := range e.Blocks {
			what += " " + b.Type + ":" + b.Name + b.Text + b.MediaType
		}
		said = append(said, what)
	}
	want := []string{"user text:what is in @dot.png and @a.pdf? image:dot.pngimage/png file:a.pdfapplication/pdf", "context text:package a",
		"assistant text:a dot", "context image:late.pngimage/png", "context"}
	if d := cmp.Diff(want, said); d != "" {
		t.Error(d)
	}
	if data := got.Sessions[0].Entries[0].Blocks[1].Data; string(data) != "\x89PNG\r" {
		t.Errorf("the picture is %q", data)
	}
	s := *got.Sessions[0].Session
	s.Entries = convert.All(got.Sessions[0].Entries)
	out := converttest.NewOut()
	if _, err := claudecode.Tool().Export(t.Context(), out, &s); err != nil {
		t.Fatal(err)
	}
	for name, f := range out.Files {
		if strings.HasSuffix(name, ".jsonl") && (strings.Count(string(f.Data), `"iVBORw0="`) != 2 || strings.Count(string(f.Data), `"JVBERg=="`) != 1) {
			t.Errorf("%s: %s", name, f.Data)
		}
	}
}
