package claudecode

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark/convert"
)

// readOut is what a transcript becomes.
type readOut struct {
	Entries []convert.Entry
	Errors  []string
	Outline map[string]any
}

func readAll(t *testing.T, text []byte, careful bool) (got readOut) {
	t.Helper()
	fsys := fstest.MapFS{"t.jsonl": {Data: text}}
	tr := transcript{fsys: fsys, file: "t.jsonl", mine: notAside, careful: careful}
	o, err := tr.read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got.Outline = map[string]any{"lead": o.lead, "until": o.until, "title": o.title, "model": o.model, "project": o.project, "version": o.version,
		"created": o.created, "updated": o.updated, "own": o.own, "leaf": o.leaf, "calls": o.calls, "asideOf": o.asideOf, "requests": o.requests,
		"dropped": o.dropped, "costs": o.bill.costs, "prompts": slices.Sorted(maps.Values(o.prompts))}
	for _, a := range o.asides {
		got.Errors = append(got.Errors, a.name+" "+a.call)
	}
	for _, note := range o.after {
		got.Errors = append(got.Errors, string(note))
	}
	for e, err := range tr.entries(t.Context(), o, nil) {
		if err != nil {
			got.Errors = append(got.Errors, err.Error())
			continue
		}
		got.Entries = append(got.Entries, e)
	}
	return got
}

func compareReadings(t *testing.T, text []byte) {
	t.Helper()
	want, got := readAll(t, text, true), readAll(t, text, false)
	if !reflect.DeepEqual(want, got) {
		t.Fatalf("(-encoding/json +scanned):\n%s", cmp.Diff(want, got))
	}
}

// scanSeeds are lines of all kinds, in the usual spelling and in others.
var scanSeeds = []string{
	`{"type":"user","uuid":"u1","parentUuid":null,"sessionId":"s","timestamp":"2026-01-02T03:04:05Z","cwd":"/a","version":"1","message":{"role":"user","content":"a <b> & \u2028 \ud83c\udf0a"},"":1}`,
	`{"type":"user","uuid":"u1","uuid":"u2","message":{"content":[{"type":"text","text":"x"}],"Content":"y"}}`,
	`{"TYPE":"user","uuid":"u1","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":[{"type":"text","text":"<r>"}],"is_error":false}]},"toolUseResult":{"agentId":"g","a<":1}}`,
	`{"type":"assistant","uuid":"a1","parentUuid":"u1","message":{"id":"m","model":"x","content":[{"type":"text","text":"t\n"},{"type":"thinking","thinking":"h","signature":"s"},{"type":"tool_use","id":"c","name":"Task","input":{"prompt":"do & it"}}],"usage":{"input_tokens":3,"output_tokens":1e2,"cache_read_input_tokens":"x"}},"costUSD":0.5}`,
	`{"type":"assistant","uuid":"a2","parentUuid":"a1","message":{"id":"m","model":"x","content":"more","usage":{"input_tokens":1e999}},"isApiErrorMessage":"yes"}`,
	`{"type":"attachment","uuid":"t","parentUuid":"u1","attachment":{"type":"queued_command","prompt":"p"},"rendered":[{"content":"<c>"}]}`,
	`{"type":"system","subtype":"local_command","uuid":"y","content":"<command-name>x</command-name>"}`,
	`{"type":"cost-state","modelUsage":{"x":{"inputTokens":3,"costUSD":1}}}`, `{"type":"custom-title","customTitle":"t<"}`, `{"type":"last-prompt","leafUuid":"a1"}`,
	`{"type":"user","uuid":"w","isSidechain":true,"agentId":"g","message":{"content":"do & it"}}`,
	`{"type":"progress","uuid":"p", "data":[[1.0,-0,1E5]]}`, `{"type":"user","uuid":"z","message":{"content":null}}`, `{"type":"user","uuid":"z","message":"x"}`,
	`{"type":"user","uuid":"v","message":{"content":{"a":1},"usage":[]}}`, `{"type":7,"uuid":"q","isMeta":1}`, `[]`, `null`, `{"type":"user"`, `{"type":"api-request","uuid":"q"}`,
	"{\"type\":\"user\",\"uuid\":\"k\",\"message\":{\"content\":\"\xff\"},\"\xff\":1}", `{"type":"user","uuid":"\u0075","cwd":"a\\nb","message":{"content":"x","\u0069d":"y"}}`,
	`{"type":"user","uuid":"l","cwd":"a\nb","message":{"content":[7,"x",null,{"type":"image","source":{"type":"url","url":"u"}},{"type":"new"}]}}`,
}

// token is a word, a string or a sign of JSON, with the space around it.
var token = regexp.MustCompile(`\s*("(\\.|[^"\\])*"|[\w.+-]+|.)\s*`)

// exchanged puts other tokens in the place of some, mostly so that what was JSON
// still is.
func exchanged(text []byte, rnd *rand.Rand) []byte {
	var strange = []string{`"x"`, `"a<b>&"`, "\"\u2028\"", `"\ud83c"`, `"\n\u00e9"`, "\"\xff\"", `null`, `true`, `false`, `0`, `-0`, `1e999`, `1.50`, `{}`, `[]`, `[{"type":"text","text":"<"}]`, `{"a<":1}`, `""`}
	var names = []string{`"type"`, `"text"`, `"TEXT"`, `"content"`, `"message"`, `"uuid"`, `"id"`, `"iD"`, `"input"`, `"prompt"`, `"usage"`, `"isMeta"`, `"a<"`, `"\u0069d"`, `""`, "\"\xff\"", `"tool_use_id"`, `"agentId"`}
	all := token.FindAll(text, -1)
	for i := range all {
		at := &all[i]
		switch sign := bytes.TrimSpace(*at); {
		case len(sign) == 0 || rnd.IntN(len(all)/2+1) > 0:
		case bytes.ContainsAny(sign[:1], "{}[],:"):
			if rnd.IntN(4) == 0 {
				*at = append(bytes.Clone(*at), ' ')
			}
		case i+1 < len(all) && bytes.HasPrefix(bytes.TrimSpace(all[i+1]), []byte(":")):
			*at = []byte(names[rnd.IntN(len(names))])
		default:
			*at = []byte(strange[rnd.IntN(len(strange))])
		}
	}
	return bytes.Join(all, nil)
}

// FuzzSpellings compares the two ways to read a line: what is scanned becomes
// the same entries, with the same errors, as what encoding/json reads.
func FuzzSpellings(f *testing.F) {
	for i, seed := range scanSeeds {
		f.Add([]byte(seed), uint64(0))
		for j := range 40 {
			f.Add([]byte(seed+"\n"+scanSeeds[(i+j)%len(scanSeeds)]), uint64(1+i+100*j))
		}
	}
	f.Fuzz(func(t *testing.T, text []byte, choices uint64) {
		if bytes.Count(text, []byte("\n")) > 50 {
			return
		}
		if choices != 0 {
			text = exchanged(text, rand.New(rand.NewPCG(choices, 0)))
		}
		text = append([]byte(scanSeeds[0]+"\n"+scanSeeds[3]+"\n"), append(text, "\n"+scanSeeds[3]+"\n"+scanSeeds[4]+"\n"...)...)
		compareReadings(t, text)
	})
}

// TestTheSamplesAreScanned holds that the client's own spelling is the one that
// goes the short way: if it did not, nothing but time would tell.
func TestTheSamplesAreScanned(t *testing.T) {
	files, err := filepath.Glob("../testdata/claude-code/*/.claude/projects/*/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d samples, %v", len(files), err)
	}
	scanned, other := 0, 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		compareReadings(t, text)
		tr := transcript{fsys: fstest.MapFS{"t": {Data: text}}, file: "t", mine: notAside}
		see := func(r record) {
			if r.parts.scanned() || r.ModelUsage != nil {
				scanned++
			} else {
				other++
			}
		}
		for it, err := range tr.records(t.Context(), see) {
			if err == nil {
				see(it.record)
			}
		}
	}
	if scanned < 100 || other > 0 {
		t.Errorf("%d lines were scanned, %d were not", scanned, other)
	}
}
