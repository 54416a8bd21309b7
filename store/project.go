package store

import (
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
)

// project is what is known about a project under one of its marks. A mark
// identifies a project even after its folder is moved, such as the first commit
// of its history.
type project struct {
	Mark  string   `json:"mark"`
	Paths []string `json:"paths,omitempty"` // where the mark was seen, most recent first
	Marks []string `json:"marks,omitempty"` // with a pathMark: the marks of the project at that path
}

// pathMark is the mark under which the marks of a path are kept. They are kept
// because finding them may take too long for a listing.
func pathMark(path string) string { return "path:" + path }

// maxPaths bounds how many paths of a project are kept.
const maxPaths = 100

func (s *Store) projectKey(mark string) tidemark.Key {
	return tidemark.Key{Kind: kindProject, ID: s.k.Hash("mark", mark)}
}

// RecordProjectPath records that a project with this mark was seen at a path.
func (s *Store) RecordProjectPath(ctx context.Context, mark, path string) error {
	if mark == "" || path == "" {
		return nil
	}
	return records.Retry(ctx, func() error {
		p := project{Mark: mark}
		old, err := s.k.Get(ctx, s.projectKey(mark), &p)
		if err != nil || slices.Contains(p.Paths, path) {
			return err
		}
		p.Paths = append([]string{path}, p.Paths[:min(len(p.Paths), maxPaths-1)]...)
		r, err := records.Put(old.Key, old.Version, p)
		if err != nil {
			return err
		}
		_, err = s.k.Commit(ctx, tidemark.Batch{Puts: []tidemark.Record{r}})
		return err
	})
}

// ProjectPaths returns the paths at which a project with this mark was seen.
func (s *Store) ProjectPaths(ctx context.Context, mark string) ([]string, error) {
	var p project
	_, err := s.k.Get(ctx, s.projectKey(mark), &p)
	return p.Paths, err
}

// recordProject records the path of a new session's project. The session itself
// is already kept, so errors are ignored here: they will show at the next write.
func (s *Store) recordProject(ctx context.Context, path string) {
	if path == "" || s.o.Marks == nil || s.o.There == nil {
		return
	}
	key := s.projectKey(pathMark(path))
	p := project{Mark: pathMark(path)}
	old, err := s.k.Get(ctx, key, &p)
	if err != nil || old.Version > 0 {
		return // it is recorded already
	}
	if p.Marks, err = s.o.Marks(ctx, path); err != nil {
		return // the next session there finds out
	}
	for _, mark := range p.Marks {
		if s.RecordProjectPath(ctx, mark, path) != nil {
			return
		}
	}
	if r, err := records.Put(key, 0, p); err == nil {
		s.k.Commit(ctx, tidemark.Batch{Puts: []tidemark.Record{r}}) // on a conflict, somebody else recorded the same
	}
}

// marksOfProject returns the marks of the project at a path: those recorded when
// the first session was made there, or else the present ones.
func (s *Store) marksOfProject(ctx context.Context, path string) ([]string, error) {
	if path == "" || s.o.Marks == nil || s.o.There == nil {
		return nil, nil
	}
	var p project
	r, err := s.k.Get(ctx, s.projectKey(pathMark(path)), &p)
	if err != nil || r.Version > 0 {
		return p.Marks, err
	}
	marks, _ := s.o.Marks(ctx, path) // without time for all of them, those found have to do
	return marks, ctx.Err()
}

// SameProject reports whether two paths are those of one project, which is known by
// its marks: also when the folder at a path is gone, or is on another machine.
func (s *Store) SameProject(ctx context.Context, path, other string) (bool, error) {
	if path == other {
		return true, nil
	}
	marks, err := s.marksOfProject(ctx, path)
	if err != nil {
		return false, err
	}
	others, err := s.marksOfProject(ctx, other)
	return slices.ContainsFunc(marks, func(mark string) bool { return slices.Contains(others, mark) }), err
}

// placesOf returns the path of a project and those it was moved from: paths at
// which its marks were seen and which no longer exist. A path that still exists
// is another copy of the project, so it is left out.
func (s *Store) placesOf(ctx context.Context, path string) ([]string, error) {
	places := []string{path}
	marks, err := s.marksOfProject(ctx, path)
	if err != nil {
		return nil, err
	}
	for _, mark := range marks {
		paths, err := s.ProjectPaths(ctx, mark)
		if err != nil {
			return nil, err
		}
		for _, p := range paths {
			if !slices.Contains(places, p) && !s.o.There(p) {
				places = append(places, p)
			}
		}
	}
	return places, nil
}

// inGroups lists the records of several groups that match q, merged in the order
// of q.
func (s *Store) inGroups(ctx context.Context, q tidemark.Query, groups []string) iter.Seq2[tidemark.Record, error] {
	if len(groups) == 1 {
		q.Group = groups[0]
		return s.backend.List(ctx, q)
	}
	type source struct {
		next func() (tidemark.Record, error, bool)
		r    tidemark.Record
		err  error
		more bool
	}
	return func(yield func(tidemark.Record, error) bool) {
		var all []*source
		for _, q.Group = range groups {
			next, stop := iter.Pull2(s.backend.List(ctx, q))
			defer stop()
			from := &source{next: next}
			from.r, from.err, from.more = next()
			all = append(all, from)
		}
		for {
			var first *source
			for _, from := range all {
				if from.more && (first == nil || from.err != nil || first.err == nil && q.Compare(from.r, first.r) < 0) {
					first = from
				}
			}
			if first == nil {
				return
			}
			if !yield(first.r, first.err) || first.err != nil && !errors.Is(first.err, tidemark.ErrCorrupt) {
				return
			}
			first.r, first.err, first.more = first.next()
		}
	}
}
