package open

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/prices"
	"github.com/tidemark-sessions/tidemark/internal/yaml"
	"github.com/tidemark-sessions/tidemark/redact"
	"github.com/tidemark-sessions/tidemark/store"
)

// DefaultURL is the URL of a user's store when neither they nor their
// environment and configuration name one.
func DefaultURL(environ []string) (string, error) {
	dir, err := DataDir(environ)
	return "sqlite:" + filepath.Join(dir, "tidemark.db"), err
}

// ownURL returns the URL of the user's own store. It also takes the settings for
// secrets and prices from the user's configuration, where Options have none.
func (k *opener) ownURL() (string, error) {
	c, err := k.userConfig()
	if err != nil {
		return "", err
	}
	if k.Redact == store.RedactWarn && c.Redact != "" {
		k.Redact = store.Redaction(c.Redact)
	}
	if k.RedactRules == nil {
		k.RedactRules = c.RedactRules
	}
	if k.Prices == "" {
		k.Prices = c.Prices
	}
	if url := Getenv(k.Environ, "TIDEMARK_STORE"); url != "" {
		return url, nil
	}
	if c.Store != "" {
		return c.Store, nil
	}
	return DefaultURL(k.Environ)
}

// userConfig is the part of the user's configuration that concerns the store.
// The rest is the program's.
type userConfig struct {
	Store       string         `yaml:"store"`
	Redact      string         `yaml:"redact"`
	RedactRules []redact.Rule  `yaml:"redact_rules"`
	Prices      string         `yaml:"prices"`
	Rest        map[string]any `yaml:",inline"`
}

// userConfig reads the user's config.yaml, where there is one.
func (k *opener) userConfig() (c userConfig, err error) {
	dir, err := ConfigDir(k.Environ)
	if err != nil {
		return c, err
	}
	file := filepath.Join(dir, "config.yaml")
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return c, tidemark.Invalidf("configuration: %w", err)
	}
	defer f.Close()
	if err := yaml.ReadSettings("configuration", file, f, &c); err != nil {
		return c, err
	}
	if c.Prices != "" {
		c.Prices = Beside(k.Environ, file, c.Prices)
	}
	return c, nil
}

// Beside returns the path of a file that a configuration names: ~ is the home
// folder, and a relative path is relative to the configuration file.
func Beside(environ []string, config, name string) string {
	if rest, ok := strings.CutPrefix(name, "~/"); ok {
		if home, err := homeDir(environ); err == nil {
			return filepath.Join(home, rest)
		}
	}
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(filepath.Dir(config), name)
}

// price returns the function that prices an answer, from the built-in table and the
// file that the options name.
func (k *opener) price() (func(string, time.Time, tidemark.Usage) (store.Estimate, bool), error) {
	table := sync.OnceValue(prices.BuiltIn) // most commands price nothing
	if k.Prices != "" {
		added, err := readPrices(table(), k.Prices)
		if err != nil {
			return nil, err
		}
		table = func() *prices.Table { return added }
	}
	return func(model string, at time.Time, u tidemark.Usage) (store.Estimate, bool) {
		usd, known := table().Cost(model, at, u)
		asOf, _ := table().AsOf(model)
		return store.Estimate{USD: usd, AsOf: asOf}, known
	}, nil
}

func readPrices(table *prices.Table, name string) (*prices.Table, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, tidemark.Invalidf("configuration: prices: %w", err)
	}
	defer f.Close()
	var added prices.File
	if err := yaml.ReadSettings("prices", name, f, &added); err != nil {
		return nil, err
	}
	if table, err = table.With(added); err != nil {
		return nil, tidemark.Invalidf("prices %s: %w", name, err)
	}
	return table, nil
}
