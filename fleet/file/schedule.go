package file

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/fleet/due"
	"github.com/tidemark-sessions/tidemark/internal/yaml"
)

func (c *checker) scheduleFields(s *Schedule) fields {
	return fields{
		"name": func(n *yaml.Node) { s.Name = c.nameOf(n, "the schedule's name") },
		"type": func(n *yaml.Node) {
			s.Type = c.choice(n, "type", fleet.TypeInterval, fleet.TypeCron, fleet.TypeWebhook, fleet.TypeChat)
		},
		"every":  func(n *yaml.Node) { s.Every = c.span(n, "every", time.Second) },
		"cron":   func(n *yaml.Node) { s.Cron = c.cron(n) },
		"zone":   func(n *yaml.Node) { s.Zone = c.zone(n) },
		"jitter": func(n *yaml.Node) { s.Jitter = c.span(n, "jitter", 0) },
		"missed": func(n *yaml.Node) {
			s.Missed = c.choice(n, "missed", fleet.MissedSkip, fleet.MissedOnce, fleet.MissedAll)
		},
		"overlap": func(n *yaml.Node) {
			s.Overlap = c.choice(n, "overlap", fleet.OverlapSkip, fleet.OverlapQueue, fleet.OverlapReplace)
		},
		"from":       func(n *yaml.Node) { s.From = c.choice(n, "from", fleet.FromStart, fleet.FromCompletion) },
		"prompt":     func(n *yaml.Node) { s.Prompt = c.promptText(n, "prompt") },
		"resume":     func(n *yaml.Node) { s.Resume = c.bool(n, "resume") },
		"secret_env": func(n *yaml.Node) { s.SecretEnv = c.variable(n, "secret_env") },
		"enabled":    func(n *yaml.Node) { enabled := c.bool(n, "enabled"); s.Enabled = &enabled },
	}
}

// schedule reads a schedule of an agent, with the defaults merged in. shared
// is the variable with the secret of all webhooks.
func (c *checker) schedule(n *yaml.Node, a *Agent, shared string) Schedule {
	var s Schedule
	if !c.mapping(n, "a schedule", c.scheduleFields(&s)) {
		return s
	}
	if n.Get("name") == nil {
		c.reportAt(n, "a schedule without a name", "add: name: NAME")
	}
	c.inferType(&s, n)
	if s.Type != "" {
		c.checkKeys(&s, n)
		c.checkRequired(&s, n, a, shared)
	}
	if s.Type == fleet.TypeWebhook || s.Type == fleet.TypeChat {
		s.Overlap = cmp.Or(s.Overlap, fleet.OverlapQueue) // each message is different, so none is skipped
	}
	s.Overlap = cmp.Or(s.Overlap, fleet.OverlapSkip)
	return s
}

// inferType determines the type of a schedule that does not name it.
func (c *checker) inferType(s *Schedule, n *yaml.Node) {
	_, every := n.Find("every")
	cronAt, cron := n.Find("cron")
	switch {
	case n.Get("type") != nil:
	case every && cron:
		c.reportKey(cronAt, "a schedule has every or cron, one of the two", "make two schedules of it")
	case every:
		s.Type = fleet.TypeInterval
	case cron:
		s.Type = fleet.TypeCron
	default:
		c.reportAt(n, "the schedule does not say when", "add one of: every: 1h, cron: \"0 3 * * *\", type: webhook, type: chat")
	}
}

// checkKeys reports keys that have no meaning for the schedule's type, and leaves
// out such defaults.
func (c *checker) checkKeys(s *Schedule, n *yaml.Node) {
	timed := s.Type == fleet.TypeInterval || s.Type == fleet.TypeCron
	for _, rule := range []struct {
		key   string
		fits  bool
		clear func()
	}{
		{"every", s.Type == fleet.TypeInterval, func() { s.Every = 0 }},
		{"cron", s.Type == fleet.TypeCron, func() { s.Cron = "" }},
		{"zone", s.Type == fleet.TypeCron, func() { s.Zone = "" }},
		{"jitter", timed, func() { s.Jitter = 0 }},
		{"missed", timed, func() { s.Missed = "" }},
		{"from", s.Type == fleet.TypeInterval, func() { s.From = "" }},
		{"secret_env", s.Type == fleet.TypeWebhook, func() { s.SecretEnv = "" }},
	} {
		if rule.fits {
			continue
		}
		if e, ok := n.Own(rule.key); ok {
			c.reportKey(e, fmt.Sprintf("%s means nothing for type %s", rule.key, s.Type), "take it out")
		}
		rule.clear()
	}
}

// checkRequired reports what a schedule of its type is missing, and fills in
// built-in values.
func (c *checker) checkRequired(s *Schedule, n *yaml.Node, a *Agent, shared string) {
	switch s.Type {
	case fleet.TypeInterval:
		if n.Get("every") == nil {
			c.reportAt(n, "type interval needs every", "add: every: 1h")
		}
		if jitter, ok := n.Find("jitter"); ok && s.Every > 0 && s.Jitter >= s.Every {
			if jitter.Inherited { // the default is meant for longer intervals
				s.Jitter = s.Every / 2
			} else {
				c.reportAt(jitter.Value, "jitter is as long as the interval", fmt.Sprintf("make it shorter than %s", fleet.SpanText(s.Every)))
			}
		}
		s.From = cmp.Or(s.From, fleet.FromStart)
		s.Missed = cmp.Or(s.Missed, fleet.MissedOnce)
	case fleet.TypeCron:
		if n.Get("cron") == nil {
			c.reportAt(n, "type cron needs cron", `add: cron: "0 3 * * *"`)
		}
		s.Zone = cmp.Or(s.Zone, "UTC")
		s.Missed = cmp.Or(s.Missed, fleet.MissedOnce)
	case fleet.TypeWebhook:
		if s.SecretEnv = cmp.Or(s.SecretEnv, shared); s.SecretEnv == "" && n.Get("secret_env") == nil {
			c.reportAt(n, "a webhook needs a secret that its callers sign with", "add secret_env: NAME here, or in the section webhooks for all")
		}
	}
	if timed := s.Type == fleet.TypeInterval || s.Type == fleet.TypeCron; timed && a.Runner != fleet.RunnerCommand && strings.TrimSpace(s.Prompt) == "" {
		c.reportAt(n, "the schedule has no prompt", "add: prompt: what the agent should do")
	}
}

// cron reads when a schedule is due, as Timing does.
func (c *checker) cron(n *yaml.Node) string {
	spec := strings.Join(strings.Fields(c.text(n, "cron")), " ")
	switch {
	case n.Shape == yaml.List || n.Shape == yaml.Map:
		return ""
	case strings.HasPrefix(strings.ToLower(spec), "@every"):
		c.reportAt(n, "cron is @every", "write it as every: "+cmp.Or(strings.TrimSpace(spec[len("@every"):]), "1h"))
		return ""
	case strings.Contains(spec, "TZ="):
		c.reportAt(n, "cron has a zone in it", "write it as zone: Europe/Berlin")
		return ""
	}
	if err := c.book.Check(due.Timing{Cron: spec}); err != nil {
		hint := `write minute, hour, day, month and weekday, like "30 3 * * MON-FRI", with seconds before them if needed, or a name like "@daily"`
		if errors.Is(err, due.ErrNeverFires) {
			hint = "look at the day and the month"
		}
		c.reportAt(n, fmt.Sprintf("%.200v", err), hint)
		return ""
	}
	return spec
}

// zone reads the name of a time zone.
func (c *checker) zone(n *yaml.Node) string {
	name := c.text(n, "zone")
	if n.Shape == yaml.List || n.Shape == yaml.Map {
		return ""
	}
	known, seen := c.zones[name]
	if !seen {
		_, err := due.LoadZone(name)
		known = err == nil && name != "" && name != "Local"
		c.zones[name] = known
	}
	if known {
		return name
	}
	hint := "write it like Europe/Berlin or UTC"
	switch near := zoneLike(name); {
	case name == "Local" || name == "local":
		hint = "name it, like Europe/Berlin: two machines may have different ones"
	case near != "":
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	c.reportAt(n, fmt.Sprintf("there is no time zone %s", described(n)), hint)
	return ""
}

// zoneLike returns the zone whose name differs from name only in case and
// spaces.
func zoneLike(name string) string {
	if len(name) > 40 {
		return ""
	}
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return r == ' ' || r == '_' })
	joined := []byte(strings.Join(words, "_"))
	for i := range joined {
		if (i == 0 || strings.IndexByte("/_-", joined[i-1]) >= 0) && 'a' <= joined[i] && joined[i] <= 'z' {
			joined[i] -= 'a' - 'A'
		}
	}
	for _, try := range []string{string(joined), strings.ToUpper(string(joined))} {
		if _, err := time.LoadLocation(try); err == nil && try != "" && try != "Local" {
			return try
		}
	}
	return ""
}
