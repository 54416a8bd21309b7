package text

import (
	"cmp"
	"strings"
)

// Compare orders names as people count: agent-2 before agent-10. Names that differ
// only in the zeros before a number are ordered by their bytes, so that two names are
// equal only if they are the same.
func Compare(a, b string) int {
	whole, other := a, b
	for a != "" && b != "" {
		x, y := digits(a), digits(b)
		if x == "" || y == "" {
			if a[0] != b[0] {
				return cmp.Compare(a[0], b[0])
			}
			a, b = a[1:], b[1:]
			continue
		}
		a, b = a[len(x):], b[len(y):]
		x, y = strings.TrimLeft(x, "0"), strings.TrimLeft(y, "0")
		if order := cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y)); order != 0 {
			return order
		}
	}
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(whole, other))
}

// digits are those that a text begins with.
func digits(s string) string {
	n := 0
	for n < len(s) && '0' <= s[n] && s[n] <= '9' {
		n++
	}
	return s[:n]
}
