package remote_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/transfer/remote"
	"github.com/tidemark-sessions/tidemark/workshop/placetest"
)

func TestAFolderBehindSSHKeepsItsPromises(t *testing.T) {
	t.Parallel()
	s := placetest.SSH(t)
	dir := filepath.Join(t.TempDir(), "it's $(a) folder")
	if _, err := remote.Open(t.Context(), s.URL(dir, placetest.Program(t)), s.Options); !errors.Is(err, tidemark.ErrNotFound) || !strings.Contains(hint.Of(err), "there: ") {
		t.Errorf("a folder that is not there: %v; %s", err, hint.Of(err))
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	p := openPlace(t, s.URL(dir, placetest.Program(t)), s.Options)
	keepsItsPromises(t, p)
	// It is the same place as the folder itself.
	if got, err := openPlace(t, "file:"+dir, nil).Get(t.Context(), "m/1/b/aa/aabb"); err != nil || string(got) != "one" {
		t.Errorf("in the folder: %q, %v", got, err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if _, err := p.Get(t.Context(), "m/1/b/aa/aabb"); !errors.Is(err, tidemark.ErrStorage) {
		t.Errorf("after Close: %v", err)
	}
}

func TestAPlaceBehindSSHSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script := func(text string) string {
		path := filepath.Join(t.TempDir(), "tidemark")
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	empty := func(name string) func(*placetest.SSHServer) {
		return func(s *placetest.SSHServer) {
			if err := os.WriteFile(filepath.Join(s.Dir, name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, c := range map[string]struct {
		program    string
		before     func(*placetest.SSHServer)
		kind       error
		says, hint string
	}{
		"no program":       {program: "/nowhere/tidemark", kind: tidemark.ErrStorage, says: "there is no program /nowhere/tidemark", hint: "install tidemark there"},
		"unknown host key": {before: empty("known_hosts"), kind: tidemark.ErrDenied, says: "its host key is not known", hint: "connect once"},
		"another host key": {before: func(s *placetest.SSHServer) {
			known, err := os.ReadFile(filepath.Join(s.Dir, "known_hosts"))
			if err != nil {
				t.Fatal(err)
			}
			own, err := os.ReadFile(filepath.Join(s.Dir, "own_key.pub"))
			if err != nil {
				t.Fatal(err)
			}
			host, _, _ := strings.Cut(string(known), " ")
			if err := os.WriteFile(filepath.Join(s.Dir, "known_hosts"), []byte(host+" "+string(own)), 0o600); err != nil {
				t.Fatal(err)
			}
		}, kind: tidemark.ErrDenied, says: "another one than before", hint: "ssh-keygen -R"},
		"not let in":        {before: empty("authorized_keys"), kind: tidemark.ErrDenied, says: "ssh is not let in", hint: "without a password"},
		"an older program":  {program: script("echo 'tidemark: unknown command \"serve\"' >&2; exit 2"), kind: tidemark.ErrStorage, says: "unknown command", hint: "the same version"},
		"a newer program":   {program: script("echo tidemark blobs 2; cat >/dev/null"), kind: tidemark.ErrUnsupported, says: "speaks version \"2\"", hint: "the same version"},
		"something else":    {program: script("echo hello; exit 0"), kind: tidemark.ErrStorage, says: "no greeting"},
		"endless chatter":   {program: script("yes"), kind: tidemark.ErrStorage, says: "no greeting"},
		"a wrong answer":    {program: script("echo tidemark blobs 1; printf 'z\\0\\0\\0\\0'; cat >/dev/null"), kind: tidemark.ErrStorage, says: "an answer of kind"},
		"an endless answer": {program: script("echo tidemark blobs 1; printf 'e\\377\\377\\377\\377'; yes"), kind: tidemark.ErrStorage, says: "too many"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := placetest.SSH(t)
			if c.before != nil {
				c.before(s)
			}
			_, err := remote.Open(t.Context(), s.URL(dir, c.program), s.Options)
			if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) || !strings.Contains(hint.Of(err), c.hint) {
				t.Errorf("%v\nhint: %s", err, hint.Of(err))
			}
		})
	}
	t.Run("chatter before", func(t *testing.T) {
		t.Parallel()
		s := placetest.SSH(t)
		openPlace(t, s.URL(dir, script("echo Welcome; exec "+placetest.Program(t)+` "$@"`)), s.Options)
	})
	t.Run("a caller gives up", func(t *testing.T) {
		t.Parallel()
		s := placetest.SSH(t)
		p := openPlace(t, s.URL(dir, script("echo tidemark blobs 1; printf 'd\\0\\0\\0\\0'; exec cat >/dev/null")), s.Options)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(50*time.Millisecond, cancel)
		if _, err := p.Get(ctx, "m/1/head"); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		if _, err := p.Get(t.Context(), "m/1/head"); !errors.Is(err, tidemark.ErrStorage) {
			t.Errorf("after that: %v", err)
		}
	})
	t.Run("it breaks", func(t *testing.T) {
		t.Parallel()
		s := placetest.SSH(t)
		p := openPlace(t, s.URL(dir, script("echo tidemark blobs 1; printf 'd\\0\\0\\0\\0'; head -c 1 >/dev/null; echo the disk is gone >&2; exit 9")), s.Options)
		for range 2 {
			if err := p.Replace(t.Context(), "m/1/head", []byte("x")); !errors.Is(err, tidemark.ErrStorage) || !strings.Contains(err.Error(), "the disk is gone") {
				t.Errorf("%v", err)
			}
		}
	})
}

func TestSSHThatIsMissingIsNamed(t *testing.T) {
	o := &remote.Options{Environ: []string{remote.SSHVariable + "=/nowhere/ssh"}}
	if _, err := remote.Open(t.Context(), "ssh://host/path", o); !errors.Is(err, tidemark.ErrStorage) || !strings.Contains(hint.Of(err), "OpenSSH") {
		t.Errorf("%v; %s", err, hint.Of(err))
	}
}

// FuzzServe asks anything: only a folder is served, and nothing outside of it changes.
func FuzzServe(f *testing.F) {
	ask := func(op byte, name string, data string) []byte {
		q := binary.BigEndian.AppendUint16([]byte{op}, uint16(len(name)))
		q = binary.BigEndian.AppendUint32(append(q, name...), uint32(len(data)))
		return append(q, data...)
	}
	f.Add(ask('g', "m/1/head", ""))
	f.Add(append(ask('r', "m/1/head", "data"), ask('l', "", "")...))
	f.Add(append(ask('n', "../out", "data"), ask('l', "../", "")...))
	f.Add(ask('d', "/etc/passwd", ""))
	f.Add([]byte("g\x00\x01m\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, asked []byte) {
		top := t.TempDir()
		dir := filepath.Join(top, "place")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		err := remote.Serve(t.Context(), dir, bytes.NewReader(asked), &out)
		if err != nil && !errors.Is(err, tidemark.ErrInvalid) {
			t.Errorf("%v", err)
		}
		if all, err := os.ReadDir(top); err != nil || len(all) != 1 {
			t.Errorf("%d files beside the place, %v", len(all)-1, err)
		}
		if line, err := out.ReadString('\n'); err != nil || line != "tidemark blobs 1\n" {
			t.Errorf("greeting %q, %v", line, err)
		}
		for out.Len() > 0 { // whole answers and nothing else
			head := make([]byte, 5)
			if _, err := io.ReadFull(&out, head); err != nil || !strings.Contains("dne", string(head[:1])) {
				t.Fatalf("an answer begins with %q, %v", head, err)
			}
			if n := int(binary.BigEndian.Uint32(head[1:])); len(out.Next(n)) != n {
				t.Fatal("an answer is not whole")
			}
		}
	})
}
