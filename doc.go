// Package tidemark holds the words of the house: sessions, entries, blocks,
// ids, the sentinel errors, and [Backend], the one contract that every place
// to keep sessions fulfils.
//
// Everything that is kept is a [Record] (a small value with a key and a
// version, replaced whole, compare-and-swap) or a log of [Line] values (append
// only, numbered from 1 without gaps). A Backend keeps both and has no rules
// of its own; the rules live in package store, written once over any Backend.
//
// The package needs the standard library alone, opens nothing and writes
// nothing. A program that wants to keep sessions starts one floor up:
//
//	b, err := sqlite.Open(ctx, path, &sqlite.Options{Create: true})
//	s := store.New(b, nil)
package tidemark
