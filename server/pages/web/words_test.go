package web

import "testing"

func TestWhatIsCountedIsInTheRightNumber(t *testing.T) {
	for _, c := range []struct {
		name string
		args []any
		want string
	}{
		{"totals.sessions", []any{"1"}, "1 session"},
		{"totals.sessions", []any{"12.3k"}, "12.3k sessions"},
		{"home.day", []any{"1", 1, 0}, "1: 1 session, 0 prompts"},
		{"home.day", []any{"1", 11, 1}, "1: 11 sessions, 1 prompt"},
		{"sessions.behind", []any{1}, "1 entry is not indexed yet and was not searched."},
	} {
		if got := text("en", c.name, c.args...); got != c.want {
			t.Errorf("%s of %v is %q, want %q", c.name, c.args, got, c.want)
		}
	}
}
