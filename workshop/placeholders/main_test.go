package main

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark/redact"
)

const samples = "../../convert/testdata"

// handmade are samples in which no vendor has a word: we wrote them, or had
// the tool's own code write what we gave it.
var handmade = map[string]bool{"agentzero": true, "agents-fleet": true, "agsh": true, "fleet-rlm": true, "herdctl": true}

// each calls a function with every file of every sample.
func each(t *testing.T, do func(tool, name string, b []byte)) {
	t.Helper()
	n := 0
	err := filepath.WalkDir(samples, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Dir(name) == samples {
			return err
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		below, err := filepath.Rel(samples, name)
		tool, _, _ := strings.Cut(filepath.ToSlash(below), "/")
		do(tool, name, b)
		n++
		return err
	})
	if err != nil || n < 400 {
		t.Fatalf("%d files, %v", n, err)
	}
}

// TestNoVendorSpeaksInTheSamples runs the program over what it has made: there
// is nothing left for it to do.
func TestNoVendorSpeaksInTheSamples(t *testing.T) {
	ours := map[string]own{}
	each(t, func(tool, name string, b []byte) {
		if handmade[tool] {
			return
		}
		if _, ok := ours[tool]; !ok {
			o, err := known(filepath.Join(samples, tool))
			if err != nil {
				t.Fatal(err)
			}
			ours[tool] = o
		}
		if bytes.HasPrefix(b, []byte(sqliteMagic)) {
			again := filepath.Join(t.TempDir(), "again.db")
			if err := ours[tool].database(name, again); err != nil {
				t.Fatal(err)
			}
			if a, b := cells(t, name), cells(t, again); a != b {
				t.Errorf("%s: somebody speaks in it", name)
			}
			return
		}
		if now := ours[tool].file(name, b); !bytes.Equal(now, b) {
			at := 0
			for now[at] == b[at] {
				at++
			}
			t.Errorf("%s: somebody speaks in it: %.200q", name, b[at:])
		}
	})
}

// cells returns everything that a database holds, in order.
func cells(t *testing.T, name string) string {
	t.Helper()
	// A copy is asked, for asking makes files.
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "copy.db")
	if err := os.WriteFile(copied, b, 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", copied)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	tables, err := column(t.Context(), db, "select name from sqlite_schema where type = 'table' and sql not like 'create virtual%' order by name")
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, table := range tables {
		columns, err := column(t.Context(), db, "select name from pragma_table_info('"+table+"')")
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range columns {
			found, err := column(t.Context(), db, `select coalesce("`+c+`", '') from "`+table+`" order by 1`)
			if err != nil {
				t.Fatal(err)
			}
			all.WriteString(table + "." + c + "\n" + strings.Join(found, "\n") + "\n")
		}
	}
	return all.String()
}

// TestSamplesNameNoMachineAndNoSecret looks for what must never be published.
func TestSamplesNameNoMachineAndNoSecret(t *testing.T) {
	// /root/NAME is how Codex calls a helper agent.
	machine := regexp.MustCompile(`(?:^|[^A-Za-z0-9_.-])/(?:work|shared|mnt|Users)/|/root/[.A-Z]`)
	each(t, func(_, name string, b []byte) {
		if found := machine.Find(b); found != nil {
			t.Errorf("%s names a folder of a machine: %q", name, found)
		}
		for _, f := range redact.Find(string(b)) {
			t.Errorf("%s holds what looks like a secret (%s): %.12q…", name, f.Rule, b[f.From:f.To])
		}
	})
}

func TestVendorsTextsGo(t *testing.T) {
	o := phrases([]string{"Please fix the bug in the parser, and run the tests again."})
	for name, c := range map[string]struct{ was, want string }{
		"a prompt stays": {`{"a":"Please fix the bug in the parser, and run the tests again."}`, `{"a":"Please fix the bug in the parser, and run the tests again."}`},
		"a vendor's text goes, its tags stay": {`{"a":"<system-reminder>You must never ever do this again.</system-reminder>"}`,
			`{"a":"<system-reminder>Xxx xxxx xxxxx xxxx xx xxxx xxxxx.</system-reminder>"}`},
		"all of a text goes when one line does": {`{"a":"# Short\nYou must never ever do this again.\nOK then"}`, `{"a":"# Xxxxx\nXxx xxxx xxxxx xxxx xx xxxx xxxxx.\nXX xxxx"}`},
		"ours stays among theirs":               {`{"a":"The user has just asked you this: Please fix the bug in the parser, and run the tests again."}`, `{"a":"Xxx xxxx xxx xxxx xxxxx xxx xxxx: Please fix the bug in the parser, and run the tests again."}`},
		"a description goes sooner":             {`{"name":"run","description":"Runs commands"}`, `{"name":"run","description":"Xxxx xxxxxxxx"}`},
		"arguments within":                      {`{"arguments":"{\"description\":\"Runs \\\"one\\\" command\\n\"}"}`, `{"arguments":"{\"description\":\"Xxxx \\\"xxx\\\" xxxxxxx\\n\"}"}`},
		"escapes":                               {`{"a":"\u0059ou must \ud83d\ude00 never ever do this\tagain é"}`, `{"a":"\u0058xx xxxx \ud83d\ude00 xxxxx xxxx xx xxxx\txxxxx é"}`},
		"a torn line":                           {"{\"a\":\"You must never ever do this again.\"}\n{\"a\":\"You must never ever do th", "{\"a\":\"Xxx xxxx xxxxx xxxx xx xxxx xxxxx.\"}\n{\"a\":\"Xxx xxxx xxxxx xxxx xx xx"},
		"names are no texts":                    {`{"You must never ever do this again":1}`, `{"You must never ever do this again":1}`},
	} {
		got := string(o.json([]byte(c.was)))
		if got != c.want {
			t.Errorf("%s:\n%s, want\n%s", name, got, c.want)
		}
		if again := string(o.json([]byte(got))); again != got {
			t.Errorf("%s: a second time it is %s", name, again)
		}
		if json.Valid([]byte(c.was)) != json.Valid([]byte(got)) || len(got) != len(c.was) {
			t.Errorf("%s: it is not what it was", name)
		}
	}
}
