package files

import (
	"encoding/base64"
	"encoding/json"
	"hash/crc32"
	"strconv"
	"time"
	"unicode/utf8"
)

// The envelope of a line and of a record is written by hand, always in one form,
// so that a scanner of a few lines can read it back at the speed of a memory
// copy. Any other form, written by a person or another program, goes through
// encoding/json.

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

const hexDigits = "0123456789abcdef"

// timeLayout is the form of times: always UTC, always six digits.
const timeLayout = "2006-01-02T15:04:05.000000Z"

func appendHex32(dst []byte, v uint32) []byte {
	for shift := 28; shift >= 0; shift -= 4 {
		dst = append(dst, hexDigits[v>>shift&15])
	}
	return dst
}

// appendText writes a JSON string. It escapes as little as JSON allows, since
// people read these files.
func appendText(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < 0x20 || c == 0x7f:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}

// appendString writes a member whose value is any bytes: as text under its name
// or, when they are not text, in base64 under its name followed by "64". lead
// and colon go before the name and between it and the value.
func appendString(dst []byte, lead, name, colon, s string) []byte {
	dst = append(dst, lead...)
	dst = append(dst, name...)
	if utf8.ValidString(s) {
		dst = append(append(dst, '"'), colon...)
		return appendText(dst, s)
	}
	dst = append(append(append(dst, `64"`...), colon...), '"')
	dst = base64.StdEncoding.AppendEncode(dst, []byte(s))
	return append(dst, '"')
}

func appendTime(dst []byte, t time.Time) []byte {
	y, m, d := t.Date()
	hh, mm, ss := t.Clock()
	us := t.Nanosecond() / 1000
	two := func(v int) { dst = append(dst, byte('0'+v/10), byte('0'+v%10)) }
	dst = append(dst, '"')
	two(y / 100)
	two(y % 100)
	dst = append(dst, '-')
	two(int(m))
	dst = append(dst, '-')
	two(d)
	dst = append(dst, 'T')
	two(hh)
	dst = append(dst, ':')
	two(mm)
	dst = append(dst, ':')
	two(ss)
	dst = append(dst, '.')
	two(us / 10000)
	two(us / 100 % 100)
	two(us % 100)
	return append(dst, 'Z', '"')
}

// embeds reports whether body can stand verbatim as the last member of an
// object: it is one JSON value in valid UTF-8, without a newline where that
// would end a line, and without white space at its ends, which a reader could
// not tell from the white space around it.
func embeds(body []byte, oneLine bool) bool {
	if len(body) == 0 || isSpace(body[0]) || isSpace(body[len(body)-1]) {
		return false
	}
	if oneLine {
		for _, c := range body {
			if c == '\n' || c == '\r' {
				return false
			}
		}
	}
	return utf8.Valid(body) && json.Valid(body)
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

// appendBody writes the body as the last member; an empty one is left out.
func appendBody(dst []byte, lead, colon string, body []byte, oneLine bool) []byte {
	if len(body) == 0 {
		return dst
	}
	dst = append(dst, lead...)
	if embeds(body, oneLine) {
		dst = append(dst, `"body"`...)
		dst = append(dst, colon...)
		return append(dst, body...)
	}
	dst = append(dst, `"data"`...)
	dst = append(dst, colon...)
	dst = append(dst, '"')
	dst = base64.StdEncoding.AppendEncode(dst, body)
	return append(dst, '"')
}

// scanner reads what the functions above wrote. Each method reports whether what
// it expects comes next, and skips it.
type scanner struct {
	b []byte
	i int
	carried
}

// carried is what the reading of one line leaves to that of the next.
type carried struct {
	date     [dateBytes]byte // of the last instant: that of the next is mostly the same
	midnight int64           // of the date, in seconds since 1970
	room     []byte          // for what is decoded; who keeps some of it keeps all
}

// decodeRoom is how much is decoded into one piece of memory.
const decodeRoom = 4 << 10

// decode returns what a text in base64 stands for.
func (c *carried) decode(text []byte) ([]byte, bool) {
	n := base64.StdEncoding.DecodedLen(len(text))
	if have := cap(c.room); have-len(c.room) < n {
		c.room = make([]byte, 0, max(n, min(2*have, decodeRoom)))
	}
	at := len(c.room)
	d, err := base64.StdEncoding.Strict().AppendDecode(c.room, text)
	if err != nil {
		return nil, false
	}
	c.room = d
	return d[at:len(d):len(d)], true
}

const dateBytes = len("2006-01-02")

func (s *scanner) literal(x string) bool {
	if len(s.b)-s.i < len(x) || string(s.b[s.i:s.i+len(x)]) != x {
		return false
	}
	s.i += len(x)
	return true
}

func (s *scanner) number(v *int64) bool {
	n, start := int64(0), s.i
	for s.i < len(s.b) && s.i-start < 18 {
		c := s.b[s.i] - '0'
		if c > 9 {
			break
		}
		n = n*10 + int64(c)
		s.i++
	}
	*v = n
	digits := s.i - start
	return digits > 0 && (s.b[start] != '0' || digits == 1)
}

// text reads a string without escapes, including its closing quote.
func (s *scanner) text() ([]byte, bool) {
	start := s.i
	for s.i < len(s.b) {
		c := s.b[s.i]
		if c == '"' {
			s.i++
			return s.b[start : s.i-1], true
		}
		if c < 0x20 || c >= 0x7f || c == '\\' {
			return nil, false
		}
		s.i++
	}
	return nil, false
}

// textLike is text for one that is mostly the same as the last.
func (s *scanner) textLike(last string) (string, bool) {
	if end := s.i + len(last); end < len(s.b) && s.b[end] == '"' && string(s.b[s.i:end]) == last {
		s.i = end + 1
		return last, true
	}
	t, ok := s.text()
	return string(t), ok
}

func (s *scanner) hex32(v *uint32) bool {
	if len(s.b)-s.i < 8 {
		return false
	}
	n, odd := uint32(0), byte(0)
	for _, c := range s.b[s.i : s.i+8] {
		d := digitOf[c]
		n, odd = n<<4|uint32(d&15), odd|d
	}
	if odd > 15 {
		return false
	}
	s.i += 8
	*v = n
	return true
}

// digitOf has the values of digits; anything else has one above 15.
var digitOf = func() (of [256]byte) {
	for c := range of {
		of[c] = 0xff
	}
	for v, c := range "0123456789abcdef" {
		of[c] = byte(v)
	}
	return of
}()

// instant reads a time in timeLayout and its closing quote.
func (s *scanner) instant(t *time.Time) bool {
	if len(s.b)-s.i < len(timeLayout)+1 {
		return false
	}
	b := s.b[s.i : s.i+len(timeLayout)+1]
	if b[4] != '-' || b[7] != '-' || b[10] != 'T' || b[13] != ':' || b[16] != ':' || b[19] != '.' || b[26] != 'Z' || b[27] != '"' {
		return false
	}
	bad := false
	two := func(i int) int {
		x, y := b[i]-'0', b[i+1]-'0'
		bad = bad || x > 9 || y > 9
		return int(x)*10 + int(y)
	}
	year, month, day := two(0)*100+two(2), two(5), two(8)
	hour, minute, second := two(11), two(14), two(17)
	us := two(20)*10000 + two(22)*100 + two(24)
	if bad || month < 1 || month > 12 || day < 1 || day > 31 || hour > 23 || minute > 59 || second > 59 {
		return false
	}
	if string(b[:dateBytes]) != string(s.date[:]) {
		midnight := time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC)
		if midnight.Day() != day {
			return false
		}
		s.date, s.midnight = [dateBytes]byte(b), midnight.Unix()
	}
	*t = time.Unix(s.midnight+int64(hour*3600+minute*60+second), int64(us)*1000).UTC()
	s.i += len(timeLayout) + 1
	return true
}

func (s *scanner) done() bool { return s.i == len(s.b) }

// sumText is the two sums of a line or record: the checksum that its maker
// computed over its content, and the one that binds it to its batch.
type sumText struct{ sum, tie uint32 }

func (s *scanner) sums(v *sumText) bool { return s.hex32(&v.sum) && s.hex32(&v.tie) }

func (v *sumText) UnmarshalJSON(b []byte) error {
	s := scanner{b: b}
	if !s.literal(`"`) || !s.sums(v) || !s.literal(`"`) || !s.done() {
		return strconv.ErrSyntax
	}
	return nil
}
