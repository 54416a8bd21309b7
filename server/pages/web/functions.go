package web

import (
	"fmt"
	"html/template"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// functions are what templates may call.
var functions = template.FuncMap{
	"text":    text,
	"costs":   costRange,
	"asset":   assetPath,
	"start":   func() template.JS { return template.JS(start) },
	"short":   short,
	"age":     age,
	"stamp":   stamp,
	"count":   count,
	"bytes":   size,
	"money":   money,
	"span":    span,
	"took":    took,
	"icon":    icon,
	"client":  client,
	"base":    Base,
	"spaced":  func(name string) string { return strings.ReplaceAll(name, "_", " ") },
	"with":    withQuery,
	"address": withQuery, // with begins a block where an action begins
	"join":    strings.Join,
	"dict":    dict,
	"list":    func(all ...string) []string { return all },
	"section": section,
	"mark":    ownMark,
	"plus":    func(a, b int) int { return a + b },
	"part":    part,
	"deed":    Deed,
	"minus":   func(a, b int) int { return a - b },
	"heatx":   func(week int) int { return week*14 + 14 },
	"heaty":   func(day int) int { return day*14 + 18 },
	"weekday": func(day int) int { return day*14 + 28 },
}

// assetPath is the address of a file; it changes with the content, so that
// browsers may cache it forever.
func assetPath(name string) string {
	a, _ := AssetNamed(name)
	return "/assets/" + name + "?v=" + a.Version
}

// short is the beginning of an id, which is enough to recognise it.
func short(id any) string {
	_, s := tidemark.CutOwner(fmt.Sprint(id))
	return s[:min(len(s), 8)]
}

// Base is the last part of a path, of whatever system it is.
func Base(path string) string {
	trimmed := strings.TrimRight(path, `/\`)
	if i := strings.LastIndexAny(trimmed, `/\`); i >= 0 && trimmed[i+1:] != "" {
		return trimmed[i+1:]
	}
	return path
}

// age says how long ago something was, for people.
func age(now, t time.Time) string {
	if t.IsZero() {
		return "–"
	}
	d := now.Sub(t)
	switch future := d < 0; {
	case future:
		return "in " + span(-d)
	case d < 5*time.Second:
		return "now"
	}
	return span(d) + " ago"
}

// span says how long something took, in one unit or two.
func span(d time.Duration) string {
	switch {
	case d < time.Second:
		return strconv.Itoa(int(d.Milliseconds())) + " ms"
	case d < time.Minute:
		return strconv.Itoa(int(d.Seconds())) + " s"
	case d < time.Hour:
		return strconv.Itoa(int(d.Minutes())) + " min"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d.Hours())) + " h"
	case d < 60*24*time.Hour:
		return strconv.Itoa(int(d.Hours()/24)) + " days"
	case d < 730*24*time.Hour:
		return strconv.Itoa(int(d.Hours()/24/30)) + " months"
	}
	return strconv.Itoa(int(d.Hours()/24/365)) + " years"
}

// took says how long a call took; tenths of a second count there.
func took(d time.Duration) string {
	if d < 10*time.Second && d >= time.Second {
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
	}
	return span(d)
}

// stamp is a time for machines and for tooltips.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// count shortens large numbers: 12,345 becomes 12.3k.
func count(n any) string {
	f := number(n)
	switch a := math.Abs(f); {
	case a >= 1e9:
		return trim(f/1e9) + "G"
	case a >= 1e6:
		return trim(f/1e6) + "M"
	case a >= 1e4:
		return trim(f/1e3) + "k"
	}
	return strconv.FormatFloat(f, 'f', -1, 64)
}

func trim(f float64) string { return strings.TrimSuffix(strconv.FormatFloat(f, 'f', 1, 64), ".0") }

// size is a number of bytes for people.
func size(n any) string {
	f := number(n)
	for _, unit := range []string{"B", "KB", "MB", "GB"} {
		if math.Abs(f) < 1000 {
			return trim(f) + " " + unit
		}
		f /= 1000
	}
	return trim(f) + " TB"
}

// money is a cost in dollars; "" if unknown.
func money(n any) string {
	f := number(n)
	switch {
	case f == 0:
		return ""
	case f < 0.01:
		return "<$0.01"
	}
	return "$" + strconv.FormatFloat(f, 'f', 2, 64)
}

func number(n any) float64 {
	switch v := n.(type) {
	case int:
		return float64(v)
	case int64:
		return float64(v)
	case float64:
		return v
	case *float64:
		if v != nil {
			return *v
		}
	}
	return 0
}

// withQuery is a path with some of its query changed: names and values in
// turn, an empty value removes the name.
func withQuery(path string, pairs ...string) string {
	u, err := url.Parse(path)
	if err != nil {
		return path
	}
	q := u.Query()
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			q.Del(pairs[i])
		} else {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// dict passes several values to a part of a page.
func dict(pairs ...any) map[string]any {
	m := make(map[string]any)
	for i := 0; i+1 < len(pairs); i += 2 {
		m[fmt.Sprint(pairs[i])] = pairs[i+1]
	}
	return m
}

// section is the part of the navigation that a page belongs to.
func section(page string) string {
	switch page {
	case "session", "sessions", "tree":
		return "sessions"
	case "fleet", "jobs", "job", "agent", "schedules":
		return "fleet"
	}
	return page
}

// part is how many of 100 one number is of another.
func part(of, all float64) int {
	if !(all > 0) || !(of > 0) {
		return 0
	}
	return int(min(math.Ceil(of/all*100), 100))
}
