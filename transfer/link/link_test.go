package link

import (
	"bytes"
	"compress/gzip"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/redact"
	"github.com/tidemark-sessions/tidemark/store"
)

// said returns a store that finds secrets as the program does, and a session in which
// texts are said.
func said(t *testing.T, texts ...string) store.Point {
	t.Helper()
	rules, err := redact.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	s := store.New(memory.New(), &store.Options{Secrets: func(e tidemark.Entry) (found []store.Secret) {
		e.EachText(func(i int, text string, _ bool) string {
			for _, one := range rules.Find(text) {
				found = append(found, store.Secret{Text: i, From: one.From, To: one.To, Rule: one.Rule})
			}
			return text
		})
		return found
	}})
	w := s.Create(tidemark.Session{Title: "the crane"}, store.Self("test"))
	for _, text := range texts {
		if _, err := w.Append(t.Context(), tidemark.Say(tidemark.User, text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	v, err := s.View(t.Context(), w.ID())
	if err != nil {
		t.Fatal(err)
	}
	return store.Point{View: v}
}

// opened decrypts a copy as docs/formats/link.md says.
func opened(t *testing.T, sealed []byte, key string) string {
	t.Helper()
	secret, err := base64.RawURLEncoding.DecodeString(key)
	if err != nil {
		t.Fatal(err)
	}
	block, err := aes.NewCipher(secret)
	if err != nil {
		t.Fatal(err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		t.Fatal(err)
	}
	packed, err := aead.Open(nil, sealed[1:13], sealed[13:], []byte("tidemark link 1"))
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	page, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

func TestARedactedCopyHasNoSecretAndTheRest(t *testing.T) {
	const secret = "AKIA" + "Q4WX7MZPL2TRNB5D"
	at := said(t, "lift the anchor", "the key is "+secret+", keep it", "set sail")
	for _, redacted := range []bool{false, true} {
		sealed, key, err := render(t.Context(), at, Options{Redact: redacted})
		if err != nil {
			t.Fatal(err)
		}
		page := opened(t, sealed, key)
		if strings.Contains(page, secret) == redacted {
			t.Errorf("redacted %v: the secret is there: %v", redacted, !redacted)
		}
		for _, text := range []string{"lift the anchor", "the key is ", ", keep it", "set sail", "the crane"} {
			if !strings.Contains(page, text) {
				t.Errorf("redacted %v: %q is missing", redacted, text)
			}
		}
	}
	file := bytes.Buffer{}
	made, err := WriteFile(t.Context(), at, Options{Redact: true}, "crane.html", func(write func(io.Writer) error) error { return write(&file) })
	if err != nil || !made.Redacted {
		t.Fatalf("%+v, %v", made, err)
	}
	_, rest, _ := strings.Cut(file.String(), `id="sealed">`)
	text, _, _ := strings.Cut(rest, "<")
	sealed, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	_, key, _ := strings.Cut(made.URL, "#")
	if page := opened(t, sealed, key); strings.Contains(page, secret) || !strings.Contains(page, "set sail") {
		t.Error("the file is not redacted, or not whole")
	}
}

func TestASessionThatIsTooLargeForALinkIsRefused(t *testing.T) {
	noise := make([]byte, 3<<20)
	texts := make([]string, 6)
	for i := range texts {
		rand.Read(noise)
		texts[i] = base64.StdEncoding.EncodeToString(noise)
	}
	_, _, err := render(t.Context(), said(t, texts...), Options{})
	if !errors.Is(err, tidemark.ErrInvalid) || !strings.Contains(err.Error(), "too large for a link: at most 128 MiB, and 16 MiB when it is packed") || !strings.Contains(hint.Of(err), "SESSION@NODE") {
		t.Errorf("%v; %s", err, hint.Of(err))
	}
}
