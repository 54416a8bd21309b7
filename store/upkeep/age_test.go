package upkeep

import (
	"testing"
	"time"
)

func TestAgesHaveAUnitAndALength(t *testing.T) {
	for s, want := range map[string]time.Duration{"180d": 180 * 24 * time.Hour, "36h": 36 * time.Hour, "1h30m": 90 * time.Minute} {
		if got, err := ParseAge(s); err != nil || got != want {
			t.Errorf("ParseAge(%q) = %v, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "180", "d", "0d", "-1d", "0h", "-2h", "106752d", "99999999999d", "1y", "2026-11-15", "forever", "1.5d"} {
		if got, err := ParseAge(s); err == nil {
			t.Errorf("ParseAge(%q) = %v", s, got)
		}
	}
}

func FuzzAge(f *testing.F) {
	for _, s := range []string{"180d", "36h", "106752d", "-1d", "1h30m"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if d, err := ParseAge(s); err == nil && d <= 0 {
			t.Errorf("ParseAge(%q) = %v", s, d)
		}
	})
}
