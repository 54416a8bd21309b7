package main

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/prices"
	"github.com/tidemark-sessions/tidemark/store"
)

// price returns what says how much an answer costs: the table in the program,
// with what the file says that the configuration names.
func (a *app) price() (func(string, time.Time, tidemark.Usage) (store.Estimate, bool), error) {
	table := prices.BuiltIn()
	if name := a.config.Prices; name != "" {
		var err error
		if table, err = readPrices(table, beside(a.config.origins["prices"], name)); err != nil {
			return nil, err
		}
	}
	return func(model string, at time.Time, u tidemark.Usage) (store.Estimate, bool) {
		usd, known := table.Cost(model, at, u)
		asOf, _ := table.AsOf(model)
		return store.Estimate{USD: usd, AsOf: asOf}, known
	}, nil
}

// beside is where a file is that a configuration names: ~ is the home folder,
// and a relative path starts at the configuration.
func beside(config, name string) string {
	if rest, ok := strings.CutPrefix(name, "~/"); ok {
		if home, err := os.UserHomeDir(); err == nil {
			return filepath.Join(home, rest)
		}
	}
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(filepath.Dir(config), name)
}

func readPrices(table *prices.Table, name string) (*prices.Table, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, tidemark.Invalidf("configuration: prices: %w", err)
	}
	defer f.Close()
	var said prices.File
	if err := decodeYAML("prices", name, f, &said); err != nil {
		return nil, err
	}
	if table, err = table.With(said); err != nil {
		return nil, tidemark.Invalidf("prices %s: %w", name, err)
	}
	return table, nil
}
