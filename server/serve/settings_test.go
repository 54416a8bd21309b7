package serve_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/server/serve"
)

// noFlags are the flags of somebody who gave none.
func noFlags(string) (string, bool) { return "", false }

// written is a folder with files.
func written(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// setting finds a setting by its name.
func setting(t *testing.T, c *serve.Config, name string) *serve.Setting {
	t.Helper()
	i := slices.IndexFunc(c.Settings(), func(s *serve.Setting) bool { return s.Name == name })
	if i < 0 {
		t.Fatalf("there is no setting %s", name)
	}
	return c.Settings()[i]
}

func TestAFlagBeatsTheEnvironmentAndThatTheFile(t *testing.T) {
	t.Parallel()
	dir := written(t, map[string]string{"serve.yaml": "addr: 127.0.0.1:1\nauth: oidc\noidc_issuer: https://file\noidc_audience: file\noidc_azp: [a, b]\nhost: [c.example]\npublic_url: https://file\n"})
	c := serve.Default()
	setting(t, c, "addr").Set("127.0.0.1:2")
	err := c.Complete(serve.Sources{File: filepath.Join(dir, "serve.yaml"), Store: "memory:", StoreOrigin: "test", Environ: []string{"OIDC_AZP=x,y", "OIDC_ISSUER=https://environment"},
		Flag: func(name string) (string, bool) { return "127.0.0.1:2", name == "addr" }})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][2]string{
		"addr": {"127.0.0.1:2", "flag --addr"}, "oidc-azp": {"x,y", "environment OIDC_AZP"}, "oidc-issuer": {"https://environment", "environment OIDC_ISSUER"},
		"host": {"c.example", filepath.Join(dir, "serve.yaml")}, "public-url": {"https://file", filepath.Join(dir, "serve.yaml")}, "log": {"json", "default"}, "store": {"memory:", "test"},
	} {
		if s := setting(t, c, name); s.Shown() != want[0] || s.Origin != want[1] {
			t.Errorf("%s is %q by %s, want %q by %s", name, s.Shown(), s.Origin, want[0], want[1])
		}
	}
}

func TestSecretsComeFromFilesAndAreNeverShown(t *testing.T) {
	t.Parallel()
	dir := written(t, map[string]string{"client": "of the client\n", "password": "p@ss/word\r\n", "owner": "postgres://owner:secret@db/tidemark\n",
		"serve.yaml": "store: postgres://server@db/tidemark\noidc_client_secret_file: client\ndatabase_password_file: password\n"})
	c := serve.Default()
	err := c.Complete(serve.Sources{Usual: filepath.Join(dir, "serve.yaml"), Environ: []string{"TIDEMARK_DATABASE_OWNER_FILE=" + filepath.Join(dir, "owner")}, Flag: noFlags})
	if err != nil {
		t.Fatal(err)
	}
	if c.OIDC.ClientSecret != "of the client" || c.Store != "postgres://server:p%40ss%2Fword@db/tidemark" {
		t.Errorf("the secret of the client is %q, the store %s", c.OIDC.ClientSecret, c.Store)
	}
	if env := c.Variables(nil); !slices.Contains(env, "TIDEMARK_DATABASE_OWNER=postgres://owner:secret@db/tidemark") {
		t.Errorf("the owner is not in %q", env)
	}
	for _, s := range c.Settings() {
		for _, secret := range []string{"of the client", "p%40ss", "p@ss", "owner:secret"} {
			if strings.Contains(s.Shown(), secret) {
				t.Errorf("%s shows %q", s.Name, s.Shown())
			}
		}
	}
}

func TestAFileThatIsWrongIsRefusedWithTheWayOut(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want, hint string }{
		"typo":                  {"addr: 127.0.0.1:0\noidc_isuer: x", `serve.yaml:2:1: "oidc_isuer" is no setting of a server`, "did you mean oidc_issuer?"},
		"unlike anything":       {"colour_of_the_sea: blue", `"colour_of_the_sea" is no setting`, "tidemark serve --help"},
		"a secret":              {"oidc_client_secret: geheim", "oidc_client_secret: a secret does not belong into this file", "oidc_client_secret_file: FILE"},
		"a password":            {"store: postgres://me:geheim@db/x", "serve.yaml:1:8: store: a password does not belong", "database_password_file"},
		"a password in a query": {"store: postgres://me@db/x?password=geheim", "a password does not belong", "database_password_file"},
		"a list for a text":     {"addr: [a, b]", "serve.yaml:1:7: addr: this is a list, and one value is meant", ""},
		"a mapping in a list":   {"host: [{a: b}]", "host: this is a mapping", ""},
		"no number":             {"limit_requests: 0", `limit_requests: "0": want a whole number from 1 on`, ""},
		"no truth":              {"migrate: perhaps", `migrate: "perhaps": want true or false`, ""},
		"no mapping":            {"- addr", "settings have names", "NAME: VALUE"},
		"no YAML":               {"addr: [", "serve.yaml:2:1: a value is missing", "brackets"},
		"twice":                 {"addr: a\naddr: b", `"addr" is there twice`, ""},
		"a missing file":        {"oidc_client_secret_file: nowhere", "oidc_client_secret_file: open", ""},
		"an empty secret":       {"oidc_client_secret_file: serve.yaml\nmigrate: true", "does not have one line with a secret", ""},
		"what does not exist":   {"auth: magic", `--auth "magic"`, ""},
	} {
		dir := written(t, map[string]string{"serve.yaml": c.text})
		err := serve.Default().Complete(serve.Sources{File: filepath.Join(dir, "serve.yaml"), Store: "memory:", Flag: noFlags})
		if !errors.Is(err, tidemark.ErrInvalid) || !strings.Contains(err.Error(), c.want) || !strings.Contains(hint.Of(err), c.hint) {
			t.Errorf("%s: %v (hint: %s)", name, err, hint.Of(err))
		} else if strings.Contains(err.Error()+hint.Of(err), "geheim") {
			t.Errorf("%s: the error says the secret: %v", name, err)
		}
	}
}

func TestLimitsAreSetInTheFile(t *testing.T) {
	t.Parallel()
	dir := written(t, map[string]string{"serve.yaml": "limit_requests: 100\nlimit_user_streams: 7\nlimit_body: 1048576\n"})
	c := serve.Default()
	if err := c.Complete(serve.Sources{File: filepath.Join(dir, "serve.yaml"), Store: "memory:", Flag: noFlags}); err != nil {
		t.Fatal(err)
	}
	l := c.Limits.WithDefaults()
	if l.Rate != 100 || l.User.Rate != 50 || l.User.Streams != 7 || l.Streams != 4096 || l.Body != 1<<20 {
		t.Errorf("the limits are %+v", l)
	}
}

func TestAFileThatNobodyNamedNeedNotExist(t *testing.T) {
	t.Parallel()
	nowhere := filepath.Join(t.TempDir(), "serve.yaml")
	if err := serve.Default().Complete(serve.Sources{Usual: nowhere, Store: "memory:", Flag: noFlags}); err != nil {
		t.Errorf("the usual one: %v", err)
	}
	if err := serve.Default().Complete(serve.Sources{Environ: []string{serve.FileVariable + "=" + nowhere}, Store: "memory:", Flag: noFlags}); !errors.Is(err, tidemark.ErrInvalid) {
		t.Errorf("one that was named: %v, want ErrInvalid", err)
	}
}
