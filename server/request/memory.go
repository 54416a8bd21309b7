package request

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"path"
	"slices"
	"sync"

	"github.com/tidemark-sessions/tidemark/api"
	"github.com/tidemark-sessions/tidemark/archive"
)

// What a request makes the server hold is weighed while it is read, before
// anything is decoded: some megabytes of {},{},{} become gigabytes of values.
// It is taken from the budgets of the process, the tenant and the user, and
// given back when the request is over.

// weights say how much memory a body may come to.
type weights struct {
	letter int64 // of each byte: as it came, decoded, and as it is kept
	value  int64 // of each comma and bracket, where another value may begin
	object int64 // of each object, which may become a whole entry
	line   int64 // of each line, where each is a value of its own
}

var (
	// A request in JSON is decoded twice, once to be checked, and its largest
	// value is an entry, with some 300 bytes of fields before anything is in it.
	JSONWeights = weights{letter: 4, value: 64, object: 1024}
	// Lines of a batch are decoded one by one, and kept until it is committed.
	LineWeights = weights{letter: 2, line: 256}
	// A session of another tool is read whole, as it came and as what becomes of
	// it.
	sessionWeights = weights{letter: 2, value: 32, object: 256}
)

// streamedBytes is what an import takes that is read in parts, however large:
// an archive, a database.
const streamedBytes = 32 << 20

// budget is how much memory there is for somebody.
type budget struct {
	mu   sync.Mutex
	free int64
}

func (b *budget) take(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.free < n {
		return false
	}
	b.free -= n
	return true
}

func (b *budget) give(n int64) {
	b.mu.Lock()
	b.free += n
	b.mu.Unlock()
}

// Holding is what one request holds of the budgets of its user, its tenant and
// the process. It belongs to one goroutine at a time.
type Holding struct {
	of   []*budget
	most int64 // what it could hold if it were the only one
	n    int64
}

// take holds n bytes more: a 413 when that is more than there ever is, a 429
// when it is more than others leave.
func (h *Holding) take(n int64) error {
	if h.n+n > h.most {
		return &api.Problem{Status: http.StatusRequestEntityTooLarge, Title: "Request Entity Too Large", Code: "invalid",
			Detail: "the body would take more memory than this server gives to one request", Hint: "send it in several requests"}
	}
	for i, b := range h.of {
		if !b.take(n) {
			for _, before := range h.of[:i] {
				before.give(n)
			}
			return TooMany("too many large requests at the same time", 1)
		}
	}
	h.n += n
	return nil
}

// Release gives everything back.
func (h *Holding) Release() {
	for _, b := range h.of {
		b.give(h.n)
	}
	h.n = 0
}

type holdingKey struct{}

// WithHolding returns a context of a request that holds h.
func WithHolding(ctx context.Context, h *Holding) context.Context {
	return context.WithValue(ctx, holdingKey{}, h)
}

// Weighed returns a body that is taken from the budgets of the request that ctx
// belongs to, as it is read.
func Weighed(ctx context.Context, body io.Reader, by weights) io.Reader {
	h, ok := ctx.Value(holdingKey{}).(*Holding)
	if !ok {
		return body
	}
	return &weighedBody{Reader: body, holds: h, by: by}
}

type weighedBody struct {
	io.Reader
	holds   *Holding
	by      weights
	quoted  bool // in a text
	escaped bool // behind a backslash in one
}

func (b *weighedBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if over := b.holds.take(b.weigh(p[:n])); over != nil {
		return 0, over
	}
	return n, err
}

func (b *weighedBody) weigh(p []byte) int64 {
	sum := b.by.letter * int64(len(p))
	if b.by.line > 0 {
		return sum + b.by.line*int64(bytes.Count(p, []byte{'\n'}))
	}
	for _, c := range p {
		switch {
		case b.escaped:
			b.escaped = false
		case b.quoted && c == '\\':
			b.escaped = true
		case c == '"':
			b.quoted = !b.quoted
		case b.quoted:
		case c == '{':
			sum += b.by.object
		case c == '[' || c == ',':
			sum += b.by.value
		}
	}
	return sum
}

// sqliteBegin is what a database of another tool begins with.
const sqliteBegin = "SQLite format 3\x00"

// isDatabase reports whether an import is read as a database: whoever looks for
// a tool looks at its name as well, and reads lines of what is called lines.
func isDatabase(name string, begin []byte) bool {
	return bytes.HasPrefix(begin, []byte(sqliteBegin)) && slices.Contains([]string{".db", ".sqlite", ".sqlite3"}, path.Ext(name))
}

// WeighedImport is weighed for what comes in: what is read in parts for those,
// anything else by what it may become.
func WeighedImport(ctx context.Context, name string, body io.Reader) (io.Reader, error) {
	in := bufio.NewReader(body)
	begin, _ := in.Peek(max(archive.SniffBytes, len(sqliteBegin)))
	if is, _ := archive.Sniff(begin); !is && !isDatabase(name, begin) {
		return Weighed(ctx, in, sessionWeights), nil
	}
	if h, ok := ctx.Value(holdingKey{}).(*Holding); ok {
		return in, h.take(streamedBytes)
	}
	return in, nil
}

// ReadBody reads the body of a call before it is decoded, and says when it did not
// arrive or there is not the memory for it.
func ReadBody(r *http.Request) error {
	text, err := io.ReadAll(Weighed(r.Context(), r.Body, JSONWeights))
	var over *api.Problem
	switch {
	case errors.As(err, &over):
		_, _ = io.Copy(io.Discard, r.Body) // who still sends does not hear
		return over
	case err != nil:
		return BodyProblem(err)
	}
	r.Body = io.NopCloser(bytes.NewReader(text))
	return nil
}
