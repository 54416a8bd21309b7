package convert

import "github.com/tidemark-sessions/tidemark"

// maxTokens keeps an impossible number from overflowing a sum.
const maxTokens = 1 << 50

// Count returns a number of tokens as a tool wrote it, none for an impossible
// one.
func Count(n float64) int64 { return int64(max(0, min(n, maxTokens))) }

// Tokens returns the usage of an answer, nil when nothing was used. Input is
// what was neither read from a cache nor written to it.
func Tokens(input, output, cacheRead, cacheWrite float64) *tidemark.Usage {
	u := tidemark.Usage{InputTokens: Count(input), OutputTokens: Count(output), CacheReadTokens: Count(cacheRead), CacheWriteTokens: Count(cacheWrite)}
	if u == (tidemark.Usage{}) {
		return nil
	}
	return &u
}
