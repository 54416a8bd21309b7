// Command embed imports a session of Claude Code into your own store, the one
// that the tidemark program uses, and searches everything that is there:
//
//	go run ./examples/embed ~/.claude/projects/-home-ada-tides/7f3a….jsonl flood gate
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"strings"

	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/search"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/transfer"
)

func main() {
	if len(os.Args) < 3 {
		log.Fatal("usage: embed FILE WORD…")
	}
	if err := run(context.Background(), os.Environ(), os.Args[1], strings.Join(os.Args[2:], " "), os.Stdout); err != nil {
		log.Fatalf("%v\n%s", err, open.Hint(err))
	}
}

func run(ctx context.Context, environ []string, file, words string, out io.Writer) error {
	s, err := open.Store(ctx, "", &open.Options{Access: open.Create, Environ: environ})
	if err != nil {
		return err
	}
	defer s.Close()
	results, err := transfer.Import(ctx, s, file, nil)
	if err != nil {
		return err
	}
	for _, r := range results {
		fmt.Fprintf(out, "%s: %s, %d new entries\n", r.State, r.Title, r.Entries)
	}
	query, err := search.Parse(words)
	if err != nil {
		return err
	}
	answer, err := s.Search(ctx, store.Question{}.About(query))
	for _, hit := range answer.Found {
		fmt.Fprintln(out, hit.Ref(), hit.Info.Title)
	}
	return err
}
