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

	program, dir string
	port         int
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
	s, err := RunS3(program, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Kill() })
	return s
}

// RunS3 starts versitygw with an empty bucket below a folder.
func RunS3(program, dir string) (*S3Server, error) {
	s := &S3Server{Dir: filepath.Join(dir, "buckets", Bucket), Options: &remote.Options{Environ: []string{"AWS_ACCESS_KEY_ID=ada", "AWS_SECRET_ACCESS_KEY=" + secret}}, program: program, dir: dir}
	for _, d := range []string{s.Dir, filepath.Join(dir, "about")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, err
		}
	}
	// It is told a port that was free a moment ago; where another one took it since,
	// it is told another.
	var err error
	for range 5 {
		if s.port, err = freePort(); err != nil {
			return nil, err
		}
		if err = s.Start(); err == nil {
			return s, nil
		}
	}
	return nil, err
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

// Start starts it where it was before it was killed.
func (s *S3Server) Start() error {
	cmd := exec.Command(s.program, "--port", fmt.Sprintf("127.0.0.1:%d", s.port), "--quiet", "--health", "/health", "posix", "--sidecar", filepath.Join(s.dir, "about"), filepath.Join(s.dir, "buckets"))
	cmd.Env = []string{"ROOT_ACCESS_KEY=ada", "ROOT_SECRET_KEY=" + secret}
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	s.Endpoint = fmt.Sprintf("http://127.0.0.1:%d", s.port)
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		select {
		case err := <-ended:
			return fmt.Errorf("versitygw ended: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
		answer, err := http.Get(s.Endpoint + "/health")
		if err != nil {
			continue
		}
		answer.Body.Close()
		s.Kill = sync.OnceFunc(func() {
			cmd.Process.Kill()
			<-ended
		})
		return nil
	}
	cmd.Process.Kill()
	<-ended
	return fmt.Errorf("versitygw does not answer at %s", s.Endpoint)
}

// URL is the URL of a folder in the bucket.
func (s *S3Server) URL(prefix string) string {
	return "s3://" + Bucket + "/" + prefix + "?endpoint=" + s.Endpoint
}
