package convert

import (
	"bytes"
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
