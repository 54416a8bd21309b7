// Package tidemark defines the shared vocabulary: sessions, entries, blocks,
// ids, the sentinel errors, and [Backend], the one contract that every storage
// implementation fulfils.
//
// Everything that is kept is a [Record] (a small value with a key and a version,
// replaced whole, compare-and-swap) or a log of [Line] values (append only,
// numbered from 1 without gaps). A Backend keeps both and has no domain rules of
// its own; those live in package store, written once for every Backend.
//
// The package needs only the standard library, opens nothing and writes nothing.
// A program that wants to keep sessions starts one floor up:
//
//	b, err := sqlite.Open(ctx, path, &sqlite.Options{Create: true})
//	s := store.New(b, nil)
package tidemark
