// Package manual is what people read about the program beside the help of its
// commands: topics, and pages for the man program.
//
// It knows nothing of flags and commands: whoever has them says what a Page
// holds. It never asks where pages belong.
//
//	err := manual.Write(dir, pages, func(file string) { fmt.Println(file) })
package manual

import (
	"cmp"
	"embed"
	"fmt"
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark"
)

// Topic is a page that explains something that several commands share.
type Topic struct{ Name, Short, Text string }

//go:embed topics/*.txt
var texts embed.FS

// Topics are all topics, in the order in which they are listed.
func Topics() []Topic {
	all := []Topic{
		{Name: "environment", Short: "Variables that the program reads"},
		{Name: "formatting", Short: "Output for programs: --json, --jq, --template"},
		{Name: "exit-codes", Short: "What the exit codes mean", Text: ExitCodes()},
		{Name: "refs", Short: "How to name a session, and a point in one"},
		{Name: "files", Short: "Where the store, the configuration and keys are"},
		{Name: "prices", Short: "What models cost, and where that is said"},
	}
	for i, t := range all {
		if t.Text != "" {
			continue
		}
		text, err := texts.ReadFile("topics/" + t.Name + ".txt")
		if err != nil {
			panic(err) // it is built in, and a test reads them all
		}
		all[i].Text = strings.TrimSuffix(string(text), "\n")
	}
	return all
}

// ExitCodes explains the exit codes. It is made from the table that the program itself uses.
func ExitCodes() string {
	type row struct {
		exit    int
		name    string
		meaning string
	}
	rows := []row{{0, "", "done"}, {1, "failed", "failed, for a reason that has no code of its own"},
		{3, "", "partly done; stderr says what was skipped or is not done"}, {130, "", "interrupted by SIGINT"}, {143, "", "interrupted by SIGTERM"}, {129, "", "interrupted by SIGHUP, or the terminal closed"}}
	for _, c := range tidemark.Codes {
		rows = append(rows, row{c.Exit, c.Name, c.Err.Error()})
	}
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(a.exit, b.exit) })
	var b strings.Builder
	b.WriteString("The names are the codes of errors in JSON.\n\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "  %3d  %-15s  %s\n", r.exit, r.name, r.meaning)
	}
	b.WriteString(`
Every error is a line "tidemark: WHAT" on stderr and, where there is a way out,
a line "hint: COMMAND". Treat a code that is not listed as a failure.`)
	return b.String()
}
