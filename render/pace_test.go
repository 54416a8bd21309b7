package render

import (
	"testing"
	"time"
)

func TestPaceSaysHowFastAndHowLongStill(t *testing.T) {
	for _, c := range []struct {
		took  time.Duration
		n, of int
		want  string
	}{
		{500 * time.Millisecond, 10, 20, ""},
		{10 * time.Second, 0, 20, ""},
		{10 * time.Second, 50, 0, ", 5 a second"},
		{10 * time.Second, 50, 200, ", 5 a second, 30s left"},
		{10 * time.Second, 200, 200, ", 20 a second"},
	} {
		if got := Pace(c.took, c.n, c.of); got != c.want {
			t.Errorf("Pace(%s, %d, %d) = %q, want %q", c.took, c.n, c.of, got, c.want)
		}
	}
}
