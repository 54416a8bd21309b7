package transfer

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/archive"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/store"
)

// The server stands in some folder of its machine. That is not the project of
// a session that somebody sends to it.
func TestUploadDoesNotGetTheFolderOfTheServer(t *testing.T) {
	for name, c := range map[string]struct{ session, want string }{
		"none said": {`{"id":"9338e4f5-ff75-4df7-98e4-7404df13e398","created_at":"2026-11-15T22:17:32Z"}`, ""},
		"its own":   {`{"id":"9338e4f5-ff75-4df7-98e4-7404df13e398","project":"/home/ada/tides","created_at":"2026-11-15T22:17:32Z"}`, "/home/ada/tides"},
	} {
		s := store.New(memory.New(), nil)
		body := `{"format":"tidemark-session","version":1,"session":` + c.session + `,"entries":[
{"seq":1,"depth":1,"nodes":1,"at":"2026-11-15T22:17:32Z","kind":"message","role":"user","blocks":[{"type":"text","text":"hi"}]}
]}`
		in, err := Upload(t.Context(), s, "x.json", strings.NewReader(body), store.Self("test"), nil)
		if err != nil || len(in) != 1 {
			t.Fatalf("%s: Upload = %v, %v", name, in, err)
		}
		got, err := s.Session(t.Context(), in[0].Session)
		if err != nil || got.Project != c.want {
			t.Errorf("%s: project %q, %v; want %q", name, got.Project, err, c.want)
		}
	}
}

// What a server adds to each commit of a caller, a line of the audit log, is in
// those of an import, too.
func TestEachCommitOfAnUploadIsAddedTo(t *testing.T) {
	commits, added := &countingBackend{Backend: memory.New()}, 0
	s := store.New(commits, nil).With(func(context.Context, *tidemark.Batch) (func(error), error) {
		added++
		return func(error) {}, nil
	})
	const line = `{"type":"user","uuid":"0c8a1f8e-2f53-4d0e-9d5b-0d4c0e5f6a7b","parentUuid":null,"sessionId":"9338e4f5-ff75-4df7-98e4-7404df13e398","timestamp":"2026-11-15T22:17:32Z","cwd":"/home/ada/tides","version":"2.1.0","message":{"role":"user","content":"hi"}}` + "\n"
	in, err := Upload(t.Context(), s, "9338e4f5-ff75-4df7-98e4-7404df13e398.jsonl", strings.NewReader(line), store.Self("test"), nil)
	if err != nil || len(in) != 1 || in[0].Tool != "claude-code" {
		t.Fatalf("Upload = %+v, %v", in, err)
	}
	if commits.n == 0 || added != commits.n {
		t.Errorf("%d commits, %d of them added to", commits.n, added)
	}
}

type countingBackend struct {
	tidemark.Backend
	n int
}

func (c *countingBackend) Commit(ctx context.Context, b tidemark.Batch) (tidemark.Receipt, error) {
	c.n++
	return c.Backend.Commit(ctx, b)
}

// An archive is adopted past the rules of a store, and not past what a server lets
// somebody keep.
func TestAnArchiveThatIsUploadedIsRefusedWhereACommitWouldBe(t *testing.T) {
	from := memory.New()
	w := store.New(from, nil).Create(tidemark.Session{Title: "tides"}, store.Self("test"))
	if _, err := w.Append(t.Context(), tidemark.Say(tidemark.User, "hello")); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	var archived bytes.Buffer
	if _, err := archive.Write(t.Context(), &archived, from, nil); err != nil {
		t.Fatal(err)
	}
	adopted := 0
	to := store.New(memory.New(), nil).With(func(_ context.Context, b *tidemark.Batch) (func(error), error) {
		if b.Adopt {
			adopted++
			return nil, tidemark.Storagef("there is no room")
		}
		return func(error) {}, nil
	})
	_, err := Upload(t.Context(), to, "all.tidemark", &archived, store.Self("test"), nil)
	if !errors.Is(err, tidemark.ErrStorage) || adopted == 0 {
		t.Errorf("Upload = %v after %d batches, want ErrStorage", err, adopted)
	}
	for range to.Sessions(t.Context(), store.Filter{}) {
		t.Error("a session came in")
	}
}
