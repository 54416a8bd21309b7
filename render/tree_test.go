package render

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tidemark-sessions/tidemark"
)

func draw(t *testing.T, nodes []Node) string {
	t.Helper()
	var b strings.Builder
	if err := Tree(&b, nodes, nil); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestATreeLooksLikeThePicture(t *testing.T) {
	got := draw(t, []Node{
		{Number: 3, Parent: 0, Messages: 6},
		{Number: 0, Parent: -1, Messages: 3},
		{Number: 2, Parent: 1, Messages: 8, Label: "refactor approach"},
		{Number: 1, Parent: 0, Messages: 5},
	})
	want := `n0 (3 msgs)
├── n1 (5 msgs)
│   └── n2 [refactor approach] (8 msgs)
└── n3 (6 msgs)
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestTreesOfOtherShapes(t *testing.T) {
	for _, c := range []struct {
		name  string
		nodes []Node
		want  string
	}{
		{"nothing", nil, ""},
		{"one", []Node{{Number: 0, Parent: -1, Messages: 1}}, "n0 (1 msgs)\n"},
		{"several roots, one current", []Node{
			{Number: 0, Parent: -1, Messages: 2}, {Number: 1, Parent: -1, Messages: 2},
			{Number: 2, Parent: 0, Messages: 4}, {Number: 3, Parent: 1, Messages: 4, Current: true},
		}, "n0 (2 msgs)\nn2 (4 msgs)\nn1 from the start (2 msgs)\nn3 (4 msgs) *\n"},
		{"a parent that is not there", []Node{{Number: 7, Parent: 5, Messages: 9}}, "n7 (9 msgs)\n"},
		{"a hostile label", []Node{{Number: 0, Parent: -1, Label: "a\x1b[2J\nb"}}, `n0 [a\x1b[2J\nb] (0 msgs)` + "\n"},
		{"the branch that ends first draws no line below it", []Node{
			{Number: 0, Parent: -1}, {Number: 1, Parent: 0}, {Number: 2, Parent: 0}, {Number: 3, Parent: 2}, {Number: 4, Parent: 3}, {Number: 5, Parent: 1},
		}, "n0 (0 msgs)\n├── n1 (0 msgs)\n│   └── n5 (0 msgs)\n└── n2 (0 msgs)\n    └── n3 (0 msgs)\n        n4 (0 msgs)\n"},
	} {
		if diff := cmp.Diff(c.want, draw(t, c.nodes)); diff != "" {
			t.Errorf("%s:\n%s", c.name, diff)
		}
	}
}

func TestCirclesAndDoublesAreRefused(t *testing.T) {
	for _, nodes := range [][]Node{
		{{Number: 0, Parent: -1}, {Number: 1, Parent: 2}, {Number: 2, Parent: 1}},
		{{Number: 4, Parent: 4}},
		{{Number: 1, Parent: -1}, {Number: 1, Parent: -1}},
	} {
		var b strings.Builder
		if err := Tree(&b, nodes, nil); !errors.Is(err, tidemark.ErrInvalid) || b.Len() != 0 {
			t.Errorf("Tree(%v) = %v and wrote %q, want ErrInvalid and nothing", nodes, err, b.String())
		}
	}
}

func TestADeepTreeStopsMovingRight(t *testing.T) {
	const levels = 100_000
	chain := make([]Node, levels)
	for i := range chain {
		chain[i] = Node{Number: int64(i), Parent: int64(i) - 1, Messages: 2 * int64(i)}
	}
	// A comb is the worst shape: a leaf and a way down at every level.
	comb := make([]Node, 0, levels)
	for i := int64(0); i+1 < levels; i += 2 {
		comb = append(comb, Node{Number: i, Parent: i - 2}, Node{Number: i + 1, Parent: i - 2})
	}
	comb[0].Parent, comb[1].Parent = -1, -1
	for _, nodes := range [][]Node{chain, comb} {
		out := draw(t, nodes)
		if got := strings.Count(out, "\n"); got != len(nodes) {
			t.Errorf("%d lines for %d nodes", got, len(nodes))
		}
		if most := len(nodes) * (6*treeLevels + 60); len(out) > most {
			t.Errorf("%d bytes for %d nodes, want at most %d", len(out), len(nodes), most)
		}
	}
}

func TestBelowTheLastLevelANodeSaysWhereItComesFrom(t *testing.T) {
	// At each level a leaf and a way down.
	var nodes []Node
	for i := range int64(treeLevels + 2) {
		nodes = append(nodes, Node{Number: 2 * i, Parent: 2*i - 2}, Node{Number: 2*i + 1, Parent: 2*i - 2})
	}
	nodes[0].Parent, nodes = -1, append(nodes[:1], nodes[2:]...)
	lines := strings.Split(strings.TrimSpace(draw(t, nodes)), "\n")
	trunk := strings.Repeat("│   ", treeLevels)
	want := []string{
		strings.Repeat("│   ", treeLevels-1) + "├── n80 (0 msgs)",
		trunk + "… n82 (0 msgs)",
		trunk + "… n83 from n80 (0 msgs)",
		strings.Repeat("│   ", treeLevels-1) + "└── n81 (0 msgs)",
	}
	if diff := cmp.Diff(want, lines[treeLevels:treeLevels+4]); diff != "" {
		t.Error(diff)
	}
}

func TestALinearRunIsOneColumn(t *testing.T) {
	at := time.Date(2026, 11, 15, 20, 1, 0, 0, time.UTC)
	var nodes []Node
	for i := range int64(200) {
		nodes = append(nodes, Node{Number: i, Parent: i - 1, Messages: 2*i + 2, At: at, Text: fmt.Sprintf("question %d of a long conversation that goes on and on and on\x1b[2J\nand on", i)})
	}
	var piped, terminal strings.Builder
	if err := Tree(&piped, nodes, nil); err != nil {
		t.Fatal(err)
	}
	if err := Tree(&terminal, nodes, &TreeOptions{Width: 80, Relative: func(time.Time) string { return "2 h ago" }}); err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(strings.TrimSuffix(piped.String(), "\n"), "\n") {
		if want := fmt.Sprintf(`n%d (%d msgs)`+"\t2026-11-15T20:01:00Z\t"+`question %d of a long conversation that goes on and on and on\x1b[2J\nand on`, i, 2*i+2, i); line != want {
			t.Fatalf("line %d = %q, want %q", i, line, want)
		}
	}
	for i, line := range strings.Split(strings.TrimSuffix(terminal.String(), "\n"), "\n") {
		if !strings.HasPrefix(line, fmt.Sprintf("n%d (%d msgs) ", i, 2*i+2)) || !strings.Contains(line, fmt.Sprintf("2 h ago      question %d of", i)) || Width(line) > 80 {
			t.Fatalf("line %d = %q, which is %d columns wide", i, line, Width(line))
		}
	}
}

func TestATreeFitsTheTerminal(t *testing.T) {
	nodes := []Node{{Number: 0, Parent: -1}}
	for i := range int64(40) {
		nodes = append(nodes, Node{Number: 2*i + 1, Parent: 2 * i, Label: strings.Repeat("label ", 20), Text: strings.Repeat("word ", 50), Messages: 99_999, Current: true},
			Node{Number: 2*i + 2, Parent: 2 * i, Text: "日本語で答えてください", At: time.Unix(0, 0)})
	}
	var b strings.Builder
	if err := Tree(&b, nodes, &TreeOptions{Width: 80}); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		if Width(strings.TrimSuffix(line, "\n")) > 80 {
			t.Errorf("%q is %d columns wide", line, Width(line))
		}
	}
}

// sketch draws a tree by recursion, as one would who knows that it is small.
func sketch(b *strings.Builder, nodes []Node, parent int64, trunk string, depth int, branched bool) {
	var here []Node
	for _, n := range nodes {
		if n.Parent == parent {
			here = append(here, n)
		}
	}
	for i, n := range here {
		bend, goesOn, from := "├── ", "│   ", ""
		if i == len(here)-1 {
			bend, goesOn = "└── ", "    "
		}
		switch {
		case depth == 0:
			if bend, goesOn = "", ""; i > 0 {
				from = " from the start"
			}
		case len(here) == 1 && !branched:
			bend, goesOn = "", ""
		}
		fmt.Fprintf(b, "%s%sn%d%s (%d msgs)\n", trunk, bend, n.Number, from, n.Messages)
		sketch(b, nodes, n.Number, trunk+goesOn, depth+1, depth > 0 && len(here) > 1)
	}
}
func TestAnyTreeMatchesItsSketch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var nodes []Node
		for i := range rapid.Int64Range(0, treeLevels).Draw(t, "nodes") {
			nodes = append(nodes, Node{Number: i, Parent: rapid.Int64Range(-1, i-1).Draw(t, "parent"), Messages: i})
		}
		var want, got strings.Builder
		sketch(&want, nodes, -1, "", 0, false)
		if err := Tree(&got, rapid.Permutation(nodes).Draw(t, "order"), nil); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want.String(), got.String()); diff != "" {
			t.Fatal(diff)
		}
	})
}

func BenchmarkTree(b *testing.B) {
	chain := make([]Node, 100_000)
	for i := range chain {
		chain[i] = Node{Number: int64(i), Parent: int64(i) - 1, Messages: int64(i)}
	}
	for b.Loop() {
		var sink countingWriter
		if err := Tree(&sink, chain, nil); err != nil {
			b.Fatal(err)
		}
		b.SetBytes(int64(sink))
	}
}

type countingWriter int64

func (w *countingWriter) Write(p []byte) (int, error) {
	*w += countingWriter(len(p))
	return len(p), nil
}
