package render

import (
	"strconv"
	"strings"
)

// ink is how a terminal would show text, as far as a page follows it: never the
// background nor what is concealed, so that no output can hide a part of itself.
type ink struct {
	color                   string // class of the colour, "" for that of the page
	bold, italic, underline bool
}

// inks are the classes of the first eight colours.
var inks = [8]string{"", "a-r", "a-g", "a-y", "a-b", "a-m", "a-c", ""}

func (k ink) classes() string {
	all := make([]string, 0, 4)
	if k.color != "" {
		all = append(all, k.color)
	}
	for _, set := range []struct {
		is   bool
		name string
	}{{k.bold, "a-1"}, {k.italic, "a-3"}, {k.underline, "a-4"}} {
		if set.is {
			all = append(all, set.name)
		}
	}
	return strings.Join(all, " ")
}

// terminal writes what a program put out, in the colours that it asked for. Other
// sequences that begin with ESC [ are left out: they move a cursor that a page
// does not have. Any other control character is shown.
func (h *htmlPage) terminal(text string) {
	var now ink
	for {
		plain, rest, more := strings.Cut(text, "\x1b[")
		h.inked(now, plain)
		if !more {
			return
		}
		end := 0
		for end < len(rest) && 0x20 <= rest[end] && rest[end] < 0x40 {
			end++
		}
		if end == len(rest) || rest[end] < 0x40 || rest[end] > 0x7e {
			h.inked(now, "\x1b[") // no sequence after all
			text = rest
			continue
		}
		if rest[end] == 'm' {
			now = now.with(rest[:end])
		}
		text = rest[end+1:]
	}
}

func (h *htmlPage) inked(k ink, text string) {
	if text == "" {
		return
	}
	classes := k.classes()
	if classes != "" {
		h.say(`<span class="`, classes, `">`)
	}
	escape(h.w, Clean(text))
	if classes != "" {
		h.say("</span>")
	}
}

// with returns the ink after a sequence with these parameters.
func (k ink) with(parameters string) ink {
	codes := strings.FieldsFunc(parameters, func(r rune) bool { return r == ';' || r == ':' })
	if len(codes) == 0 {
		return ink{}
	}
	for i := 0; i < len(codes); i++ {
		n, err := strconv.Atoi(codes[i])
		switch {
		case err != nil:
		case n == 0:
			k = ink{}
		case n == 1:
			k.bold = true
		case n == 3:
			k.italic = true
		case n == 4:
			k.underline = true
		case n == 22:
			k.bold = false
		case n == 23:
			k.italic = false
		case n == 24:
			k.underline = false
		case n == 39:
			k.color = ""
		case n == 90:
			k.color = "a-0"
		case 30 <= n && n <= 37:
			k.color = inks[n-30]
		case 91 <= n && n <= 97:
			k.color = inks[n-90]
		case n == 38 || n == 48:
			color, used := palette(codes[i+1:])
			if n == 38 {
				k.color = color
			}
			i += used
		}
	}
	return k
}

// palette is the nearest class of a colour by number or by its parts, and how
// many parameters it took.
func palette(codes []string) (class string, used int) {
	if len(codes) < 2 {
		return "", len(codes)
	}
	if codes[0] == "2" {
		if len(codes) < 4 {
			return "", len(codes)
		}
		var part [3]int
		for i := range part {
			part[i], _ = strconv.Atoi(codes[i+1])
		}
		return nearest(part[0], part[1], part[2]), 4
	}
	n, _ := strconv.Atoi(codes[1])
	switch {
	case n == 8:
		class = "a-0"
	case 0 <= n && n < 16:
		class = inks[n%8]
	case 16 <= n && n < 232:
		n -= 16
		class = nearest(n/36*51, n/6%6*51, n%6*51)
	case 232 <= n && n < 250:
		class = "a-0"
	}
	return class, 2
}

// nearest is the class for a colour by which of its parts are strong.
func nearest(r, g, b int) string {
	top := max(r, g, b)
	if top-min(r, g, b) < 40 {
		return ""
	}
	n := 0
	for i, part := range []int{r, g, b} {
		if part*3 > top*2 {
			n |= 1 << i
		}
	}
	return inks[n]
}
