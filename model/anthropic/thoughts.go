package anthropic

import (
	"encoding/json"
	"slices"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/model"
)

// hasActed reports whether the model has called a tool in this turn without
// thinking before it that can be sent: another model did, or the thinking was
// masked. The API refuses to continue thinking in the middle of such a turn.
func hasActed(r model.Request) bool {
	begin := 0 // start of what came after the person last spoke
	for i, e := range r.Entries {
		if e.Role == tidemark.User && !slices.ContainsFunc(e.Blocks, func(b tidemark.Block) bool { return b.Type == tidemark.BlockToolResult }) {
			begin = i
		}
	}
	for _, e := range r.Entries[begin:] {
		if e.Role != tidemark.Assistant {
			continue
		}
		for _, b := range e.Blocks {
			if _, ok := signed(b); ok {
				return false
			}
			if b.Type == tidemark.BlockToolUse {
				return true
			}
		}
	}
	return false
}

// withoutLastThoughts leaves out the thinking at the end of an answer that was
// cut short: the API refuses a message that ends like that.
func withoutLastThoughts(blocks []tidemark.Block) []tidemark.Block {
	n := len(blocks)
	for n > 0 && blocks[n-1].Type == tidemark.BlockThinking {
		n--
	}
	return blocks[:n]
}

// signed returns thinking that this provider signed, byte for byte. Thinking in
// which a secret was masked is no longer what was signed.
func signed(b tidemark.Block) ([]byte, bool) {
	if b.Type != tidemark.BlockThinking || b.Provider != Provider || b.Raw == "" || len(tidemark.Fingerprints(b.Raw)) > 0 {
		return nil, false
	}
	var kind struct{ Type, Signature, Data string }
	if json.Unmarshal([]byte(b.Raw), &kind) != nil {
		return nil, false
	}
	ok := kind.Type == "thinking" && kind.Signature != "" || kind.Type == "redacted_thinking" && kind.Data != ""
	return []byte(b.Raw), ok
}
