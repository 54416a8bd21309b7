package archive

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
)

// vector returns a fenced block of the format page by what stands behind its
// fence.
func vector(t *testing.T, name string) string {
	t.Helper()
	page, err := os.ReadFile("../docs/formats/archive.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("(?s)```" + name + "\n(.*?)```").FindSubmatch(page)
	if found == nil {
		t.Fatalf("the page has no block %q", name)
	}
	return string(found[1])
}

// TestTheArchiveOnTheFormatPageIsReadAsItStands keeps the page and the program
// together. What zstd makes of the same bytes may differ from version to
// version, so the archive is only read, and its items are also written.
func TestTheArchiveOnTheFormatPageIsReadAsItStands(t *testing.T) {
	data, err := hex.DecodeString(strings.Join(strings.Fields(vector(t, "text archive")), ""))
	if err != nil {
		t.Fatal(err)
	}
	into := memory.New()
	m, err := Read(ctx, bytes.NewReader(data), into, nil)
	if err != nil {
		t.Fatalf("Read = %v", err)
	}
	var holds strings.Builder
	fmt.Fprintf(&holds, "made %s, %d record, %d lines, %d items\n", m.MadeAt.Format("2006-01-02"), m.Records, m.Lines, m.Items)
	var items []byte
	k := tidemark.Key{Kind: "session", ID: "7f3a"}
	r, err := into.Get(ctx, k)
	if err != nil {
		t.Fatal(err)
	}
	run := tidemark.Append{Log: k, At: r.Head.UpdatedAt}
	for l, err := range into.Lines(ctx, k) {
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&holds, "%s@%d %s %s key=%q batch=%s sum=%08x chain=%x %s\n", k, l.Seq, l.At.Format("15:04:05.000000"), l.Kind, l.Key, l.Batch, l.Sum, l.Chain, l.Body)
		run.Lines = append(run.Lines, l)
	}
	fmt.Fprintf(&holds, "%s v%d group=%s state=%s due=%s at=%s batch=%s sum=%08x mark=%s %s\n", k, r.Version, r.Group, r.State,
		r.Due.Format("15:04:05.000000"), r.UpdatedAt.Format("15:04:05.000000"), r.Batch, r.Sum, markOf(&r), r.Body)
	if d := cmp.Diff(vector(t, "text holds"), holds.String()); d != "" {
		t.Errorf("what it holds (-page +read):\n%s", d)
	}
	kept := Kept{Key: k, Mark: markOf(&r), Length: r.Head.Length, Tail: run.Lines[1].Sum, At: r.Head.UpdatedAt}
	r.Head = tidemark.Head{}
	for _, it := range []item{{kind: linesItem, lines: run}, {kind: recordItem, record: r}, {kind: keptItem, kept: kept}} {
		items = appendItem(items, &it)
	}
	if d := cmp.Diff(strings.Join(strings.Fields(vector(t, "text items")), ""), hex.EncodeToString(items)); d != "" {
		t.Errorf("its items (-page +written):\n%s", d)
	}
}
