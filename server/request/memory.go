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

// The memory that a request will need is estimated while it is read, before
// anything is decoded: some megabytes of {},{},{} become gigabytes of values.
// It is taken from the budgets of the process, the tenant and the user, and
// returned when the request is over.

// weights estimate how much memory a body may need.
type weights struct {
	letter int64 // per byte: as received, decoded, and as kept
	value  int64 // per comma and bracket, where another value may begin
	object int64 // per object, which may become a whole entry
	line   int64 // per line, where each is a value of its own
}

var (
	// JSONWeights are for a request in JSON. It is decoded twice, once to be
	// checked, and its largest value is an entry, with some 300 bytes of fields
	// before anything is in it.
	JSONWeights = weights{letter: 4, value: 64, object: 1024}
	// LineWeights are for the lines of a batch, which are decoded one by one,
	// and kept until it is committed.
	LineWeights = weights{letter: 2, line: 256}
	// FormWeights are for a form of a page, whose files are held as they came.
	FormWeights = weights{letter: 4}
	// sessionWeights are for a session of another tool, which is held whole,
	// both as received and converted.
	sessionWeights = weights{letter: 2, value: 32, object: 256}
)

// streamedBytes is what an import that is read in parts needs, however large
// it is: an archive, a database.
const streamedBytes = 32 << 20

// budget is the memory available to a user, a tenant or the process.
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

// Holding is what one request takes from the budgets of its user, its tenant
// and the process. It belongs to one goroutine at a time.
type Holding struct {
	of   []*budget
	most int64 // what it could take if it were the only one
	n    int64
}

// take takes n more bytes: a 413 when that is more than there ever is, a 429
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

// Release returns everything to the budgets.
func (h *Holding) Release() {
	for _, b := range h.of {
		b.give(h.n)
	}
	h.n = 0
}

type holdingKey struct{}

// WithHolding returns the context of a request that holds h.
func WithHolding(ctx context.Context, h *Holding) context.Context {
	return context.WithValue(ctx, holdingKey{}, h)
}

// Weighed returns a body that takes memory from the budgets of the request of
// ctx as it is read.
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
	quoted  bool // inside a string
	escaped bool // after a backslash in one
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

// sqliteBegin is the beginning of a database of another tool.
const sqliteBegin = "SQLite format 3\x00"

// isDatabase reports whether an import is read as a database, by its content
// and its name: the detection of tools looks at both.
func isDatabase(name string, begin []byte) bool {
	return bytes.HasPrefix(begin, []byte(sqliteBegin)) && slices.Contains([]string{".db", ".sqlite", ".sqlite3"}, path.Ext(name))
}

// WeighedImport is Weighed for imports: a fixed amount for those read in
// parts, and for others what they may become.
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

// ReadBody reads the body of a call before it is decoded, and returns an error
// when it did not arrive or there is not enough memory for it.
func ReadBody(r *http.Request, by weights) error {
	text, err := io.ReadAll(Weighed(r.Context(), r.Body, by))
	var over *api.Problem
	switch {
	case errors.As(err, &over):
		_, _ = io.Copy(io.Discard, r.Body) // a client that is still sending does not read the answer
		return over
	case err != nil:
		return BodyProblem(err)
	}
	r.Body = io.NopCloser(bytes.NewReader(text))
	return nil
}
