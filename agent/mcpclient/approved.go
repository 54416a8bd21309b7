package mcpclient

import (
	"context"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/internal/grant"
	"github.com/tidemark-sessions/tidemark/internal/hint"
)

// Approved is a Gate that asks nobody: servers of a project start when the
// person approved them in a conversation.
type Approved struct {
	Grants *grant.Scope
	Tell   func(text string)
}

// MayStart returns ErrDenied for what was not approved.
func (a Approved) MayStart(_ context.Context, r chat.StartRequest) error {
	if r.Own {
		return nil
	}
	if yes, _ := r.Granted(a.Grants); !yes {
		return hint.With(tidemark.Deniedf("%s of %s was not approved in this project", r.Name, r.File), "tidemark chat shows it and asks, with your first message")
	}
	return nil
}

// AskForm has nobody to ask.
func (a Approved) AskForm(_ context.Context, f chat.Form) (map[string]any, error) {
	return nil, tidemark.Deniedf("%s wants to know something, and there is no conversation to ask in", f.From)
}

// Notify tells people something.
func (a Approved) Notify(text string) { a.Tell(text) }

// Row is a server as a list shows it.
type Row struct {
	Name  string `json:"name"`
	State string `json:"state"`
	What  string `json:"what"`
	File  string `json:"file"`
}

// The states of a server that does not run.
const (
	RowOwn      = "own"      // the person's: it starts when it is needed
	RowApproved = "approved" // of the project, and approved as it is now
	RowDeclined = "declined" // of the project, and the person does not want it
	RowAsks     = "asks"     // of the project: a chat asks before it starts
)

// Rows lists servers with what the person said about them.
func Rows(servers []Server, project string, grants *grant.Scope) []Row {
	rows := []Row{}
	for _, s := range servers {
		r := Row{Name: s.Name, State: RowOwn, What: s.What(), File: s.File}
		if !s.Own {
			yes, answered := s.Request(project).Granted(grants)
			switch {
			case yes:
				r.State = RowApproved
			case answered:
				r.State = RowDeclined
			default:
				r.State = RowAsks
			}
		}
		if s.Disabled {
			r.State = StateOff
		}
		rows = append(rows, r)
	}
	return rows
}
