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
	var acc uint64
	var have uint
	last = before
	for i := range numbers {
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
		q := uint(bits.TrailingZeros64(^acc))
		var v uint64
		var used uint
		if q < riceFar {
			v = uint64(q)<<k | acc>>(q+1)&(1<<k-1)
			used = q + 1 + k
		} else {
			v = acc >> riceFar & (1<<riceBits - 1)
			used = riceFar + riceBits
		}
		if last += int64(v) + 1; used > have || last >= lines {
			return 0, false
		}
		acc >>= used
		have -= used
		numbers[i] = uint32(last)
	}
	return last, len(b) == 0 && have < 8 && acc == 0
}
