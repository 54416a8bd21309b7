package placetest

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark/transfer/remote"
)

// S3Server is a running server that speaks S3, with one bucket.
type S3Server struct {
	Options  *remote.Options // has the key that it lets in
	Endpoint string
	Dir      string // where the bucket keeps its objects, each a file
	Kill     func() // ends it, as a power cut would
}

// Bucket is the bucket that an S3Server has.
const Bucket = "sessions"

// S3 starts a server that speaks S3, which ends with the test. It is the program
// versitygw, which scripts/deps.sh builds into the folder bin of root, the top of
// this tree.
func S3(t testing.TB, root string) *S3Server {
	t.Helper()
	program, err := filepath.Abs(filepath.Join(root, "bin", "versitygw"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(program); err != nil {
		t.Skip("there is no bin/versitygw: scripts/deps.sh brings it")
	}
	dir := t.TempDir()
	s := &S3Server{Dir: filepath.Join(dir, "buckets", Bucket),
		Options: &remote.Options{Environ: []string{"AWS_ACCESS_KEY_ID=ada", "AWS_SECRET_ACCESS_KEY=" + secret}}}
	for _, d := range []string{s.Dir, filepath.Join(dir, "about")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	// It is told a port that was free a moment ago; where another one took it since,
	// it is told another.
	for range 5 {
		port, err := freePort()
		if err != nil {
			t.Fatal(err)
		}
		if s.Endpoint, s.Kill, err = startS3(t, program, dir, port); err == nil {
			return s
		}
		t.Log(err)
	}
	t.Fatal("versitygw does not start")
	return nil
}

// secret is the key of a server that nobody else reaches, for as long as a test.
const secret = "correct-horse-battery"

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

func startS3(t testing.TB, program, dir string, port int) (endpoint string, kill func(), err error) {
	cmd := exec.Command(program, "--port", fmt.Sprintf("127.0.0.1:%d", port), "--quiet", "--health", "/health", "posix", "--sidecar", filepath.Join(dir, "about"), filepath.Join(dir, "buckets"))
	cmd.Env = []string{"ROOT_ACCESS_KEY=ada", "ROOT_SECRET_KEY=" + secret}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	at := fmt.Sprintf("http://127.0.0.1:%d", port)
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		select {
		case err := <-ended:
			return "", nil, fmt.Errorf("versitygw ended: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
		answer, err := http.Get(at + "/health")
		if err != nil {
			continue
		}
		answer.Body.Close()
		kill = sync.OnceFunc(func() {
			cmd.Process.Kill()
			<-ended
		})
		t.Cleanup(kill)
		return at, kill, nil
	}
	cmd.Process.Kill()
	<-ended
	return "", nil, fmt.Errorf("versitygw does not answer at %s", at)
}

// URL is the URL of a folder in the bucket.
func (s *S3Server) URL(prefix string) string {
	return "s3://" + Bucket + "/" + prefix + "?endpoint=" + s.Endpoint
}
