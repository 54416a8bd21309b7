package codex

import (
	"crypto/sha256"
	"encoding/json"

	"github.com/tidemark-sessions/tidemark"
)

const sumSize = sha256.Size

func sumOf(b []byte) [sumSize]byte { return sha256.Sum256(b) }

// tokens are counted as the provider does: input includes what was read from the
// cache.
type tokens struct {
	Input      int64 `json:"input_tokens"`
	Cached     int64 `json:"cached_input_tokens"`
	CacheWrite int64 `json:"cache_write_input_tokens,omitempty"`
	Output     int64 `json:"output_tokens"`
	Total      int64 `json:"total_tokens"`
}

func (t tokens) usage() *tidemark.Usage {
	if t.Input <= 0 && t.Output <= 0 {
		return nil
	}
	return &tidemark.Usage{
		InputTokens:      max(0, t.Input-t.Cached-t.CacheWrite),
		OutputTokens:     max(0, t.Output),
		CacheReadTokens:  max(0, t.Cached),
		CacheWriteTokens: max(0, t.CacheWrite),
	}
}

func tokensOf(u *tidemark.Usage) tokens {
	t := tokens{Cached: u.CacheReadTokens, CacheWrite: u.CacheWriteTokens, Output: u.OutputTokens}
	t.Input = u.InputTokens + t.Cached + t.CacheWrite
	t.Total = t.Input + t.Output
	return t
}

func (t *tokens) add(o tokens) {
	t.Input += o.Input
	t.Cached += o.Cached
	t.CacheWrite += o.CacheWrite
	t.Output += o.Output
	t.Total += o.Total
}

// tokenCount handles the figures that the client showed. They are shown
// repeatedly; only a changed total means an answer.
func (r *reader) tokenCount(info json.RawMessage) {
	var p *struct {
		Total tokens `json:"total_token_usage"`
		Last  tokens `json:"last_token_usage"`
	}
	if json.Unmarshal(info, &p) != nil {
		return
	}
	if p == nil { // a process that has counted nothing yet
		r.total = tokens{}
		return
	}
	r.count(p.Total, p.Last)
}

// usageRecord handles the figures of one answer.
func (r *reader) usageRecord(payload json.RawMessage) {
	var p struct {
		Usage tokens `json:"usage"`
		Total tokens `json:"thread_token_usage"`
	}
	if json.Unmarshal(payload, &p) == nil {
		r.count(p.Total, p.Usage)
	}
}

// count assigns figures to the answer before them, or to the next one in
// versions that wrote them first.
func (r *reader) count(total, last tokens) {
	if total == r.total {
		return
	}
	r.total = total
	u := last.usage()
	if u == nil {
		return
	}
	if h := r.held; h != nil && h.Role == tidemark.Assistant && h.Usage == nil && !r.ended {
		h.Usage = u
		return
	}
	if r.pending != nil {
		u.InputTokens += r.pending.InputTokens
		u.OutputTokens += r.pending.OutputTokens
		u.CacheReadTokens += r.pending.CacheReadTokens
		u.CacheWriteTokens += r.pending.CacheWriteTokens
	}
	r.pending = u
}
