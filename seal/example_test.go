package seal_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/seal"
	"github.com/tidemark-sessions/tidemark/store"
)

func Example() {
	ctx := context.Background()
	inner := memory.New()
	defer inner.Close()

	// Once: a store that one key file opens. Keep contents where nobody else reads.
	contents := seal.NewKeyFile()
	slot, err := seal.FileSlot("laptop", contents)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := seal.Create(ctx, inner, slot); err != nil {
		log.Fatal(err)
	}

	// Each time: any key of the store opens it, and it is a Backend like any other.
	key, err := seal.KeyFile(contents)
	if err != nil {
		log.Fatal(err)
	}
	b, err := seal.Open(ctx, inner, key)
	if err != nil {
		log.Fatal(err)
	}
	w := store.New(b, nil).Create(tidemark.Session{Title: "the harbour at night"}, store.Self("example"))
	_, err = w.Append(ctx, tidemark.Say(tidemark.User, "hello"))
	fmt.Println("written:", err)
	if err := w.Close(ctx); err != nil {
		log.Fatal(err)
	}

	// A key of another store opens nothing, and shows no empty store either.
	other, err := seal.KeyFile(seal.NewKeyFile())
	if err != nil {
		log.Fatal(err)
	}
	_, err = seal.Open(ctx, inner, other)
	fmt.Println("sealed:", errors.Is(err, tidemark.ErrSealed))
	// Output:
	// written: <nil>
	// sealed: true
}
