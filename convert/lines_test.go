package convert

import (
	"bytes"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func TestLinesAreSplitAtNewlinesAlone(t *testing.T) {
	long := strings.Repeat("x", MaxLine+2)
	files := fstest.MapFS{"a": {Data: []byte("one\r\n\n  \ntwo\u2028still two\n" + long + "\nthree\ntorn")}}
	var got []string
	for l, err := range Lines(files, "a") {
		switch {
		case IsSkip(err):
			got = append(got, "skip")
		case err != nil:
			t.Fatal(err)
		case l.Torn:
			got = append(got, string(l.Text)+" (torn)")
		default:
			got = append(got, string(l.Text))
		}
	}
	if d := cmp.Diff([]string{"one", "two\u2028still two", "skip", "three", "torn (torn)"}, got); d != "" {
		t.Error(d)
	}
}

func TestAFileThatIsNotThereIsAnError(t *testing.T) {
	for _, err := range Lines(fstest.MapFS{}, "nothing") {
		if !strings.Contains(err.Error(), fs.ErrNotExist.Error()) {
			t.Errorf("Lines = %v", err)
		}
	}
}

func FuzzLines(f *testing.F) {
	f.Add([]byte("a\nb"))
	f.Fuzz(func(t *testing.T, data []byte) {
		n := 0
		for l, err := range Lines(fstest.MapFS{"a": {Data: data}}, "a") {
			if err != nil {
				t.Fatal(err)
			}
			n += len(l.Text)
			if bytes.ContainsRune(l.Text, '\n') {
				t.Errorf("line %q holds a newline", l.Text)
			}
		}
		if n > len(data) {
			t.Errorf("%d bytes of %d", n, len(data))
		}
	})
}

func TestObjectsAreTheLinesThatAreObjects(t *testing.T) {
	files := fstest.MapFS{"a": {Data: []byte("{\"n\":1,\"yes\":true,\"list\":[1,2]}\n\n7\nnull\n{\"n\":2}\n{\"half")}}
	var lines, skips []string
	for o, err := range Objects(t.Context(), files, "a") {
		if err != nil {
			skips = append(skips, err.Error())
			continue
		}
		lines = append(lines, fmt.Sprintf("%s %v %v %d", o.Place(), o.Number("n"), o.True("yes"), len(o.List("list"))))
	}
	if d := cmp.Diff([]string{"line.1 1 true 2", "line.5 2 false 0"}, lines); d != "" {
		t.Error(d)
	}
	if len(skips) != 3 || !strings.Contains(skips[0], "line 3 is damaged") && !strings.Contains(skips[0], "line 3: is damaged") || !strings.Contains(skips[2], "cut off") {
		t.Errorf("skips %q", skips)
	}
}
