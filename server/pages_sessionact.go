package server

import (
	"context"
	"net/http"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/web"
)

// sessionActs are the forms of the page of a session. They do what the calls
// of the API do, and are written down like them.
func (s *Server) sessionActs() {
	for name, do := range map[string]func(context.Context, *form) error{
		"rename": s.renameAct, "tags": s.tagsAct, "pin": s.pinAct, "hold": s.holdAct,
		"label": s.labelAct, "branch": s.branchAct, "fork": s.forkAct,
		"trash": s.trashAct, "restore": s.restoreAct, "purge": s.purgeAct, "share": s.shareAct,
	} {
		s.act("/sessions/{id}/"+name, request.Writer, func(r *http.Request) (string, string, error) {
			f := &form{id: SessionInput{ID: r.PathValue("id")}, next: "/sessions/" + r.PathValue("id"), notice: "session.did." + name}
			if err := r.ParseForm(); err != nil {
				return "", "", tidemark.Invalidf("form: %w", err)
			}
			f.value = func(name string) string { return strings.TrimSpace(r.PostForm.Get(name)) }
			err := do(r.Context(), f)
			return f.next, web.Say("", f.notice), err
		})
	}
}

// form is one that somebody sent, and where they go next.
type form struct {
	id           SessionInput
	value        func(name string) string
	next, notice string
}

func (s *Server) change(ctx context.Context, f *form, c api.SessionChange) error {
	_, err := s.changeSession(ctx, &changeSessionInput{SessionInput: f.id, Body: c})
	return err
}

func (s *Server) renameAct(ctx context.Context, f *form) error {
	title := f.value("title")
	if err := checkSize("title", title); err != nil {
		return err
	}
	return s.change(ctx, f, api.SessionChange{Title: &title})
}

func (s *Server) tagsAct(ctx context.Context, f *form) error {
	tags := []string{}
	for tag := range strings.SplitSeq(f.value("tags"), ",") {
		if tag = strings.TrimSpace(tag); tag != "" {
			tags = append(tags, tag)
		}
	}
	return s.change(ctx, f, api.SessionChange{Tags: &tags})
}

func (s *Server) pinAct(ctx context.Context, f *form) error {
	on := f.value("on") == "1"
	return s.change(ctx, f, api.SessionChange{Pinned: &on})
}

func (s *Server) holdAct(ctx context.Context, f *form) error {
	on := f.value("on") == "1"
	return s.change(ctx, f, api.SessionChange{Hold: &on})
}

func (s *Server) labelAct(ctx context.Context, f *form) error {
	in := &labelInput{SessionInput: f.id}
	in.Body.At, in.Body.Text = f.value("at"), f.value("text")
	if in.Body.Text == "" {
		return tidemark.Invalidf("a label: say what it is called")
	}
	out, err := s.labelEntry(ctx, in)
	if err == nil {
		f.next += entryAddress(out.Body.Seq)
	}
	return err
}

func (s *Server) branchAct(ctx context.Context, f *form) error {
	in := &branchInput{SessionInput: f.id}
	if in.Body.At = f.value("at"); in.Body.At == "" {
		return tidemark.Invalidf("a branch: say from which entry, such as 12 or n3")
	}
	out, err := s.branchSession(ctx, in)
	if err != nil {
		return err
	}
	if text := f.value("text"); text != "" {
		st, id, err := s.session(ctx, f.id.ID)
		if err == nil {
			err = st.Label(ctx, id, out.Body.Head, text)
		}
		if err != nil {
			return err
		}
	}
	f.next += "#newest"
	return nil
}

func (s *Server) forkAct(ctx context.Context, f *form) error {
	in := &forkInput{SessionInput: f.id}
	in.Body.At, in.Body.Title = f.value("at"), f.value("text")
	out, err := s.forkSession(ctx, in)
	if err == nil {
		f.next = "/sessions/" + string(out.Body.ID) + "#newest"
	}
	return err
}

func (s *Server) trashAct(ctx context.Context, f *form) error {
	_, err := s.deleteSession(ctx, &deleteSessionInput{SessionInput: f.id})
	return err
}

func (s *Server) restoreAct(ctx context.Context, f *form) error {
	_, err := s.restoreSession(ctx, &f.id)
	return err
}

// purgeAct destroys a session. Somebody without a script types the word, too.
func (s *Server) purgeAct(ctx context.Context, f *form) error {
	if word := f.value("word"); word == "" || word != f.id.ID[:min(8, len(f.id.ID))] {
		return tidemark.Invalidf("to destroy a session for ever, type the first eight letters of its id")
	}
	f.next = "/sessions?state=trash"
	_, err := s.deleteSession(ctx, &deleteSessionInput{SessionInput: f.id, Purge: true})
	return err
}

func (s *Server) shareAct(ctx context.Context, f *form) error {
	in := &shareInput{SessionInput: f.id, Body: shareBody{With: f.value("with")}}
	// A workspace is chosen by its id in one field: workspace:ID.
	if id, ok := strings.CutPrefix(in.Body.With, tidemark.InWorkspace+":"); ok {
		in.Body.With, in.Body.Workspace = tidemark.InWorkspace, id
	}
	switch in.Body.With {
	case tidemark.Private, tidemark.InWorkspace, tidemark.InTenant:
	default:
		return tidemark.Invalidf("share: with private, workspace or tenant")
	}
	_, err := s.shareSession(ctx, in)
	return err
}
