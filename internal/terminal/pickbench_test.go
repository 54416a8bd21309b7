//go:build !windows

package terminal

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
)

// many are the sessions that the goals speak of.
const many = 100_000

func manyItems() []Item {
	words := strings.Fields("fix refactor lease writer reader picker search index heartbeat fork branch archive import export key rotate seal trash release notes flaky crash")
	word := func(i int) string { return words[i%len(words)] }
	items := make([]Item, many)
	for i := range items {
		items[i] = Item{ID: fmt.Sprintf("%08x-aaaa-4aaa-8aaa-%012x", uint32(i)*2654435761, i), Title: fmt.Sprintf("%s the %s of %s %d", word(i), word(i*7+3), word(i*13+5), i),
			Agent: []string{"claude-code", "codex", "demo"}[i%3], Model: "model", Project: fmt.Sprintf("/home/ada/src/project-%d", i%40), Messages: int64(i % 300),
			UpdatedAt: noon.Add(-time.Duration(i) * time.Minute)}
		if i%20 == 19 {
			items[i].ForkOf = Fork{ID: items[i-7].ID, Title: items[i-7].Title}
		}
	}
	return items
}

// BenchmarkKey measures what a key costs until the whole screen is drawn anew,
// with every session loaded. The goal is 16 ms.
func BenchmarkKey(b *testing.B) {
	items := manyItems()
	for _, c := range []struct{ name, typed, key string }{
		{"first letter", "", "e"},
		{"second letter", "e", "r"},
		{"a rare word", "flak", "y"},
		{"nothing matches", "zzzzz", "z"},
		{"second word", "lease ", "w"},
		{"erase to one letter", "er", "backspace"},
		{"erase all", "e", "backspace"},
		{"down", "", "down"},
		{"end", "", "end"},
	} {
		b.Run(c.name, func(b *testing.B) {
			m := drawn(200, 60, PickOptions{}, items...)
			var took time.Duration
			for b.Loop() {
				b.StopTimer()
				m.input = newField(c.typed)
				m.refilter()
				b.StartTimer()
				start := time.Now()
				if len(c.key) > 1 {
					m.update(key{name: c.key})
				} else {
					m.update(key{text: c.key})
				}
				m.view()
				took = max(took, time.Since(start))
			}
			b.ReportMetric(float64(took.Microseconds())/1000, "worst-ms")
		})
	}
}

// BenchmarkPage measures how long a page that arrives keeps a key waiting.
func BenchmarkPage(b *testing.B) {
	items := manyItems()
	var worst time.Duration
	for b.Loop() {
		m := drawn(200, 60, PickOptions{})
		for at := 0; at < many; at += nextPage {
			rows := newRows(items[at : at+nextPage])
			start := time.Now()
			m.update(pageMsg{rows: rows, next: "more"})
			m.view()
			worst = max(worst, time.Since(start))
		}
	}
	b.ReportMetric(float64(worst.Microseconds())/1000, "worst-ms")
}

// watched is a picker on a terminal without an emulator, which would take
// longer than the picker.
type watched struct {
	tty  *os.File
	buf  []byte
	done chan error
}

func onTerminal(b *testing.B, src Source) *watched {
	tty, slave, err := pty.Open()
	if err != nil {
		b.Fatal(err)
	}
	if err := pty.Setsize(tty, &pty.Winsize{Cols: 200, Rows: 60}); err != nil {
		b.Fatal(err)
	}
	w := &watched{tty: tty, buf: make([]byte, 1<<16), done: make(chan error, 1)}
	go func() {
		_, _, err := Pick(b.Context(), src, pickOn(slave))
		w.done <- err
		slave.Close()
	}()
	return w
}

// until reads until the picker wrote a text.
func (w *watched) until(b *testing.B, want string) {
	var seen []byte
	for !bytes.Contains(seen, []byte(want)) {
		n, err := w.tty.Read(w.buf)
		if err != nil {
			b.Fatalf("before %q: %v", want, err)
		}
		seen = append(seen, w.buf[:n]...)
	}
}

func (w *watched) end(b *testing.B) {
	w.tty.WriteString(ctrlC)
	io.Copy(io.Discard, w.tty)
	if err := <-w.done; err != nil {
		b.Fatal(err)
	}
	w.tty.Close()
}

// BenchmarkFirstPaint measures from Pick to the last line of the first screen,
// at the other end of a terminal. The goal is 100 ms.
func BenchmarkFirstPaint(b *testing.B) {
	src := &shelf{items: manyItems()}
	for b.Loop() {
		w := onTerminal(b, src)
		w.until(b, "project-15") // of the last row; the screen is written at once
		b.StopTimer()
		w.end(b)
		b.StartTimer()
	}
}

// BenchmarkKeyToPaint measures from a key to the screen that obeys it, with
// every session loaded. The goal is 16 ms.
func BenchmarkKeyToPaint(b *testing.B) {
	w := onTerminal(b, &shelf{items: manyItems()})
	w.until(b, "100,000")
	var worst time.Duration
	for b.Loop() {
		start := time.Now()
		w.tty.WriteString("e")
		w.until(b, "searching")
		worst = max(worst, time.Since(start))
		b.StopTimer()
		w.tty.WriteString(ctrlU)
		w.until(b, "titles and content")
		b.StartTimer()
	}
	b.ReportMetric(float64(worst.Microseconds())/1000, "worst-ms")
	w.end(b)
}
