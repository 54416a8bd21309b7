package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/agent/config"
	"github.com/tidemark-sessions/tidemark/store"
)

// files are a user's and a project's configuration with these texts.
func files(t *testing.T, user, project string) config.Files {
	t.Helper()
	dir := t.TempDir()
	f := config.Files{User: filepath.Join(dir, "config.yaml"), Project: dir, Home: func() (string, error) { return "/home/ada", nil }}
	for name, text := range map[string]string{f.User: user, filepath.Join(dir, ".tidemark.yaml"): project} {
		if text == "" {
			continue
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

func TestAProjectSaysNothingButColor(t *testing.T) {
	c, err := config.Load(files(t, "store: files:mine\ncolor: true\n", "color: false\n"))
	if err != nil || c.Store != "files:mine" || *c.Color || filepath.Base(c.Origin("color")) != ".tidemark.yaml" {
		t.Errorf("%+v, %v", c, err)
	}
	for _, says := range []string{"store: files:theirs", "retention: 1h", "redact: off", "model: theirs", "base_url: http://theirs", "prices: p.yaml", "cold: file:/theirs", "chat: {workers: 9}", "sandbox: {mode: off}"} {
		name, _, _ := strings.Cut(says, ":")
		if _, err := config.Load(files(t, "", says+"\n")); !errors.Is(err, tidemark.ErrInvalid) || !strings.Contains(err.Error(), name) {
			t.Errorf("a project says %s: %v", says, err)
		}
	}
}

func TestWhatIsNotConfiguredHasADefault(t *testing.T) {
	c, err := config.Load(files(t, "", ""))
	if err != nil || c.RetentionText() != "off" || c.Redaction() != store.RedactWarn || c.Origin("store") != "" {
		t.Errorf("%+v, %v", c, err)
	}
	f := files(t, "", "")
	f.Required = true
	if _, err := config.Load(f); !errors.Is(err, tidemark.ErrInvalid) {
		t.Errorf("a file that was named and is not there: %v", err)
	}
}

func TestWrongValuesAreRefused(t *testing.T) {
	for _, says := range []string{"redact: maybe", "retention: forever", "chat: {learn: perhaps}", "sandbox: {mode: perhaps}", "no_such_setting: 1", "store: ["} {
		if _, err := config.Load(files(t, says+"\n", "")); !errors.Is(err, tidemark.ErrInvalid) {
			t.Errorf("%s: %v", says, err)
		}
	}
	c, err := config.Load(files(t, "sandbox: {allow_write: [~/build]}\n", ""))
	if err != nil || c.Sandbox.Widening().Write[0] != filepath.Join("/home/ada", "build") {
		t.Errorf("%+v, %v", c.Sandbox, err)
	}
}
