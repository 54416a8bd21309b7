package pages

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"html/template"
	"io"
	"mime/multipart"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/agent/slash"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/render"
	routes "github.com/tidemark-sessions/tidemark/server/api"
	"github.com/tidemark-sessions/tidemark/server/pages/web"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/store"
)

// deltaPause is how long a page is not told more after it was told something:
// shorter than anybody notices, and long enough that words come together.
const deltaPause = 30 * time.Millisecond

// talkActs are the forms with which the person at this machine talks in a session.
func (s *Site) talkActs() {
	s.act("/sessions/new", request.Writer, s.actBegin)
	s.pages.HandleFunc("GET /sessions/{id}/commands", s.talkCommands)
	for name, do := range map[string]func(*http.Request, tidemark.SessionID) error{
		"say": func(r *http.Request, id tidemark.SessionID) error {
			text, images, err := saidIn(r)
			if err != nil {
				return err
			}
			return s.api.Say(r.Context(), id, text, images...)
		},
		"stop": func(r *http.Request, id tidemark.SessionID) error {
			return s.api.StopTalk(r.Context(), id, r.PostForm.Get("turn"))
		},
		"ask": func(r *http.Request, id tidemark.SessionID) error { return s.api.AskFor(r.Context(), id) },
		"answer": func(r *http.Request, id tidemark.SessionID) error {
			switch d := chat.Decision(r.PostForm.Get("decision")); d {
			case chat.Once, chat.Always, chat.Deny:
				return s.api.AnswerTalk(r.Context(), id, r.PostForm.Get("shown"), d)
			}
			return tidemark.Invalidf("a decision is needed: once, always or deny")
		},
	} {
		s.pages.HandleFunc("POST /sessions/{id}/"+name, func(w http.ResponseWriter, r *http.Request) {
			err := s.talkAct(whole(r), do)
			script := r.Header.Get("Accept") == "application/json"
			switch {
			case err != nil && script:
				request.AnswerProblem(w, err)
			case err != nil:
				s.Trouble(w, r, err)
			case script:
				w.WriteHeader(http.StatusNoContent)
			default:
				http.Redirect(w, r, "/sessions/"+r.PathValue("id")+"#newest", http.StatusSeeOther)
			}
		})
	}
}

// actBegin begins a session with what somebody says first.
func (s *Site) actBegin(r *http.Request) (string, string, error) {
	if !s.api.MayTalk(r) {
		return "", "", tidemark.ErrDenied
	}
	if err := parseForm(r); err != nil {
		return "", "", err
	}
	text, images, err := saidIn(r)
	if err != nil {
		return "", "", err
	}
	id, err := s.api.BeginTalk(r.Context(), strings.TrimSpace(r.PostForm.Get("project")), strings.TrimSpace(r.PostForm.Get("model")), text, images...)
	return "/sessions/" + string(id) + "#newest", "", err
}

func (s *Site) talkAct(r *http.Request, do func(*http.Request, tidemark.SessionID) error) error {
	if !s.api.MayTalk(r) {
		return tidemark.ErrDenied
	}
	if err := parseForm(r); err != nil {
		return err
	}
	_, i, err := s.api.Owned(r.Context(), r.PathValue("id"))
	if err == nil && i.State != store.Live {
		err = tidemark.Conflictf("session %s is in the trash", i.ID)
	}
	if err != nil {
		return err
	}
	return do(r, i.ID)
}

// formMemory is more than any form has, so that nothing of it gets into a file.
const formMemory = 64 << 20

// parseForm reads a form that may have files.
func parseForm(r *http.Request) error {
	if err := r.ParseMultipartForm(formMemory); err != nil && !errors.Is(err, http.ErrNotMultipart) {
		return tidemark.Invalidf("form: %w", err)
	}
	return nil
}

// saidIn is what a form says: words, images, or both.
func saidIn(r *http.Request) (text string, images []tidemark.Block, err error) {
	text = strings.ReplaceAll(r.PostForm.Get("text"), "\r\n", "\n")
	if r.MultipartForm != nil {
		for _, f := range r.MultipartForm.File["image"] {
			if f.Filename == "" && f.Size == 0 {
				continue // nothing was chosen
			}
			b, err := imageIn(f)
			if err != nil {
				return "", nil, err
			}
			images = append(images, b)
		}
	}
	switch {
	case len(images) > slash.MaxImages:
		return "", nil, tidemark.Invalidf("more than %d images in one message", slash.MaxImages)
	case strings.TrimSpace(text) == "" && len(images) == 0:
		return "", nil, tidemark.Invalidf("nothing to say")
	case len(text) > maxPrompt:
		return "", nil, tidemark.Invalidf("text: more than %d bytes", maxPrompt)
	}
	return text, images, nil
}

func imageIn(f *multipart.FileHeader) (tidemark.Block, error) {
	file, err := f.Open()
	if err != nil {
		return tidemark.Block{}, tidemark.Invalidf("form: %w", err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, slash.MaxImage+1))
	if err != nil {
		return tidemark.Block{}, tidemark.Invalidf("form: %w", err)
	}
	return slash.Image(filepath.Base(f.Filename), data)
}

// talkCommands answers with the commands that can be typed in a session, and with what
// a line can go on with.
func (s *Site) talkCommands(w http.ResponseWriter, r *http.Request) {
	if !s.api.MayTalk(r) {
		request.AnswerProblem(w, tidemark.ErrDenied)
		return
	}
	_, i, err := s.api.Owned(r.Context(), r.PathValue("id"))
	if err != nil {
		request.AnswerProblem(w, err)
		return
	}
	line := r.URL.Query().Get("line")
	all, from, more := s.api.TalkCommands(r.Context(), i.Session, line)
	var body struct {
		Commands []web.Command `json:"commands"`
		Lines    []string      `json:"lines"` // the line, completed
	}
	body.Commands, body.Lines = []web.Command{}, []string{}
	for _, k := range all {
		body.Commands = append(body.Commands, web.Command{Name: render.CleanLine(k.Name), Args: render.CleanLine(k.Args), Help: render.CleanLine(k.Help)})
	}
	for _, m := range more {
		body.Lines = append(body.Lines, line[:from]+render.CleanLine(m))
	}
	w.Header().Set("Content-Type", "application/json")
	routes.Cut(r.Context(), json.NewEncoder(w).Encode(body))
}

// gatherTalk adds what is being said in a session, and whether the viewer may say
// something.
func (s *Site) gatherTalk(r *http.Request, l *looking, v *web.SessionView) error {
	if v.Live == "" || l.worker != "" || !l.mine || !s.api.HoldsTalks() {
		return nil
	}
	w := &talkWatch{s: s, l: l, may: s.api.MayTalk(r)}
	var state *routes.TalkState
	if t, _ := s.api.TalkOf(r.Context(), l.v.ID); t != nil {
		state, _, _, _ = t.Look(routes.Seen{})
	}
	w.sent.Store(l.log.Entries)
	talk, err := w.view(r.Context(), state)
	if v.Talk = &talk; w.may {
		v.Compose, v.Folder = true, render.CleanLine(s.api.TalkFolder(l.v.Session))
		v.ImageBytes, v.ImageCount, v.ImageMost = slash.MaxImage, slash.MaxImages, slash.ImageLimit()
	}
	return err
}

// talkWatch tells one page what is being said in a session.
type talkWatch struct {
	s     *Site
	l     *looking
	frame web.Frame
	may   bool
	sent  atomic.Int64  // the newest entry that the page has
	poke  chan struct{} // receives when that changes
}

// has notes that the page has an entry.
func (w *talkWatch) has(seq int64) {
	w.sent.Store(seq)
	select {
	case w.poke <- struct{}{}:
	default:
	}
}

// view is the state of a conversation, nil if there is none, for the page. What is
// on the page as an entry is not said a second time.
func (w *talkWatch) view(ctx context.Context, state *routes.TalkState) (web.TalkView, error) {
	v := web.TalkView{Session: w.l.v.Name()}
	if state == nil || !state.Here {
		lease, err := w.l.st.Lease(ctx, w.l.v.ID)
		if err != nil {
			return v, err
		}
		if lease.Held && !lease.Dead && !lease.Expired && w.may {
			v.Held = render.CleanLine(lease.Holder.String())
		}
	}
	if state == nil {
		return v, nil
	}
	v.Running, v.Shell, v.Notice = state.Running, state.Shell, render.CleanLine(state.Notice)
	for _, p := range state.Pieces {
		if p.Kind == "command" {
			v.Told = render.Clean(p.Text)
			continue
		}
		if p.Kept == 0 || p.Kept > w.sent.Load() {
			v.Pieces = append(v.Pieces, web.TalkPiece{Kind: p.Kind, Text: render.Clean(p.Text)})
		}
	}
	if v.Here = state.Here && w.may; !v.Here {
		return v, nil
	}
	v.Turn = state.Turn
	for _, q := range state.Questions {
		v.Questions = append(v.Questions, web.TalkQuestion{Shown: q.Shown, Worker: render.CleanLine(q.Worker), Tool: render.CleanLine(q.Tool), Lines: webLines(q.Lines), Always: render.CleanLine(q.Always)})
	}
	return v, nil
}

// tell sends what is being said until the stream ends.
func (w *talkWatch) tell(ctx context.Context, send func(routes.Event) error) error {
	tick := time.NewTicker(stateEvery)
	defer tick.Stop()
	var seen routes.Seen
	told := "nothing yet" // which no page shows
	for {
		var state *routes.TalkState
		var more string
		var wait <-chan struct{}
		look := tick.C // who holds the session
		t, changed := w.s.api.TalkOf(ctx, w.l.v.ID)
		if t != nil {
			state, more, seen, wait = t.Look(seen)
			if t.Here {
				look = nil
			}
		}
		var err error
		switch {
		case more != "":
			err = send(routes.Event{Name: "delta", Data: render.Clean(more)})
			if err == nil {
				err = pause(ctx, deltaPause)
			}
		case t == nil || state != nil:
			told, err = w.tellWhole(ctx, state, told, send)
		}
		if err != nil {
			return err
		}
		select {
		case <-wait:
		case <-changed:
			seen = routes.Seen{}
		case <-w.poke:
			seen = routes.Seen{}
		case <-look:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// tellWhole sends the state, unless the page has it.
func (w *talkWatch) tellWhole(ctx context.Context, state *routes.TalkState, told string, send func(routes.Event) error) (string, error) {
	v, err := w.view(ctx, state)
	if err != nil {
		return told, err
	}
	var html bytes.Buffer
	if err := web.Fragment(&html, w.frame, "talk", v); err != nil || html.String() == told {
		return told, err
	}
	return html.String(), send(routes.Event{Name: "talk", Data: template.HTML(html.String())})
}

// alongside runs a stream, and tells with it what is being said.
func (w *talkWatch) alongside(ctx context.Context, send func(routes.Event) error, follow func() error) error {
	ctx, stop := context.WithCancel(ctx)
	var over sync.WaitGroup
	over.Go(func() { _ = w.tell(ctx, send) }) // it ends with the stream
	defer over.Wait()
	defer stop()
	return follow()
}
