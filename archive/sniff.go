package archive

import "encoding/binary"

// SniffBytes is how much of the beginning of a file Sniff needs.
const SniffBytes = headerBytes

// Sniff reports whether a file begins like an archive, and whether that is one
// of a sealed store.
func Sniff(begin []byte) (is, sealed bool) {
	if len(begin) < len(magic) || string(begin[:len(magic)]) != magic {
		return false, false
	}
	if len(begin) < headerBytes {
		return true, false
	}
	return true, binary.LittleEndian.Uint16(begin[10:])&flagSealed != 0
}
