package agentsfleet_test

import (
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark/convert/agentsfleet"
)

func BenchmarkImportOfALongTranscript(b *testing.B) {
	text := strings.Repeat("A line of what was said, with \\\"quotes\\\" and é.\\n", 20)
	lines := strings.Repeat(`{"role":"assistant","content":"`+text+`","timestamp":"2026-05-01T10:00:00.000Z","tokens":{"in":10,"out":20}}`+"\n"+
		`{"role":"tool","name":"view","args":{"path":"src/index.ts","text":"`+text+`"},"timestamp":"2026-05-01T10:00:02.000Z"}`+"\n", 5000)
	files := folder(map[string]string{"a.json": `{"schemaVersion":3}`, "a.transcript.ndjson": lines})
	b.SetBytes(int64(len(lines)))
	b.ReportAllocs()
	for b.Loop() {
		for s, err := range agentsfleet.Tool().Import(b.Context(), place(files)) {
			if err != nil {
				b.Fatal(err)
			}
			for _, err := range s.Entries {
				if err != nil {
					b.Fatal(err)
				}
			}
		}
	}
}
