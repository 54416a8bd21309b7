package transfer

import (
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/converttest"
)

func TestWhatIsWrittenAsItIsIsMendedBefore(t *testing.T) {
	for _, name := range []string{"claude-code", "codex"} {
		t.Run(name, func(t *testing.T) {
			tool, err := ToolNamed(name)
			if err != nil {
				t.Fatal(err)
			}
			write := tool.Export
			tool.Export = func(ctx context.Context, out convert.Out, s *convert.Session) ([]string, error) {
				s.ID = tidemark.SessionID(s.ForeignID) // as a handover has it
				fitted, err := Fit(ctx, tool, s)
				if err != nil {
					return nil, err
				}
				lost, err := write(ctx, out, s)
				return append(fitted, lost...), err
			}
			for _, c := range converttest.Conversations() {
				s := *c.Session
				s.ForeignID = string(tidemark.NewSessionID())
				got, _ := converttest.Written(t, tool, &s)
				text, err := json.Marshal(got.Entries)
				if err != nil {
					t.Fatal(err)
				}
				for _, want := range c.Extra {
					if !strings.Contains(string(text), want) {
						t.Errorf("%s: %q is not in what was read back:\n%s", c.Name, want, text)
					}
				}
			}
		})
	}
}

func TestASessionOfTheToolIsLeftAsItIsUnlessItIsBroken(t *testing.T) {
	tool, err := ToolNamed("codex")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		say     func() *convert.Session
		mending bool
	}{
		"sound":  {func() *convert.Session { return converttest.Sound("codex") }, false},
		"broken": {func() *convert.Session { return withoutResults(converttest.Sound("codex")) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := c.say()
			before := owned(t, s, tool.Name)
			s.Entries = convert.All(before)
			if _, err := Fit(t.Context(), tool, s); err != nil {
				t.Fatal(err)
			}
			var after []convert.Entry
			for e := range s.Entries {
				after = append(after, e)
			}
			if changed := !reflect.DeepEqual(before, after); changed != c.mending {
				t.Errorf("changed: %t, from %d to %d entries", changed, len(before), len(after))
			}
		})
	}
}

// owned are the entries of a session as if they came from a tool.
func owned(t *testing.T, s *convert.Session, tool string) (all []convert.Entry) {
	t.Helper()
	for e, err := range s.Entries {
		if err != nil {
			t.Fatal(err)
		}
		e.Key = tool + ":" + e.ID
		all = append(all, e)
	}
	return all
}

// withoutResults is a session whose calls have no results.
func withoutResults(s *convert.Session) *convert.Session {
	var kept []convert.Entry
	for e := range s.Entries {
		if e.Role != tidemark.Tool {
			kept = append(kept, e)
		}
	}
	s.Entries = convert.All(kept)
	return s
}
