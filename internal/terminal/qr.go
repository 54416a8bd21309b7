package terminal

import (
	"strings"

	"rsc.io/qr"

	"github.com/tidemark-sessions/tidemark"
)

// DrawQR returns a text as a QR code with its margin, two rows of squares in a line.
// Its characters are the dark squares: in colour they are black on white on every
// terminal, without it where text is dark on light. ErrInvalid: the text is too long.
func DrawQR(text string, color bool) (string, error) {
	code, err := qr.Encode(text, qr.L) // a screen is not torn
	if err != nil {
		return "", tidemark.Invalidf("%d bytes are too many for a code", len(text))
	}
	const margin = 4
	var b strings.Builder
	before, after := "", "\n"
	if color {
		before, after = "\x1b[38;5;16;48;5;231m", "\x1b[0m\n"
	}
	for y := -margin; y < code.Size+margin; y += 2 {
		b.WriteString(before)
		for x := -margin; x < code.Size+margin; x++ {
			switch up, down := code.Black(x, y), code.Black(x, y+1); {
			case up && down:
				b.WriteString("█")
			case up:
				b.WriteString("▀")
			case down:
				b.WriteString("▄")
			default:
				b.WriteString(" ")
			}
		}
		b.WriteString(after)
	}
	return b.String(), nil
}
