package machine

import "math"

// Free does not look: a full disk is an error of the first write.
func Free(string) (int64, error) { return math.MaxInt64, nil }
