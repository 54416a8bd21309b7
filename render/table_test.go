package render

import (
	"strings"
	"testing"
)

func TestTablesAreAlignedForPeopleAndPlainInAPipe(t *testing.T) {
	for _, c := range []struct {
		table Table
		want  string
	}{
		{Table{}, "a\tlong title\nword\tx\n"},
		{Table{Terminal: true, Columns: 14}, "ID    TITLE\na     long ti…\nword  x\n"},
	} {
		c.table.Head = []string{"ID", "TITLE"}
		c.table.Row("a", "long title")
		c.table.Row("word", "x")
		var out strings.Builder
		if err := c.table.Print(&out); err != nil || out.String() != c.want {
			t.Errorf("%q, %v, want %q", out.String(), err, c.want)
		}
	}
	hostile := Table{Head: []string{"TITLE"}}
	hostile.Row("a\x1b[31mb\nc")
	var out strings.Builder
	if err := hostile.Print(&out); err != nil || strings.ContainsAny(strings.TrimSuffix(out.String(), "\n"), "\x1b\n") {
		t.Errorf("%q, %v", out.String(), err)
	}
}
