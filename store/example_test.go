package store_test

import (
	"context"
	"fmt"
	"log"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/store"
)

func Example() {
	ctx := context.Background()
	s := store.New(memory.New(), nil)
	defer s.Close()

	w := s.Create(tidemark.Session{Title: "demo"}, tidemark.Holder{Program: "example"})
	if _, err := w.Append(ctx, tidemark.Say(tidemark.User, "hello"), tidemark.Say(tidemark.Assistant, "hi")); err != nil {
		log.Fatal(err) // errors.Is(err, tidemark.ErrConflict): the lease is lost
	}
	v, err := s.View(ctx, w.ID())
	if err != nil {
		log.Fatal(err)
	}
	for e, err := range v.Tail(ctx, 0, 50) {
		fmt.Println(e.Seq, e.Role, e.Text(), err)
	}
	if err := w.Close(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// 1 user hello <nil>
	// 2 assistant hi <nil>
}
