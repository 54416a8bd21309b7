package sqlite_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/sqlite"
	"github.com/tidemark-sessions/tidemark/store"
)

func Example() {
	dir, err := os.MkdirTemp("", "tidemark-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()

	b, err := sqlite.Open(ctx, filepath.Join(dir, "sessions.db"), &sqlite.Options{Create: true})
	if err != nil {
		log.Fatal(err)
	}
	s := store.New(b, nil)
	defer s.Close() // and with it b

	w := s.Create(tidemark.Session{Title: "demo"}, store.Self("example"))
	if _, err := w.Append(ctx, tidemark.Say(tidemark.User, "hello")); err != nil {
		log.Fatal(err)
	}
	if err := w.Close(ctx); err != nil {
		log.Fatal(err)
	}
	for i, err := range s.Sessions(ctx, store.Filter{}) {
		fmt.Println(i.Title, i.Entries, err)
	}
	// Output:
	// demo 1 <nil>
}
