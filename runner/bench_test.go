//go:build linux

package runner_test

import (
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/runner"
)

func BenchmarkRunOfTheSmallestProgram(b *testing.B) {
	r := runner.Command([]string{"/bin/true"})
	for b.Loop() {
		if _, err := r.Run(b.Context(), runner.Task{Job: "job-2026-11-15-3y0e8d"}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOutput is what a program that writes without end costs: its lines
// within the limit, and those beyond it.
func BenchmarkOutput(b *testing.B) {
	for name, limit := range map[string]int64{"kept": 1 << 40, "counted": 1} {
		b.Run(name, func(b *testing.B) {
			r := runner.Command([]string{"/bin/sh", "-c", "yes over and over again | head -c 100000000"})
			b.SetBytes(100_000_000)
			for b.Loop() {
				t := runner.Task{Environ: []string{"PATH=/usr/bin:/bin"}, OutputBytes: limit, Emit: func(tidemark.Event) error { return nil }}
				if _, err := r.Run(b.Context(), t); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
