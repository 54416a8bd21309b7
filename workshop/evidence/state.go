package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// result is what one run of a part found.
type result struct {
	Part    string    `json:"part"`
	Count   int64     `json:"count"` // requested
	Commit  string    `json:"commit"`
	At      time.Time `json:"at"`
	Seconds float64   `json:"seconds"`
	Load    string    `json:"load,omitempty"` // of the machine, before
	Command string    `json:"command"`
	Rows    []row     `json:"rows,omitempty"`
	NotRun  string    `json:"not_run,omitempty"` // why not
	Failed  []string  `json:"failed,omitempty"`  // the last lines that it said
}

// row is one line of the page.
type row struct {
	Goal    string   `json:"goal,omitempty"`
	What    string   `json:"what"`
	Count   int64    `json:"count,omitempty"`
	Figures []string `json:"figures,omitempty"` // under the columns of the section
	Met     string   `json:"met,omitempty"`     // "" where no goal asks
}

func (r result) summary() string {
	took := time.Duration(r.Seconds * float64(time.Second)).Round(100 * time.Millisecond)
	switch {
	case len(r.Failed) > 0:
		return fmt.Sprintf("FAILED after %s", took)
	case r.NotRun != "":
		return "not run: " + r.NotRun
	}
	return fmt.Sprintf("%d rows in %s", len(r.Rows), took)
}

// book is the file of results, a JSON object a line, in the order in which
// they were found.
type book struct {
	file    *os.File
	results []result
}

// open reads earlier results. An incomplete last line was being written
// when the run was cut off; its part runs again.
func open(path string) (*book, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	b := &book{}
	whole := data[:bytes.LastIndexByte(data, '\n')+1]
	for line := range bytes.Lines(whole) {
		var r result
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", path, len(b.results)+1, err)
		}
		b.results = append(b.results, r)
	}
	if b.file, err = os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600); err != nil {
		return nil, err
	}
	if err := b.file.Truncate(int64(len(whole))); err != nil {
		return nil, errors.Join(err, b.file.Close())
	}
	_, err = b.file.Seek(int64(len(whole)), 0)
	return b, err
}

func (b *book) close() { b.file.Close() }

func (b *book) add(r result) error {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	b.results = append(b.results, r)
	_, err = b.file.Write(append(line, '\n'))
	return errors.Join(err, b.file.Sync())
}

// has reports whether a part was tried with a count at a commit, and held.
func (b *book) has(part string, count int64, commit string) bool {
	return slices.ContainsFunc(b.results, func(r result) bool {
		return r.Part == part && r.Count == count && r.Commit == commit && r.NotRun == "" && len(r.Failed) == 0
	})
}

// best is the result of a part that the page shows: the one with the highest
// count at this commit, or else at the commit tried last. A failure is shown
// until the part holds again with as high a count.
func (b *book) best(part, commit string) (best result, found bool) {
	for _, r := range b.results {
		switch {
		case r.Part != part:
		case !found, r.Commit != best.Commit && best.Commit != commit:
			best, found = r, true
		case r.Commit == best.Commit && (r.NotRun == "" || best.NotRun != "") && (len(r.Failed) > 0 || best.NotRun != "" || cmp.Compare(r.Count, best.Count) >= 0):
			best = r
		}
	}
	return best, found
}

// notCode are the files that do not affect what is tried, this page and what
// trials found among them.
var notCode = []string{".", ":!docs", ":!*.md", ":!workshop/clients/found.json", ":!workshop/evidence/found.jsonl"}

// commitOf names what is tried: the last commit that changed more than prose,
// and a hash of uncommitted changes.
func commitOf(ctx context.Context) (string, error) {
	git := func(args ...string) (string, error) {
		out, err := exec.CommandContext(ctx, "git", append(args, append([]string{"--"}, notCode...)...)...).Output()
		if err != nil {
			return "", fmt.Errorf("git %s: %w", args[0], err)
		}
		return strings.TrimSpace(string(out)), nil
	}
	commit, err := git("log", "-1", "--format=%h")
	if err != nil {
		return "", err
	}
	status, err := git("status", "--porcelain")
	if err != nil || status == "" {
		return commit, err
	}
	diff, err := git("diff", "HEAD")
	return fmt.Sprintf("%s+%.3x", commit, sha256.Sum256([]byte(status+diff))), err
}

// lastLines are the last n lines of a text that say something.
func lastLines(text []byte, n int) (lines []string) {
	scan := bufio.NewScanner(bytes.NewReader(text))
	scan.Buffer(nil, len(text)+1)
	for scan.Scan() {
		if line := strings.TrimRight(scan.Text(), " \t\r"); line != "" {
			lines = append(lines, fmt.Sprintf("%.300s", line))
		}
	}
	return lines[max(0, len(lines)-n):]
}
