package api

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/store"
)

// maxTotal is how far a list is counted: nobody pages further by number, and
// counting reads what it counts.
const maxTotal = 10_000

// maxDamage bounds the answer of verify.
const maxDamage = 1000

func (s *Server) sessionRoutes() {
	huma.Register(s.huma, op("GET", request.SessionsPath+"/state", "attached-sessions", "The sessions that somebody writes to now", "sessions", request.Reader), s.attachedSessions)
	huma.Register(s.huma, op("GET", request.SessionsPath, "list-sessions", "List sessions, the one that changed last first, without their extra", "sessions", request.Reader), s.listSessions)
	huma.Register(s.huma, status(s.takes(op("POST", request.SessionsPath, "create-session", "Make a session", "sessions", request.Writer)), http.StatusCreated), s.createSession)
	huma.Register(s.huma, op("GET", request.SessionsPath+"/{id}", "get-session", "One session", "sessions", request.Reader), s.getSession)
	huma.Register(s.huma, s.takes(op("PATCH", request.SessionsPath+"/{id}", "change-session", "Change what is said about a session", "sessions", request.Writer)), s.ChangeSession)
	huma.Register(s.huma, op("DELETE", request.SessionsPath+"/{id}", "delete-session", "Move a session to the trash, or destroy it", "sessions", request.Writer), s.DeleteSession)
	huma.Register(s.huma, op("POST", request.SessionsPath+"/{id}/restore", "restore-session", "Take a session out of the trash", "sessions", request.Writer), s.RestoreSession)
	huma.Register(s.huma, op("POST", request.SessionsPath+"/{id}/verify", "verify-session", "Look for damage in a session", "sessions", request.Reader), s.verifySession)
	huma.Register(s.huma, op("GET", request.SessionsPath+"/{id}/turns", "list-turns", "What was asked and answered", "sessions", request.Reader), s.listTurns)
	s.transferRoutes()
	s.findRoutes()
}

// ListSessionsInput says which sessions are listed.
type ListSessionsInput struct {
	Limit   int    `query:"limit" minimum:"1" default:"20" doc:"how many, at most"`
	Offset  int    `query:"offset" minimum:"0" maximum:"10000" doc:"how many to pass over; a cursor goes on further, and faster"`
	Cursor  string `query:"cursor" maxLength:"2048" doc:"next of the page before"`
	Search  string `query:"search" maxLength:"1000" doc:"a part of the title or of the foreign id, in any case"`
	Status  string `query:"status" enum:"active,archived" doc:"active unless it is told; archived is the trash"`
	Trash   bool   `query:"trash" doc:"as status=archived"`
	Project string `query:"project" maxLength:"4096"`
	Agent   string `query:"agent" maxLength:"256"`
	Gone    bool   `query:"gone" doc:"only those that the tool they came from does not have any more"`
	Tool    string `query:"tool" maxLength:"256" doc:"that the session came from; tidemark: none"`
	Label   string `query:"label" maxLength:"1000" doc:"a tag, or a label anywhere in the session"`
	Since   string `query:"since" maxLength:"40" doc:"changed since this date or RFC 3339 time"`
}

// Asked identifies the list that a cursor belongs to.
func (in ListSessionsInput) Asked() string {
	h := sha256.New()
	for _, part := range []string{in.Search, in.Status, in.Project, in.Agent, in.Tool, in.Label, in.Since, strconv.FormatBool(in.Gone)} {
		h.Write([]byte(part + "\x00"))
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// SessionsCursor is the last session of a page.
type SessionsCursor struct {
	Of    string             `json:"of"`
	ID    tidemark.SessionID `json:"id"`
	At    time.Time          `json:"at"`
	Owner string             `json:"owner,omitempty"`
}

// After is the session after which a list continues.
func (c SessionsCursor) After() *store.Info {
	return &store.Info{Session: tidemark.Session{ID: c.ID}, UpdatedAt: c.At, Owner: c.Owner}
}

// Filter is the input as a filter of the store.
func (in *ListSessionsInput) Filter() (store.Filter, error) {
	f := store.Filter{Project: in.Project, Agent: in.Agent, Tool: in.Tool, Tag: in.Label, Gone: in.Gone, Each: true}
	if in.Trash {
		in.Status = "archived"
	}
	if in.Status == "archived" {
		f.State = store.Trash
	}
	var err error
	f.Since, err = timeOf("since", in.Since)
	return f, err
}

func (s *Server) listSessions(ctx context.Context, in *ListSessionsInput) (*struct{ Body api.SessionList }, error) {
	f, err := in.Filter()
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	if in.Cursor != "" {
		var c SessionsCursor
		if err := s.ParseCursor(request.CallerOf(ctx), in.Cursor, &c); err != nil {
			return nil, request.Fail(ctx, err)
		}
		if c.Of != in.Asked() || in.Offset > 0 {
			return nil, request.Fail(ctx, tidemark.Invalidf("cursor: of another list; begin again without it"))
		}
		f.After = c.After()
	}
	st, err := s.stores.Mine(ctx)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	page, err := s.sessionPage(ctx, st, f, in)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	return &struct{ Body api.SessionList }{page}, nil
}

func (s *Server) sessionPage(ctx context.Context, st *store.Store, f store.Filter, in *ListSessionsInput) (api.SessionList, error) {
	page := api.SessionList{Items: []api.SessionInfo{}, Offset: int64(in.Offset), Limit: s.limit(in.Limit)}
	var total int64
	var listed []store.Info
	want := strings.ToLower(in.Search)
	for i, err := range st.Sessions(ctx, f) {
		if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
			return page, err
		}
		if want != "" && !strings.Contains(strings.ToLower(i.Title), want) && !strings.Contains(strings.ToLower(i.ForeignID), want) {
			continue
		}
		total++
		switch {
		case total <= int64(in.Offset):
		case len(page.Items) < page.Limit:
			i.Extra = nil // other tools may keep megabytes in it
			item := infoOf(i)
			if err != nil {
				item.Damage = err.Error()
			}
			page.Items, listed = append(page.Items, item), append(listed, i)
		default:
			page.HasMore = true
		}
		if page.HasMore && (in.Cursor != "" || total >= maxTotal) {
			break
		}
	}
	if err := st.SetMachines(ctx, listed); err != nil {
		return page, err
	}
	for n, i := range listed {
		page.Items[n].Machine = i.Machine
	}
	if in.Cursor == "" {
		page.Total = &total
	}
	if page.HasMore {
		last := page.Items[len(page.Items)-1]
		page.Next = s.Cursor(request.CallerOf(ctx), SessionsCursor{in.Asked(), last.ID, last.UpdatedAt, last.Owner})
	}
	return page, nil
}

type createSessionInput struct {
	IdempotencyInput
	Body api.NewSession
}

func (s *Server) createSession(ctx context.Context, in *createSessionInput) (*sessionOutput, error) {
	st, err := s.stores.Mine(ctx)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	b := in.Body
	if err := CheckSize("title", b.Title); err != nil {
		return nil, request.Fail(ctx, err)
	}
	sess := tidemark.Session{Title: b.Title, Agent: b.Agent, Model: b.Model, Project: b.Project, Mode: b.Mode, Tags: b.Tags}
	entries, err := newEntries(b.Entries)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	if in.Key != "" {
		if _, err := idempotent(ctx, st, "create-session", in.Key, b); err != nil {
			return nil, request.Fail(ctx, err)
		}
		// A repeated request makes the same session, and not a second one.
		c := request.CallerOf(ctx)
		sess.ID = tidemark.SessionID(tidemark.IDOf("session", c.Tenant, c.User, in.Key))
		keyed(entries, in.Key)
	}
	i, err := s.makeSession(ctx, st, sess, entries)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	return answerSession(ctx, st, i, http.StatusCreated)
}

// makeSession creates a session with its first entries; an existing one
// gets those that it lacks.
func (s *Server) makeSession(ctx context.Context, st *store.Store, sess tidemark.Session, entries []tidemark.Entry) (store.Info, error) {
	if len(entries) == 0 {
		i, err := st.CreateEmpty(ctx, sess)
		if errors.Is(err, tidemark.ErrExists) {
			return st.Session(ctx, sess.ID)
		}
		return i, err
	}
	w := st.Create(sess, s.o.Holder)
	_, err := w.Append(ctx, entries...)
	if errors.Is(err, tidemark.ErrConflict) && sess.ID != "" {
		if _, lookErr := st.Session(ctx, sess.ID); lookErr == nil {
			err = s.attach(ctx, st, sess.ID, func(w *store.Writer) error {
				_, err := w.Append(ctx, entries...)
				return err
			})
		}
	}
	s.release(ctx, st, w)
	if err != nil {
		if errors.Is(err, tidemark.ErrUnknown) {
			s.abandon(ctx, st, w.ID())
		}
		return store.Info{}, err
	}
	return st.Session(ctx, w.ID())
}

type getSessionInput struct {
	SessionInput
	NoneMatch
}

func (s *Server) getSession(ctx context.Context, in *getSessionInput) (*sessionOutput, error) {
	st, v, err := s.View(ctx, in.ID)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	if tag := tagOf(v.Info); unchanged(in.IfNoneMatch, tag) {
		return &sessionOutput{Status: http.StatusNotModified, ETag: tag}, nil
	}
	return answerSession(ctx, st, v.Info, http.StatusOK)
}

// ChangeSessionInput says what to change about a session.
type ChangeSessionInput struct {
	SessionInput
	IfMatch string `header:"If-Match" maxLength:"1000" doc:"the ETag of the session; it may have grown since"`
	Body    api.SessionChange
}

// ChangeSession changes the description of a session.
func (s *Server) ChangeSession(ctx context.Context, in *ChangeSessionInput) (*sessionOutput, error) {
	st, i, err := s.Owned(ctx, in.ID)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	b := in.Body
	i, err = st.Change(ctx, i.ID, store.Patch{Title: b.Title, Tags: b.Tags, Pinned: b.Pinned, OnHold: b.Hold, If: func(i store.Info) error {
		if in.IfMatch != "" && !matches(in.IfMatch, tagOf(i), sameVersion) {
			return outdated("session " + string(i.ID))
		}
		return nil
	}})
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	return answerSession(ctx, st, i, http.StatusOK)
}

// DeleteSessionInput says which session to delete, and whether permanently.
type DeleteSessionInput struct {
	SessionInput
	Purge bool `query:"purge" doc:"destroy it: nobody can restore it then"`
}

// DeleteSession moves a session to the trash, or purges it.
func (s *Server) DeleteSession(ctx context.Context, in *DeleteSessionInput) (*okOutput, error) {
	st, i, err := s.Owned(ctx, in.ID)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	if in.Purge {
		err = st.Purge(ctx, i.ID, s.o.Holder)
	} else {
		err = st.Trash(ctx, i.ID)
	}
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	s.activity.ended(request.CallerOf(ctx).Tenant, i.ID)
	return ok(), nil
}

// RestoreSession takes a session out of the trash.
func (s *Server) RestoreSession(ctx context.Context, in *SessionInput) (*sessionOutput, error) {
	st, i, err := s.Owned(ctx, in.ID)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	if err := st.Restore(ctx, i.ID); err != nil {
		return nil, request.Fail(ctx, err)
	}
	if i, err = st.Session(ctx, i.ID); err != nil {
		return nil, request.Fail(ctx, err)
	}
	return answerSession(ctx, st, i, http.StatusOK)
}

type verifyOutput struct {
	Body struct {
		OK     bool     `json:"ok"`
		Damage []string `json:"damage" nullable:"false"`
		More   bool     `json:"more,omitempty" doc:"there is more than is told"`
	}
}

func (s *Server) verifySession(ctx context.Context, in *SessionInput) (*verifyOutput, error) {
	st, v, err := s.View(ctx, in.ID)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	var out verifyOutput
	out.Body.Damage = []string{}
	for err := range st.Verify(ctx, v.ID) {
		if !errors.Is(err, tidemark.ErrCorrupt) {
			return nil, request.Fail(ctx, err)
		}
		if out.Body.More = len(out.Body.Damage) == maxDamage; out.Body.More {
			break
		}
		out.Body.Damage = append(out.Body.Damage, err.Error())
	}
	out.Body.OK = len(out.Body.Damage) == 0
	return &out, nil
}

// CheckSize refuses texts that are too long in bytes; huma counts characters.
func CheckSize(what, text string) error {
	if len(text) > 1000 {
		return tidemark.Invalidf("%s: at most 1000 bytes are allowed", what)
	}
	return nil
}
