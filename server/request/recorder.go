package request

import (
	"io"
	"net/http"
)

// Recorder records the answer.
type Recorder struct {
	http.ResponseWriter
	Status int
	Bytes  int64
	before []func(status int)
	Wrote  func(n int) // called with the bytes of the answer, as they go; may be nil
}

// Before has f called before the answer begins, after all that were given before.
func (w *Recorder) Before(f func(status int)) { w.before = append(w.before, f) }

func (w *Recorder) begin(status int) {
	if w.Status == 0 {
		w.Status = status
		for _, f := range w.before {
			f(status)
		}
	}
}

func (w *Recorder) WriteHeader(status int) {
	w.begin(status)
	w.ResponseWriter.WriteHeader(status)
}

func (w *Recorder) Write(b []byte) (int, error) {
	w.begin(http.StatusOK)
	n, err := w.ResponseWriter.Write(b)
	w.Bytes += int64(n)
	if w.Wrote != nil {
		w.Wrote(n)
	}
	return n, err
}

// Unwrap lets http.ResponseController reach the underlying writer.
func (w *Recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Counted returns a body whose bytes are counted as they are read.
func Counted(body io.ReadCloser, count func(n int)) io.ReadCloser {
	return &countedBody{body, count}
}

type countedBody struct {
	io.ReadCloser
	count func(n int)
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.count(n)
	return n, err
}
