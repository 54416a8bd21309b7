package open_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/store"
)

func ExampleStore() {
	dir, err := os.MkdirTemp("", "tidemark-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()

	// With os.Environ() this is the store that the tidemark program uses.
	s, err := open.Store(ctx, "", &open.Options{
		Access:  open.Create,
		Environ: []string{"HOME=" + dir, "USERPROFILE=" + dir, "AppData=" + dir},
		KeyMade: func(string) { fmt.Println("encrypted, with a new key") },
	})
	if err != nil {
		log.Fatal(err, open.Hint(err))
	}
	defer s.Close()

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
	// encrypted, with a new key
	// demo 1 <nil>
}
