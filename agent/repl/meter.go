package repl

import (
	"context"
	"fmt"
	"sync"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/store"
)

// maxCounted is how many entries of a resumed session are read to know what it
// has cost so far. Of a longer one only what is added is counted, and the sum
// says so; /cost counts all.
const maxCounted = 10_000

// meter counts what a conversation uses.
type meter struct {
	mu      sync.Mutex
	session *store.Info // of the session that is counted
	used    store.Tally
	partial bool  // what was used before is not in it
	tokens  int64 // in the context, as of the last answer
	sent    int64 // with the last request, without its answer
	cached  int64 // of them from the provider's cache
}

// begin starts to count a session.
func (m *meter) begin(id tidemark.SessionID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.session, m.used, m.partial, m.tokens, m.sent, m.cached = &store.Info{Session: tidemark.Session{ID: id}}, store.Tally{}, false, 0, 0, 0
}

// kept counts an entry that was kept.
func (m *meter) kept(s *store.Store, e chat.Event) {
	if e.Kept == nil || e.Kept.Usage == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.session == nil {
		return
	}
	s.Tally(&m.used, store.Owned{Session: m.session, Worker: e.Worker, Entry: *e.Kept})
	if e.Worker == "" {
		m.last(*e.Kept)
	}
}

// shown notes an entry of the resumed session that was shown.
func (m *meter) shown(e tidemark.Entry) {
	if e.Usage == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last(e)
}

// last notes what the newest answer used: how long the context was after it, and
// how much of the request came from the provider's cache.
func (m *meter) last(e tidemark.Entry) {
	u := e.Usage
	m.sent, m.cached = u.InputTokens+u.CacheReadTokens+u.CacheWriteTokens, u.CacheReadTokens
	m.tokens = m.sent + u.OutputTokens
}

// load counts what a resumed session used before. It returns at once; until it
// is done, nobody else can use the meter.
func (m *meter) load(ctx context.Context, v *store.View) {
	m.mu.Lock()
	go func() {
		defer m.mu.Unlock()
		if m.partial = v.Entries > maxCounted; m.partial {
			return
		}
		if used, err := v.Used(ctx); err == nil {
			m.used = used
		} else {
			m.partial = true
		}
	}()
}

// contextText says how much of the model's window is used, "" when nothing is.
func (m *meter) contextText(window int) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.tokens == 0 || window <= 0 {
		return ""
	}
	return fmt.Sprintf("%d%% of %s", min(m.tokens*100/int64(window), 999), render.Count(int64(window)))
}

// cacheText says how much of the last request came from the provider's cache, ""
// when nothing did.
func (m *meter) cacheText() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cached == 0 {
		return ""
	}
	return fmt.Sprintf("%d%% cached", m.cached*100/m.sent)
}

// costText is the cost so far, "" when it is not known.
func (m *meter) costText() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.used.CostUSD == nil {
		return ""
	}
	text := render.Cost(m.used.Cost)
	if m.partial {
		text = "+" + text
	}
	return text
}
