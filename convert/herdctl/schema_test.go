package herdctl

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
)

// The schemas that herdctl reads its files with, written down once more: what
// is exported has to pass them. They are stricter than herdctl where a page of
// its documentation is.

type schema map[string]rule

type rule struct {
	ok                 func(any) bool
	optional, nullable bool
}

func (s schema) check(v any) error {
	o, ok := v.(map[string]any)
	if !ok {
		return fmt.Errorf("is %T, no object", v)
	}
	for key, r := range s {
		value, there := o[key]
		switch {
		case !there && r.optional, there && value == nil && r.nullable:
		case !there:
			return fmt.Errorf("%s is required", key)
		case !r.ok(value):
			return fmt.Errorf("%s: %v is not taken", key, value)
		}
	}
	return nil
}

func zText(v any) bool   { _, ok := v.(string); return ok }
func zFilled(v any) bool { s, ok := v.(string); return ok && s != "" }
func zBool(v any) bool   { _, ok := v.(bool); return ok }
func zAny(any) bool      { return true }
func zCount(v any) bool  { n, ok := v.(float64); return ok && n >= 0 }
func zWhole(v any) bool  { n, ok := v.(float64); return ok && n >= 0 && n == float64(int64(n)) }
func zTime(v any) bool {
	s, ok := v.(string)
	_, err := time.Parse(time.RFC3339, s)
	return ok && err == nil
}
func zUTC(v any) bool { return zTime(v) && strings.HasSuffix(v.(string), "Z") }
func zEnum(words ...string) func(any) bool {
	return func(v any) bool { s, ok := v.(string); return ok && slices.Contains(words, s) }
}
func zMatch(re string) func(any) bool {
	like := regexp.MustCompile(re)
	return func(v any) bool { s, ok := v.(string); return ok && like.MatchString(s) }
}
func zEach(s schema) func(any) bool {
	return func(v any) bool {
		o, ok := v.(map[string]any)
		for _, value := range o {
			ok = ok && s.check(value) == nil
		}
		return ok
	}
}
func zObject(s schema) func(any) bool { return func(v any) bool { return s.check(v) == nil } }

const jobIDPattern = `^job-\d{4}-\d{2}-\d{2}-[a-z0-9]{6}$`

func stateSchema() schema {
	schedule := schema{
		"status":      {zEnum("idle", "running", "disabled"), false, false},
		"last_run_at": {zTime, true, true}, "next_run_at": {zTime, true, true}, "last_error": {zText, true, true},
	}
	agent := schema{
		"status":      {zEnum("idle", "running", "error"), false, false},
		"current_job": {zText, true, true}, "last_job": {zText, true, true}, "next_schedule": {zText, true, true},
		"next_trigger_at": {zTime, true, true}, "container_id": {zText, true, true}, "error_message": {zText, true, true},
		"schedules": {zEach(schedule), true, false},
	}
	wake := schema{
		"id": {zText, false, false}, "agent": {zText, false, false}, "sessionId": {zText, false, false}, "schedule": {zText, false, false},
		"recurring": {zBool, false, false}, "prompt": {zText, false, false}, "nextRunAt": {zTime, false, false}, "createdAt": {zTime, false, false},
	}
	return schema{
		"fleet":  {zObject(schema{"started_at": {zTime, true, false}}), false, false},
		"agents": {zEach(agent), false, false}, "session_wakes": {zEach(wake), true, false},
	}
}

func jobSchema() schema {
	tokens := schema{"input_tokens": {zCount, false, false}, "output_tokens": {zCount, false, false},
		"cache_creation_input_tokens": {zCount, false, false}, "cache_read_input_tokens": {zCount, false, false}}
	usage := schema{"per_model": {zEach(tokens), false, false}, "num_turns": {zCount, true, false}, "total_cost_usd": {zCount, true, false}}
	return schema{
		"id": {zMatch(jobIDPattern), false, false}, "agent": {zFilled, false, false}, "schedule": {zText, true, true},
		"trigger_type": {zEnum("manual", "schedule", "webhook", "chat", "discord", "slack", "web", "fork", "spawned"), false, false},
		"status":       {zEnum("pending", "running", "completed", "failed", "cancelled"), false, false},
		"exit_reason":  {zEnum("success", "error", "timeout", "cancelled", "max_turns"), true, true},
		"session_id":   {zText, true, true}, "forked_from": {zMatch(jobIDPattern), true, true},
		"started_at": {zTime, false, false}, "finished_at": {zTime, true, true}, "duration_seconds": {zCount, true, true},
		"prompt": {zText, true, true}, "summary": {zText, true, true}, "output_file": {zText, true, true},
		"usage": {zObject(usage), true, true},
	}
}

func sessionSchema() schema {
	return schema{
		"agent_name": {zFilled, false, false}, "session_id": {zFilled, false, false},
		"created_at": {zUTC, false, false}, "last_used_at": {zUTC, false, false}, "job_count": {zWhole, false, false},
		"mode": {zEnum("autonomous", "interactive", "review"), false, false}, "working_directory": {zText, true, false},
		"runtime_type": {zEnum("sdk", "cli"), true, false}, "docker_enabled": {zBool, true, false},
	}
}

func eventSchema(kind any) (schema, error) {
	s := schema{"timestamp": {zTime, false, false}}
	add := func(key string, ok func(any) bool, optional bool) { s[key] = rule{ok, optional, false} }
	switch kind {
	case "system":
		add("content", zText, true)
		add("subtype", zText, true)
	case "assistant":
		add("content", zText, true)
		add("partial", zBool, true)
		add("usage", zObject(schema{"input_tokens": {zCount, true, false}, "output_tokens": {zCount, true, false}}), true)
	case "tool_use":
		add("tool_name", zText, false)
		add("tool_use_id", zText, true)
		add("input", zAny, true)
	case "tool_result":
		add("tool_use_id", zText, true)
		add("result", zAny, true)
		add("success", zBool, true)
		add("error", zText, true)
	case "error":
		add("message", zText, false)
		add("code", zText, true)
		add("stack", zText, true)
	default:
		return nil, fmt.Errorf("type %v is not known", kind)
	}
	return s, nil
}

// loose returns a YAML file as the decoder of the library reads it, without the
// tree of this room, or a JSON file, as JSON values.
func loose(t testing.TB, name string, b []byte) any {
	t.Helper()
	var v any
	if path.Ext(name) != ".yaml" {
		if err := json.Unmarshal(b, &v); err != nil {
			t.Errorf("%s: %v\n%s", name, err, b)
		}
		return v
	}
	// Not by YAMLToJSON, which writes control characters as JSON has none.
	var read any
	err := yaml.Unmarshal(b, &read)
	if err == nil {
		var asJSON []byte
		if asJSON, err = json.Marshal(read); err == nil {
			err = json.Unmarshal(asJSON, &v)
		}
	}
	if err != nil {
		t.Errorf("%s: %v\n%s", name, err, b)
	}
	return v
}

// checkTree checks everything that was exported.
func checkTree(t testing.TB, fsys fs.FS) {
	t.Helper()
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		below, ok := strings.CutPrefix(name, folder+"/")
		dir, base := path.Split(below)
		var s schema
		switch dir = strings.TrimSuffix(dir, "/"); {
		case !ok:
			t.Errorf("%s: lies beside the folder", name)
		case below == stateFile:
			s = stateSchema()
		case dir == jobsDir && path.Ext(base) == yamlEnd:
			s = jobSchema()
		case dir == jobsDir:
			checkOutput(t, name, b)
			return nil
		case dir == sessionsDir:
			s = sessionSchema()
		case dir == metadataDir:
			s = schema{"version": {zCount, false, false}, "agentName": {zFilled, false, false}, "sessions": {zEach(schema{}), false, false}}
		case dir == adoptedDir:
			s = schema{"version": {zCount, false, false}, "sessionId": {zFilled, false, false}, "agentName": {zFilled, false, false}, "adoptedAt": {zUTC, false, false}}
		case dir == logsDir:
			return nil
		case strings.HasSuffix(dir, channelDirEnd):
			s = schema{"version": {zCount, false, false}, "agentName": {zFilled, false, false},
				"channels": {zEach(schema{"sessionId": {zFilled, false, false}, "lastMessageAt": {zTime, false, false}}), false, false}}
		default:
			t.Errorf("%s: herdctl has no such file", name)
		}
		if err := s.check(loose(t, name, b)); err != nil {
			t.Errorf("%s: %v\n%s", name, err, b)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func checkOutput(t testing.TB, name string, b []byte) {
	t.Helper()
	for line := range bytes.Lines(b) {
		v, _ := loose(t, name, line).(map[string]any)
		s, err := eventSchema(v["type"])
		if err == nil {
			err = s.check(v)
		}
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, line)
		}
		if at := bytes.LastIndex(line, []byte(`,"timestamp":"`)); at < 0 || bytes.ContainsAny(line[at+1:len(line)-3], `,{`) {
			t.Errorf("%s: the time is not last: %s", name, line)
		}
	}
}
