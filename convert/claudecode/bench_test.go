package claudecode_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/claudecode"
	"github.com/tidemark-sessions/tidemark/convert/converttest"
)

// BenchmarkImport reads one long session to its end; it is read twice, once
// for its shape and once for its content.
func BenchmarkImport(b *testing.B) {
	var all []string
	parent := ""
	long := strings.Repeat("some words of an answer ", 80)
	for i := range 2000 {
		u, a, c, r := fmt.Sprint("u", i), fmt.Sprint("a", i), fmt.Sprint("c", i), fmt.Sprint("r", i)
		all = append(all,
			line(one, u, parent, i%60, prompt("please do this")),
			line(one, a, u, i%60, answer("m"+a, text(long))),
			line(one, c, a, i%60, answer("m"+a, call(c))),
			line(one, r, c, i%60, result(c)))
		parent = r
	}
	files := fstest.MapFS{file(one): converttest.Lines(all...)}
	b.SetBytes(int64(len(files[file(one)].Data)))
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		for s, err := range claudecode.Tool().Import(b.Context(), convert.Source{FS: files, Path: "."}) {
			if err != nil {
				b.Fatal(err)
			}
			for _, err := range s.Entries {
				if err != nil {
					b.Fatal(err)
				}
				n++
			}
		}
		if n != 6000 {
			b.Fatalf("%d entries", n)
		}
	}
}
