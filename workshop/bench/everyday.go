package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

// everyday measures what a person feels in a conversation on a terminal: from a
// key to its sign while an answer streams, the files that are offered for an @,
// and how much memory it takes with MCP servers.
func (r *run) everyday(ctx context.Context) error {
	server, err := serveDeltas(r.size.deltas)
	if err != nil {
		return err
	}
	defer server.server.Close()
	p, err := r.open(ctx, inSQLite, "everyday")
	if err != nil {
		return err
	}
	defer p.leave()
	if err := p.close(); err != nil {
		return err
	}
	for _, measure := range []func() error{
		func() error { return r.typed(ctx, server, p) },
		func() error { return r.mentioned(ctx, p) },
		func() error { return r.withServers(ctx, p) },
	} {
		if err := measure(); errors.Is(err, errors.ErrUnsupported) {
			r.table.skip("keys in a conversation, and its memory with MCP servers: there is no way here to open a terminal")
			return nil
		} else if err != nil {
			return err
		}
	}
	return nil
}

const (
	keyPause = 15 * time.Millisecond // between two keys, that of a fast typist's burst
	keysLine = 20                    // keys until the line is cleared
	// firstSign is the first of the signs that are typed: patterns of Braille, of
	// which nothing else on the screen is made.
	firstSign = '\u2801'
	signs     = 255
	clearLine = "\x15"
)

// typed measures from a key until its sign is on the terminal, at an idle prompt
// and while an answer streams.
func (r *run) typed(ctx context.Context, server *deltaServer, p *place) error {
	took := make(map[string][]float64) // by the message whose answer streams
	for _, message := range []string{"", "hello"} {
		w, err := openWindow(r.chat(ctx, p, "--provider", "openai", "--base-url", server.pacedURL()))
		if err != nil {
			return err
		}
		took[message], err = typeSigns(w, message, min(signs, max(r.size.deltas/50, 2)))
		if err == nil {
			err = w.leave()
		}
		w.close()
		if err != nil {
			return err
		}
	}
	worst := percentile(took["hello"], 99)
	met := worst <= 16e6
	r.table.add(row{what: "key to paint, at an idle prompt: p99", value: duration(percentile(took[""], 99))})
	r.table.add(row{what: "key to paint, while deltas stream: p50", value: duration(percentile(took["hello"], 50))})
	r.table.add(row{what: fmt.Sprintf("key to paint, while %s deltas stream: p99", short(r.size.deltas)), value: duration(worst), want: want{text: "≤ 16 ms", met: &met}})
	return nil
}

// typeSigns types signs one by one and returns how long each took to appear.
// With a message, that is sent first and its answer streams meanwhile.
func typeSigns(w *window, message string, n int) (took []float64, err error) {
	if err := w.until(prompt); err != nil {
		return nil, err
	}
	if message != "" {
		if err := errors.Join(w.say(message), w.until("word1 ")); err != nil {
			return nil, err
		}
	}
	for i := range n {
		if i%keysLine == 0 {
			if _, err := io.WriteString(w.screen, clearLine); err != nil {
				return nil, err
			}
		}
		time.Sleep(keyPause)
		sign := string(rune(firstSign + i))
		begin := time.Now()
		if _, err := io.WriteString(w.screen, sign); err != nil {
			return nil, err
		}
		if err := w.until(sign); err != nil {
			return nil, err
		}
		took = append(took, float64(time.Since(begin)))
	}
	_, err = io.WriteString(w.screen, clearLine)
	return took, err
}

// percentile returns the value that so many percent are not above.
func percentile(values []float64, percent int) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(len(sorted)-1, len(sorted)*percent/100)]
}

// mentionedFiles is how many files the project has in which a name is completed.
const mentionedFiles = 10_000

// mentioned measures from an @ until files are offered, and from a further key
// until others are.
func (r *run) mentioned(ctx context.Context, p *place) error {
	dir, err := os.MkdirTemp(p.dir, "project-")
	if err != nil {
		return err
	}
	files := min(mentionedFiles, r.size.deltas)
	if err := makeWorkTree(ctx, dir, files); err != nil {
		return err
	}
	var first, further []float64
	for range r.size.reps {
		cmd := r.chat(ctx, p, "--provider", "demo")
		cmd.Dir = dir
		w, err := openWindow(cmd)
		if err != nil {
			return err
		}
		a, b, err := mention(w, files-1)
		if err == nil {
			err = w.leave()
		}
		w.close()
		if err != nil {
			return err
		}
		first, further = append(first, a), append(further, b)
	}
	what := fmt.Sprintf("@ among %s files of a work tree", short(files))
	f := spreadOf(first)
	met := f.median <= 30e6
	r.table.add(row{what: what + ": the first key", time: f, want: want{text: "≤ 30 ms", met: &met}})
	r.table.add(row{what: what + ": a further key", time: spreadOf(further)})
	return nil
}

// mention types an @ and then the number of a file that is not among the first
// offered, and leaves the line empty.
func mention(w *window, number int) (first, further float64, err error) {
	if err := errors.Join(w.until(newSaid), w.until(prompt)); err != nil {
		return 0, 0, err
	}
	time.Sleep(10 * keyPause) // what the start leaves to the background is over
	press := func(key, shown string) (float64, error) {
		begin := time.Now()
		if _, err := io.WriteString(w.screen, key); err != nil {
			return 0, err
		}
		err := w.until(shown)
		return float64(time.Since(begin)), err
	}
	if first, err = press("@", "@room"); err != nil {
		return 0, 0, err
	}
	if further, err = press(fmt.Sprintf("_%d_", number), fmt.Sprintf("window_%d_", number)); err != nil {
		return 0, 0, err
	}
	_, err = io.WriteString(w.screen, clearLine)
	return first, further, err
}

// makeWorkTree makes a work tree whose files git knows.
func makeWorkTree(ctx context.Context, dir string, n int) error {
	for i := range n {
		folder := filepath.Join(dir, fmt.Sprintf("room%d", i%37), fmt.Sprintf("floor%d", i%11))
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, fmt.Sprintf("window_%d_test.go", i)), nil, 0o600); err != nil {
			return err
		}
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}} {
		if out, err := exec.CommandContext(ctx, "git", append([]string{"-C", dir}, args...)...).CombinedOutput(); err != nil {
			return fmt.Errorf("git %v: %w: %s", args, err, out)
		}
	}
	return nil
}

// withServers measures how much memory a conversation has with three MCP
// servers, which are this program's own.
func (r *run) withServers(ctx context.Context, p *place) error {
	type server struct {
		Command string          `json:"command"`
		Args    []string        `json:"args"`
		Sandbox map[string]bool `json:"sandbox"`
	}
	names := []string{"one", "two", "three"}
	servers := make(map[string]server)
	for _, name := range names {
		servers[name] = server{r.program, []string{"--store", "sqlite:" + filepath.Join(p.dir, name+".db"), "mcp"}, map[string]bool{"off": true}}
	}
	raw, err := json.Marshal(map[string]any{"mcpServers": servers})
	if err != nil {
		return err
	}
	file := filepath.Join(p.dir, "servers.json")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		return err
	}
	cmd := r.chat(ctx, p, "--provider", "demo", "--mcp", file)
	w, err := openWindow(cmd)
	if err != nil {
		return err
	}
	defer w.close()
	if err := errors.Join(w.until(newSaid), w.until(prompt)); err != nil {
		return err
	}
	for _, name := range names {
		if err := errors.Join(w.say("/mcp restart "+name), w.until("The MCP server "+name+" runs")); err != nil {
			return err
		}
	}
	resident := residentBytes(cmd.Process.Pid)
	if resident == 0 {
		r.table.skip("memory with MCP servers: this system does not tell")
		return w.leave()
	}
	met := resident <= 60<<20
	r.table.add(row{what: "memory with the clients of 3 MCP servers", value: megabytes(resident), want: want{text: "≤ 60 MB", met: &met}})
	return w.leave()
}
