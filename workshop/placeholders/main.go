// Command placeholders makes samples publishable: it copies the stores of other
// tools, and replaces what their vendors wrote (system prompts, descriptions of
// tools, reminders) by meaningless letters, one for one. What people and the
// scripted model said stays, and so do names, ids, times, numbers and the
// number of bytes: a reader of the format cannot tell the difference.
//
//	placeholders FROM TO     one tool: a folder a version, each with an expected.json
//
// A text is taken for the vendor's unless it is known to be our own: it is in
// an expected.json of the tool, or in own.txt. So at first a new capture
// loses too much rather than too little; the tests of the converters show it,
// and own.txt is extended.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: placeholders FROM TO")
		os.Exit(2)
	}
	if err := replace(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "placeholders:", err)
		os.Exit(1)
	}
}

// replace rewrites the samples of one tool.
func replace(from, to string) error {
	if _, err := os.Stat(to); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is there already", to)
	}
	ours, err := known(from)
	if err != nil {
		return err
	}
	return filepath.WalkDir(from, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, below), 0o700)
		}
		if leftOut(below) {
			return nil
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		out := filepath.Join(to, below)
		if bytes.HasPrefix(b, []byte(sqliteMagic)) {
			return ours.database(name, out)
		}
		return os.WriteFile(out, ours.file(below, b), 0o600)
	})
}

// leftOut reports whether a file does not belong to a sample: pages about it,
// and the files that SQLite keeps beside a database, whose content is merged
// into it.
func leftOut(below string) bool {
	return !strings.ContainsRune(below, filepath.Separator) || strings.HasSuffix(below, "-wal") || strings.HasSuffix(below, "-shm")
}

// file returns a file as it is published.
func (o own) file(name string, b []byte) []byte {
	switch filepath.Base(name) {
	case expected: // only we wrote it
		return b
	}
	switch filepath.Ext(name) {
	case ".json", ".jsonl", ".bak":
		return o.json(b)
	}
	return []byte(o.text(string(b), usual))
}
