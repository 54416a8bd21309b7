package remote_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/transfer/remote"
	"github.com/tidemark-sessions/tidemark/workshop/placetest"
)

func TestABucketKeepsItsPromises(t *testing.T) {
	t.Parallel()
	s := placetest.S3(t, "../..")
	for _, prefix := range []string{"", "team/ada_1"} {
		p := openPlace(t, s.URL(prefix), s.Options)
		keepsItsPromises(t, p)
	}
	// Each is a place of its own, and what else is in the bucket is nobody's blob.
	p := openPlace(t, s.URL("team"), s.Options)
	if err := os.WriteFile(filepath.Join(s.Dir, "team", "README.md"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := list(t, p, ""); got != nil {
		t.Errorf("beside: %q", got)
	}
	// A list has pages of a thousand.
	var want []string
	for n := range 1100 {
		want = append(want, fmt.Sprintf("b/%04d", n))
		path := filepath.Join(s.Dir, "many", want[n])
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("x"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for name, err := range openPlace(t, s.URL("many"), s.Options).List(t.Context(), "b/") {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, name)
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("%d of %d names are listed", len(got), len(want))
	}
}

func TestTwoThatWriteAsOneMachineAreNoticed(t *testing.T) {
	t.Parallel()
	s := placetest.S3(t, "../..")
	a, b := openPlace(t, s.URL("twice"), s.Options), openPlace(t, s.URL("twice"), s.Options)
	for _, p := range []remote.Blobs{a, b} {
		if _, err := p.Get(t.Context(), "m/1/head"); !errors.Is(err, tidemark.ErrNotFound) {
			t.Fatal(err)
		}
	}
	if err := a.Replace(t.Context(), "m/1/head", []byte("a")); err != nil {
		t.Fatal(err)
	}
	if err := b.Replace(t.Context(), "m/1/head", []byte("b")); !errors.Is(err, tidemark.ErrStorage) || !strings.Contains(err.Error(), "another store") {
		t.Errorf("over what it has not seen: %v", err)
	}
	if err := b.Replace(t.Context(), "m/1/head", []byte("b")); err != nil { // it has seen it now
		t.Error(err)
	}
	if err := a.Replace(t.Context(), "m/1/head", []byte("b")); err != nil { // the same is no harm
		t.Error(err)
	}
}

func TestABucketSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	s := placetest.S3(t, "../..")
	wrong := &remote.Options{Environ: []string{"AWS_ACCESS_KEY_ID=ada", "AWS_SECRET_ACCESS_KEY=no"}}
	for name, c := range map[string]struct {
		url        string
		o          *remote.Options
		says, hint string
	}{
		"no bucket":       {strings.Replace(s.URL(""), placetest.Bucket, "elsewhere", 1), s.Options, "there is no such bucket", "make it"},
		"a wrong key":     {s.URL(""), wrong, "does not allow", "check the key"},
		"another region":  {s.URL("") + "&region=eu-north-7", s.Options, "region", "region"},
		"nobody is there": {"s3://sessions/?endpoint=http://127.0.0.1:1", s.Options, "refused", "try again"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := openPlace(t, c.url, c.o)
			_, err := p.Get(t.Context(), "m/1/head")
			if !errors.Is(err, tidemark.ErrStorage) || !strings.Contains(err.Error(), c.says) || !strings.Contains(hint.Of(err), c.hint) {
				t.Errorf("%v\nhint: %s", err, hint.Of(err))
			}
			for _, listed := range p.List(t.Context(), "") {
				if !errors.Is(listed, tidemark.ErrStorage) {
					t.Errorf("listed: %v", listed)
				}
			}
		})
	}
	for _, url := range []string{"s3://", "s3://Bucket", "s3://ab/../x", "s3://key:secret@bucket/x", "s3://bucket/a b", "s3://bucket?token=x", "s3://bucket?endpoint=ftp://x", "s3://bucket?style=odd"} {
		if _, err := remote.Open(t.Context(), url, s.Options); !errors.Is(err, tidemark.ErrInvalid) {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestTheKeyOfABucketIsInTheUsualPlaces(t *testing.T) {
	t.Parallel()
	s := placetest.S3(t, "../..")
	home := t.TempDir()
	file := filepath.Join(home, ".aws", "credentials")
	key := strings.TrimPrefix(s.Options.Environ[1], "AWS_SECRET_ACCESS_KEY=")
	text := "# mine\n[default]\naws_access_key_id=eve\naws_secret_access_key=no\n\n[ home ]\naws_access_key_id = ada\naws_secret_access_key = " + key + "\n"
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		url     string
		environ []string
		works   bool
	}{
		"a profile in the URL":         {s.URL("") + "&profile=home", []string{"HOME=" + home, "AWS_ACCESS_KEY_ID=eve", "AWS_SECRET_ACCESS_KEY=no"}, true},
		"a profile in the environment": {s.URL(""), []string{"HOME=" + home, "AWS_PROFILE=home"}, true},
		"another file":                 {s.URL(""), []string{"AWS_SHARED_CREDENTIALS_FILE=" + file, "AWS_PROFILE=home"}, true},
		"an endpoint and a region":     {"s3://" + placetest.Bucket, append(slices.Clone(s.Options.Environ), "AWS_ENDPOINT_URL="+s.Endpoint, "AWS_REGION=us-east-1"), true},
		"the default profile":          {s.URL(""), []string{"HOME=" + home}, false},
	} {
		p := openPlace(t, c.url, &remote.Options{Environ: c.environ})
		if err := p.Replace(t.Context(), "m/1/head", []byte(name)); (err == nil) != c.works {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := remote.Open(t.Context(), s.URL(""), &remote.Options{Environ: []string{"HOME=" + home, "AWS_PROFILE=none"}}); !errors.Is(err, tidemark.ErrDenied) {
		t.Errorf("no key at all: %v", err)
	}
}

func TestStorageWithoutConditionalWritesIsRefused(t *testing.T) {
	t.Parallel()
	var puts atomic.Int64
	f := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { puts.Add(1) }))
	defer f.Close()
	o := &remote.Options{Environ: []string{"AWS_ACCESS_KEY_ID=a", "AWS_SECRET_ACCESS_KEY=b"}}
	p := openPlace(t, "s3://bucket/x?endpoint="+f.URL, o)
	if err := p.PutNew(t.Context(), "ring/0000000001", []byte("x")); !errors.Is(err, tidemark.ErrStorage) || !strings.Contains(err.Error(), "conditional writes") || puts.Load() != 2 {
		t.Errorf("%v after %d", err, puts.Load())
	}
}

func TestAStorageThatIsBusyIsAskedAgain(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	faults := []string{"busy", "skewed", "cut"}
	skew := func(w http.ResponseWriter) {
		w.Header().Set("Date", time.Now().Add(5*time.Hour).UTC().Format(http.TimeFormat))
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, "<Error><Code>RequestTimeTooSkewed</Code></Error>")
	}
	f := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := int(asked.Add(1)) - 1
		switch {
		case n < len(faults) && faults[n] == "busy":
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, "<Error><Code>SlowDown</Code></Error>")
		case n < len(faults) && faults[n] == "cut":
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, "half")
		default:
			at, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
			if err != nil || time.Until(at) < 4*time.Hour {
				skew(w)
				return
			}
			fmt.Fprint(w, "whole")
		}
	}))
	defer f.Close()
	o := &remote.Options{Environ: []string{"AWS_ACCESS_KEY_ID=a", "AWS_SECRET_ACCESS_KEY=b", "AWS_SESSION_TOKEN=c"}}
	p := openPlace(t, "s3://bucket/x?endpoint="+f.URL, o)
	if got, err := p.Get(t.Context(), "m/1/head"); err != nil || string(got) != "whole" {
		t.Errorf("%q, %v", got, err)
	}
}

// TestAKeyThatNobodyKnowsIsNoMissingObject has a storage answer as some do to a key that
// they do not know. Taken for a missing object, all would be pushed again.
func TestAKeyThatNobodyKnowsIsNoMissingObject(t *testing.T) {
	t.Parallel()
	f := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, "<Error><Code>XAdminUserNotFound</Code><Message>No user exists with the provided access key ID.</Message></Error>")
	}))
	defer f.Close()
	o := &remote.Options{Environ: []string{"AWS_ACCESS_KEY_ID=a", "AWS_SECRET_ACCESS_KEY=b"}}
	p := openPlace(t, "s3://bucket/x?endpoint="+f.URL, o)
	if _, err := p.Get(t.Context(), "m/1/head"); !errors.Is(err, tidemark.ErrStorage) || errors.Is(err, tidemark.ErrNotFound) || !strings.Contains(hint.Of(err), "AWS_ACCESS_KEY_ID") {
		t.Errorf("%v, hint %q", err, hint.Of(err))
	}
}
