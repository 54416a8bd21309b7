package pages

import (
	"archive/zip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/render"
	routes "github.com/tidemark-sessions/tidemark/server/api"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/server/stores"
)

// Several sessions of a list at once: which ones a list has, what changes them, and
// several in one file.

const (
	// severalMost bounds how many sessions one request changes. The page asks for fewer,
	// and tells after each request how far it is.
	severalMost = 1000
	// severalAtOnce is how many of them are changed at the same time, so that they share
	// the commits of the store.
	severalAtOnce = 8
)

// changeSeveral does with several sessions what a form of their pages does with one, and
// answers with the names of those it was done with. Each is done as if it were alone: it
// is audited, and may fail for itself. Who was cut off asks again: what is done can be
// done twice.
func (s *Site) changeSeveral(w http.ResponseWriter, r *http.Request) {
	if !request.CallerOf(r.Context()).Role.May(request.Writer) {
		s.Trouble(w, r, tidemark.ErrDenied)
		return
	}
	r = whole(r)
	if err := r.ParseForm(); err != nil {
		s.Trouble(w, r, tidemark.Invalidf("form: %w", err))
		return
	}
	what, names := r.PostForm.Get("what"), strings.Fields(r.PostForm.Get("ids"))
	do := map[string]func(context.Context, *form) error{"tags": s.tagsAct, "trash": s.trashAct, "restore": s.restoreAct}[what]
	if do == nil || len(names) == 0 || len(names) > severalMost {
		s.Trouble(w, r, tidemark.Invalidf("choose what to do, tags, trash or restore, with 1 to %d sessions", severalMost))
		return
	}
	done := make([]bool, len(names))
	var next atomic.Int64
	var all sync.WaitGroup
	for range severalAtOnce {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(names)); i = next.Add(1) - 1 {
				f := &form{id: routes.SessionInput{ID: names[i]}, value: func(name string) string { return strings.TrimSpace(r.PostForm.Get(name)) }}
				done[i] = s.changeOne(r.Context(), what, f, do)
			}
		})
	}
	all.Wait()
	names = slices.Collect(func(yield func(string) bool) {
		for i, name := range names {
			if done[i] && !yield(name) {
				return
			}
		}
	})
	body, err := json.Marshal(append([]string{}, names...))
	if err != nil {
		s.Trouble(w, r, err)
		return
	}
	answerBody(w, r, http.StatusOK, "application/json", body)
}

// changeOne is the part of changeSeveral that is one session's, with its line in the audit
// log, and reports whether it was done.
func (s *Site) changeOne(ctx context.Context, what string, f *form, do func(context.Context, *form) error) bool {
	action, path := "POST /sessions/{id}/"+what, "/sessions/"+f.id.ID+"/"+what
	ctx = stores.Doing(ctx, action, path)
	if do(ctx, f) == nil {
		return true
	}
	s.stores.AuditLater(ctx, action, path, tenant.AuditFailed)
	return false
}

// listNames answers with the names of all sessions of a list that its reader may change:
// its page has only the first ones.
func (s *Site) listNames(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	if !request.CallerOf(ctx).Role.May(request.Writer) {
		s.Trouble(w, r, tidemark.ErrDenied)
		return
	}
	names := []string{}
	l, err := s.listed(r)
	if err == nil && l.view.Task != nil {
		err = request.Unavailable("the sessions are still counted; ask again when the list is there")
	}
	if err == nil {
		for i, wrong := range l.st.Sessions(ctx, l.f) {
			if errors.Is(wrong, tidemark.ErrCorrupt) {
				continue // its row cannot be chosen either
			}
			if err = wrong; err != nil {
				break
			}
			if i.Owner == "" && l.keeps(i) {
				names = append(names, i.Name())
			}
		}
	}
	var body []byte
	if err == nil {
		body, err = json.Marshal(names)
	}
	if err != nil {
		s.Trouble(w, r, err)
		return
	}
	answerBody(w, r, http.StatusOK, "application/json", body)
}

// sessionsZip answers with several sessions as Markdown, a file each. A browser asks
// before it saves a second file of one click, so they come in one. What could not be
// written is said in a file of its own.
func (s *Site) sessionsZip(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	if err := r.ParseForm(); err != nil {
		s.Trouble(w, r, tidemark.Invalidf("form: %w", err))
		return
	}
	names := strings.Fields(r.PostForm.Get("ids")) // a form has at most 10,000 fields
	if len(names) == 0 {
		s.Trouble(w, r, tidemark.Invalidf("choose the sessions to export"))
		return
	}
	now := s.o.Now().UTC()
	w.Header().Set("Content-Type", "application/zip")
	w.Header().Set("Content-Disposition", `attachment; filename="sessions-`+now.Format("2006-01-02-150405")+`.zip"`)
	out := zip.NewWriter(w)
	taken := make(map[string]bool)
	var left strings.Builder
	for _, name := range names {
		if ctx.Err() != nil {
			break
		}
		if err := s.zipSession(ctx, out, name, taken, now); err != nil {
			fmt.Fprintf(&left, "%s: %s\n", render.CleanLine(name), render.CleanLine(err.Error()))
		}
	}
	err := ctx.Err()
	if err == nil && left.Len() > 0 {
		err = zipFile(out, "not-exported.txt", now, func(w io.Writer) error {
			_, err := io.WriteString(w, left.String())
			return err
		})
	}
	if err == nil {
		err = out.Close()
	}
	routes.Cut(ctx, err)
}

// zipSession adds a session under a name that nothing else in the file has.
func (s *Site) zipSession(ctx context.Context, out *zip.Writer, name string, taken map[string]bool, now time.Time) error {
	_, v, err := s.api.View(ctx, name)
	if err != nil {
		return err
	}
	_, write, err := s.api.Exported(ctx, name, "md", "")
	if err != nil {
		return err
	}
	file := strings.TrimPrefix(fileWords(v.Title)+"-"+string(v.ID)[:min(8, len(v.ID))], "-")
	if taken[file] {
		file = strings.ReplaceAll(v.Name(), ":", "-")
	}
	taken[file] = true
	at := v.UpdatedAt
	if at.IsZero() {
		at = now
	}
	return zipFile(out, file+".md", at, write)
}

func zipFile(out *zip.Writer, name string, at time.Time, write func(io.Writer) error) error {
	w, err := out.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate, Modified: at})
	if err != nil {
		return err
	}
	return write(w)
}

// maxFileWords is how many letters of a title the name of a file has; a letter may take
// four bytes, and some systems allow 255.
const maxFileWords = 40

// fileWords are the words of a title as the name of a file has them on every system.
func fileWords(title string) string {
	words := strings.Join(strings.FieldsFunc(title, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) }), "-")
	if r := []rune(words); len(r) > maxFileWords {
		words = strings.TrimRight(string(r[:maxFileWords]), "-")
	}
	return words
}
