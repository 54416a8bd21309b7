package file

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet"
)

func FuzzParseFindsProblemsInsideTheFile(f *testing.F) {
	large, err := os.ReadFile(filepath.Join("testdata", "large.yaml"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(large)
	f.Add(Template())
	for _, seed := range []string{
		"", "agents: [{name: a}]", before, "a: &a [*a]\n", "x: &x {<<: *x}\nagents: *x", "? [a]\n: b\n", "a: |\n  text\n b: c\r\n", "agents:\n- &a\n- *a\n", "---\n---\n",
		"agents: !!str a", "%YAML 1.2\n---\na: b", "agents:\n  - name: \"\\x00\"\n", "\ufeffa: b\rc: d", "a: !<x> y", "- - - a", "'a': \"b", "{a: {b: [c, d: e]}}", scheduleWith("cron: */5 * * * *"),
		"agents:\n  - name: a\n    limits: {timeout: 9w, output_bytes: 1TiB}\n    container: {image: x, mounts: [':/', 'a:/b:ro:ro']}\n",
		"defaults: {schedule: []}\nagents: [{name: a, schedules: [{name: b, type: chat}]}]", "defaults: 3\nagents: [null, 1, {name: [a]}]",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := Parse("f", data, inFolder())
		if err == nil {
			for _, a := range file.Agents {
				if !fleet.IsName(a.Name) || a.Runner == "" || a.RunMode == "" || a.Limits.MaxConcurrent < 1 {
					t.Errorf("agent %+v", a)
				}
				for _, s := range a.Schedules {
					if s.Type == fleet.TypeInterval || s.Type == fleet.TypeCron {
						if err := s.Timing(time.UnixMilli(0)).Check(); err != nil {
							t.Errorf("schedule %+v: %v", s, err)
						}
					}
				}
			}
			if changed := file.Changes(file); len(changed) > 0 {
				t.Errorf("it differs from itself: %v", changed)
			}
			return
		}
		var p *Problems
		if !errors.As(err, &p) || !errors.Is(err, tidemark.ErrInvalid) || len(p.List) == 0 || file != nil {
			t.Fatalf("Parse = %v, %v", file, err)
		}
		text := strings.TrimPrefix(string(data), "\ufeff")
		lines := strings.Split(strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n"), "\n")
		for _, problem := range p.List {
			if problem.Line < 1 || problem.Line > len(lines) || problem.Column < 1 || problem.Column > utf8.RuneCountInString(lines[problem.Line-1])+1 || problem.Message == "" {
				t.Errorf("problem %+v in a file of %d lines", problem, len(lines))
			}
		}
		if !utf8.ValidString(err.Error()) {
			t.Errorf("Error is not UTF-8: %q", err)
		}
	})
}
