package due

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// maxCron is the longest cron expression. One that names every second is
// shorter.
const maxCron = 512

// ErrNeverFires means that no year has the date of a cron expression.
var ErrNeverFires = tidemark.Errorf(tidemark.ErrInvalid, "never fires")

// parseWalls reads a cron expression, and refuses one that never fires.
func parseWalls(expression string) (walls, error) {
	if len(expression) > maxCron {
		return walls{}, tidemark.Invalidf("cron %.60q...: %d bytes, at most %d are read", expression, len(expression), maxCron)
	}
	if strings.Contains(expression, "=") {
		return walls{}, tidemark.Invalidf("cron %.60q: a zone does not belong into it; it has a setting of its own", expression)
	}
	text := strings.ToLower(strings.TrimSpace(expression))
	if err := checkFields(strings.Fields(text)); err != nil {
		return walls{}, tidemark.Invalidf("cron %.60q: %w", expression, err)
	}
	w, err := readWalls(text)
	if err != nil {
		return walls{}, tidemark.Invalidf("cron %.60q: %w", expression, err)
	}
	const year2000 = 946684800
	if _, ok := w.next(year2000, year2000+cronSeconds); !ok {
		return walls{}, tidemark.Errorf(ErrNeverFires, "cron %.60q: never fires: there is no such date", expression)
	}
	return w, nil
}

// checkFields refuses what people read in different ways: an empty part of a
// list, and steps in a range of weekdays, since a week has seven days and Sunday
// two numbers.
func checkFields(fields []string) error {
	if len(fields) == 0 {
		return fmt.Errorf("is empty")
	}
	for i, field := range fields {
		for part := range strings.SplitSeq(field, ",") {
			if part == "" {
				return fmt.Errorf("field %d, %.20q, has an empty part", i+1, field)
			}
		}
	}
	if days := fields[len(fields)-1]; len(fields) >= 5 && strings.Contains(days, "/") && strings.Contains(days, "-") {
		return fmt.Errorf("steps in a range of week days, %.20q: name the days", days)
	}
	return nil
}

// LoadZone returns a zone by its name in the time zone database; "" is UTC.
func LoadZone(name string) (*time.Location, error) {
	if len(name) > 64 {
		return nil, tidemark.Invalidf("zone %.40q...: is not a time zone", name)
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, tidemark.Invalidf("zone %q: is not a time zone that is known here; one is called like Europe/Berlin", name)
	}
	return zone, nil
}

// bookSize is the number of cron expressions and of zones in each of the
// two generations that a Book caches: those used since it was last full,
// and those before. There are some 600 zones.
const bookSize = 2048

// Book answers when schedules are due. It caches the cron expressions and
// zones that it parsed, and nothing else: no clock, no file. The zero Book is
// ready, and safe for concurrent use.
type Book struct {
	crons shelf[walls]
	zones shelf[*time.Location]
}

// cron returns the instants of an expression in a zone.
func (b *Book) cron(expression, zone string) (*cronGrid, error) {
	w, err := b.crons.get(expression, parseWalls)
	if err != nil {
		return nil, err
	}
	location, err := b.zones.get(zone, LoadZone)
	if err != nil {
		return nil, err
	}
	return &cronGrid{wallClock{w, location}}, nil
}

// shelf caches parsed values by their text, as long as they are used.
type shelf[V any] struct {
	mu    sync.Mutex
	young map[string]V
	old   map[string]V
}

// get returns the result of read for key. Errors are not cached.
func (s *shelf[V]) get(key string, read func(string) (V, error)) (V, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v, ok := s.young[key]; ok {
		return v, nil
	}
	v, ok := s.old[key]
	if !ok {
		var err error
		if v, err = read(key); err != nil {
			return v, err
		}
	}
	if s.young == nil || len(s.young) >= bookSize {
		s.young, s.old = make(map[string]V), s.young
	}
	s.young[key] = v
	return v, nil
}
