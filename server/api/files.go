package api

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"path"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/store"
)

// fileRoutes are those of the durable files of a session. A name may contain
// slashes: escaped in the documented path, or literal in the one registered
// beside it.
func (s *Server) fileRoutes() {
	dir := request.SessionsPath + "/{id}/files"
	huma.Register(s.huma, op("GET", dir, "list-files", "The durable files of a session", "files", request.Reader), s.listFiles)
	get := op("GET", dir+"/{name}", "get-file", "The content of a file", "files", request.Reader)
	get.Responses = streamed("application/octet-stream", "the content")
	put := op("PUT", dir+"/{name}", "put-file", "Keep a file, in place of one that is there", "files", request.Writer)
	put.RequestBody = rawBody("the content")
	remove := op("DELETE", dir+"/{name}", "delete-file", "Remove a file", "files", request.Writer)
	for _, end := range []string{"/{name}", "/{name...}"} {
		for _, o := range []*huma.Operation{&get, &put, &remove} {
			o.Path, o.Hidden = dir+end, end == "/{name...}"
		}
		huma.Register(s.huma, get, s.getFile)
		huma.Register(s.huma, put, s.putFile)
		huma.Register(s.huma, remove, s.deleteFile)
	}
}

// rawBody describes a body that is read as a stream.
func rawBody(what string) *huma.RequestBody {
	return &huma.RequestBody{Description: what, Required: true,
		Content: map[string]*huma.MediaType{"application/octet-stream": {Schema: &huma.Schema{Type: "string", Format: "binary"}}}}
}

// BodyInput is a body that is read as a stream, and never held whole.
type BodyInput struct {
	body *arriving
}

// arriving is a body, and the error that kept it from arriving. Its reader may
// fail with another error: a connection that fails cancels the whole request.
type arriving struct {
	io.Reader
	err error
}

func (a *arriving) Read(p []byte) (int, error) {
	n, err := a.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		a.err = err
	}
	return n, err
}

// Resolve is called by huma before the call is answered.
func (b *BodyInput) Resolve(ctx huma.Context) []error {
	b.body = &arriving{Reader: ctx.BodyReader()}
	return nil
}

// explain distinguishes an error of the body from one of its processing.
func (b *BodyInput) explain(err error) error {
	if b.body.err != nil {
		return request.BodyProblem(b.body.err)
	}
	return err
}

type listInSession struct {
	SessionInput
	PageInput
}

func (s *Server) listFiles(ctx context.Context, in *listInSession) (*madeOf[Page[store.File]], error) {
	st, v, err := s.View(ctx, in.ID)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	files, err := st.Files(ctx, v.ID)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	return pageOf(s, ctx, files, in.PageInput)
}

// FileInput is the file that a call is about.
type FileInput struct {
	SessionInput
	Name string `path:"name" doc:"slash-separated, with the slashes escaped: memory%2Fnotes.md"`
}

type getFileInput struct {
	FileInput
	NoneMatch
}

// getFile answers with bytes that somebody else wrote: a browser saves them
// and does not interpret them.
func (s *Server) getFile(ctx context.Context, in *getFileInput) (*huma.StreamResponse, error) {
	st, v, err := s.View(ctx, in.ID)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	if err := store.CheckFile(in.Name); err != nil {
		return nil, request.Fail(ctx, err)
	}
	f, err := st.StatFile(ctx, v.ID, in.Name)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		tag := `"` + f.SHA256 + `"`
		hc.SetHeader("ETag", tag)
		if unchanged(in.IfNoneMatch, tag) {
			hc.SetStatus(http.StatusNotModified)
			return
		}
		hc.SetHeader("Content-Type", "application/octet-stream")
		hc.SetHeader("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": path.Base(f.Name)}))
		hc.SetHeader("Content-Length", strconv.FormatInt(f.Size, 10))
		hc.SetStatus(http.StatusOK)
		_, err := st.CopyFile(ctx, v.ID, in.Name, hc.BodyWriter())
		Cut(ctx, err)
	}}, nil
}

// Cut closes the connection when an answer could not be sent completely, so
// that nobody takes a part for all of it.
func Cut(ctx context.Context, err error) {
	if err != nil {
		request.Note(ctx, "error", err.Error())
		panic(http.ErrAbortHandler)
	}
}

type putFileInput struct {
	FileInput
	BodyInput
	Lease string `header:"Lease-Token" maxLength:"100" doc:"without one the session is attached for this call"`
}

type fileOutput struct {
	ETag string `header:"ETag"`
	Body store.File
}

func (s *Server) putFile(ctx context.Context, in *putFileInput) (*fileOutput, error) {
	st, i, err := s.Owned(ctx, in.ID)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	if err := store.CheckFile(in.Name); err != nil {
		return nil, request.Fail(ctx, err)
	}
	var out fileOutput
	put := func(w *store.Writer) (err error) {
		out.Body, err = w.PutFile(ctx, in.Name, in.body)
		return err
	}
	if in.Lease == "" {
		err = s.attach(ctx, st, i.ID, put)
	} else {
		// The body can be read only once: if somebody else was faster, they
		// win.
		var w *store.Writer
		if w, err = st.AttachWithToken(ctx, i.ID, in.Lease); err == nil {
			err = put(w)
		}
	}
	if err != nil {
		return nil, request.Fail(ctx, in.explain(err))
	}
	out.ETag = `"` + out.Body.SHA256 + `"`
	return &out, nil
}

type deleteFileInput struct {
	FileInput
	Lease string `header:"Lease-Token" maxLength:"100"`
}

func (s *Server) deleteFile(ctx context.Context, in *deleteFileInput) (*okOutput, error) {
	st, i, err := s.Owned(ctx, in.ID)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	if err := store.CheckFile(in.Name); err != nil {
		return nil, request.Fail(ctx, err)
	}
	err = s.write(ctx, st, i.ID, in.Lease, func(w *store.Writer) error { return w.RemoveFile(ctx, in.Name) })
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	return ok(), nil
}
