package store

import (
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
)

// project is what is known of a project by one of its marks: something that
// stays when its folder is moved, such as the first commit of its history.
type project struct {
	Mark  string   `json:"mark"`
	Paths []string `json:"paths,omitempty"` // where it was seen, the last one first
	Marks []string `json:"marks,omitempty"` // of a path: what is known of what lies there
}

// pathMark is the mark under which the marks of a path are kept: finding them
// out may take long, and a listing cannot wait.
func pathMark(path string) string { return "path:" + path }

// maxPaths bounds how many places of a project are remembered.
const maxPaths = 100

func (s *Store) projectKey(mark string) tidemark.Key {
	return tidemark.Key{Kind: kindProject, ID: s.k.Hash("mark", mark)}
}

// RecordProjectPath remembers that a project with this mark was seen at a path.
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

// ProjectPaths returns where a project with this mark was seen.
func (s *Store) ProjectPaths(ctx context.Context, mark string) ([]string, error) {
	var p project
	_, err := s.k.Get(ctx, s.projectKey(mark), &p)
	return p.Paths, err
}

// knowPlace remembers where the project of a new session lies. The session is
// kept already: what goes wrong here shows when it is next written to.
func (s *Store) knowPlace(ctx context.Context, path string) {
	if path == "" || s.o.Marks == nil || s.o.There == nil {
		return
	}
	key := s.projectKey(pathMark(path))
	p := project{Mark: pathMark(path)}
	old, err := s.k.Get(ctx, key, &p)
	if err != nil || old.Version > 0 {
		return // it is known
	}
	p.Marks = s.o.Marks(ctx, path)
	for _, mark := range p.Marks {
		if s.RecordProjectPath(ctx, mark, path) != nil {
			return
		}
	}
	if r, err := records.Put(key, 0, p); err == nil {
		s.k.Commit(ctx, tidemark.Batch{Puts: []tidemark.Record{r}}) // another one that was quicker says the same
	}
}

// marksOfProject are what the project at a path is known by: as it was when the
// first session was made there, or else as it is.
func (s *Store) marksOfProject(ctx context.Context, path string) ([]string, error) {
	if path == "" || s.o.Marks == nil || s.o.There == nil {
		return nil, nil
	}
	var p project
	r, err := s.k.Get(ctx, s.projectKey(pathMark(path)), &p)
	if err != nil || r.Version > 0 {
		return p.Marks, err
	}
	return s.o.Marks(ctx, path), nil
}

// placesOf returns where a project is and where it was before it was moved:
// paths that its marks were seen at, and where nothing is now. Another copy of
// it that is still there is a place of its own.
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

// inGroups lists what q asks for in several groups, in the order of q.
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
