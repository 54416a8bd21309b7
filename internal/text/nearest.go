package text

import "strings"

// Nearest returns the known name that was most likely meant, "" when none is
// similar.
func Nearest(name string, known []string) string {
	best, bestDistance := "", max(1, len(name)/3)+1
	for _, k := range known {
		if d := distance(strings.ToLower(name), k); d < bestDistance {
			best, bestDistance = k, d
		}
	}
	return best
}

// distance is how many letters have to be added, removed, changed or swapped
// with their neighbour to turn a into b. Names of more than 40 letters are far
// from everything.
func distance(a, b string) int {
	if len(a) > 40 || len(b) > 40 {
		return 40
	}
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
