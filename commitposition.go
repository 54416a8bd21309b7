package tidemark

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// CommitPosition is how far a database had come at some moment: everything that was
// committed before is at or before it. A replica that has come as far has all of
// that. It is for comparing, and grants nothing.
type CommitPosition struct {
	// Timeline changes when a standby takes over. Positions of different timelines
	// say nothing about each other: what was committed on one may be lost on the next.
	Timeline uint32
	LSN      uint64 // bytes of the write-ahead log
}

// UnknownCommitPosition is reached by no replica. It stands for a commit whose position
// could not be asked for.
var UnknownCommitPosition = CommitPosition{^uint32(0), ^uint64(0)}

// String writes a position as 1-0/16B3748: the timeline, and the place in the log as
// PostgreSQL writes it.
func (p CommitPosition) String() string {
	return fmt.Sprintf("%d-%X/%X", p.Timeline, p.LSN>>32, uint32(p.LSN))
}

// ParseCommitPosition reads what String writes.
func ParseCommitPosition(text string) (p CommitPosition, err error) {
	timeline, lsn, _ := strings.Cut(text, "-")
	high, low, _ := strings.Cut(lsn, "/")
	var parts [3]uint64
	for i, part := range []string{timeline, high, low} {
		base := 16
		if i == 0 {
			base = 10
		}
		if parts[i], err = strconv.ParseUint(part, base, 32); err != nil {
			return CommitPosition{}, Invalidf("commit position %.40q: want one that a server gave, such as 1-0/16B3748", text)
		}
	}
	return CommitPosition{uint32(parts[0]), parts[1]<<32 | parts[2]}, nil
}

// Compare orders positions by timeline, then by place: negative when p is before q.
func (p CommitPosition) Compare(q CommitPosition) int {
	return cmp.Or(cmp.Compare(p.Timeline, q.Timeline), cmp.Compare(p.LSN, q.LSN))
}

// Has reports whether a database that stands at p has all that was committed by q.
func (p CommitPosition) Has(q CommitPosition) bool {
	return p.Timeline == q.Timeline && p.LSN >= q.LSN
}
