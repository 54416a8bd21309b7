// Package qr draws short texts as QR codes for terminals, two rows of squares in a
// line. It knows the five smallest sizes with the least correction, in which a text
// is one block: enough for a code of a few words, on a screen that is not torn.
//
//	text, err := qr.Draw("gabud gamug", true)
package qr

import (
	"strings"

	"github.com/tidemark-sessions/tidemark"
)

// sizes are what the versions from 1 on hold: bytes of data and of correction, and
// where the middle of their alignment pattern is.
var sizes = []struct{ data, correction, align int }{{19, 7, 0}, {34, 10, 18}, {55, 15, 22}, {80, 20, 26}, {108, 26, 30}}

// grid is a code. Reserved squares are those of patterns, which no mask changes.
type grid struct {
	n              int
	dark, reserved [][]bool
}

func newGrid(n int) *grid {
	g := &grid{n: n}
	for range n {
		g.dark, g.reserved = append(g.dark, make([]bool, n)), append(g.reserved, make([]bool, n))
	}
	return g
}

func (g *grid) set(x, y int, dark bool) { g.dark[y][x], g.reserved[y][x] = dark, true }

// Draw returns a code with its margin. Its characters are the dark squares: in colour
// they are black on white on every terminal, without it where text is dark on light.
// ErrInvalid: the text is too long.
func Draw(text string, color bool) (string, error) {
	g, err := encode(text)
	if err != nil {
		return "", err
	}
	const margin = 4
	at := func(x, y int) bool { return x >= 0 && y >= 0 && x < g.n && y < g.n && g.dark[y][x] }
	var b strings.Builder
	before, after := "", "\n"
	if color {
		before, after = "\x1b[38;5;16;48;5;231m", "\x1b[0m\n"
	}
	for y := -margin; y < g.n+margin; y += 2 {
		b.WriteString(before)
		for x := -margin; x < g.n+margin; x++ {
			switch up, down := at(x, y), at(x, y+1); {
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

func encode(text string) (*grid, error) {
	version := 0
	for version < len(sizes) && len(text)+2 > sizes[version].data {
		version++
	}
	if version == len(sizes) {
		return nil, tidemark.Invalidf("%d bytes are too many for a code", len(text))
	}
	size := sizes[version]
	// Mode (bytes) and length are four and eight bits; then the text, four zeros, and
	// two bytes in turn until it is full.
	data := []byte{4<<4 | byte(len(text)>>4), byte(len(text) << 4)}
	for i := range len(text) {
		data[len(data)-1] |= text[i] >> 4
		data = append(data, text[i]<<4)
	}
	for pad := byte(0xec); len(data) < size.data; pad ^= 0xec ^ 0x11 {
		data = append(data, pad)
	}
	data = append(data, correction(data, size.correction)...)
	g := newGrid(21 + 4*version)
	g.patterns(size.align)
	g.fill(data)
	best, least := 0, -1
	for mask := range 8 {
		g.mask(mask)
		if cost := g.cost(); least < 0 || cost < least {
			best, least = mask, cost
		}
		g.mask(mask) // takes it back
	}
	g.mask(best)
	g.format(best)
	return g, nil
}

// correction returns the Reed-Solomon code of data, over the field of 256 that QR
// codes use.
func correction(data []byte, n int) []byte {
	times := func(a, b byte) (p byte) {
		for ; b > 0; b >>= 1 {
			if b&1 == 1 {
				p ^= a
			}
			high := a & 0x80
			if a <<= 1; high != 0 {
				a ^= 0x1d
			}
		}
		return p
	}
	generator := make([]byte, n) // without its first term, which is one
	generator[n-1] = 1
	root := byte(1)
	for range n {
		for j := range n {
			generator[j] = times(generator[j], root)
			if j+1 < n {
				generator[j] ^= generator[j+1]
			}
		}
		root = times(root, 2)
	}
	rest := make([]byte, n)
	for _, b := range data {
		factor := b ^ rest[0]
		rest = append(rest[1:], 0)
		for j := range rest {
			rest[j] ^= times(generator[j], factor)
		}
	}
	return rest
}

// patterns draws what every code has, and reserves the places of its format.
func (g *grid) patterns(align int) {
	for i := range g.n {
		g.set(6, i, i%2 == 0)
		g.set(i, 6, i%2 == 0)
	}
	square := func(cx, cy, r int) {
		for dy := -r; dy <= r; dy++ {
			for dx := -r; dx <= r; dx++ {
				if x, y := cx+dx, cy+dy; x >= 0 && y >= 0 && x < g.n && y < g.n {
					d := max(dx, -dx, dy, -dy)
					g.set(x, y, d != 4 && d != 2 || r == 2 && d == 2)
				}
			}
		}
	}
	for _, c := range [][2]int{{3, 3}, {g.n - 4, 3}, {3, g.n - 4}} {
		square(c[0], c[1], 4)
	}
	if align > 0 {
		square(align, align, 2)
		for d := -1; d <= 1; d++ { // its ring is light
			for e := -1; e <= 1; e++ {
				g.set(align+d, align+e, d == 0 && e == 0)
			}
		}
	}
	g.format(0)
}

// format writes which mask was used, twice, and the square that is always dark.
func (g *grid) format(mask int) {
	bits := 1<<3 | mask // 1: the least correction
	rest := bits
	for range 10 {
		rest = rest<<1 ^ rest>>9*0x537
	}
	bits = (bits<<10 | rest) ^ 0x5412
	bit := func(i int) bool { return bits>>i&1 == 1 }
	for i := range 6 {
		g.set(8, i, bit(i))
		g.set(g.n-1-i, 8, bit(i))
	}
	g.set(8, 7, bit(6))
	g.set(8, 8, bit(7))
	g.set(7, 8, bit(8))
	g.set(g.n-7, 8, bit(6))
	g.set(g.n-8, 8, bit(7))
	for i := 9; i < 15; i++ {
		g.set(14-i, 8, bit(i))
	}
	for i := 8; i < 15; i++ {
		g.set(8, g.n-15+i, bit(i))
	}
	g.set(8, g.n-8, true)
}

// fill writes the data from the lower right corner, up and down in columns of two.
func (g *grid) fill(data []byte) {
	i := 0
	for right := g.n - 1; right > 0; right -= 2 {
		if right == 6 {
			right = 5
		}
		for step := range g.n {
			y := step
			if (right+1)&2 == 0 {
				y = g.n - 1 - step
			}
			for _, x := range []int{right, right - 1} {
				if !g.reserved[y][x] && i < len(data)*8 {
					g.dark[y][x] = data[i/8]>>(7-i%8)&1 == 1
					i++
				}
			}
		}
	}
}

// mask turns squares over by one of eight rules, so that none looks like a pattern.
func (g *grid) mask(mask int) {
	for y := range g.n {
		for x := range g.n {
			turn := []bool{(x+y)%2 == 0, y%2 == 0, x%3 == 0, (x+y)%3 == 0, (x/3+y/2)%2 == 0, x*y%2+x*y%3 == 0, (x*y%2+x*y%3)%2 == 0, ((x+y)%2+x*y%3)%2 == 0}[mask]
			g.dark[y][x] = g.dark[y][x] != (turn && !g.reserved[y][x])
		}
	}
}

// cost is how hard a code is to read: long runs and blocks of one colour.
func (g *grid) cost() (cost int) {
	for _, at := range []func(i, j int) bool{func(i, j int) bool { return g.dark[i][j] }, func(i, j int) bool { return g.dark[j][i] }} {
		for i := range g.n {
			run := 1
			for j := 1; j < g.n; j++ {
				if run++; at(i, j) != at(i, j-1) {
					run = 1
				} else if run == 5 {
					cost += 3
				} else if run > 5 {
					cost++
				}
			}
		}
	}
	for y := 1; y < g.n; y++ {
		for x := 1; x < g.n; x++ {
			if d := g.dark[y][x]; d == g.dark[y-1][x] && d == g.dark[y][x-1] && d == g.dark[y-1][x-1] {
				cost += 3
			}
		}
	}
	return cost
}
