package transfer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/store"
)

// rewriting are samples of tools that write their files anew, as they were after
// parts of the work.
var rewriting = map[string][]string{
	"gemini-cli": {"gemini-cli/0.61.0", "gemini-cli/0.61.0-resumed"},
	"cline":      {"cline/3.0.65"},
	"continue":   {"continue-cli/1.5.47"},
	"opencode":   {"opencode/1.1.34"},
}

// rewriteSteps is how often such a sample is imported.
const rewriteSteps = 6

// sofar is a file as it was after a part of the work, nil if it was not there. The
// last message was not complete.
func sofar(t *testing.T, file string, data []byte, part float64) []byte {
	t.Helper()
	some := func(n int) int { return int(math.Ceil(part * float64(n))) }
	if filepath.Ext(file) == ".jsonl" {
		lines := bytes.SplitAfter(data, []byte("\n"))
		return bytes.Join(lines[:max(some(len(lines)), 1)], nil)
	}
	var fields map[string]json.RawMessage
	if part == 1 || json.Unmarshal(data, &fields) != nil {
		return data
	}
	for _, list := range []string{"messages", "history"} {
		var all []json.RawMessage
		if json.Unmarshal(fields[list], &all) != nil || len(all) == 0 {
			continue
		}
		all = all[:max(some(len(all)), 1)]
		all[len(all)-1] = halved(t, all[len(all)-1])
		fields[list] = encoded(t, all)
		return encoded(t, fields)
	}
	return data
}

func encoded(t *testing.T, v any) []byte {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// halved has half of each text of a message.
func halved(t *testing.T, message json.RawMessage) json.RawMessage {
	t.Helper()
	var v any
	if err := json.Unmarshal(message, &v); err != nil {
		t.Fatal(err)
	}
	var half func(key string, v any) any
	half = func(key string, v any) any {
		switch v := v.(type) {
		case map[string]any:
			for k := range v {
				v[k] = half(k, v[k])
			}
		case []any:
			for i := range v {
				v[i] = half(key, v[i])
			}
		case string:
			if key == "text" || key == "content" {
				return string([]rune(v)[:len([]rune(v))/2])
			}
		}
		return v
	}
	return encoded(t, half("", v))
}

// written are the files of messages that the tool writes one after the other, in
// that order: opencode counts their names up.
func written(files map[string][]byte) (order []string) {
	for file := range files {
		if base := filepath.Base(file); strings.HasPrefix(base, "msg_") || strings.HasPrefix(base, "prt_") {
			order = append(order, file)
		}
	}
	slices.SortFunc(order, func(a, b string) int { return strings.Compare(filepath.Base(a)[4:], filepath.Base(b)[4:]) })
	return order
}

func TestTheBranchOfTheHeadEndsAsIfImportedAtOnceWhereAToolRewrites(t *testing.T) {
	for tool, samples := range rewriting {
		for _, sample := range samples {
			t.Run(strings.ReplaceAll(sample, "/", " "), func(t *testing.T) {
				files := make(map[string][]byte)
				fsys := os.DirFS("../convert/testdata/" + sample)
				err := fs.WalkDir(fsys, ".", func(file string, d fs.DirEntry, err error) error {
					if err == nil && d.Type().IsRegular() {
						files[file], err = fs.ReadFile(fsys, file)
					}
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
				order := written(files)
				newHome := func() *home {
					return &home{tool: tool, dir: t.TempDir(), s: store.New(memory.New(), nil), machine: "one", clock: time.Now().Add(-time.Hour)}
				}
				read := func(h *home, part float64) {
					later := order[int(part*float64(len(order))):]
					for file, data := range files {
						if !slices.Contains(later, file) {
							h.write(t, filepath.Join(h.dir, file), sofar(t, file, data, part))
						}
					}
					h.read(t, false)
				}
				whole, grown := newHome(), newHome()
				read(whole, 1)
				for step := range rewriteSteps {
					read(grown, float64(step+1)/rewriteSteps)
				}
				for _, r := range grown.read(t, true).Results {
					if r.Entries != 0 || r.State != "known" && r.State != "empty" {
						t.Errorf("%s, imported once more, is %s with %d entries", r.ForeignID, r.State, r.Entries)
					}
				}
				want := whole.heads(t)
				if diff := cmp.Diff(want, grown.heads(t)); diff != "" || len(want) == 0 {
					t.Errorf("%d sessions; at once - and in steps +\n%.4000s", len(want), diff)
				}
			})
		}
	}
}

// heads are the sessions as they are at their heads.
func (h *home) heads(t *testing.T) map[string][]string {
	t.Helper()
	all := make(map[string][]string)
	for i, err := range h.s.Sessions(t.Context(), store.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		v, err := h.s.ViewOf(i)
		if err == nil {
			v, err = v.WithDraft(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		say := []string{fmt.Sprintf("title %q, model %q, mode %s, project %s, begun %s", i.Title, i.Model, i.Mode, i.Project, i.CreatedAt)}
		head, err := v.Head(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for e, err := range v.Path(t.Context(), head) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Kind == tidemark.KindBranch {
				continue
			}
			// An entry that was written anew has another key than the first.
			e.Key, _, _ = strings.Cut(e.Key, "~")
			e.Seq, e.Position = 0, tidemark.Position{}
			line, err := json.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			say = append(say, string(line))
		}
		all[i.ForeignID] = say
	}
	return all
}

// A tool that leaves out what was said first has the rest stay where it is: it is
// not kept once more at every step.
func TestWhatAToolLeavesOutAtTheBeginningMovesNothing(t *testing.T) {
	h := &home{tool: "cline", dir: t.TempDir(), s: store.New(memory.New(), nil), machine: "one", clock: time.Now().Add(-time.Hour)}
	file := filepath.Join(h.dir, ".cline/data/sessions/1_a/1_a.messages.json")
	message := func(n int) string {
		return fmt.Sprintf(`{"id":"m%d","role":"user","ts":%d,"content":"line %d"}`, n, 1767323045000+n, n)
	}
	entries := 0
	for first := range 10 {
		var some []string
		for n := first; n < first+5; n++ {
			some = append(some, message(n))
		}
		h.write(t, file, []byte(`{"version":1,"sessionId":"1_a","messages":[`+strings.Join(some, ",")+`]}`))
		for _, r := range h.read(t, false).Results {
			entries += r.Entries
		}
	}
	if entries != 14 {
		t.Errorf("%d entries of 14 messages", entries)
	}
}
