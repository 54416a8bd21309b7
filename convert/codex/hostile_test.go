package codex_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/codex"
	"github.com/tidemark-sessions/tidemark/convert/converttest"
)

func TestABadFileIsSkippedAndTheOthersComeIn(t *testing.T) {
	p := store(map[int]string{
		1: meta(1) + user("Hello?"),
		2: "",
		3: "\x00\x01\x02",
		4: user("Hello?"),
		5: `{"timestamp":"2025-11-01T10:00:00Z","type":"session_meta","payload":{"id":"../../etc"}}` + "\n",
		6: strings.Repeat("x", 1<<20),
		7: "[[[[",
	})
	files := p.FS.(fstest.MapFS)
	files["sessions/2025/11/02/"+rolloutName(1)] = files["sessions/2025/11/01/"+rolloutName(1)]
	files["sessions/2025/11/01/"+rolloutName(8)+".zst"] = &fstest.MapFile{Data: []byte("(\xb5/\xfd")}
	got := converttest.Read(t, codex.Tool(), p)
	if len(got.Sessions) != 1 || len(got.Skips) != 8 {
		t.Errorf("%d sessions, skips:\n%s", len(got.Sessions), strings.Join(got.Skips, "\n"))
	}
}

func TestABadLineIsSkippedAndTheOthersComeIn(t *testing.T) {
	text := meta(1) + user("One?") + "{half\n" + item(`"text"`) + line("compacted", `[]`) + item(`{}`) + event(`7`) + reply("A.") + `{"timestamp":"2025-11-01T10:0`
	got := converttest.Read(t, codex.Tool(), store(map[int]string{1: text}))
	want := []string{"1 user One?", "4 item", "5 assistant A."}
	if d := cmp.Diff(want, outline(got.Sessions[0].Entries)); d != "" {
		t.Error(d)
	}
	if len(got.Skips) != 4 {
		t.Errorf("skips:\n%s", strings.Join(got.Skips, "\n"))
	}
}

func TestALineThatIsTooLongIsPassedOver(t *testing.T) {
	long := reply(strings.Repeat("x", convert.MaxLine))
	got := converttest.Read(t, codex.Tool(), store(map[int]string{1: meta(1) + user("One?") + long + reply("A.")}))
	if d := cmp.Diff([]string{"1 user One?", "2 assistant A."}, outline(got.Sessions[0].Entries)); d != "" || len(got.Skips) != 1 {
		t.Errorf("skips %v: %s", got.Skips, d)
	}
}

func TestAFolderWithoutRightsIsSkipped(t *testing.T) {
	p := store(map[int]string{1: meta(1) + user("One?")})
	files := p.FS.(fstest.MapFS)
	files["sessions/2025/11/02/"+rolloutName(2)] = &fstest.MapFile{Data: []byte(meta(2))}
	got := converttest.Read(t, codex.Tool(), convert.Source{FS: converttest.Locked{MapFS: files, Folder: "/02"}, Path: "."})
	if len(got.Sessions) != 1 || len(got.Skips) != 1 {
		t.Errorf("%d sessions, skips %v", len(got.Sessions), got.Skips)
	}
}

func base(n, end int) string {
	return fmt.Sprintf(`,"forked_from_id":%q,"history_base":{"thread_id":%q,"end_ordinal_exclusive":%d}`, id(n), id(n), end)
}

func TestAForkWhoseSourceIsGoneSaysSo(t *testing.T) {
	got := converttest.Read(t, codex.Tool(), store(map[int]string{1: numbered(9, meta(1, base(2, 9))+user("One?"))}))
	s := got.Sessions[0]
	if s.Fork != nil || s.Copied != "" || len(s.Lost) != 1 || len(s.Entries) != 1 {
		t.Errorf("fork %v, copied %q, lost %v", s.Fork, s.Copied, s.Lost)
	}
}

func TestForksInACircleComeInOnce(t *testing.T) {
	got := converttest.Read(t, codex.Tool(), store(map[int]string{
		1: numbered(9, meta(1, base(2, 99))+user("One?")),
		2: numbered(9, meta(2, base(1, 99))+user("Two?")),
		3: numbered(9, meta(3, base(3, 99))+user("Three?")),
	}))
	if len(got.Sessions) != 3 {
		t.Errorf("%d sessions", len(got.Sessions))
	}
}

func TestHelpersInACircleAreSessions(t *testing.T) {
	parent := func(n int) string { return fmt.Sprintf(`,"parent_thread_id":%q`, id(n)) }
	got := converttest.Read(t, codex.Tool(), store(map[int]string{
		1: meta(1, parent(2)) + user("One?"), 2: meta(2, parent(1)) + user("Two?"), 3: meta(3, parent(3)) + user("Three?"),
		4: meta(4, parent(99)) + user("Four?"),
	}))
	if len(got.Sessions) != 4 {
		t.Errorf("%d sessions", len(got.Sessions))
	}
}

func TestARewindToBeforeTheForkBringsThePastAlong(t *testing.T) {
	p := store(map[int]string{
		1: numbered(0, meta(1)+user("One?")+reply("A.")+user("Two?")+reply("B.")+user("Never shared.")),
		2: numbered(7, meta(2, base(1, 7))+user("Three?")),
	})
	p.FS.(fstest.MapFS)["sessions/2025/11/01/rollout-2025-11-01T11-00-00-"+id(2)+"_"+id(20)+".jsonl"] =
		&fstest.MapFile{Data: []byte(numbered(4, meta(2, base(1, 4))+user("Other?")))}
	got := converttest.Read(t, codex.Tool(), p)
	s := got.Find(id(2))
	want := []string{"01:1 user One?", "01:2 assistant A.", "01:3 user Two?", "01:4 assistant B.", "1 <01:4 user Three?", "14:1 <01:2 user Other?"}
	if d := cmp.Diff(want, outline(s.Entries)); d != "" || s.Copied != id(1) || s.Fork != nil {
		t.Errorf("copied %q, fork %v: %s", s.Copied, s.Fork, d)
	}
}

func TestARewindToTheForkItselfBringsThePastAlong(t *testing.T) {
	p := store(map[int]string{
		1: numbered(0, meta(1)+user("One?")+reply("A.")),
		2: numbered(4, meta(2, base(1, 4))+user("Two?")+reply("B.")),
	})
	p.FS.(fstest.MapFS)["sessions/2025/11/01/rollout-2025-11-01T11-00-00-"+id(2)+"_"+id(20)+".jsonl"] =
		&fstest.MapFile{Data: []byte(numbered(5, meta(2, base(2, 5))+user("Three?")))}
	s := converttest.Read(t, codex.Tool(), p).Find(id(2))
	want := []string{"01:1 user One?", "01:2 assistant A.", "1 <01:2 user Two?", "2 assistant B.", "14:1 <01:2 user Three?"}
	if d := cmp.Diff(want, outline(s.Entries)); d != "" || s.Copied != id(1) || s.Fork != nil {
		t.Errorf("copied %q, fork %v: %s", s.Copied, s.Fork, d)
	}
}

func TestAForkThatIsACopySaysOfWhat(t *testing.T) {
	got := converttest.Read(t, codex.Tool(), store(map[int]string{
		1: meta(1) + user("One?"), 2: meta(2, fmt.Sprintf(`,"forked_from_id":%q`, id(1))) + meta(1) + user("One?") + user("Two?"),
	}))
	s := got.Find(id(2))
	if d := cmp.Diff([]string{"One?", "Two?"}, converttest.Texts(s.Entries, tidemark.User)); d != "" || s.Copied != id(1) {
		t.Errorf("copied %q: %s", s.Copied, d)
	}
}

func FuzzImport(f *testing.F) {
	f.Add(meta(1)+user("One?")+reply("A."), meta(2, base(1, 3))+user("Two?"))
	f.Add(numbered(0, meta(1)+user("One?")), numbered(3, meta(2, base(1, 3))+reply("B.")))
	f.Add(meta(1)+item(`{"type":"function_call","name":"a","arguments":"{","call_id":"c"}`)+item(`{"type":"function_call_output","call_id":"c","output":{"content":"x","success":false}}`), "")
	f.Add(meta(1)+event(`{"type":"thread_rolled_back","num_turns":-1}`)+line("compacted", `{"message":"x"}`), `{"id":"`+id(2)+`","timestamp":"x"}`)
	f.Add(meta(1)+event(`{"type":"token_count","info":{"total_token_usage":{"input_tokens":-1},"last_token_usage":{"input_tokens":5,"cached_input_tokens":9}}}`), meta(2, `,"parent_thread_id":"`+id(1)+`"`))
	f.Fuzz(func(t *testing.T, a, b string) {
		if len(a)+len(b) > 1<<16 {
			return
		}
		p := store(map[int]string{1: a, 2: b})
		codex.Tool().Detect(t.Context(), p)
		got := converttest.Read(t, codex.Tool(), p)
		for _, one := range got.Sessions {
			s := *one.Session
			s.Entries = convert.All(one.Entries)
			if _, err := codex.Tool().Export(t.Context(), converttest.NewOut(), &s); err != nil {
				t.Errorf("export: %v", err)
			}
		}
	})
}
