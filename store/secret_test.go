package store_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/store"
)

var open5 = regexp.MustCompile(`sesame-[a-z]+`)

// sesames finds words that begin with sesame-.
func sesames(e tidemark.Entry) (found []store.Secret) {
	e.EachText(func(i int, text string, _ bool) string {
		for _, at := range open5.FindAllStringIndex(text, -1) {
			found = append(found, store.Secret{Text: i, From: at[0], To: at[1], Rule: "sesame"})
		}
		return text
	})
	return found
}

func redacting(mode store.Redaction) (*store.Store, *memory.Backend) {
	b := memory.New()
	return store.New(b, &store.Options{Secrets: sesames, Redact: mode, Places: plainPlaces}), b
}

// kept returns all that a backend has, as one text.
func kept(t *testing.T, b *memory.Backend) string {
	t.Helper()
	var all strings.Builder
	for k, err := range b.Walk(t.Context(), tidemark.Key{}) {
		if err != nil {
			t.Fatal(err)
		}
		if r, err := b.Get(t.Context(), k); err == nil {
			all.Write(r.Body)
		}
		for l, err := range b.Lines(t.Context(), k) {
			if err != nil {
				t.Fatal(err)
			}
			all.Write(l.Body)
		}
	}
	return all.String()
}

func toolCall() tidemark.Entry {
	return tidemark.Entry{Role: tidemark.Assistant, Blocks: []tidemark.Block{
		{Type: tidemark.BlockToolUse, ID: "1", Name: "bash", Input: json.RawMessage(`{"run":"login sesame-street"}`)}}}
}

func TestSecretsAreMaskedBeforeTheyAreWritten(t *testing.T) {
	s, b := redacting(store.RedactMask)
	w := s.Create(tidemark.Session{Title: "try sesame-seed"}, who("test"))
	add(t, w, user("say sesame-open and sesame-open again"), toolCall())
	if all := kept(t, b); strings.Contains(all, "sesame-") {
		t.Errorf("a secret was kept: %s", all)
	}
	v := view(t, s, w.ID())
	got := texts(t, v.Path(t.Context(), 0))[0]
	if n := len(tidemark.Fingerprints(got)); n != 2 || !strings.HasPrefix(got, "say [redacted:sesame:") {
		t.Errorf("reads %q", got)
	}
	for e, err := range v.Path(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if again, err := v.Reveal(t.Context(), e); err != nil || again.Text() != e.Text() {
			t.Errorf("a mask revealed %q, %v", again.Text(), err)
		}
	}
	healthy(t, s)
}

func TestTheVaultGivesAMaskedSecretBack(t *testing.T) {
	s, _ := redacting(store.RedactVault)
	w := begin(t, s, user("say sesame-open"), toolCall())
	add(t, w, user("sesame-open once more"))
	f, err := s.Fork(t.Context(), w.ID(), 0, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []tidemark.SessionID{w.ID(), f.ID} {
		v := view(t, s, id)
		var shown, revealed []string
		for e, err := range v.Path(t.Context(), 0) {
			if err != nil {
				t.Fatal(err)
			}
			r, err := v.Reveal(t.Context(), e)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range []struct {
				e  tidemark.Entry
				to *[]string
			}{{e, &shown}, {r, &revealed}} {
				text := e.e.Text()
				if len(e.e.Blocks[0].Input) > 0 {
					text = string(e.e.Blocks[0].Input)
				}
				*e.to = append(*e.to, text)
			}
		}
		if strings.Contains(strings.Join(shown, ""), "sesame-") {
			t.Errorf("shown: %q", shown)
		}
		same(t, revealed, []string{"say sesame-open", `{"run":"login sesame-street"}`, "sesame-open once more"})
	}
}

func TestWarningWritesAsItIs(t *testing.T) {
	var warned []store.Secret
	s := store.New(memory.New(), &store.Options{Secrets: sesames, Redact: store.RedactWarn,
		Warn: func(_ string, found []store.Secret) { warned = append(warned, found...) }})
	w := begin(t, s, user("say sesame-open"))
	same(t, texts(t, view(t, s, w.ID()).Path(t.Context(), 0)), []string{"say sesame-open"})
	same(t, warned, []store.Secret{{Text: 0, From: 4, To: 15, Rule: "sesame"}})
}

func markAll(t *testing.T, v *store.View) (marked int) {
	t.Helper()
	open := v.Unmasked()
	for e, err := range open.Log(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		secrets, err := open.FindSecrets(t.Context(), e)
		if err != nil {
			t.Fatal(err)
		}
		if err := open.MarkSecrets(t.Context(), e.Seq, secrets); err != nil {
			t.Fatal(err)
		}
		marked += len(secrets)
	}
	return marked
}

func TestMarkedSecretsAreMaskedForEveryReader(t *testing.T) {
	s, b := redacting(store.RedactOff)
	w := begin(t, s, user("say sesame-open"), user("hello"), user("sesame-a sesame-b"))
	if _, err := w.AppendTo(t.Context(), "scout", user("worker sesame-c")); err != nil {
		t.Fatal(err)
	}
	before := kept(t, b)
	f, err := s.Fork(t.Context(), w.ID(), 1, "fork")
	if err != nil {
		t.Fatal(err)
	}
	v := view(t, s, w.ID())
	same(t, markAll(t, v), 3)
	scout, err := v.Worker(t.Context(), "scout")
	if err != nil {
		t.Fatal(err)
	}
	same(t, markAll(t, scout), 1)
	v = view(t, s, w.ID())
	scout, _ = v.Worker(t.Context(), "scout")
	for name, got := range map[string][]string{
		"path": texts(t, v.Path(t.Context(), 0)), "tail": texts(t, v.Tail(t.Context(), 0, 3)),
		"log": texts(t, v.Log(t.Context())), "before": texts(t, v.Before(t.Context(), 2, 1)),
		"worker": texts(t, scout.Log(t.Context())), "fork": texts(t, view(t, s, f.ID).Path(t.Context(), 0)),
	} {
		if all := strings.Join(got, " "); strings.Contains(all, "sesame-") || !strings.Contains(all, "[redacted:sesame:") {
			t.Errorf("%s reads %q", name, all)
		}
	}
	same(t, markAll(t, v), 0)
	same(t, len(hits(t, s, lookFor("sesame-open"))), 0)
	if !strings.Contains(kept(t, b), "sesame-open") || !strings.Contains(before, "sesame-open") {
		t.Error("marking rewrote what is kept")
	}
	// What a fork keeps of a purged past is what it was allowed to see.
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Purge(t.Context(), w.ID(), who("test")); err != nil {
		t.Fatal(err)
	}
	if all := kept(t, b); strings.Contains(all, "sesame-") {
		t.Errorf("after the purge a secret is kept: %s", all)
	}
	healthy(t, s)
}

func TestALostMarkMasksWhatCanBeFound(t *testing.T) {
	s, b := redacting(store.RedactOff)
	w := begin(t, s, user("say sesame-open"))
	markAll(t, view(t, s, w.ID()))
	if _, err := b.Commit(t.Context(), tidemark.Batch{ID: tidemark.NewBatchID(), At: view(t, s, w.ID()).CreatedAt,
		Drops: []tidemark.Key{{Kind: "notes", ID: string(w.ID())}}}); err != nil {
		t.Fatal(err)
	}
	if got := texts(t, view(t, s, w.ID()).Path(t.Context(), 0)); strings.Contains(got[0], "sesame-") {
		t.Errorf("reads %q", got)
	}
}

func TestWhatAForkMaskedIsMaskedInASearchOfTheTrash(t *testing.T) {
	s, _ := redacting(store.RedactOff)
	w := begin(t, s, user("say sesame-open"))
	f, err := s.Fork(t.Context(), w.ID(), 0, "fork")
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Trash(t.Context(), w.ID()); err != nil {
		t.Fatal(err)
	}
	same(t, markAll(t, view(t, s, f.ID)), 1)
	same(t, len(hits(t, s, lookFor("sesame-open"))), 0)
	for _, hit := range hits(t, s, lookFor("say")) {
		if strings.Contains(hit, "sesame-") {
			t.Errorf("a search shows %s", hit)
		}
	}
}

func TestAPurgeLeavesForksWhatTheirMasksStandFor(t *testing.T) {
	s, b := redacting(store.RedactVault)
	w := begin(t, s, user("say sesame-open"))
	add(t, w, user("beside the path: sesame-other"))
	add(t, w, after(1, user("say sesame-open again")))
	f, err := s.Fork(t.Context(), w.ID(), 0, "fork")
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Purge(t.Context(), w.ID(), who("test")); err != nil {
		t.Fatal(err)
	}
	v := view(t, s, f.ID)
	for e, err := range v.Path(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if e, err = v.Reveal(t.Context(), e); err != nil || !strings.HasPrefix(e.Text(), "say sesame-open") {
			t.Errorf("revealed %q, %v", e.Text(), err)
		}
	}
	if all := kept(t, b); strings.Contains(all, "sesame-other") {
		t.Errorf("the fork got a secret of a branch that it does not share: %s", all)
	}
}

func TestTitlesLabelsAndTagsAreMaskedToo(t *testing.T) {
	s, b := redacting(store.RedactMask)
	w := s.Create(tidemark.Session{Title: "t sesame-a", Agent: "sesame-b", Tags: []string{"sesame-c"}, Extra: json.RawMessage(`{"x":"sesame-d"}`)}, who("test"))
	add(t, w, user("hello"))
	for _, err := range []error{
		s.Rename(t.Context(), w.ID(), "again sesame-e"),
		s.Label(t.Context(), w.ID(), 1, "here sesame-f"),
		s.Tag(t.Context(), w.ID(), []string{"sesame-g"}, nil),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if all := kept(t, b); strings.Contains(all, "sesame-") {
		t.Errorf("a secret was kept: %s", all)
	}
}
