package store_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/archive"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/store"
)

func putItem(t *testing.T, s *store.Store, i store.Item, want int64) store.Item {
	t.Helper()
	i, err := s.PutItem(t.Context(), i, want)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func itemIDs(t *testing.T, s *store.Store, f store.ItemFilter) (ids []string) {
	t.Helper()
	for i, err := range s.Items(t.Context(), f) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, i.ID)
	}
	return ids
}

func TestItemsAreListedByKindSessionAndParentTheNewestFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		one, two := tidemark.NewSessionID(), tidemark.NewSessionID()
		for n, i := range []store.Item{
			{Kind: "run-step", ID: "a", Session: one, Parent: "r1"},
			{Kind: "run-step", ID: "b", Session: two, Parent: "r1"},
			{Kind: "run-step", ID: "c", Session: one, Parent: "r2"},
			{Kind: "dataset", ID: "a"},
		} {
			time.Sleep(time.Second)
			i.Data = json.RawMessage(fmt.Sprintf(`{"n":%d}`, n))
			putItem(t, s, i, 0)
		}
		same(t, itemIDs(t, s, store.ItemFilter{Kind: "run-step"}), []string{"c", "b", "a"})
		same(t, itemIDs(t, s, store.ItemFilter{Kind: "run-step", Session: one}), []string{"c", "a"})
		same(t, itemIDs(t, s, store.ItemFilter{Kind: "run-step", Parent: "r1"}), []string{"b", "a"})
		same(t, itemIDs(t, s, store.ItemFilter{Kind: "run-step", Parent: "r1", Session: one}), []string{"a"})
		same(t, itemIDs(t, s, store.ItemFilter{Kind: "dataset"}), []string{"a"})

		first, err := s.Item(t.Context(), "run-step", "c")
		if err != nil {
			t.Fatal(err)
		}
		same(t, itemIDs(t, s, store.ItemFilter{Kind: "run-step", After: first.Mark(), Limit: 1}), []string{"b"})
		healthy(t, s)
	})
}

func TestAnItemIsReplacedAtTheVersionThatWasNamed(t *testing.T) {
	s := open(t)
	made := putItem(t, s, store.Item{Kind: "dataset", ID: "d", Title: "one"}, 0)
	_, err := s.PutItem(t.Context(), store.Item{Kind: "dataset", ID: "d"}, 0)
	wants(t, err, tidemark.ErrExists)
	changed := putItem(t, s, store.Item{Kind: "dataset", ID: "d", Title: "two"}, made.Version)
	if !changed.CreatedAt.Equal(made.CreatedAt) || changed.Version != 2 {
		t.Errorf("after a change %+v, made as %+v", changed, made)
	}
	_, err = s.PutItem(t.Context(), store.Item{Kind: "dataset", ID: "d", Title: "late"}, made.Version)
	wants(t, err, tidemark.ErrConflict)
	wants(t, s.RemoveItem(t.Context(), "dataset", "d", made.Version), tidemark.ErrConflict)
	if err := s.RemoveItem(t.Context(), "dataset", "d", changed.Version); err != nil {
		t.Fatal(err)
	}
	_, err = s.Item(t.Context(), "dataset", "d")
	wants(t, err, tidemark.ErrNotFound)
	wants(t, s.RemoveItem(t.Context(), "dataset", "d", store.AnyVersion), tidemark.ErrNotFound)
}

func TestOfConcurrentChangesOfAnItemOneWins(t *testing.T) {
	s := open(t)
	made := putItem(t, s, store.Item{Kind: "dataset", ID: "d"}, 0)
	var wg sync.WaitGroup
	won := make(chan int, 20)
	for n := range cap(won) {
		wg.Go(func() {
			if _, err := s.PutItem(t.Context(), store.Item{Kind: "dataset", ID: "d", Title: fmt.Sprint(n)}, made.Version); err == nil {
				won <- n
			}
		})
	}
	wg.Wait()
	same(t, len(won), 1)
}

func TestItemsThatCannotBeKeptAreRefused(t *testing.T) {
	s := open(t)
	for name, i := range map[string]store.Item{
		"no kind":        {ID: "x"},
		"another kind":   {Kind: "Run/Step", ID: "x"},
		"a long kind":    {Kind: strings.Repeat("k", 29), ID: "x"},
		"no id":          {Kind: "dataset"},
		"a path":         {Kind: "dataset", ID: "../x"},
		"no object":      {Kind: "dataset", ID: "x", Data: json.RawMessage(`[1]`)},
		"null":           {Kind: "dataset", ID: "x", Data: json.RawMessage(`null`)},
		"no JSON":        {Kind: "dataset", ID: "x", Data: json.RawMessage(`{`)},
		"no session":     {Kind: "dataset", ID: "x", Session: "nobody"},
		"too large":      {Kind: "dataset", ID: "x", Data: json.RawMessage(`{"x":"` + strings.Repeat("x", store.MaxItemBytes) + `"}`)},
		"a long title":   {Kind: "dataset", ID: "x", Title: strings.Repeat("x", 2000)},
		"a dashed kind":  {Kind: "-dataset", ID: "x"},
		"a double dash":  {Kind: "data--set", ID: "x"},
		"a kind of dash": {Kind: "-", ID: "x"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.PutItem(t.Context(), i, store.AnyVersion)
			wants(t, err, tidemark.ErrInvalid)
		})
	}
}

func TestSecretsInItemsAreMasked(t *testing.T) {
	s, b := redacting(store.RedactMask)
	i := putItem(t, s, store.Item{Kind: "dataset", ID: "d", Title: "sesame-one", Data: json.RawMessage(`{"key":"sesame-two"}`)}, 0)
	if text := kept(t, b); strings.Contains(text, "sesame-one") || strings.Contains(text, "sesame-two") {
		t.Errorf("kept: %s", text)
	}
	if !json.Valid(i.Data) || bytes.Contains(i.Data, []byte("sesame-two")) {
		t.Errorf("returned: %s", i.Data)
	}
}

// salted names things otherwise than other stores do, as a sealed one does.
type salted struct {
	*memory.Backend
	salt string
}

func (s *salted) Hash(parts ...string) string {
	sum := sha256.Sum256([]byte(s.salt + strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:12])
}

func TestItemsMoveToAStoreThatNamesThingsOtherwise(t *testing.T) {
	from := open(t)
	session := tidemark.NewSessionID()
	putItem(t, from, store.Item{Kind: "run-step", ID: "a", Session: session, Parent: "r", Data: json.RawMessage(`{"sequence":1}`)}, 0)
	putItem(t, from, store.Item{Kind: "dataset", ID: "b"}, 0)
	var all bytes.Buffer
	if _, err := archive.Write(t.Context(), &all, from.Records().Backend(), nil); err != nil {
		t.Fatal(err)
	}
	inner := &salted{memory.New(), "other"}
	to := store.New(inner, nil)
	if _, err := archive.Read(t.Context(), &all, inner, &archive.ReadOptions{Change: to.Refile}); err != nil {
		t.Fatal(err)
	}
	got, err := to.Item(t.Context(), "run-step", "a")
	if err != nil {
		t.Fatal(err)
	}
	same(t, string(got.Data), `{"sequence":1}`)
	same(t, itemIDs(t, to, store.ItemFilter{Kind: "run-step", Session: session}), []string{"a"})
	same(t, itemIDs(t, to, store.ItemFilter{Kind: "run-step", Parent: "r"}), []string{"a"})
	same(t, itemIDs(t, to, store.ItemFilter{Kind: "dataset"}), []string{"b"})
}

func TestPartsAreRemovedWithTheirWhole(t *testing.T) {
	s := open(t)
	for n := range 250 {
		putItem(t, s, store.Item{Kind: "optimization-result", ID: fmt.Sprintf("r.%d", n), Parent: "r"}, 0)
	}
	putItem(t, s, store.Item{Kind: "optimization-result", ID: "q.1", Parent: "q"}, 0)
	if err := s.RemoveParts(t.Context(), "optimization-result", "r"); err != nil {
		t.Fatal(err)
	}
	same(t, itemIDs(t, s, store.ItemFilter{Kind: "optimization-result"}), []string{"q.1"})
}

func TestAMemoryIsChangedAtItsVersion(t *testing.T) {
	s := open(t)
	m, _, err := s.Remember(t.Context(), store.Memory{Project: "/p", Text: "Tabs, not spaces."})
	if err != nil {
		t.Fatal(err)
	}
	m.Text = "Spaces, not tabs."
	now, err := s.PutMemory(t.Context(), m, 1)
	if err != nil || now.Version != 2 || !now.At.Equal(m.At) {
		t.Fatalf("%+v, %v", now, err)
	}
	_, err = s.PutMemory(t.Context(), m, 1)
	wants(t, err, tidemark.ErrConflict)
	wants(t, s.ForgetAt(t.Context(), m.ID, 1), tidemark.ErrConflict)
	var texts []string
	for m, err := range s.MemoriesAfter(t.Context(), "/p", store.Mark{}) {
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, m.Text)
	}
	same(t, texts, []string{"Spaces, not tabs."})
	if err := s.ForgetAt(t.Context(), m.ID, 2); err != nil {
		t.Fatal(err)
	}
	_, err = s.MemoryAt(t.Context(), m.ID)
	wants(t, err, tidemark.ErrNotFound)
}
