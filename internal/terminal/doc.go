// Package terminal is where a person types and sees. It has two screens over one
// keyboard, one painter and one notion of how wide text is:
//
// A Console is a prompt: a line that can be edited at the bottom of a terminal,
// while output streams above it and scrolls away as in any other program. In a
// pipe, and on a terminal without escape sequences, it reads plain lines and
// writes plain output.
//
// Pick shows a list of sessions on a screen of its own and returns the one that
// was picked.
//
// A key never waits for output, nor output for a key: only one goroutine writes
// to the terminal, and Ctrl-C works even when the terminal accepts no output any
// more.
//
// The package reads no environment, handles no signal and knows no store. Its
// caller supplies the functions that make a terminal raw and report its size.
// Text is shown as Text.Clean returns it; the only sequences in the output that
// reach the terminal are colours.
//
//	c, err := terminal.Open(terminal.Options{In: os.Stdin, Out: os.Stdout, Terminal: true, Raw: raw, Size: size, Text: text})
//	defer c.Close()
//	in, err := c.Read(ctx)
//
//	item, ok, err := terminal.Pick(ctx, source, &terminal.PickOptions{In: os.Stdin, Out: os.Stdout, Raw: raw, Size: size, Text: text})
package terminal
