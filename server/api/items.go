package api

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/store"
)

// Items belong to the caller, as sessions do. The meaning of their data is up
// to them: known fields must have their type, and all others are kept
// unchanged.

const itemGroup = "items"

// itemKind is one kind of items and what is known about their data.
type itemKind struct {
	Path   string // below /api/v1/
	Kind   string // in the store, and in the ids of calls
	plural string
	fields map[string]string // name to type
}

// ItemKinds are the kinds of items that have calls.
func ItemKinds() []itemKind {
	return []itemKind{
		{Path: "run-steps", Kind: "run-step", plural: "steps of runs", fields: map[string]string{
			"run_id": "string", "sequence": "integer", "step_type": "string", "name": "string", "status": "string", "model_provider": "string", "model_name": "string",
			"input_json": "any", "output_json": "any", "error_json": "any", "tokens_in": "integer", "tokens_out": "integer", "latency_ms": "integer",
			"cost_usd": "number", "started_at": "time", "completed_at": "time"}},
		{Path: "sandbox-snapshots", Kind: "sandbox-snapshot", plural: "snapshots of sandboxes", fields: map[string]string{
			"sandbox_id": "string", "status": "string", "workspace_path": "string", "repo_url": "string", "repo_ref": "string", "context_id": "string",
			"context_paths": "array", "context_sources": "array", "loaded_document_paths": "array", "volume_name": "string", "volume_subpath": "string",
			"revision": "integer", "state_json": "any", "manifest_json": "any"}},
		{Path: "datasets", Kind: "dataset", plural: "datasets", fields: map[string]string{
			"name": "string", "row_count": "integer", "format": "string", "module_slug": "string", "uri": "string", "rows": "array", "metadata": "object"}},
		{Path: "optimization-runs", Kind: "optimization-run", plural: "runs of optimizers", fields: map[string]string{
			"module_slug": "string", "dataset_id": "string", "optimizer": "string", "status": "string", "phase": "string", "train_ratio": "number",
			"train_examples": "integer", "validation_examples": "integer", "validation_score": "number", "error": "string", "config": "object",
			"started_at": "time", "completed_at": "time"}},
	}
}

// ResultKind is the result of an optimizer's run, for one example.
var ResultKind = itemKind{Path: "optimization-runs/{id}/results", Kind: "optimization-result", plural: "results of a run of an optimizer", fields: map[string]string{
	"example_index": "integer", "input": "any", "expected": "any", "predicted": "any", "score": "number", "feedback": "string", "metrics": "object"}}

// described is the description of the data.
func (k itemKind) described() string {
	var fields []string
	for _, name := range slices.Sorted(maps.Keys(k.fields)) {
		fields = append(fields, fmt.Sprintf("`%s` (%s)", name, k.fields[name]))
	}
	return "In data these fields are known, and have to be of their type when they are there: " + strings.Join(fields, ", ") + ". Others are kept as they came."
}

func (k itemKind) op(method, more, verb, summary string, need request.Role) huma.Operation {
	o := op(method, "/api/v1/"+k.Path+more, verb+"-"+k.Kind, summary, itemGroup, need)
	o.Description = k.described()
	return o
}

// check checks the known fields.
func (k itemKind) check(data json.RawMessage) error {
	if len(data) == 0 {
		return nil
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(data, &object); err != nil || object == nil {
		return badFields(api.FieldError{Where: "body.data", What: "want an object"})
	}
	var wrong []api.FieldError
	for _, name := range slices.Sorted(maps.Keys(k.fields)) {
		if value, ok := object[name]; ok && !isOf(k.fields[name], value) {
			wrong = append(wrong, api.FieldError{Where: "body.data." + name, What: "want: " + k.fields[name]})
		}
	}
	if len(wrong) > 0 {
		return badFields(wrong...)
	}
	return nil
}

func badFields(wrong ...api.FieldError) error {
	return &api.Problem{Status: http.StatusUnprocessableEntity, Title: "Unprocessable Entity", Code: "invalid", Detail: "the data does not fit", Errors: wrong}
}

// isOf reports whether a JSON value has a type. Null has every type.
func isOf(kind string, value json.RawMessage) bool {
	var v any
	if err := json.Unmarshal(value, &v); err != nil {
		return false
	}
	if v == nil || kind == "any" {
		return true
	}
	switch v := v.(type) {
	case string:
		if kind == "time" {
			_, err := time.Parse(time.RFC3339, v)
			return err == nil
		}
		return kind == "string"
	case float64:
		_, err := strconv.ParseInt(strings.TrimSpace(string(value)), 10, 64)
		return kind == "number" || kind == "integer" && err == nil
	case map[string]any:
		return kind == "object"
	case []any:
		return kind == "array"
	}
	return false
}

type itemsInput struct {
	PageInput
	Session string `query:"session" maxLength:"64" doc:"those of this session"`
	Parent  string `query:"parent" maxLength:"256" doc:"those that are a part of this"`
}

// ItemPath is the item that a call is about.
type ItemPath struct {
	ID string `path:"id" maxLength:"128"`
}

// ResultPath is the part of an item that a call is about.
type ResultPath struct {
	ItemPath
	Result string `path:"result" maxLength:"128"`
}

// Condition is a precondition of a change.
type Condition struct {
	IfMatch     string `header:"If-Match" doc:"the change is made only if this is the tag of what is there"`
	IfNoneMatch string `header:"If-None-Match" doc:"with *: the change is made only if nothing is there"`
}

// version is the version that the item must have.
func (c Condition) version() (int64, error) {
	switch {
	case c.IfNoneMatch == "*":
		return 0, nil
	case c.IfMatch == "" || c.IfMatch == "*":
		return store.AnyVersion, nil
	}
	v, err := strconv.ParseInt(strings.Trim(c.IfMatch, `"`), 10, 64)
	if err != nil || v < 1 {
		return 0, outdated("what is there")
	}
	return v, nil
}

// fail is request.Fail for a change with a condition.
func (c Condition) fail(ctx context.Context, err error) error {
	if (errors.Is(err, tidemark.ErrConflict) || errors.Is(err, tidemark.ErrExists)) && (c.IfMatch != "" || c.IfNoneMatch != "") {
		err = outdated("what is there")
	}
	return request.Fail(ctx, err)
}

func versionTag(v int64) string { return `"` + strconv.FormatInt(v, 10) + `"` }

func itemOut(i store.Item) api.Item {
	return api.Item{ID: i.ID, Title: i.Title, Session: string(i.Session), Parent: i.Parent, Data: i.Data, CreatedAt: i.CreatedAt, UpdatedAt: i.UpdatedAt, Version: i.Version}
}

func (s *Server) itemRoutes() {
	for _, k := range ItemKinds() {
		s.itemCalls(k)
	}
	s.resultCalls(ResultKind)
	s.memoryRoutes()
}

type putItemInput struct {
	ItemPath
	Condition
	Body api.PutItem
}

type getItemInput struct {
	ItemPath
	NoneMatch
}

type removeItemInput struct {
	ItemPath
	IfMatch string `header:"If-Match" doc:"it is removed only if this is its tag"`
}

func (s *Server) itemCalls(k itemKind) {
	huma.Register(s.huma, k.op("GET", "", "list", "List "+k.plural+", the one that changed last first", request.Reader),
		func(ctx context.Context, in *itemsInput) (*madeOf[Page[api.Item]], error) {
			return s.listItems(ctx, k, in.PageInput, in.Session, in.Parent)
		})
	huma.Register(s.huma, s.takes(made(k.op("POST", "", "create", "Keep one more", request.Writer))),
		func(ctx context.Context, in *struct{ Body api.PutItem }) (*tagged[api.Item], error) {
			return s.makeItem(ctx, k, in.Body, "")
		})
	huma.Register(s.huma, k.op("GET", "/{id}", "get", "Show one", request.Reader), func(ctx context.Context, in *getItemInput) (*tagged[api.Item], error) {
		return s.getItem(ctx, k, in.ID, "", in.IfNoneMatch)
	})
	huma.Register(s.huma, s.takes(k.op("PUT", "/{id}", "put", "Keep one under its id, in place of what is there", request.Writer)),
		func(ctx context.Context, in *putItemInput) (*tagged[api.Item], error) {
			return s.putItem(ctx, k, in.ID, "", in.Body, in.Condition)
		})
	huma.Register(s.huma, k.op("DELETE", "/{id}", "delete", "Remove one", request.Writer), func(ctx context.Context, in *removeItemInput) (*struct{}, error) {
		return nil, s.removeItem(ctx, k, in.ID, "", Condition{IfMatch: in.IfMatch})
	})
}

// resultCalls are itemCalls for items that are a part of another one, which is
// in their path.
func (s *Server) resultCalls(k itemKind) {
	huma.Register(s.huma, k.op("GET", "", "list", "List the "+k.plural+", the one that changed last first", request.Reader), func(ctx context.Context, in *struct {
		ItemPath
		PageInput
		Session string `query:"session" maxLength:"64" doc:"those of this session"`
	}) (*madeOf[Page[api.Item]], error) {
		if err := s.haveRun(ctx, in.ID); err != nil {
			return nil, request.Fail(ctx, err)
		}
		return s.listItems(ctx, k, in.PageInput, in.Session, in.ID)
	})
	huma.Register(s.huma, s.takes(made(k.op("POST", "", "create", "Keep one more", request.Writer))), func(ctx context.Context, in *struct {
		ItemPath
		Body api.PutItem
	}) (*tagged[api.Item], error) {
		if err := s.haveRun(ctx, in.ID); err != nil {
			return nil, request.Fail(ctx, err)
		}
		return s.makeItem(ctx, k, in.Body, in.ID)
	})
	huma.Register(s.huma, k.op("GET", "/{result}", "get", "Show one", request.Reader), func(ctx context.Context, in *struct {
		ResultPath
		NoneMatch
	}) (*tagged[api.Item], error) {
		return s.getItem(ctx, k, in.Result, in.ID, in.IfNoneMatch)
	})
	huma.Register(s.huma, s.takes(k.op("PUT", "/{result}", "put", "Keep one under its id, in place of what is there", request.Writer)), func(ctx context.Context, in *struct {
		ResultPath
		Condition
		Body api.PutItem
	}) (*tagged[api.Item], error) {
		if err := s.haveRun(ctx, in.ID); err != nil {
			return nil, request.Fail(ctx, err)
		}
		return s.putItem(ctx, k, in.Result, in.ID, in.Body, in.Condition)
	})
	huma.Register(s.huma, k.op("DELETE", "/{result}", "delete", "Remove one", request.Writer), func(ctx context.Context, in *struct {
		ResultPath
		IfMatch string `header:"If-Match" doc:"it is removed only if this is its tag"`
	}) (*struct{}, error) {
		return nil, s.removeItem(ctx, k, in.Result, in.ID, Condition{IfMatch: in.IfMatch})
	})
}

// haveRun returns ErrNotFound when there is no such run of an optimizer.
func (s *Server) haveRun(ctx context.Context, id string) error {
	st, err := s.stores.Mine(ctx)
	if err == nil {
		_, err = oneItem(ctx, st, "optimization-run", id, "")
	}
	return err
}

// Stored is the id of an item in the store: that of a part begins with the
// whole, so that two wholes can have parts with the same name. A part's own
// name has no dot, so the last dot separates them.
func Stored(id, parent string) string {
	if parent == "" {
		return id
	}
	return parent + "." + id
}

// oneItem reads an item of the caller. An invalid id is not found.
func oneItem(ctx context.Context, st *store.Store, kind, id, parent string) (store.Item, error) {
	if tidemark.CheckID(Stored(id, parent)) != nil || parent != "" && strings.Contains(id, ".") {
		return store.Item{}, tidemark.NotFoundf("%s %.40q: not found", kind, id)
	}
	i, err := st.Item(ctx, kind, Stored(id, parent))
	i.ID = id
	return i, err
}

func (s *Server) listItems(ctx context.Context, k itemKind, in PageInput, session, parent string) (*madeOf[Page[api.Item]], error) {
	st, err := s.stores.Mine(ctx)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	limit, caller := s.limit(in.Limit), request.CallerOf(ctx)
	f := store.ItemFilter{Kind: k.Kind, Session: tidemark.SessionID(session), Parent: parent, Limit: limit + 1}
	if in.Cursor != "" {
		if err := s.ParseCursor(caller, in.Cursor, &f.After); err != nil {
			return nil, request.Fail(ctx, err)
		}
	}
	out := &madeOf[Page[api.Item]]{Body: Page[api.Item]{Items: []api.Item{}}}
	bytes := 0
	for i, err := range st.Items(ctx, f) {
		if errors.Is(err, tidemark.ErrCorrupt) {
			continue // verify reports it
		}
		if err != nil {
			return nil, request.Fail(ctx, err)
		}
		if bytes += len(i.Data); len(out.Body.Items) == limit || bytes > maxPageBytes && len(out.Body.Items) > 0 {
			out.Body.Next = s.Cursor(caller, f.After)
			break
		}
		f.After = i.Mark()
		if k.Kind == ResultKind.Kind {
			i.ID = strings.TrimPrefix(i.ID, parent+".")
		}
		out.Body.Items = append(out.Body.Items, itemOut(i))
	}
	return out, nil
}

func (s *Server) getItem(ctx context.Context, k itemKind, id, parent, ifNoneMatch string) (*tagged[api.Item], error) {
	st, err := s.stores.Mine(ctx)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	i, err := oneItem(ctx, st, k.Kind, id, parent)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	return oneThing(itemOut(i), versionTag(i.Version), ifNoneMatch), nil
}

func (s *Server) makeItem(ctx context.Context, k itemKind, body api.PutItem, parent string) (*tagged[api.Item], error) {
	id := body.ID
	if id == "" {
		id = strings.ToLower(rand.Text()[:16])
	}
	body.ID = ""
	out, err := s.putItem(ctx, k, id, parent, body, Condition{IfNoneMatch: "*"})
	if p := (*api.Problem)(nil); errors.As(err, &p) && p.Status == http.StatusPreconditionFailed {
		return nil, request.Fail(ctx, tidemark.Existsf("%s %s is there already", k.Kind, id))
	}
	return out, err
}

func (s *Server) putItem(ctx context.Context, k itemKind, id, parent string, body api.PutItem, c Condition) (*tagged[api.Item], error) {
	st, err := s.stores.Mine(ctx)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	if body.ID != "" && body.ID != id || parent != "" && body.Parent != "" && body.Parent != parent {
		return nil, request.Fail(ctx, tidemark.Invalidf("the body has another id or parent than the path"))
	}
	if parent != "" {
		if body.Parent = parent; strings.Contains(id, ".") {
			return nil, request.Fail(ctx, tidemark.Invalidf("id %.40q: that of a part has no dot", id))
		}
	}
	if err := k.check(body.Data); err != nil {
		return nil, request.Fail(ctx, err)
	}
	want, err := c.version()
	if err == nil && c.IfMatch == "*" {
		_, err = oneItem(ctx, st, k.Kind, id, parent)
		if errors.Is(err, tidemark.ErrNotFound) {
			err = outdated("what is there")
		}
	}
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	i, err := st.PutItem(ctx, store.Item{Kind: k.Kind, ID: Stored(id, parent), Title: body.Title, Session: tidemark.SessionID(body.Session),
		Parent: body.Parent, Data: body.Data}, want)
	if err != nil {
		return nil, c.fail(ctx, err)
	}
	i.ID = id
	out := oneThing(itemOut(i), versionTag(i.Version), "")
	if i.Version == 1 {
		out.Status = http.StatusCreated
	}
	return out, nil
}

// removeItem removes an item. The results of a run are removed first: without
// the run nobody would find them again.
func (s *Server) removeItem(ctx context.Context, k itemKind, id, parent string, c Condition) error {
	st, err := s.stores.Mine(ctx)
	if err != nil {
		return request.Fail(ctx, err)
	}
	want, err := c.version()
	if err != nil {
		return request.Fail(ctx, err)
	}
	i, err := oneItem(ctx, st, k.Kind, id, parent)
	if err != nil {
		return request.Fail(ctx, err)
	}
	if want != store.AnyVersion && want != i.Version {
		return request.Fail(ctx, outdated("what is there"))
	}
	if k.Kind == "optimization-run" {
		if err := st.RemoveParts(ctx, ResultKind.Kind, id); err != nil {
			return request.Fail(ctx, err)
		}
	}
	return c.fail(ctx, st.RemoveItem(ctx, k.Kind, Stored(id, parent), want))
}
