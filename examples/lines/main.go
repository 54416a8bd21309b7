// Command lines keeps what it reads, each line as a message, in a store of its
// own, and shows the newest ten:
//
//	go run ./examples/lines sessions.db < lines
//
// A line is acknowledged with its number when it is durable: not before, so
// what has a number is there however the program ends. Started again, it goes
// on with the same session.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/sqlite"
	"github.com/tidemark-sessions/tidemark/store"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: lines FILE")
	}
	if err := keep(context.Background(), os.Args[1], os.Stdin, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func keep(ctx context.Context, path string, in io.Reader, out io.Writer) error {
	backend, err := sqlite.Open(ctx, path, &sqlite.Options{Create: true})
	if err != nil {
		return err
	}
	s := store.New(backend, nil)
	defer s.Close()

	me := store.Self("lines")
	id := tidemark.SessionID(tidemark.IDOf("example", "embed")) // a name makes an id
	w, err := s.Attach(ctx, id, me)
	if errors.Is(err, tidemark.ErrNotFound) {
		w, err = s.Create(tidemark.Session{ID: id, Title: "embed"}, me), nil
	}
	if err != nil {
		return err // ErrHeld names who has it
	}
	defer w.Close(ctx)
	go w.KeepAlive(ctx, nil) // lines may be far apart

	lines := bufio.NewScanner(in)
	for lines.Scan() {
		seqs, err := w.Append(ctx, tidemark.Say(tidemark.User, lines.Text()))
		if err != nil {
			return err // ErrConflict: the lease is lost
		}
		fmt.Fprintln(out, "kept", seqs[0])
	}

	v, err := s.View(ctx, id)
	if err != nil {
		return errors.Join(lines.Err(), err)
	}
	for e, err := range v.Tail(ctx, 0, 10) {
		if err != nil {
			return err
		}
		fmt.Fprintln(out, e.Seq, e.Text())
	}
	return lines.Err()
}
