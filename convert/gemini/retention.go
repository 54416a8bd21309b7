package gemini

import (
	"encoding/json"
	"errors"
	"io/fs"
	"path"
	"strconv"

	"github.com/tidemark-sessions/tidemark/convert"
)

// keptDays is for how many days the client keeps a session by default.
const keptDays = 30

// retention reads how long the client keeps sessions. With settings that cannot be
// read it does not start.
func retention(p convert.Source) convert.Retention {
	r := convert.Retention{Days: keptDays, Change: `"general": {"sessionRetention": {"maxAge": "3650d"}} in settings.json`, Spares: []string{"."}}
	for _, below := range []string{".gemini", "."} {
		raw, err := convert.ReadFile(p.FS, path.Join(p.Path, below, "settings.json"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var settings struct {
			General struct {
				Retention struct {
					Enabled *bool  `json:"enabled"`
					MaxAge  string `json:"maxAge"`
				} `json:"sessionRetention"`
			} `json:"general"`
		}
		set := &settings.General.Retention
		switch {
		case err != nil || json.Unmarshal(raw, &settings) != nil || set.Enabled != nil && !*set.Enabled:
			r.Days = 0
		case set.MaxAge != "":
			r.Days = daysOf(set.MaxAge)
		}
		return r
	}
	return r
}

// maxDays bounds what is said about the future.
const maxDays = 100 * 365

// daysOf reads an age, such as 24h, 30d, 2w or 3m, in days, at least one; 0 if it is
// none, which the client does not act on.
func daysOf(age string) int {
	if age == "" {
		return 0
	}
	n, err := strconv.Atoi(age[:len(age)-1])
	if err != nil || n <= 0 || n > maxDays {
		return 0
	}
	switch age[len(age)-1] {
	case 'h':
		return max(n/24, 1)
	case 'd':
		return n
	case 'w':
		return 7 * n
	case 'm':
		return 30 * n
	}
	return 0
}
