package api

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/store"
)

const entriesPath = request.SessionsPath + "/{id}/entries"

// pageBytes bounds the text of a page: entries may be large, and a page is
// held in memory.
const pageBytes = 16 << 20

func (s *Server) entryRoutes() {
	huma.Register(s.huma, status(s.takes(op("POST", entriesPath, "append-entries", "Append to a session", "entries", request.Writer)), http.StatusCreated), s.appendEntries)
	huma.Register(s.huma, op("GET", entriesPath, "list-entries", "Read a session: a branch, or the whole log", "entries", request.Reader), s.listEntries)
	follow := op("GET", entriesPath+"/stream", "follow-entries", "Follow a session as it grows", "entries", request.Reader)
	follow.Description = "Server-sent events: the id of each is the seq of an entry and a stamp, its data the entry. Last-Event-ID, or ?after=, goes on behind an entry. reset says that the log went back and comes again from its beginning. " +
		"An event named gone says that the session was removed, bye that the server goes down."
	follow.Responses = streamed("text/event-stream", "entries as they are written")
	huma.Register(s.huma, follow, s.followEntries)
	s.treeRoutes()
	s.stateRoutes()
	s.fileRoutes()
}

// streamed describes an answer that is not JSON.
func streamed(mediaType, what string) map[string]*huma.Response {
	return map[string]*huma.Response{"200": {Description: what, Content: map[string]*huma.MediaType{mediaType: {Schema: &huma.Schema{Type: "string"}}}}}
}

type appendInput struct {
	SessionInput
	IdempotencyInput
	Body api.Appending
}

func (s *Server) appendEntries(ctx context.Context, in *appendInput) (*struct{ Body api.Appended }, error) {
	st, id, err := s.leased(ctx, in.ID, in.Body.Lease)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	entries, err := newEntries(in.Body.Entries)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	if in.Key != "" {
		// The lease may differ when a client retries.
		asked := in.Body
		asked.Lease = ""
		if _, err := idempotent(ctx, st, "append-entries/"+string(id), in.Key, asked); err != nil {
			return nil, request.Fail(ctx, err)
		}
		keyed(entries, in.Key)
	}
	var seqs []int64
	err = s.add(ctx, st, id, in.Body.Lease, func(w *store.Writer) (err error) {
		if in.Body.Worker != "" {
			seqs, err = w.AppendTo(ctx, in.Body.Worker, entries...)
		} else {
			seqs, err = w.Append(ctx, entries...)
		}
		return err
	})
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	return &struct{ Body api.Appended }{api.Appended{Seqs: seqs}}, nil
}

// newEntries returns the entries that a client wants to append.
func newEntries(sent []api.NewEntry) ([]tidemark.Entry, error) {
	entries := make([]tidemark.Entry, len(sent))
	for i, e := range sent {
		if e.Kind == tidemark.KindGap {
			return nil, tidemark.Invalidf("entry %d of %d: a %s is not written by hand", i+1, len(sent), e.Kind)
		}
		entries[i] = e.Entry()
	}
	return entries, nil
}

type listEntriesInput struct {
	SessionInput
	NoneMatch
	From   int64  `query:"from" minimum:"0" doc:"the first seq"`
	To     int64  `query:"to" minimum:"0" doc:"the last seq"`
	Tail   int    `query:"tail" minimum:"0" doc:"the newest so many on the branch, instead of a range"`
	Before int64  `query:"before" minimum:"0" doc:"those that lead up to this seq, as many as limit says"`
	At     string `query:"at" maxLength:"1000" doc:"the branch that ends at this node (n3), entry (12) or label; at the head when absent"`
	All    bool   `query:"all" doc:"the whole log with all branches, in the order in which it was written"`
	Worker string `query:"worker" maxLength:"64" doc:"the log of this worker"`
	Draft  bool   `query:"draft" doc:"also what another tool may still change, at the end, marked as draft"`
	Limit  int    `query:"limit" minimum:"1" default:"100" doc:"how many, at most"`
	Cursor string `query:"cursor" maxLength:"2048" doc:"next of the page before"`
}

// check refuses contradictory parameters.
func (in *listEntriesInput) check() error {
	ways := 0
	for _, set := range []bool{in.Tail > 0, in.Before > 0, in.All || in.From > 0 || in.To > 0, in.Cursor != ""} {
		if set {
			ways++
		}
	}
	if ways > 1 || in.All && in.At != "" || in.Cursor != "" && (in.At != "" || in.Worker != "" || in.Draft) || in.Before > 0 && in.At != "" {
		return tidemark.Invalidf("want one of tail, before, cursor, or a range: from, to, at, all")
	}
	return nil
}

// entriesCursor is where the reading of a session continues. It names the end
// of the path, so that a branch made meanwhile does not mix two paths.
type entriesCursor struct {
	Session tidemark.SessionID `json:"session"`
	Worker  string             `json:"worker,omitempty"`
	At      int64              `json:"at,omitempty"`
	From    int64              `json:"from"`
	To      int64              `json:"to,omitempty"`
	All     bool               `json:"all,omitempty"`
	Draft   bool               `json:"draft,omitempty"`
}

type entriesOutput struct {
	Status int
	ETag   string `header:"ETag"`
	Body   *api.EntryList
}

func (s *Server) listEntries(ctx context.Context, in *listEntriesInput) (*entriesOutput, error) {
	if err := in.check(); err != nil {
		return nil, request.Fail(ctx, err)
	}
	_, v, err := s.View(ctx, in.ID)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	c := entriesCursor{Session: v.ID, Worker: in.Worker, From: max(in.From, 1), To: in.To, All: in.All, Draft: in.Draft}
	if in.Cursor != "" {
		if err := s.ParseCursor(request.CallerOf(ctx), in.Cursor, &c); err != nil {
			return nil, request.Fail(ctx, err)
		}
		if c.Session != v.ID {
			return nil, request.Fail(ctx, tidemark.Invalidf("cursor: of another session; begin again without it"))
		}
	}
	if c.Worker != "" {
		if v, err = v.Worker(ctx, c.Worker); err != nil {
			return nil, request.Fail(ctx, err)
		}
	}
	tag, final := tagOf(v.Info), v.Entries
	if c.Draft {
		if v, err = v.WithDraft(ctx); err != nil {
			return nil, request.Fail(ctx, err)
		}
		if c.Worker != "" {
			tag = "" // its draft changes beside the session
		}
	}
	if tag != "" && unchanged(in.IfNoneMatch, tag) {
		return &entriesOutput{Status: http.StatusNotModified, ETag: tag}, nil
	}
	// The end of a path is looked up when a later page has to name it.
	if in.Cursor == "" && !c.All && v.Entries > 0 && (in.At != "" || in.Tail == 0) {
		if c.At, err = s.end(ctx, v, in.At); err != nil {
			return nil, request.Fail(ctx, err)
		}
	}
	page, err := s.entryPage(ctx, v, in, c)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	page.Head = final
	return &entriesOutput{Status: http.StatusOK, ETag: tag, Body: page}, nil
}

// entryPage reads a page. A page that reads forward has a cursor; one that
// counts from the end has none.
func (s *Server) entryPage(ctx context.Context, v *store.View, in *listEntriesInput, c entriesCursor) (*api.EntryList, error) {
	page := &api.EntryList{Items: []api.LogEntry{}}
	var err error
	switch {
	case in.Tail > 0:
		page.Items, err = lastEntries(ctx, v, c.At, 0, s.limit(in.Tail))
		return page, err
	case in.Before > 0:
		page.Items, err = lastEntries(ctx, v, c.At, in.Before, s.limit(in.Limit))
		return page, err
	}
	limit, entries := s.limit(in.Limit), v.PathRange(ctx, c.At, c.From, c.To)
	if c.All {
		entries = v.LogRange(ctx, c.From, c.To)
	}
	size := 0
	for e, err := range entries {
		if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
			return nil, err
		}
		if len(page.Items) == limit || size > pageBytes {
			c.From = e.Seq
			page.Next = s.Cursor(request.CallerOf(ctx), c)
			return page, nil
		}
		page.Items = append(page.Items, logEntry(e, err))
		size += SizeOf(e.Blocks) + len(e.Extra)
	}
	return page, nil
}

// lastAtOnce is how many entries from the end are read at a time, before
// their size is known.
const lastAtOnce = 64

// lastEntries returns entries before a seq, or from the end of the path for 0:
// as many as wanted, or fewer when they are larger than a page.
func lastEntries(ctx context.Context, v *store.View, at, before int64, want int) ([]api.LogEntry, error) {
	all, size := []api.LogEntry{}, 0 // newest first
	for len(all) < want && size <= pageBytes {
		n := min(want-len(all), lastAtOnce)
		entries := v.Tail(ctx, at, n)
		if before > 0 {
			entries = v.Before(ctx, before, n)
		}
		var part []api.LogEntry
		for e, err := range entries {
			if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
				return nil, err
			}
			part = append(part, logEntry(e, err))
			size += SizeOf(e.Blocks) + len(e.Extra)
		}
		// A damaged entry does not name its parent: the entry after it does.
		whole := slices.IndexFunc(part, func(e api.LogEntry) bool { return e.Damage == "" })
		if whole > 0 {
			part = part[whole:]
		}
		slices.Reverse(part)
		all = append(all, part...)
		if whole < 0 {
			break
		}
		before = part[len(part)-1].Seq
	}
	slices.Reverse(all)
	return all, nil
}

// logEntry is an entry in its wire form, or what is known of a damaged one.
func logEntry(e tidemark.Entry, damage error) api.LogEntry {
	out := api.LogEntry{Entry: e}
	if damage != nil {
		out.Damage = damage.Error()
	}
	return out
}

// SizeOf is roughly the size of blocks on the wire.
func SizeOf(blocks []tidemark.Block) int {
	n := 0
	for _, b := range blocks {
		n += len(b.Text) + len(b.Input) + len(b.Raw) + len(b.Data)*4/3 + SizeOf(b.Blocks)
	}
	return n
}
