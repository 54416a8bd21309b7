package request

import (
	"net/http"
)

// Recorder records the answer.
type Recorder struct {
	http.ResponseWriter
	Status int
	Bytes  int64
	Before func(status int) // called before the answer begins; may be nil
}

func (w *Recorder) begin(status int) {
	if w.Status == 0 {
		w.Status = status
		if w.Before != nil {
			w.Before(status)
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
	return n, err
}

// Unwrap lets http.ResponseController reach the underlying writer.
func (w *Recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }
