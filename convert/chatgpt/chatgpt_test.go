package chatgpt_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/chatgpt"
	"github.com/tidemark-sessions/tidemark/convert/converttest"
)

// node is a node of the tree: its parent, and its message.
func node(id, parent string, at int, message string) string {
	up := "null"
	if parent != "" {
		up = `"` + parent + `"`
	}
	if message == "" {
		return fmt.Sprintf(`%q:{"id":%q,"parent":%s,"message":null}`, id, id, up)
	}
	return fmt.Sprintf(`%q:{"id":%q,"parent":%s,"message":{"id":%q,"create_time":%d.5,%s}}`, id, id, up, id, 1700000000+at, message)
}

func says(role, text string) string {
	return fmt.Sprintf(`"author":{"role":%q,"name":null},"content":{"content_type":"text","parts":[%q]},"recipient":"all"`, role, text)
}

func conversation(id, current string, nodes ...string) string {
	return fmt.Sprintf(`{"title":"tea","create_time":1700000000.25,"update_time":1700000009,"mapping":{%s},"current_node":%q,"conversation_id":%q,"gizmo_id":"g-1"}`, strings.Join(nodes, ","), current, id)
}

func export(conversations ...string) convert.Source {
	return convert.Source{Path: ".", FS: fstest.MapFS{
		"conversations.json":         {Data: []byte("[" + strings.Join(conversations, ",") + "]")},
		"user.json":                  {Data: []byte(`{"email":"ada@example.org"}`)},
		"file-aBc12345-tea leaf.png": {Data: []byte("\x89PNG\r\n\x1a\n")},
	}}
}

func TestATreeOfMessagesComesInWithAllItsBranches(t *testing.T) {
	got := converttest.ReadWhole(t, chatgpt.Tool(), export(conversation("c1", "a2",
		node("root", "", 0, ""), node("s", "root", 0, says("system", "")), node("u", "s", 1, says("user", "One?")),
		node("a1", "u", 2, says("assistant", "1.")), node("a2", "u", 3, says("assistant", "One.")), node("u2", "a1", 4, says("user", "Two?")))))
	s := got.Sessions[0]
	if d := cmp.Diff([]string{"s< context ", "u<s user One?", "a1<u assistant 1.", "a2<u assistant One.", "u2<a1 user Two?"}, converttest.Shape(s.Entries)); d != "" {
		t.Error(d)
	}
	if s.Head != "a2" || s.Title != "tea" || s.ForeignID != "c1" || s.Mode != tidemark.ModeRemote || !strings.Contains(string(s.Extra), "g-1") || s.CreatedAt.UnixMilli() != 1700000000250 {
		t.Errorf("head %q, session %+v", s.Head, s.Session.Session)
	}
	if converttest.Read(t, chatgpt.Tool(), export(conversation("c1", "a2", node("b", "a", 1, says("user", "x")), node("a", "", 2, says("user", "y"))))).Dump(t) !=
		converttest.Read(t, chatgpt.Tool(), export(conversation("c1", "a2", node("a", "", 2, says("user", "y")), node("b", "a", 1, says("user", "x"))))).Dump(t) {
		t.Error("the order in the file matters")
	}
}

func TestEveryKindOfContentHasAPlace(t *testing.T) {
	message := func(author, content, more string) string {
		return fmt.Sprintf(`"author":%s,"content":%s%s`, author, content, more)
	}
	const user, assistant, tool = `{"role":"user"}`, `{"role":"assistant"}`, `{"role":"tool","name":"python"}`
	got := converttest.ReadWhole(t, chatgpt.Tool(), export(conversation("c1", "",
		node("00", "", 0, message(user, `{"content_type":"user_editable_context","user_profile":"Ada","user_instructions":"Be brief."}`, `,"metadata":{"is_visually_hidden_from_conversation":true}`)),
		node("01", "00", 1, message(user, `{"content_type":"multimodal_text","parts":[{"content_type":"image_asset_pointer","asset_pointer":"file-service://file-aBc12345","width":4},"What is it?",{"content_type":"image_asset_pointer","asset_pointer":"sediment://file_gone1234"},{"odd":1},""]}`, "")),
		node("02", "01", 2, message(assistant, `{"content_type":"thoughts","thoughts":[{"summary":"s","content":"Hm."}]}`, "")),
		node("03", "02", 3, message(assistant, `{"content_type":"code","language":"python","text":"1+1"}`, `,"recipient":"python","metadata":{"model_slug":"gpt-x"}`)),
		node("04", "03", 4, message(tool, `{"content_type":"execution_output","text":"2"}`, "")),
		node("05", "04", 5, message(tool, `{"content_type":"text","parts":["more"]}`, "")),
		node("06", "05", 6, message(assistant, `{"content_type":"code","text":"{\"q\":\"tea\"}"}`, `,"recipient":"browser"`)),
		node("07", "06", 7, message(tool, `{"content_type":"tether_browsing_display","result":"pages"}`, "")),
		node("08", "07", 8, message(tool, `{"content_type":"system_error","text":"failed"}`, "")),
		node("09", "08", 9, message(assistant, `{"content_type":"reasoning_recap","content":"Thought."}`, "")),
		node("10", "09", 10, message(assistant, `{"content_type":"brand_new","x":1}`, `,"recipient":"all"`)),
		node("11", "10", 11, `"author":7,"content":[]`))))
	s := got.Sessions[0]
	want := []string{"00< context Ada+Be brief.", "01<00 user file-aBc12345-tea leaf.png+What is it?++", "02<01 assistant Hm.", "03<02 assistant python", "04<03 tool 2", "05<04 event more",
		"06<05 assistant browser", "07<06 tool pages", "08<07 error failed", "09<08 assistant Thought.", "10<09 assistant ", "11<10 context "}
	if d := cmp.Diff(want, converttest.Shape(s.Entries)); d != "" {
		t.Fatal(d)
	}
	picture := s.Entries[1].Blocks[0]
	if picture.Type != tidemark.BlockImage || picture.MediaType != "image/png" || len(picture.Data) != 8 || !strings.Contains(picture.Raw, `"width":4`) {
		t.Errorf("picture %+v", picture)
	}
	if gone := s.Entries[1].Blocks[2]; gone.URL != "sediment://file_gone1234" || len(s.Lost) != 1 {
		t.Errorf("%+v, lost %q", gone, s.Lost)
	}
	if string(s.Entries[3].Blocks[0].Input) != `"1+1"` || string(s.Entries[6].Blocks[0].Input) != `{"q":"tea"}` || s.Entries[4].Blocks[0].ToolUseID != "03" || s.Model != "gpt-x" {
		t.Errorf("calls %+v, %+v, %+v, model %q", s.Entries[3].Blocks, s.Entries[6].Blocks, s.Entries[4].Blocks, s.Model)
	}
	if raw := s.Entries[10].Blocks[0].Raw; !strings.Contains(raw, `"x":1`) {
		t.Errorf("raw %q", raw)
	}
}

func TestBadConversationsAreSkippedAndTheOthersComeIn(t *testing.T) {
	good := conversation("c1", "u", node("u", "", 1, says("user", "One?")))
	got := converttest.Read(t, chatgpt.Tool(), export(good, good, "7", `{"id":"c2"}`, conversation("../up", "", node("u", "", 1, says("user", "x"))),
		conversation("c3", "nowhere", node("a", "b", 1, says("user", "x")), node("b", "a", 1, says("user", "y")))))
	if len(got.Sessions) != 2 || len(got.Skips) != 4 || len(got.Find("c3").Entries) != 2 {
		t.Errorf("%d sessions, skips %q", len(got.Sessions), got.Skips)
	}
	converttest.CheckStops(t, chatgpt.Tool(), export(good))
}

func TestOnlyItsOwnExportsAreDetected(t *testing.T) {
	if !chatgpt.Tool().Detect(t.Context(), export(conversation("c1", "u"))) {
		t.Error("it is not detected")
	}
	for _, other := range []string{`[]`, `[{"uuid":"a","chat_messages":[]}]`, `[{"role":"user","content":"\"mapping\""}]`, `{"mapping":{}}`} {
		if chatgpt.Tool().Detect(t.Context(), convert.Source{Path: "a.json", FS: fstest.MapFS{"a.json": {Data: []byte(other)}}}) {
			t.Errorf("%s is detected", other)
		}
	}
}

func FuzzConversation(f *testing.F) {
	f.Add([]byte(conversation("c1", "a", node("root", "", 0, ""), node("u", "root", 1, says("user", "One?")), node("a", "u", 2, says("assistant", "1.")))))
	f.Add([]byte(`{"id":"c","mapping":{"a":{"parent":"a","message":{"author":{"role":"tool"},"content":{"content_type":"thoughts","thoughts":[7]},"create_time":1e300}}},"current_node":"a"}`))
	f.Add([]byte(`{"id":"c","mapping":{"a":{"message":{"recipient":"x","author":{"role":"assistant"},"content":{"content_type":"multimodal_text","parts":[{"asset_pointer":"x://file-aBc12345"}]}}},"":{"parent":"a","message":{"a":1}}}}`))
	f.Fuzz(func(t *testing.T, one []byte) {
		p := export(string(one))
		chatgpt.Tool().Detect(t.Context(), p)
		converttest.Read(t, chatgpt.Tool(), p)
	})
}
