package tidemark_test

import (
	"context"
	"errors"
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
	defer s.Close()

	w := s.Create(tidemark.Session{Title: "demo"}, store.Self("example"))
	seqs, err := w.Append(ctx, tidemark.Say(tidemark.User, "when is high water?"), tidemark.Say(tidemark.Assistant, "at six"))
	fmt.Println(seqs, err) // both are durable now

	// One program writes a session at a time; any number read.
	_, err = s.Attach(ctx, w.ID(), store.Self("another"))
	fmt.Println("held:", errors.Is(err, tidemark.ErrHeld))
	if err := w.Close(ctx); err != nil {
		log.Fatal(err)
	}

	_, err = s.View(ctx, tidemark.NewSessionID())
	fmt.Println("not found:", errors.Is(err, tidemark.ErrNotFound))
	// Output:
	// [1 2] <nil>
	// held: true
	// not found: true
}
