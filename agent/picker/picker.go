// Package picker lets a person choose a session of a store on a terminal.
//
// It renames, trashes and restores sessions as the person says, and opens
// nothing: the store and the terminal are passed in.
//
//	id, err := picker.Pick(ctx, s, project, &terminal.PickOptions{In: os.Stdin, Out: os.Stdout, Raw: raw, Size: size, Heading: "Show"})
package picker

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/terminal"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/search"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/store/hits"
)

// Pick returns the chosen session, "" when the person left without choosing. It
// begins with the sessions of the project, if there are any.
func Pick(ctx context.Context, s *store.Store, project string, o *terminal.PickOptions) (tidemark.SessionID, error) {
	o.Project, o.Text = project, terminal.Text{Clean: render.CleanLine, Width: render.Width}
	if here, err := s.HasSessions(ctx, project); err == nil && here {
		o.Scope.Project = project
	}
	item, ok, err := terminal.Pick(ctx, &source{s: s, pages: map[string]store.Info{}}, o)
	if !ok || err != nil {
		return "", err
	}
	return tidemark.SessionID(item.ID), nil
}

// source supplies what the picker shows.
type source struct {
	s *store.Store

	mu    sync.Mutex
	pages map[string]store.Info // by the id that ended a page
}

func (src *source) Sessions(ctx context.Context, scope terminal.Scope, cursor string, n int) (terminal.Page, error) {
	f := filterOf(scope)
	f.Limit = n
	src.mu.Lock()
	if last, ok := src.pages[cursor]; ok {
		f.After = &last
	}
	src.mu.Unlock()
	live, err := src.live(ctx)
	if err != nil {
		return terminal.Page{}, err
	}
	var page terminal.Page
	var last store.Info
	for i, err := range src.s.Sessions(ctx, f) {
		if errors.Is(err, tidemark.ErrCorrupt) {
			continue // verify reports it
		}
		if err != nil {
			return page, err
		}
		item := src.item(ctx, i)
		item.Live = live[i.ID]
		page.Items, last = append(page.Items, item), i
	}
	if len(page.Items) == n {
		page.Next = string(last.ID)
		src.mu.Lock()
		src.pages[page.Next] = last
		src.mu.Unlock()
	}
	return page, nil
}

func filterOf(scope terminal.Scope) store.Filter {
	f := store.Filter{Project: scope.Project, Agent: scope.Agent}
	if scope.Trash {
		f.State = store.Trash
	}
	return f
}

// live returns the sessions that somebody writes to.
func (src *source) live(ctx context.Context) (map[tidemark.SessionID]bool, error) {
	live := make(map[tidemark.SessionID]bool)
	for l, err := range src.s.Leases(ctx) {
		if err != nil {
			return nil, err
		}
		live[l.Session()] = !l.Dead && !l.Expired
	}
	return live, nil
}

func (src *source) item(ctx context.Context, i store.Info) terminal.Item {
	item := terminal.Item{ID: string(i.ID), Title: i.Title, Agent: i.Agent, Model: i.Model, Project: i.Project, State: i.State,
		Tags: i.Tags, Messages: i.Messages, UpdatedAt: i.UpdatedAt}
	if i.Base != nil {
		item.ForkOf.ID = string(i.Base.Session)
		if base, err := src.s.Session(ctx, i.Base.Session); err == nil {
			item.ForkOf.Title = base.Title
		}
	}
	return item
}

// maxHits bounds what a search in the picker returns.
const maxHits = 50

func (src *source) Search(ctx context.Context, scope terminal.Scope, text string) ([]terminal.Item, error) {
	query, err := search.ParseTyped(text)
	if err != nil {
		return nil, nil // not a query yet: it is still being typed
	}
	q := store.Question{Project: scope.Project, Agent: scope.Agent, Trash: scope.Trash, Limit: maxHits, PerSession: 1, Within: hits.TypedPatience}
	answer, err := src.s.Search(ctx, q.About(query))
	if err != nil {
		return nil, err
	}
	var items []terminal.Item
	for _, f := range answer.Found {
		item := src.item(ctx, f.Info)
		item.Snippet = hits.Of(query, f, hits.Width).Snippet
		items = append(items, item)
	}
	return items, nil
}

// previewEntries is how much of the end of a session a preview shows.
const previewEntries = 20

func (src *source) Preview(ctx context.Context, it terminal.Item) ([]terminal.PreviewLine, error) {
	v, err := src.s.View(ctx, tidemark.SessionID(it.ID))
	if err != nil {
		return nil, err
	}
	var lines []terminal.PreviewLine
	for e, err := range v.Tail(ctx, 0, previewEntries) {
		if errors.Is(err, tidemark.ErrCorrupt) {
			lines = append(lines, terminal.PreviewLine{Text: "[damaged]"})
			continue
		}
		if err != nil {
			return nil, err
		}
		if e.Empty() || e.Context() {
			continue
		}
		who := string(e.Role)
		if who == "" {
			who = e.Kind
		}
		lines = append(lines, terminal.PreviewLine{Text: who + "  " + render.Ago(e.At, time.Now()), Head: true})
		for _, l := range strings.Split(strings.TrimRight(previewText(e), "\n"), "\n") {
			lines = append(lines, terminal.PreviewLine{Text: l})
		}
	}
	return lines, nil
}

// previewText is the text of an entry, without what a tool wrapped around it.
func previewText(e tidemark.Entry) string {
	if e.Role == tidemark.User && e.Text() != "" {
		return e.Said()
	}
	return search.Text(e)
}

func (src *source) Rename(ctx context.Context, it terminal.Item, title string) error {
	return src.s.Rename(ctx, tidemark.SessionID(it.ID), title)
}

func (src *source) Trash(ctx context.Context, it terminal.Item) error {
	return src.s.Trash(ctx, tidemark.SessionID(it.ID))
}

func (src *source) Restore(ctx context.Context, it terminal.Item) error {
	return src.s.Restore(ctx, tidemark.SessionID(it.ID))
}
