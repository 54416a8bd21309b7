package terminal

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tidemark-sessions/tidemark/render"
)

var (
	noon  = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	looks = regexp.MustCompile("\x1b\\[[0-9;]*m")
)

// drawn is a model that never ran: it has a size and items, and no terminal.
func drawn(width, height int, o PickOptions, items ...Item) *picker {
	o.Text = screenText
	o.Now = func() time.Time { return noon }
	m := newPicker(context.Background(), context.Background(), nil, o)
	m.width, m.height = width, height
	m.list.add(newRows(items))
	return m
}

func TestAScreenOfAnySizeIsFilledExactly(t *testing.T) {
	words := rapid.SampledFrom([]string{"", "lease", "日本語のテキスト", "🙂👩‍👩‍👧", "\x1b]0;owned\x07", "\u202eback", "a\nb\tc", "e\u0301",
		strings.Repeat("long ", 500), "/home/ada/src/harbour", "\xff\xfe", "│"})
	rapid.Check(t, func(t *rapid.T) {
		var items []Item
		for range rapid.IntRange(0, 6).Draw(t, "items") {
			items = append(items, Item{ID: words.Draw(t, "id"), Title: words.Draw(t, "title"), Agent: words.Draw(t, "agent"), Model: words.Draw(t, "model"),
				Project: words.Draw(t, "project"), Tags: []string{words.Draw(t, "tag")}, ForkOf: Fork{ID: words.Draw(t, "of"), Title: words.Draw(t, "source")},
				Live: rapid.Bool().Draw(t, "live"), Messages: rapid.Int64Min(0).Draw(t, "messages"), UpdatedAt: noon.Add(-time.Duration(rapid.Int64Min(0).Draw(t, "age")))})
		}
		plain := rapid.Bool().Draw(t, "plain")
		m := drawn(rapid.IntRange(1, 300).Draw(t, "width"), rapid.IntRange(1, 100).Draw(t, "height"), PickOptions{Plain: plain, Heading: words.Draw(t, "heading")}, items...)
		m.update(key{name: "paste", text: words.Draw(t, "filter")})
		found := Item{ID: "found", Title: words.Draw(t, "title"), Snippet: words.Draw(t, "snippet")}
		m.update(foundMsg{search: m.search, rows: newRows([]Item{found})})
		if r := m.selected(); r != nil {
			m.update(previewMsg{id: r.ID, lines: []PreviewLine{{Text: words.Draw(t, "who"), Head: true}, {Text: words.Draw(t, "said")}}})
			m.subject = r.Item
		}
		m.mode = rapid.SampledFrom([]mode{browsing, renaming, asking, helping}).Draw(t, "mode")
		m.name = newField(words.Draw(t, "new title"))
		v := m.view()
		if len(v.rows) != m.height {
			t.Fatalf("%d lines on a screen of %d:\n%s", len(v.rows), m.height, strings.Join(v.rows, "\n"))
		}
		for _, l := range v.rows {
			bare := looks.ReplaceAllString(l, "")
			if plain && bare != l {
				t.Fatalf("a plain screen has a look: %q", l)
			}
			if w := render.Width(bare); w > m.width {
				t.Fatalf("%d columns on a screen of %d: %q", w, m.width, bare)
			}
			if clean := render.CleanLine(bare); clean != bare {
				t.Fatalf("not clean: %q", bare)
			}
		}
		if v.cursor && (v.x >= m.width || v.y >= m.height || v.x < 0) {
			t.Fatalf("cursor at %d, %d on a screen of %d x %d", v.x, v.y, m.width, m.height)
		}
	})
}

func TestAScreenLooksLikeThePicture(t *testing.T) {
	m := drawn(78, 13, PickOptions{Plain: true, Project: "/src/harbour"},
		Item{ID: "7f3a0001-a", Title: "Why does the lease expire?", Agent: "demo", Project: "/src/harbour", Messages: 12, UpdatedAt: noon.Add(-5 * time.Minute), Live: true},
		Item{ID: "7f3a0002-a", Title: "Release notes", Agent: "codex", Project: "/src/pier", Messages: 140, UpdatedAt: noon.Add(-3 * time.Hour), Tags: []string{"urgent"}},
		Item{ID: "7f3a0003-a", Title: "Shorter notes", Agent: "codex", Messages: 4, UpdatedAt: noon.Add(-48 * time.Hour), ForkOf: Fork{ID: "7f3a0002-a"}},
		Item{ID: "7f3a0004-a", Agent: "codex", UpdatedAt: noon.Add(-500 * 24 * time.Hour), ForkOf: Fork{ID: "gone", Title: "long ago"}},
	)
	m.update(key{name: "down"})
	want := `
Open > type to filter titles and content                      4 · all projects
──────────────────────────────────────────────────────────────────────────────
  ● Why does the lease expire?          demo         harbour          12    5m
> Release notes  #urgent                codex        pier            140    3h
  └ ⑂ Shorter notes                     codex                          4    2d
  untitled  ⑂ fork of long ago          codex                          0    1y






Enter open   ? help   ^A this project   ^R rename   ^D trash it   ^T see trash`
	var got strings.Builder
	for _, l := range m.view().rows {
		got.WriteString("\n" + strings.TrimRight(l, " "))
	}
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAPageThatArrivesDoesNotPutOffThePreview(t *testing.T) {
	m := drawn(120, 30, PickOptions{}, Item{ID: "a"}, Item{ID: "b"})
	if m.preview() == nil {
		t.Fatal("no preview is asked for")
	}
	asked := m.looks
	m.update(pageMsg{rows: newRows([]Item{{ID: "c"}})})
	if m.looks != asked {
		t.Error("a page gave up the preview that was asked for")
	}
	m.update(key{name: "down"})
	if m.looks != asked+1 {
		t.Error("the next session has no preview of its own")
	}
}

func TestAgesAreShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Hour: "now", 59 * time.Second: "now", time.Minute: "1m", 59*time.Minute + 59*time.Second: "59m", time.Hour: "1h", 23 * time.Hour: "23h",
		24 * time.Hour: "1d", 59 * 24 * time.Hour: "59d", 60 * 24 * time.Hour: "2mo", 364 * 24 * time.Hour: "12mo", 365 * 24 * time.Hour: "1y",
	} {
		if got := age(noon, noon.Add(-d)); got != want {
			t.Errorf("age of %v = %q, want %q", d, got, want)
		}
	}
	if got := age(noon, time.Time{}); got != "-" {
		t.Errorf("age of an unknown time = %q", got)
	}
}

func TestALineIsEditedWhereItsCursorIs(t *testing.T) {
	l := newField("one two\n")
	for _, step := range []struct{ key, text, want string }{
		{"", "!\x1b", "one two! |"},
		{"backspace", "", "one two!|"},
		{"left", "", "one two|!"},
		{"ctrl+w", "", "one |!"},
		{"", "日", "one 日|!"},
		{"left", "", "one |日!"},
		{"ctrl+u", "", "|日!"},
		{"backspace", "", "|日!"},
		{"right", "", "日|!"},
	} {
		if step.key != "" && !l.edit(step.key) {
			t.Fatalf("%s is not known", step.key)
		}
		l.insert(step.text)
		if got := l.before() + "|" + string(l.text[l.at:]); got != step.want {
			t.Errorf("after %s%q: %q, want %q", step.key, step.text, got, step.want)
		}
	}
	l.insert(strings.Repeat("x", 10*maxLine))
	if len(l.text) != maxLine {
		t.Errorf("a paste made a line of %d characters", len(l.text))
	}
}
