package droid_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/converttest"
	"github.com/tidemark-sessions/tidemark/convert/droid"
)

func TestEverySampleComesInAsItWasHeld(t *testing.T) {
	// A list of things to do was not among the tools that the script was offered.
	tools := map[string][]string{"read": {"Read"}, "edit": {"Edit"}, "write": {"Create"}, "bash": {"Execute"}, "todo": nil, "task": {"Task"}, "wait": nil}
	for _, s := range converttest.Samples(t, os.DirFS("../testdata/factory-droid")) {
		t.Run(s.Name, func(t *testing.T) {
			got := s.Check(t, droid.Tool(), tools)
			if len(got.Sessions) != 14 {
				t.Errorf("%d sessions, want 14", len(got.Sessions))
			}
			images := 0
			for _, one := range got.Sessions {
				if one.Model == "" || one.Title == "" || one.CreatedAt.IsZero() || !strings.Contains(string(one.Extra), `"tokenUsage"`) {
					t.Errorf("%s: model %q, title %q, created %v, extra %s", one.ForeignID, one.Model, one.Title, one.CreatedAt, one.Extra)
				}
				for _, e := range one.Entries {
					if e.Parent != "" && e.Parent != convert.Root {
						t.Errorf("%s: %s is on a branch", one.ForeignID, e.ID)
					}
					for _, b := range e.Blocks {
						for _, inner := range b.Blocks {
							if inner.Type == tidemark.BlockImage && len(inner.Data) > 0 {
								images++
							}
						}
					}
				}
			}
			if images != 1 {
				t.Errorf("%d images, want 1", images)
			}
			tea, fork := got.Find("1dbf827e-c35c-4476-a347-d8a245977420"), got.Find("e9478fe2-92da-4cd8-a19e-5681d6dabd6a")
			if !fork.CreatedAt.After(tea.UpdatedAt) {
				t.Errorf("the fork was made at %v, its source was last changed at %v", fork.CreatedAt, tea.UpdatedAt)
			}
		})
	}
}

func TestWhatIsFinalStaysAsAFileGrows(t *testing.T) {
	for _, s := range converttest.Samples(t, os.DirFS("../testdata/factory-droid")) {
		drafts, entries := converttest.CheckGrowth(t, droid.Tool(), s.Source, func(file string) (bool, []string) { return strings.HasSuffix(file, ".jsonl"), nil })
		if drafts != 0 || entries == 0 {
			t.Errorf("%d of %d entries are drafts", drafts, entries)
		}
	}
}

// Ids of sessions.
const (
	one = "aaaaaaaa-0000-4000-8000-000000000001"
	two = "bbbbbbbb-0000-4000-8000-000000000002"
)

func head(id, more string) string {
	return fmt.Sprintf(`{"type":"session_start","id":%q,"title":"tea","version":2,"cwd":"/w/tea"%s}`, id, more)
}

func message(id, parent, fields string) string {
	up := ""
	if parent != "" {
		up = fmt.Sprintf(`"parentId":%q,`, parent)
	}
	return fmt.Sprintf(`{"type":"message","id":%q,%s"timestamp":"2026-01-02T03:04:05.678Z","message":{%s}}`, id, up, fields)
}

func says(role, text string) string {
	return fmt.Sprintf(`"role":%q,"content":[{"type":"text","text":%q}]`, role, text)
}

func store(files map[string][]string) convert.Source {
	all := fstest.MapFS{}
	for id, lines := range files {
		all[".factory/sessions/-w-tea/"+id+".jsonl"] = converttest.Lines(lines...)
	}
	return convert.Source{FS: all, Path: "."}
}

func shape(t *testing.T, lines ...string) []string {
	t.Helper()
	got := converttest.ReadWhole(t, droid.Tool(), store(map[string][]string{one: append([]string{head(one, "")}, lines...)}))
	return converttest.Shape(got.Sessions[0].Entries)
}

func TestTheTreeOfMessagesIsTheTreeOfEntries(t *testing.T) {
	want := []string{"u1< user One?", "a1< assistant 1.", "line.4< event ", "u2< user Two?", "line.6< interrupted ", "u3<line.4 user Three?", "u4< user lost"}
	got := shape(t, message("u1", "", says("user", "One?")), message("a1", "u1", says("assistant", "1.")), `{"type":"agent_turn_outcome","turnId":"u1","reason":"completed"}`,
		message("u2", "a1", says("user", "Two?")), `{"type":"agent_turn_outcome","turnId":"u2","reason":"cancelled"}`, message("u3", "a1", says("user", "Three?")), message("u4", "gone", says("user", "lost")))
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestEverybodyInAMessageHasAnEntry(t *testing.T) {
	mixed := `"role":"user","content":[{"type":"text","text":"<system-reminder>Mind.</system-reminder>"},{"type":"tool_result","tool_use_id":"c","is_error":true,"content":"no"},{"type":"text","text":"Go on."}]`
	for name, c := range map[string]struct {
		fields string
		want   []string
	}{
		"mixed":    {mixed, []string{"m.context< context <system-reminder>Mind.</system-reminder>", "m.tool< tool no", "m< user Go on."}},
		"context":  {`"visibility":"llm_only",` + says("user", "facts"), []string{"m< context facts"}},
		"reminder": {says("user", "<system-reminder>x</system-reminder>"), []string{"m< context <system-reminder>x</system-reminder>"}},
		"error":    {`"visibility":"user_only",` + says("user", "refused"), []string{"m< notice refused"}},
		"text":     {`"role":"user","content":"plain"`, []string{"m< user plain"}},
		"unknown":  {`"role":"assistant","content":[{"type":"odd","x":1},7]`, []string{"m< assistant +"}},
		"nothing":  {`"role":"user"`, []string{"m< user "}},
		"file":     {`"role":"user","content":[{"type":"document","title":"a.txt","source":{"type":"text","media_type":"text/plain","data":"tea"}}]`, []string{"m< user a.txt"}},
	} {
		if d := cmp.Diff(c.want, shape(t, message("m", "", c.fields))); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

func TestASummaryAndUnknownLinesAreKept(t *testing.T) {
	got := converttest.ReadWhole(t, droid.Tool(), store(map[string][]string{one: {head(one, `,"tomorrow":1`), message("u1", "", says("user", "One?")),
		`{"type":"compaction_state","id":"k","timestamp":"2026-01-02T03:04:05Z","summaryText":"So far."}`, `{"type":"todo_state","id":"t","todos":[1]}`}}))
	s := got.Sessions[0]
	if d := cmp.Diff([]string{"u1< user One?", "k< compaction So far.", "t< event "}, converttest.Shape(s.Entries)); d != "" {
		t.Error(d)
	}
	if !strings.Contains(string(s.Entries[2].Extra), `"todos":[1]`) || !strings.Contains(string(s.Extra), `"tomorrow":1`) {
		t.Errorf("extra %s, %s", s.Entries[2].Extra, s.Extra)
	}
}

func TestHelpersAreWorkersOfTheSessionThatCalled(t *testing.T) {
	const three = "cccccccc-0000-4000-8000-000000000003"
	calls := func(id string) string {
		return `,"callingSessionId":"` + id + `","callingToolUseId":"call-` + id[:1] + `"`
	}
	for name, c := range map[string]struct {
		of   map[string]string
		want string
	}{
		"of one another": {map[string]string{one: "", two: one, three: two}, "aaaa: bbbb call-a, cccc call-b, "},
		"gone":           {map[string]string{two: one}, "bbbb: "},
		"in a circle":    {map[string]string{one: two, two: one}, "aaaa: bbbb: "},
		"its own":        {map[string]string{one: one}, "aaaa: "},
	} {
		files := map[string][]string{}
		for id, caller := range c.of {
			more := ""
			if caller != "" {
				more = calls(caller)
			}
			files[id] = []string{head(id, more), message("u", "", says("user", "Hello"))}
		}
		is := ""
		for _, s := range converttest.ReadWhole(t, droid.Tool(), store(files)).Sessions {
			is += s.ForeignID[:4] + ": "
			for _, w := range s.Workers {
				is += w.Name[:4] + " " + w.Call + ", "
			}
		}
		if is != c.want {
			t.Errorf("%s: %q, want %q", name, is, c.want)
		}
	}
}

func TestDamageIsSkippedAndTheRestComesIn(t *testing.T) {
	good := head(one, "") + "\n" + message("u1", "", says("user", "One?")) + "\n"
	place := func(data string) convert.Source {
		return convert.Source{Path: ".", FS: fstest.MapFS{".factory/sessions/-w/a.jsonl": {Data: []byte(data)}, ".factory/sessions/-w/a.settings.json": {Data: []byte(`{"model":`)}}}
	}
	converttest.CheckDamage(t, droid.Tool(), place, map[string]converttest.Damaged{
		"empty":      {Data: "", Skips: 1, Sessions: 0, Entries: 0},
		"other tool": {Data: `{"type":"session","id":"x"}` + "\n", Skips: 1, Sessions: 0, Entries: 0},
		"bad id":     {Data: strings.Replace(good, one, "../up", 1), Skips: 1, Sessions: 0, Entries: 0},
		"half":       {Data: head(one, "")[:40], Skips: 1, Sessions: 0, Entries: 0},
		"head alone": {Data: head(one, ""), Skips: 0, Sessions: 1, Entries: 0},
		"cut off":    {Data: good + `{"type":"mess`, Skips: 1, Sessions: 1, Entries: 1},
		"not JSON":   {Data: good + "hello\n", Skips: 1, Sessions: 1, Entries: 1},
		"same id":    {Data: good + good[strings.Index(good, "\n")+1:], Skips: 0, Sessions: 1, Entries: 2},
		"own parent": {Data: good + message("u2", "u2", says("user", "x")) + "\n", Skips: 0, Sessions: 1, Entries: 2},
	})
}

func TestEveryWayToNameAStoreIsDetected(t *testing.T) {
	p := store(map[string][]string{one: {head(one, ""), message("u1", "", says("user", "One?"))}})
	for _, name := range []string{".", ".factory", ".factory/sessions", ".factory/sessions/-w-tea", ".factory/sessions/-w-tea/" + one + ".jsonl"} {
		p.Path = name
		if !droid.Tool().Detect(t.Context(), p) || len(converttest.ReadWhole(t, droid.Tool(), p).Sessions) != 1 {
			t.Errorf("%s is not detected", name)
		}
	}
	p.Path = "."
	converttest.CheckStops(t, droid.Tool(), p)
	files := p.FS.(fstest.MapFS)
	files[".factory/sessions/-locked/x.jsonl"] = converttest.Lines(head(two, ""))
	got := converttest.Read(t, droid.Tool(), convert.Source{FS: converttest.Locked{MapFS: files, Folder: "-locked"}, Path: "."})
	if len(got.Sessions) != 1 || len(got.Skips) != 1 {
		t.Errorf("%d sessions, skips %v", len(got.Sessions), got.Skips)
	}
}

func FuzzSession(f *testing.F) {
	f.Add([]byte(message("u1", "", says("user", "One?"))+"\n"+message("a1", "u1", says("assistant", "1."))), []byte(`{"model":"m"}`))
	f.Add([]byte(`{"type":"message","id":"u","parentId":"u","message":{"role":"user","content":[{"type":"tool_result","content":[{"type":"image","source":{"type":"base64","data":"!"}}]}]}}`), []byte(`[]`))
	f.Add([]byte(`{"type":"session_start"}`+"\n"+`{"type":"message","message":{"content":[{"type":"tool_result","content":[{"type":"tool_result"}]},null,7]}}`), []byte(`null`))
	f.Fuzz(func(t *testing.T, lines, settings []byte) {
		p := convert.Source{Path: ".", FS: fstest.MapFS{"sessions/-w/a.jsonl": {Data: append([]byte(head(one, "")+"\n"), lines...)}, "sessions/-w/a.settings.json": {Data: settings}}}
		droid.Tool().Detect(t.Context(), p)
		if got := converttest.Read(t, droid.Tool(), p); len(got.Sessions)+len(got.Skips) == 0 {
			t.Error("neither a session nor a reason why not")
		}
	})
}
