package converttest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// CheckWriter writes every one of Conversations with a tool, reads it back, and
// compares what was said. newID makes the ids that the tool gives to sessions.
func CheckWriter(t *testing.T, tool convert.Tool, newID func() string) {
	t.Helper()
	for _, c := range Conversations() {
		t.Run(c.Name, func(t *testing.T) {
			want := atoms(Path(readAll(t, c.Session.Entries), c.Session.Head))
			s := *c.Session
			s.ForeignID = newID()
			got, lost := Written(t, tool, &s)
			if got.ForeignID != s.ForeignID || got.Project != s.Project || got.Title != "" && oneLine(got.Title) != oneLine(s.Title) {
				t.Errorf("read back as session %q of %q with the title %q", got.ForeignID, got.Project, got.Title)
			}
			is := atoms(Path(got.Entries, got.Head))
			if !slices.Equal(want, is) && !c.Mended {
				t.Errorf("said was\n%.4000s\nread back was\n%.4000s", strings.Join(want, "\n"), strings.Join(is, "\n"))
			}
			for _, text := range c.Extra {
				if !strings.Contains(strings.Join(is, "\n"), text) {
					t.Errorf("%q is not in what was read back:\n%s", text, strings.Join(is, "\n"))
				}
			}
			if c.Loses && len(lost) == 0 {
				t.Error("nothing is said to be lost")
			}
			if wrong := pairs(Path(got.Entries, got.Head)); wrong != "" {
				t.Error(wrong)
			}
		})
	}
}

// Written exports a session into an empty folder and returns what is there to be
// imported, and what was lost.
func Written(t testing.TB, tool convert.Tool, s *convert.Session) (Session, []string) {
	t.Helper()
	out := NewOut()
	lost, err := tool.Export(context.Background(), out, s)
	if err != nil {
		t.Fatal(err)
	}
	p := out.Source()
	if !tool.Detect(context.Background(), p) {
		t.Error("what was written is not recognized")
	}
	got := ReadWhole(t, tool, p)
	if len(got.Sessions) != 1 {
		t.Fatalf("%d sessions were read back", len(got.Sessions))
	}
	return got.Sessions[0], lost
}

// PathOf returns the entries of a session up to its head.
func PathOf(s *convert.Session) []convert.Entry {
	b, err := convert.BranchTo(context.Background(), s.Entries, s.Head)
	if err != nil {
		panic(err) // of a session in memory
	}
	return b.Entries
}

func readAll(t testing.TB, entries func(func(convert.Entry, error) bool)) (all []convert.Entry) {
	t.Helper()
	for e, err := range entries {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// atoms lists what was said, whatever the messages that it is in.
func atoms(entries []convert.Entry) (all []string) {
	for _, e := range entries {
		kind := string(e.Role)
		if kind == "" {
			kind = e.Kind
		}
		if e.Role == "" && e.Kind != convert.KindCompaction && e.Kind != convert.KindCommand {
			continue
		}
		for _, b := range e.Blocks {
			all = append(all, atomsOf(kind, b)...)
		}
	}
	return all
}

func atomsOf(kind string, b tidemark.Block) (all []string) {
	switch b.Type {
	case tidemark.BlockToolUse:
		return []string{fmt.Sprintf("call %s %s %s", b.ID, b.Name, convert.Canonical(b.Input))}
	case tidemark.BlockToolResult:
		all = []string{fmt.Sprintf("result %s %t", b.ToolUseID, b.IsError)}
		if b.Text != "" {
			all = append(all, "  "+b.Text)
		}
		for _, in := range b.Blocks {
			all = append(all, atomsOf(" ", in)...)
		}
		return all
	case tidemark.BlockImage, tidemark.BlockFile:
		return []string{fmt.Sprintf("%s %s %s %d bytes %x", kind, b.Type, b.Name+b.MediaType, len(b.Data), b.Data[:min(len(b.Data), 40)])}
	case tidemark.BlockThinking:
		return []string{"thinking " + b.Text}
	}
	return []string{kind + " " + b.Text}
}

// pairs says what is wrong with the calls and results of a path, "" for nothing.
func pairs(entries []convert.Entry) string {
	open, seen := map[string]bool{}, map[string]bool{}
	for _, e := range entries {
		if len(open) > 0 && (e.Role == tidemark.User || e.Role == tidemark.Assistant) {
			return fmt.Sprintf("entry %s comes before the results of %v", e.ID, open)
		}
		for _, b := range e.Blocks {
			switch {
			case b.Type == tidemark.BlockToolUse && seen[b.ID]:
				return "call " + b.ID + " is there twice"
			case b.Type == tidemark.BlockToolUse:
				open[b.ID], seen[b.ID] = true, true
			case b.Type == tidemark.BlockToolResult && !open[b.ToolUseID]:
				return "result of " + b.ToolUseID + " has no call"
			case b.Type == tidemark.BlockToolResult:
				delete(open, b.ToolUseID)
			}
		}
	}
	if len(open) > 0 {
		return fmt.Sprintf("there are no results of %v", open)
	}
	return ""
}
