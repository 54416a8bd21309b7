package tool

import (
	"bytes"
	"encoding/binary"
	"os"
)

// maxIndex bounds the git index that is read: some hundred thousand files.
const maxIndex = 64 << 20

// safeIndex reports whether a git index contains no nested repository and no
// .gitmodules. When the index has a .gitmodules that asks for it, git enters
// such a repository under that repository's own configuration, whatever ours
// says, even if the folder has no such file. An index that cannot be read to
// its end is not safe.
func safeIndex(name string) bool {
	info, err := os.Lstat(name)
	if os.IsNotExist(err) {
		return true
	}
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxIndex {
		return false
	}
	data, err := os.ReadFile(name)
	return err == nil && plainIndex(data)
}

const (
	indexHeader = 12 // DIRC, version, number of entries
	indexHash   = 20 // size of an object's hash; the repository's format says that it is SHA-1
	indexFixed  = 62 // size of an entry up to its name
	indexMode   = 24 // offset of the mode in an entry

	gitLink      = 0o160000
	gitDirectory = 0o040000 // in a sparse index: its content is not listed
	moreFlags    = 0x4000
)

// plainIndex is safeIndex for the content of the file.
func plainIndex(data []byte) bool {
	if len(data) < indexHeader+indexHash || string(data[:4]) != "DIRC" {
		return false
	}
	version, count := binary.BigEndian.Uint32(data[4:]), binary.BigEndian.Uint32(data[8:])
	if version < 2 || version > 4 {
		return false
	}
	rest := data[indexHeader : len(data)-indexHash]
	name := ""
	for range count {
		if len(rest) <= indexFixed {
			return false
		}
		mode, size := binary.BigEndian.Uint32(rest[indexMode:]), indexFixed
		if binary.BigEndian.Uint16(rest[indexFixed-2:])&moreFlags != 0 {
			size += 2
		}
		if version == 4 {
			drop, used := prefixLength(rest[min(size, len(rest)):])
			if used == 0 || drop > len(name) {
				return false
			}
			name, size = name[:len(name)-drop], size+used
		} else {
			name = ""
		}
		end := bytes.IndexByte(rest[min(size, len(rest)):], 0)
		if end < 0 {
			return false
		}
		name += string(rest[size : size+end])
		if kind := mode & 0o170000; kind == gitLink || kind == gitDirectory || name == ".gitmodules" {
			return false
		}
		if size += end + 1; version < 4 {
			size = (size + 7) &^ 7 // names end in one to eight NULs
		}
		if size > len(rest) {
			return false
		}
		rest = rest[size:]
	}
	return plainExtensions(rest)
}

// prefixLength reads how much of the previous name is not part of this one,
// in git's encoding of offsets; used is 0 when it is invalid.
func prefixLength(b []byte) (n, used int) {
	for i, c := range b[:min(len(b), 4)] {
		if n = n<<7 | int(c&0x7f); c < 0x80 {
			return n, i + 1
		}
		n++
	}
	return 0, 0
}

// plainExtensions reports whether the extensions after the entries name
// no other index: a split index has its entries elsewhere.
func plainExtensions(rest []byte) bool {
	for len(rest) > 0 {
		if len(rest) < 8 || string(rest[:4]) == "link" {
			return false
		}
		size := int64(binary.BigEndian.Uint32(rest[4:])) + 8
		if size > int64(len(rest)) {
			return false
		}
		rest = rest[size:]
	}
	return true
}
