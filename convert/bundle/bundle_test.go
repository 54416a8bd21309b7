package bundle_test

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/bundle"
)

// member is a file of a zip.
type member struct {
	name, data string
	mode       fs.FileMode
}

func pack(t testing.TB, members ...member) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, m := range members {
		h := &zip.FileHeader{Name: m.name, Method: zip.Deflate}
		if m.mode != 0 {
			h.SetMode(m.mode)
		}
		f, err := w.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte(m.data)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func zipped(data []byte) convert.Source {
	return convert.Source{FS: fstest.MapFS{"export.zip": {Data: data}}, Path: "export.zip"}
}

// read returns the ids of the conversations, and what was skipped.
func read(t testing.TB, p convert.Source) (ids, skips []string) {
	t.Helper()
	b, err := bundle.Open(p)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for c, err := range b.Conversations(context.Background()) {
		if err != nil {
			skips = append(skips, err.Error())
			continue
		}
		ids = append(ids, c.Text("id"))
	}
	return ids, skips
}

func TestAnExportIsAZipAFolderOrAFile(t *testing.T) {
	const one, two = `[{"id":"1"},{"id":"2"}]`, `[{"id":"3"}]`
	files := fstest.MapFS{"x/conversations-000.json": {Data: []byte(one)}, "x/conversations-001.json": {Data: []byte(two)}, "y/z/conversations.json": {Data: []byte(two)}}
	for name, c := range map[string]struct {
		place convert.Source
		want  []string
	}{
		"zip":           {zipped(pack(t, member{name: "user.json", data: "{}"}, member{name: "conversations.json", data: one})), []string{"1", "2"}},
		"folder in zip": {zipped(pack(t, member{name: "a/"}, member{name: "a/conversations.json", data: one})), []string{"1", "2"}},
		"shards":        {convert.Source{FS: files, Path: "x"}, []string{"1", "2", "3"}},
		"folder below":  {convert.Source{FS: files, Path: "y"}, []string{"3"}},
		"file":          {convert.Source{FS: files, Path: "x/conversations-001.json"}, []string{"3"}},
	} {
		ids, skips := read(t, c.place)
		if d := cmp.Diff(c.want, ids); d != "" || len(skips) != 0 {
			t.Errorf("%s: skips %q: %s", name, skips, d)
		}
	}
}

func TestAHostileZipIsRefused(t *testing.T) {
	good := member{name: "conversations.json", data: "[]"}
	encrypted := pack(t, good)
	for i := 0; i+4 < len(encrypted); i++ { // the flags of the file, and those in the directory
		switch string(encrypted[i : i+4]) {
		case "PK\x03\x04":
			encrypted[i+6] |= 1
		case "PK\x01\x02":
			encrypted[i+8] |= 1
		}
	}
	whole := pack(t, good)
	for name, data := range map[string][]byte{
		"a name that leads out":   pack(t, good, member{name: "../../.bashrc", data: "x"}),
		"an absolute name":        pack(t, good, member{name: "/etc/passwd", data: "x"}),
		"a name of Windows":       pack(t, good, member{name: `a\..\..\x`, data: "x"}),
		"a link":                  pack(t, good, member{name: "file-12345678", data: "/etc/passwd", mode: fs.ModeSymlink | 0o777}),
		"a list that is a link":   pack(t, member{name: "conversations.json", data: "/etc/passwd", mode: fs.ModeSymlink | 0o777}),
		"a device":                pack(t, good, member{name: "file-12345678", mode: fs.ModeDevice | 0o600}),
		"a name twice":            pack(t, good, good),
		"encrypted":               encrypted,
		"cut off":                 whole[:len(whole)-10],
		"no list":                 pack(t, member{name: "notes.json", data: "[]"}),
		"no directory":            []byte("PK\x03\x04"),
		"nothing but a beginning": append([]byte("PK\x03\x04"), make([]byte, 100)...),
	} {
		if b, err := bundle.Open(zipped(data)); !errors.Is(err, tidemark.ErrInvalid) {
			t.Errorf("%s: %v, %v", name, b, err)
		}
	}
}

func TestABombIsNotUnpacked(t *testing.T) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	f, err := w.Create("conversations.json")
	if err != nil {
		t.Fatal(err)
	}
	zeros := bytes.Repeat([]byte(" "), 1<<20)
	for range 80 {
		if _, err := f.Write(zeros); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	ids, skips := read(t, zipped(b.Bytes()))
	if len(ids) != 0 || len(skips) != 1 || !strings.Contains(skips[0], "unpacks to") {
		t.Errorf("ids %q, skips %q", ids, skips)
	}
	if bundle.Detect(zipped(b.Bytes()), "id") {
		t.Error("it is detected")
	}
}

func TestAZipThatLiesAboutASizeIsReadToThatSize(t *testing.T) {
	data := pack(t, member{name: "conversations.json", data: `[{"id":"1"},{"id":"2"}]`})
	at := bytes.Index(data, []byte("PK\x01\x02"))
	data[at+24] = 13 // of 23 bytes
	ids, skips := read(t, zipped(data))
	if len(ids) > 1 || len(skips) != 1 {
		t.Errorf("ids %q, skips %q", ids, skips)
	}
}

func TestAListIsReadUpToItsDamage(t *testing.T) {
	for data, want := range map[string]string{
		`[]`:                           "0 0",
		``:                             "0 1",
		`{}`:                           "0 1",
		`[{"id":"1"},`:                 "1 1",
		`[{"id":"1"}`:                  "1 1",
		`[{"id":"1"},{"id":`:           "1 1",
		`[7,null,{"id":"1"}]`:          "1 2",
		`[{"id":"1"} {"id":"2"}]`:      "1 1",
		"[" + strings.Repeat("[", 9e4): "0 1",
	} {
		ids, skips := read(t, convert.Source{FS: fstest.MapFS{"a.json": {Data: []byte(data)}}, Path: "a.json"})
		if got := fmt.Sprint(len(ids), " ", len(skips)); got != want {
			t.Errorf("%.20s: %s, want %s: %q", data, got, want, skips)
		}
	}
}

func TestAFileIsFoundByItsID(t *testing.T) {
	b, err := bundle.Open(zipped(pack(t, member{name: "conversations.json", data: "[]"}, member{name: "dalle/file-12345678-tea.png", data: "PNG"}, member{name: "user.json", data: "{}"})))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if name, data := b.File("file-12345678", 3); name != "file-12345678-tea.png" || string(data) != "PNG" {
		t.Errorf("%q, %q", name, data)
	}
	for _, id := range []string{"", "user", "user.json", "../user.json", "file-12345679", "file-1234567*"} {
		if name, data := b.File(id, 100); data != nil {
			t.Errorf("%q is %q, %q", id, name, data)
		}
	}
	if _, data := b.File("file-12345678", 2); data != nil {
		t.Errorf("it is longer: %q", data)
	}
}

func TestNodesComeAfterTheirParentsAndByTime(t *testing.T) {
	at := func(n int64) time.Time { return time.Unix(n, 0) }
	for name, c := range map[string]struct {
		nodes []bundle.Node
		want  string
	}{
		"branches":   {[]bundle.Node{{ID: "c", Parent: "a", At: at(3)}, {ID: "b", Parent: "a", At: at(2)}, {ID: "a", At: at(1)}, {ID: "d", Parent: "b", At: at(4)}}, "abcd"},
		"no times":   {[]bundle.Node{{ID: "b", Parent: "a"}, {ID: "a"}, {ID: "c", Parent: "b"}}, "abc"},
		"clock back": {[]bundle.Node{{ID: "b", Parent: "a", At: at(1)}, {ID: "a", At: at(9)}}, "ab"},
		"circle":     {[]bundle.Node{{ID: "a", Parent: "b"}, {ID: "b", Parent: "a"}, {ID: "c", Parent: "c"}}, "cab"},
		"twice":      {[]bundle.Node{{ID: "a"}, {ID: "a", Parent: "a"}}, "aa"},
	} {
		got := ""
		for _, i := range bundle.Order(c.nodes) {
			got += c.nodes[i].ID
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// FuzzBundle opens any bytes, as a zip and as a list.
func FuzzBundle(f *testing.F) {
	f.Add(pack(f, member{name: "conversations.json", data: `[{"id":"1"}]`}))
	f.Add([]byte(`[{"id":"1"},`))
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := bundle.Open(zipped(data))
		if err != nil {
			return
		}
		defer b.Close()
		b.First()
		b.File("conversations", 10)
		for range b.Conversations(t.Context()) {
		}
	})
}
