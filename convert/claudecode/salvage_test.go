package claudecode

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark/convert"
)

const (
	goneID  = "11111111-1111-4111-8111-111111111111"
	hereID  = "21111111-1111-4111-8111-111111111111"
	quietID = "31111111-1111-4111-8111-111111111111"
)

func salvagedFrom(t testing.TB, lines string) (all []*convert.Session) {
	t.Helper()
	p := convert.Source{FS: fstest.MapFS{".claude/history.jsonl": {Data: []byte(lines)}}, Path: "."}
	for s, err := range salvage(t.Context(), p, []source{{head: head{ID: hereID}}}) {
		if err != nil && !convert.IsSkip(err) {
			t.Fatal(err)
		}
		if err == nil {
			all = append(all, s)
		}
	}
	return all
}

func TestPromptsOfSessionsWithoutATranscriptAreWhatIsLeftOfThem(t *testing.T) {
	all := salvagedFrom(t, strings.Join([]string{
		`{"display":"which tea? [Pasted text #1 +2 lines] and [Pasted text #2 +9 lines]","pastedContents":{"1":{"id":1,"content":"green\nor black"},"2":{"contentHash":"x"}},"timestamp":1794702715973,"project":"/w","sessionId":"` + goneID + `"}`,
		`{"display":"it is here","timestamp":1,"project":"/w","sessionId":"` + hereID + `"}`,
		`{"display":"of an old version","timestamp":1,"project":"/w"}`,
		`{"display":"/exit","timestamp":1794702715999,"project":"/w","sessionId":"` + quietID + `"}`,
		`{"display":"/clear","timestamp":1794702715999,"project":"/w","sessionId":"` + goneID + `"}`,
		`{"display":"and how warm?","timestamp":1794702716000,"project":"/w","sessionId":"` + goneID + `"}`,
		`{"display":"cut o`,
	}, "\n"))
	if len(all) != 1 || all[0].PromptsOf != goneID || all[0].ForeignID != goneID+"/prompts" || all[0].Project != "/w" || all[0].CreatedAt.UnixMilli() != 1794702715973 {
		t.Fatalf("%+v", all)
	}
	var said []string
	for e := range all[0].Entries {
		said = append(said, e.ID+" "+e.Kind+" "+e.Text())
	}
	if d := cmp.Diff([]string{"prompt.1 message which tea? green\nor black and [Pasted text #2 +9 lines]", "prompt.2 command /clear", "prompt.3 message and how warm?"}, said); d != "" {
		t.Error(d)
	}
}

func FuzzPromptsOfDeletedSessions(f *testing.F) {
	f.Add(`{"display":"a [Pasted text #1]","pastedContents":{"1":{"content":"[Pasted text #1]"}},"timestamp":9223372036854775807,"sessionId":"` + goneID + `"}` + "\n{\n")
	f.Add(`{"display":"","pastedContents":null,"timestamp":-1,"sessionId":"x"}`)
	f.Fuzz(func(t *testing.T, lines string) {
		for _, s := range salvagedFrom(t, lines) {
			n := 0
			for e, err := range s.Entries {
				if n++; err != nil || e.ID == "" || e.Text() == "" {
					t.Fatalf("%+v, %v", e, err)
				}
			}
			if n == 0 || s.PromptsOf == hereID {
				t.Fatalf("%+v", s)
			}
		}
	})
}
