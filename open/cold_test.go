package open_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/cold"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/transfer/remote"
	"github.com/tidemark-sessions/tidemark/workshop/placetest"
)

// talk makes a session of many entries and returns it.
func talk(t *testing.T, o *open.Opened) tidemark.SessionID {
	t.Helper()
	w := o.Store.Create(tidemark.Session{Title: "the tide book"}, store.Self("test"))
	for n := range 150 {
		if _, err := w.Append(t.Context(), tidemark.Say(tidemark.User, fmt.Sprintf("canary %d %s %s", n, noise(n), strings.Repeat("noon ", 400)))); err != nil {
			t.Fatal(err)
		}
	}
	id := w.ID()
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return id
}

// noise is text that compression does not make much shorter: what is left of a
// sealed session has to be worth a segment.
func noise(n int) string {
	p := make([]byte, 400)
	rand.NewChaCha8([32]byte{byte(n)}).Read(p)
	return hex.EncodeToString(p)
}

func said(t *testing.T, o *open.Opened, id tidemark.SessionID) (texts []string) {
	t.Helper()
	v, err := o.Store.View(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	for e, err := range v.Log(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, fmt.Sprint(e.Seq, e.Blocks))
	}
	return texts
}

// at returns the files below a folder, without the lock of a place.
func at(t *testing.T, dir string) (names []string, content []byte) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "lock" {
			return err
		}
		data, err := os.ReadFile(path)
		names, content = append(names, path), append(content, data...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names, content
}

func placesOf(environ []string) func(context.Context, string) (cold.Place, error) {
	return func(ctx context.Context, url string) (cold.Place, error) {
		return remote.Open(ctx, url, &remote.Options{Environ: environ})
	}
}

var moveAll = open.ColdMove{Older: time.Nanosecond, Progress: func(string, ...any) {}, Skipped: func(error) {}}

func TestQuietSessionsGoToStorageAndAreReadFromThere(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]string{"sqlite": "sqlite:", "files": "files:"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s3 := placetest.S3(t, "..")
			dir, environ := home(t)
			environ = append(environ, s3.Options.Environ...)
			environ = append(environ, open.ColdVariable+"="+s3.URL("cold"))
			url := kind + filepath.Join(dir, "store")
			o, err := open.Open(t.Context(), url, &open.Options{Access: open.Create, Environ: environ, ColdPlace: placesOf(environ)})
			if err != nil {
				t.Fatal(err)
			}
			id := talk(t, o)
			want := said(t, o, id)
			did, err := o.MoveQuiet(t.Context(), moveAll)
			if err != nil || did.Logs != 1 || did.Lines != 150-64 {
				t.Fatalf("MoveQuiet = %+v, %v", did, err)
			}
			objects, content := at(t, s3.Dir)
			if len(objects) == 0 || bytes.Contains(content, []byte("canary")) || bytes.Contains(content, []byte("tide book")) {
				t.Errorf("%d objects at the place, with plain text: %v", len(objects), bytes.Contains(content, []byte("canary")))
			}
			o.Close()

			// Another program reads them without being told where they are.
			environ = open.Without(environ, open.ColdVariable)
			o, err = open.Open(t.Context(), url, &open.Options{Access: open.Write, Environ: environ, ColdPlace: placesOf(environ)})
			if err != nil {
				t.Fatal(err)
			}
			if got := said(t, o, id); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Error("what is read is not what was said")
			}
			for err := range o.Store.VerifyAll(t.Context(), nil) {
				t.Errorf("VerifyAll: %v", err)
			}

			// Without the storage, what is here is here.
			s3.Kill()
			o.Close()
			if o, err = open.Open(t.Context(), url, &open.Options{Access: open.Write, Environ: environ, ColdPlace: placesOf(environ)}); err != nil {
				t.Fatal(err)
			}
			defer o.Close()
			v, err := o.Store.View(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			tail := 0
			for _, err := range v.Tail(t.Context(), 0, 20) {
				if tail++; err != nil {
					t.Errorf("the tail: %v", err)
				}
			}
			failed := error(nil)
			for _, err := range v.Log(t.Context()) {
				failed = err
			}
			if tail != 20 || !errors.Is(failed, tidemark.ErrStorage) || !strings.Contains(failed.Error(), "s3://"+placetest.Bucket) {
				t.Errorf("%d lines of the tail, and the rest: %v", tail, failed)
			}
			if err := o.Store.Destroy(t.Context(), id, store.Self("test")); err != nil {
				t.Errorf("Destroy = %v", err)
			}
			if err := o.ColdLeft(t.Context()); !errors.Is(err, tidemark.ErrStorage) || open.Hint(err) == "" {
				t.Errorf("ColdLeft = %v", err)
			}
		})
	}
}

func TestAPurgeReachesTheColdPlace(t *testing.T) {
	t.Parallel()
	dir, environ := home(t)
	place := filepath.Join(dir, "cold")
	if err := os.Mkdir(place, 0o700); err != nil {
		t.Fatal(err)
	}
	o, err := open.Open(t.Context(), "sqlite:"+filepath.Join(dir, "a.db"), &open.Options{Access: open.Create, Environ: environ, Plain: true, ColdPlace: placesOf(environ), Cold: "file:" + place})
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	id, held := talk(t, o), talk(t, o)
	if err := o.Store.Hold(t.Context(), held, true); err != nil {
		t.Fatal(err)
	}
	want := said(t, o, held)
	if did, err := o.MoveQuiet(t.Context(), moveAll); err != nil || did.Logs != 2 {
		t.Fatalf("MoveQuiet = %+v, %v", did, err)
	}
	both, _ := at(t, place)
	if err := o.Store.Destroy(t.Context(), id, store.Self("test")); err != nil {
		t.Fatal(err)
	}
	if err := o.Store.Destroy(t.Context(), held, store.Self("test")); !errors.Is(err, tidemark.ErrOnHold) {
		t.Errorf("what is on hold: %v", err)
	}
	if left, _ := at(t, place); len(left) == 0 || len(left)*2 != len(both) {
		t.Errorf("%d of %d objects are left", len(left), len(both))
	}
	if got := said(t, o, held); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Error("what is on hold is not what was said")
	}
	if n, err := o.BringBack(t.Context(), held); n != 1 || err != nil {
		t.Errorf("BringBack = %d, %v", n, err)
	}
	if left, _ := at(t, place); len(left) != 0 {
		t.Errorf("%q are left", left)
	}
	if got := said(t, o, held); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Error("what came back is not what was said")
	}
}

func TestQuietSessionsArePackedInAPlainStore(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]string{"sqlite": "sqlite:", "files": "files:"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, environ := home(t)
			reopen := func(name string, plain bool) *open.Opened {
				o, err := open.Open(t.Context(), kind+filepath.Join(dir, name), &open.Options{Access: open.Create, Environ: environ, Plain: plain, Cold: cold.Here})
				if err != nil {
					t.Fatal(err)
				}
				return o
			}
			o := reopen("plain", true)
			id := talk(t, o)
			want := said(t, o, id)
			if did, err := o.MoveQuiet(t.Context(), moveAll); err != nil || did.Lines != 150-64 || did.Packed*3 > did.Bytes {
				t.Fatalf("MoveQuiet = %+v, %v", did, err)
			}
			o.Close()
			o = reopen("plain", true)
			defer o.Close()
			if got := said(t, o, id); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Error("what is read is not what was said")
			}
			for err := range o.Store.VerifyAll(t.Context(), nil) {
				t.Errorf("VerifyAll: %v", err)
			}
			if err := o.Store.Destroy(t.Context(), id, store.Self("test")); err != nil {
				t.Error(err)
			}
			for k, err := range cold.Under(o.Inner).Walk(t.Context(), tidemark.Key{}) {
				if k.Kind == cold.Kind || err != nil {
					t.Errorf("%s is left, %v", k, err)
				}
			}
			sealed := reopen("sealed", false)
			defer sealed.Close()
			if _, err := sealed.MoveQuiet(t.Context(), moveAll); !errors.Is(err, tidemark.ErrUnsupported) || open.Hint(err) == "" {
				t.Errorf("of an encrypted store: %v", err)
			}
		})
	}
}
