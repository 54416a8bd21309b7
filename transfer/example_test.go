package transfer_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/transfer"
)

func ExampleImport() {
	dir, err := os.MkdirTemp("", "tidemark-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "greeting.ndjson")
	if err := os.WriteFile(file, []byte(`{"role":"user","content":"hello"}`+"\n"), 0o600); err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	s := store.New(memory.New(), nil)
	defer s.Close()

	results, err := transfer.Import(ctx, s, file, nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range results {
		fmt.Println(r.State, r.Title, r.Entries)
	}

	at, err := s.Resolve(ctx, "last", "")
	if err != nil {
		log.Fatal(err)
	}
	x, err := transfer.NewExport(ctx, s, at, transfer.ExportOptions{Format: "ndjson"})
	if err != nil {
		log.Fatal(err)
	}
	var out bytes.Buffer
	if err := x.Write(ctx, &out); err != nil {
		log.Fatal(err)
	}
	fmt.Println(bytes.Contains(out.Bytes(), []byte("hello")))
	// Output:
	// new greeting 1
	// true
}
