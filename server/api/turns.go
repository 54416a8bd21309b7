package api

import (
	"cmp"
	"context"
	"strconv"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/store"
)

type listTurnsInput struct {
	SessionInput
	Limit  int    `query:"limit" minimum:"1" default:"50" doc:"how many, at most"`
	Offset int    `query:"offset" minimum:"0" doc:"how many to pass over"`
	Cursor string `query:"cursor" maxLength:"2048" doc:"next of the page before"`
	At     string `query:"at" maxLength:"1000" doc:"the turns that lead to this node (n3), entry (12) or label; to the head when absent"`
}

// turnsCursor is where a list of turns continues. It names the end of the
// path, so that a branch made meanwhile does not mix two paths.
type turnsCursor struct {
	Session tidemark.SessionID `json:"session"`
	At      int64              `json:"at"`
	Offset  int                `json:"offset"`
}

func (s *Server) listTurns(ctx context.Context, in *listTurnsInput) (*struct{ Body api.TurnList }, error) {
	_, v, err := s.View(ctx, in.ID)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	c := turnsCursor{Session: v.ID, Offset: in.Offset}
	if in.Cursor != "" {
		if err := s.ParseCursor(request.CallerOf(ctx), in.Cursor, &c); err != nil {
			return nil, request.Fail(ctx, err)
		}
		if c.Session != v.ID || in.Offset > 0 || in.At != "" {
			return nil, request.Fail(ctx, tidemark.Invalidf("cursor: of another list; begin again without it"))
		}
	} else if c.At, err = s.end(ctx, v, in.At); err != nil {
		return nil, request.Fail(ctx, err)
	}
	found, err := v.TurnPage(ctx, c.At, int64(c.Offset), s.limit(in.Limit))
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	page := api.TurnList{Items: []api.SessionTurn{}, Offset: found.First, Limit: s.limit(in.Limit), Total: found.Total}
	for i, t := range found.Turns {
		page.Items = append(page.Items, turnOf(t, found.First+int64(i)))
	}
	c.Offset += len(page.Items)
	if page.HasMore = int64(c.Offset) < page.Total && len(page.Items) > 0; page.HasMore {
		page.Next = s.Cursor(request.CallerOf(ctx), c)
	}
	return &struct{ Body api.TurnList }{page}, nil
}

// end returns the entry that a point means, the head for "".
func (s *Server) end(ctx context.Context, v *store.View, at string) (int64, error) {
	if at == "" {
		return v.Head(ctx)
	}
	return v.At(ctx, at)
}

// turnOf is a turn on the wire.
func turnOf(t store.Turn, index int64) api.SessionTurn {
	first, last := t.Entries[0], t.Entries[len(t.Entries)-1]
	out := api.SessionTurn{ID: "n" + strconv.FormatInt(t.Number, 10), TurnIndex: index, First: first.Seq, Last: last.Seq, CreatedAt: first.At}
	var asked, answered []string
	for _, e := range t.Entries {
		text := e.Text()
		switch {
		case text == "":
		case e.Role == tidemark.User:
			asked = append(asked, text)
		case e.Role == tidemark.Assistant:
			answered = append(answered, text)
		}
		for _, b := range e.Blocks {
			if b.Type == tidemark.BlockToolUse {
				out.ToolCalls++
			}
		}
		if u := e.Usage; u != nil {
			out.TokensIn += max(u.InputTokens, 0)
			out.TokensOut += max(u.OutputTokens, 0)
		}
		out.ModelName = cmp.Or(e.Model, out.ModelName)
	}
	out.UserMessage, out.AssistantMessage = strings.Join(asked, "\n"), strings.Join(answered, "\n")
	return out
}
