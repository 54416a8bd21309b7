package opencode_test

import (
	"testing"
	"testing/fstest"

	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/converttest"
	"github.com/tidemark-sessions/tidemark/convert/opencode"
)

// FuzzTree reads any bytes as the files of a session: its own, a message, and
// two parts. Whatever comes must be fit to keep.
func FuzzTree(f *testing.F) {
	session := []byte(`{"id":"ses_a","parentID":"ses_a","revert":{"messageID":"msg_1","partID":"prt_2"},"time":{"created":1}}`)
	f.Add(session, []byte(`{"role":"user","time":{"created":1e18}}`), []byte(`{"type":"text","text":"\"a b\""}`), []byte(`{"type":"file","url":"data:,x"}`))
	f.Add([]byte(`{"id":"ses_a"}`), []byte(`{"role":"assistant","tokens":{"input":1e300},"summary":true}`), []byte(`{"type":"tool","state":{"status":"completed","input":[1],"attachments":[{}]}}`), []byte(`{"type":"step-finish","cost":1}`))
	f.Add([]byte(`{"id":"ses_a","time":null}`), []byte(`{"role":"assistant","error":{"name":"x"}}`), []byte(`{"type":"reasoning","metadata":{"a":{}}}`), []byte(`null`))
	f.Fuzz(func(t *testing.T, session, message, part1, part2 []byte) {
		got := converttest.Read(t, opencode.Tool(), convert.Source{Path: ".", FS: fstest.MapFS{
			"storage/session/p/ses_a.json":   {Data: session},
			"storage/message/ses_a/m_1.json": {Data: message},
			"storage/part/m_1/prt_1.json":    {Data: part1},
			"storage/part/m_1/prt_2.json":    {Data: part2},
		}})
		if len(got.Sessions)+len(got.Skips) == 0 {
			t.Error("neither a session nor a reason why not")
		}
	})
}

// FuzzExport reads any bytes as an exported file.
func FuzzExport(f *testing.F) {
	f.Add([]byte(`{"info":{"id":"ses_a"},"messages":[{"info":{"id":"m","role":"user"},"parts":[{"type":"text","text":"x"}]},{"info":{"id":"m"},"parts":[]}]}`))
	f.Add([]byte(`{"info":{"id":"ses_`))
	f.Fuzz(func(t *testing.T, data []byte) {
		converttest.Read(t, opencode.Tool(), convert.Source{Path: "a.json", FS: fstest.MapFS{"a.json": {Data: data}}})
	})
}
