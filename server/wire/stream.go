package wire

import (
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-sessions/tidemark/api"
)

const (
	// chunkBytes is how much of an answer is buffered before it is sent.
	// A shorter answer is sent at once and not compressed.
	chunkBytes = 32 << 10
	// writeTimeout is how long a client may take to read a chunk. A slower
	// one has to ask again from where it was.
	writeTimeout = 60 * time.Second
)

var packers = sync.Pool{New: func() any {
	z, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed)
	return z
}}

// answerStream is an answer being sent: buffered in chunks, and compressed
// when it is long and the client supports it.
type answerStream struct {
	w      http.ResponseWriter
	packs  bool
	zip    *gzip.Writer
	buf    []byte
	n      int // items so far
	begun  bool
	broken error
}

func (s *answerStream) begin(w http.ResponseWriter, r *http.Request, media string) {
	s.w, s.packs = w, strings.Contains(r.Header.Get("Accept-Encoding"), "gzip")
	h := w.Header()
	h.Set("Content-Type", media)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
}

// send adds one item.
func (s *answerStream) send(item any) error {
	if s.broken != nil {
		return s.broken
	}
	var err error
	if s.buf, err = api.Append(s.buf, item); err != nil {
		return err
	}
	s.n++
	if len(s.buf) >= chunkBytes {
		s.broken = s.flush()
	}
	return s.broken
}

// flush sends the buffer.
func (s *answerStream) flush() error {
	out := http.NewResponseController(s.w)
	out.SetWriteDeadline(time.Now().Add(writeTimeout)) // if unsupported, the server has its own
	if !s.begun {
		s.begun = true
		if s.packs {
			s.w.Header().Set("Content-Encoding", "gzip")
			s.zip = packers.Get().(*gzip.Writer)
			s.zip.Reset(s.w)
		}
	}
	var to io.Writer = s.w
	if s.zip != nil {
		to = s.zip
	}
	_, err := to.Write(s.buf)
	if s.buf = s.buf[:0]; cap(s.buf) > 1<<20 {
		s.buf = nil // one large line should not be held for the rest of the answer
	}
	if err == nil && s.zip != nil {
		err = s.zip.Flush()
	}
	if err != nil {
		return err
	}
	return out.Flush()
}

// finish sends the rest.
func (s *answerStream) finish() {
	if s.broken != nil {
		return
	}
	if !s.begun { // the answer is complete: the server sets its length
		s.w.Write(s.buf)
		return
	}
	if len(s.buf) > 0 {
		s.broken = s.flush()
	}
	if s.zip != nil && s.broken == nil {
		s.zip.Close()
	}
	// The connection continues with another request.
	http.NewResponseController(s.w).SetWriteDeadline(time.Time{})
}

// release returns the compressor.
func (s *answerStream) release() {
	if s.zip != nil {
		packers.Put(s.zip)
		s.zip = nil
	}
}
