package render

import "io"

// Writer cleans what passes through it as Clean does, however the bytes are
// split: a character that arrives in two writes is one character. At most a
// few bytes wait for what follows. It is not safe for concurrent use.
type Writer struct {
	to    io.Writer
	clean cleaner
	rest  string // the end of the input, which more bytes may complete
	out   []byte
	err   error
}

// NewWriter returns a Writer that passes clean text to w.
func NewWriter(w io.Writer) *Writer { return &Writer{to: w} }

// Write passes on the clean form of p. After an error of the underlying
// writer it writes nothing more and returns that error again.
func (w *Writer) Write(p []byte) (int, error) {
	if w.pass(w.rest+string(p), false); w.err != nil {
		return 0, w.err
	}
	return len(p), nil
}

// Flush ends the text: an incomplete character is shown byte by byte.
// Writing may continue, as a new text.
func (w *Writer) Flush() error {
	w.pass(w.rest, true)
	w.clean.prev = 0
	return w.err
}

func (w *Writer) pass(s string, ends bool) {
	if w.err != nil {
		return
	}
	var n int
	w.out, n = w.clean.append(w.out[:0], s, ends)
	w.rest = s[n:]
	if len(w.out) > 0 {
		_, w.err = w.to.Write(w.out)
	}
}
