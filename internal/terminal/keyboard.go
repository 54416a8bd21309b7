package terminal

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxPaste bounds one paste; the rest is dropped, and the person is told.
const maxPaste = 64 << 20

// key is one action on the keyboard: typed text, a paste, or a named key like
// ctrl+a, alt+right or esc.
type key struct {
	name string
	text string
}

// keyboard turns the bytes of a terminal into keys. An unknown sequence is
// dropped as a whole, so that no part of it ends up in the line.
type keyboard struct {
	rest    []byte // an incomplete sequence or character
	pasting bool
	paste   []byte
	cut     bool // the paste was longer than maxPaste
}

var (
	pasteStart = []byte("\x1b[200~")
	pasteEnd   = []byte("\x1b[201~")
)

// feed adds bytes, and returns the keys that they complete.
func (k *keyboard) feed(p []byte) (keys []key) {
	// Some terminals fail in the middle of a paste. Ctrl-C is the way out.
	if k.pasting && len(p) == 1 && p[0] == 3 {
		*k = keyboard{}
		return []key{{name: "ctrl+c"}}
	}
	p = append(k.rest, p...)
	k.rest = nil
	for len(p) > 0 {
		var n int
		var next key
		if k.pasting {
			n, next = k.more(p)
		} else {
			n, next = k.key(p)
		}
		if n == 0 {
			k.rest = bytes.Clone(p)
			break
		}
		p = p[n:]
		if next != (key{}) {
			keys = append(keys, next)
		}
	}
	return keys
}

// waits reports whether the last bytes may already be complete: an Esc that
// begins no sequence. The caller calls flush when nothing follows soon.
func (k *keyboard) waits() bool { return !k.pasting && len(k.rest) > 0 }

// flush gives up waiting for the rest of a sequence.
func (k *keyboard) flush() (keys []key) {
	if !k.waits() {
		return nil
	}
	rest := k.rest
	k.rest = nil
	switch {
	case rest[0] != 0x1b:
		return []key{{text: "\ufffd"}}
	case len(rest) == 1, len(rest) == 2 && rest[1] == 0x1b:
		return []key{{name: "esc"}}
	}
	return nil
}

// more adds a part of a paste, and returns the paste when it has ended. It
// consumes nothing when the bytes may be a part of the end mark.
func (k *keyboard) more(p []byte) (int, key) {
	end := bytes.Index(p, pasteEnd)
	part, n := p, end+len(pasteEnd)
	if end >= 0 {
		part = p[:end]
	} else {
		part = p[:len(p)-startOf(pasteEnd, p)]
		n = len(part)
	}
	if room := maxPaste - len(k.paste); len(part) > room {
		part, k.cut = part[:room], true
	}
	k.paste = append(k.paste, part...)
	if end < 0 {
		return n, key{}
	}
	done := key{name: "paste", text: string(k.paste)}
	if k.cut {
		done.name = "paste+cut"
	}
	*k = keyboard{}
	return n, done
}

// startOf returns how many bytes at the end of p could be the start of mark.
func startOf(mark, p []byte) int {
	for n := min(len(mark)-1, len(p)); n > 0; n-- {
		if bytes.HasSuffix(p, mark[:n]) {
			return n
		}
	}
	return 0
}

// key returns the first key in p and its length, 0 when it is not complete.
func (k *keyboard) key(p []byte) (int, key) {
	switch b := p[0]; {
	case b == 0x1b:
		return k.escape(p)
	case b < ' ' || b == 0x7f:
		return 1, key{name: controlName(b)}
	}
	return typed(p)
}

// typed returns the characters at the front of p up to the next named key. A
// byte that is no part of a character becomes a replacement character.
func typed(p []byte) (n int, k key) {
	var b strings.Builder
	for n < len(p) && p[n] >= ' ' && p[n] != 0x7f && utf8.FullRune(p[n:]) {
		r, size := utf8.DecodeRune(p[n:])
		if !isControl(r) {
			b.WriteRune(r)
		}
		n += size
	}
	return n, key{text: b.String()}
}

func controlName(b byte) string {
	switch b {
	case '\r':
		return "enter"
	case '\n':
		return "newline"
	case '\t':
		return "tab"
	case 0x7f, 8:
		return "backspace"
	case 0:
		return "ctrl+space"
	}
	return "ctrl+" + strings.ToLower(string(rune(b|0x40)))
}

// escape returns the key of a sequence, without a name when it is unknown.
func (k *keyboard) escape(p []byte) (int, key) {
	if len(p) == 1 {
		return 0, key{}
	}
	switch b := p[1]; b {
	case '[':
		return k.csi(p)
	case 'O': // what some terminals send for arrows
		if len(p) < 3 {
			return 0, key{}
		}
		if p[2] < '@' || p[2] > '~' {
			return 2, key{}
		}
		if p[2] == 'M' { // on the number pad
			return 3, key{name: "enter"}
		}
		return 3, key{name: letterName(p[2])}
	case ']', 'P', 'X', '^', '_': // an answer of the terminal, up to its end
		if n := endOfString(p); n >= 0 {
			return n, key{}
		}
		if len(p) > maxAnswer {
			return 1, key{}
		}
		return 0, key{}
	case 0x1b: // Alt on terminals that put an escape in front of everything
		if len(p) == 2 {
			return 0, key{}
		}
		if p[2] != '[' && p[2] != 'O' {
			return 1, key{name: "esc"}
		}
		n, next := k.escape(p[1:])
		if n == 0 {
			return 0, key{}
		}
		if next.name != "" && !k.pasting {
			next.name = "alt+" + next.name
		}
		return n + 1, next
	}
	if !utf8.FullRune(p[1:]) {
		return 0, key{}
	}
	r, size := utf8.DecodeRune(p[1:])
	switch {
	case r == '\r' || r == '\n' || r == 8 || r == 0x7f:
		return 2, key{name: "alt+" + controlName(p[1])}
	case isControl(r): // two keys, of which the second may be Ctrl-C
		return 1, key{name: "esc"}
	}
	return 1 + size, key{name: "alt+" + string(r)}
}

// maxAnswer bounds the answer of a terminal.
const maxAnswer = 4096

// endOfString returns the length of an answer including its terminator, -1
// without a terminator.
func endOfString(p []byte) int {
	for i := 2; i < len(p); i++ {
		switch {
		case p[i] == 7:
			return i + 1
		case p[i] == 3: // Ctrl-C is never a part of it
			return i
		case p[i] == 0x1b && i+1 < len(p):
			if p[i+1] == '\\' {
				return i + 2
			}
			return i // something else begins: the answer was cut off
		}
	}
	return -1
}

// csi returns the key of a sequence that begins with ESC [.
func (k *keyboard) csi(p []byte) (int, key) {
	i := 2
	if len(p) > 3 && p[2] == '[' && p[3] >= 'A' && p[3] <= 'E' { // function keys of the Linux console
		return 4, key{}
	}
	for i < len(p) && p[i] >= 0x20 && p[i] <= 0x3f {
		i++
	}
	switch {
	case i == len(p) && i > maxAnswer:
		return i, key{}
	case i == len(p), i == 2 && len(p) == 3 && p[2] == '[':
		return 0, key{}
	case p[i] < 0x40 || p[i] > 0x7e: // not a sequence after all
		return i, key{}
	}
	n := i + 1
	if bytes.Equal(p[:n], pasteStart) {
		k.pasting = true
		return n, key{}
	}
	return n, csiKey(string(p[2:i]), p[i])
}

func csiKey(params string, final byte) key {
	args := strings.Split(params, ";")
	if strings.Trim(params, "0123456789;") != "" {
		return key{}
	}
	name, modifier := "", ""
	switch final {
	case '~':
		name = numberName(args[0])
		if args[0] == "27" && len(args) == 3 { // modifyOtherKeys
			if name = codeName(args[2]); name == "" {
				return letterKey(args[2], args[1])
			}
			return modified(name, args[1])
		}
	case 'u':
		name = codeName(args[0])
		if name == "" && len(args) > 1 {
			return letterKey(args[0], args[1])
		}
	case 'Z':
		return key{name: "shift+tab"}
	default:
		name = letterName(final)
	}
	if len(args) > 1 {
		modifier = args[1]
	}
	return modified(name, modifier)
}

// lockBits are set in a modifier while Caps Lock or Num Lock is on.
const lockBits = 64 | 128

// letterKey returns the key for a character code and a modifier code that a
// terminal sent.
func letterKey(code, modifier string) key {
	r, err := strconv.ParseInt(code, 10, 32)
	if err != nil || r <= ' ' || r >= 0x7f {
		if code == "32" && modifier == "5" {
			return key{name: "ctrl+space"}
		}
		return key{}
	}
	s := string(rune(r))
	switch withoutLocks(modifier) {
	case "3", "9":
		return key{name: "alt+" + s}
	case "5":
		return key{name: "ctrl+" + strings.ToLower(s)}
	}
	return key{}
}

// withoutLocks returns a modifier without Caps Lock and Num Lock.
func withoutLocks(modifier string) string {
	n, err := strconv.Atoi(modifier)
	if err != nil || n < 1 || n > 256 {
		return modifier
	}
	return strconv.Itoa((n-1)&^lockBits + 1)
}

// modified returns a key with the modifiers of a modifier code.
func modified(name, modifier string) key {
	if name == "" {
		return key{}
	}
	switch withoutLocks(modifier) {
	case "2":
		name = "shift+" + name
	case "3", "9":
		name = "alt+" + name
	case "5":
		name = "ctrl+" + name
	case "", "1":
	default:
		return key{}
	}
	return key{name: name}
}

func letterName(b byte) string {
	switch b {
	case 'A':
		return "up"
	case 'B':
		return "down"
	case 'C':
		return "right"
	case 'D':
		return "left"
	case 'H':
		return "home"
	case 'F':
		return "end"
	}
	return ""
}

func numberName(s string) string {
	switch s {
	case "1", "7":
		return "home"
	case "4", "8":
		return "end"
	case "3":
		return "delete"
	case "5":
		return "pgup"
	case "6":
		return "pgdown"
	}
	return ""
}

// codeName names the keys that terminals send by a character code or, for the
// number pad, by a code beyond all characters.
func codeName(s string) string {
	switch s {
	case "13":
		return "enter"
	case "9":
		return "tab"
	case "27":
		return "esc"
	case "127":
		return "backspace"
	case "57414":
		return "enter"
	case "57417":
		return "left"
	case "57418":
		return "right"
	case "57419":
		return "up"
	case "57420":
		return "down"
	case "57421":
		return "pgup"
	case "57422":
		return "pgdown"
	case "57423":
		return "home"
	case "57424":
		return "end"
	case "57426":
		return "delete"
	}
	return ""
}
