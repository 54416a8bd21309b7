package picker

import (
	"io"
)

// file is what the library wants of a terminal to read from.
type file interface {
	io.ReadWriteCloser
	Fd() uintptr
	Name() string
}

// keyboard notices that the terminal has gone away. The library takes the end
// of its input for a person who presses no key, and would wait for ever.
type keyboard struct {
	io.Reader
	lost func()
}

// terminalKeyboard is a keyboard that is still known as a file, so that the
// library can switch it to single keys and stop waiting for one.
type terminalKeyboard struct {
	file
	keyboard keyboard
}

func (t terminalKeyboard) Read(p []byte) (int, error) { return t.keyboard.Read(p) }

func (k keyboard) Read(p []byte) (int, error) {
	n, err := k.Reader.Read(p)
	if err == io.EOF {
		k.lost()
	}
	return n, err
}

// watch returns in, and calls lost when it ends.
func watch(in io.Reader, lost func()) io.Reader {
	k := keyboard{in, lost}
	if f, ok := in.(file); ok {
		return terminalKeyboard{f, k}
	}
	return k
}
