package acp

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"path/filepath"
	"time"

	sdk "github.com/coder/acp-go-sdk"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/store"
)

// page is how many sessions one answer lists.
const page = 50

// list lists the sessions of a project, or all of them, most recently
// changed first.
func (a *connection) list(ctx context.Context, p sdk.ListSessionsRequest) (sdk.ListSessionsResponse, error) {
	r := sdk.ListSessionsResponse{Sessions: []sdk.SessionInfo{}}
	f := store.Filter{Limit: page + 1}
	folder := deref(p.Cwd)
	if folder != "" {
		if !filepath.IsAbs(folder) {
			return r, tidemark.Invalidf("cwd %q: not an absolute path", folder)
		}
		f.Project = a.o.Project(filepath.Clean(folder))
	}
	if p.Cursor != nil {
		after, err := parseCursor(*p.Cursor)
		if err != nil {
			return r, err
		}
		f.After = &after
	}
	var last store.Info
	n := 0
	for i, err := range a.o.Store.Sessions(ctx, f) {
		if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
			return r, err
		}
		if n++; n > page {
			r.NextCursor = sdk.Ptr(cursorOf(last))
			return r, nil
		}
		last = i
		if err != nil {
			a.o.Log("session %s is left out of the list: %s", i.ID, err)
			continue
		}
		r.Sessions = append(r.Sessions, a.infoOf(i, folder))
	}
	return r, nil
}

// infoOf is a session in a list. Its folder is the one that was asked for,
// which may be another one of the same project: the session continues
// there.
func (a *connection) infoOf(i store.Info, folder string) sdk.SessionInfo {
	info := sdk.SessionInfo{SessionId: sdk.SessionId(i.ID), Cwd: folder, UpdatedAt: stamp(i.UpdatedAt)}
	if info.Cwd == "" {
		info.Cwd = i.Project
	}
	if info.Cwd == "" {
		info.Cwd = a.o.Folder
	}
	if i.Title != "" {
		info.Title = &i.Title
	}
	return info
}

func stamp(t time.Time) *string { return sdk.Ptr(t.UTC().Format(time.RFC3339Nano)) }

// cursor is the last session of a page.
type cursor struct {
	ID tidemark.SessionID `json:"id"`
	At time.Time          `json:"at"`
}

func cursorOf(i store.Info) string {
	b, err := json.Marshal(cursor{i.ID, i.UpdatedAt})
	if err != nil {
		return "" // there is no such time
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

func parseCursor(text string) (store.Info, error) {
	var c cursor
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(b, &c)
	}
	if err == nil {
		c.ID, err = tidemark.ParseSessionID(string(c.ID))
	}
	if err != nil {
		return store.Info{}, tidemark.Invalidf("cursor %.80q: not one of ours", text)
	}
	return store.Info{Session: tidemark.Session{ID: c.ID}, UpdatedAt: c.At}, nil
}
