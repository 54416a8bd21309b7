package manual

import "testing"

func TestTextInManualPagesMeansItself(t *testing.T) {
	for text, want := range map[string]string{
		".so /etc/passwd":     `\&.so /etc/passwd`,
		"'br":                 `\&\(aqbr`,
		`a\fBb`:               `a\efBb`,
		"--all … ~x^ \"q\" `": `\-\-all \[u2026] \(tix\(ha \(dqq\(dq \(ga`,
		"100%":                "100%",
	} {
		if got := roff(text); got != want {
			t.Errorf("roff(%q) = %q, want %q", text, got, want)
		}
	}
}
