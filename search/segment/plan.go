package segment

// Fan is how many segments of about one size become one. More make merges rarer
// and searches slower.
const Fan = 8

// Plan returns which of some segments, by their lines, should be merged next:
// the first Fan of the smallest size of which there are as many, nil when there
// is none. A merge of them has at most MaxLines.
func Plan(lines []int) []int {
	for size := 0; size <= sizeOf(MaxLines); size++ {
		var of []int
		total := 0
		for i, n := range lines {
			if sizeOf(n) == size && total+n <= MaxLines && len(of) < Fan {
				of, total = append(of, i), total+n
			}
		}
		if len(of) == Fan {
			return of
		}
	}
	return nil
}

// smallest is up to how many lines segments are of the smallest size: what
// somebody's turn with an agent appends.
const smallest = 64

// sizeOf returns the size of a segment: each is Fan times the one below.
func sizeOf(lines int) (size int) {
	for ; lines > smallest; lines /= Fan {
		size++
	}
	return size
}
