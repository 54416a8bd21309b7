package convert

import (
	"context"
	"io/fs"
	"iter"
)

// Survey imports the sessions of a tool that keeps each in a file. It reads
// every file that find names before it yields the first session, because their
// order and relations depend on all of them. What cannot be read is yielded as a
// *Skip; the rest goes through sessions, which orders it and makes each session
// when it is asked for, since a session may hold files.
func Survey[T any](ctx context.Context, p Source, find func(Source) (files []string, skips []error),
	look func(file string) (T, error), sessions func([]T) iter.Seq[*Session]) iter.Seq2[*Session, error] {
	return func(yield func(*Session, error) bool) {
		if _, err := fs.Stat(p.FS, p.Path); err != nil {
			yield(nil, err)
			return
		}
		files, skips := find(p)
		var found []T
		for _, file := range files {
			if ctx.Err() != nil {
				yield(nil, ctx.Err())
				return
			}
			one, err := look(file)
			if err != nil {
				skips = append(skips, &Skip{What: file, Why: err})
				continue
			}
			found = append(found, one)
		}
		for _, skip := range skips {
			if !yield(nil, skip) {
				return
			}
		}
		for s := range sessions(found) {
			if !yield(s, nil) {
				return
			}
		}
	}
}

// Each yields a session for each of those that were found, made when its turn
// comes.
func Each[T any](found []T, session func(T) *Session) iter.Seq[*Session] {
	return func(yield func(*Session) bool) {
		for _, one := range found {
			if !yield(session(one)) {
				return
			}
		}
	}
}
