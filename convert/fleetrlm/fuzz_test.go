package fleetrlm

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/converttest"
)

// FuzzManifest reads any manifest, writes what came in, and expects the same
// manifest back, and the same session from it.
func FuzzManifest(f *testing.F) {
	err := filepath.WalkDir("testdata", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(name) != manifestEnd {
			return err
		}
		b, err := os.ReadFile(name)
		f.Add(string(b))
		return err
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(`{"turns":[{"response":"x"},{"user_message":"","response":"y","":0},7,{"user_request":"[summary of earlier conversation]"}],"tidemark":{"turns":{"a":{}}}}`)
	f.Add(`{"state":{"history":{"messages":[{}],"x":1},"core_memory":{"a":1},"interpreter_state":{"loaded_document_paths":["a"]},"daytona":{}},"logs":[{"user_message":"a","timestamp":1e9}]}`)
	f.Add(`{"state":{"document_paths":["a"],"turns":[{"user_message":"a"}]},"history":[],"tidemark":7,"timestamp":1e300}`)
	f.Fuzz(func(t *testing.T, body string) {
		const name = "meta/workspaces/w/users/u/react-session-s.json"
		place := convert.Source{FS: fstest.MapFS{name: {Data: []byte(body)}}, Path: "."}
		got := converttest.Read(t, Tool(), place)
		if len(got.Sessions)+len(got.Skips) != 1 {
			t.Fatalf("%d sessions, skipped %q", len(got.Sessions), got.Skips)
		}
		for _, s := range got.Sessions {
			out := converttest.NewOut()
			again := *s.Session
			again.Entries = convert.All(s.Entries)
			if _, err := Tool().Export(context.Background(), out, &again); err != nil {
				t.Fatal(err)
			}
			top, err := parseObject([]byte(body))
			if err != nil {
				t.Fatal(err)
			}
			source, err := convert.Encode(top.Without(blockKey))
			if err != nil {
				t.Fatal(err)
			}
			written, err := parseObject(out.Files[name].Data)
			if err != nil {
				t.Fatal(err)
			}
			if back, err := convert.Encode(written.Without(blockKey)); err != nil || !convert.SameJSON(source, back) {
				t.Errorf("%s\nbecame\n%s", source, back)
			}
			second := converttest.Read(t, Tool(), out.Source())
			if len(second.Sessions) != 1 {
				t.Fatalf("what was written is not read: %q", second.Skips)
			}
			if d := cmp.Diff(s.Entries, second.Sessions[0].Entries); d != "" {
				t.Error(d)
			}
		}
	})
}
