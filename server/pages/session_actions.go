package pages

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
	routes "github.com/tidemark-sessions/tidemark/server/api"
	"github.com/tidemark-sessions/tidemark/server/pages/web"
	"github.com/tidemark-sessions/tidemark/server/request"
)

// sessionActs are the forms of the page of a session. They do what the calls
// of the API do, and are audited like them.
func (s *Site) sessionActs() {
	for name, do := range map[string]func(context.Context, *form) error{
		"rename": s.renameAct, "tags": s.tagsAct, "pin": s.pinAct, "hold": s.holdAct,
		"label": s.labelAct, "branch": s.branchAct, "fork": s.forkAct,
		"trash": s.trashAct, "restore": s.restoreAct, "purge": s.purgeAct, "share": s.shareAct,
	} {
		s.act("/sessions/{id}/"+name, request.Writer, func(r *http.Request) (string, string, error) {
			f := &form{id: routes.SessionInput{ID: r.PathValue("id")}, next: "/sessions/" + r.PathValue("id"), notice: "session.did." + name}
			if err := r.ParseForm(); err != nil {
				return "", "", tidemark.Invalidf("form: %w", err)
			}
			f.value = func(name string) string { return strings.TrimSpace(r.PostForm.Get(name)) }
			err := do(r.Context(), f)
			return f.next, web.Say("", f.notice), err
		})
	}
}

// form is a submitted form, and where the browser goes next.
type form struct {
	id           routes.SessionInput
	value        func(name string) string
	next, notice string
}

func (s *Site) change(ctx context.Context, f *form, c api.SessionChange) error {
	_, err := s.api.ChangeSession(ctx, &routes.ChangeSessionInput{SessionInput: f.id, Body: c})
	return err
}

func (s *Site) renameAct(ctx context.Context, f *form) error {
	title := f.value("title")
	if err := routes.CheckSize("title", title); err != nil {
		return err
	}
	return s.change(ctx, f, api.SessionChange{Title: &title})
}

func (s *Site) tagsAct(ctx context.Context, f *form) error {
	tags := tagsIn(f.value("tags"))
	if add := tagsIn(f.value("add")); len(add) > 0 { // to those that it has
		_, i, err := s.api.Owned(ctx, f.id.ID)
		if err != nil {
			return err
		}
		tags = slices.Clone(i.Tags)
		for _, tag := range add {
			if !slices.Contains(tags, tag) {
				tags = append(tags, tag)
			}
		}
	}
	return s.change(ctx, f, api.SessionChange{Tags: &tags})
}

// tagsIn are the tags in a text, with commas between them.
func tagsIn(text string) []string {
	tags := []string{}
	for tag := range strings.SplitSeq(text, ",") {
		if tag = strings.TrimSpace(tag); tag != "" {
			tags = append(tags, tag)
		}
	}
	return tags
}

func (s *Site) pinAct(ctx context.Context, f *form) error {
	on := f.value("on") == "1"
	return s.change(ctx, f, api.SessionChange{Pinned: &on})
}

func (s *Site) holdAct(ctx context.Context, f *form) error {
	on := f.value("on") == "1"
	return s.change(ctx, f, api.SessionChange{Hold: &on})
}

func (s *Site) labelAct(ctx context.Context, f *form) error {
	in := &routes.LabelInput{SessionInput: f.id}
	in.Body.At, in.Body.Text = f.value("at"), f.value("text")
	if in.Body.Text == "" {
		return tidemark.Invalidf("a label: say what it is called")
	}
	out, err := s.api.LabelEntry(ctx, in)
	if err == nil {
		f.next += entryAddress(out.Body.Seq)
	}
	return err
}

func (s *Site) branchAct(ctx context.Context, f *form) error {
	in := &routes.BranchInput{SessionInput: f.id}
	if in.Body.At = f.value("at"); in.Body.At == "" {
		return tidemark.Invalidf("a branch: say from which entry, such as 12 or n3")
	}
	out, err := s.api.BranchSession(ctx, in)
	if err != nil {
		return err
	}
	if text := f.value("text"); text != "" {
		st, id, err := s.api.Session(ctx, f.id.ID)
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

func (s *Site) forkAct(ctx context.Context, f *form) error {
	in := &routes.ForkInput{SessionInput: f.id}
	in.Body.At, in.Body.Title = f.value("at"), f.value("text")
	out, err := s.api.ForkSession(ctx, in)
	if err == nil {
		f.next = "/sessions/" + string(out.Body.ID) + "#newest"
	}
	return err
}

func (s *Site) trashAct(ctx context.Context, f *form) error {
	_, err := s.api.DeleteSession(ctx, &routes.DeleteSessionInput{SessionInput: f.id})
	return err
}

func (s *Site) restoreAct(ctx context.Context, f *form) error {
	_, err := s.api.RestoreSession(ctx, &f.id)
	return err
}

// purgeAct destroys a session. Without script, the user types the word as well.
func (s *Site) purgeAct(ctx context.Context, f *form) error {
	if word := f.value("word"); word == "" || word != f.id.ID[:min(8, len(f.id.ID))] {
		return tidemark.Invalidf("to destroy a session for ever, type the first eight letters of its id")
	}
	f.next = "/sessions?state=trash"
	_, err := s.api.DeleteSession(ctx, &routes.DeleteSessionInput{SessionInput: f.id, Purge: true})
	return err
}

func (s *Site) shareAct(ctx context.Context, f *form) error {
	in := &routes.ShareInput{SessionInput: f.id, Body: routes.ShareBody{With: f.value("with")}}
	// A workspace is chosen by its id in one field: workspace:ID.
	if id, ok := strings.CutPrefix(in.Body.With, tidemark.InWorkspace+":"); ok {
		in.Body.With, in.Body.Workspace = tidemark.InWorkspace, id
	}
	switch in.Body.With {
	case tidemark.Private, tidemark.InWorkspace, tidemark.InTenant:
	default:
		return tidemark.Invalidf("share: with private, workspace or tenant")
	}
	_, err := s.api.ShareSession(ctx, in)
	return err
}
