package segment

import (
	"encoding/binary"
	"math/bits"
)

// The numbers of a chunk of riceFrom lines or more are in Rice's code: a byte k,
// then bits, the lowest of a byte first. A difference less 1 is divided by 2^k:
// the quotient as so many ones and a zero, then k bits of remainder. A quotient of
// riceFar or more is riceFar ones, and the whole in riceBits bits. So a word that
// every third line has takes three bits a line, and one that a session is about
// does not pay for the gap before it.

const (
	riceFrom = 8
	riceFar  = 12
	riceBits = 22 // as MaxLines
)

// appendRice encodes the differences of numbers behind before.
func appendRice(b []byte, numbers []uint32, before int64) []byte {
	var lengths [riceBits + 1]int
	last := before
	for _, n := range numbers {
		lengths[bits.Len32(uint32(int64(n)-last-1))]++
		last = int64(n)
	}
	k := riceWidth(&lengths)
	b = append(b, byte(k))
	var acc uint64
	var have uint
	last = before
	for _, n := range numbers {
		v := uint64(int64(n) - last - 1)
		last = int64(n)
		if q := v >> k; q < riceFar {
			acc |= (1<<q - 1 | (v&(1<<k-1))<<(q+1)) << have
			have += uint(q) + 1 + k
		} else {
			acc |= (1<<riceFar - 1 | v<<riceFar) << have
			have += riceFar + riceBits
		}
		for ; have >= 8; have -= 8 {
			b = append(b, byte(acc))
			acc >>= 8
		}
	}
	if have > 0 {
		b = append(b, byte(acc))
	}
	return b
}

// riceWidth returns the k that takes about the fewest bits, for so many values of
// each length in bits.
func riceWidth(lengths *[riceBits + 1]int) (k uint) {
	least := -1
	for try := range uint(riceBits) {
		size := 0
		for length, count := range lengths {
			each := int(try) + 1
			if over := length - int(try); over > 4 {
				each = riceFar + riceBits
			} else if over > 0 {
				each += 3 << over / 4 // the quotient of a value in the middle
			}
			size += each * count
		}
		if least < 0 || size < least {
			k, least = try, size
		}
	}
	return k
}

// readRice decodes numbers behind before, all below lines: false when they do
// not fit.
func readRice(b []byte, numbers []uint32, before, lines int64) (last int64, ok bool) {
	if len(b) == 0 || b[0] >= riceBits {
		return 0, false
	}
	k := uint(b[0])
	b = b[1:]
	last = before
	i, used := 0, uint(0) // bits of b
	if k == 0 {
		i, last = readUnary(b, numbers, before, lines)
		b, used = b[(last-before)>>3:], uint(last-before)&7
	}
	var acc uint64
	var have uint
	for i < len(numbers) {
		if len(b) >= 8 {
			acc |= binary.LittleEndian.Uint64(b) << have
			b = b[(63-have)>>3:]
			have |= 56
		} else {
			for ; have <= 56 && len(b) > 0; have += 8 {
				acc |= uint64(b[0]) << have
				b = b[1:]
			}
		}
		if used > have {
			return 0, false
		}
		acc >>= used
		have -= used
		used = 0
		first := i
		for i < len(numbers) {
			q := uint(bits.TrailingZeros64(^acc))
			v, size := uint64(q)<<k|acc>>(q+1)&(1<<k-1), q+1+k
			if q >= riceFar {
				v, size = acc>>riceFar&(1<<riceBits-1), riceFar+riceBits
			}
			if size > have {
				break
			}
			if last += int64(v) + 1; last >= lines {
				return 0, false
			}
			acc >>= size
			have -= size
			numbers[i] = uint32(last)
			i++
		}
		if i == first {
			return 0, false
		}
	}
	if used > 0 && len(b) > 0 { // all was unary, and a byte is begun
		acc, b = uint64(b[0])>>used, b[1:]
	}
	return last, len(b) == 0 && have < 8 && acc == 0
}

// readUnary decodes numbers without remainders, which most lines have: a bit for each
// line, that is 0 where it is one of them. It ends where a far one comes, or what does
// not fit, and returns how many it has.
func readUnary(b []byte, numbers []uint32, before, lines int64) (n int, last int64) {
	last = before
	for at := before + 1; len(b) >= 8; at, b = at+64, b[8:] {
		for zeros := ^binary.LittleEndian.Uint64(b); zeros != 0; zeros &= zeros - 1 {
			number := at + int64(bits.TrailingZeros64(zeros))
			if n == len(numbers) || number-last > riceFar || number >= lines {
				return n, last
			}
			numbers[n], last = uint32(number), number
			n++
		}
	}
	return n, last
}
