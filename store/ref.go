package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/expression"
	"github.com/tidemark-sessions/tidemark/internal/records"
)

// minPrefix is the shortest prefix of an id that is taken as a reference: a shorter
// text is more likely a title or a typing error.
const minPrefix = 4

// maxCandidates bounds the list in an AmbiguousError.
const maxCandidates = 10

// Point is what a reference means: a session and an entry in it.
type Point struct {
	*View
	Seq int64 // 0: the head
}

// AmbiguousError says that a reference means several sessions. It is
// ErrInvalid under errors.Is.
type AmbiguousError struct {
	Ref        string
	Candidates []Info
	More       bool // there are more than those in Candidates
}

func (e *AmbiguousError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%q means several sessions:", e.Ref)
	for _, i := range e.Candidates {
		fmt.Fprintf(&b, "\n  %s  %s", i.Name(), i.Title)
	}
	if e.More {
		b.WriteString("\n  …")
	}
	return b.String()
}

// Is makes an AmbiguousError answer to ErrInvalid.
func (e *AmbiguousError) Is(target error) bool { return target == tidemark.ErrInvalid }

var (
	refNewest = expression.WhenNeeded(`^@-([1-9][0-9]{0,5})$`)
	refUp     = expression.WhenNeeded(`^(.*)~([0-9]{1,9})$`)
	refNode   = expression.WhenNeeded(`^n([0-9]{1,18})$`)
	refSeq    = expression.WhenNeeded(`^[0-9]{1,18}$`)
	refPrefix = expression.WhenNeeded(`^[0-9a-fA-F-]+$`)
)

// Resolve returns what a reference means. A reference is an id or a unique prefix
// of one, a title, a foreign id or the beginning of one, or "last" or "@-2" for
// the newest or second newest session of project (of all, where project is "" or
// has none). It may end with "@n3", "@12" or "@label", and then with "~2", and
// begin with "OWNER:" for a session of that owner alone. Live sessions are
// preferred to those in the trash.
//
// ErrNotFound; ErrInvalid (an *AmbiguousError when it means several).
func (s *Store) Resolve(ctx context.Context, ref, project string) (Point, error) {
	if ref == "" {
		return Point{}, tidemark.Invalidf("an empty reference")
	}
	if owner, rest := tidemark.CutOwner(ref); owner != "" {
		of, err := s.Of(owner)
		if err == nil {
			return of.Resolve(ctx, rest, project)
		}
		if !errors.Is(err, tidemark.ErrUnsupported) {
			return Point{}, err
		}
	}
	i, err := s.find(ctx, ref, project)
	if err == nil {
		v, err := s.ViewOf(i)
		return Point{View: v}, err
	}
	if !errors.Is(err, tidemark.ErrNotFound) {
		return Point{}, err
	}
	base, point, up := splitRef(ref)
	if base == ref {
		return Point{}, err
	}
	if i, err = s.find(ctx, base, project); err != nil {
		return Point{}, err
	}
	v, err := s.ViewOf(i)
	if err != nil {
		return Point{}, err
	}
	seq, err := v.seqOf(ctx, point)
	if err == nil && up > 0 {
		seq, err = v.upFrom(ctx, seq, up)
	}
	return Point{View: v, Seq: seq}, err
}

// splitRef splits SESSION@POINT~N.
func splitRef(ref string) (session, point string, up int) {
	session = ref
	if m := refUp().FindStringSubmatch(session); m != nil {
		session = m[1]
		up, _ = strconv.Atoi(m[2])
	}
	if at := strings.LastIndexByte(session, '@'); at > 0 {
		session, point = session[:at], session[at+1:]
	}
	return session, point, up
}

// find returns the session that a reference without a point means.
func (s *Store) find(ctx context.Context, ref, project string) (Info, error) {
	missing := tidemark.NotFoundf("no session is called %q", ref)
	if len(ref) > records.MaxTextBytes {
		return Info{}, tidemark.NotFoundf("no session is called %.40q…", ref)
	}
	if id, err := tidemark.ParseSessionID(ref); err == nil {
		// Not found is no error yet: ids of other tools may have the same form, so
		// ref may be a foreign id.
		if i, err := s.Session(ctx, id); !errors.Is(err, tidemark.ErrNotFound) {
			return i, err
		}
	}
	if ref == "last" {
		return s.newest(ctx, project, 1)
	}
	if m := refNewest().FindStringSubmatch(ref); m != nil {
		n, _ := strconv.Atoi(m[1])
		return s.newest(ctx, project, n)
	}
	found := make(map[string]Info)
	if len(ref) >= minPrefix && refPrefix().MatchString(ref) {
		q := tidemark.Query{Kind: kindSession, Prefix: strings.ToLower(ref), Order: tidemark.ByID, Limit: maxCandidates + 1}
		for r, err := range s.backend.List(ctx, q) {
			i, err := infoIf(r, err)
			if err != nil {
				return Info{}, err
			}
			found[i.Name()] = i
		}
	}
	named := false
	for _, class := range []string{classTitle, classForeign} {
		for n, err := range s.names(ctx, tidemark.Query{Group: s.nameGroup(class, ref), Limit: maxCandidates + 1}) {
			if err != nil {
				return Info{}, err
			}
			if err := s.addNamed(ctx, n, found); err != nil {
				return Info{}, err
			}
			named = true
		}
	}
	// A complete name is preferred to one that only begins with ref.
	if !named {
		if err := s.foreignBegin(ctx, ref, found); err != nil {
			return Info{}, err
		}
	}
	if len(found) == 0 {
		return Info{}, missing
	}
	return pick(ref, found)
}

// infoIf decodes a record that a listing yielded without an error.
func infoIf(r tidemark.Record, err error) (Info, error) {
	if err != nil {
		return Info{}, err
	}
	return infoOf(r)
}

// pick returns the only live candidate, or, if none is live, the only one in the
// trash. Several are an *AmbiguousError.
func pick(ref string, found map[string]Info) (Info, error) {
	var live, trash []Info
	for _, i := range found {
		if i.State == Live {
			live = append(live, i)
		} else {
			trash = append(trash, i)
		}
	}
	all := live
	if len(live) == 0 {
		all = trash
	}
	if len(all) == 1 {
		return all[0], nil
	}
	q := tidemark.Query{}
	slices.SortFunc(all, func(a, b Info) int {
		return q.Compare(tidemark.Record{Key: keyOf("", a.ID), UpdatedAt: a.UpdatedAt}, tidemark.Record{Key: keyOf("", b.ID), UpdatedAt: b.UpdatedAt})
	})
	e := &AmbiguousError{Ref: ref, Candidates: all}
	if len(all) > maxCandidates {
		e.Candidates, e.More = all[:maxCandidates], true
	}
	return Info{}, e
}

// newest returns the nth most recently changed session, of the project, or of all
// if that has none.
func (s *Store) newest(ctx context.Context, project string, n int) (Info, error) {
	scopes := []string{project, ""}
	if project == "" {
		scopes = scopes[1:]
	}
	for _, scope := range scopes {
		have := 0
		for i, err := range s.Sessions(ctx, Filter{Project: scope, Limit: n}) {
			if err != nil { // a damaged session counts, too: skipping it would return the wrong one
				return Info{}, err
			}
			if have++; have == n {
				return i, nil
			}
		}
		if have > 0 {
			return Info{}, tidemark.NotFoundf("there are only %d sessions here", have)
		}
	}
	return Info{}, tidemark.ErrNoSessions
}

// seqOf returns the seq that the part after the @ of a reference means.
func (v *View) seqOf(ctx context.Context, point string) (int64, error) {
	switch {
	case point == "":
		return 0, nil
	case refNode().MatchString(point):
		n, _ := strconv.ParseInt(point[1:], 10, 64)
		return v.NodeEnd(ctx, n)
	case refSeq().MatchString(point):
		seq, _ := strconv.ParseInt(point, 10, 64)
		return seq, v.has(ctx, seq)
	}
	return v.seqOfLabel(ctx, point)
}

// upFrom is Up, with the head for a seq of 0.
func (v *View) upFrom(ctx context.Context, seq int64, n int) (int64, error) {
	if seq == 0 {
		var err error
		if seq, err = v.Head(ctx); err != nil {
			return 0, err
		}
	}
	return v.Up(ctx, seq, n)
}

// Foreign returns the sessions that have this foreign id, including those in the
// trash.
func (s *Store) Foreign(ctx context.Context, id string) ([]Info, error) {
	var found []Info
	for n, err := range s.names(ctx, tidemark.Query{Group: s.nameGroup(classForeign, id)}) {
		if err != nil {
			return nil, err
		}
		i, err := s.named(ctx, n)
		if errors.Is(err, tidemark.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		found = append(found, i)
	}
	return found, nil
}
