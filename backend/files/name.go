package files

import (
	"hash/crc32"
	"strings"

	"github.com/tidemark-sessions/tidemark"
)

// The folders of a store.
const (
	storeFile  = "tidemark.json"
	recordsDir = "records"
	logsDir    = "logs"
	headsDir   = "heads"
	intentsDir = "intents"
	tmpDir     = "tmp"
	tornDir    = "torn"
	locksDir   = "locks"
)

var folders = []string{recordsDir, logsDir, headsDir, intentsDir, tmpDir, tornDir, locksDir}

// maxNameBytes keeps a file name, with its suffixes, under the 255 bytes of
// common file systems.
const maxNameBytes = 240

// fileName returns the name, without extension, of the file of an id. Upper-case
// letters are escaped, so that two ids never collide on a file system that
// ignores case; so is the first letter of a name that Windows reserves for a
// device.
func fileName(id string) string {
	plain := true
	for i := range len(id) {
		if c := id[i]; 'A' <= c && c <= 'Z' {
			plain = false
			break
		}
	}
	device := isDevice(id)
	if plain && !device {
		return id
	}
	b := make([]byte, 0, len(id)+16)
	for i := range len(id) {
		c := id[i]
		if 'A' <= c && c <= 'Z' || i == 0 && device {
			b = append(b, '%', hexDigits[c>>4], hexDigits[c&15])
		} else {
			b = append(b, c)
		}
	}
	return string(b)
}

// idOf returns the id of a file name, and false when the name is not that of an
// id.
func idOf(name string) (string, bool) {
	if !strings.Contains(name, "%") {
		return name, tidemark.CheckID(name) == nil && fileName(name) == name
	}
	var b []byte
	for i := 0; i < len(name); i++ {
		c := name[i]
		if c == '%' {
			if len(name)-i < 3 {
				return "", false
			}
			hi, lo := strings.IndexByte(hexDigits, name[i+1]), strings.IndexByte(hexDigits, name[i+2])
			if hi < 0 || lo < 0 {
				return "", false
			}
			c = byte(hi<<4 | lo)
			i += 2
		}
		b = append(b, c)
	}
	id := string(b)
	return id, tidemark.CheckID(id) == nil && fileName(id) == name
}

// isDevice reports whether Windows treats a file of that name as a device,
// whatever its extension.
func isDevice(id string) bool {
	stem, _, _ := strings.Cut(id, ".")
	if len(stem) != 3 && len(stem) != 4 {
		return false
	}
	switch stem = strings.ToLower(stem); stem {
	case "con", "prn", "aux", "nul":
		return true
	}
	return len(stem) == 4 && (stem[:3] == "com" || stem[:3] == "lpt") && '0' <= stem[3] && stem[3] <= '9'
}

// checkName returns ErrInvalid for a key that is allowed and still too long
// for a file name.
func checkName(k tidemark.Key) error {
	if len(k.ID)*3 > maxNameBytes && len(fileName(k.ID)) > maxNameBytes {
		return tidemark.Invalidf("%s: too many capital letters for the name of a file", k)
	}
	return nil
}

// nameable reports whether anything can be stored under k.
func nameable(k tidemark.Key) bool { return k.Check() == nil && checkName(k) == nil }

func recordPath(k tidemark.Key) string {
	return recordsDir + "/" + k.Kind + "/" + fileName(k.ID) + ".json"
}
func logPath(k tidemark.Key) string  { return logsDir + "/" + k.Kind + "/" + fileName(k.ID) + ".ndjson" }
func headPath(k tidemark.Key) string { return headsDir + "/" + k.Kind + "/" + fileName(k.ID) + ".json" }

// stripes is how many locks a store has: enough that writers of different
// sessions seldom share one, few enough to take them all for a recovery.
const stripes = 64

// stripeOf makes keys whose ids agree up to the first dot share a lock: a
// session, its lease, its notes and its workers are written together.
func stripeOf(k tidemark.Key) int {
	stem, _, _ := strings.Cut(k.ID, ".")
	return int(crc32.Checksum([]byte(stem), castagnoli) % stripes)
}
